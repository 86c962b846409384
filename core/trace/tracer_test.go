package trace

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// expectation is a line of a script that says what its trace has to show: "#: KEY = VALUE  # why". The figures are
// worked out by hand.
var expectation = regexp.MustCompile(`(?m)^#: ([a-z-]+) = (.*?)(?:\s+# .*)?$`)

// torch2 is a Python with torch 2, as `make test-trace` makes it.
func torch2(t *testing.T) string {
	python := os.Getenv("LAUNCH_TEST_TORCH")
	if python == "" {
		t.Skip("LAUNCH_TEST_TORCH names no Python with torch 2: the tracer was not tested; make test-trace does it")
	}
	return python
}

// traced is the trace of a script in a home of its own. A machine whose kernel gives no jail tests nothing.
func traced(t *testing.T, home string, ranks int64, deadline time.Duration, argv ...string) *Trace {
	t.Helper()
	p := &command.Prog{Kind: command.Script, Script: argv[0], Args: argv[1:], Dir: home}
	tr := Tracer{Interpreter: torch2(t), Card: rtx3090, Ranks: ranks, Env: append(os.Environ(), "HOME="+home),
		Deadline: deadline, Memory: 3 * unit.GiB}
	out, err := tr.Run(t.Context(), p, nil)
	if out == nil {
		if strings.Contains(err.Error(), "namespaces") || strings.Contains(err.Error(), "no jail") {
			t.Skipf("the tracer was not tested: %v", err)
		}
		t.Fatal(err)
	}
	return out
}

// shown is what a trace shows, by the keys of an expectation.
func shown(tr *Trace) map[string]string {
	kinds, sizes := tr.kinds(), map[int32]unit.Bytes{}
	names, live := tr.named(), map[string]unit.Bytes{}
	most := map[string]unit.Bytes{"parameter": 0, "buffer": 0, "gradient": 0, "state": 0, "workspace": 0}
	var held []string
	var all unit.Bytes // that have no kind
	for i, e := range tr.Events {
		kind := kinds[e.ID]
		switch e.What {
		case Allocated:
			sizes[e.ID] = e.Bytes
			live[kind] += e.Bytes
		case Freed:
			live[kind] -= sizes[e.ID]
		case Marked:
			if e.Mark.Name == "backward" {
				held = append(held, fmt.Sprint(int64(live[""])))
			}
		}
		all = max(all, live[""])
		if kind != "" {
			most[kind] = max(most[kind], live[kind])
		}
		if names[i] == Validation {
			most[Validation] = max(most[Validation], live[""])
		}
	}
	found := map[string]string{"unknown-training": "no", "unknown-validation": "no", "ends": tr.End.Why,
		"failed": fmt.Sprint(tr.End.Failed), "compiled": fmt.Sprint(tr.End.Compiled)}
	for key, n := range most {
		found[key] = fmt.Sprint(int64(n))
	}
	found["most"] = fmt.Sprint(int64(all))
	var steps, phases []string
	of := map[int]string{}
	for _, s := range tr.StepsSeen() {
		of[s.Optimizer] += fmt.Sprintf(" %d×%d", s.Passes, s.Samples)
	}
	for _, o := range slices.Sorted(maps.Keys(of)) {
		steps = append(steps, of[o][1:])
	}
	for _, p := range tr.Phases(rtx3090, mem.Caching{}) {
		phases = append(phases, fmt.Sprintf("%s %d", p.Name, p.Batches))
		if !p.Estimate.Known() {
			found["unknown-"+p.Name] = p.Estimate.Unknown
		}
	}
	found["held"] = strings.Join(held, " ")
	found["steps"], found["phases"] = strings.Join(steps, " | "), strings.Join(phases, ", ")
	if tr.End.Place != "" {
		found["place"] = filepath.Base(tr.End.Place)
	}
	return found
}

func TestTracer(t *testing.T) {
	torch2(t)
	scripts, err := filepath.Glob("testdata/scripts/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, path := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".py"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, m := range expectation.FindAllStringSubmatch(string(text), -1) {
				want[m[1]] = m[2]
			}
			ranks := int64(1)
			fmt.Sscan(want["ranks"], &ranks)
			path, _ = filepath.Abs(path)
			tr := traced(t, t.TempDir(), ranks, Deadline, append([]string{path}, strings.Fields(want["args"])...)...)
			found := shown(tr)
			for _, key := range slices.Sorted(maps.Keys(want)) {
				ok := found[key] == want[key]
				switch key {
				case "ranks", "args":
					ok = true
				case "prints":
					ok = strings.Contains(tr.Output, want[key])
				case "unknown-training", "unknown-validation":
					ok = ok || found[key] != "" && strings.Contains(found[key], want[key])
				case "ends":
					ok = strings.Contains(found[key], want[key])
				case "held": // of the first backward passes
					ok = strings.HasPrefix(found[key]+" ", want[key]+" ")
				}
				if !ok {
					t.Errorf("%s is %q, and not %q", key, found[key], want[key])
				}
			}
			if t.Failed() {
				t.Logf("%+v; it printed\n%s", tr.End, tr.Output)
			}
		})
	}
}

// TestTracerHostile runs what would harm: nothing of it remains, and each ends in time with a reason.
func TestTracerHostile(t *testing.T) {
	torch2(t)
	script, _ := filepath.Abs("testdata/hostile.py")
	for how, why := range map[string]string{
		"exit":     "^the script's process ended",
		"kill":     "^the script's process ended",
		"loop":     "^(the script's process ended|the time was over)", // it ignores the signal that tells of its time
		"stop":     "^the time was over",
		"allocate": "^MemoryError",
		"print":    "^the script ended",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "data.bin"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			_, port, _ := net.SplitHostPort(server.Addr().String())
			begun := time.Now()
			tr := traced(t, home, 1, hostileTime, script, how, port)
			if took := time.Since(begun); took > 2*patience*hostileTime {
				t.Errorf("it took %v", took)
			}
			all, _ := filepath.Glob(filepath.Join(home, "*"))
			b, err := os.ReadFile(filepath.Join(home, "data.bin"))
			if err != nil || string(b) != "mine" || len(all) != 1 {
				t.Errorf("the data are %q (%v), and the folder holds %v", b, err, all)
			}
			if !regexp.MustCompile(why).MatchString(tr.End.Why) || !strings.Contains(tr.Output, "begun\n") && how != "print" ||
				strings.Contains(tr.Output, "connected") {
				t.Errorf("it ended with %q, and not %q; it printed %.2000s", tr.End.Why, why, tr.Output)
			}
			if tr.End.Torch == "" || tr.End.Python == "" {
				t.Error("the versions are not known")
			}
			if left, _ := exec.Command("pgrep", "-f", script+" "+how).Output(); len(left) > 0 {
				t.Errorf("these go on: %s", left)
			}
		})
	}
}

// hostileTime is the deadline of a hostile script: time for torch to be imported.
const hostileTime = 8 * time.Second
