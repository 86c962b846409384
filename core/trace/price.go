package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// recipes is the folder of the shelf in which copies of a recipe lie.
const recipes = "recipe"

// Price traces a job as asked and fills what its ladders do not know: the phases that were seen, and the rungs of the
// micro-batch, from a second trace at another one. The set is changed. notes is what the traces showed beside that; err
// is why there is none.
func (t Tracer) Price(ctx context.Context, j *job.Job, set *ladder.Set, c mem.Caching) (notes []string, err error) {
	type answer struct {
		Set   *ladder.Set `json:"set"`
		Notes []string    `json:"notes"`
	}
	a, took, err := ask(ctx, t, j, func(t Tracer) (answer, error) {
		notes, err := t.price(ctx, j, set, c)
		return answer{set, notes}, err
	}, "price", set, c)
	if err != nil {
		return a.Notes, err
	}
	*set = *a.Set
	if took == 0 {
		return append(a.Notes, "nothing was run for that: an earlier trace of the same is known"), nil
	}
	return append(a.Notes, fmt.Sprintf("the trace took %v", took.Round(100*time.Millisecond))), nil
}

// At traces a job with the edits of a rung, and returns the phases that were seen. took is how long that took.
func (t Tracer) At(ctx context.Context, j *job.Job, edits []config.Edit, c mem.Caching) (phases []Phase,
	took time.Duration, err error) {
	return ask(ctx, t, j, func(t Tracer) ([]Phase, error) {
		seen, err := t.edited(ctx, j, edits)
		if err != nil {
			return nil, err
		}
		if seen.End.Failed {
			return nil, seen.problem()
		}
		return seen.Phases(t.Card, c), nil
	}, "at", edits, c)
}

func (t Tracer) price(ctx context.Context, j *job.Job, set *ladder.Set, c mem.Caching) (notes []string, err error) {
	asked, err := t.edited(ctx, j, nil)
	if err != nil {
		return nil, err
	}
	if asked.End.Failed {
		return nil, asked.problem()
	}
	priced := asked.Phases(t.Card, c)
	for _, p := range priced {
		fill(set, p)
	}
	notes = append(notes, asked.told(priced))
	training := set.Ladder(ladder.Training)
	at := other(training, set.Shared.Asked)
	if at < 0 {
		return notes, nil
	}
	rung := training.Rungs[at]
	second, err := t.edited(ctx, j, rung.Edits)
	switch {
	case err != nil:
		return append(notes, fmt.Sprintf("%q was not traced: %v", rung.Name, err)), nil
	case second.End.Failed:
		return append(notes, fmt.Sprintf("%q was not traced: %v", rung.Name, second.problem())), nil
	}
	pair := pair{asked: asked, second: second, micro: j.Batch.Micro, other: rung.Values[job.MicroBatch]}
	if why, cost := pair.costs(); why != "" {
		for i := range training.Rungs {
			if r := &training.Rungs[i]; i != training.Asked && r.Values[job.MicroBatch] > 0 && r.Cost < cost {
				r.Cost, r.Why = cost, why
			}
		}
		notes = append(notes, "traced: "+why)
	}
	pair.price(training, set.Shared.Asked, priced, second.Phases(t.Card, c))
	return notes, nil
}

// edited traces the job with edits, once.
func (t Tracer) edited(ctx context.Context, j *job.Job, edits []config.Edit) (*Trace, error) {
	key, _ := json.Marshal(edits)
	seen, err := t.session.traces[string(key)], error(nil)
	if seen == nil {
		seen, err = t.run(ctx, j, edits)
	}
	if t.session.failed = t.session.failed || err != nil || seen.End.Failed; err == nil {
		t.session.traces[string(key)], t.session.used = seen, append(t.session.used, seen)
	}
	return seen, err
}

// run traces the job with edits.
func (t Tracer) run(ctx context.Context, j *job.Job, edits []config.Edit) (*Trace, error) {
	made, err := j.Rewrite(edits, shelf+"/"+recipes)
	if err != nil {
		return nil, err
	}
	files, served := map[string][]byte{}, []job.File{}
	for _, f := range made.Files {
		if f.Served() {
			served = append(served, f)
			continue
		}
		rel, err := filepath.Rel(shelf, f.Path)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("%s lies outside of the trace's folder", f.Path)
		}
		files[rel] = f.Text
	}
	p, err := made.Command.Prog()
	if err != nil {
		return nil, err
	}
	t.Env = p.Environ(made.Command.Env)
	if len(served) > 0 {
		dir, err := private.Temp("launch-trace-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		serves, err := t.Serve(dir, served, t.Env)
		if err != nil {
			return nil, err
		}
		t.Env = append(t.Env, serves...)
	}
	return t.Run(ctx, &p, files)
}

// stopped is why a trace ended, and where.
func (t *Trace) stopped() string {
	if t.End.Place != "" {
		return fmt.Sprintf("%s (%s)", t.End.Why, t.End.Place)
	}
	return t.End.Why
}

