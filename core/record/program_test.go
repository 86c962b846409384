package record

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// The digest of a program is the same at every micro-batch and differs with anything else.
func TestProgram(t *testing.T) {
	var asked []config.Edit
	at := func(text string, args ...string) string {
		doc, _ := config.Parse("x.yml", []byte(text))
		micro, _ := doc.Get("batch")
		return programOf(&job.Job{
			Command: job.Command{Args: append([]string{"python", "train.py", "-opt", "x.yml"}, args...), Dir: "/w"},
			Options: []config.Option{{Names: []string{"-opt"}}},
			Files:   []job.File{{Path: "x.yml", Format: "yaml", Flag: "-opt", Text: []byte(text)}},
			Knobs:   []job.Knob{{Name: job.MicroBatch, At: config.Address{Doc: "x.yml", Path: "batch"}, Value: micro}},
			Asked:   asked,
		})
	}
	first := at("{batch: 16, width: 2}\n")
	if first != at("{batch: 8, width: 2}\n") {
		t.Error("another micro-batch is another program")
	}
	for name, other := range map[string]string{"width": at("{batch: 16, width: 3}\n"), "argument": at("{batch: 16, width: 2}\n", "--deep")} {
		if other == first {
			t.Errorf("another %s is the same program", name)
		}
	}
	// what the user has set counts as if the recipe had it
	asked = []config.Edit{{At: config.Address{Doc: "x.yml", Path: "width"}, From: "2", To: "3"}}
	wide := at("{batch: 16, width: 2}\n")
	if asked = nil; wide == first || wide != at("{batch: 16, width: 3}\n") {
		t.Error("a width that was set is not that of the program")
	}
}

// A job without a formula is the same program with another value of a setting that changes no memory, in every
// spelling, and another program with any other argument.
func TestIgnored(t *testing.T) {
	micro := []job.Knob{
		{Name: job.MicroBatch, At: config.Address{Doc: config.ArgvDoc, Path: "--batch"}, Value: "8", Default: true},
	}
	of := func(line string, ignore ...string) string {
		return programOf(&job.Job{
			Command: job.Command{Args: strings.Fields(line), Dir: "/w"},
			Options: []config.Option{{Names: []string{"--batch", "-b"}}, {Names: []string{"--amp"}, Takes: config.None}},
			Knobs:   micro, Ignore: ignore,
		})
	}
	for _, tt := range []struct {
		a, b   string
		ignore []string
		same   bool
	}{
		{"python t.py --lr 1e-3", "python t.py --lr 3e-2", nil, true},
		{"python t.py --lr 1e-3", "python t.py --lr=3e-2", nil, true},
		{"python t.py --lr 1e-3 --deep", "python t.py --deep", nil, true},
		{"python t.py --learning_rate -1", "python t.py --learning-rate 1", nil, true},
		{"python t.py lr=16", "python t.py lr=64", nil, false}, // a low resolution?
		{"python t.py lr=1e-3 model=a", "python t.py model=a optimizer.lr=2e-3 +train.seed=7", nil, true},
		{"torchrun --nproc-per-node 2 t.py --seed 1", "torchrun --nproc-per-node 2 t.py --seed 2", nil, true},
		{"sh -c 'python t.py --seed 1'", "sh -c 'python t.py --seed 2'", nil, false}, // Fields leaves the quotes
		{"python t.py --out a/b --run-name 3", "python t.py --run-name 4 --out c", nil, true},
		{"python t.py --batch 8 --deep", "python t.py --deep", nil, true}, // its default
		{"python t.py -b 8 --deep", "python t.py --deep --batch=16", nil, true},

		{"python t.py --lr cosine", "python t.py --lr step", nil, false},
		{"python t.py --out 10", "python t.py --out 20", nil, false}, // a width?
		{"python t.py model.out=a", "python t.py model.out=b", nil, false},
		{"python t.py --name resnet18", "python t.py --name resnet50", nil, false},
		{"python t.py --momentum 0", "python t.py --momentum 0.9", nil, false},
		{"python t.py --width 1 --lr 1", "python t.py --width 2 --lr 1", nil, false},
		{"python t.py --width 1 2", "python t.py --width 2 1", nil, false},
		{"python t.py seed.py", "python t.py lr.py", nil, false},
		{"torchrun --nproc-per-node 1 t.py", "torchrun --nproc-per-node 2 t.py", nil, false},

		{"python t.py --name a", "python t.py --name=b", []string{"--name"}, true},
		{"python t.py name=a", "python t.py +name=b", []string{"name="}, true},
		{"python t.py name=a", "python t.py name=b", []string{"name"}, true},
		{"python t.py name=a", "python t.py --name b", []string{"name="}, false},
		{"python t.py --name a x", "python t.py --name b y", []string{"--name"}, false},
		{"python t.py --amp x", "python t.py --amp y", []string{"--amp"}, false}, // a flag has no value
		{"python t.py --amp x", "python t.py x", []string{"--amp"}, true},
	} {
		if same := of(tt.a, tt.ignore...) == of(tt.b, tt.ignore...); same != tt.same {
			t.Errorf("%s and %s, ignoring %q: the same program: %v, want %v", tt.a, tt.b, tt.ignore, same, tt.same)
		}
	}
	formula := func(lr string) string {
		return programOf(&job.Job{Arch: "net", Command: job.Command{Args: []string{"python", "t.py", "--lr", lr}, Dir: "/w"}})
	}
	if formula("1") == formula("2") {
		t.Error("a setting of a job with a formula is ignored by its name")
	}
}

// Values in the recipe's files are ignored if the plugin names them, and count as the user has set them otherwise.
func TestIgnoredInFiles(t *testing.T) {
	at := config.Address{Doc: "conf/x.yml", Path: "train.lr"}
	of := func(text string, ignore []string, asked ...config.Edit) string {
		return programOf(&job.Job{
			Command: job.Command{Args: []string{"python", "t.py", "-opt", "conf/x.yml"}, Dir: "/w"},
			Options: []config.Option{{Names: []string{"-opt"}}},
			Files:   []job.File{{Path: "conf/x.yml", Format: "yaml", Flag: "-opt", Text: []byte(text)}},
			Ignore:  ignore, Asked: asked,
		})
	}
	for _, ignore := range [][]string{{"x.yml: train.lr"}, {"conf/x.yml: train.lr"}, {"train.lr"}} {
		first := of("train: {lr: 1e-3, width: 2}\n", ignore)
		if first != of("train: {lr: 2e-3, width: 2}\n", ignore) {
			t.Errorf("%q: another learning rate is another program", ignore)
		}
		if first != of("train: {lr: 1e-3, width: 2}\n", ignore, config.Edit{At: at, From: "1e-3", To: "5"}) {
			t.Errorf("%q: a learning rate that was set is another program", ignore)
		}
		if first == of("train: {lr: 1e-3, width: 3}\n", ignore) {
			t.Errorf("%q: another width is the same program", ignore)
		}
	}
	if of("train: {lr: 1}\n", nil) == of("train: {lr: 2}\n", nil) {
		t.Error("a value in a file is ignored by its name")
	}
	if of(
		"train: {lr: 1}\n",
		[]string{"x.yml: lr", "y.yml: train.lr"},
	) == of(
		"train: {lr: 2}\n",
		[]string{"x.yml: lr", "y.yml: train.lr"},
	) {
		t.Error("a value at another place is ignored")
	}
}
