package kit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// A stranger is a command of another family, with as much of its project as its plugin would look at.
type stranger struct {
	args  string
	files map[string]string
}

// strangers are commands that many projects have, and those of the families that launch knows. They are written for
// this purpose.
var strangers = []stranger{
	{"python3 -c pass", nil},
	{"python3 no_such_script.py", nil},
	{"python3 -m http.server 8000", nil},
	{"python3 -m pytest tests", map[string]string{"tests/test_a.py": "def test(): pass\n"}},
	{"python3 manage.py runserver", map[string]string{"manage.py": "print('a web server')\n",
		"config.yaml": "port: 8000\n"}},
	{"python3 train.py", map[string]string{"train.py": "print('no training at all')\n"}},
	{"python3 train.py --verbose", map[string]string{"train.py": ""}},
	{"python3 main.py", map[string]string{"main.py": "import sys\nprint(sys.argv)\n"}},
	{"python3 train.py --config settings.yaml", map[string]string{
		"train.py":      "from sklearn.linear_model import LogisticRegression\n",
		"settings.yaml": "model: logistic\npenalty: l2\nsolver: liblinear\n"}},
	{"python3 train.py -opt notes.yml", map[string]string{"train.py": "print(1)\n", "notes.yml": "- milk\n- bread\n"}},
	{"bash run.sh", map[string]string{"run.sh": "echo hello\n"}},
	{"sleep 1", nil},
	{"yolo detect train data=coco8.yaml model=yolo11n.pt epochs=3", nil},
	{"llamafactory-cli train examples/sft.yaml", map[string]string{
		"examples/sft.yaml": "stage: sft\nper_device_train_batch_size: 1\n"}},
	{"nnUNetv2_train 1 2d 0", nil},
	{"python3 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --do_train --output_dir out",
		map[string]string{"run_clm.py": "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"}},
	{"python3 main.py fit --config config.yaml", map[string]string{
		"main.py":     "from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n",
		"config.yaml": "trainer: {max_epochs: 3}\ndata: {batch_size: 32}\n"}},
	{"torchrun --standalone --nproc_per_node 2 train.py config/small.py", map[string]string{
		"train.py":        "batch_size = 12\nexec(open('configurator.py').read())\n",
		"configurator.py": "import sys\n", "config/small.py": "batch_size = 4\n"}},
	{"accelerate launch train_text_to_image.py --pretrained_model_name_or_path m --train_batch_size 1", map[string]string{
		"train_text_to_image.py": "import diffusers\n"}},
	{"python3 train.py data --model resnet50 --batch-size 64 --amp",
		map[string]string{"train.py": "from timm.models import create_model\n"}},
	{"python3 train.py -opt options/train.yml", map[string]string{
		"train.py": "from basicsr.train import train_pipeline\n",
		"options/train.yml": "name: x\nscale: 4\nnetwork_g: {type: compact}\ndatasets:\n" +
			"  train: {name: d, type: PairedImageDataset, dataroot_gt: gt, dataroot_lq: lq, batch_size: 8, lq_size: 32}\n" +
			"train:\n  total_iter: 10\n"}},
	{"python3 main_moco.py -a resnet50 --batch-size 256 --multiprocessing-distributed --world-size 1 --rank 0 data",
		map[string]string{"main_moco.py": "import torch\nimport moco.builder\n", "moco/builder.py": "class MoCo: pass\n"}},
	{"python3 main.py --train --base configs/x.yaml --gpus 0,", map[string]string{
		"main.py":        "from ldm.util import instantiate_from_config\n",
		"configs/x.yaml": "model:\n  base_learning_rate: 5.0e-05\n  target: ldm.models.diffusion.ddpm.LatentDiffusion\n"}},
	{"python3 train.py --task fgvc --dataset cub", map[string]string{
		"train.py":                        "from dualattn.configs.recognition import Config\n",
		"dualattn/configs/recognition.py": "class Config:\n    batch_size = 8\n"}},
}

