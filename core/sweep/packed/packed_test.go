package packed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/unit"
)

const g = unit.GiB

var began = time.Unix(1_000_000, 0)

// a history of a sweep. "start 2 GPU-0" and so on, one minute after the other; needs are in GiB, 0 is unknown.
func history(t *testing.T, needs []int, story ...string) *sweep.History {
	t.Helper()
	h := &sweep.History{}
	now := began
	add := func(e sweep.Event) {
		e.Version, e.Time = sweep.Version, now
		now = now.Add(time.Minute)
		h.Apply(e)
	}
	var trials []sweep.Trial
	var quotes []sweep.Quote
	for i, n := range needs {
		trials = append(trials, sweep.Trial{Number: i + 1})
		q := sweep.Quote{Trial: i + 1, Plugin: "p", Asked: unit.Bytes(n) * g, Needs: unit.Bytes(n) * g, Steps: 100,
			Resumes: true}
		quotes = append(quotes, q)
	}
	add(sweep.Event{Kind: sweep.Listed, Trials: trials, Done: true})
	add(sweep.Event{Kind: sweep.Priced, Quotes: quotes})
	for _, line := range story {
		var trial int
		var what, arg string
		fmt.Sscan(line, &what, &trial, &arg)
		e := sweep.Event{Trial: trial, Start: h.Row(trial).Starts}
		r := sweep.Result{Ending: run.Succeeded, Peak: unit.Bytes(len(arg)) * g, PeakIs: run.Used, Length: 100,
			Took: time.Hour}
		switch what {
		case "start":
			e.Kind, e.Card, e.Start = sweep.Started, &sweep.Card{UUID: arg}, e.Start+1
		case "stop":
			e.Kind = sweep.PutBack
		case "ends":
			e.Kind, e.Result = sweep.Ended, &r
		case "left":
			r = sweep.Result{Ending: run.Interrupted, Code: run.TryLater, Run: "R", Known: true}
			e.Kind, e.Result = sweep.Ended, &r
		case "short": // of memory, beside others
			r.Ending, r.Code = run.OutOfMemory, run.TryLater
			e.Kind, e.Result = sweep.Ended, &r
		default:
			t.Fatal(line)
		}
		add(e)
	}
	return h
}

// What pack is told of each trial follows from the journal alone.
func TestState(t *testing.T) {
	hour := time.Hour
	for name, tt := range map[string]struct {
		needs   []int
		story   []string
		greedy  bool
		waiting []pack.Trial
		running []pack.Running
		factor  float64
	}{
		"nothing has run: only the order of lengths counts": {needs: []int{2, 0}, factor: 2, waiting: []pack.Trial{
			{ID: 1, Need: 2 * g, Length: 100 * time.Second, Saves: true},
			{ID: 2, Length: 100 * time.Second, Saves: true}}},
		"a trial that fills the card shares none": {needs: []int{2}, greedy: true, factor: 2, waiting: []pack.Trial{
			{ID: 1, Length: 100 * time.Second, Saves: true}}},
		"what has ended teaches peak and pace": {needs: []int{2, 2}, story: []string{"start 1 A", "ends 1 xxx"},
			factor: 1.5 * (1 + 10./11), waiting: []pack.Trial{{ID: 2, Need: 2 * g, Length: hour, Saves: true}}},
		"one is running": {needs: []int{2, 2}, story: []string{"start 1 A", "ends 1 xx", "start 2 B"},
			factor: 1 + 10./11, running: []pack.Running{{Trial: pack.Trial{ID: 2, Need: 2 * g, Length: hour, Saves: true},
				Card: "B", Started: 2, Left: 59 * time.Minute}}},
		"a later one was started first": {needs: []int{2, 2, 2}, story: []string{"start 2 A", "start 3 A"}, factor: 2,
			waiting: []pack.Trial{{ID: 1, Need: 2 * g, Length: 100 * time.Second, Saves: true, Passed: 2}},
			running: []pack.Running{
				{Trial: pack.Trial{ID: 2, Need: 2 * g, Length: 100 * time.Second, Saves: true}, Card: "A", Started: 1},
				{Trial: pack.Trial{ID: 3, Need: 2 * g, Length: 100 * time.Second, Saves: true}, Card: "A", Started: 2}}},
		"it was asked to stop": {needs: []int{2}, story: []string{"start 1 A", "stop 1"}, factor: 2,
			running: []pack.Running{{Trial: pack.Trial{ID: 1, Need: 2 * g, Length: 100 * time.Second, Saves: true}, Card: "A",
				Started: 1, Stopping: true}}},
		"it was put back, and one has passed it since": {needs: []int{2, 2}, story: []string{"start 1 A", "stop 1",
			"left 1", "start 2 A", "ends 2 xx"}, factor: 1 + 10./11,
			waiting: []pack.Trial{{ID: 1, Need: 2 * g, Length: hour, Saves: true, Stops: 1, Passed: 1}}},
		"out of memory beside another": {needs: []int{2, 2}, story: []string{"start 1 A", "start 2 A", "short 2 xxx"},
			factor:  1.5 * (1 + 10./11),
			waiting: []pack.Trial{{ID: 2, Need: 2 * g, Length: 100 * time.Second, Saves: true, AtLeast: 3 * g, Failed: true}},
			running: []pack.Running{{Trial: pack.Trial{ID: 1, Need: 2 * g, Length: 100 * time.Second, Saves: true},
				Card: "A", Started: 1}}},
		"out of memory because of other people": {needs: []int{2, 2}, story: []string{"start 1 A", "start 2 B",
			"short 2 xxx"}, factor: 1.5 * (1 + 10./11),
			waiting: []pack.Trial{{ID: 2, Need: 2 * g, Length: 100 * time.Second, Saves: true, AtLeast: 3 * g}},
			running: []pack.Running{{Trial: pack.Trial{ID: 1, Need: 2 * g, Length: 100 * time.Second, Saves: true},
				Card: "A", Started: 1}}},
	} {
		h := history(t, tt.needs, tt.story...)
		now := began.Add(time.Duration(len(tt.story)+2) * time.Minute)
		s := state(h, h.Waiting(), h.Running(), tt.greedy, now)
		if diff := cmp.Diff(tt.waiting, s.Waiting); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(tt.running, s.Running); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := s.Peaks.Factor(); got < tt.factor-0.001 || got > tt.factor+0.001 {
			t.Errorf("%s: the factor is %v, want %v", name, got, tt.factor)
		}
	}
}

