package observe

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

func yes() bool { return true }
func no() bool  { return false }

// of is a process with a number and sockets.
func of(pid, parent int, number string, torch func() bool, sockets ...string) process {
	p := process{pid: pid, parent: parent, number: number, first: number == "LOCAL_RANK=0", start: uint64(pid),
		torch: torch, sockets: map[string]bool{}}
	for _, s := range sockets {
		p.sockets[s] = true
	}
	return p
}

// What launchers leave in /proc, as seen of each of them.
func TestChoose(t *testing.T) {
	pairs := map[string]string{"a": "b", "b": "a", "c": "d", "d": "c", "e": "f", "f": "e"}
	for name, tt := range map[string]struct {
		all   []process
		outer string
		want  int
		ranks []int
	}{
		"one process with loader workers": {all: []process{of(1, 0, "", yes), of(2, 1, "", yes), of(3, 1, "", yes)}},
		"torchrun: the agent has the store, workers inherit the number": {
			all: []process{of(1, 0, "", yes, "a", "c"), of(2, 1, "LOCAL_RANK=0", yes, "b", "e"), of(3, 1, "LOCAL_RANK=1", yes,
				"d", "f"),
				of(4, 2, "LOCAL_RANK=0", yes, "b", "e")},
			ranks: []int{2, 3}},
		"mp.spawn: rank 0 has the store, loader workers inherit sockets": {
			all: []process{of(1, 0, "", yes), of(2, 1, "", yes, "a"), of(3, 1, "", yes, "b"), of(4, 2, "", yes, "a"), of(5,
				3, "", yes, "b")},
			ranks: []int{2, 3}},
		"Lightning: the program itself is rank 0": {
			all: []process{of(1, 0, "", yes, "a"), of(2, 1, "LOCAL_RANK=1", yes, "b")}, ranks: []int{1, 2}},
		"launch itself is a rank of srun": {
			all: []process{of(1, 0, "SLURM_PROCID=3", yes), of(2, 1, "SLURM_PROCID=3", yes)}, outer: "SLURM_PROCID=3"},
		"a service of its logger": {all: []process{of(1, 0, "", yes, "a"), of(2, 1, "", no, "b")}, ranks: []int{1}},
		"before they have met": {all: []process{of(1, 0, "", yes), of(2, 1, "", yes), of(3, 1, "", yes), of(4, 1, "",
			no)}, want: 2, ranks: []int{2, 3}},
		"as many loader workers": {
			all: []process{of(1, 0, "", yes), of(2, 1, "", yes, "a"), of(3, 1, "", yes, "b"), of(4, 2, "", yes), of(5, 2, "",
				yes)}, want: 2, ranks: []int{2, 3}},
		"another program's connection": {all: []process{of(1, 0, "", yes, "x")}},
	} {
		var got []int
		for _, r := range choose(tt.all, tt.outer, pairs, tt.want) {
			got = append(got, r.PID)
		}
		if !slices.Equal(got, tt.ranks) {
			t.Errorf("%s: %v, want %v", name, got, tt.ranks)
		}
	}
}

