package record

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Two recorded runs are compared: their memory line by line, their speed and figures, and everything recorded
// that differs between them. It is not decided which difference caused which.

// DiffVersion is the version of [Diff]. Fields are added within a version and never change their meaning.
const DiffVersion = 1

// A Diff is what differs between run A and run B. Lists are empty, never null.
type Diff struct {
	Version int          `json:"version"`
	A       ComparedRun  `json:"a"`
	B       ComparedRun  `json:"b"`
	Phases  []PhasePair  `json:"phases"`
	Results []FigurePair `json:"results"`
	// Differs lists settings, versions and the like that are not the same in both.
	Differs []Difference `json:"differs"`
	// Unknown names what could not be compared, because a record lacks it.
	Unknown []string `json:"unknown"`
}

// A ComparedRun names one of the two.
type ComparedRun struct {
	ID      string     `json:"id"`
	Began   time.Time  `json:"began"`
	Ending  run.Ending `json:"ending"` // of its last attempt; "" if that has no end
	Command []string   `json:"command"`
	Attempt int        `json:"attempt"` // the last one, which is compared; 0: there was none
	Changes string     `json:"changes"` // what launch changed in it
}

// A Pair is an amount of memory in both runs; nil: not known, or not there.
type Pair struct {
	A *unit.Bytes `json:"a_bytes"`
	B *unit.Bytes `json:"b_bytes"`
}

// Delta is B − A, signed; ok is false if one is not known.
func (p Pair) Delta() (d unit.Bytes, ok bool) {
	if p.A == nil || p.B == nil {
		return 0, false
	}
	return *p.B - *p.A, true
}

// A PhasePair is the memory of one phase.
type PhasePair struct {
	Phase string `json:"phase"`
	// Predicted are the lines of the ledger, the largest difference first. Where both estimates are known, a line
	// that one of them lacks is 0 there.
	Predicted []LinePair `json:"predicted"`
	Total     Pair       `json:"total"`
	Measured  []PeakPair `json:"measured"`
}

// A LinePair is a line of the ledger.
type LinePair struct {
	Kind mem.Kind `json:"kind"`
	What string   `json:"what"`
	Pair
}

// A PeakPair is a quantity that was measured.
type PeakPair struct {
	Is string `json:"is"`
	Pair
	BoundA mem.Bound `json:"a_bound,omitempty"`
	BoundB mem.Bound `json:"b_bound,omitempty"`
}

// A FigurePair is the speed or a metric; nil: not known.
type FigurePair struct {
	Name string   `json:"name"`
	A    *float64 `json:"a"`
	B    *float64 `json:"b"`
	// Relative: the difference means something as a part of A only, as of a speed.
	Relative bool `json:"-"`
}

// Ratio is B / A; ok is false if there is none.
func (f FigurePair) Ratio() (r float64, ok bool) {
	if f.A == nil || f.B == nil || *f.A <= 0 {
		return 0, false
	}
	return *f.B / *f.A, true
}

// The kinds of difference, in the order in which they are listed.
const (
	kindCode        = "code"
	kindSettings    = "settings"
	kindData        = "data"
	kindPlan        = "plan"
	kindVersions    = "versions"
	kindCard        = "card"
	kindEnvironment = "environment"
	kindCommand     = "command"
)

var kinds = []string{kindCode, kindSettings, kindData, kindPlan, kindVersions, kindCard, kindEnvironment, kindCommand}

// A Difference is one thing that is not the same. A value is nil where it is not set.
type Difference struct {
	Kind string  `json:"kind"`
	Name string  `json:"name"`
	A    *string `json:"a"`
	B    *string `json:"b"`
}

// A Side is one run, and the receipts of all runs.
type Side struct {
	History  *History
	Receipts []Receipt
}

// Compare compares two runs.
func Compare(a, b Side) Diff {
	x, y := readSide(a), readSide(b)
	d := Diff{Version: DiffVersion, A: x.run, B: y.run, Phases: phases(x, y), Results: results(x, y)}
	d.Differs, d.Unknown = []Difference{}, unknown(x, y)
	known := identities(a.History, b.History, x, y)
	for _, kind := range kinds {
		d.Differs = append(d.Differs, differ(kind, x.values[kind], y.values[kind])...)
		d.Differs = append(d.Differs, known[kind]...)
	}
	return d
}

// kindOf is the kind under which a difference of two identities is listed. Recipes and arguments are compared setting
// by setting.
var kindOf = map[string]string{identity.Code: kindCode, identity.Environment: kindEnvironment,
	identity.Python:   kindVersions,
	identity.Packages: kindVersions, identity.Data: kindData, identity.Ranks: kindPlan}

