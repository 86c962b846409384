package declared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

func TestDefaultOf(t *testing.T) {
	for _, tt := range []struct {
		text, flag string
		want       int64 // 0: not known
	}{
		{`p.add_argument("--accum", type=int, default=8)`, "--accum", 8},
		{`p.add_argument('-a', '--accum', help='(default: 3)', default = 1, type=int)`, "--accum", 1},
		{"p.add_argument(\n    '--accum',\n    type=int,\n    default=8,\n)\np.add_argument('--x', default=3)", "--accum", 8},
		{`@click.option("--grad-accum", default=2*4, show_default=True)`, "--grad-accum", 8},
		{"accum = 5 * 8 # simulates larger batches\nexec(open('configurator.py').read())\naccum //= 2\n", "--accum", 40},
		{"import tyro\n@dataclass\nclass Args:\n    accum: int = 4\nargs = tyro.cli(Args)\n", "--accum", 4},
		{"from transformers import HfArgumentParser, TrainingArguments\n" +
			"args = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()\n",
			"--gradient_accumulation_steps", 1},
		{`p.add_argument("--accum", type=int)` + "\np.add_argument('--x', default=3)", "--accum", 0},
		{`p.add_argument("--accum", default=DEFAULT)`, "--accum", 0},
		{"a.add_argument('--accum', default=1)\nb.add_argument('--accum', default=8)", "--accum", 0},
		{"accum = world * 2\n", "--accum", 0},
		{`p.add_argument("--accumulate", default=8)`, "--accum", 0},
		{`p.add_argument("--accum", default=0)`, "--accum", 0},
		{"# p.add_argument('--accum', default=40)\np.add_argument('--accum', default=8)", "--accum", 8},
		{"p.add_argument('--accum', help='such as :) default=3', default=8)", "--accum", 8},
		{"def evaluate():\n    accum = 1\n", "--accum", 0},
		{"if a:\n    p.add_argument('--accum', default=1)\nelse:\n    p.add_argument('--accum', default=4)\n", "--accum", 0},
		{"p.add_argument('--accum', default=1)\np.set_defaults(**json.load(open('a.json')))\n", "--accum", 0},
		{"p.add_argument('--accum', default=1)\np.set_defaults(accum=4)\n", "--accum", 4},
		{"", "--accum", 0},
	} {
		text, ok := programWith(t, tt.text).defaultOf(place{names: []string{tt.flag}})
		if n, _ := product(text).(int64); n != tt.want || ok != (tt.want > 0) {
			t.Errorf("%s in %q: %q, %v; want %d", tt.flag, tt.text, text, ok, tt.want)
		}
	}
}

// programWith is the program of a script.
func programWith(t *testing.T, text string) *program {
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return &program{path: path}
}

// Defaults are read wherever the program declares them, and so is what an option takes.
func TestDefaultsOfProject(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"train.py": "import opts\nfrom transformers import HfArgumentParser, TrainingArguments\np = opts.parser()\n" +
			"HfArgumentParser(TrainingArguments)\nbatch = 64\n",
		"opts.py": "N = 2\ndef parser():\n    p.add_argument('--batch', default=4 * N)\n    p.add_argument('--amp', " +
			"action='store_true')\n    p.add_argument('--out')\n    p.add_argument('--gpus', nargs='+')\n    return p\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &program{path: filepath.Join(dir, "train.py")}
	for name, want := range map[string]struct {
		value string
		takes config.Takes
	}{
		"--batch":                       {"8", config.One},
		"--amp":                         {"False", config.None},
		"--out":                         {"", config.One},
		"--gpus":                        {"", config.Some},
		"--per-device-train-batch-size": {"8", config.One},
		"--bf16":                        {"False", config.Maybe},
		"--nothing":                     {"", config.One},
	} {
		at := place{names: []string{name}}
		value, known := p.defaultOf(at)
		if known != (want.value != "") || known && value != want.value || p.takesOf(at) != want.takes {
			t.Errorf("%s: %q, %v, takes %v; want %+v", name, value, known, p.takesOf(at), want)
		}
	}
}

