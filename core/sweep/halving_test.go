package sweep

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// simulate runs a searcher to its end without a cluster: several trials at a time, whose ends come in an order that end
// chooses. Before each question the history is replayed from its journal.
func simulate(t interface{ Fatal(...any) }, spec Spec, searcher func(*History) Searcher, trial func(Trial) Result,
	end func(running int) int,
) *History {
	journal := []Event{{Kind: Began, Version: Version, Spec: &spec}}
	for range 1000 {
		text, _ := json.Marshal(journal)
		var events []Event
		if err := json.Unmarshal(text, &events); err != nil {
			t.Fatal(err)
		}
		h, err := Replay(events)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Done {
			next, done := searcher(h).Next(h)
			again, _ := searcher(h).Next(h)
			if diff := cmp.Diff(next, again); diff != "" {
				t.Fatal("the same history gives other trials: " + diff)
			}
			e := Event{Kind: Listed, Version: Version, Trials: next, Done: done}
			journal = append(journal, e)
			h.Apply(e)
		}
		for _, r := range h.Waiting() {
			journal = append(journal, Event{Kind: Started, Version: Version, Trial: r.Number, Start: r.Starts + 1})
			h.Apply(journal[len(journal)-1])
		}
		running := h.Running()
		if len(running) == 0 {
			if !h.Done {
				t.Fatal("the searcher lists no trial and waits for none")
			}
			return h
		}
		r := running[end(len(running))]
		res := trial(r.Trial)
		journal = append(journal, Event{Kind: Ended, Version: Version, Trial: r.Number, Start: r.Starts, Result: &res})
	}
	t.Fatal("it does not end")
	return nil
}

func scored(v float64) Result {
	p := &metric.Point{Value: v, Step: 1}
	return Result{Ending: run.Succeeded, Known: true, Metrics: metric.Set{"psnr": {Name: "psnr",
		Direction: metric.Maximise, Last: p, Best: p}}}
}

var (
	refused = Result{Ending: Refused, Code: run.CannotFit, Need: 20 * unit.GiB, Room: 10 * unit.GiB}
	short   = Result{Ending: run.OutOfMemory, Code: 1, Known: true, Attempts: 3, Peak: 11 * unit.GiB, Room: 10 * unit.GiB}
	crashed = Result{Ending: run.Failed, Code: 1, Known: true}
)

func value(t Trial, key string) float64 {
	text, _ := t.Assignment.Get(key)
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

func halved(space Space, metricName string) (Spec, func(*History) Searcher) {
	spec := Spec{Name: "s", Command: []string{"x"}, Space: space,
		Search: &Search{Metric: metricName, Halve: &Rungs{Key: "steps", Lengths: []string{"100", "300", "900"}}}}
	return spec, func(h *History) Searcher {
		s, err := Listing(h)
		if err != nil {
			panic(err)
		}
		return s
	}
}

// rungs lists the values of x on each rung, in the order of its trials.
func rungs(h *History) (out [][]float64) {
	for _, r := range h.Rows {
		for len(out) <= r.Rung {
			out = append(out, nil)
		}
		out[r.Rung] = append(out[r.Rung], value(r.Trial, "x"))
	}
	return out
}

func grid(n int) Space {
	var v Values
	for i := range n {
		v.List = append(v.List, strconv.Itoa(i+1))
	}
	return Space{Dimensions: []Dimension{{[]string{"x"}, []Values{v}}}}
}

func TestHalving(t *testing.T) {
	last := func(n int) int { return n - 1 }
	for name, tt := range map[string]struct {
		trial func(Trial) Result
		want  [][]float64
	}{
		"the best third goes on": {func(t Trial) Result { return scored(value(t, "x")) },
			[][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {9, 8, 7}, {9}}},
		"another is better after more steps": {func(t Trial) Result {
			if value(t, "steps") == 300 && value(t, "x") == 7 {
				return scored(100)
			}
			return scored(value(t, "x"))
		}, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {9, 8, 7}, {7}}},
		"three cannot fit: a third of the others goes on": {func(t Trial) Result {
			if value(t, "x") > 6 {
				return refused
			}
			return scored(value(t, "x"))
		}, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {6, 5}, {6}}},
		"a failure takes its place, and does not go on": {func(t Trial) Result {
			if value(t, "x") > 6 {
				return crashed
			}
			return scored(value(t, "x"))
		}, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {6, 5, 4}, {6}}},
		"out of memory after more steps: the next best takes the place": {func(t Trial) Result {
			if value(t, "steps") == 300 && value(t, "x") > 7 {
				return short
			}
			return scored(value(t, "x"))
		}, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {9, 8, 7, 6, 5}, {7}}},
		"none has a value": {func(Trial) Result { return crashed }, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}}},
		"none fits":        {func(Trial) Result { return refused }, [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, searcher := halved(grid(9), "")
			h := simulate(t, spec, searcher, tt.trial, last)
			if diff := cmp.Diff(tt.want, rungs(h)); diff != "" {
				t.Error(diff)
			}
			for _, r := range h.Rows {
				if first := h.Row(r.First); r.Rung > 0 && (first == nil || first.Rung != 0 || value(first.Trial,
					"x") != value(r.Trial, "x")) {
					t.Errorf("trial %d continues %d", r.Number, r.First)
				}
			}
		})
	}
}

