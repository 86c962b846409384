package overlay

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A script with the names of diffusers' examples and of accelerate. A step draws noise before it begins; a validation
// draws, too, and may have the averaged parameters in place of the trained ones.
var accelerateProgram = map[string]string{
	"failures.py":            failures,
	"accelerate/__init__.py": "",
	"accelerate/accelerator.py": `import contextlib, os, random
import torch
from failures import fail


class Accelerator:
    def __init__(self, passes, state):
        self.passes, self.step, self.distributed_type, self._models, self.gradient_state = passes, 0, None, [], state
        self.distributed_type = type("Kind", (), {"value": "NO"})

    @contextlib.contextmanager
    def accumulate(self, model):
        self.step += 1
        self.gradient_state.sync_gradients = self.step % self.passes == 0
        yield

    def save_state(self, path):
        os.makedirs(path)
        fail("saving", int(path.split("-")[-1]))
        torch.save({"model": self._models[0].state_dict(), "optimizer": self.optimizer.optimizer.state_dict(),
                    "scheduler": self.scheduler.scheduler.state_dict(), "step": self.step,
                    "torch": torch.get_rng_state(), "random": random.getstate()}, path + "/state.pt")
`,
	"accelerate/optimizer.py": `class AcceleratedOptimizer:
    def __init__(self, optimizer, state):
        self.optimizer, self.gradient_state = optimizer, state

    def step(self):
        if self.gradient_state.sync_gradients:
            self.optimizer.step()

    def zero_grad(self):
        if self.gradient_state.sync_gradients:
            self.optimizer.zero_grad()
`,
	"accelerate/scheduler.py": `class AcceleratedScheduler:
    def __init__(self, scheduler, state):
        self.scheduler, self.gradient_state = scheduler, state

    def step(self):
        if self.gradient_state.sync_gradients:
            self.scheduler.step()
`,
	"main.py": `import os, random, sys
sys.path.insert(0, os.getcwd())
import torch
from types import SimpleNamespace as Space
from failures import fail, hooked, read
from accelerate.accelerator import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
torch.set_num_threads(1)


class Average:
    def __init__(self, model):
        self.kept, self.temp_stored_params = [torch.ones_like(p) for p in model.parameters()], None

    def store(self, parameters):
        self.temp_stored_params = [p.detach().clone() for p in parameters]

    def copy_to(self, parameters):
        for p, kept in zip(parameters, self.kept):
            p.data.copy_(kept)

    def restore(self, parameters):
        for p, stored in zip(parameters, self.temp_stored_params):
            p.data.copy_(stored)
        self.temp_stored_params = None


def log_validation(model, step, average=None):
    model.eval()
    if average is not None and step == 6:
        average.copy_to(model.parameters())
    torch.rand(3)
    fail("eval", step)
    model.train()


def main(args):
    torch.manual_seed(0); random.seed(0)
    state = Space(sync_gradients=True)
    passes = int(os.environ.get("PASSES", 2))
    accelerator = Accelerator(passes, state)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3),
                                torch.nn.Linear(8, 8))
    ema = Average(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scheduler = AcceleratedScheduler(torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), state)
    optimizer = AcceleratedOptimizer(optimizer, state)
    accelerator._models, accelerator.optimizer, accelerator.scheduler = [model], optimizer, scheduler
    global_step = 0
    if os.environ.get("RESUME"):
        kept = read(os.environ["RESUME"] + "/state.pt")
        model.load_state_dict(kept["model"])
        optimizer.optimizer.load_state_dict(kept["optimizer"])
        scheduler.scheduler.load_state_dict(kept["scheduler"])
        accelerator.step = kept["step"]
        torch.set_rng_state(kept["torch"]); random.setstate(kept["random"])
        global_step = int(os.environ["RESUME"].split("-")[-1])
    exec(os.environ.get("MORE", ""))
    while global_step < 10:
        for part in range(passes):
            noise = torch.rand(4, 8) + random.random()
            fail("drawing", global_step)
            with accelerator.accumulate(model):
                fail("forward", global_step)
                loss = (model(noise) - noise).square().mean()
                hooked(loss, optimizer.optimizer, global_step)
                loss.backward()
                fail("clipping", global_step)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            print("step", global_step, float(loss).hex(), flush=True)
        assert state.sync_gradients, "a step ends within a group"
        fail("averaging", global_step)
        global_step += 1
        if global_step % 4 == 0:
            accelerator.save_state(os.path.join(args.output_dir, "checkpoint-%d" % global_step))
        if global_step % 3 == 0:
            generator = torch.get_rng_state()
            if args.use_ema:
                ema.store(model.parameters()); ema.copy_to(model.parameters())
            log_validation(model, global_step)
            if args.use_ema:
                ema.restore(model.parameters())
            torch.set_rng_state(generator)


main(Space(output_dir=os.environ["OUT"], checkpointing_steps=4, use_ema=os.environ.get("EMA")))
`,
}

// What a script of accelerate leaves is the random state of the end of its last step, from before the next one draws
// its noise; where a validation fails, the trained parameters, though the averaged ones are in their place.
func TestLastWordsOfAccelerate(t *testing.T) {
	run := func(t *testing.T, dir string, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "accelerate", accelerateProgram, dir, 20*time.Second, env...)
	}
	whole, said, _ := run(t, t.TempDir())
	if all := stepsOf(whole); len(all) != 20 || said != nil {
		t.Fatalf("%q %+v\n%s", all, said, whole.stderr)
	}
	const changed = "no longer those of the last finished step"
	for _, c := range []struct {
		fail, more string
		step       int64 // 0: none is saved
		why        string
		skips      bool
	}{
		{fail: "forward:6", step: 6},
		{fail: "backward:7", step: 7},
		{fail: "clipping:6", step: 6},
		{fail: "drawing:7", step: 7}, // the step before has ended, and no validation fails
		{fail: "eval:6", step: 6, skips: true},
		{fail: "eval:6", more: "args.use_ema = True", step: 6, skips: true},
		{fail: "eval:6", more: "log_validation.__defaults__ = (ema,)", why: changed},
		{fail: "eval:6", more: "args.use_ema = True\naccelerator._models.append(torch.nn.Sequential(*model))",
			why: changed}, // of which model?
		{fail: "eval:6", more: "log_validation.__defaults__ = (Space(copy_to=lambda p, m=model: m.double()),)", why: changed},
		{fail: "averaging:6", why: changed},
		{fail: "optimizer:6", why: "in the step of the optimizer"},
		{fail: "saving:8", why: "cannot tell whether"},
		{fail: "forward:6", more: "accelerator.distributed_type.value = 'FSDP'", why: "from all ranks"},
		{fail: "forward:0", why: "no step was finished"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, said, states := run(t, dir, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			path := filepath.Join(states, "checkpoint-"+string(rune('0'+c.step)))
			if said == nil || said.Step != c.step || said.Path != path || said.Skips != c.skips {
				t.Fatalf("it reports %+v; want step %d, validation skipped %v", said, c.step, c.skips)
			}
			resumed, _, _ := run(t, dir, "RESUME="+said.Path)
			sameEnd(t, whole, resumed, 20-2*int(c.step))
			if all := stepsOf(resumed); len(all) != 20-2*int(c.step) {
				t.Errorf("it makes %d passes: %q", len(all), all)
			}
			smaller, _, _ := run(t, dir, "RESUME="+said.Path, "PASSES=5", "OUT="+t.TempDir())
			if all := stepsOf(smaller); smaller.code != 0 || len(all) != 50-5*int(c.step) {
				t.Errorf("with smaller passes it makes %d: %s", len(all), smaller.stderr)
			}
		})
	}
}
