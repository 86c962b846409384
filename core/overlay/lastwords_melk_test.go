package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program with the names of Lightning 1.4 and of latent-diffusion's main.py, which saves by itself when its training
// fails (melk), and at a signal. A step has two batches, an epoch three steps. Each pass changes the statistics of a
// batch norm, and each batch an average. NEW=1: of 1.6 and later, which counts the optimizer's steps.
var melkProgram = map[string]string{
	"failures.py":                               failures,
	"pytorch_lightning/__init__.py":             "",
	"pytorch_lightning/loops/__init__.py":       "",
	"pytorch_lightning/loops/epoch/__init__.py": "",
	"pytorch_lightning/trainer/__init__.py":     "",
	"pytorch_lightning/loops/epoch/training_epoch_loop.py": `import os, signal
import torch
from types import SimpleNamespace as Space
from failures import fail

NEW = bool(os.environ.get("NEW"))
SIGNAL = os.environ.get("SIGNAL", "").split(":")


def at(where, batch):
    fail(where, batch)
    if SIGNAL[0] == where and int(SIGNAL[1]) == batch:
        os.kill(os.getpid(), signal.SIGUSR1)


class TrainingEpochLoop:
    def __init__(self, trainer):
        self.trainer, self.batch_loop = trainer, self
        self.batch_progress = Space(total=Space(ready=0, processed=0), current=Space(ready=0, processed=0))
        if not NEW:
            self.global_step = 0

    if NEW:
        @property
        def global_step(self):
            return self.trainer.made

    def run(self):
        self.batch_progress.current = Space(ready=0, processed=0)
        for _ in range(6):
            self.advance()
            self.on_advance_end()

    def should_accumulate(self):
        return self.batch_progress.current.ready % 2 != 0

    def advance(self):
        """A batch."""
        self.batch = self.trainer.fit_loop.current_epoch * 6 + self.batch_progress.current.ready
        for p in (self.batch_progress.total, self.batch_progress.current):
            p.ready += 1
        if self.should_accumulate():
            self.closure()
        else:
            self.optimizer_step()
        for p in (self.batch_progress.total, self.batch_progress.current):
            p.processed += 1
        self.trainer.lightning_module.average.mul_(0.5).add_(self.trainer.lightning_module[0].weight.detach())
        at("logging", self.batch)

    def optimizer_step(self):
        t = self.trainer

        def rest():
            self.closure()
            at("states", self.batch)  # an optimizer changes its own states first
            weight = t.lightning_module[0].weight
            with torch.no_grad():
                weight.add_(1)
                at("optimizer", self.batch)
                weight.sub_(1)

        t.optimizer.step(rest)
        t.optimizer.zero_grad()
        t.made += 1

    def closure(self):
        t = self.trainer
        x = torch.rand(4, 8, generator=torch.Generator().manual_seed(self.batch))
        at("forward", self.batch)
        made = t.lightning_module(x)
        at("middle", self.batch)
        loss = (made - x).square().mean()
        print("step", t.made, self.batch, float(loss.detach()).hex(), flush=True)
        loss.register_hook(lambda g: at("backward", self.batch))
        loss.backward()

    def on_advance_end(self):
        if self.batch_progress.current.ready == 6:
            self._run_validation()
        if not NEW and not self.should_accumulate():
            self.global_step += 1
        if os.environ.get("KEEP") and not self.should_accumulate():
            self.trainer.dump(os.environ["OUT"] + "/%d.ckpt" % self.trainer.made, 0, 0)

    def _run_validation(self):
        t = self.trainer
        t.lightning_module.eval()
        at("eval", self.batch)
        with torch.no_grad():
            print("step", t.made, "eval", float(t.lightning_module(torch.ones(4, 8)).sum()).hex(), flush=True)
        t.lightning_module.train()
`,
	"pytorch_lightning/trainer/properties.py": `import io
import torch
from pytorch_lightning.loops.epoch.training_epoch_loop import NEW


class TrainerProperties:
    @property
    def global_step(self):
        return self.fit_loop.epoch_loop.global_step

    @property
    def current_epoch(self):
        return self.fit_loop.current_epoch

    def save_checkpoint(self, filepath, weights_only: bool = False) -> None:
        more = 0 if NEW else 1
        self.dump(filepath, self.current_epoch + more, self.global_step + more)

    def dump(self, path, epoch, step):
        torch.save({"epoch": epoch, "global_step": step, "state_dict": self.lightning_module.state_dict(),
                    "optimizer": self.optimizer.state_dict()}, buffer := io.BytesIO())
        with open(path, "wb") as f:
            f.write(buffer.getvalue())
`,
	"pytorch_lightning/trainer/trainer.py": `import torch
from failures import fail
from pytorch_lightning.loops.epoch.training_epoch_loop import NEW, TrainingEpochLoop
from pytorch_lightning.trainer.properties import TrainerProperties


class FitLoop:
    def __init__(self, trainer):
        self.epoch_loop, self.current_epoch = TrainingEpochLoop(trainer), 0

    if not NEW:
        @property
        def global_step(self):
            return self.epoch_loop.global_step

        @global_step.setter
        def global_step(self, value):
            self.epoch_loop.global_step = value

    def run(self):
        while self.current_epoch < 3:
            self.epoch_loop.run()
            self.current_epoch += 1


class Trainer(TrainerProperties):
    def __init__(self, module):
        self.lightning_module, self.made = module, 0
        self.optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        self.fit_loop = FitLoop(self)

    def fit(self):
        try:
            fail("sanity", 0)
            self.fit_loop.run()
        except BaseException:
            self.stage = None
            raise
`,
	"main.py": `import os, signal, sys
sys.path.insert(0, os.getcwd())
import torch
from pytorch_lightning.trainer.trainer import Trainer
torch.set_num_threads(1)
torch.manual_seed(0)
out = os.environ["OUT"]
os.makedirs(out, exist_ok=True)
last = os.path.join(out, "last.ckpt")


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


if os.environ.get("LOOK"):
    mine, whole = torch.load(last), torch.load(os.environ["LOOK"])
    equal = same(mine["state_dict"], whole["state_dict"])
    equal = equal and same(mine["optimizer"]["state"], whole["optimizer"]["state"])
    print("epoch", mine["epoch"], "step", mine["global_step"], "same", equal)
    sys.exit()
module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
module.register_buffer("average", torch.zeros(8, 8))
trainer = Trainer(module)
if os.environ.get("OLDER"):
    open(last, "w").close()


def melk(*args, **kwargs):
    print("Summoning checkpoint.", flush=True)
    trainer.save_checkpoint(last)


signal.signal(signal.SIGUSR1, melk)
try:
    trainer.fit()
except Exception:
    melk()
    raise
`,
}