// A trial that was put back rests, longer each time; no other one does.
func TestRested(t *testing.T) {
	now := began
	row := func(state sweep.State, stops, crowded int, since time.Duration) *sweep.Row {
		return &sweep.Row{State: state, Stops: stops, Crowded: crowded, Over: now.Add(-since)}
	}
	for i, tt := range []struct {
		row  *sweep.Row
		want bool
	}{
		{row(sweep.Waiting, 0, 0, 0), true}, {row(sweep.Waiting, 1, 0, time.Second/2), false},
		{row(sweep.Waiting, 1, 0, time.Second), true}, {row(sweep.Waiting, 3, 0, 3*time.Second), false},
		{row(sweep.Waiting, 3, 0, 4*time.Second), true}, {row(sweep.Waiting, 2, 1, 3*time.Second), false},
		{row(sweep.Waiting, 1000, 0, 59*time.Second), false}, {row(sweep.Waiting, 1000, 0, time.Minute), true},
		{row(sweep.NoRoom, 3, 0, 0), true},
	} {
		if got := len(rested([]*sweep.Row{tt.row}, now)) == 1; got != tt.want {
			t.Errorf("%d: %v, want %v", i, got, tt.want)
		}
	}
}

// The slowdown follows from the speeds of alike trials that were alone and that shared a card all the time.
func TestSlowed(t *testing.T) {
	at := func(m int) time.Time { return began.Add(time.Duration(m) * time.Minute) }
	row := func(asked int, rate float64, stays ...sweep.Stay) *sweep.Row {
		q := &sweep.Quote{Plugin: "p", Asked: unit.Bytes(asked) * g, Needs: unit.Bytes(asked) * g, Global: 8}
		return &sweep.Row{State: sweep.Succeeded, Quote: q, Result: &sweep.Result{Rate: rate}, Stays: stays,
			Card: &sweep.Card{UUID: stays[len(stays)-1].Card}}
	}
	on := func(card string, from, to int) sweep.Stay { return sweep.Stay{Card: card, From: at(from), To: at(to)} }
	const expected = 1.3
	for name, tt := range map[string]struct {
		rows []*sweep.Row
		want pack.Slowed
	}{
		"nothing": {},
		"alone and two": {[]*sweep.Row{row(2, 10, on("A", 0, 10)), row(2, 5, on("B", 0, 20)), row(2, 5, on("B", 1, 20))},
			twice(2)},
		"of another size": {[]*sweep.Row{row(3, 10, on("A", 0, 10)), row(2, 5, on("B", 0, 20)),
			row(2, 5, on("B", 1, 20))}, pack.Slowed{}},
		"half of the time": {[]*sweep.Row{row(2, 10, on("A", 0, 10)), row(2, 5, on("B", 0, 20)),
			row(2, 10, on("B", 10, 40))}, pack.Slowed{}},
		"the other one was put back, and is elsewhere": {[]*sweep.Row{row(2, 10, on("A", 0, 10)), row(2, 5, on("B", 0, 20)),
			row(2, 10, on("B", 0, 18), on("C", 20, 30))}, twice(1)},
	} {
		got, want := slowed(tt.rows), tt.want
		if got.Factor(expected) != want.Factor(expected) {
			t.Errorf("%s: %v, want %v", name, got.Factor(expected), want.Factor(expected))
		}
	}
}

