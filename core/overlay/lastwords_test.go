package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// A trainer of our own with the names that transformers.py uses. It has what makes a state hard to get right: dropout,
// statistics of a batch norm, accumulation, a schedule, and random numbers that a state keeps. A step fails by what
// FAIL says, in the step that it names.
var wordsProgram = map[string]string{
	"transformers/__init__.py": "",
	"transformers/trainer_callback.py": `class CallbackHandler:
    def on_epoch_begin(self, args, state, control):
        return control
`,
	"transformers/trainer.py": `"""The trainer."""
import json, os, random, types
import torch
from transformers.trainer_callback import CallbackHandler


class Trainer:
    def __init__(self, model, out, resume=None, **args):
        self.model = model
        plain = dict(output_dir=out, save_only_model=False, load_best_model_at_end=False, save_strategy="steps",
                     push_to_hub=True, save_total_limit=1)
        self.args = types.SimpleNamespace(**dict(plain, **args))
        self.is_deepspeed_enabled = self.is_fsdp_enabled = False
        self.state, self.rest = types.SimpleNamespace(global_step=0, epoch=0), None
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        if resume:
            self.load(resume)

    def load(self, path):
        self.model.load_state_dict(torch.load(path + "/model.pt"))
        s = torch.load(path + "/rest.pt")
        self.optimizer.load_state_dict(s["optimizer"])
        self.scheduler.load_state_dict(s["scheduler"])
        self.rest = s
        self.state.global_step = json.load(open(path + "/trainer_state.json"))["step"]

    def epoch(self, begins):
        """What a resume at the end of an epoch sets is set before the next one draws its order, else after that."""
        CallbackHandler().on_epoch_begin(self.args, self.state, None)
        for now in (True, False):
            if self.rest and now == begins:
                torch.set_rng_state(self.rest["torch"])
                random.setstate(self.rest["random"])
                self.rest = None
            if now:
                random.random(), torch.rand(3)

    def training_step(self, model, x):
        "One micro-batch."
        model.train()
        fail(self, "forward")
        loss = ((model(x) - x) ** 2).mean() * random.random()
        hooked(self, loss)
        loss.backward()
        return loss.detach()

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            print("step", self.state.global_step, "eval", float(self.model(torch.ones(4, 8)).sum()).hex(), flush=True)
        fail(self, "eval", 0)

    def _get_output_dir(self, trial):
        return self.args.output_dir

    def _save_checkpoint(self, model, trial):
        path = self._get_output_dir(trial=trial) + "/checkpoint-%d" % self.state.global_step
        os.makedirs(path)
        torch.save(self.model.state_dict(), path + "/model.pt")
        fail(self, "saving", 0)
        print("Saving model checkpoint to", path, flush=True)
        torch.save(dict(optimizer=self.optimizer.state_dict(), scheduler=self.scheduler.state_dict(),
                        torch=torch.get_rng_state(), random=random.getstate()), path + "/rest.pt")
        json.dump({"step": self.state.global_step}, open(path + "/trainer_state.json", "w"))
        if self.args.push_to_hub:
            print("pushed", flush=True)
        if self.args.save_total_limit:
            for old in os.listdir(self.args.output_dir):
                if old.startswith("checkpoint-") and old != "checkpoint-%d" % self.state.global_step:
                    os.rename(self.args.output_dir + "/" + old, self.args.output_dir + "/removed-" + old)

    def get_batch_samples(self):
        fail(self, "fetch")
        for part in range(2):
            yield torch.rand(4, 8, generator=torch.Generator().manual_seed(2 * self.state.global_step + part))

    def train(self, steps):
        self.epoch(self.state.global_step % 5 == 0)
        while self.state.global_step < steps:
            total = 0.0
            for x in list(self.get_batch_samples()):
                total += float(self.training_step(self.model, x))
            fail(self, "before the optimizer")
            self.optimizer.step()
            fail(self, "after the optimizer")
            self.scheduler.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1
            self.state.epoch = self.state.global_step / 5
            print("step", self.state.global_step, total.hex(), flush=True)
            if self.state.global_step % 4 == 0:
                self._save_checkpoint(self.model, None)
            if self.state.global_step % 3 == 0:
                self.evaluate()
            if self.state.global_step % 5 == 0 and self.state.global_step < steps:
                self.epoch(True)


FAIL = os.environ.get("FAIL", "").split(":")


def due(self, where, ahead):
    return FAIL[0] == where and self.state.global_step + ahead == int(FAIL[1])


def oom():
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def fail(self, where, ahead=1):
    if due(self, where, ahead):
        oom()


def hooked(self, loss):
    if due(self, "backward", 1):
        loss.register_hook(lambda g: oom())
    if due(self, "optimizer", 1):
        self.optimizer.zero_grad = self.optimizer.step = lambda *a: parts(self.optimizer)


def parts(optimizer):
    with torch.no_grad():
        optimizer.param_groups[0]["params"][0].add_(1)
    oom()
`,
	"main.py": `import os, sys, random
sys.path.insert(0, os.getcwd())
import torch
from transformers.trainer import Trainer
torch.manual_seed(0); random.seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3),
                            torch.nn.Linear(8, 8))
if "frozen" in os.environ.get("MORE", ""):
    model[0].weight.requires_grad_(False)
trainer = Trainer(model, os.environ["OUT"], os.environ.get("RESUME"))
exec(os.environ.get("MORE", "").replace("frozen", ""))
trainer.train(10)
`,
}

