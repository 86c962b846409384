package python

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
)

// write makes a project of files, "name\n" before each text, and returns its folder.
func optionsWrite(t testing.TB, files map[string]string) string {
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

// The files of what Hydra makes are found by their names in the configuration.
func TestTargets(t *testing.T) {
	dir := optionsWrite(t, map[string]string{
		"train.py":          "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg): pass\n",
		"conf/config.yaml":  "defaults:\n  - net: mlp\nopt:\n  _target_: torch.optim.Adam\n",
		"conf/net/mlp.yaml": "_target_: nets.mlp.MLP\npart:\n  _target_: nets.part.Part\n",
		"nets/mlp.py":       "class MLP: pass\n", "nets/part.py": "class Part: pass\n",
	})
	var got []string
	for _, path := range ReadOptions(filepath.Join(dir, "train.py")).Targets {
		name, _ := filepath.Rel(dir, path)
		got = append(got, name)
	}
	if want := "nets/mlp.py nets/part.py"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// An option of the wanted text is "name=default", with "?" for a default that is not known, and "-" for an option
// that is not there.
func TestForms(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"argparse": {map[string]string{"train.py": `
import argparse
SIZE = 5 * 8
def main():
    p = argparse.ArgumentParser()
    g = p.add_argument_group("data")
    g.add_argument("-b", "--batch-size", default=SIZE, type=int, metavar="N", help="how (many), at once")
    p.add_argument("--lr", default=1e-3, type=float); p.add_argument('--opt', default='ad' "am")
    p.add_argument("--fast", action="store_true")
    p.add_argument("--slow", action="store_false")
    p.add_argument("--amp", action=argparse.BooleanOptionalAction)
    p.add_argument("--none")
    p.add_argument("--env", default=os.environ.get("N", 4))
    p.add_argument("--neg", default=-(2 ** 3) // 3)
    p.add_argument("--later", default=LATER)
    # p.add_argument("--comment", default=1)
    """ p.add_argument("--doc", default=1) """
LATER = 1 << 3
`}, "-b=40 --batch-size=40 --lr=1e-3 --opt=adam --fast=False --slow=True --amp=None --no-amp=None --none=None " +
			"--env=? --neg=-3 --later=? --comment=- --doc=-"},
		"several times": {map[string]string{"train.py": `
sub = p.add_subparsers()
a = sub.add_parser("a"); a.add_argument("--n", default=1); a.add_argument("--m", default=3)
b = sub.add_parser("b"); b.add_argument("--n", default=2); b.add_argument("--m", default=3)
`}, "--n=? --m=3"},
		"constants that may be another": {map[string]string{"train.py": `
A = 1
if x:
    A = 2
B = 3
B += 1
for C in range(3): pass
D = 4
def f(D):
    p.add_argument("--d", default=D)
def g():
    E = 5
    p.add_argument("--e", default=E)
class K:
    F = 6
p.add_argument("--a", default=A)
p.add_argument("--b", default=B)
p.add_argument("--c", default=C)
p.add_argument("--f", default=K.F)
p.add_argument("--d2", default=D)
`}, "--a=? --b=? --c=? --d=? --e=5 --f=6 --d2=4"},
		"set_defaults": {map[string]string{"train.py": `
p.add_argument("--a", default=1)
p.add_argument("--b", default=1)
p.add_argument("--c", default=1)
p.add_argument("--d")
p.set_defaults(a=2, d=5)
if x:
    p.set_defaults(b=3, c=1)
`}, "--a=2 --b=? --c=1 --d=5"},
		"any default may be set": {map[string]string{"train.py": "p.add_argument('--a', default=1)\n" +
			"p.set_defaults(**load(x))\n"}, "--a=?"},
		"only with a file": {map[string]string{"train.py": "p.add_argument('--a', default=1)\nif c.config:\n" +
			"    p.set_defaults(**load(x))\n"}, "--a=1"},
		"keywords that are not read": {map[string]string{"train.py": "p.add_argument('--a', **kw)\n" +
			"p.add_argument('--b', default=1, **kw)\n"}, "--a=? --b=?"},
		"an imported parser": {map[string]string{
			"train.py": "from lib.opts import get_parser\nimport lib.util as u\nparser = get_parser()\n" +
				"u.add_more(parser, True)\n",
			"lib/__init__.py": "",
			"lib/opts.py": "from .base import parent\ndef get_parser():\n    p = " +
				"ArgumentParser(parents=[parent()])\n    p.add_argument('--a', default=1)\n    return p\ndef another():\n   " +
				" p.add_argument('--z', default=1)\nif __name__ == '__main__':\n    p.add_argument('--y')\n",
			"lib/base.py": "N = 7\ndef parent():\n    q = ArgumentParser()\n    q.add_argument('--b', default=N)\n  " +
				"  return q\n",
			"lib/util.py":      "import lib.names as names\ndef add_more(p, x):\n    p.add_argument('--c', default=names.C)\n",
			"lib/names.py":     "C = 'x'\n",
			"lib/unrelated.py": "p.add_argument('--x')\n",
		}, "--a=1 --b=7 --c=x --z=- --y=- --x=-"},
		"a class of options": {map[string]string{
			"train.py":            "from options import TrainOptions\nopt = TrainOptions().parse()\n",
			"options/__init__.py": "from .train import *\n",
			"options/train.py": "from .base import Base\nclass TrainOptions(Base):\n    def init(self, parser):\n     " +
				"   parser.add_argument('--a', default=1)\nclass Test(Base):\n    def init(self, parser):\n        " +
				"parser.add_argument('--t', default=1)\n",
			"options/base.py": "class Base:\n    def parse(self):\n        self.parser.add_argument('--b', default=2)\n",
		}, "--a=1 --b=2 --t=-"},
		"HfArgumentParser": {map[string]string{"train.py": `
from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser, TrainingArguments
@dataclass
class Model:
    name: Optional[str] = field(default=None, metadata={"help": "which"})
    lora_rank: int = field(default=2 * 4)
    merge: bool = True
    path: str
    layers: list[str] = field(default_factory=lambda: ["a", "b"])
parser = HfArgumentParser((Model, TrainingArguments))
`}, "--name=None --lora_rank=8 --lora-rank=8 --merge=True --no_merge=True --path=? --layers=[\"a\", \"b\"] " +
			"--per_device_train_batch_size=8 --gradient-accumulation-steps=1 --resume_from_checkpoint=None --optim=?"},
		"TrainingArguments that a project extends": {map[string]string{"train.py": `
import transformers
from dataclasses import dataclass, field
@dataclass
class Mine(transformers.TrainingArguments):
    gradient_accumulation_steps: int = field(default=4)
    bits: int = 4
classes = (Mine, Unread)
parser = transformers.HfArgumentParser(classes)
`}, "--gradient_accumulation_steps=4 --bits=4 --per_device_train_batch_size=8"},
		"TrlParser": {map[string]string{"train.py": "from trl import SFTConfig, TrlParser, ModelConfig\n" +
			"TrlParser((SFTConfig, ModelConfig))\n"},
			"--gradient_checkpointing=True --per_device_train_batch_size=8 --lora_r=16"},
		"click": {map[string]string{"train.py": `
import click
@click.command()
@click.option("--batch-size", "-b", "batch", default=8, show_default=True, type=int)
@click.option("--amp/--no-amp", default=True)
@click.option("--quick", is_flag=True)
@click.option("--out", type=click.Path(), required=True)
def main(batch): pass
`}, "-b=8 --batch-size=8 --amp=True --no-amp=True --quick=False --out=None"},
		"typer": {map[string]string{"train.py": `
import typer
app = typer.Typer()
@app.command()
def main(data: str, batch_size: int = typer.Option(8, "--batch-size", "-b", help="n"), lr: float = 1e-3): pass
`}, "--batch-size=8 -b=8 --lr=1e-3"},
		"tyro": {map[string]string{"train.py": `
import tyro
from dataclasses import dataclass, field
@dataclass
class Optim:
    lr: float = 3e-4
@dataclass
class Args:
    optim: Optim = field(default_factory=Optim)
    batch_size: int = 16
    amp: bool = False
args = tyro.cli(Args)
`}, "--optim.lr=3e-4 --batch-size=16 --batch_size=16 --amp=False --no-amp=False"},
		"pyrallis": {map[string]string{"train.py": `
import pyrallis
@dataclass
class Train:
    batch_size: int = 16
@pyrallis.wrap()
def main(cfg: Train): pass
`}, "--batch_size=16"},
		"fire": {map[string]string{"train.py": "import fire\ndef train(data: str, batch_size: int = 128, betas=(0.9, " +
			"0.99)):\n    pass\nfire.Fire(train)\n"},
			"--batch_size=128 --batch-size=128 --data=? --betas=(0.9, 0.99)"},
		"absl": {map[string]string{"train.py": "from absl import flags\nflags.DEFINE_integer('batch_size', 4 * 2, " +
			"'help')\nflags.DEFINE_bool('amp', False, '')\n"},
			"--batch_size=8 --amp=False --noamp=False"},
		"configurator": {map[string]string{
			"train.py": "import os\nout_dir = 'out'\nbatch_size = 12\naccum = 5 * 8\n_x = 1\ndtype = 'a' if y " +
				"else 'b'\nkeys = [k for k in globals()]\nexec(open('configurator.py').read())\naccum //= 2\nlate = 1\n",
			"configurator.py": "import sys\nfor arg in sys.argv[1:]: pass\n",
		}, "--out_dir=out --batch_size=12 --accum=40 --dtype=? --_x=- --keys=- --late=-"},
		"constants": {map[string]string{
			"train.py": "import config\nfrom model import Net\nBATCH = 8\nhparams = dict(lr=1e-3, n=4)\ncfg = {'data': " +
				"{'batch': 2}, 'x': f()}\nclass CFG:\n    epochs = 3\ndef f():\n    y = 1\n",
			"config.py": "WORKERS = 4\n",
			"model.py":  "HIDDEN = 4\n",
		}, "BATCH=8 hparams.lr=1e-3 hparams.n=4 cfg.data.batch=2 cfg.x=- CFG.epochs=3 WORKERS=4 HIDDEN=- y=-"},
		"bound again": {map[string]string{"train.py": "BATCH = 2\nz = BATCH = 64\nSTEPS = 2\na, STEPS = 1, 64\n" +
			"N = 8\nN //= 2\nFROM = 2\nfrom mine import FROM\nif N: LEN = 1\nLEN = 2\nhparams = dict(lr=1)\n" +
			"z = hparams = f()\n" +
			"class CFG:\n    epochs = 3\n    z = epochs = 4\n    k = 1\n" +
			"def f():\n    global G\n    G = 1\nG = 2\nOK = 1\n"},
			"BATCH=- STEPS=- N=- FROM=- LEN=- hparams.lr=- CFG.epochs=- CFG.k=1 G=- OK=1"},
		"bound again before the configurator": {map[string]string{
			"train.py": "batch = 2\nz = batch = 64\nn = 2\na, n = 1, 64\n" +
				"ok = 1\nexec(open('configurator.py').read())\n",
		}, "--batch=? --n=? --ok=1"},
		"bound again as defaults": {map[string]string{"train.py": "import argparse\nB = 2\nz = B = 64\n" +
			"class C:\n    n = 2\n" +
			"    z = n = 64\n    k = 1\np = argparse.ArgumentParser()\np.add_argument('--b', default=B)\n" +
			"p.add_argument('--n', default=C.n)\np.add_argument('--k', default=C.k)\n"}, "--b=? --n=? --k=1"},
		"bound again in a dataclass": {map[string]string{"train.py": "from dataclasses import dataclass\n" +
			"from transformers import HfArgumentParser\n@dataclass\nclass A:\n" +
			"    n: int = 2\n    k: int = 1\n    z = n = 64\n" +
			"HfArgumentParser(A)\n"}, "--n=? --k=1"},
		"hydra": {map[string]string{
			"train.py": "import hydra\n@hydra.main(version_base=None, config_path='conf', " +
				"config_name='config')\ndef main(cfg): pass\n",
			"conf/config.yaml": "defaults:\n  - _self_\n  - data: small\n  - /opt@optim: adam\n  - override hydra/x: " +
				"y\nbatch_size: 4\nname: ${data.name}\nlist: [1]\n",
			"conf/data/small.yaml": "workers: 2\nname: s\n",
			"conf/opt/adam.yaml":   "lr: 0.1\n",
		}, "batch_size=4 data.workers=2 data.name=s name=? optim.lr=0.1 list=?"},
	} {
		t.Run(name, func(t *testing.T) {
			l := ReadOptions(filepath.Join(optionsWrite(t, tt.files), "train.py"))
			words := strings.Split(tt.want, " --")
			for i := range words[1:] {
				words[i+1] = "--" + words[i+1]
			}
			if !strings.Contains(tt.want, "--") || strings.HasPrefix(tt.want, "-b") || name == "typer" {
				words = strings.Fields(tt.want)
			}
			for _, w := range words {
				option, want, _ := strings.Cut(w, "=")
				if o, ok := l.Lookup(option); fmt.Sprint(shown(o, ok)) != want {
					t.Errorf("%s is %s, want %s", option, shown(o, ok), want)
				}
			}
		})
	}
}

func shown(o Option, ok bool) string {
	switch {
	case !ok:
		return "-"
	case !o.Known:
		return "?" + o.Default
	}
	return o.Default
}

func TestDetails(t *testing.T) {
	dir := optionsWrite(t, map[string]string{"train.py": `
from transformers import HfArgumentParser, TrainingArguments
p.add_argument("-b", "--batch-size", default=8, type=int, help="how (many),"
               " at  once", dest="batch")
p.add_argument("--opt", choices=["adam", "sgd"], default="sgd")
p.add_argument("--gpus", nargs="+")
p.add_argument("data", nargs="?", default="x")
p.add_argument("--" + name)
opts.add_config_arguments(p)
HfArgumentParser(TrainingArguments)
`})
	l := ReadOptions(filepath.Join(dir, "train.py"))
	b, _ := l.Lookup("-b")
	if b.Dest != "batch" || b.Type != "int" || b.Help != "how (many), at once" || b.Where() != "train.py:3" ||
		b.How != Argparse {
		t.Errorf("%+v", b)
	}
	if o, _ := l.Lookup("--opt"); !slices.Equal(o.Choices, []string{"adam", "sgd"}) {
		t.Errorf("%+v", o)
	}
	if o, _ := l.Lookup("--gpus"); o.Takes != config.Some {
		t.Errorf("%+v", o)
	}
	if i := slices.IndexFunc(l.Options, func(o Option) bool { return o.Dest == "data" }); i < 0 ||
		len(l.Options[i].Names) > 0 || l.Options[i].Takes != config.Maybe {
		t.Errorf("the positional argument: %d", i)
	}
	if o, _ := l.Lookup("--output_dir"); o.Where() != "HfArgumentParser's own" {
		t.Errorf("%+v", o)
	}
	if len(l.Unread) != 2 {
		t.Errorf("unread: %q", l.Unread)
	}
	if v, ok := optionDefault(l, "--batch-size"); v != "8" || !ok {
		t.Error(v, ok)
	}
	if v, ok := optionDefault(l, "--nothing"); v != "" || ok {
		t.Error(v, ok)
	}
	if l := ReadOptions(filepath.Join(dir, "none.py")); len(l.Options) > 0 {
		t.Error(l)
	}
}

// A script of an installed package leads to the files of that package, and not to other packages beside it.
func TestInstalledPackages(t *testing.T) {
	dir := optionsWrite(t, map[string]string{
		"site-packages/pkg/__init__.py": "", "site-packages/pkg/train.py": "from .opts import p\nimport other.opts\n",
		"site-packages/pkg/opts.py": "p.add_argument('--a', default=1)\n", "site-packages/other/__init__.py": "",
		"site-packages/other/opts.py": "p.add_argument('--b', default=1)\n",
	})
	l := ReadOptions(filepath.Join(dir, "site-packages", "pkg", "train.py"), dir)
	if _, a := l.Lookup("--a"); !a || len(l.Options) != 1 {
		t.Errorf("%+v", l.Options)
	}
	for _, f := range l.Files {
		if strings.Contains(f.Path, "other") {
			t.Errorf("%s was read", f.Path)
		}
	}
}

// Whatever stands in a project's files, they are read in bounded time, and nothing panics.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"p.add_argument('--a', default=(1+2)*3)\n",
		"class A(A):\n  a: int = field(default=1)\nHfArgumentParser((A,))\n",
		"import train\nfrom . import *\nA = B\nB = A\np.add_argument('-a', default=A)\n", "@click.option('--a')\ndef " +
			"f(a=1): pass\nfire.Fire(f)\n",
		"import hydra\n@hydra.main(config_path='.', config_name='c')\n", "x = {'a': {'b': [1}}\n((((",
		"exec(open('configurator.py').read())\n", "f'{f\"{x!r:{y}}\"}' = \\\n",
		"add_argument(", "import tyro\ntyro.cli(f)\ndef f(x: f, *, y: int = ...): pass\n", "DEFINE_integer('a',\n",
		"@x.wrap()\n", "typer.run(f)\n@a.command()\n@b\n"} {
		f.Add(text, "defaults: [c, {a: b}]\nx: 1\n")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, yaml string) {
		for name, text := range map[string]string{"train.py": text, "c.yaml": yaml} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range ReadOptions(filepath.Join(dir, "train.py")).Options {
			if !o.Known && o.Default != "" {
				t.Errorf("%v: a default of %q that is not known", o.Names, o.Default)
			}
			_ = o.Where()
		}
	})
}