func twice(n int) (s pack.Slowed) {
	for range n {
		s.Add(1, 2, 2)
	}
	return s
}

// A trial that runs out of memory beside others again and again ends.
func TestCrowded(t *testing.T) {
	h := history(t, []int{2})
	for n := range 10 {
		if h.Row(1).State != sweep.Waiting {
			if h.Row(1).State != sweep.NoRoom || n != sweep.MostCrowded+1 || h.Code() != run.TryLater {
				t.Errorf("%s after %d times, exit code %d", h.Row(1).State, n, h.Code())
			}
			return
		}
		h.Apply(sweep.Event{Kind: sweep.Started, Trial: 1, Start: n + 1, Card: &sweep.Card{UUID: "A"}})
		h.Apply(sweep.Event{Kind: sweep.Ended, Trial: 1, Start: n + 1, Result: &sweep.Result{Ending: run.OutOfMemory,
			Code: run.TryLater}})
	}
	t.Error("it never ends")
}

// machine is a machine of which a test tells everything.
type machine struct {
	cards  []gpu.Device
	at     time.Time
	claims []room.Held
}

func (m *machine) Look() ([]gpu.Device, time.Time) { return m.cards, m.at }
func (m *machine) Claims() []room.Held             { return m.claims }
func (m *machine) Launches() map[int]int           { return nil }