// Rows of a random space that cannot fit are replaced: as many as were asked for are compared.
func TestHalvingReplacesInfeasible(t *testing.T) {
	draw, err := ParseValues("uniform:0..1")
	if err != nil {
		t.Fatal(err)
	}
	space := Space{Dimensions: []Dimension{{[]string{"x"}, []Values{draw}}}, Random: 9, Seed: 3}
	spec, searcher := halved(space, "psnr")
	h := simulate(t, spec, searcher, func(t Trial) Result {
		if value(t, "x") > 0.7 {
			return short
		}
		return scored(value(t, "x"))
	}, func(int) int { return 0 })
	feasible := 0
	for _, x := range rungs(h)[0] {
		if x <= 0.7 {
			feasible++
		}
	}
	if got := rungs(h); feasible != 9 || len(got[0]) == 9 || len(got[1]) != 3 || len(got[2]) != 1 {
		t.Errorf("%d of %d fit; %d and %d went on", feasible, len(got[0]), len(got[1]), len(got[2]))
	}
	if h.Code() != 0 {
		t.Errorf("what cannot fit is an answer of a search, but its exit code is %d", h.Code())
	}
}

// Whatever happens and in whichever order: who goes on is the best of the rung below, nobody runs twice on a rung,
// and no infeasible trial costs another its place.
func TestHalvingRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "rows")
		fate := map[[2]float64]Result{}
		spec, searcher := halved(grid(n), "psnr")
		h := simulate(t, spec, searcher, func(tr Trial) Result {
			id := [2]float64{value(tr, "x"), value(tr, "steps")}
			if _, ok := fate[id]; !ok {
				fate[id] = rapid.SampledFrom([]Result{refused, short, crashed, scored(1), scored(2), scored(3),
					scored(4)}).Draw(t, "fate")
			}
			return fate[id]
		}, func(running int) int { return rapid.IntRange(0, running-1).Draw(t, "ends") })
		s, all := &Halving{Metric: "psnr"}, rungs(h)
		for rung, xs := range all {
			if unique := slices.Compact(slices.Sorted(slices.Values(xs))); len(unique) != len(xs) {
				t.Fatalf("rung %d has a row twice: %v", rung, xs)
			}
			if rung == 0 {
				continue
			}
			var want []float64
			below := s.on(h, rung-1)
			for _, r := range s.best(below) {
				want = append(want, value(r.Trial, "x"))
			}
			if !slices.Equal(want[:len(xs)], xs) {
				t.Fatalf("rung %d has %v, the best below are %v", rung, xs, want)
			}
			counted := func(rows []*Row) (n int) {
				for _, r := range rows {
					if v := r.Score("psnr").Verdict; v == Scored || v == Bad {
						n++
					}
				}
				return n
			}
			if got := counted(s.on(h, rung)); got != max(1, counted(below)/3) && len(xs) < len(want) {
				t.Fatalf("rung %d has %d of %d places, and %d rows could go on", rung, got, counted(below)/3, len(want)-len(xs))
			}
		}
	})
}

func TestScore(t *testing.T) {
	diverged := scored(1)
	diverged.Metrics["psnr"] = metric.Metric{Name: "psnr", Direction: metric.Maximise, Diverged: true,
		Best: &metric.Point{Value: 3}}
	two := scored(1)
	two.Metrics = metric.Set{"psnr": two.Metrics["psnr"], "ssim": {Name: "ssim", Direction: metric.Maximise,
		Best: &metric.Point{Value: 3}}}
	for name, tt := range map[string]struct {
		state  State
		result *Result
		metric string
		want   Score
	}{
		"a value":     {Succeeded, new(scored(2)), "", Score{Verdict: Scored, Value: 2, Direction: metric.Maximise}},
		"by its name": {Succeeded, &two, "ssim", Score{Verdict: Scored, Value: 3, Direction: metric.Maximise}},
		"several": {Succeeded, &two, "", Score{Verdict: Bad,
			Why: "it reported several metrics (psnr, ssim): choose one with --metric"}},
		"another":  {Succeeded, &two, "acc", Score{Verdict: Bad, Why: `it reported no metric "acc", but psnr, ssim`}},
		"diverged": {Succeeded, &diverged, "", Score{Verdict: Bad, Why: "psnr is no finite number"}},
		"none":     {Succeeded, &Result{Known: true}, "", Score{Verdict: Bad, Why: "it reported no metric"}},
		"refused": {CannotFit, &refused, "", Score{Verdict: Infeasible, Why: "cannot fit", Peak: 20 * unit.GiB,
			Room: 10 * unit.GiB}},
		"out of memory": {OutOfMemory, &short, "", Score{Verdict: Infeasible, Why: "out of memory", Peak: 11 * unit.GiB,
			Room: 10 * unit.GiB}},
		"failed":      {Failed, &crashed, "", Score{Verdict: Bad, Why: "failed"}},
		"no room":     {NoRoom, &Result{}, "", Score{}},
		"interrupted": {Interrupted, &Result{}, "", Score{}},
		"running":     {Running, new(scored(2)), "", Score{}},
	} {
		got := (&Row{State: tt.state, Result: tt.result}).Score(tt.metric)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSearchErrors(t *testing.T) {
	rungs := func(text string) *Rungs {
		r, err := ParseRungs(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, text := range []string{"steps=100", "steps=300,100", "steps=a,b", "steps", "steps=0,1", "=1,2"} {
		if _, err := ParseRungs(text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	for name, s := range map[string]*Search{
		"the key is in the space": {Halve: rungs("x=1,2")},
		"a reserved key":          {Halve: rungs("trial=1,2")},
		"both":                    {Halve: rungs("steps=1,2"), Ask: []string{"a"}},
		"keys of a program":       {Ask: []string{"a"}},
		"a metric of a list":      {Metric: "psnr"},
		"patience with a list":    {Patience: 1},
	} {
		if s.check(grid(3), []string{"x"}) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (&Search{Halve: rungs("steps=1,2.5")}).check(grid(3), []string{"x"}); err != nil {
		t.Error(err)
	}
}