// problem is why a trace failed.
func (t *Trace) problem() error {
	why := t.stopped()
	if t.End.Place != "" {
		return errors.New(why)
	}
	last := lastLine(t.Output)
	if last != "" && strings.Contains(why, last) {
		return errors.New(why)
	}
	if t.End.Steps == 0 {
		why += " before it had trained"
	}
	if last != "" {
		why = fmt.Sprintf("%s; it printed %q", why, last)
	}
	if strings.Contains(t.End.Why, timeOver) {
		why += "; --trace-time 5m gives it longer"
	}
	return errors.New(why)
}

// told says in one line what was traced.
func (t *Trace) told(phases []Phase) string {
	var seen []string
	for _, p := range phases {
		if p.Batches == 0 { // no loader was seen
			seen = append(seen, p.Name)
			continue
		}
		seen = append(seen, fmt.Sprintf("%s (%d batches)", p.Name, p.Batches))
	}
	s := "s"
	if t.End.Steps == 1 {
		s = ""
	}
	text := fmt.Sprintf("traced with torch %s, without computing anything: %d optimizer step%s", t.End.Torch,
		t.End.Steps, s)
	if len(seen) > 0 {
		text += ": " + strings.Join(seen, ", ")
	} else {
		text += "; it made nothing on a card, so it trains on the CPU"
	}
	if s := toldSteps(t.second()); s != "" {
		text += "; " + s
	}
	if t.End.Steps < wanted && t.End.Whole {
		text += "; the script makes no more"
	} else if t.End.Steps < wanted {
		text += "; it stopped early: " + t.problem().Error()
	} else if t.End.Cut {
		text += "; it was cut short: " + t.stopped()
	}
	if len(seen) > 0 && !slices.ContainsFunc(phases, func(p Phase) bool { return p.Name == Validation }) {
		text += "; no validation was seen"
	}
	if t.guessed {
		text += "; with the kernels of capability 8.6, as that of the card is not known"
	}
	if t.End.Compiled {
		text += "; torch.compile was left out"
	}
	if len(t.End.Assumed) > 0 {
		text += "; what depends on values is as large as it can be (" + strings.Join(t.End.Assumed, ", ") + ")"
	}
	return text
}

// toldSteps says what a step is made of; of each optimizer where they differ.
func toldSteps(steps []Step) string {
	var out []string
	for _, s := range steps {
		if s.Samples < 1 || !s.Loaded {
			return ""
		}
		passes := "1 pass"
		if s.Passes != 1 {
			passes = fmt.Sprintf("%d passes", s.Passes)
		}
		out = append(out, fmt.Sprintf("%d samples a step in %s", s.Samples, passes))
	}
	if all := slices.Compact(slices.Clone(out)); len(all) < 2 {
		return strings.Join(all, "")
	}
	for i := range out {
		out[i] = fmt.Sprintf("optimizer %d: %s", steps[i].Optimizer, out[i])
	}
	return strings.Join(out, ", ")
}

// fill puts a phase's estimate where the set has none.
func fill(set *ladder.Set, p Phase) {
	l := set.Ladder(p.Name)
	if l == nil {
		estimates := make([]mem.Estimate, max(1, len(set.Shared.Rungs)))
		for i := range estimates {
			estimates[i].Unknown = "it was not traced so"
		}
		estimates[set.Shared.Asked] = p.Estimate
		set.Phases = append(set.Phases, ladder.Ladder{Phase: p.Name, Rungs: []ladder.Rung{ladder.AsAsked(estimates...)}})
		return
	}
	if e := &l.Rungs[l.Asked].Estimates[set.Shared.Asked]; !e.Known() {
		*e = p.Estimate
	}
}

// other is the rung that is traced beside the job as asked: the next smaller micro-batch without an estimate, or the
// next larger one; -1 for none.
func other(l *ladder.Ladder, shared int) int {
	if l == nil {
		return -1
	}
	unknown := func(i int) bool {
		r := l.Rungs[i]
		return i != l.Asked && r.Values[job.MicroBatch] > 0 && shared < len(r.Estimates) && !r.Estimates[shared].Known()
	}
	for i := l.Asked + 1; i < len(l.Rungs); i++ {
		if unknown(i) {
			return i
		}
	}
	for i := l.Asked - 1; i >= 0; i-- {
		if unknown(i) {
			return i
		}
	}
	return -1
}

// pair is two traces of one job at two micro-batches.
type pair struct {
	asked, second *Trace
	micro, other  int64
}

// costs is what another micro-batch was seen to change of the training, and what that costs.
func (p pair) costs() (why string, cost ladder.Cost) {
	a, b := samples(p.asked), samples(p.second)
	coupled := p.squares()
	switch {
	case a > 0 && b > 0 && a != b:
		return fmt.Sprintf("%d samples enter an optimizer step at micro-batch %d, and %d at %d", a, p.micro, b,
			p.other), ladder.Recipe
	case coupled > 0:
		return fmt.Sprintf("a tensor of %v grows with the square of the micro-batch: the loss compares its samples", coupled),
			ladder.Recipe
	case p.asked.marked("norm"):
		return "batch normalisation sees the micro-batch", ladder.Numerics
	}
	return "", ladder.None
}

