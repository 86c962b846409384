package attempt

import (
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

func TestTrained(t *testing.T) {
	for name, tt := range map[string]struct {
		all  string // lines: pid, parent, milliseconds that it was seen for, arguments
		want string // the arguments of the one that trained, its own after a bar
	}{
		"the program itself": {"1 0 9 python3 t.py --lr 1", "python3 t.py | --lr 1"},
		"below a shell": {"1 0 9 bash run.sh --lr 1\n2 1 5 /venv/bin/python3.11 -u t.py",
			"/venv/bin/python3.11 -u t.py | "},
		"of two, the longer one": {"1 0 9 sh r\n2 1 2 python note.py --lr 1\n3 1 6 python t.py",
			"python t.py | "},
		"its own children": {"1 0 9 python t.py\n2 1 50 python -c x --lr 1", "python t.py | "},
		"a launcher": {"1 0 9 python /bin/torchrun t.py --lr 1\n2 1 5 python -u t.py --lr 2",
			"python -u t.py | --lr 2"},
		"a launcher as a module": {"1 0 9 python -m torch.distributed.run t.py\n2 1 5 python t.py -a",
			"python t.py | -a"},
		"a launcher that trains": {"1 0 9 python /bin/accelerate launch t.py -a",
			"python /bin/accelerate | launch t.py -a"},
		"an environment manager": {"1 0 9 uv run t.py\n2 1 5 /x/.venv/bin/python t.py -a",
			"/x/.venv/bin/python t.py | -a"},
		"multiprocessing's process": {"1 0 9 sh r\n2 1 50 python -c multiprocessing.x\n3 1 2 python t.py",
			"python t.py | "},
		"no Python":      {"1 0 9 sh r\n2 1 5 ./train --lr 1", "./train | --lr 1"},
		"another node's": {"1 0 9 srun -n1 python t.py --lr 1", "srun -n1 python t.py | --lr 1"},
		"shells alone":   {"1 0 9 bash run.sh --lr 1\n2 1 3 sh -c x", ""},
	} {
		var all []*process
		now := time.Now()
		for line := range strings.Lines(tt.all) {
			f := strings.Fields(line)
			all = append(all, &process{pid: int(f[0][0]), parent: int(f[1][0]), args: f[3:], from: now,
				to: now.Add(time.Duration(len(f[2])*10+int(f[2][0])) * time.Millisecond)})
		}
		got := ""
		if p, own := trained(all); p != nil {
			got = strings.Join(p.args[:own], " ") + " | " + strings.Join(p.args[own:], " ")
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A Python that only waits beside another one is no training, however long it lives. One alone is.
func TestTrainedWaits(t *testing.T) {
	now := time.Now()
	seen := func(pid int, name string, lived, used time.Duration) *process {
		return &process{pid: pid, args: []string{"python3", name}, from: now, to: now.Add(lived), used: used}
	}
	monitor := seen(1, "monitor.py", 3*time.Second, 50*time.Millisecond)
	for name, tt := range map[string]struct {
		all  []*process
		want string
	}{
		"a monitor": {[]*process{monitor, seen(2, "t.py", 2*time.Second, time.Second)}, "t.py"},
		"alone":     {[]*process{monitor}, "monitor.py"},
		"beside a short note": {[]*process{monitor,
			seen(2, "note.py", 40*time.Millisecond, 30*time.Millisecond)}, "monitor.py"},
		"of two that wait": {[]*process{monitor, seen(2, "t.py", 2*time.Second, 60*time.Millisecond)},
			"monitor.py"},
	} {
		if p, _ := trained(tt.all); p.args[1] != tt.want {
			t.Errorf("%s: %s, want %s", name, p.args[1], tt.want)
		}
	}
}

// What names itself anew keeps its arguments; what executes another program has the new ones.
func TestFamilyAdd(t *testing.T) {
	f := &family{}
	add := func(args string) { f.add(process{pid: 1, start: "1", args: strings.Fields(args)}, "/nonexistent/") }
	for _, args := range []string{"sh -c x", "python t.py --lr 1", "training: step 7"} {
		add(args)
	}
	if got := strings.Join(f.all[0].args, " "); len(f.all) != 1 || got != "python t.py --lr 1" {
		t.Errorf("%d processes, %q", len(f.all), got)
	}
}

func TestNamesOthers(t *testing.T) {
	n := func(capacity, free, own int64, others ...int64) oom.Numbers {
		of := func(gib int64) *unit.Bytes { b := unit.Bytes(gib) * unit.GiB; return &b }
		out := oom.Numbers{Capacity: of(capacity), Free: of(free), ProcessInUse: of(own)}
		for _, o := range others {
			out.Others = append(out.Others, oom.Process{PID: 1, Bytes: *of(o)})
		}
		return out
	}
	for i, tt := range []struct {
		n    oom.Numbers
		want bool
	}{
		{n(24, 4, 8, 12), true}, {n(24, 4, 8, 6, 6), true}, {n(24, 4, 20), false}, {n(24, 4, 8), false},
		{n(24, 4, 19, 1), false}, {n(24, 4, 1, 8), false}, {oom.Numbers{}, false},
	} {
		if got := namesOthers(tt.n); got != tt.want {
			t.Errorf("%d: %v, want %v", i, got, tt.want)
		}
	}
}

// A value in a recipe's name has arrived where the program got the edited copy of that recipe.
func TestNamed(t *testing.T) {
	files := []job.File{{Path: "/rec/attempt-2/batch32.yml", From: "options/batch32.yml"}, {Path: "/w/net.py"}}
	args := []string{"python", "t.py", "-opt", "/rec/attempt-2/batch32.yml", "--data=/rec/attempt-2/batch32.yml",
		"/x/rec/attempt-2/batch32.yml", "/w/net.py"}
	want := "python t.py -opt options/batch32.yml --data=options/batch32.yml /x/rec/attempt-2/batch32.yml /w/net.py"
	if got := strings.Join(named(args, files), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if args[3] != files[0].Path {
		t.Error("the arguments that were seen are changed")
	}
}
