package main

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// A course is what an attempt is seen to go through: its phases, by the program's words, and how much memory was held
// between two of them.
//
// Not every program says that a phase begins, and those that do say it late or say its end early: a bar is drawn after
// the first step, and what it made is still to be decoded after the last. So what was seen between two words belongs to
// the phases that may have run there: to the one between its own words, and else to the one that was to need the most.
type course struct {
	// pooled says that what was taken is kept, as torch's caching allocator does on a card: a phase then takes over what
	// an earlier one has filled.
	pooled bool
	is     string // the quantity that is looked at
	from   string // who looks

	mu      sync.Mutex
	over    bool
	doubted bool   // others may have had a share in what was seen
	phase   string // that is running; "" before the first
	edge    string // of which there was a word since the last of training
	outer   string // to which the end of phase returns
	since   stretch
	before  unit.Bytes // the most that was held before since
	alone   map[string]stretch
	among   []shared
	passed  map[string]bool
	steps   int
	last    int64
	// counters are torch's own of a card: as the program prints them, and as a hook within it reports them.
	printed, allocated, reserved *counter
}

// A stretch is the most that was held between two words of the program.
type stretch struct {
	peak    unit.Bytes
	counted bool // by a counter; else it was the largest of looks
	most    bool // no more than was held before: it says only that the phase needs no more
}

// better is what two stretches of one phase say together: what says no more than "at most" is worth less.
func (s stretch) better(o stretch) stretch {
	switch {
	case s.peak == 0 || s.most && !o.most:
		return o
	case o.peak == 0 || o.most && !s.most || s.peak >= o.peak:
		return s
	}
	return o
}

// shared is a stretch in which any of several phases may have run.
type shared struct {
	phases []string
	stretch
}

// A counter is a peak that somebody tells now and then, and that covers all phases so far.
type counter struct {
	is, from string
	peak     unit.Bytes
	ran      map[string]bool // since it was told last
	phases   map[string]mem.Measurement
}

func newCounter(is, from string) *counter {
	return &counter{is: is, from: from, ran: map[string]bool{}, phases: map[string]mem.Measurement{}}
}

// byHook is who told of a counter that nobody had to print.
const byHook = "launch's hook in the program"

func newCourse() *course {
	return &course{
		alone: map[string]stretch{}, passed: map[string]bool{}, last: -1,
		printed:   newCounter(mem.Allocated, "the program's own print"),
		allocated: newCounter(mem.Allocated, byHook), reserved: newCounter(mem.Reserved, byHook),
	}
}

func (c *course) counters() [3]*counter { return [...]*counter{c.printed, c.allocated, c.reserved} }

// see takes a look at what is held. counted says that it is a peak that was counted, not one that was met.
func (c *course) see(held unit.Bytes, counted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held > c.since.peak {
		c.since.peak, c.since.counted = held, counted
	}
}

// doubt says whether others may have a share in what is seen.
func (c *course) doubt(doubted bool) {
	c.mu.Lock()
	c.doubted = c.doubted || doubted
	c.mu.Unlock()
}

// finish ends the hearing: what is read of logs afterwards says nothing of when.
func (c *course) finish() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
}

// hear takes a sign of the program's.
func (c *course) hear(e oom.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	switch e.Kind {
	case job.Started:
		c.close()
		c.phase, c.outer, c.edge = ladder.Training, ladder.Training, ""
	case job.Progress:
		if c.phase != ladder.Training && c.phase != "" {
			c.passed[c.phase] = true
		}
		c.phase = ladder.Training // also where there was no word of its beginning
		c.close(c.edge)
		c.edge = ""
		if e.Iteration < 0 || e.Iteration != c.last {
			c.last = e.Iteration
			c.steps++
		}
		c.phase, c.outer = ladder.Training, ladder.Training
	case job.Phase:
		if e.Phase != c.phase {
			c.close(c.edge, e.Phase)
			c.outer, c.phase, c.edge = c.phase, e.Phase, e.Phase
		}
	case job.PhaseEnd:
		c.passed[e.Phase] = true
		if c.phase == e.Phase {
			c.close()
			c.phase = c.outer
		} else {
			c.close(c.edge, e.Phase)
		}
		c.edge = e.Phase
	case job.Memory:
		if c.pooled { // torch counts what it allocates on a card, and nothing on a CPU
			c.printed.tell(e.Bytes, c.phase)
		}
	}
}

// close ends the stretch: what was held belongs to the running phase, or to one of also.
func (c *course) close(also ...string) {
	s := c.since
	c.since = stretch{}
	also = slices.DeleteFunc(also, func(p string) bool { return p == "" || p == c.phase })
	for _, p := range append(also, c.phase) {
		if p != "" {
			for _, n := range c.counters() {
				n.ran[p] = true
			}
		}
	}
	s.most = c.pooled && s.peak <= c.before
	c.before = max(c.before, s.peak)
	if s.peak == 0 {
		return
	}
	if len(also) == 0 {
		c.alone[c.phase] = c.alone[c.phase].better(s)
		return
	}
	c.among = append(c.among, shared{append(also, c.phase), s})
}