// Foreign returns the commands that every plugin is tested on, unless its own cases look like them.
func Foreign() (cases []Case) {
	for _, s := range strangers {
		cases = append(cases, Case{Name: s.args, Command: job.Command{Args: strings.Fields(s.args),
			Env: []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}}})
	}
	return cases
}

// filesOf are the files of a command of [Foreign].
func filesOf(name string) map[string]string {
	for _, s := range strangers {
		if s.args == name {
			return s.files
		}
	}
	return nil
}

// foreign asks about commands of other families.
func (t *tester) foreign() error {
	for _, c := range t.Foreign {
		if slices.ContainsFunc(t.Cases, func(own Case) bool { return resembles(own.Command, c.Command) }) {
			continue
		}
		dir, err := t.put(filesOf(c.Name))
		if err != nil {
			return fmt.Errorf("writing a foreign command's files: %w", err)
		}
		command := c.Command
		if c.Command.Dir != "" { // a command of the project's own that is not of the family
			if command, err = t.copied(c.Command); err != nil {
				return err
			}
		} else {
			command.Dir = dir
		}
		r, _, err := t.recognize(&command)
		t.held(foreignCheck)
		switch is := outcome(r, err); {
		case errors.Is(err, errHung):
			t.find(Finding{Check: deadlineCheck, Where: c.Name, Want: "an answer", Saw: err.Error()})
		case is == recognised:
			t.find(Finding{Check: foreignCheck, Where: c.Name, Want: "the command declined", Saw: "it is recognised"})
		case is != declined:
			t.find(Finding{Check: foreignCheck, Where: c.Name, Want: "the command declined", Saw: is + ": " + err.Error()})
		}
	}
	return t.bareCommands()
}

// resembles reports whether a plugin that knows the command own may well know the other: they have the same script,
// and an option in common or a name that is not everybody's.
func resembles(own, other job.Command) bool {
	script, options := shape(own)
	theirs, theirOptions := shape(other)
	if script == "" || script != theirs {
		return false
	}
	if script != "train.py" && script != "main.py" {
		return true
	}
	return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(theirOptions, o) })
}

// shape is a command's script and options; without a Python script, its first word.
func shape(c job.Command) (script string, options []string) {
	args := c.Args
	if prog, err := command.Program(c.Args, c.Env, c.Dir); err == nil {
		script, args = filepath.Base(prog.Script), prog.Args
	} else if len(args) > 0 {
		script = filepath.Base(args[0])
	}
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "-") {
			options = append(options, strings.TrimLeft(name, "-"))
		}
	}
	return script, options
}

// bareCommands asks about commands that no program can be.
func (t *tester) bareCommands() error {
	dir, err := t.put(nil)
	if err != nil {
		return fmt.Errorf("making a folder for a command: %w", err)
	}
	long := make([]string, 5000)
	for i := range long {
		long[i] = "--option"
	}
	for what, args := range map[string][]string{
		"no words": nil, "an empty word": {""}, "an interpreter alone": {"python3"}, "an empty script": {"python3", ""},
		"a zero byte":     {"python3", "train\x00.py"},
		"5,000 options":   append([]string{"python3", "train.py"}, long...),
		"a word of 1 MiB": {"python3", "train.py", strings.Repeat("x", 1<<20)},
		"escapes":         {"python3", "\x1b[31mtrain.py", "--a=\x07"},
	} {
		t.held(garbageCheck)
		command := job.Command{Args: args, Dir: dir}
		r, _, err := t.recognize(&command)
		where := "a command of " + what
		switch is := outcome(r, err); {
		case errors.Is(err, errHung):
			t.find(Finding{Check: deadlineCheck, Where: where, Want: "an answer", Saw: err.Error()})
		case is == failed:
			t.find(Finding{Check: garbageCheck, Where: where, Want: "the command declined", Saw: short(err)})
		case is == recognised:
			t.find(Finding{Check: garbageCheck, Where: where, Want: "the command declined", Saw: "it is recognised"})
		}
	}
	return nil
}

// short is the beginning of an error.
func short(err error) string {
	if err == nil {
		return "nothing"
	}
	return unit.Clip(err.Error(), 1000)
}