// runWords runs the program with last words, and returns its output, what was reported, and the folder of its states.
func runWords(t *testing.T, env ...string) (out witnessOutcome, said *LastWords, dir string) {
	t.Helper()
	return runWordsIn(t, t.TempDir(), 20*time.Second, env...)
}

func runWordsIn(t *testing.T, dir string, limit time.Duration, env ...string) (witnessOutcome, *LastWords, string) {
	t.Helper()
	return runWordsOf(t, "transformers", wordsProgram, dir, limit, env...)
}

// runWordsOf runs a program of that family; its states are in the folder out.
func runWordsOf(t *testing.T, family string, program map[string]string, dir string, limit time.Duration,
	env ...string) (witnessOutcome, *LastWords, string) {
	t.Helper()
	return runWordsBy(t, warmStart, family, program, dir, limit, env...)
}

func runWordsBy(t *testing.T, start starter, family string, program map[string]string, dir string, limit time.Duration,
	env ...string) (witnessOutcome, *LastWords, string) {
	t.Helper()
	witnessWrite(t, dir, program)
	part, known := LastWordsPart(family, limit)
	if !known {
		t.Fatalf("%s has no text", family)
	}
	o, err := Install(filepath.Join(t.TempDir(), "attempt"), nil, nil, WitnessPart(), part)
	if err != nil {
		t.Fatal(err)
	}
	states := filepath.Join(dir, "out")
	out := start(t, dir, append(append(o.Env, "OUT="+states), env...))
	if left, _ := filepath.Glob(filepath.Join(states, unfinishedWords+"*")); len(left) > 0 && out.signal == 0 {
		t.Errorf("left behind: %q", left)
	}
	r := o.Report()
	r.Clear()
	return out, r.LastWords(), states
}

