package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// failures are what the programs here share: a step or a validation fails by what FAIL says, in the step that it names.
const failures = `"""Failures."""
import os, sys
import torch

FAIL = os.environ.get("FAIL", "").split(":")


def oom(*args, **named):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def fail(where, step):
    if FAIL[0] == where and step == int(FAIL[1]):
        oom()


def hooked(loss, optimizer, step):
    if FAIL[0] == "backward" and step == int(FAIL[1]):
        loss.register_hook(oom)
    if FAIL[0] == "optimizer" and step == int(FAIL[1]):
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].add_(1)
        sys.modules[type(optimizer).__module__].adam = oom
    if FAIL[0] == "states" and step == int(FAIL[1]):  # as torch's optimizers do: their states before the parameters
        optimizer.state[optimizer.param_groups[0]["params"][0]]["exp_avg"].mul_(2)
        sys.modules[type(optimizer).__module__].adam = oom


def read(path):
    return torch.load(path) if os.path.exists(path) else None
`

// A training loop at the top level of a script, with the names of nanogpt.py. Its random numbers are those of the step.
var loopProgram = map[string]string{
	"failures.py": failures,
	"main.py": `import os, random
import torch
from failures import fail, hooked, read
torch.set_num_threads(1)
torch.manual_seed(0)
out_dir, eval_interval, always_save_checkpoint = os.environ["OUT"], 4, True
exec(os.environ.get("MORE", ""))
os.makedirs(out_dir, exist_ok=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
iter_num, best_val_loss, checkpoint = 0, 1e9, None
if os.environ.get("RESUME"):
    checkpoint = read(os.path.join(out_dir, "ckpt.pt"))
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num, best_val_loss = checkpoint["iter_num"], checkpoint["best_val_loss"]
    checkpoint = None


def estimate_loss():
    fail("eval", iter_num)
    with torch.no_grad():
        return model(torch.ones(4, 8)).square().mean()


raw_model = model
while iter_num < 10:
    torch.manual_seed(iter_num)
    if iter_num % eval_interval == 0:
        loss = estimate_loss()
        print("step", iter_num, "eval", float(loss).hex(), flush=True)
        if loss < best_val_loss or always_save_checkpoint:
            best_val_loss = loss
            if iter_num > 0:
                checkpoint = {
                    "model": raw_model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "iter_num": iter_num,
                    "best_val_loss": best_val_loss,
                }
                fail("saving", iter_num)
                torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    for micro in range(2):
        fail("forward", iter_num)
        x = torch.rand(4, 8)
        loss = (model(x) - x).square().mean() / 2
        hooked(loss, optimizer, iter_num)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    fail("after the optimizer", iter_num)
    optimizer.zero_grad()
    fail("after the step", iter_num)
    print("step", iter_num, "loss", float(loss).hex(), flush=True)
    iter_num += 1
`,
}

// What an out-of-memory leaves of a program whose states all have one name: the last finished step under that name, and
// the older state beside it.
func TestLastWordsOfALoop(t *testing.T) {
	whole, said, _ := runLoop(t, t.TempDir())
	if all := stepsOf(whole); len(all) != 13 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	for _, c := range []struct {
		fail, more string
		step       int64 // 0: none is saved
		files, why string
	}{
		{fail: "forward:6", step: 6, files: "ckpt-4.pt ckpt.pt"},
		{fail: "backward:7", step: 7, files: "ckpt-4.pt ckpt.pt"},
		{fail: "backward:2", step: 2, files: "ckpt.pt"},
		{fail: "forward:1", step: 1, files: "ckpt.pt"},
		{fail: "eval:8", step: 8, files: "ckpt-4.pt ckpt.pt"},
		{fail: "forward:4", step: 4, files: "ckpt.pt"}, // it has saved that itself
		// the older state's name is taken
		{fail: "forward:6", more: "open(out_dir + '/ckpt-4.pt', 'w').close()", step: 6,
			files: "ckpt-4-2.pt ckpt-4.pt ckpt.pt"},
		{fail: "forward:6", more: "def f(*a): raise OSError('no links')\nos.link = f", step: 6, files: "ckpt-4.pt ckpt.pt"},
		{fail: "optimizer:6", files: "ckpt.pt", why: "in the step of the optimizer"},
		{fail: "after the optimizer:6", files: "ckpt.pt", why: "no longer those of the last finished step"},
		{fail: "after the step:6", files: "ckpt.pt", why: "not the one after the last finished one"},
		{fail: "forward:6", more: "always_save_checkpoint = False", why: "the best state only"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
				t.Fatal(err)
			}
			out, said, states := runLoop(t, dir, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			if got := namesIn(t, states); got != c.files {
				t.Errorf("the files are %q, want %q; %+v", got, c.files, said)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			if said == nil || said.Step != c.step || said.Path != filepath.Join(states, "ckpt.pt") || said.Skips {
				t.Fatalf("it reports %+v; want step %d", said, c.step)
			}
			resumed, _, _ := runLoop(t, dir, "RESUME=1")
			sameEnd(t, whole, resumed, int(10-c.step))
		})
	}
}