// samples are those of a step of the first optimizer.
func samples(t *Trace) int {
	if s := t.second(); len(s) > 0 {
		return s[0].Samples
	}
	return 0
}

func (t *Trace) marked(name string) bool {
	return slices.ContainsFunc(t.Events, func(e Event) bool { return e.What == Marked && e.Mark.Name == name })
}

// squares is the size of the largest tensor of a forward pass that grows with the square of the micro-batch; 0 for
// none. It compares the requests of the two in order, where they are as many.
func (p pair) squares() (largest unit.Bytes) {
	a, b := p.asked.pass(), p.second.pass()
	if len(a) != len(b) || p.micro == p.other {
		return 0
	}
	for i := range a {
		if a[i]*unit.Bytes(p.other*p.other) == b[i]*unit.Bytes(p.micro*p.micro) && a[i] != b[i] {
			largest = max(largest, a[i])
		}
	}
	return largest
}

// pass are the requests from a forward pass with gradients to its backward pass: of the second step, at which pools and
// caches have settled.
func (t *Trace) pass() (asked []unit.Bytes) {
	steps, inside := 0, false
	for _, e := range t.Events {
		switch {
		case e.What == Marked && e.Mark.Name == "step":
			steps++
		case steps != 1:
		case e.What == Marked && e.Mark.Name == "forward" && e.Mark.Grad:
			inside = true
		case e.What == Marked && e.Mark.Name == "backward":
			if inside {
				return asked
			}
		case e.What == Allocated && inside:
			asked = append(asked, e.Bytes)
		}
	}
	return nil
}

// price prices the rungs of the micro-batch on the line through the two traces.
func (p pair) price(l *ladder.Ladder, shared int, asked, second []Phase) {
	of := func(phases []Phase) (e mem.Estimate, ok bool) {
		i := slices.IndexFunc(phases, func(p Phase) bool { return p.Name == Training })
		if i < 0 {
			return e, false
		}
		return phases[i].Estimate, true
	}
	a, ok := of(asked)
	b, also := of(second)
	if !ok || !also || !a.Known() || !b.Known() { // a line through what is not known is none
		return
	}
	for i := range l.Rungs {
		r := &l.Rungs[i]
		micro := r.Values[job.MicroBatch]
		if i == l.Asked || micro == 0 || shared >= len(r.Estimates) || r.Estimates[shared].Known() {
			continue
		}
		if micro == p.other {
			r.Estimates[shared] = b
			continue
		}
		r.Estimates[shared] = between(a, b, p.micro, p.other, micro)
	}
}

// between is the estimate at a micro-batch, on the lines through those at two others. Where a line falls with a larger
// micro-batch, the two are fullest at other moments, and no line leads through both: then it is in proportion to the
// nearer one (between them, to the larger one), and a guess.
func between(a, b mem.Estimate, at, other, micro int64) (e mem.Estimate) {
	if falls(a, b, at < other) {
		if (micro < min(at, other)) == (other < at) {
			return inProportion(b, other, micro)
		}
		return inProportion(a, at, micro)
	}
	line := func(x, y unit.Bytes) unit.Bytes {
		return max(0, x+(y-x)*unit.Bytes(micro-at)/unit.Bytes(other-at))
	}
	for _, it := range a.Items {
		now, there := it, lineOf(b, it)
		if now.Bytes = line(it.Bytes, there); there != it.Bytes {
			now.From = fmt.Sprintf("on the line through traces at micro-batch %d and %d", at, other)
		}
		e.Add(now)
	}
	for _, it := range b.Items {
		if !slices.ContainsFunc(a.Items, func(o mem.Item) bool { return o.Kind == it.Kind && o.What == it.What }) {
			it.Bytes = line(0, it.Bytes)
			e.Add(it)
		}
	}
	return e
}

// lineOf is the amount of the same line in another estimate; 0 if it has none.
func lineOf(e mem.Estimate, it mem.Item) unit.Bytes {
	for _, o := range e.Items {
		if o.Kind == it.Kind && o.What == it.What {
			return o.Bytes
		}
	}
	return 0
}

// falls reports whether what grows with the batch is less in the trace of the larger micro-batch, by more than what
// sizes are rounded to.
func falls(a, b mem.Estimate, larger bool) bool {
	little := max(a.Total(), b.Total()) / 20
	return slices.ContainsFunc(slices.Concat(a.Items, b.Items), func(it mem.Item) bool {
		x, y := lineOf(a, it), lineOf(b, it)
		return it.Kind.Grows() && max(x, y)-min(x, y) > little && x < y != larger
	})
}

// inProportion is an estimate at another micro-batch than it is of: what grows with the batch, in proportion.
func inProportion(e mem.Estimate, of, micro int64) (out mem.Estimate) {
	for _, it := range e.Items {
		if it.Kind.Grows() {
			it.Bytes, it.Guess = it.Bytes*unit.Bytes(micro)/unit.Bytes(of), true
			it.From = fmt.Sprintf("in proportion to the trace at micro-batch %d: at the other one, another moment needs most",
				of)
		}
		out.Add(it)
	}
	return out
}
