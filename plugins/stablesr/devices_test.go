package stablesr

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// A main.py that trains unless it is told not to, takes its cards from trainer.devices, and logs to Weights & Biases
// only if it is asked to, is read as what it is.
func TestDevices(t *testing.T) {
	const script = `
import argparse
from pytorch_lightning.loggers import WandbLogger
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--base", nargs="*", default=list())
parser.add_argument("-t", "--train", type=str2bool, const=True, default=True, nargs="?")
parser.add_argument("--wandb", type=str2bool, nargs="?", const=True, default=False)
opt, unknown = parser.parse_known_args()
gpuinfo = trainer_config["devices"]
accumulate_grad_batches = lightning_config.trainer.accumulate_grad_batches
`
	const recipe = "model:\n  base_learning_rate: 1.0e-4\n  target: own.Model\ndata:\n  target: own.Data\n  params:\n" +
		"    batch_size: 512\nlightning:\n  trainer:\n"
	home := t.TempDir()
	for name, tt := range map[string]struct {
		trainer, args, warns string
		ranks                int64
	}{
		"as its README has it":    {"    devices: 0,\n", "", "", 1},
		"two":                     {"    devices: 0,1\n", "", "", 2},
		"the option":              {"    max_epochs: 2\n", "--devices 0,", "", 1},
		"none":                    {"    max_epochs: 2\n", "", "main.py stops without lightning.trainer.devices", 1},
		"told not to train":       {"    devices: 0,\n", "--train false", "without --train nothing is trained", 1},
		"asked to log":            {"    devices: 0,\n", "--wandb", "Weights & Biases", 1},
		"an option of the others": {"    devices: 0,\n", "-t --gpus 0,", "", 1},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "main.py"), script)
		write(t, filepath.Join(dir, "r.yaml"), recipe+tt.trainer)
		args := append([]string{"python", "main.py", "--base", "r.yaml"}, strings.Fields(tt.args)...)
		j, err := recognizeAs(job.Command{Args: args, Dir: dir, Env: []string{"PATH=/nowhere", "HOME=" + home}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, w := range []string{"nothing is trained", "on the CPU", "Weights & Biases", "main.py stops"} {
			if got := strings.Contains(joined(j.Warnings), w); got != strings.Contains(tt.warns, w) {
				t.Errorf("%s: %q, want %q", name, j.Warnings, tt.warns)
			}
		}
		if j.Batch.Ranks != tt.ranks {
			t.Errorf("%s: %d ranks, want %d", name, j.Batch.Ranks, tt.ranks)
		}
	}
}