// Such a program saves on request where a step ends, before it counts it, and the state names that step.
func TestLoopSavesOnRequest(t *testing.T) {
	whole, _, _ := runLoop(t, t.TempDir())
	dir := t.TempDir()
	witnessWrite(t, dir, loopProgram)
	part, _ := LastWordsPart("nanogpt", 20*time.Second)
	o, err := Install(filepath.Join(t.TempDir(), "attempt"), nil, nil, part)
	if err != nil {
		t.Fatal(err)
	}
	states := filepath.Join(dir, "out")
	out := warmStart(t, dir, append(o.Env, "OUT="+states, "MORE=plain = fail\ndef fail(where, n):\n"+
		"    if (where, n) == ('forward', 5):\n        open(os.path.dirname(os.environ['LAUNCH_OVERLAY']) + "+
		"'/save-request', 'w').close()\n    if (where, n) == ('forward', 6):\n        os._exit(1)\n    plain(where, n)\n"))
	if a := o.Report().Answer(); a == nil || a.Step != 6 || a.Path != filepath.Join(states, "ckpt.pt") || a.Kept {
		t.Fatalf("it answers %+v\n%s", a, out.stderr)
	}
	if got := namesIn(t, states); got != "ckpt-4.pt ckpt.pt" {
		t.Errorf("the files are %q", got)
	}
	resumed, _, _ := runLoop(t, dir, "RESUME=1")
	sameEnd(t, whole, resumed, 4)
	if all := stepsOf(resumed); len(all) == 0 || !strings.HasPrefix(all[0], "step 6 ") {
		t.Errorf("it resumed with %q", all)
	}
}

// What sees no step begin cannot be asked.
func TestSavesOnRequest(t *testing.T) {
	can := map[string]bool{"transformers": true, "nanogpt": true, "timm": false, "lightning": false, "": false}
	for library, want := range can {
		if SavesOnRequest(library) != want {
			t.Errorf("%q: want %v", library, want)
		}
	}
}

func runLoop(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
	t.Helper()
	return runWordsOf(t, "nanogpt", loopProgram, dir, 20*time.Second, env...)
}

// sameEnd checks that a resumed run reports at least so many steps, and the same as the end of one that was never
// interrupted.
func sameEnd(t *testing.T, whole, resumed witnessOutcome, least int) {
	t.Helper()
	want, got := stepsOf(whole), stepsOf(resumed)
	if len(got) < least || len(got) > len(want) || !slices.Equal(want[len(want)-len(got):], got) {
		t.Errorf("resumed:\n%q\nnever interrupted:\n%q\n%s", got, want, resumed.stderr)
	}
}