// Only ranks that wait in vain are ended.
func TestHang(t *testing.T) {
	end := time.Unix(1000, 0)
	hung := RankFacts{Now: end.Add(patience), Certain: true, Ended: end, Left: end, Waiting: 1, Steps: true,
		Printed: end.Add(-time.Second), Stepped: end.Add(-time.Second)}
	if !hung.Hang() {
		t.Error("a rank that waits in silence is not ended")
	}
	for name, change := range map[string]func(*RankFacts){
		"nothing shows an out-of-memory":      func(f *RankFacts) { f.Certain = false },
		"all ranks live":                      func(f *RankFacts) { f.Ended = time.Time{} },
		"all have ended":                      func(f *RankFacts) { f.Waiting = 0 },
		"the launcher has time":               func(f *RankFacts) { f.Now = end.Add(patience - 1) },
		"the launcher starts them again":      func(f *RankFacts) { f.Fresh = true },
		"a rank saves a state":                func(f *RankFacts) { f.Writing = true },
		"the training goes on without a rank": func(f *RankFacts) { f.Stepped = end.Add(1) },
		"the failing rank is still there":     func(f *RankFacts) { f.Left = time.Time{} },
		"it left a moment ago":                func(f *RankFacts) { f.Left = end.Add(1) },
		"it still prints":                     func(f *RankFacts) { f.Printed = end.Add(time.Second) },
	} {
		f := hung
		if change(&f); f.Hang() {
			t.Errorf("%s, and its ranks are ended", name)
		}
	}
	stays := hung
	if stays.Left, stays.Now = (time.Time{}), end.Add(leaving+patience); !stays.Hang() {
		t.Error("a failing rank that does not leave keeps the others")
	}
	if stays.Steps, stays.Printed = false, stays.Now.Add(-time.Second); stays.Hang() {
		t.Error("beside a failing rank that does not leave, a program that prints may go on")
	}
	hung.Printed, hung.Now = end.Add(noisy-1), end.Add(noisy)
	if !hung.Hang() {
		t.Error("what a rank prints about its wait keeps it")
	}
	if hung.Steps = false; hung.Hang() {
		t.Error("a program that prints, and reports no progress, may go on")
	}
}

// The sockets of this process and of one that it starts are found, and its death.
func TestLook(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	cmd := exec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port+"; read -u 3 x; LOCAL_RANK=7 exec sleep 600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pairs, mine, theirs := connections(os.Getpid()), sockets(os.Getpid()), sockets(cmd.Process.Pid)
	met := false
	for s := range theirs {
		met = met || mine[pairs[s]]
	}
	if !met {
		t.Errorf("no connection between %v and %v in %v", mine, theirs, pairs)
	}
	c.Write([]byte("go on\n"))
	for numberOf(environ(cmd.Process.Pid)) != "LOCAL_RANK=7" {
		time.Sleep(10 * time.Millisecond)
	}
	r := Rank{PID: cmd.Process.Pid}
	_, _, r.start, _ = stat(r.PID)
	other := Rank{PID: r.PID, start: r.start + 1}
	if !r.alive() || other.alive() {
		t.Errorf("%+v %v, and a later process of its number %v", r, r.alive(), other.alive())
	}
	w := &Ranks{ranks: []Rank{r, {PID: os.Getpid(), start: mustStart(t)}}, root: os.Getpid(), wrote: map[int]int64{},
		dying: map[int]bool{}}
	w.next = time.Now().Add(time.Hour)
	if w.Look(); !w.Ended().IsZero() || w.Waiting() != nil {
		t.Error("nobody has ended")
	}
	if !w.End(r.PID) || len(w.Waiting()) != 1 || w.Waiting()[0].PID != os.Getpid() {
		t.Errorf("a rank that cannot go on waits: %+v", w.Waiting())
	}
	if w.Look(); !w.Left().IsZero() {
		t.Error("the rank that cannot go on has not left")
	}
	r.Kill()
	cmd.Wait()
	if w.Look(); w.Left().IsZero() {
		t.Error("the rank has left")
	}
	w.ended, w.left, w.dying = time.Time{}, time.Time{}, map[int]bool{}
	if w.Look(); w.Left().IsZero() || w.Ended().IsZero() || len(w.Waiting()) != 1 || w.Waiting()[0].PID != os.Getpid() {
		t.Errorf("ended %v, waiting %v", w.Ended(), w.Waiting())
	}
	w.Writing(w.Waiting())
	f, err := os.CreateTemp(t.TempDir(), "state")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write(make([]byte, 4*much))
	if !w.Writing(w.Waiting()) {
		t.Error("a process that writes a file is not seen to")
	}
}

func mustStart(t *testing.T) uint64 {
	_, _, start, ok := stat(os.Getpid())
	if !ok || start == 0 || start > ticks() {
		t.Fatalf("this process started at %d, and it is %d (%s)", start, ticks(), strconv.Itoa(os.Getpid()))
	}
	return start
}
