package overlay

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program with traiNNer-redux's names: it catches what fails, and saves under the number of the iteration before,
// also where that is not how many steps are in it. Each iteration has two passes, and two optimizers as a GAN has.
var trainnerProgram = map[string]string{
	"failures.py":                 failures,
	"traiNNer/__init__.py":        "",
	"traiNNer/models/__init__.py": "",
	"traiNNer/models/base_model.py": `class BaseModel:
    def update_learning_rate(self, current_iter, warmup_iter=-1):
        for s in self.schedulers:
            s.step()

    def save_training_state(self, epoch, current_iter):
        import torch
        torch.save({"iter": current_iter, "optimizers": [o.state_dict() for o in self.optimizers]},
                   "%s/%d.state" % (self.opt.path.training_states, current_iter))
`,
	"traiNNer/models/sr_model.py": `import torch
from failures import fail, hooked
from traiNNer.models.base_model import BaseModel


class SRModel(BaseModel):
    def __init__(self, opt):
        self.opt = opt
        self.net_g = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8))
        self.net_d = torch.nn.utils.spectral_norm(torch.nn.Linear(8, 1))
        self.optimizers = [torch.optim.Adam(n.parameters(), lr=0.05) for n in (self.net_g, self.net_d)]
        self.schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in self.optimizers]

    def feed_data(self, data):
        self.lq = data

    def optimize_parameters(self, current_iter, current_accum_iter, apply_gradient):
        when = current_iter if apply_gradient else -current_iter
        made = self.net_g(self.lq)
        fail("forward", when)
        loss = (made - self.lq).square().mean() - 0.01 * self.net_d(made).mean()
        hooked(loss, self.optimizers[0], when)
        loss.backward()
        if apply_gradient:
            self.optimizers[0].step()
            self.optimizers[0].zero_grad()
        fail("between the optimizers", when)
        loss_d = self.net_d(made.detach()).square().mean()
        loss_d.backward()
        if apply_gradient:
            self.optimizers[1].step()
            self.optimizers[1].zero_grad()

    def validation(self, current_iter):
        self.net_g.eval()
        self.feed_data(torch.ones(4, 8))
        fail("eval", current_iter)
        self.net_g.train()

    def save(
        self,
        epoch,
        current_iter,
    ):
        """Save."""
        nets = self.net_g.state_dict(), self.net_d.state_dict()
        torch.save(nets, "%s/net_%d.pth" % (self.opt.path.models, current_iter))
        self.save_training_state(epoch, current_iter)
`,
	"main.py": `import os, sys, types
sys.path.insert(0, os.getcwd())
import torch
from traiNNer.models.sr_model import SRModel
torch.set_num_threads(1)


def train_pipeline():
    torch.manual_seed(0)
    out = os.environ["OUT"]
    paths = types.SimpleNamespace(models=out + "/models", resume_models=None, training_states=out + "/training_states")
    for path in (paths.models, paths.training_states):
        os.makedirs(path, exist_ok=True)
    opt = types.SimpleNamespace(path=paths, val=types.SimpleNamespace(val_freq=4))
    model, current_iter, accumulated, last = SRModel(opt), 0, 0, int(os.environ.get("LAST", 9))
    interrupt_received = crashed = apply_gradient = False
    epoch, train_data = 0, None

    def interrupt():
        nonlocal interrupt_received
        interrupt_received = True

    try:
        for n in range(2 * last):
            accumulated += 1
            if accumulated >= 2:
                accumulated, apply_gradient = 0, True
                current_iter += 1
            else:
                apply_gradient = False
            train_data = torch.rand(4, 8, generator=torch.Generator().manual_seed(n))
            model.feed_data(train_data)
            model.optimize_parameters(current_iter, accumulated, apply_gradient)
            if apply_gradient:
                model.update_learning_rate(current_iter)
                if current_iter == 3 or os.environ.get("ALWAYS"):
                    model.save(epoch, current_iter)
                if os.environ.get("TORN") == str(current_iter):
                    with open("%s/%d.state" % (paths.training_states, current_iter), "wb") as f:
                        f.write(b"PK")
                if current_iter % opt.val.val_freq == 0:
                    model.validation(current_iter)
            if os.environ.get("STOP") == str(n):
                interrupt()
                break
    except Exception as e:
        print("caught", e, flush=True)
        crashed = interrupt_received = True
    if interrupt_received:
        if not apply_gradient or crashed:
            current_iter -= 1
        if current_iter > 0:
            print("saving", current_iter, flush=True)
            model.save(epoch, current_iter)
    print("the end", flush=True)


train_pipeline()
`,
}

