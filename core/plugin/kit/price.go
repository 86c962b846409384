package kit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// checkSet holds the ladders against what launch does with them.
func (t *trial) checkSet() {
	t.survived(survives(t.set), "the ladders")
	t.signs()
	t.falls()
	t.invariants()
	t.estimates()
	for _, phase := range t.Expects.Phases {
		t.held(valuesCheck)
		if t.set.Ladder(phase) == nil {
			t.found(valuesCheck, "phases", "a phase "+phase, "none of that name")
		}
	}
	if err := t.set.Check(); err != nil && !t.reported(fallsCheck, invariantsCheck, unitsCheck) {
		t.found(laddersCheck, "", "ladders that launch accepts", "%v", err)
	}
}

// reported reports whether one of these checks has found something in this case.
func (t *trial) reported(checks ...string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.report.Findings, func(f Finding) bool {
		return f.Case == t.Name &&
			slices.Contains(checks, f.Check)
	})
}

// falls compares each rung with the one above it.
func (t *trial) falls() {
	s := t.set.Shared.Asked
	for _, l := range t.set.Phases {
		for i := 1; i < len(l.Rungs); i++ {
			above, here := l.Rungs[i-1].At(s), l.Rungs[i].At(s)
			if !above.Known() || !here.Known() {
				continue
			}
			t.held(fallsCheck)
			if here.Total() > above.Total() || here.Total() == above.Total() && i > l.Asked {
				t.found(fallsCheck, l.Phase+", "+l.Rungs[i].Name,
					fmt.Sprintf("less than the %v of %q above it", above.Total(), l.Rungs[i-1].Name),
					"%v", here.Total())
			}
		}
	}
}

// invariants computes each invariant on each rung.
func (t *trial) invariants() {
	for _, l := range append([]ladder.Ladder{t.set.Shared}, t.set.Phases...) {
		for _, r := range l.Rungs {
			values := maps.Clone(t.set.Values)
			if values == nil {
				values = map[string]int64{}
			}
			maps.Copy(values, r.Values)
			for _, in := range t.set.Invariants {
				t.held(invariantsCheck)
				if in.Binds(r.Cost) && !in.Holds(values) {
					t.found(invariantsCheck, l.Phase+", "+r.Name, fmt.Sprintf("%s stays %s", in.Name, equation(in, values)), "%s",
						valuesOf(in, values))
				}
			}
		}
	}
}

// equation is what an invariant keeps.
func equation(in ladder.Invariant, values map[string]int64) string {
	if in.Divides != "" {
		return fmt.Sprintf("a divisor of %s, which is %d", in.Divides, values[in.Divides])
	}
	return strconv.FormatInt(in.Equals, 10)
}

// valuesOf are the factors of an invariant.
func valuesOf(in ladder.Invariant, values map[string]int64) string {
	var out []string
	for _, f := range in.Factors {
		out = append(out, fmt.Sprintf("%s %d", f, values[f]))
	}
	return strings.Join(out, " × ")
}

// estimates looks at every line of every estimate.
func (t *trial) estimates() {
	for _, l := range t.set.Phases {
		for i, r := range l.Rungs {
			where := l.Phase + ", " + r.Name
			t.sentence("rungs", r.Name)
			for _, e := range r.Edits {
				t.sentence("edits", e.Why)
			}
			for _, e := range r.Estimates {
				if i == l.Asked && e.Known() && len(e.Items) == 0 { // another rung may leave the phase out
					t.found(unitsCheck, where, "lines of memory, or the reason why the estimate is unknown",
						"neither: that would be 0 bytes")
				}
				t.estimate(where, e)
			}
		}
	}
}

// estimate looks at one estimate.
func (t *trial) estimate(where string, e mem.Estimate) {
	t.held(unitsCheck)
	t.sentence("estimates", e.Unknown)
	for _, it := range e.Items {
		t.line(where, it)
	}
	if !e.Known() || len(e.Items) == 0 {
		return
	}
	t.held(runtimeCheck)
	kind := mem.Context
	if t.Device.Kind == gpu.CPU {
		kind = mem.Runtime
	}
	if e.Of(kind) == 0 {
		t.found(runtimeCheck, where, fmt.Sprintf("a line %q", kind), "the kinds %s", kinds(e))
	}
}

// kinds are those of an estimate's lines.
func kinds(e mem.Estimate) string {
	var names []string
	for _, it := range e.Items {
		if !slices.Contains(names, string(it.Kind)) {
			names = append(names, string(it.Kind))
		}
	}
	return strings.Join(names, ", ")
}