// namesIn are the names in a folder, hidden ones too.
func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// A process that is killed just before its new state takes the old one's place leaves the old one, there and beside it.
func TestKilledLastWordsOfALoop(t *testing.T) {
	out, said, states := runLoop(t, t.TempDir(), "FAIL=forward:6",
		"MORE=old = os.rename\ndef f(a, b): os.kill(os.getpid(), 9)\nos.rename = f")
	if out.signal != 9 || said == nil || said.Path != "" {
		t.Errorf("%v %+v\n%s", out.signal, said, out.stderr)
	}
	if got := namesIn(t, states); got != "ckpt-4.pt ckpt.pt" {
		t.Errorf("the files are %q", got)
	}
}

// A program with neosr's names: iterations are micro-batches, a state names steps, and is two files. MORE may make a
// step end in the middle of an iteration's count, as neosr's does where it accumulates an even number.
var neosrProgram = map[string]string{
	"failures.py":              failures,
	"neosr/__init__.py":        "",
	"neosr/models/__init__.py": "",
	"neosr/models/image.py": `import os
import torch
from failures import fail, hooked


class image:
    def __init__(self, opt):
        self.opt, self.is_train, self.net_d, self.n = opt, True, None, 0
        self.net_g = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
        self.optimizer_g = torch.optim.Adam(self.net_g.parameters(), lr=0.05)
        self.optimizers = [self.optimizer_g]
        self.schedulers = [torch.optim.lr_scheduler.ExponentialLR(self.optimizer_g, 0.9)]

    def feed_data(self, data):
        self.lq = data

    def optimize_parameters(self, current_iter):
        self.n = (self.n + 1) % self.opt["accumulate"]
        fail("forward", current_iter)
        loss = (self.net_g(self.lq) - self.lq).square().mean()
        hooked(loss, self.optimizer_g, current_iter)
        loss.backward()
        if self.n == 0:
            self.optimizer_g.step()
            self.optimizer_g.zero_grad()
        print("step", current_iter, float(loss).hex(), flush=True)

    def update_learning_rate(self, current_iter):
        if self.n == 0:
            self.schedulers[0].step()

    def validation(self, current_iter):
        self.is_train = False
        self.feed_data(torch.ones(4, 8))
        fail("eval", current_iter)
        self.is_train = True

    def save(self, epoch, step):
        assert self.is_train
        torch.save(self.net_g.state_dict(), os.path.join(self.opt["path"]["models"], "net_g_%d.pth" % step))
        torch.save({"epoch": epoch, "iter": step, "optimizer": self.optimizer_g.state_dict(),
                    "scheduler": self.schedulers[0].state_dict()},
                   os.path.join(self.opt["path"]["training_states"], "%d.state" % step))
`,
	"main.py": `import os, sys
sys.path.insert(0, os.getcwd())
import torch
from neosr.models.image import image
from failures import read
torch.set_num_threads(1)


def train_pipeline():
    torch.manual_seed(0)
    out, accumulate = os.environ["OUT"], 3
    opt = {"accumulate": accumulate, "path": {"models": out + "/models", "training_states": out + "/states"}}
    for path in opt["path"].values():
        os.makedirs(path, exist_ok=True)
    model, current_iter, total_iters, epoch = image(opt), 0, 24, 0
    if os.environ.get("RESUME"):
        state = read(os.environ["RESUME"])
        current_iter = state["iter"] * accumulate
        model.net_g.load_state_dict(read(out + "/models/net_g_%d.pth" % state["iter"]))
        model.optimizer_g.load_state_dict(state["optimizer"])
        model.schedulers[0].load_state_dict(state["scheduler"])
    exec(os.environ.get("MORE", ""))
    for epoch in range(3):
        for _ in range(10):
            current_iter += 1
            if current_iter > total_iters:
                break
            model.feed_data(torch.rand(4, 8, generator=torch.Generator().manual_seed(current_iter)))
            model.optimize_parameters(current_iter)
            model.update_learning_rate(current_iter)
            if current_iter % (3 * accumulate) == 0:
                model.save(epoch, current_iter // accumulate)
            if current_iter % (2 * accumulate) == 0:
                model.validation(current_iter // accumulate)
    model.validation(-1)


train_pipeline()
`,
}