// What such a program saves as it breaks off has the number of the steps that are in it, or is not saved. That needs
// torch 2, which shows where an optimizer's step begins: make test-trace runs this with it.
func TestWordsOfOneThatSavesItself(t *testing.T) {
	const shows = "import torch.optim.optimizer as o; o._global_optimizer_pre_hooks"
	counts := exec.Command(python(t), "-c", shows).Run() == nil
	content := func(t *testing.T, out string, step int64) string {
		t.Helper()
		var all string
		for _, name := range []string{"models/net_%d.pth", "training_states/%d.state"} {
			text, err := os.ReadFile(filepath.Join(out, fmt.Sprintf(name, step)))
			if err != nil {
				t.Fatal(err)
			}
			all += string(text)
		}
		return all
	}
	run := func(t *testing.T, env ...string) (witnessOutcome, *LastWords, string) {
		t.Helper()
		return runWordsOf(t, "trainner", trainnerProgram, t.TempDir(), 20*time.Second, env...)
	}
	_, said, whole := run(t, "ALWAYS=1")
	const all = "1.state 2.state 3.state 4.state 5.state 6.state 7.state 8.state 9.state"
	if got := namesIn(t, whole+"/training_states"); got != all || said != nil {
		t.Fatalf("%q %+v", got, said)
	}
	for name, c := range map[string]struct {
		env   string
		step  int64 // that the state has; 0: none is saved
		skips bool
		bare  int64 // the number without launch
	}{
		"the passes of a step":           {env: "FAIL=forward:7", step: 6, bare: 6},
		"the backward":                   {env: "FAIL=backward:7", step: 6, bare: 6},
		"the first pass of two":          {env: "FAIL=forward:-6", step: 6, bare: 5},
		"the optimizer":                  {env: "FAIL=optimizer:7", bare: 6},
		"an optimizer's states":          {env: "FAIL=states:7", bare: 6},
		"between two optimizers":         {env: "FAIL=between the optimizers:7", bare: 6},
		"the validation":                 {env: "FAIL=eval:8", step: 8, skips: true, bare: 7},
		"an interrupt of the first pass": {env: "STOP=12", step: 6, bare: 5},
		"an interrupt of a step":         {env: "STOP=13", step: 7, bare: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, said, states := run(t, c.env)
			asked := strings.HasPrefix(c.env, "STOP")
			if out.code != 0 || !strings.HasSuffix(out.stdout, fmt.Sprintf("saving %d\nthe end\n", c.bare)) || out.stderr != "" {
				t.Fatalf("it ends as it does without: %d\n%s%s", out.code, out.stdout, out.stderr)
			}
			want := "3.state"
			if !counts && !asked && !c.skips { // it is as without launch
				if got := namesIn(t, states+"/training_states"); got != fmt.Sprintf("3.state %d.state", c.bare) || said != nil {
					t.Errorf("the states are %q; %+v", got, said)
				}
				return
			}
			if c.step > 0 {
				want = fmt.Sprintf("3.state %d.state", c.step)
				if content(t, states, c.step) != content(t, whole, c.step) {
					t.Errorf("its bytes are not those of an uninterrupted run's state of step %d", c.step)
				}
			}
			if got := namesIn(t, states+"/training_states"); got != want {
				t.Errorf("the states are %q, want %q; %+v", got, want, said)
			}
			switch {
			case asked && said != nil:
				t.Errorf("it reports %+v of a program that did not fail", said)
			case asked:
			case said == nil || said.Step != c.step || said.Skips != c.skips || (said.Path == "") != (c.step == 0) ||
				(said.Why == "") != (c.step > 0):
				t.Errorf("it reports %+v; want step %d", said, c.step)
			}
		})
	}
	// without the hook the numbers are the program's
	dir := t.TempDir()
	witnessWrite(t, dir, trainnerProgram)
	out := witnessStart(t, dir, []string{"OUT=" + filepath.Join(dir, "out"), "FAIL=eval:8"})
	if _, err := os.Stat(filepath.Join(dir, "out/training_states/7.state")); err != nil {
		t.Errorf("%v\n%s%s", err, out.stdout, out.stderr)
	}
}

// A state that is there is not written again, unless only a part of it is there.
func TestWordsOfOneThatHasSaved(t *testing.T) {
	_, torn, left := runWordsOf(t, "trainner", trainnerProgram, t.TempDir(), 20*time.Second, "TORN=8", "FAIL=eval:8")
	info, err := os.Stat(filepath.Join(left, "training_states/8.state"))
	if err != nil || torn == nil || torn.Kept || info.Size() < 100 {
		t.Errorf("a torn state was kept: %+v %v", torn, err)
	}
	_, said, states := runWordsOf(t, "trainner", trainnerProgram, t.TempDir(), 20*time.Second, "ALWAYS=1", "FAIL=eval:8")
	before, err := os.Stat(filepath.Join(states, "training_states/8.state"))
	if err != nil || said == nil || said.Step != 8 || !said.Kept || !said.Skips {
		t.Fatalf("%+v %v", said, err)
	}
	if got := namesIn(t, states+"/training_states"); strings.Contains(got, "9") || before.Size() == 0 {
		t.Errorf("the states are %q", got)
	}
}

// In a program whose functions have other parameters than the family knows, they are left as they are.
func TestWordsOfOtherParameters(t *testing.T) {
	other := maps.Clone(trainnerProgram)
	for file, renamed := range map[string][]string{
		"traiNNer/models/base_model.py": {"update_learning_rate(self, current_iter", "update_learning_rate(self, step"},
		"traiNNer/models/sr_model.py": {"        current_iter,\n    ):", "        step,\n    ):",
			"models, current_iter)", "models, step)", "(epoch, current_iter)\n", "(epoch, step)\n"},
	} {
		other[file] = strings.NewReplacer(renamed...).Replace(other[file])
	}
	out, _, states := runWordsOf(t, "trainner", other, t.TempDir(), 20*time.Second, "FAIL=eval:8")
	got := namesIn(t, states+"/training_states")
	if got != "3.state 7.state" || !strings.HasSuffix(out.stdout, "saving 7\nthe end\n") {
		t.Errorf("%q: %s%s", got, out.stdout, out.stderr)
	}
}