// line looks at one line of an estimate.
func (t *trial) line(where string, it mem.Item) {
	t.held(sourcesCheck)
	what := fmt.Sprintf("%s: %s of %s", where, it.Kind, it.What)
	if it.From == "" {
		t.found(sourcesCheck, what, "a source", "none")
	}
	t.sentence("lines", it.What)
	t.sentence("lines", it.From)
	if err := it.Check(); err != nil {
		t.found(unitsCheck, what, "a line that launch accepts", "%v", err)
		return
	}
	if it.Bytes < 0 {
		t.found(unitsCheck, what, "no negative amount", "%d bytes", int64(it.Bytes))
	}
	if it.Count <= 0 || it.Kind != mem.Parameters && it.Kind != mem.Buffers {
		return
	}
	// From a bit for each element (a packed mask) to complex128.
	if each := float64(it.Bytes) / float64(it.Count); each < 0.12 || each > 16 {
		t.found(unitsCheck, what, "between 1/8 and 16 bytes for each element", "%d bytes for %d elements",
			int64(it.Bytes), it.Count)
	}
}

// How far, as a divisor, a rung's estimate may be from that of the job that it makes. Values between two recorded
// micro-batches are rounded once more. What a phase leaves behind for another, such as the last training batch on the
// card, follows a rung at which the other is not priced.
const (
	own    = 1000
	others = 20
)

// rungs holds every rung against the job that it makes: those of the shared ladder, those of each phase, and the last
// of both. A rung of one phase does not change the others.
func (t *trial) rungs() {
	hold := func(s int, at *ladder.Ladder, i int) {
		shared, rung := t.set.Shared.Rungs[s], ladder.Rung{}
		what := "shared, " + shared.Name
		if at != nil {
			rung = at.Rungs[i]
			what = at.Phase + ", " + rung.Name
			if s != t.set.Shared.Asked {
				what += "; shared, " + shared.Name
			}
		}
		typed, priced := t.made(slices.Concat(shared.Edits, rung.Edits), what)
		if priced == nil {
			return
		}
		t.keeps(what, max(shared.Cost, rung.Cost), typed, shared.Values, rung.Values)
		for _, l := range t.set.Phases {
			k, near := l.Asked, unit.Bytes(own)
			switch {
			case at == nil:
			case l.Phase == at.Phase:
				k = i
			default:
				near = others
			}
			t.compare(what+": "+l.Phase, l.Rungs[k].At(s), asked(priced, l.Phase), near)
		}
	}
	for s := range t.set.Shared.Rungs {
		hold(s, nil, 0)
	}
	for n := range t.set.Phases {
		l := &t.set.Phases[n]
		for i := range l.Rungs {
			if i != l.Asked {
				hold(t.set.Shared.Asked, l, i)
			}
		}
		if last := len(l.Rungs) - 1; last != l.Asked && len(t.set.Shared.Rungs) > 1 {
			hold(len(t.set.Shared.Rungs)-1, l, last)
		}
	}
}

// keeps holds the global batch of the job that a rung makes against the rung's values.
func (t *trial) keeps(what string, cost ladder.Cost, typed *job.Job, over ...map[string]int64) {
	values := maps.Clone(t.set.Values)
	for _, m := range over {
		if values == nil {
			values = map[string]int64{}
		}
		maps.Copy(values, m)
	}
	micro, ok := values[job.MicroBatch]
	accumulation, also := values[job.Accumulation]
	if !ok || !also || cost >= ladder.Recipe {
		return
	}
	t.held(invariantsCheck)
	if typed.Batch.Micro*typed.Batch.Accumulation != micro*accumulation {
		t.found(invariantsCheck, what, fmt.Sprintf("micro-batch %d × accumulation %d, as the rung's values are", micro,
			accumulation),
			"its edits make micro-batch %d × accumulation %d", typed.Batch.Micro, typed.Batch.Accumulation)
	}
}

// asked is the estimate of a phase of the job as asked; nil where it has no such phase.
func asked(set *ladder.Set, phase string) *mem.Estimate {
	l := set.Ladder(phase)
	if l == nil || l.Asked < 0 || l.Asked >= len(l.Rungs) {
		return nil
	}
	e := l.Rungs[l.Asked].At(set.Shared.Asked)
	return &e
}

// feeds holds the rungs of the ladder of host memory against the jobs that they make.
func (t *trial) feeds() {
	if t.set.Host == nil {
		return
	}
	for i, r := range t.set.Host.Rungs {
		what := "host memory, " + r.Name
		_, priced := t.made(r.Edits, what)
		if priced == nil {
			continue
		}
		if priced.Host == nil {
			t.found(pricedCheck, what, "a ladder of host memory", "the job that the rung makes has none")
			continue
		}
		for _, room := range []string{ladder.HostMemory, ladder.SharedMemory, ladder.Apart} {
			e := priced.Host.At(0, room, t.job.Batch.Micro)
			t.compare(what+", "+room, t.set.Host.At(i, room, t.job.Batch.Micro), &e, own)
		}
	}
}

// putBack undoes what [write] has written.
func (t *trial) putBack(undo func() error) {
	if err := undo(); err != nil {
		t.found(editsCheck, "the edited copies", "files that can be put back", "%v", err)
	}
}