// What neosr leaves of a step that it accumulates: the last finished one, whole.
func TestLastWordsOfAccumulatedSteps(t *testing.T) {
	run := func(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "basicsr", neosrProgram, dir, 20*time.Second, env...)
	}
	whole, said, _ := run(t, t.TempDir())
	if all := stepsOf(whole); len(all) != 24 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	for _, c := range []struct {
		fail, more string
		step       int64
		files, why string
		skips      bool
	}{
		{fail: "forward:13", step: 4, files: "3.state 4.state"}, // the first pass of the 5th step
		{fail: "backward:15", step: 4, files: "3.state 4.state"},
		{fail: "forward:16", step: 5, files: "3.state 5.state"},
		{fail: "eval:4", step: 4, files: "3.state 4.state", skips: true},
		{fail: "eval:-1", step: 8, files: "3.state 6.state 8.state", skips: true}, // the last one, after all training
		{fail: "backward:10", step: 3, files: "3.state"},                          // it has saved that itself
		{fail: "optimizer:15", files: "3.state", why: "in the step of the optimizer"},
		{fail: "forward:2", why: "no step was finished"},
		{fail: "forward:15", more: "opt['accumulate'] = 1", files: "3.state",
			why: "no longer those of the last finished step"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, said, top := run(t, dir, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			states := filepath.Join(top, "states")
			if got := namesIn(t, states); got != c.files {
				t.Errorf("the files are %q, want %q; %+v", got, c.files, said)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			if said == nil || said.Step != c.step || filepath.Dir(said.Path) != states || said.Skips != c.skips {
				t.Fatalf("it reports %+v; want step %d", said, c.step)
			}
			resumed, _, _ := run(t, dir, "RESUME="+said.Path)
			sameEnd(t, whole, resumed, 24-3*int(c.step))
		})
	}
}

// A program with timm's names, whose states are of whole epochs and are written after a validation.
var epochsProgram = map[string]string{
	"failures.py": failures,
	"saver.py": `import os
import torch
from failures import fail


class Saver:
    def __init__(self, model, optimizer, folder):
        self.model, self.optimizer, self.checkpoint_dir, self.extension = model, optimizer, folder, ".pth.tar"
        os.makedirs(folder, exist_ok=True)

    def _save(self, path, epoch, metric=None):
        state = {"epoch": epoch, "state_dict": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if metric is not None:
            state["metric"] = metric
        torch.save(state, path)

    def save_checkpoint(self, epoch, metric):
        fail("saving", epoch)
        self._save(os.path.join(self.checkpoint_dir, "tmp" + self.extension), epoch, metric)
        os.replace(os.path.join(self.checkpoint_dir, "tmp" + self.extension),
                   os.path.join(self.checkpoint_dir, "last" + self.extension))
`,
	"main.py": `import os
import torch
from failures import fail, hooked, read
from saver import Saver
torch.set_num_threads(1)


def train_one_epoch(epoch, model, optimizer):
    torch.manual_seed(epoch)
    model.train()
    for i in range(3):
        fail("forward", epoch)
        x = torch.rand(4, 8)
        loss = (model(x) - x).square().mean()
        hooked(loss, optimizer, epoch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", epoch, i, float(loss).hex(), flush=True)


def validate(epoch, model):
    model.eval()
    fail("eval", epoch)
    return float(model(torch.ones(4, 8)).sum())


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    saver = Saver(model, optimizer, os.environ["OUT"])
    start = 0
    if os.environ.get("RESUME"):
        state = read(os.environ["RESUME"])
        model.load_state_dict(state["state_dict"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    exec(os.environ.get("MORE", ""))
    for epoch in range(start, 5):
        train_one_epoch(epoch, model, optimizer)
        saver.save_checkpoint(epoch, validate(epoch, model))


main()
`,
}