func moves(all []sweep.Move) string {
	var out []string
	for _, m := range all {
		switch {
		case m.Stop:
			out = append(out, fmt.Sprintf("stop %d now=%t", m.Trial, m.Now))
		default:
			out = append(out, fmt.Sprintf("%d on %s", m.Trial, m.Card.UUID))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestAdmit(t *testing.T) {
	card := func(i int, total, used unit.Bytes) gpu.Device {
		return gpu.Device{Kind: gpu.CUDA, UUID: fmt.Sprintf("GPU-%d", i), Index: i, Total: total, Used: used}
	}
	two := []gpu.Device{card(0, 24*g, 0), card(1, 8*g, 0)}
	for name, tt := range map[string]struct {
		needs []int
		story []string
		jobs  int
		cards []gpu.Device
		want  string
	}{
		"the smaller card for the smaller trial": {needs: []int{16, 4}, want: "1 on GPU-0, 2 on GPU-1"},
		"no more than --jobs":                    {needs: []int{16, 4}, jobs: 1, want: "1 on GPU-0"},
		"what is not known is alone, on the largest card": {needs: []int{0, 0, 0},
			want: "1 on GPU-0, 2 on GPU-1"},
		"two on a card":           {needs: []int{1, 1, 1, 1}, want: "1 on GPU-1, 2 on GPU-0, 3 on GPU-1, 4 on GPU-0"},
		"others hold the card":    {needs: []int{16}, cards: []gpu.Device{card(0, 24*g, 20*g), card(1, 8*g, 0)}},
		"the card is full by now": {needs: []int{2, 2}, story: []string{"start 1 GPU-1", "start 2 GPU-1"}},
	} {
		if tt.cards == nil {
			tt.cards = two
		}
		h := history(t, tt.needs, tt.story...)
		a := Admission{History: h, Machine: &machine{cards: tt.cards, at: began}, Cards: two, Jobs: tt.jobs}
		if got := moves(a.Admit(h.Waiting(), h.Running())); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A card that the driver no longer lists takes no trial; when it is there again, it does.
func TestLost(t *testing.T) {
	two := []gpu.Device{{UUID: "GPU-0", Total: 24 * g}, {UUID: "GPU-1", Index: 1, Total: 24 * g}}
	m := &machine{cards: two, at: began}
	h := history(t, []int{0, 0, 0}, "start 1 GPU-0")
	a := Admission{History: h, Machine: m, Cards: two}
	for i, tt := range []struct {
		cards []gpu.Device
		want  string
		gone  bool
	}{{two[:1], "", false}, {two, "2 on GPU-1", false}, {[]gpu.Device{}, "", true}} {
		m.cards, m.at = tt.cards, began.Add(time.Duration(i+1)*time.Second)
		if got := moves(a.Admit(h.Waiting(), h.Running())); got != tt.want || a.Gone() != tt.gone {
			t.Errorf("%d: %q, gone %v, want %q, %v: %s", i, got, a.Gone(), tt.want, tt.gone, a.Wait())
		}
	}
	if wait := a.Wait(); !strings.Contains(wait, "card 1 is no longer there") {
		t.Error(wait)
	}
}

// A trial is asked to stop after two looks at the card agree, not after one.
func TestTwoLooks(t *testing.T) {
	full := gpu.Device{UUID: "GPU-0", Total: 24 * g, Used: 8 * g}
	m := &machine{cards: []gpu.Device{full}, at: began}
	h := history(t, []int{6, 6}, "start 1 GPU-0", "start 2 GPU-0")
	a := Admission{History: h, Machine: m, Cards: m.cards}
	for i, want := range []string{"", "", "stop 2 now=true"} {
		if i == 2 {
			m.at = began.Add(time.Second)
		}
		if got := moves(a.Admit(nil, h.Running())); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	m.cards[0].Used, m.at = 0, began.Add(2*time.Second)
	a.Admit(nil, h.Running())
	m.cards[0].Used, m.at = 8*g, began.Add(3*time.Second)
	if got := moves(a.Admit(nil, h.Running())); got != "" {
		t.Errorf("a doubt lasts: %q", got)
	}
}

// Where the driver does not tell whose the memory is, a trial is not stopped for its own growth: others hold what they
// held before it came, or less. Where it tells, it counts.
func TestUntold(t *testing.T) {
	for name, tt := range map[string]struct {
		before, used []unit.Bytes // of the card: at a look without trials, and at looks with them
		processes    []gpu.Process
		want         string
	}{
		"their own growth":       {before: []unit.Bytes{0}, used: []unit.Bytes{12 * g, 20 * g, 24 * g}},
		"and that beside others": {before: []unit.Bytes{2 * g}, used: []unit.Bytes{12 * g, 20 * g, 24 * g}},
		"others that hold less":  {before: []unit.Bytes{20 * g, 2 * g}, used: []unit.Bytes{14 * g, 14 * g, 14 * g}},
		"others that the driver names": {before: []unit.Bytes{0}, used: []unit.Bytes{12 * g, 20 * g, 24 * g},
			processes: []gpu.Process{{PID: 1, Used: 20 * g}}, want: "stop 1 now=true, stop 2 now=true"},
	} {
		m := &machine{at: began}
		look := func(used unit.Bytes, processes []gpu.Process) {
			m.at = m.at.Add(time.Second)
			m.cards = []gpu.Device{{UUID: "GPU-0", Total: 24 * g, Used: used, Processes: processes}}
		}
		look(tt.before[0], nil)
		h := history(t, []int{6, 6}, "start 1 GPU-0", "start 2 GPU-0")
		a := Admission{History: h, Machine: m, Cards: m.cards}
		for _, used := range tt.before {
			look(used, nil)
			a.Admit(nil, nil)
		}
		got := ""
		for _, used := range tt.used {
			look(used, tt.processes)
			got = moves(a.Admit(nil, h.Running()))
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A forecast names a card for each row, also for those that wait first.
func TestForecast(t *testing.T) {
	cards := []gpu.Device{{UUID: "GPU-a", Index: 0, Total: 24 * g}, {UUID: "GPU-b", Index: 1, Total: 8 * g}}
	var trials []sweep.Trial
	var quotes []sweep.Quote
	for i := range 9 {
		trials = append(trials, sweep.Trial{Number: i + 1})
		quotes = append(quotes, sweep.Quote{Trial: i + 1, Plugin: "p", Asked: 7 * g, Needs: 7 * g})
	}
	quotes[4].Asked = 20 * g
	Forecast(pack.Policy{}, false, cards, 0, trials, quotes)
	on := map[string]int{}
	for _, q := range quotes {
		on[q.Card]++
	}
	if quotes[4].Card != "0" || on[""] > 0 || on["1"] == 0 {
		t.Errorf("%v, the large one on %q", on, quotes[4].Card)
	}
}
