package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// asks makes the program ask as launch does: while the step of that number runs, so that its state is saved after it.
const asks = "def ask(m, a):\n    if trainer.state.global_step == STEP - 1 and model.training:\n        " +
	"open(os.path.dirname(os.environ['LAUNCH_OVERLAY']) + '/save-request', 'w').close() " +
	"if 'LAUNCH_OVERLAY' in os.environ else None\nmodel[2].register_forward_pre_hook(ask)\n"

// runAsked runs the program, which is asked to save after the 6th step, and returns what it answered.
func runAsked(t *testing.T, dir string, step string, more string, env ...string) (witnessOutcome, Report) {
	t.Helper()
	witnessWrite(t, dir, wordsProgram)
	part, _ := LastWordsPart("transformers", 2*time.Second)
	attempt := filepath.Join(t.TempDir(), "attempt")
	o, err := Install(attempt, nil, nil, part)
	if err != nil {
		t.Fatal(err)
	}
	out := warmStart(t, dir, append(append(o.Env, "OUT="+filepath.Join(dir, "out"),
		"MORE="+strings.Replace(asks, "STEP", step, 1)+more), env...))
	if _, err := os.Lstat(filepath.Join(attempt, saveRequest)); err == nil && step != "1000" {
		t.Error("the request is still there")
	}
	r := o.Report()
	if left, _ := filepath.Glob(filepath.Join(dir, "out", unfinishedWords+"*")); len(left) > 0 && out.signal == 0 {
		t.Errorf("left behind: %q", left)
	}
	return out, r
}

// A process that is asked to save does so between two steps, and goes on: its output, its random numbers and its states
// are those of a program that nobody asked, and what resumes from the state is that training.
func TestSaveOnRequest(t *testing.T) {
	more := "save = trainer._save_checkpoint\ndef f(*a):\n    save(*a)\n" +
		"    if '.launch' in trainer._get_output_dir(None): random.random(), torch.rand(3)\ntrainer._save_checkpoint = f\n" +
		"import atexit\natexit.register(lambda: print(random.random(), float(torch.rand(1))))\n"
	dir := t.TempDir()
	with, r := runAsked(t, dir, "6", more)
	if err := os.Rename(filepath.Join(dir, "out"), filepath.Join(dir, "with")); err != nil {
		t.Fatal(err)
	}
	bare := warmStart(t, dir, []string{"OUT=" + filepath.Join(dir, "out"), "MORE=" +
		strings.Replace(asks, "STEP", "6", 1) + more})
	if with.stdout != bare.stdout || with.stderr != bare.stderr || with.code != 0 || len(stepsOf(with)) != 13 {
		t.Errorf("asked:\n%s%s\nbare:\n%s%s", with.stdout, with.stderr, bare.stdout, bare.stderr)
	}
	a, path := r.Answer(), filepath.Join(dir, "out", "checkpoint-6")
	if a == nil || a.Step != 6 || a.Path != path || a.Why != "" || a.Kept || !a.Asked || r.LastWords() != nil {
		t.Fatalf("it answers %+v, and has the last words %+v", a, r.LastWords())
	}
	names := func(of string) (names []string) {
		entries, _ := os.ReadDir(filepath.Join(dir, of))
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	// the program itself removes the state when it saves the next one
	want := append(names("out"), "removed-checkpoint-6")
	if got := names("with"); !slices.Equal(got, want) {
		t.Errorf("it leaves %q; want %q", got, want)
	}
	resumed, _ := runAsked(t, t.TempDir(), "1000", more, "RESUME="+filepath.Join(dir, "with", "removed-checkpoint-6"))
	if got, whole := stepsOf(resumed), stepsOf(bare); len(got) < 4 || !slices.Equal(got, whole[len(whole)-len(got):]) {
		t.Errorf("resumed:\n%q\nnever asked:\n%q\n%s", got, whole, resumed.stderr)
	}
}

// Where a process cannot save, it goes on as if nobody had asked, and says why.
func TestNoSaveOnRequest(t *testing.T) {
	// the save that launch has called, and no other
	const called = "save = trainer._save_checkpoint\ndef only(f):\n" +
		"    trainer._save_checkpoint = lambda *a: f(*a) if '.launch' in trainer._get_output_dir(None) else save(*a)\n"
	whole, _, _ := runWords(t)
	for name, c := range map[string]struct{ more, why string }{
		"no optimizer in a state": {"trainer.args.save_only_model = True", "save_only_model is set"},
		"several ranks": {"import torch.distributed as d\nd.is_initialized = lambda: True\nd.get_world_size = lambda: 2",
			"several processes train together"},
		"a thread": {"import threading\nt = threading.Thread(target=trainer.train, args=(10,))\nt.start(); t.join()",
			"it trains in a thread"},
		"its save fails": {called + "only(lambda *a: open('/nowhere/x'))", "saving failed: FileNotFoundError"},
		"memory": {called + "only(lambda *a: oom())\nfrom transformers.trainer import oom",
			"saving failed: RuntimeError: CUDA out of memory"},
		"too slow": {called + "import time\nonly(lambda *a: time.sleep(300))", "longer than --last-words"},
		"half a state": {called + "def f(*a):\n    save(*a)\n    os.makedirs(trainer.args.output_dir + '/checkpoint-6')\n" +
			"only(f)", "there is a part of that state already"},
		"no room": {"import os\nreal = os.statvfs\nclass None_: f_bavail = f_frsize = 1\nos.statvfs = lambda p: None_",
			"more room on the disk than there is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, r := runAsked(t, t.TempDir(), "6", c.more)
			a := r.Answer()
			if a == nil || a.Path != "" || !strings.Contains(a.Why, c.why) {
				t.Errorf("it answers %+v; want none, because %q\n%s", a, c.why, out.stderr)
			}
			if out.code != 0 || !slices.Equal(stepsOf(out), stepsOf(whole)) {
				t.Errorf("%d\n%s%s\nwant\n%s", out.code, out.stdout, out.stderr, whole.stdout)
			}
		})
	}
}