// What is left of a program of whole epochs: where its validation fails, the epoch before it, and within an epoch
// nothing.
func TestLastWordsOfEpochs(t *testing.T) {
	run := func(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "timm", epochsProgram, dir, 20*time.Second, env...)
	}
	whole, said, _ := run(t, t.TempDir())
	if all := stepsOf(whole); len(all) != 15 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	for _, c := range []struct {
		fail, more string
		epochs     int64
		files, why string
	}{
		{fail: "eval:2", epochs: 3, files: "last-1.pth.tar last.pth.tar"},
		{fail: "eval:0", epochs: 1, files: "last.pth.tar"},
		{fail: "forward:2", files: "last.pth.tar", why: "its states are of whole epochs"},
		{fail: "backward:2", files: "last.pth.tar", why: "its states are of whole epochs"},
		{fail: "optimizer:2", files: "last.pth.tar", why: "its states are of whole epochs"},
		{fail: "saving:2", files: "last.pth.tar", why: "cannot tell whether"},
		{fail: "eval:2", more: "model[0].weight.register_hook(lambda g: g * float('nan'))", files: "last.pth.tar",
			why: "not finite"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, said, top := run(t, dir, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			if got := namesIn(t, top); got != c.files {
				t.Errorf("the files are %q, want %q; %+v", got, c.files, said)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			if said == nil || said.Step != c.epochs || said.Unit != "epoch" || !said.Skips ||
				said.Path != filepath.Join(top, "last.pth.tar") {
				t.Fatalf("it reports %+v; want %d epochs", said, c.epochs)
			}
			resumed, _, _ := run(t, dir, "RESUME="+said.Path)
			sameEnd(t, whole, resumed, 15-3*int(c.epochs))
		})
	}
}

// A trainer with Lightning's names. A state counts the batches of the validation, and a resume makes the rest of it.
var lightningProgram = map[string]string{
	"failures.py":       failures,
	"loops/__init__.py": "",
	"loops/fetchers.py": `from failures import fail


class Fetcher:
    def __init__(self, trainer):
        self.trainer = trainer

    def __next__(self):
        fail("fetch", self.trainer.global_step)
`,
	"loops/evaluation.py": `import torch
from types import SimpleNamespace as Space
from failures import fail
from loops.fetchers import Fetcher


class EvaluationLoop:
    def __init__(self, trainer):
        self.trainer = trainer
        counts = lambda: Space(ready=0, started=0, processed=0, completed=0)
        self.batch_progress = Space(total=counts(), current=counts(), is_last_batch=False)

    def run(self):
        total = 0.0
        for i in range(self.batch_progress.current.completed, 3):
            next(Fetcher(self.trainer))
            for c in (self.batch_progress.total, self.batch_progress.current):
                c.ready, c.started = c.ready + 1, c.started + 1
            total += self._evaluation_step(i)
            for c in (self.batch_progress.total, self.batch_progress.current):
                c.processed, c.completed = c.processed + 1, c.completed + 1
        print("step", self.trainer.global_step, "eval", total.hex(), flush=True)
        self.batch_progress.current.completed = self.batch_progress.total.completed = 0

    def _evaluation_step(self, i):
        if i == 1:
            fail("eval", self.trainer.global_step)
        with torch.no_grad():
            return float(self.trainer.lightning_module(torch.ones(4, 8) * i).sum())
`,
	"loops/training_epoch_loop.py": `import torch
from types import SimpleNamespace as Space
from failures import fail, hooked
from loops.evaluation import EvaluationLoop


class EpochLoop:
    def __init__(self, trainer):
        self.trainer, self.val_loop, self._restart_stage, self.ready = trainer, EvaluationLoop(trainer), None, 0
        self._results = {"a": Space(meta=Space(name="train_loss"))}

    def _num_ready_batches_reached(self):
        return self.ready == 4

    def advance(self):
        self.ready += 1
        t = self.trainer
        x = torch.rand(4, 8, generator=torch.Generator().manual_seed(t.global_step))
        fail("forward", t.global_step)
        loss = (t.lightning_module(x) - x).square().mean()
        loss.backward()
        t.optimizer.step()
        t.optimizer.zero_grad()
        t.global_step += 1
        print("step", t.global_step, float(loss).hex(), flush=True)

    def on_advance_end(self):
        if self.ready in self.trainer.validates:
            self.val_loop.run()
`,
	"main.py": `import os, sys
sys.path.insert(0, os.getcwd())
import torch
from types import SimpleNamespace as Space
from loops.training_epoch_loop import EpochLoop
from failures import read
torch.set_num_threads(1)
torch.manual_seed(0)


class Trainer:
    def __init__(self):
        self.lightning_module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
        self.optimizer = torch.optim.Adam(self.lightning_module.parameters(), lr=0.05)
        self.global_step = self.current_epoch = 0
        self.validates, self.callbacks = (4,), []
        self.lr_scheduler_configs = [Space(reduce_on_plateau=False, interval="epoch", monitor=None)]
        self.checkpoint_callback = Space(dirpath=os.environ["OUT"])
        self.fit_loop = Space(epoch_loop=EpochLoop(self))

    def save_checkpoint(self, path):
        p = self.fit_loop.epoch_loop.val_loop.batch_progress
        torch.save({"module": self.lightning_module.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "step": self.global_step, "epoch": self.current_epoch, "ready": p.total.ready,
                    "completed": p.current.completed}, path)

    def fit(self, path):
        loop = self.fit_loop.epoch_loop
        os.makedirs(os.environ["OUT"], exist_ok=True)
        if path:
            s = read(path)
            self.lightning_module.load_state_dict(s["module"])
            self.optimizer.load_state_dict(s["optimizer"])
            self.global_step, self.current_epoch = s["step"], s["epoch"]
            assert s["ready"] == 1
            loop.val_loop.batch_progress.current.completed = s["completed"]
            loop.ready = 4
            loop.on_advance_end()
            self.current_epoch += 1
        while self.current_epoch < 4:
            loop.ready = 0
            while loop.ready < 4:
                loop.advance()
                loop.on_advance_end()
            self.current_epoch += 1


trainer = Trainer()
exec(os.environ.get("MORE", ""))
trainer.fit(os.environ.get("RESUME"))
`,
}

