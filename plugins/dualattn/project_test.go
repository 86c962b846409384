package dualattn

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// A project of our own writing in the layout of the one that the plugin is for: what its files say is all that matters,
// nothing of it is run.

const trainPy = `"""Trains. There is no --config here, whatever --config x.yaml in this text says."""
import argparse
import wandb
from dual_cross_attention.models import DualCrossAttentionViT
from dual_cross_attention.datasets import FGVCDataLoader
from dual_cross_attention.configs import get_fgvc_config, get_reid_config


def setup(self):
    self.model.load_pretrained_vit(self.config.pretrained_model)
    if self.config.mixed_precision:
        pass
    optimizer = Adam(lr=self.config.scaled_lr)
    return {"mAP": 0.0}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--task", choices=["fgvc", "reid"], required=True)
    p.add_argument("--dataset", type=str, required=True)
    p.add_argument("--batch_size", type=int)
    p.add_argument("--epochs", type=int)
    p.add_argument("--data_root", type=str)
    p.add_argument("--lr", type=float)
    p.add_argument("--pretrained", type=str)
    p.add_argument("--ablation", choices=["sa_only", "sa_glca", "sa_pwca", "full"])
    p.add_argument("--num_workers", type=int, default=4)
    p.add_argument("--no_logging", action="store_true")
    p.add_argument("--checkpoint_dir", type=str, default="./checkpoints")
    p.add_argument("--log_dir", type=str, default="./logs")
    p.add_argument("--debug", action="store_true")
    p.add_argument("--resume", type=str)
    return p.parse_args()


def main():
    args = arguments()
    config = (get_fgvc_config if args.task == "fgvc" else get_reid_config)(args.dataset)
    if args.batch_size:
        config.batch_size = args.batch_size
    if args.lr:
        config.learning_rate = args.lr
    if args.ablation == "sa_glca":
        config.num_pwca_layers = 0
`

const fgvcPy = `import math
from dataclasses import dataclass
from typing import Tuple


@dataclass
class FGVCConfig:
    task_type: str = "fgvc"
    dataset_name: str = "cub"
    num_classes: int = 200
    input_size: Tuple[int, int] = (448, 448)
    resize_size: int = 550
    embed_dim: int = 768
    num_sa_layers: int = 12
    num_glca_layers: int = 1
    num_pwca_layers: int = 12
    num_heads: int = 12
    hidden_dim: int = 3072
    patch_size: int = 16
    dropout: float = 0.1
    top_k_ratio: float = 0.1
    use_pwca_training: bool = True
    batch_size: int = 4  # for one forward
    gradient_accumulation_steps: int = 4
    num_epochs: int = 100
    learning_rate: float = 5e-4
    optimizer: str = "adam"
    use_gradient_checkpointing: bool = False
    mixed_precision: bool = True
    eval_frequency: int = 5

    def __post_init__(self):
        self.effective_batch_size = self.batch_size * self.gradient_accumulation_steps
        self.scaled_lr = self.learning_rate * self.effective_batch_size / 512


@dataclass
class CUBConfig(FGVCConfig):
    dataset_name: str = "cub"
    num_classes: int = 200


@dataclass
class CarsConfig(FGVCConfig):
    dataset_name: str = "cars"
    num_classes: int = 196


@dataclass
class AircraftConfig(FGVCConfig):
    dataset_name: str = "aircraft"
    num_classes: int = 100


def get_fgvc_config(name):
    return {"cub": CUBConfig, "cars": CarsConfig, "aircraft": AircraftConfig}[name]()
`