// identities lists, by kind, what differs between what the two runs are, as far as x and y do not have it.
func identities(a, b *History, x, y side) map[string][]Difference {
	out := map[string][]Difference{}
	for _, d := range identity.Compare(a.Identity(), b.Identity(), identity.Past{}) {
		kind, listed := kindOf[d.Kind]
		_, inA := x.values[kind][d.Name]
		_, inB := y.values[kind][d.Name]
		if listed && !inA && !inB {
			out[kind] = append(out[kind], Difference{Kind: kind, Name: d.Name, A: d.Was, B: d.Now})
		}
	}
	return out
}

// A fact is what not every record has, by its name, with its values.
type fact struct {
	name, kind string
	values     []string
	always     bool // it is worth a line even if neither run has it
}

var facts = []fact{
	{"torch", kindVersions, []string{"torch"}, true},
	{"driver", kindVersions, []string{"driver"}, true},
	{"card", kindCard, []string{"card", "memory"}, true},
	{"python", kindVersions, []string{diffPython}, false},
	{"allocator", kindEnvironment, []string{"allocator"}, false},
}

const diffPython = "python (digest of its path)"

// unknown lists the facts that a run's record does not have, and takes the other run's away: a value that was not
// recorded is not a value that is not set.
func unknown(x, y side) []string {
	out := []string{}
	for _, f := range facts {
		a, b := x.known[f.name], y.known[f.name]
		if a && b {
			continue
		}
		for _, name := range f.values {
			delete(x.values[f.kind], name)
			delete(y.values[f.kind], name)
		}
		switch {
		case a:
			out = append(out, f.name+" of "+y.run.ID)
		case b:
			out = append(out, f.name+" of "+x.run.ID)
		case f.always:
			out = append(out, f.name)
		}
	}
	return out
}

// A side is what a comparison needs of a run.
type side struct {
	run     ComparedRun
	choices []run.Choice
	outcome run.Outcome
	metrics metric.Set
	values  map[string]map[string]string // by kind of difference
	known   map[string]bool              // by the name of a fact
}

func readSide(of Side) side {
	h := of.History
	s := side{run: ComparedRun{ID: h.ID, Command: []string{}}, known: map[string]bool{},
		values: map[string]map[string]string{}}
	for _, kind := range kinds {
		s.values[kind] = map[string]string{}
	}
	if len(h.Events) > 0 {
		s.run.Began = h.Events[0].Time
	}
	s.readDevice(h)
	s.readMachine(of.Receipts)
	r := h.Run()
	if r == nil {
		s.readTyped(h)
		return s
	}
	s.run.Command = append(s.run.Command, r.Job.Command.Args...)
	for _, a := range h.Tried() {
		if a.Plan.Trial != "" {
			continue
		}
		s.run.Attempt, s.run.Changes, s.run.Ending = a.Plan.Attempt, a.Plan.Changes(), a.Outcome.Ending
		s.choices, s.outcome = a.Plan.Choices, a.Outcome
		s.values[kindPlan]["changes"] = s.run.Changes
	}
	s.metrics = run.Metrics(r.Attempts)
	s.readJob(r)
	return s
}

// readTyped reads a run that no plugin recognised.
func (s *side) readTyped(h *History) {
	for _, e := range h.Events {
		if e.Kind == Followed {
			s.run.Command, s.run.Attempt, s.run.Changes = append(s.run.Command, e.Args...), 1, run.AsAsked
			s.values[kindCommand]["folder"] = e.Dir
			arguments(s.values, e.Args)
		}
		if e.Outcome != nil {
			s.outcome, s.run.Ending, s.metrics = *e.Outcome, e.Outcome.Ending, e.Outcome.Metrics
		}
	}
}

// readDevice reads the card that the run was priced for.
func (s *side) readDevice(h *History) {
	for _, e := range h.Events {
		if e.Device == nil {
			continue
		}
		text, err := json.Marshal(e.Device) // a record that was read has maps here
		var d gpu.Device
		if err != nil || json.Unmarshal(text, &d) != nil || d.Name == "" {
			continue
		}
		s.known["card"] = true
		s.values[kindCard]["card"], s.values[kindCard]["memory"] = d.Name, d.Total.String()
		s.known["driver"] = d.Driver != "" || d.Kind == gpu.CPU
		if d.Driver != "" {
			s.values[kindVersions]["driver"] = d.Driver
		}
	}
}

// readMachine reads the versions that the receipts of the run have.
func (s *side) readMachine(all []Receipt) {
	for _, r := range all {
		if r.Run != s.run.ID {
			continue
		}
		s.known["allocator"] = true
		if r.Machine.Torch != "" {
			s.known["torch"], s.values[kindVersions]["torch"] = true, r.Machine.Torch
		}
		if r.Machine.Allocator != "" {
			s.values[kindEnvironment]["allocator"] = r.Machine.Allocator
		}
		if r.Job.Python != "" {
			s.known["python"], s.values[kindVersions][diffPython] = true, r.Job.Python
		}
	}
}