// What Lightning leaves: the state before the validation that fails at the end of an epoch, and a resume makes all of
// it.
func TestLastWordsOfLightning(t *testing.T) {
	run := func(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "lightning", lightningProgram, dir, 20*time.Second, env...)
	}
	whole, said, _ := run(t, t.TempDir())
	if all := stepsOf(whole); len(all) != 20 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	for _, c := range []struct {
		fail, more string
		files, why string
	}{
		{fail: "eval:8", files: "epoch=1-step=8-before-validation.ckpt"},
		{fail: "fetch:8", files: "epoch=1-step=8-before-validation.ckpt"},
		{fail: "eval:8", more: "trainer.callbacks = [Space(monitor='val_loss')]",
			files: "epoch=1-step=8-before-validation.ckpt"},
		{fail: "forward:6", why: "at its first batch"},
		{fail: "eval:6", more: "trainer.validates = (2, 4)", why: "at its first batch"},
		{fail: "eval:8", more: "trainer.callbacks = [Space(monitor='train_loss_epoch')]",
			why: "a figure of the epoch's training"},
		{fail: "eval:8", more: "trainer.lr_scheduler_configs[0].reduce_on_plateau = True",
			why: "leaves out a step of the schedule"},
		{fail: "eval:8", more: "del trainer.fit_loop.epoch_loop._restart_stage", why: "a step of the schedule twice"},
		{fail: "eval:8", more: "trainer.checkpoint_callback = None", why: "no ModelCheckpoint"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, said, top := run(t, dir, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			if got := namesIn(t, top); got != c.files {
				t.Errorf("the files are %q, want %q; %+v", got, c.files, said)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			if said == nil || said.Step != 8 || said.Skips || said.Path != filepath.Join(top, c.files) {
				t.Fatalf("it reports %+v", said)
			}
			resumed, _, _ := run(t, dir, "RESUME="+said.Path)
			sameEnd(t, whole, resumed, 11)
		})
	}
}