// A program's own signals and timers stay what they are while it saves: what a handler raises reaches the program.
func TestSignalsWhileSaving(t *testing.T) {
	const called = "save = trainer._save_checkpoint\nimport signal, time\ndef during(f):\n" +
		"    def g(*a):\n        if '.launch' in trainer._get_output_dir(None): f()\n        save(*a)\n" +
		"    trainer._save_checkpoint = g\n"
	for name, c := range map[string]struct{ more, want string }{
		"Ctrl-C": {"during(lambda: os.kill(os.getpid(), 2))", "KeyboardInterrupt"},
		"a handler": {"def h(*a): raise ValueError('stop now')\nsignal.signal(10, h)\n" +
			"during(lambda: os.kill(os.getpid(), 10))", "ValueError: stop now"},
		"a timer": {"def h(*a): raise ValueError('the time is over')\nsignal.signal(14, h)\n" +
			"signal.setitimer(signal.ITIMER_REAL, 1)\ndef f(m, a): time.sleep(5 * (trainer.state.global_step == 8))\n" +
			"model.register_forward_pre_hook(f)",
			"ValueError: the time is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, r := runAsked(t, t.TempDir(), "6", called+c.more)
			ended := out.code != 0 || out.signal != 0
			if r.Answer() == nil || !strings.HasSuffix(strings.TrimSpace(out.stderr), c.want) || !ended {
				t.Errorf("it answers %+v and ends with %d %d\n%s", r.Answer(), out.code, out.signal, out.stderr)
			}
		})
	}
}

// A state that the program has just saved itself is the answer; one that is asked for before the first step is that of
// the first; a process that is killed while it saves leaves nothing.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	if _, r := runAsked(t, dir, "4", ""); r.Answer() == nil || !r.Answer().Kept || r.Answer().Step != 4 ||
		r.Answer().Path != filepath.Join(dir, "out", "checkpoint-4") {
		t.Errorf("a state that is there: %+v", r.Answer())
	}
	dir = t.TempDir()
	_, r := runAsked(t, dir, "1000", "open(os.path.dirname(os.environ['LAUNCH_OVERLAY']) + '/save-request', 'w').close()")
	if r.Answer() == nil || r.Answer().Step != 1 || r.Answer().Path != filepath.Join(dir, "out", "checkpoint-1") {
		t.Errorf("before the first step: %+v", r.Answer())
	}
	dir = t.TempDir()
	out, r := runAsked(t, dir, "6", "old = torch.save\ndef f(o, path):\n    old(o, path)\n    if '.launch' in path: "+
		"os.kill(os.getpid(), 9)\ntorch.save = f")
	if a := r.Answer(); out.signal != 9 || a == nil || a.Why != Interrupted {
		t.Errorf("killed: %+v, signal %d", a, out.signal)
	}
	r.Clear()
	entries, err := os.ReadDir(filepath.Join(dir, "out"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "checkpoint-4" {
		t.Errorf("it leaves %v %v", entries, err)
	}
}

// The allocator's retries are reported since the first step, each time for more than twice as many.
func TestRetries(t *testing.T) {
	more := "import time\nnow = [0]\ndef tick():\n    now[0] += 1\n    return now[0]\ntime.monotonic = tick\n" +
		"torch.cuda.is_initialized = lambda: True\ntorch.cuda.get_rng_state_all = lambda: []\n" +
		"torch._C._cuda_getDevice = lambda: 0\n" +
		"torch._C._cuda_memoryStats = lambda d: {'num_alloc_retries': 5 + max(0, trainer.state.global_step - 3)}\n"
	out, r := runAsked(t, t.TempDir(), "1000", more)
	if out.code != 0 || r.Retries() != 3 { // 1 after step 4, 3 after step 6; 7 would be the next
		t.Errorf("%d: %d retries\n%s", out.code, r.Retries(), out.stderr)
	}
	if _, r = runAsked(t, t.TempDir(), "1000", ""); r.Retries() != 0 {
		t.Errorf("without a card: %d", r.Retries())
	}
}