// phases compares the memory of each phase that one of them has.
func phases(x, y side) []PhasePair {
	out := []PhasePair{}
	var names []string
	for _, s := range []side{x, y} {
		for _, c := range s.choices {
			if !slices.Contains(names, c.Phase) {
				names = append(names, c.Phase)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.outcome.Measured)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		p := PhasePair{Phase: name, Predicted: []LinePair{}, Measured: peakPairs(x.outcome.Measured[name],
			y.outcome.Measured[name])}
		a, b := x.estimate(name), y.estimate(name)
		if a != nil && b != nil {
			p.Predicted = lines(*a, *b)
		}
		p.Total = Pair{totalOf(a), totalOf(b)}
		out = append(out, p)
	}
	if len(out) == 0 && (x.outcome.Peak > 0 || y.outcome.Peak > 0) { // without a plugin only the whole has a peak
		if x.outcome.PeakIs == y.outcome.PeakIs || x.outcome.Peak == 0 || y.outcome.Peak == 0 {
			is := cmp.Or(x.outcome.PeakIs, y.outcome.PeakIs)
			out = append(out, PhasePair{Phase: "the whole program", Predicted: []LinePair{}, Measured: []PeakPair{{Is: is,
				Pair: Pair{unit.Known(x.outcome.Peak), unit.Known(y.outcome.Peak)}}}})
		}
	}
	return out
}

// estimate is the known estimate of a phase; nil if there is none.
func (s side) estimate(phase string) *mem.Estimate {
	for _, c := range s.choices {
		if c.Phase == phase && c.Estimate.Known() {
			return &c.Estimate
		}
	}
	return nil
}

func totalOf(e *mem.Estimate) *unit.Bytes {
	if e == nil {
		return nil
	}
	sum := e.Total()
	return &sum
}

// lines compares two known estimates line by line. Lines of the same kind and part are added up.
func lines(a, b mem.Estimate) []LinePair {
	type key struct {
		kind mem.Kind
		what string
	}
	sum := func(e mem.Estimate) map[key]unit.Bytes {
		m := map[key]unit.Bytes{}
		for _, it := range e.Items {
			m[key{it.Kind, it.What}] += it.Bytes
		}
		return m
	}
	as, bs := sum(a), sum(b)
	all := maps.Clone(as)
	maps.Copy(all, bs)
	out := []LinePair{}
	for k := range all {
		x, y := as[k], bs[k]
		out = append(out, LinePair{k.kind, k.what, Pair{&x, &y}})
	}
	slices.SortFunc(out, func(p, q LinePair) int {
		dp, _ := p.Delta()
		dq, _ := q.Delta()
		return cmp.Or(cmp.Compare(max(dq, -dq), max(dp, -dp)), cmp.Compare(*q.B, *p.B), strings.Compare(string(p.Kind),
			string(q.Kind)), strings.Compare(p.What, q.What))
	})
	return out
}

// peakPairs compares what was measured, quantity by quantity.
func peakPairs(a, b []mem.Measurement) []PeakPair {
	out := []PeakPair{}
	for _, is := range []string{mem.Used, mem.Reserved, mem.Allocated, mem.Data, mem.Resident} {
		p := PeakPair{Is: is}
		for _, m := range a {
			if m.Is == is && m.Bytes > 0 {
				p.A, p.BoundA = &m.Bytes, m.Bound
			}
		}
		for _, m := range b {
			if m.Is == is && m.Bytes > 0 {
				p.B, p.BoundB = &m.Bytes, m.Bound
			}
		}
		if p.A != nil || p.B != nil {
			out = append(out, p)
		}
	}
	return out
}

// results compares the speed, the time and the metrics.
func results(x, y side) []FigurePair {
	out := []FigurePair{}
	add := func(name string, relative bool, a, b *float64) {
		if a != nil || b != nil {
			out = append(out, FigurePair{name, a, b, relative})
		}
	}
	number := func(v float64) *float64 {
		if v <= 0 {
			return nil
		}
		return &v
	}
	add("samples per second", true, number(x.outcome.Rate), number(y.outcome.Rate))
	add("seconds of the last attempt", true, number(x.outcome.Took.Seconds()), number(y.outcome.Took.Seconds()))
	add("last iteration", false, number(float64(x.outcome.Iteration)), number(float64(y.outcome.Iteration)))
	names := append(x.metrics.Names(), y.metrics.Names()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, of := range []struct {
			called string
			point  func(metric.Metric) *metric.Point
		}{{"last", func(m metric.Metric) *metric.Point { return m.Last }},
			{"best", func(m metric.Metric) *metric.Point { return m.Best }}} {
			value := func(s metric.Set) *float64 {
				if p := of.point(s[name]); p != nil {
					return &p.Value
				}
				return nil
			}
			add(name+", "+of.called, false, value(x.metrics), value(y.metrics))
		}
	}
	return out
}

// differ lists the names whose values are not the same.
func differ(kind string, a, b map[string]string) (out []Difference) {
	identity.Unlike(a, b, func(name string, x, y *string) {
		out = append(out, Difference{Kind: kind, Name: name, A: x, B: y})
	})
	return out
}