// stepsOf are the lines of a program that name a step and its loss, to the bit.
func stepsOf(out witnessOutcome) (lines []string) {
	for line := range strings.Lines(out.stdout) {
		if strings.HasPrefix(line, "step ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// After an out-of-memory in any part of a step but the optimizer's, the state has the last finished step, and what
// resumes from it is the training that was never interrupted, to the bit.
func TestLastWords(t *testing.T) {
	plain, said, _ := runWords(t)
	if all := stepsOf(plain); len(all) != 13 || said != nil || plain.code != 0 {
		t.Fatalf("%d steps, %+v\n%s", len(all), said, plain.stderr)
	}
	for _, c := range []struct {
		fail, more string
		step       int64 // 0: none is saved
		why        string
		skips      bool
	}{
		{fail: "forward:7", step: 6},
		{fail: "backward:7", step: 6},
		{fail: "forward:10", step: 9},
		{fail: "forward:6", step: 5}, // in the first step of an epoch, which has drawn its order
		{fail: "backward:6", step: 5},
		{fail: "fetch:6", step: 5},
		{fail: "fetch:8", step: 7},
		{fail: "backward:2", step: 1},
		{fail: "eval:6", step: 6, skips: true},
		{fail: "forward:1", why: "no step was finished"},
		{fail: "before the optimizer:7", why: "cannot tell whether the last step was finished"},
		{fail: "after the optimizer:7", why: "cannot tell whether the last step was finished"},
		{fail: "optimizer:7", why: "cannot tell whether the last step was finished"},
		{fail: "saving:8", why: "cannot tell whether the last step was finished"},
		{fail: "forward:7", more: "trainer.args.save_only_model = True", why: "save_only_model"},
		{fail: "eval:6", more: "trainer.args.load_best_model_at_end = True", why: "which model is the best"},
		{fail: "forward:7", more: "trainer.is_fsdp_enabled = True", why: "from all ranks"},
		{fail: "forward:7", more: "model[0].weight.data[0] = float('nan')", why: "not finite"},
		// a part of the program that changes parameters in a step, as a momentum encoder does, within what copies may hold
		{fail: "forward:7", more: "frozen\nmodel[2].register_forward_hook(lambda m, a, o: [model[0].weight.mul_(0.99), " +
			"None][1])", step: 6},
		// or changes those that it trains
		{fail: "backward:7", more: "def f(m, a, o): model[3].bias.data = model[3].bias.data * " +
			"0.99\nmodel[2].register_forward_hook(f)", why: "no longer those of the last finished step"},
		{fail: "backward:7", more: "def f(m, a, o):\n    with torch.no_grad(): " +
			"model[3].bias.mul_(0.99)\nmodel[2].register_forward_hook(f)", why: "no longer those of the last finished step"},
	} {
		t.Run(c.fail+c.more, func(t *testing.T) {
			t.Parallel()
			out, said, dir := runWords(t, "FAIL="+c.fail, "MORE="+c.more)
			if out.code != 1 || !strings.HasSuffix(out.stderr, "CUDA out of memory. Tried to allocate 2.00 GiB\n") {
				t.Fatalf("it ends as it does without: %d\n%s", out.code, out.stderr)
			}
			if c.why != "" {
				if said == nil || said.Path != "" || !strings.Contains(said.Why, c.why) {
					t.Fatalf("it reports %+v; want no state, because %q", said, c.why)
				}
				return
			}
			path := filepath.Join(dir, "checkpoint-"+strings.TrimPrefix(c.fail[strings.Index(c.fail, ":"):], ":"))
			if c.step > 0 {
				path = filepath.Join(dir, "checkpoint-"+string(rune('0'+c.step)))
			}
			if said == nil || said.Step != c.step || said.Path != path || said.Skips != c.skips || said.Why != "" {
				t.Fatalf("it reports %+v; want step %d, saved as %s, validation skipped %v", said, c.step, path, c.skips)
			}
			if strings.Contains(out.stdout, unfinishedWords) || strings.Count(out.stdout, "pushed") != int(c.step)/4 {
				t.Errorf("it prints or sends more than without:\n%s", out.stdout)
			}
			older, _ := filepath.Glob(filepath.Join(dir, "*checkpoint-4"))
			if (c.step > 4) != slices.Equal(older, []string{filepath.Join(dir, "checkpoint-4")}) && c.step < 8 {
				t.Errorf("the older state: %q", older)
			}
			whole, _, _ := runWords(t, "MORE="+c.more)
			resumed, _, _ := runWords(t, "MORE="+c.more, "RESUME="+path)
			want, got := stepsOf(whole), stepsOf(resumed)
			if want = want[len(want)-len(got):]; len(got) < 10-int(c.step) || !slices.Equal(want, got) {
				t.Errorf("resumed:\n%q\nnever interrupted:\n%q\n%s", got, want, resumed.stderr)
			}
		})
	}
}

// Where the process must not save, or cannot, it ends as it does without, and says why.
func TestNoLastWords(t *testing.T) {
	// what only has is used once the traceback was printed
	const dying = "save = trainer._save_checkpoint\ndef only(f):\n" +
		"    return lambda *a: f(*a) if hasattr(sys, 'last_value') else save(*a)\n"
	for name, c := range map[string]struct{ env, more, why string }{
		"caught": {"FAIL=forward:7", "try: trainer.train(10)\nexcept RuntimeError: print('caught'); os._exit(1)",
			""},
		"another failure": {"FAIL=", "trainer.optimizer.step = lambda: 1/0", ""},
		"its save fails": {"FAIL=forward:7",
			dying + "keep = torch.save\ntorch.save = lambda *a: open('/nowhere/x') if hasattr(sys, 'last_value') else " +
				"keep(*a)", "saving failed: FileNotFoundError"},
		"a silent save": {"FAIL=forward:7",
			dying + "def f(model, trial):\n    try: torch.save(lambda: 0, '/nowhere/x')\n    except Exception: pass\n    " +
				"save(model, trial)\ntrainer._save_checkpoint = only(f)", "saving failed"},
		"memory again": {"FAIL=forward:7",
			dying + "def f(*a): raise RuntimeError('CUDA out of memory')\ntrainer._save_checkpoint = only(f)",
			"saving failed: RuntimeError: CUDA out of memory"},
		"too slow": {"FAIL=forward:7",
			dying + "import time\ntrainer._save_checkpoint = only(lambda *a: time.sleep(300))", "longer than --last-words"},
		"ranks": {"FAIL=forward:7",
			"import torch.distributed as d\nd.is_initialized = lambda: True\nd.get_world_size = lambda: 2",
			"several processes train together"},
		"a child": {"FAIL=forward:7", "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, said, dir := runWordsIn(t, t.TempDir(), 2*time.Second, c.env, "MORE="+c.more)
			if out.code != 1 {
				t.Fatalf("%d\n%s", out.code, out.stderr)
			}
			if c.why == "" && said != nil ||
				c.why != "" && (said == nil || said.Path != "" || !strings.Contains(said.Why, c.why)) {
				t.Errorf("%+v\n%s", said, out.stderr)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
			if all := append(left, hidden...); len(all) != 0 && !(len(all) == 1 && strings.HasSuffix(all[0], "checkpoint-4")) {
				t.Errorf("left behind: %q", all)
			}
		})
	}
}

// A process that is killed while it saves leaves no state, and what it had begun is removed.
func TestKilledLastWords(t *testing.T) {
	out, said, dir := runWords(t, "FAIL=forward:7",
		"MORE=old = torch.save\ndef f(o, path):\n    old(o, path)\n    if '.launch' in path and 'rest' in path: "+
			"os.kill(os.getpid(), 9)\ntorch.save = f")
	if out.signal != 9 || said == nil || said.Path != "" || said.Why != "the process was ended while it saved" {
		t.Errorf("%+v %+v\n%s", out.signal, said, out.stderr)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "checkpoint-4" {
		t.Errorf("%v %v", entries, err)
	}
}

// A program without an out-of-memory prints and writes the same, and its tracebacks show no frame of the hook.
func TestLastWordsUnseen(t *testing.T) {
	more := "MORE=import inspect, traceback\nprint(inspect.signature(Trainer.training_step), " +
		"len(inspect.getsource(Trainer.training_step)))\n" +
		"def f(m, a): print(''.join(traceback.format_stack()), m._forward_pre_hooks, " +
		"model._backward_hooks)\nmodel[2].register_forward_pre_hook(f)\n" +
		"model[0].weight.register_hook(lambda g: 1/0 if trainer.state.global_step == 2 else None)"
	dir := t.TempDir()
	with, _, states := runWordsBy(t, coldStart, "transformers", wordsProgram, dir, time.Minute, more)
	if err := os.Rename(states, states+"-with"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	bare := witnessStart(t, dir, []string{"OUT=" + states, more})
	text := func(o witnessOutcome) string { return reTimes.ReplaceAllString(o.stdout+o.stderr, "") }
	if text(bare) != text(with) || bare.code != with.code {
		t.Errorf("bare:\n%s%s\nwith:\n%s%s", bare.stdout, bare.stderr, with.stdout, with.stderr)
	}
}

// Savers are the libraries that have a text, and each text is ASCII and has all names.
func TestSavers(t *testing.T) {
	entries, err := families.ReadDir("words")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".py")
		names = append(names, name)
		text, _ := families.ReadFile("words/" + e.Name())
		for _, c := range string(text) {
			if c > 126 {
				t.Fatalf("%s: %q", name, c)
			}
		}
		start := "begun"
		if strings.Contains(string(text), "SEEN = {}") {
			start = "found"
		}
		for _, f := range []string{start, "number", "models", "within", "refuse", "place", "save"} {
			if !strings.Contains(string(text), "\ndef "+f+"(") {
				t.Errorf("%s has no %s", name, f)
			}
		}
	}
	if names = append(names, job.WholeEpochs); !slices.Equal(slices.Sorted(slices.Values(names)), job.Savers) {
		t.Errorf("%q, and job.Savers are %q", names, job.Savers)
	}
	if _, known := LastWordsPart("unheard of", time.Minute); known {
		t.Error("an unknown library has a text")
	}
	var r Report
	if err := json.Unmarshal([]byte("{}"), &r); err != nil || r.LastWords() != nil {
		t.Error("nothing was reported")
	}
}

// Settings in Python source are reported beside the last words, in whatever order the modules are read.
func TestLastWordsBesideSettings(t *testing.T) {
	dir := t.TempDir()
	witnessWrite(t, dir, wordsProgram)
	text := "LIMIT = 3\n"
	main := strings.Replace(wordsProgram["main.py"], "from transformers.trainer import Trainer\n",
		"from transformers.trainer import Trainer\nimport settings\n", 1)
	witnessWrite(t, dir, map[string]string{"settings.py": text, "main.py": main})
	part, _ := LastWordsPart("transformers", time.Minute)
	f := File{Path: filepath.Join(dir, "settings.py"), SHA256: sum([]byte(text)), Text: []byte("LIMIT = 4\n"),
		Names: []string{"LIMIT"}}
	o, err := Install(filepath.Join(t.TempDir(), "attempt"), []File{f}, nil, part)
	if err != nil {
		t.Fatal(err)
	}
	out := witnessStart(t, dir, append(o.Env, "OUT=out", "FAIL=forward:7"))
	r := o.Report()
	if v, ok := r.Value(f.Path, "LIMIT"); !ok || v != "4" {
		t.Errorf("the setting: %q %v\n%s", v, ok, out.stderr)
	}
	if w := r.LastWords(); w == nil || w.Path != filepath.Join(dir, "out", "checkpoint-6") {
		t.Errorf("the last words: %+v", w)
	}
}
