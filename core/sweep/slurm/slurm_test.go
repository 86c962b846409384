package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/slurmtest"
)

// The test's own program plays launch: the row, and the launch that the row starts.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	if len(args) == 3 && args[0] == "sweep" && args[1] == "row" {
		code, err := Row(context.Background(), args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--json-file=") }); i >= 0 {
		play(args, strings.TrimPrefix(args[i], "--json-file="))
	}
	os.Exit(m.Run())
}

// play is a launch that does what its command says, and appends what happens to the file TRACE.
func play(args []string, result string) {
	trace := func(format string, a ...any) {
		f, _ := os.OpenFile(os.Getenv("TRACE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		fmt.Fprintf(f, format+"\n", a...)
		f.Close()
	}
	end := func(code int, doc map[string]any) {
		doc["version"], doc["exit_code"] = 1, code
		text, _ := json.Marshal(doc)
		os.WriteFile(result, text, 0o600)
		os.Exit(code)
	}
	if args[0] == "resume" {
		trace("resume %s", args[1])
		end(0, map[string]any{"ending": run.Succeeded, "run": args[1], "job": map[string]any{}})
	}
	verb := args[slices.Index(args, "--")+1:]
	trace("%s", strings.Join(verb, " "))
	switch verb[0] {
	case "succeed":
		end(0, map[string]any{"ending": run.Succeeded})
	case "refuse":
		end(run.CannotFit, map[string]any{"ending": sweep.Refused, "error": "it cannot fit"})
	case "wait": // until a signal says that the machine is taken
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR2)
		got := (<-signals).(syscall.Signal)
		trace("%s: %v", verb[1], got)
		end(run.TryLater, map[string]any{"ending": run.Interrupted, "run": "run-" + verb[1], "job": map[string]any{},
			"attempts": []any{map[string]any{"plan": map[string]any{"attempt": 1}, "outcome": map[string]any{
				"ending": run.Interrupted, "left": "the machine is taken", "saved": map[string]any{"iteration": 7}}}}})
	}
	os.Exit(125)
}

// One array on a real Slurm: a row that succeeds, one that cannot fit, one that is preempted and one that comes
// near its time limit, which both save, are requeued and go on from there, one that the user stops, and one that
// dies.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := slurmtest.Start(t, slurmtest.Nodes{Count: 3, CPUs: 1, MemoryMB: 4000})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range c.Env { // the executor finds Slurm's commands as any program does
		if name, value, _ := strings.Cut(kv, "="); name == "SLURM_CONF" {
			t.Setenv(name, value)
		}
	}
	folder := filepath.Join(t.TempDir(), "s")
	trace := filepath.Join(filepath.Dir(folder), "trace")
	t.Setenv("TRACE", trace)
	for _, dir := range []string{folder, filepath.Join(folder, "trials")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	x, err := New(t.Context(), Options{Launch: self, Dir: filepath.Dir(folder), Folder: folder, State: t.TempDir(),
		Sbatch: []string{"--ntasks=1"}, Memory: 100 * unit.MiB, Every: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.kill != 5*time.Second {
		t.Errorf("KillWait is %v, want that of slurm.conf", x.kill)
	}
	late, err := New(t.Context(), Options{Launch: self, Dir: filepath.Dir(folder), Folder: folder, State: t.TempDir(),
		Sbatch: []string{"--ntasks=1", "--time=1"}, Before: 50 * time.Second, Every: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	start := func(x *Executor, n int, args ...string) {
		t.Helper()
		if err := x.Start(sweep.Start{Trial: n, Number: 1, Invocation: sweep.Invocation{Args: args},
			Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	start(x, 1, "succeed")
	start(x, 2, "refuse")
	start(x, 5, "die")
	start(late, 7, "wait", "late")
	ends := map[int]sweep.Result{}
	collect := func(x *Executor, n int) {
		t.Helper()
		for range n {
			select {
			case e := <-x.Ends():
				ends[e.Trial] = e.Result
			case <-time.After(2 * time.Minute):
				t.Fatalf("no end; so far %+v\n%s\n%s", ends, read(trace), c.Logs())
			}
		}
	}
	collect(x, 3)
	until(t, c, func() bool { return strings.Contains(read(trace), "wait late") })
	start(x, 4, "wait", "stopped")
	until(t, c, func() bool { return strings.Contains(read(trace), "wait stopped") })
	x.Stop(4, false)
	collect(x, 1)
	start(x, 3, "wait", "preempted")
	until(t, c, func() bool { return strings.Contains(read(trace), "wait preempted") })
	tasks, err := x.Tasks(t.Context())
	if err != nil || tasks[3].State != "RUNNING" {
		t.Fatalf("the tasks are %+v: %v", tasks, err)
	}
	node := c.Run(t, "squeue", "-h", "-j", tasks[3].ID, "-o", "%N")
	c.Run(t, "sbatch", "--parsable", "-p", "high", "-w", node, "--exclusive", "--wrap=sleep 1")
	collect(x, 1)
	collect(late, 1)

	for n, want := range map[int]sweep.Result{
		1: {Ending: run.Succeeded},
		2: {Ending: sweep.Refused, Code: run.CannotFit, Why: "it cannot fit"},
		3: {Ending: run.Succeeded, Run: "run-preempted", Known: true},
		5: {Ending: sweep.Lost, Why: "Slurm: FAILED"},
		7: {Ending: run.Succeeded, Run: "run-late", Known: true},
	} {
		if got := ends[n]; got.Ending != want.Ending || got.Code != want.Code || got.Why != want.Why || got.Run != want.Run {
			t.Errorf("row %d: %+v, want %+v", n, got, want)
		}
	}
	if got := ends[4]; got.Ending != run.Interrupted || got.Run != "run-stopped" {
		t.Errorf("a row that the user stopped: %+v", got)
	}
	seen := strings.Split(strings.TrimSpace(read(trace)), "\n")
	for line, want := range map[string]int{
		"succeed": 1, "refuse": 1, "die": 1, "wait late": 1, "resume run-late": 1, "wait preempted": 1,
		"resume run-preempted": 1, "wait stopped": 1, "resume run-stopped": 0, "late: user defined signal 2": 1,
		"preempted: terminated": 1, "stopped: terminated": 1,
	} {
		if got := len(slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s != line })); got != want {
			t.Errorf("%q happened %d times, want %d:\n%s", line, got, want, strings.Join(seen, "\n"))
		}
	}
	if t.Failed() {
		t.Log(c.Logs())
		out, _ := exec.Command("sh", "-c", "tail -n +1 "+folder+"/slurm-*").CombinedOutput()
		t.Log(string(out))
	}
}

func read(path string) string { text, _ := os.ReadFile(path); return string(text) }

func until(t *testing.T, c *slurmtest.Cluster, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(c.Logs())
		}
	}
}

func TestRanges(t *testing.T) {
	for _, tt := range []struct {
		numbers []int
		want    string
	}{{[]int{3, 1, 2, 7}, "1-3,7"}, {[]int{5}, "5"}, {[]int{9, 8, 1}, "1,8-9"}} {
		if got := ranges(tt.numbers); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.numbers, got, tt.want)
		}
	}
}

// A row whose allocations save nothing newer is requeued three times and not for ever.
func TestIdle(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no scontrol: requeueing fails, which the row survives
	r := &row{folder: t.TempDir(), order: order{Start: 1}, task: "9_1"}
	if !slices.Contains(r.args(), "--json-file="+r.ended()) {
		t.Errorf("launch writes the start's result before the row has decided: %q", r.args())
	}
	for i, step := range []struct {
		saved string
		code  int
	}{{"state 10", run.TryLater}, {"state 10", run.TryLater}, {"state 20", run.TryLater}, {"",
		run.TryLater}, {"state 20", run.TryLater}, {"state 20", 1}} {
		if err := os.WriteFile(r.ended(), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(r.result()); err == nil {
			t.Fatalf("allocation %d: the sweep finds a result, though the row goes on", i+1)
		}
		code, err := r.again("run-1", step.saved)
		if err != nil || code != step.code {
			t.Fatalf("allocation %d: code %d, want %d: %v", i+1, code, step.code, err)
		}
	}
	result, err := sweep.ReadResult([]byte(read(r.result())))
	if err != nil || result.Ending != run.Failed || !strings.Contains(result.Why, "saved no newer state") {
		t.Errorf("its result is %+v: %v", result, err)
	}
}

func TestJobID(t *testing.T) {
	for out, want := range map[string]string{"12\n": "12", "12;cluster\n": "12",
		"Welcome.\nYour account is 7\n12;c\n": "12",
		"Submitted batch job 12\n":            "12", "": ""} {
		if got := jobID(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