// turns says whether a sign may begin another phase: what a hook has said until then belongs to those before.
func (c *course) turns(e oom.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case job.Started, job.Phase, job.PhaseEnd:
		return true
	case job.Progress:
		return c.phase != ladder.Training
	}
	return false
}

// told takes the peaks that a hook within the program has reported, for the last time or not: it does not speak where
// nothing has grown, so before the last time its silence says nothing of the phases since.
func (c *course) told(allocated, reserved unit.Bytes, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last || allocated > c.allocated.peak || reserved > c.reserved.peak {
		c.allocated.tell(allocated, c.phase)
		c.reserved.tell(reserved, c.phase)
	}
}

// tell takes a peak, told while phase was running. What it has grown by belongs to a phase that ran since it was told last
// and of which none was known.
func (n *counter) tell(peak unit.Bytes, phase string) {
	if peak == 0 {
		return
	}
	if phase != "" {
		n.ran[phase] = true
	}
	var fresh []string
	for p := range n.ran {
		if m, ok := n.phases[p]; !ok || m.Bound == mem.AtMost {
			fresh = append(fresh, p)
		}
	}
	grown := peak > n.peak
	m := mem.Measurement{Is: n.is, Bytes: peak, From: n.from}
	switch {
	case len(n.ran) <= 1 && len(fresh) == 0 && grown: // of the one phase, later
		for p := range n.ran {
			n.phases[p] = m
		}
	case len(fresh) == 1 && grown:
		n.phases[fresh[0]] = m
	default:
		for _, p := range fresh {
			m.Bound = mem.AtMost
			n.phases[p] = m
		}
	}
	n.peak = max(n.peak, peak)
	n.ran = map[string]bool{}
}

// measured is what was measured of each phase, and which phases were gone through completely. priced is what each phase of
// the job was expected to need, 0 where that is unknown: of phases that may have run between two words, what was held
// there is the measure of the one that was to need the most, where none is known to have held as much alone.
// succeeded says how the attempt ended.
func (c *course) measured(priced map[string]unit.Bytes, succeeded bool) (out map[string][]mem.Measurement, passed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.since
	tail.most = c.pooled && tail.peak <= c.before
	peaks := map[string]stretch{}
	for p, s := range c.alone {
		peaks[p] = s
	}
	delete(peaks, "")
	if c.steps >= 2 || succeeded && c.steps >= 1 {
		c.passed[ladder.Training] = true
	}
	if _, ok := peaks[ladder.Training]; !ok && succeeded && len(c.among) == 0 && len(peaks) == 0 && (c.phase == ladder.Training || len(priced) == 1) {
		// It said nothing while it trained, and nothing of another phase.
		peaks[ladder.Training] = tail.better(c.alone[""])
		c.passed[ladder.Training] = true
	}
	for _, s := range c.among {
		candidates := slices.DeleteFunc(slices.Clone(s.phases), func(p string) bool { return p == "" })
		if len(candidates) == 0 {
			continue
		}
		slices.Sort(candidates)
		needs := slices.MaxFunc(candidates, func(a, b string) int {
			return cmp.Or(cmp.Compare(priced[a], priced[b]), cmp.Compare(rank(a), rank(b)))
		})
		for _, p := range candidates {
			got := s.stretch
			for _, o := range candidates {
				got.most = got.most || o != p && (c.alone[o].peak >= s.peak || o == needs)
			}
			peaks[p] = peaks[p].better(got)
		}
	}
	out = map[string][]mem.Measurement{}
	for p, s := range peaks {
		if s.peak == 0 {
			continue
		}
		m := mem.Measurement{Is: c.is, Bytes: s.peak, From: c.from, Bound: mem.Sampled}
		if s.counted {
			m.Bound = mem.Exact
		}
		if s.most || c.doubted {
			m.Bound = mem.AtMost
		}
		out[p] = append(out[p], m)
	}
	for _, n := range c.counters() {
		for p, m := range n.phases {
			if told, ok := c.allocated.phases[p]; p == "" || n == c.printed && ok && (told.Bound != mem.AtMost || m.Bound == mem.AtMost) {
				continue // the same counter, read at a better moment
			}
			out[p] = append(out[p], m)
		}
	}
	for p := range out {
		slices.SortFunc(out[p], func(a, b mem.Measurement) int { return cmp.Compare(a.Is, b.Is) })
	}
	return out, slices.Sorted(maps.Keys(c.passed))
}

// rank puts training behind the others: it has its own words, and they stand close.
func rank(phase string) int {
	if phase == ladder.Training {
		return 0
	}
	return 1
}

// peaks is the most that was held, of all and by phase.
func (c *course) peaks() (peak unit.Bytes, by map[string]unit.Bytes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by = map[string]unit.Bytes{}
	put := func(p string, b unit.Bytes) {
		peak = max(peak, b)
		if p != "" {
			by[p] = max(by[p], b)
		}
	}
	for p, s := range c.alone {
		put(p, s.peak)
	}
	for _, s := range c.among {
		put("", s.peak)
	}
	put(c.phase, c.since.peak)
	return peak, by
}