const reidPy = `from dataclasses import dataclass
from typing import Tuple


@dataclass
class ReIDConfig:
    task_type: str = "reid"
    dataset_name: str = "market1501"
    num_identities: int = 1501
    input_size: Tuple[int, int] = (256, 128)
    embed_dim: int = 768
    num_sa_layers: int = 12
    num_glca_layers: int = 1
    num_heads: int = 12
    hidden_dim: int = 3072
    patch_size: int = 16
    dropout: float = 0.1
    top_k_ratio: float = 0.3
    batch_size: int = 64
    gradient_accumulation_steps: int = 1
    images_per_id: int = 4
    learning_rate: float = 0.008
    optimizer: str = "sgd"
    mixed_precision: bool = True

    def __post_init__(self):
        assert self.batch_size % self.images_per_id == 0


@dataclass
class Market1501Config(ReIDConfig):
    dataset_name: str = "market1501"
    num_identities: int = 1501


@dataclass
class VeRi776Config(ReIDConfig):
    dataset_name: str = "veri776"
    num_identities: int = 776
    input_size: Tuple[int, int] = (256, 256)


def get_reid_config(name):
    return {"market1501": Market1501Config, "veri776": VeRi776Config}[name]()
`

const transformsPy = `class FGVCTransforms:
    def __init__(self, training, input_size=448, resize_size=550):
        self.input_size, self.resize_size = input_size, resize_size


def get_transform_factory(task, training):
    # whatever the configuration says: input_size=123
    return FGVCTransforms(training, input_size=448, resize_size=550)
`

const dataPy = `class FGVCDataLoader:
    def create(self):
        from .transforms import get_transform_factory
        if self.dataset_name == "cub":
            return CUBDataset(get_transform_factory("fgvc", True))
        raise ValueError(f"Dataset {self.dataset_name} not implemented yet")  # cars and aircraft, that is
`

// models are model files by what they do.
var models = map[string]string{
	"three streams": model(plain),
	"overwritten": model(`
        for block in self.blocks:
            outputs = block(sa_x, x_pair)
            sa_x = outputs['sa_output']
            pwca_x = outputs['pwca_output']
            x_pair = x_pair + block.ffn(x_pair)
`),
	"crashes": strings.Replace(model(late+`
        for block in self.glca_blocks:
            sa_x = block(sa_x)
`), "        self.norm = ", "        self.own = SelfAttention(embed_dim)\n        self.norm = ", 1),
	"wrong": model(late + `
        for glca in self.glca_blocks:
            sa_x = glca(sa_x)

    def freeze(self):
        for block in self.blocks:
            block.requires_grad = False
`),
	"works":   model(strings.ReplaceAll(late, "def again(x_in):", "def again(x_in, block=block):")),
	"absent":  strings.NewReplacer(", use_gradient_checkpointing=False", "", "        self.use_gradient_checkpointing = use_gradient_checkpointing\n", "").Replace(model(plain)),
	"foreign": model("\n        y = self.encoder(x, x_pair)\n"),
}

const plain = `
        for block in self.blocks:
            sa_x = block.run(sa_x)
            x_pair = block.run(x_pair)
            pwca_x = block.pwca(block.norm1(pwca_x), block.norm1(x_pair))
`

const late = `
        for block in self.blocks:
            def again(x_in):
                return block.sa(block.norm1(x_in))
            sa_x = checkpoint(again, sa_x)
            pwca_x = block.pwca(block.norm1(pwca_x), block.norm1(x_pair))
`

func model(loop string) string {
	return `from torch.utils.checkpoint import checkpoint
from .attention import SelfAttention


class Block:
    def __init__(self, embed_dim):
        self.sa = SelfAttention(embed_dim)  # x = checkpoint(f, x) is not called here


class DualCrossAttentionViT:
    def __init__(self, embed_dim, num_glca_layers, use_gradient_checkpointing=False):
        self.use_gradient_checkpointing = use_gradient_checkpointing
        self.norm = None

    def forward(self, x, x_pair=None):
        """y = checkpoint(nothing)"""` + loop + `
        self.attention_maps = {}
        return sa_x
`
}

