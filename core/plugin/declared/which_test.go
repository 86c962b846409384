package declared

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/plugin"
)

// A declaration is about the commands that it names, and about no others.
func TestWhich(t *testing.T) {
	const places = "\nmicro-batch: {at: --batch, default: 8}\n"
	files := map[string]string{"pkg/train.py": "from torch import nn\n", "pkg/__init__.py": "",
		"tools/train.py": "import timm, nn\n", "model.py": ""}
	for _, tt := range []struct {
		head, command string
		is            bool
	}{
		{"script: train.py", "python train.py", true},
		{"script: train.py", "python tools/train.py", true},
		{"script: tools/train.py", "python tools/train.py", true},
		{"script: tools/train.py", "python train.py", false},
		{"script: [a.py, train_*.py, train.py]", "python train.py", true},
		{"script: train*.py", "python train.py", true},
		{"script: trainer.py", "python train.py", false},
		{"script: pkg.train", "python -m pkg.train", true},
		{"script: pkg.train", "python pkg/train.py", true},
		{"script: train.py", "python -m pkg.train", true},
		{"script: other.train", "python -m pkg.train", false},
		{"script: train.py", "torchrun --nproc_per_node 2 train.py", true},
		{"script: train.py", "python -c pass", false},
		{"script: train.py\ncontains: [timm]", "python tools/train.py", true},
		{"script: train.py\ncontains: [timm]", "python train.py", false},
		{"script: train.py\ncontains: [nn, [jax, torch]]", "python -m pkg.train", true},
		{"script: train.py\ncontains: [nn, 'jax|torch']", "python -m pkg.train", true},
		{"script: train.py\ncontains: [timm, [jax, torch]]", "python tools/train.py", false},
		{"script: train.py\nbeside: [x.py, model.py]", "python train.py", true},
		{"script: train.py\nbeside: x.py", "python train.py", false},
		{"script: train.py\narguments: [train, detect]", "python train.py detect", true},
		{"script: train.py\narguments: train", "python train.py predict", false},
	} {
		_, err := recognized(t, try{files, tt.command, 0}.in(t, tt.head+places))
		if (err == nil) != tt.is || !tt.is && !errors.Is(err, plugin.ErrNotMine) {
			t.Errorf("%s, %s: %v", tt.head, tt.command, err)
		}
	}
}

// A mistake in a declaration about another script does not concern the command.
func TestMistakeElsewhere(t *testing.T) {
	for head, own := range map[string]bool{"script: train.py": true, "script: [eval.py, train.py]": true,
		"script: eval.py": false} {
		_, err := recognized(t, try{command: "python train.py"}.in(t, head+"\nmicrobatch: --b\n"))
		if err == nil || errors.Is(err, plugin.ErrNotMine) == own {
			t.Errorf("%s: %v", head, err)
		}
	}
}

// A command that the declaration leaves alone runs as typed, with the reason.
func TestLeave(t *testing.T) {
	head := "script: train.py\nmicro-batch: {at: --batch, default: 8}\nleave:\n" +
		"  - {when: {--auto: true}, why: it adapts}\n  - {when: {mode=: [val, predict], --batch: -1}, why: it trains " +
		"nothing}\n"
	for args, why := range map[string]string{
		"": "", "--auto true": "it adapts", "--auto=True": "it adapts", "--auto false": "", "mode=val": "",
		"mode=val --batch=-1": "it trains nothing", "mode=predict --batch -1": "it trains nothing",
	} {
		_, err := recognized(t, try{command: "python train.py " + args}.in(t, head))
		var caution *plugin.Caution
		if errors.As(err, &caution) != (why != "") || why != "" && !strings.HasSuffix(caution.Why, why) {
			t.Errorf("%q: %v, want %q", args, err, why)
		}
	}
}

// nanoGPT is what its ready declaration looks for.
var nanoGPT = map[string]string{
	"configurator.py": "", "train.py": "out_dir = 'out'\nbatch_size = 12\ngradient_accumulation_steps = 5 * " +
		"8\nblock_size = 1024\n" +
		"eval_only = False\nexec(open('configurator.py').read())\niter_num = 0\n",
	"config/a.py": "out_dir = 'out-a'\nbatch_size = 64\ngradient_accumulation_steps = 1\n",
}

// The file beside the script comes before a ready declaration, and a ready one needs no trust.
func TestReadyOrder(t *testing.T) {
	c := try{nanoGPT, "python train.py", 0}.in(t, "")
	if err := os.Chmod(c.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r, err := recognized(t, c)
	if err != nil || r.Job().Dialect != "ready: nanogpt" {
		t.Fatalf("%v", err)
	}
	r, err = recognized(t, try{nanoGPT, "python train.py", 0}.in(t,
		"script: train.py\nmicro-batch: --batch_size\nprefer: true\n"))
	if err != nil || !strings.HasPrefix(r.Job().Dialect, "declared in ") || !r.Job().Preferred {
		t.Fatalf("%v", err)
	}
	r, err = recognized(t, try{nanoGPT, "python train.py", 0}.in(t, "script: eval.py\nmicro-batch: --batch_size\n"))
	if err != nil || r.Job().Dialect != "ready: nanogpt" {
		t.Fatalf("%v", err)
	}
	c = try{nanoGPT, "python train.py", 0}.in(t, "script: train.py\nmicro-batch: --batch_size\n")
	if err := os.Chmod(filepath.Join(c.Dir, File), 0o666); err != nil {
		t.Fatal(err)
	}
	var caution *plugin.Caution
	if _, err = recognized(t, c); !errors.As(err, &caution) {
		t.Errorf("a declaration that others can write is passed over: %v", err)
	}
	other := maps.Clone(nanoGPT)
	other["train.py"] = "import configurator\n"
	if _, err = recognized(t, try{other, "python train.py", 0}.in(t, "")); !errors.Is(err, plugin.ErrNotMine) {
		t.Errorf("another train.py: %v", err)
	}
}

// nanoGPT's own commands: what it reads last counts, and under torchrun it divides its accumulation.
func TestNanoGPT(t *testing.T) {
	for command, want := range map[string]string{
		"python train.py": "12 × 40 × 1: --gradient_accumulation_steps=48 --batch_size=10 " +
			"→ out/ckpt.pt",
		"python train.py config/a.py": "64 × 1 × 1: config/a.py --gradient_accumulation_steps=2 " +
			"--batch_size=32 → out-a/ckpt.pt",
		"python train.py config/a.py --batch_size=16": "16 × 1 × 1: config/a.py --batch_size=8 " +
			"--gradient_accumulation_steps=2 → out-a/ckpt.pt",
		"torchrun --nproc_per_node=4 train.py": "12 × 10 × 4: --gradient_accumulation_steps=48 --batch_size=10 " +
			"→ out/ckpt.pt",
		"python train.py --out_dir=o/b": "12 × 40 × 1: --out_dir=o/b --gradient_accumulation_steps=48 " +
			"--batch_size=10 → o/b/ckpt.pt",
	} {
		j, set := planned(t, try{nanoGPT, command, 0}.in(t, ""))
		b := j.Batch
		args := made(t, j, set.Phases[0].Rungs[1].Edits)
		args = strings.TrimPrefix(args, "train.py ")
		got := sprint(b.Micro, " × ", b.Accumulation, " × ", b.Ranks, ": ", args, " → ", strings.Join(j.Signs.States, " "))
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", command, got, want)
		}
		if args := made(t, j, j.Resume.Edits); !strings.HasSuffix(args, "--init_from=resume") {
			t.Errorf("%s: it resumes by %s", command, args)
		}
	}
}
