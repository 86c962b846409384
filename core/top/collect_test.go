package top

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// a machine is a store of runs, and a collector.
type machine struct {
	t     testing.TB
	store record.Store
	*Collector
	cards []gpu.Device
}

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, store: record.In(t.TempDir())}
	m.Collector = New(Sources{Runs: m.store, Cards: func() ([]gpu.Device, error) {
		if m.cards == nil {
			return nil, errors.New("no NVIDIA driver: none here")
		}
		return m.cards, nil
	}})
	return m
}

// start records a run that this process carries; its status is published.
func (m *machine) start(name string, s *record.Status) (*record.Record, *record.StatusFile) {
	m.t.Helper()
	rec, err := m.store.Create(time.Now())
	if err == nil {
		err = rec.Write(record.Event{Kind: record.Followed, Args: []string{"python", name}})
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { rec.Close() })
	if s == nil {
		return rec, nil
	}
	f, err := record.CreateStatus(rec.Dir)
	if err == nil {
		s.Time = time.Now()
		err = f.Write(*s)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return rec, f
}

// sees returns the runs of a look: "python a.py: running".
func (m *machine) sees() (out []string) {
	for _, r := range m.Look(time.Now()).Runs {
		out = append(out, r.Title+": "+r.State)
	}
	slices.Sort(out)
	return out
}

func (m *machine) want(when string, runs ...string) {
	m.t.Helper()
	if got := m.sees(); !slices.Equal(got, runs) {
		m.t.Errorf("%s: %q, want %q", when, got, runs)
	}
}

// A run is shown while a launch carries it, and not after its end; one that was cut off is shown as such.
func TestLook(t *testing.T) {
	m := newMachine(t)
	m.want("without a run")
	first, file := m.start("a.py", &record.Status{Attempt: 1})
	m.start("b.py", nil)
	m.want("two", "python a.py: running", "python b.py: running")
	m.want("again", "python a.py: running", "python b.py: running")

	first.Close() // as when its launch is killed
	m.want("killed", "python a.py: cut off", "python b.py: running")
	again, err := m.store.Append(first.ID)
	if err != nil {
		t.Fatal(err)
	}
	m.want("resumed", "python a.py: running", "python b.py: running")
	file.Close()
	m.want("between two attempts", "python a.py: running", "python b.py: running")
	again.Close()
	m.want("ended", "python b.py: running")
	if e := m.runs[first.ID]; !e.asleep || e.outline != nil {
		t.Error("a run that has ended is read again at each look")
	}
	if again, err = m.store.Append(first.ID); err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	m.want("resumed after its end", "python a.py: running", "python b.py: running")
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	m.want("its folder disappeared", "python b.py: running")
	if len(m.runs) != 1 || len(m.Look(time.Now()).Problems) > 0 {
		t.Errorf("%d runs are kept", len(m.runs))
	}
}

// What was cut off long ago is not shown, and what has ended is not, though its status is still there.
func TestCutOff(t *testing.T) {
	m := newMachine(t)
	rec, _ := m.start("a.py", &record.Status{})
	rec.Close()
	m.want("now", "python a.py: cut off")
	if runs := m.Look(time.Now().Add(2 * cutOffFor)).Runs; len(runs) != 0 {
		t.Errorf("days later: %v", runs)
	}
	old := time.Now().Add(-time.Hour)
	rec, _ = m.start("b.py", &record.Status{})
	rec.Close()
	if err := os.Chtimes(filepath.Join(rec.Dir, "lock"), old, old); err != nil {
		t.Fatal(err)
	}
	m.want("an hour ago, by its lock", "python b.py: cut off")
	rec, _ = m.start("c.py", &record.Status{})
	rec.Write(record.Event{Kind: record.Stopped})
	rec.Close()
	m.want("replaced by its program", "python b.py: cut off")
}

// What cannot be read is a problem of that run, and the others are shown.
func TestProblems(t *testing.T) {
	m := newMachine(t)
	rec, _ := m.start("a.py", &record.Status{})
	m.start("b.py", &record.Status{})
	if err := os.WriteFile(filepath.Join(rec.Dir, "live"), []byte("{}\nxx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := m.Look(time.Now())
	if len(s.Runs) != 2 || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], rec.ID) {
		t.Errorf("%d runs, problems %q", len(s.Runs), s.Problems)
	}
	if s.NoCards == "" || s.Host == nil || s.Host.Free <= 0 || len(s.Cards) != 0 {
		t.Errorf("without a driver: %q, %+v", s.NoCards, s.Host)
	}
	if err := os.WriteFile(filepath.Join(rec.Dir, "events.jsonl"), []byte(`{"v":99}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := m.Look(time.Now()); len(s.Runs) != 1 || len(s.Problems) != 1 {
		t.Errorf("of a newer launch: %d runs, problems %q", len(s.Runs), s.Problems)
	}
	rec.Close() // the record of a run that ended long ago is not read
	old := time.Now().Add(-time.Hour)
	err := os.Remove(filepath.Join(rec.Dir, "live"))
	if err = errors.Join(err, os.Chtimes(filepath.Join(rec.Dir, "lock"), old, old)); err != nil {
		t.Fatal(err)
	}
	m.Collector = New(m.from)
	if s := m.Look(time.Now()); len(s.Runs) != 1 || len(s.Problems) != 0 {
		t.Errorf("of a newer launch, long ago: %d runs, problems %q", len(s.Runs), s.Problems)
	}
}

// A run on another machine that shares the records is counted, and not shown as one of this machine.
func TestElsewhere(t *testing.T) {
	m := newMachine(t)
	rec, _ := m.start("a.py", &record.Status{})
	path := filepath.Join(rec.Dir, "events.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	away := strings.Replace(string(text), record.Here().Boot, "another-boot", 1)
	if err := os.WriteFile(path, []byte(away), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := m.Look(time.Now()); len(s.Runs) != 0 || s.Elsewhere != 1 {
		t.Errorf("%d runs here, %d elsewhere", len(s.Runs), s.Elsewhere)
	}
}

// The figures of a run: the estimate of its phase, the time left.
func TestFigures(t *testing.T) {
	m := newMachine(t)
	now := time.Now()
	m.start("a.py", &record.Status{Phase: "training", Predicted: map[string]unit.Bytes{"training": 5},
		Progress: &record.Progress{Iteration: 10, Total: 20, At: now, Step: time.Minute}})
	r := m.Look(now).Runs[0]
	if r.Expected != 5 || r.Left == nil || *r.Left != 600 || r.PID != os.Getpid() {
		t.Errorf("%+v", r)
	}
	if _, silent := r.Silent(now); silent {
		t.Error("a new status is called silent")
	}
	if age, silent := r.Silent(now.Add(time.Minute)); !silent || age.Round(time.Minute) != time.Minute {
		t.Errorf("a status of a minute ago: %v, %v", age, silent)
	}
}

// Processes of a run are not others, by their ancestors; a run whose processes have other numbers is found by its card.
func TestAssign(t *testing.T) {
	s := Snapshot{Runs: []Run{
		{ID: "a", State: Running, PID: 10, Status: &record.Status{PID: 11}},
		{ID: "b", State: Running, PID: 20, Status: &record.Status{Card: "GPU-1"}},
		{ID: "c", State: CutOff, Status: &record.Status{PID: 30, Card: "GPU-1"}},
	}}
	busy := 50
	devices := []gpu.Device{
		{UUID: "GPU-0", Busy: &busy, Processes: []gpu.Process{{PID: 12, Used: 3}, {PID: 13, Used: 1}, {PID: 31, Used: 5}}},
		{UUID: "GPU-1", Processes: []gpu.Process{{PID: 14, Used: 7}, {PID: 99, Used: -1}}},
	}
	parents := map[int]int{12: 11, 13: 10, 14: 11, 31: 30}
	assign(&s, devices, func(pid int, roots map[int]int) (int, bool) {
		run, ok := roots[parents[pid]]
		return run, ok
	})
	if !slices.Equal(s.Runs[0].Cards, []int{0, 1}) || !slices.Equal(s.Runs[1].Cards, []int{1}) || s.Runs[2].Cards != nil {
		t.Errorf("cards of the runs: %v, %v, %v", s.Runs[0].Cards, s.Runs[1].Cards, s.Runs[2].Cards)
	}
	if s.Runs[0].OnCards != 3+1+7 || s.Runs[1].OnCards != 0 {
		t.Errorf("on cards: %v, %v", s.Runs[0].OnCards, s.Runs[1].OnCards)
	}
	if !slices.Equal(s.Cards[1].Runs, []string{"b", "a"}) || *s.Cards[0].Busy != 50 {
		t.Errorf("runs of the cards: %+v", s.Cards)
	}
	if s.Cards[0].Others != 5 || s.Cards[1].Others != 0 || len(s.Others) != 2 || s.Others[1].PID != 99 {
		t.Errorf("others: %+v", s.Others)
	}
}

// A process is found under the launch that started it.
func TestWithin(t *testing.T) {
	if run, ok := within(os.Getpid(), map[int]int{os.Getppid(): 7}); !ok || run != 7 {
		t.Errorf("this test is of run %d, %v", run, ok)
	}
	if _, ok := within(os.Getpid(), map[int]int{1 << 30: 7}); ok {
		t.Error("it is within a process that is not there")
	}
}

// mostPerRun bounds what a look allocates for a run: its lock, its record's state and its status are files that are
// opened, and the status is JSON with a map and two values that are referred to.
const mostPerRun = 60

// A look at 200 runs on 8 cards has a bounded number of allocations, and what has ended costs nearly nothing.
func TestAllocations(t *testing.T) {
	m := newMachine(t)
	for i := range 8 {
		m.cards = append(m.cards, gpu.Device{UUID: fmt.Sprint("GPU-", i)})
	}
	for i := range 200 {
		m.start(fmt.Sprintf("trial-%d.py", i), &record.Status{Phase: "training", Card: fmt.Sprint("GPU-", i%8),
			Predicted: map[string]unit.Bytes{"training": 5, "validation": 7}, Memory: &record.StatusMemory{Now: 3, Peak: 4},
			Progress: &record.Progress{Iteration: 10, Total: 20, At: time.Now(), Step: time.Minute}})
	}
	looks := func() float64 { return testing.AllocsPerRun(5, func() { m.Look(time.Now()) }) }
	running := looks()
	if n := len(m.Look(time.Now()).Runs); n != 200 {
		t.Fatalf("%d runs", n)
	}
	t.Logf("%.0f allocations a look, %.0f a run", running, running/200)
	if running > 200*mostPerRun {
		t.Errorf("%.0f allocations a look at 200 runs, want at most %d", running, 200*mostPerRun)
	}
	const ended = 300
	for i := range ended {
		rec, f := m.start(fmt.Sprintf("ended-%d.py", i), &record.Status{})
		f.Close()
		rec.Close()
	}
	m.Look(time.Now())
	if more := looks() - running; more > 8*ended {
		t.Errorf("%.0f allocations more for %d runs that have ended", more, ended)
	}
}
