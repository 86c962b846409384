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
		{fail: "eval:8", step: 8, files: "ckpt-4.pt ckpt.pt"},
		{fail: "forward:4", step: 4, files: "ckpt.pt"}, // it has saved that itself
		// the older state's name is taken
		{fail: "forward:6", more: "open(out_dir + '/ckpt-4.pt', 'w').close()", step: 6, files: "ckpt-4-2.pt ckpt-4.pt ckpt.pt"},
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
