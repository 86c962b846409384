package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// python is the interpreter that every test must have, with torch (Debian's 1.13, for the CPU).
func python(t testing.TB) string {
	t.Helper()
	path := os.Getenv("LAUNCH_TEST_PYTHON")
	if path == "" {
		path = "/usr/bin/python3"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Fatalf("these tests need a Python 3.8 or later with torch: set LAUNCH_TEST_PYTHON (%v)", err)
	}
	return path
}

type witnessOutcome struct {
	stdout, stderr string
	code           int
	signal         syscall.Signal
}

// witnessStart runs main.py in dir.
func witnessStart(t testing.TB, dir string, env []string, args ...string) witnessOutcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of a hang: on a busy machine torch alone takes a minute
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), append(args, "main.py")...)
	cmd.Dir, cmd.Env = dir, append([]string{"HOME=/nonexistent", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%q: %v %v", args, err, ctx.Err())
	}
	o := witnessOutcome{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o
}

func witnessWrite(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func witnessInstall(t testing.TB, env ...string) *Overlay {
	t.Helper()
	o, err := Install(filepath.Join(t.TempDir(), "attempt"), nil, env, WitnessPart())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// heard is what is heard of a program of these files.
func heard(t *testing.T, files map[string]string) (witnessOutcome, *oom.Inside, *Witness) {
	t.Helper()
	dir, o := t.TempDir(), witnessInstall(t)
	witnessWrite(t, dir, files)
	out := witnessStart(t, dir, o.Env)
	w := WitnessOf(o)
	return out, w.Inside(time.Now()), w
}

// witnessPrograms end in all the ways there are. Each runs bare and with the hook, and must print and return the same.
var witnessPrograms = map[string]struct {
	text, failed string // the exception that is to be reported; "" for none
	args         []string
	files        map[string]string
}{
	"succeeds":         {text: "print('fine')\n"},
	"fails":            {text: "def f(n):\n    if n: f(n - 1)\n    raise ValueError('é')\nf(2)\n", failed: "ValueError"},
	"its own kind":     {text: "class Mine(Exception): pass\ntry:\n    1/0\nexcept ZeroDivisionError:\n    raise Mine(1)\n", failed: "__main__.Mine"},
	"caught":           {text: "try:\n    1/0\nexcept ZeroDivisionError as e:\n    print(e)\n"},
	"sys.exit":         {text: "import sys, atexit\natexit.register(print, 'bye')\nsys.exit('no')\n"},
	"SystemExit":       {text: "raise SystemExit(3)\n"},
	"os._exit":         {text: "import os\nprint('x', flush=True)\nos._exit(4)\n"},
	"a signal":         {text: "import os\nos.kill(os.getpid(), 15)\n"},
	"Ctrl-C":           {text: "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(5)\n", failed: "KeyboardInterrupt"},
	"an excepthook":    {text: "import sys\nsys.excepthook = lambda t, v, tb: print(t, v, tb.tb_lineno, tb.tb_next, tb.tb_frame.f_back)\n1/0\n", failed: "ZeroDivisionError"},
	"a thread fails":   {text: "import threading\nprint(threading.excepthook, threading.__excepthook__)\nt = threading.Thread(target=lambda: 1/0, name='t')\nt.start(); t.join()\n"},
	"atexit":           {text: "import atexit\natexit.register(print, 'bye')\n1/0\n", failed: "ZeroDivisionError"},
	"atexit itself":    {text: "import sys\nprint('atexit' in sys.modules)\nimport atexit\n@atexit.register\ndef f(): 1/0\n"},
	"a syntax error":   {text: "import broken\n", files: map[string]string{"broken.py": "def f(:\n"}, failed: "SyntaxError"},
	"none to import":   {text: "import nothing_of_that_name\n", failed: "ModuleNotFoundError"},
	"warns on import":  {text: "import old\n", files: map[string]string{"old.py": "import warnings\nwarnings.warn('w', stacklevel=2)\nx = 1 is 1\n"}, args: []string{"-W", "always"}},
	"frames of import": {text: "import frames\n", files: map[string]string{"frames.py": "import traceback, inspect\ntraceback.print_stack()\nprint(len(inspect.stack()))\n"}},
	"a fork": {text: "import os, sys\nif os.fork() == 0:\n    raise ValueError('of the child')\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n",
		failed: "ValueError"},
	"a sitecustomize": {text: "import sitecustomize as s\nprint(s.__file__, s.MINE)\n1/0\n", failed: "ZeroDivisionError",
		files: map[string]string{"theirs/sitecustomize.py": "MINE = 1\nprint('theirs')\n"}},
	"what it sees": {text: `
import sys, gc, os
print(sorted(set(sys.modules) - {"sitecustomize"}), sys.meta_path, sys.path_hooks, sys.argv, sys.path[0], sys.flags)
print(sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__, getattr(sys, "last_value", None), gc.callbacks)
print(sorted(os.listdir("/proc/self/task")) == [str(os.getpid())], sys.getrecursionlimit(), __builtins__.__import__)
print({k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LAUNCH_OVERLAY")})
`},
	"a profiler": {text: "def f(): pass\nf()\nimport colorsys\n", args: []string{"-m", "cProfile", "-s", "name"}},
	"a handler":  {text: "import signal\ndef f(*a): raise TimeoutError('mine')\nsignal.signal(signal.SIGALRM, f)\nsignal.setitimer(signal.ITIMER_REAL, .05)\nwhile True: pass\n", failed: "TimeoutError"},
}

var reTimes = regexp.MustCompile(`0x[0-9a-f]{6,}|in [0-9.]+ seconds|\b[0-9]+\.[0-9]{3}\b`)

// Whatever a program does, it prints and returns what it does without the hook, and what ended it is known.
func TestUnchanged(t *testing.T) {
	for name, p := range witnessPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			witnessWrite(t, dir, p.files)
			witnessWrite(t, dir, map[string]string{"main.py": p.text})
			env := []string{"PYTHONPATH=" + filepath.Join(dir, "theirs"), "PYTHONDONTWRITEBYTECODE=1"}
			o := witnessInstall(t, env...)
			want, got := witnessStart(t, dir, env, p.args...), witnessStart(t, dir, slices.Concat(env, o.Env), p.args...)
			for _, o := range []*witnessOutcome{&want, &got} {
				o.stdout, o.stderr = reTimes.ReplaceAllString(o.stdout, "N"), reTimes.ReplaceAllString(o.stderr, "N")
			}
			if got != want {
				t.Errorf("with the hook\n%+v\nbare\n%+v", got, want)
			}
			in := WitnessOf(o).Inside(time.Now())
			failed := ""
			if in.Failure != nil {
				failed = in.Failure.Type
			}
			if failed != p.failed {
				t.Errorf("the report says %q, want %q", failed, p.failed)
			}
			if profiled := name == "a profiler"; in.Hook.Taken() == profiled || profiled != strings.Contains(in.Hook.Why, "cProfile") {
				t.Errorf("%+v", in.Hook)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	began := time.Now()
	_, in, _ := heard(t, map[string]string{"main.py": "def f(n):\n    if n:\n        f(n - 1)\n    raise MemoryError\nf(100)\n"})
	f := in.Failure
	if f == nil || f.Type != "MemoryError" || len(f.Frames) != 60 || filepath.Base(f.Frames[59].Path) != "main.py" ||
		f.Frames[59].Line != 4 || f.Frames[59].Name != "f" || f.Frames[58].Line != 3 || f.PID == 0 || f.Memory < unit.MiB ||
		f.Before < 0 || f.Before > time.Since(began) {
		t.Errorf("%+v", f)
	}
}

// Loader workers, two ranks of which one fails, a failure of torch's own: with a real torch, whatever it prints.
func TestTorch(t *testing.T) {
	files := map[string]string{"main.py": `
import sys, torch, torch.multiprocessing as mp
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((2,), float(i))
def rank(i):
    if i == 1:
        torch.zeros(2) + torch.zeros(3)
if __name__ == "__main__":
    print([b.sum().item() for b in DataLoader(Data(), batch_size=2, num_workers=2)])
    p = torch.nn.Linear(2, 1)
    o = torch.optim.SGD(p.parameters(), 0.1)
    p(torch.ones(1, 2)).sum().backward(); o.step()
    h = p.register_forward_hook(lambda *a: None)
    print(h.id, len(torch.cuda._queued_calls) > 0, torch.cuda.is_initialized())
    mp.spawn(rank, nprocs=2)
`}
	out, in, w := heard(t, files)
	if out.code != 1 || out.stdout != "[2.0, 10.0]\n0 True False\n" || !strings.Contains(out.stderr, "-- Process 1 terminated") || strings.Contains(out.stderr, "attempt") {
		t.Errorf("%+v", out)
	}
	if in.Hook.Processes < 3 || in.Hook.Torch == "" || in.Hook.CUDA != 0 || in.Hook.Why != "" || in.Count != 0 {
		t.Errorf("%+v", in)
	}
	// What ended the rank multiprocessing has caught: it is known all the same, and is no out-of-memory.
	if f := in.Failure; f == nil || f.Type != "RuntimeError" || f.Frames[len(f.Frames)-1].Name != "rank" ||
		len(w.Dying()) != 0 {
		t.Errorf("%+v", f)
	}
	files["main.py"] = strings.Replace(files["main.py"], "torch.zeros(2) + torch.zeros(3)", "torch.empty(1 << 50)", 1)
	if _, in, w := heard(t, files); in.Failure == nil || len(w.Dying()) != 1 || w.Dying()[0] != in.Failure.PID {
		t.Errorf("a rank out of memory: %v %+v", w.Dying(), in.Failure)
	}
}

// The stand-in for a torch with a card: its allocator hands out numbers, and refuses what is more than 1000 bytes.
var stub = map[string]string{
	"torch/__init__.py": "from . import version, _C, cuda, compiler, optim, autograd\n__version__ = version.__version__\n",
	"torch/version.py":  "import os\n__version__ = os.environ.get('STUB', '2.6.0+cu124')\n",
	"torch/compiler.py": "def is_compiling(): return False\n",
	"torch/_C.py": `
import os
class OutOfMemoryError(RuntimeError): pass
now = [0, 0]; peak = [0, 0]; observers = []; stats = 0
def _cuda_getDeviceCount(): return 2
def _cuda_getDeviceProperties(d): return type("P", (), {"total_memory": 2000})
def _cuda_attach_out_of_memory_observer(f):
    assert callable(f)
    if os.environ.get("STUB_ASYNC"): raise RuntimeError("cudaMallocAsync does not yet support attachOutOfMemoryObserver")
    observers.append(f)
def _cuda_memoryStats(d):
    global stats
    stats += 1
    a, p = (now[0], peak[0]) if d == 0 else (0, 0)
    return {"allocated_bytes": {"all": {"current": a, "peak": p}}, "reserved_bytes": {"all": {"current": 2 * a, "peak": 2 * p}}}
def take(n):
    if now[0] + n > 1000:
        for f in observers: f(0, n, 2000, 1000 - now[0])
        raise OutOfMemoryError("CUDA out of memory.")
    now[0] += n; peak[0] = max(peak[0], now[0])
`,
	"torch/cuda/__init__.py": `
_initialized, _queued_calls = False, []
def _lazy_call(f):
    if _initialized: f()
    else: _queued_calls.append(f)
def init():
    global _initialized
    for f in _queued_calls: f()
    _initialized = True
`,
	"torch/optim/__init__.py":    "from . import optimizer\n",
	"torch/optim/optimizer.py":   "_global_optimizer_post_hooks = {}\ndef step():\n    for h in list(_global_optimizer_post_hooks.values()): h(None, (), {})\n",
	"torch/autograd/__init__.py": "import _thread, functools\ndef backward(n):\n    from .. import _C\n    done = _thread.allocate_lock(); done.acquire()\n    def failed(): done.release()\n    _thread.start_new_thread(functools.partial(_C.observers[0], 0, n, 2000, 5), ())\n    import time; time.sleep(.2)\n",
}

func with(main string) map[string]string {
	files := map[string]string{"main.py": main}
	for name, text := range stub {
		files[name] = text
	}
	return files
}

// What the allocator refuses is reported with what it held and from where it was asked, caught or not.
func TestWitnessRefused(t *testing.T) {
	out, in, w := heard(t, with(`
import torch
from torch.cuda import init
from torch._C import take, OutOfMemoryError
print(len(torch.cuda._queued_calls), torch._C.observers, torch._C.stats)
init()
take(300)
def validate():
    try:
        take(800)
    except OutOfMemoryError as e:
        print(e)
validate()
take(100)
take(700)
`))
	if out.stdout != "1 [] 0\nCUDA out of memory.\n" || out.code != 1 || !strings.HasSuffix(out.stderr, "_C.OutOfMemoryError: CUDA out of memory.\n") || strings.Contains(out.stderr, "witness") {
		t.Errorf("%+v", out)
	}
	if h := in.Hook; h != (oom.Handshake{Processes: 1, Torch: "2.6.0+cu124", CUDA: 1, Observed: 1}) {
		t.Errorf("%+v", h)
	}
	if len(in.Refused) != 2 || in.Count != 2 {
		t.Fatalf("%+v", in)
	}
	for i, want := range []struct {
		requested, allocated, free unit.Bytes
		asked                      string // the frame that did
	}{{800, 300, 700, "validate:10"}, {700, 400, 600, "<module>:15"}} {
		r := in.Refused[i]
		asked := r.Frames[len(r.Frames)-2] // above take()
		if *r.Requested != want.requested || *r.Allocated != want.allocated || *r.Reserved != 2*want.allocated || *r.Free != want.free || *r.Capacity != 2000 ||
			r.Allowed != nil || fmt.Sprintf("%s:%d", asked.Name, asked.Line) != want.asked || r.Frames[0].Name != "<module>" {
			t.Errorf("%d: %+v, asked for at %v, want %+v", i, r, asked, want)
		}
	}
	if f := in.Failure; f == nil || f.Type != "torch._C.OutOfMemoryError" || f.PID != in.Refused[1].PID || f.Allocated != 400 || f.Reserved != 800 {
		t.Errorf("%+v", f)
	}
	if a, r, last := w.Peaks(); a != 400 || r != 800 || !last {
		t.Errorf("peaks %v %v", a, r)
	}
}

// A backward pass on a card asks from a thread without Python calls: those that wait for it are its own.
func TestRefusedInBackward(t *testing.T) {
	_, in, _ := heard(t, with("import torch\ntorch.cuda.init()\ndef train():\n    torch.autograd.backward(900)\ntrain()\n"))
	if len(in.Refused) != 1 {
		t.Fatalf("%+v", in)
	}
	f := in.Refused[0].Frames
	if len(f) != 3 || f[2].Name != "backward" || !strings.Contains(f[2].Path, "torch/autograd/") || f[1].Name != "train" {
		t.Errorf("%+v", f)
	}
}

// A memory fraction's limit is no card's capacity.
func TestAllowed(t *testing.T) {
	l := line{Limit: 500, Total: 2000}
	if n := l.numbers(); *n.Capacity != 2000 || *n.Allowed != 500 {
		t.Errorf("%+v", n)
	}
}

// A program that goes on and on refusing is not written down for ever.
func TestRefusedOften(t *testing.T) {
	out, in, _ := heard(t, with("import torch\ntorch.cuda.init()\nfor _ in range(3000):\n    try: torch._C.take(2000)\n    except torch._C.OutOfMemoryError: pass\n"))
	if out.code != 0 || in.Count != 3000 || len(in.Refused) != 27 || in.Failure != nil { // 20, then 32, 64, … 2048
		t.Errorf("%+v: %d of %d refusals, %+v", out, len(in.Refused), in.Count, in.Failure)
	}
}

// Peaks are the program's counters as they stand, however often it resets them, and its own figures stay what they are.
func TestPeaks(t *testing.T) {
	files := with(`
import torch, json
from torch import _C
from torch.optim.optimizer import step, _global_optimizer_post_hooks as hooks
torch.cuda.init()
print(list(hooks), _C.stats)        # of the numbers of the program's own hooks it takes none
for n in (300, 200, 150):
    _C.now[0] = 0; _C.take(n); step()
print(_C.peak); _C.peak[0] = 0      # the program's own print, and its reset
_C.now[0] = 0; _C.take(120); step()
print(_C.peak)
seen = _C.stats
for _ in range(20000): step()
print(_C.stats - seen < 4000)       # looks are a small share of the time
_C.now[0] = 0; _C.take(900)         # seen at the end only
`)
	dir, o := t.TempDir(), witnessInstall(t)
	witnessWrite(t, dir, files)
	w := WitnessOf(o)
	if a, r, last := w.Peaks(); a != 0 || r != 0 || last {
		t.Errorf("before it began: %v %v", a, r)
	}
	out := witnessStart(t, dir, o.Env)
	if out.stdout != "[-1] 0\n[300, 0]\n[120, 0]\nTrue\n" || out.code != 0 {
		t.Errorf("%+v", out)
	}
	if a, r, last := w.Peaks(); a != 900 || r != 1800 || !last {
		t.Errorf("peaks %v %v", a, r)
	}
	text, _ := os.ReadFile(o.ReportFile())
	var said []unit.Bytes
	for one := range bytes.Lines(text) {
		var l line
		if json.Unmarshal(one, &l) == nil && l.Event == "peak" {
			said = append(said, l.Allocated)
		}
	}
	if !slices.Equal(said, []unit.Bytes{300, 900}) {
		t.Errorf("said %v: what has grown, once", said)
	}
}

// Where it might do harm, or cannot know, it stays out and says so.
func TestStaysOut(t *testing.T) {
	const main = "import torch\ntorch.cuda.init()\nprint(len(torch._C.observers), len(torch.optim.optimizer._global_optimizer_post_hooks))\n"
	for name, tt := range map[string]struct {
		main, env, says, out string
		want                 oom.Handshake
	}{
		"a torch that calls observers under its lock": {main: main, env: "STUB=2.0.1", out: "0 0\n", says: "lock held", want: oom.Handshake{Processes: 1, Torch: "2.0.1", CUDA: 1}},
		"a version that is none":                      {main: main, env: "STUB=nightly", out: "0 0\n", says: "lock held", want: oom.Handshake{Processes: 1, Torch: "nightly", CUDA: 1}},
		"another allocator":                           {main: main, env: "STUB_ASYNC=1", out: "0 1\n", says: "cudaMallocAsync", want: oom.Handshake{Processes: 1, Torch: "2.6.0+cu124", CUDA: 1}},
		"a debugger":                                  {main: "import sys\nsys.settrace(lambda *a: None)\n" + main, out: "1 0\n", want: oom.Handshake{Processes: 1, Torch: "2.6.0+cu124", CUDA: 1, Observed: 1}},
		"no lazy call":                                {main: "import torch.cuda\n", env: "STUB_ODD=1", says: "_lazy_call", want: oom.Handshake{Processes: 1, Torch: "2.6.0+cu124"}},
		"a forked child": {main: "import torch, os\ntorch.cuda.init()\nif os.fork() == 0:\n    torch.optim.optimizer.step()\n    print(torch._C.stats, flush=True)\n    try: torch._C.take(2000)\n    except RuntimeError: pass\n    os._exit(0)\nos.wait()\n",
			out: "0\n", want: oom.Handshake{Processes: 1, Torch: "2.6.0+cu124", CUDA: 1, Observed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, o := t.TempDir(), witnessInstall(t)
			witnessWrite(t, dir, with(tt.main))
			if tt.env == "STUB_ODD=1" {
				witnessWrite(t, dir, map[string]string{"torch/cuda/__init__.py": ""})
			}
			out := witnessStart(t, dir, slices.Concat([]string{tt.env}, o.Env))
			if out != (witnessOutcome{stdout: tt.out}) {
				t.Errorf("%+v, want %q", out, tt.out)
			}
			in := WitnessOf(o).Inside(time.Now())
			if !strings.Contains(in.Hook.Why, tt.says) || (tt.says == "") != (in.Hook.Why == "") {
				t.Errorf("it says %q", in.Hook.Why)
			}
			if in.Hook.Why = ""; in.Hook != tt.want || len(in.Refused) > 0 {
				t.Errorf("%+v, want %+v", in, tt.want)
			}
		})
	}
}

// A signal's handler may raise in the midst of the hook: that is the program's own exception, and it gets it.
func TestSignalWithin(t *testing.T) {
	out, _, _ := heard(t, with(`
import torch, os, signal
torch.cuda.init()
plain = torch._C._cuda_memoryStats
def stats(d): # as if the signal came just now
    signal.raise_signal(signal.SIGALRM)
    return plain(d)
def handler(*a): raise TimeoutError("the program's own")
signal.signal(signal.SIGALRM, handler)
torch._C._cuda_memoryStats = stats
try: torch.optim.optimizer.step()
except TimeoutError as e: print(e)
torch._C._cuda_memoryStats = None # an error of the hook's own is nobody's
torch.optim.optimizer.step()
`))
	if out != (witnessOutcome{stdout: "the program's own\n"}) {
		t.Errorf("%+v", out)
	}
}

func TestReadWitness(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.jsonl")
	w := &Witness{path: path, counts: map[int]int{}, torches: map[int]bool{}, cards: map[int]bool{}}
	if in := w.Inside(time.Now()); in.Hook.Why != Unread {
		t.Errorf("of nothing: %+v", in)
	}
	say := func(text string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	say("\n{\"event\": \"boot\", \"pid\": 1, \"python\": \"3.7.1\"}\n")
	if in := w.Inside(time.Now()); !strings.Contains(in.Hook.String(), "Python 3.7.1") {
		t.Errorf("of an old one: %+v", in)
	}
	say("{\"event\": \"witness\", \"pid\": 2, \"why\": \"\"}\n{\"event\": \"torch\", \"pid\": 2, \"version\": \"2.6.0\"}\nnonsense\n{\"event\": \"peak\", \"pid\": 2, \"allocated\": 10, \"res")
	if a, _, _ := w.Peaks(); a != 0 {
		t.Errorf("of half a line: %v", a)
	}
	say("erved\": 20}\n{\"event\": \"cuda\", \"pid\": 2}\n{\"event\": \"cuda\", \"pid\": 3}\n{\"event\": \"exit\", \"pid\": 3}\n{\"event\": \"peak\", \"pid\": 3, \"allocated\": 7, \"reserved\": 30}\n")
	if a, r, last := w.Peaks(); a != 10 || r != 30 || last {
		t.Errorf("peaks %v %v", a, r)
	}
	say("{\"event\": \"failed\", \"pid\": 9, \"type\": \"OSError\", \"ms\": 1}\n{\"event\": \"failed\", \"pid\": 2, \"type\": \"KeyError\", \"ms\": 2, \"frames\": [[\"a.py\", 3, \"f\"], 7]}\n{\"event\": \"failed\", \"pid\": 2, \"type\": \"ValueError\", \"ms\": 3}\n")
	for i := range 100 {
		say(fmt.Sprintf("{\"event\": \"refused\", \"pid\": %d, \"n\": %d, \"requested\": %d}\n", 2+i%2, i/2+1, i))
	}
	in := w.Inside(time.UnixMilli(1002))
	if in.Failure == nil || in.Failure.Type != "KeyError" || in.Failure.Before != time.Second || !slices.Equal(in.Failure.Frames, []oom.Frame{{Path: "a.py", Line: 3, Name: "f"}}) {
		t.Errorf("what trains counts for more than a helper, the first for more than later ones: %+v", in.Failure)
	}
	if n := len(in.Refused); in.Count != 100 || n != 2*mostKept || *in.Refused[0].Requested != 0 ||
		*in.Refused[mostKept-1].Requested != mostKept-1 || *in.Refused[n-1].Requested != 99 {
		t.Errorf("%d of %d", n, in.Count)
	}
	if text, err := json.Marshal(in); err != nil || json.Unmarshal(text, &oom.Inside{}) != nil {
		t.Errorf("%s %v", text, err)
	}
}