// What latent-diffusion's main.py saves as it fails, or because a signal asks for it, has the steps that it says, or is
// not written.
func TestWordsOfMelk(t *testing.T) {
	run := func(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "lightning", melkProgram, dir, 20*time.Second, env...)
	}
	reference := t.TempDir()
	whole, said, kept := run(t, reference, "KEEP=1")
	if all := stepsOf(whole); len(all) != 21 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	for name, c := range map[string]struct {
		env         []string
		step, epoch int64 // that the state has; -1: there is none
		of          int64 // whose parameters it has, if not the step's
		why         string
		skips       bool
	}{
		"the second pass of a step":        {env: []string{"FAIL=forward:9"}, step: 4, epoch: 2},
		"the backward":                     {env: []string{"FAIL=backward:8"}, step: 4, epoch: 2},
		"an epoch's first pass":            {env: []string{"FAIL=forward:6"}, step: 3, epoch: 1},
		"an epoch's first step":            {env: []string{"FAIL=backward:7"}, step: 3, epoch: 1},
		"the optimizer":                    {env: []string{"FAIL=optimizer:9"}, step: -1, why: "half done"},
		"an optimizer's states":            {env: []string{"FAIL=states:9"}, step: -1, why: "half done"},
		"after a step":                     {env: []string{"FAIL=logging:9"}, step: 5, epoch: 2},
		"between the passes of a step":     {env: []string{"FAIL=logging:8"}, step: 4, epoch: 2},
		"the validation":                   {env: []string{"FAIL=eval:11"}, step: 6, epoch: 2, skips: true},
		"before all":                       {env: []string{"FAIL=sanity:0"}, step: -1, why: "no step was finished"},
		"the first step":                   {env: []string{"FAIL=forward:1"}, step: -1, why: "no step was finished"},
		"a signal in a pass":               {env: []string{"SIGNAL=forward:9"}, step: 5, epoch: 2},
		"a signal in the middle of a pass": {env: []string{"SIGNAL=middle:9"}, step: 5, epoch: 2},
		"a signal between passes":          {env: []string{"SIGNAL=logging:8"}, step: 5, epoch: 2},
		"a signal in the optimizer":        {env: []string{"SIGNAL=optimizer:9"}, step: 5, epoch: 2},
		"a signal in the validation":       {env: []string{"SIGNAL=eval:11"}, step: 6, epoch: 2},
		"1.6, the second pass":             {env: []string{"NEW=1", "FAIL=forward:9"}, step: 4, epoch: 1},
		"1.6, the optimizer":               {env: []string{"NEW=1", "FAIL=optimizer:9"}, step: -1, why: "half done"},
		"1.6, the validation":              {env: []string{"NEW=1", "FAIL=eval:11"}, step: 6, epoch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, said, states := run(t, dir, append(c.env, "OLDER=1")...)
			asked := strings.HasPrefix(c.env[0], "SIGNAL")
			switch {
			case asked && (out.code != 0 || strings.Replace(out.stdout, "Summoning checkpoint.\n", "", 1) != whole.stdout):
				t.Fatalf("it goes on as it does without: %d\n%s%s", out.code, out.stdout, out.stderr)
			case !asked && (out.code != 1 || !strings.HasSuffix(out.stdout, "Summoning checkpoint.\n") ||
				!strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n")):
				t.Fatalf("it ends as it does without: %d\n%s%s", out.code, out.stdout, out.stderr)
			}
			if got := namesIn(t, states); got != "last.ckpt" {
				t.Errorf("the states are %q", got)
			}
			if info, err := os.Stat(filepath.Join(states, "last.ckpt")); err != nil || info.Size() == 0 != (c.step < 0) {
				t.Fatalf("%v; it reports %+v", err, said)
			}
			if !asked && (said == nil || said.Step != max(c.step, 0) || (said.Path == "") != (c.step < 0) ||
				said.Skips != c.skips ||
				!strings.Contains(said.Why, c.why) || (said.Why == "") != (c.why == "")) {
				t.Errorf("it reports %+v", said)
			}
			if c.step < 0 {
				return
			}
			looked, _, _ := run(t, dir, fmt.Sprintf("LOOK=%s/%d.ckpt", kept, c.step))
			if want := fmt.Sprintf("epoch %d step %d same True\n", c.epoch, c.step); looked.stdout != want {
				t.Errorf("the state has %s%s, want %s", looked.stdout, looked.stderr, want)
			}
		})
	}
	dir := t.TempDir() // without the hook the number is the program's
	witnessWrite(t, dir, melkProgram)
	out := witnessStart(t, dir, []string{"OUT=" + filepath.Join(dir, "out"), "FAIL=forward:9"})
	looked := witnessStart(t, dir, []string{"OUT=" + filepath.Join(dir, "out"), "LOOK=" + kept + "/4.ckpt"})
	if looked.stdout != "epoch 2 step 5 same False\n" {
		t.Errorf("%s%s%s", looked.stdout, looked.stderr, out.stderr)
	}
}