// files are the project with a model file, and with lines of its configurations and others replaced.
func files(model string, replace ...string) map[string]string {
	out := map[string]string{
		"train.py": trainPy,
		"dual_cross_attention/configs/__init__.py":    "from .fgvc_config import FGVCConfig, get_fgvc_config\nfrom .reid_config import get_reid_config\n",
		"dual_cross_attention/configs/fgvc_config.py": fgvcPy, "dual_cross_attention/configs/reid_config.py": reidPy,
		"dual_cross_attention/models/__init__.py": "from .dual_vit import DualCrossAttentionViT\n", "dual_cross_attention/models/dual_vit.py": models[model],
		"dual_cross_attention/models/attention.py":    "class SelfAttention:\n    pass\n",
		"dual_cross_attention/datasets/__init__.py":   "from .fgvc_datasets import (\n    FGVCDataLoader,\n)\n",
		"dual_cross_attention/datasets/transforms.py": transformsPy, "dual_cross_attention/datasets/fgvc_datasets.py": dataPy,
		"unrelated.py": "raise SystemExit\n",
	}
	for i := 0; i+1 < len(replace); i += 2 {
		for name, text := range maps.Clone(out) {
			out[name] = strings.ReplaceAll(text, replace[i], replace[i+1])
		}
	}
	return out
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var (
	classLine = regexp.MustCompile(`^class (\w+)(?:\((.*)\))?:`)
	fieldLine = regexp.MustCompile(`^    (\w+): [^=]+= ([^#]*?)\s*(?:#.*)?$`)
	fromLine  = regexp.MustCompile(`^from (\S+) import (\w+)(?:, (\w+))*$`)
)

// source reads what launch's reader would: classes, and fields with literals.
func source(t *testing.T, path string) config.PythonSource {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s := config.PythonSource{Path: path, Text: text, SHA256: hex.EncodeToString(sum[:])}
	class, at := "", 0
	for n, line := range strings.SplitAfter(string(text), "\n") {
		l := strings.TrimSuffix(line, "\n")
		if m := classLine.FindStringSubmatch(l); m != nil {
			class = m[1]
			c := config.PythonClass{Name: class, Line: n + 1}
			if m[2] != "" {
				c.Bases = strings.Split(m[2], ", ")
			}
			s.Classes = append(s.Classes, c)
		} else if m := fieldLine.FindStringSubmatchIndex(l); m != nil && class != "" {
			spelled := l[m[4]:m[5]]
			value := strings.NewReplacer("(", "[", ")", "]", "True", "true", "False", "false", "None", "null").Replace(spelled)
			it := config.PythonItem{Path: class + "." + l[m[2]:m[3]], Start: at + m[4], End: at + m[5], Line: n + 1}
			if json.Valid([]byte(value)) {
				it.Value, it.Literal = json.RawMessage(value), true
			}
			s.Items = append(s.Items, it)
		} else if m := fromLine.FindStringSubmatch(l); m != nil {
			for _, name := range m[2:] {
				if name != "" {
					s.Imports = append(s.Imports, config.PythonImport{Module: m[1], Name: name, As: name, Line: n + 1})
				}
			}
		}
		at += len(line)
	}
	return s
}

// asked is the command with everything read that the plugin asks for.
func asked(t *testing.T, dir string, args ...string) (job.Command, *job.Job, error) {
	t.Helper()
	return typed(t, dir, append([]string{"python", "train.py"}, args...)...)
}

// typed is a whole command.
func typed(t *testing.T, dir string, args ...string) (job.Command, *job.Job, error) {
	t.Helper()
	c := job.Command{Args: args, Dir: dir, Env: []string{"PATH=/nowhere"}}
	for range 3 {
		r, err := New().Recognize(t.Context(), c)
		var need *plugin.Need
		if !errors.As(err, &need) {
			if err != nil {
				return c, nil, err
			}
			j := r.Job()
			j.Command = c
			return c, j, nil
		}
		for _, path := range need.Sources {
			c.Sources = append(c.Sources, source(t, path))
		}
	}
	t.Fatal("it asks again and again")
	return c, nil, nil
}

func recognized(t *testing.T, files map[string]string, args ...string) *job.Job {
	t.Helper()
	_, j, err := asked(t, write(t, files), args...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func priced(t *testing.T, j *job.Job, d gpu.Device) *ladder.Set {
	t.Helper()
	return plugintest.Ladders(t, New(), j.Command, d)
}

func card(size unit.Bytes) gpu.Device { return gpu.Device{Kind: gpu.CUDA, Total: size} }

func fgvc(more ...string) []string {
	return append([]string{"--task", "fgvc", "--dataset", "cub"}, more...)
}