// made is the job that edits make, as a command that was typed, and its ladders; nil where there is none.
func (t *trial) made(edits []config.Edit, what string) (*job.Job, *ladder.Set) {
	t.held(editsCheck)
	out, err := t.job.Rewrite(edits, t.attempt())
	if err != nil {
		t.found(editsCheck, what, "edits that can be made", "%v", err)
		return nil, nil
	}
	undo, err := write(out.Files)
	defer t.putBack(undo)
	if err != nil {
		t.found(editsCheck, what, "copies that can be written", "%v", err)
		return nil, nil
	}
	c := out.Command
	c.Sources, c.Formulas = nil, nil
	r, typed, err := t.recognize(&c)
	if err != nil {
		t.found(readBackCheck, what, "a job", "with the edits made: %v", err)
		return nil, nil
	}
	for _, e := range edits {
		t.held(readBackCheck)
		for _, k := range typed.Knobs {
			if k.Name == e.Knob && k.Dead == "" && k.At.Path == e.At.Path && k.Value != e.To {
				t.found(readBackCheck, what, fmt.Sprintf("%s %q, as the edit set it", e.Knob, e.To), "the plugin reads %q", k.Value)
			}
		}
	}
	set, err := t.price(r, t.Device)
	if err != nil {
		t.found(pricedCheck, what, "ladders", "with the edits made: %v", err)
		return nil, nil
	}
	return typed, set
}

// compare holds an estimate against that of the job as typed, nil where that has no such phase. near is the divisor
// of the difference that is allowed.
func (t *trial) compare(what string, rung mem.Estimate, typed *mem.Estimate, near unit.Bytes) {
	t.held(pricedCheck)
	switch {
	case typed == nil && rung.Total() > 0:
		t.found(pricedCheck, what, fmt.Sprintf("%v, as the rung has", rung.Total()),
			"the job that its edits make has no such phase")
	case typed == nil:
	case rung.Known() != typed.Known():
		t.found(pricedCheck, what, "the same estimate from the rung and from the job that its edits make",
			"%s as a rung, %s as typed", known(rung), known(*typed))
	default:
		a, b := rung.Total(), typed.Total()
		if off := max(a-b, b-a); off > max(a, b)/near {
			t.found(pricedCheck, what, fmt.Sprintf("%v, as the job that its edits make", b), "%v%s", a,
				differences(rung, *typed))
		}
	}
}

// known is an estimate in short.
func known(e mem.Estimate) string {
	if !e.Known() {
		return "unknown (" + e.Unknown + ")"
	}
	return e.Total().String()
}

// differences are the lines that two estimates do not share.
func differences(rung, typed mem.Estimate) string {
	sums := map[string][2]unit.Bytes{}
	for i, e := range []mem.Estimate{rung, typed} {
		for _, it := range e.Items {
			name := fmt.Sprintf("%s of %s", it.Kind, it.What)
			both := sums[name]
			both[i] += it.Bytes
			sums[name] = both
		}
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if both := sums[name]; both[0] != both[1] {
			fmt.Fprintf(&out, "\n\t%s: %v as a rung, %v as typed", name, both[0], both[1])
		}
	}
	return out.String()
}

// grows doubles the micro-batch, as a user would, and compares the estimates.
func (t *trial) grows() {
	i := slices.IndexFunc(t.job.Knobs, func(k job.Knob) bool { return k.Name == job.MicroBatch && k.Dead == "" })
	if i < 0 {
		return
	}
	k := t.job.Knobs[i]
	n, err := strconv.ParseInt(plain(k.Value), 10, 64)
	doc, derr := document(t.job, k.At.Doc)
	if err != nil || n < 1 || n > 1<<20 || derr != nil || doc == nil {
		return
	}
	e := config.Proposed(doc, k.At.Doc, k.At.Path, strconv.FormatInt(2*n, 10))
	e.Knob = k.Name
	out, err := t.job.Rewrite([]config.Edit{e}, t.attempt())
	if err != nil {
		t.found(editsCheck, k.Name+" doubled", "an edit that can be made", "%v", err)
		return
	}
	undo, err := write(out.Files)
	defer t.putBack(undo)
	if err != nil {
		return
	}
	c := out.Command
	c.Sources, c.Formulas = nil, nil
	r, typed, err := t.recognize(&c)
	if err != nil || typed.Batch.Micro <= t.job.Batch.Micro { // the program may not accept it
		return
	}
	set, err := t.price(r, t.Device)
	if err != nil {
		t.found(growsCheck, k.Name+" doubled", "ladders", "%v", err)
		return
	}
	for _, l := range t.set.Phases {
		before, now := asked(t.set, l.Phase), asked(set, l.Phase)
		if before == nil || now == nil || !before.Known() || !now.Known() {
			continue
		}
		t.held(growsCheck)
		where := fmt.Sprintf("%s, micro-batch %d instead of %d", l.Phase, typed.Batch.Micro, t.job.Batch.Micro)
		switch {
		case now.Total() < before.Total()-before.Total()/50: // the allocator's slack may fall
			t.found(growsCheck, where, fmt.Sprintf("at least %v", before.Total()), "%v", now.Total())
		case l.Phase == ladder.Training && now.Total() <= before.Total():
			t.found(growsCheck, where, fmt.Sprintf("more than %v", before.Total()), "%v", now.Total())
		}
	}
}