// A script that accumulates 8 unless it is told keeps its global batch; where that is not known nothing is made up.
func TestImpliedAccumulation(t *testing.T) {
	eight, unknown := `p.add_argument("--accum", default=8)`, job.Batch{Micro: 32, Ranks: 1}
	for name, tt := range map[string]struct {
		script, args string
		want         job.Batch
		first        string
		cost         ladder.Cost
	}{
		"in the script": {eight, "", job.Batch{Micro: 32, Accumulation: 8, Ranks: 1},
			"micro-batch 16 × accumulation 16", ladder.Speed},
		"not known":              {"", "", unknown, "micro-batch 16", ladder.Recipe},
		"set by a file":          {eight, " set.yml", unknown, "micro-batch 16", ladder.Recipe},
		"in a file of arguments": {eight, " @args.txt", unknown, "micro-batch 16", ladder.Recipe},
		"by another name": {eight + "\np.add_argument('--steps', dest='accum')", " --steps 2", unknown, "micro-batch 16",
			ladder.Recipe},
		"on the command": {eight, " --accum 2", job.Batch{Micro: 32, Accumulation: 2, Ranks: 1},
			"micro-batch 16 × accumulation 4", ladder.Speed},
	} {
		c := project(t, "script: train.py\nmicro-batch: --batch\naccumulation: --accum\n")
		for file, text := range map[string]string{
			"train.py": tt.script, "set.yml": "accum: 4\n", "args.txt": "--accum\n4\n",
		} {
			if err := os.WriteFile(filepath.Join(c.Dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c.Args = strings.Fields("python train.py --batch 32" + tt.args)
		recognized, err := New().Recognize(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		j := recognized.Job()
		j.Command = c
		set, err := recognized.Ladders(t.Context(), gpu.Device{})
		if err != nil {
			t.Fatal(err)
		}
		if r := set.Phases[0].Rungs[set.Phases[0].Asked+1]; j.Batch != tt.want || r.Name != tt.first ||
			r.Cost != tt.cost || (len(j.Warnings) > 0) != (tt.cost == ladder.Recipe) {
			t.Errorf("%s: batch %+v, first rung %q at cost %v, warnings %q", name, j.Batch, r.Name, r.Cost, j.Warnings)
		}
	}
}

// What Hydra composes by default counts only where the command does not make it compose something else.
func TestHydraDefaults(t *testing.T) {
	files := map[string]string{
		"train.py": "import hydra\n@hydra.main(config_path='conf', config_name='config')\n" +
			"def main(c): pass\nmain()\n",
		"conf/config.yaml":           "batch: 8\naccum: 2\nlr: 1\n",
		"conf/experiment/large.yaml": "# @package _global_\naccum: 4\n",
		"conf/other.yaml":            "batch: 8\naccum: 4\n",
	}
	for args, want := range map[string]job.Batch{
		"":                                  {Micro: 8, Accumulation: 2, Ranks: 1},
		"lr=2 hydra.run.dir=x":              {Micro: 8, Accumulation: 2, Ranks: 1},
		"+experiment=large batch=8":         {Micro: 8, Ranks: 1},
		"--config-name other batch=8":       {Micro: 8, Ranks: 1},
		"-cn other batch=8":                 {Micro: 8, Ranks: 1},
		"~lr batch=8":                       {Micro: 8, Ranks: 1},
		"+experiment=large batch=8 accum=3": {Micro: 8, Accumulation: 3, Ranks: 1},
	} {
		j, set := planned(t, try{files: files, command: strings.TrimSpace("python train.py " + args)}.in(t,
			"script: train.py\nmicro-batch: batch=\naccumulation: accum=\n"))
		if sure := len(set.Invariants) == 1; j.Batch != want || sure != (want.Accumulation > 0) {
			t.Errorf("%q: %+v, an invariant: %v", args, j.Batch, sure)
		}
	}
}

// A program that chooses the state itself is told to only where it can choose one file alone.
func TestResumeValue(t *testing.T) {
	for glob, ok := range map[string]bool{"out/ckpt.pt": true, "{--out_dir}/ckpt.pt": true, "out/*.pt": false, "runs/{--where}/ckpt.pt": false} {
		c := project(t, "script: train.py\nmicro-batch: --batch\nresume: {--init_from: '"+glob+"'}\nresume-value: resume\n")
		c.Args = strings.Fields("python train.py --batch=32 --out_dir=o")
		recognized, err := New().Recognize(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		j := recognized.Job()
		j.Command = c
		if (j.Resume.None == "") != ok {
			t.Errorf("%s: %q", glob, j.Resume.None)
		}
		if ok {
			out, err := j.Rewrite(j.Resume.Edits, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Command.Args; got[len(got)-1] != "--init_from=resume" {
				t.Errorf("%s: %q", glob, got)
			}
		}
	}
}

// A class of the script that takes over a library's fields may give them other defaults than a ready declaration has.
func TestRedeclared(t *testing.T) {
	const head = "import transformers\nfrom transformers import HfArgumentParser\n"
	const tail = "args = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()\n"
	for text, want := range map[string]job.Batch{
		head + "from transformers import TrainingArguments\n" +
			tail: {Micro: 8, Accumulation: 1, Ranks: 1},
		head + "@dataclass\nclass TrainingArguments(transformers.TrainingArguments):\n" +
			"    per_device_train_batch_size: int = field(default=1)\n" +
			"    gradient_accumulation_steps: int = field(default=16)\n" + tail: {Micro: 1, Accumulation: 16, Ranks: 1},
	} {
		// the name in a comment is no code that resumes
		text += "# resume_from_checkpoint is not supported\ntrainer.train()\n"
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := job.Command{Args: []string{"python", "run.py"}, Dir: dir, Devices: 1}
		recognized, err := New().Recognize(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if j := recognized.Job(); j.Batch != want || j.Resume.None == "" {
			t.Errorf("%q: %+v, resume %+v; want %+v", text, j.Batch, j.Resume, want)
		}
	}
}

// The file of settings of configargparse may set any option, whatever the file is called.
func TestConfigArgparse(t *testing.T) {
	for args, want := range map[string]int64{"": 4096, " --config a.txt": 0, " --config b.txt": 4096} {
		j, _ := planned(t, try{files: map[string]string{
			"train.py": "import configargparse\np = configargparse.ArgumentParser()\n" +
				"p.add_argument('--config', is_config_file=True)\np.add_argument('--rays', type=int, default=4096)\n",
			"a.txt": "rays = 1024\n", "b.txt": "name = x\n",
		}, command: "python train.py" + args}.in(t, "script: train.py\nmicro-batch: --rays\n"))
		if j.Batch.Micro != want {
			t.Errorf("%q: %+v, want %d", args, j.Batch, want)
		}
	}
}
