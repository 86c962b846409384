package observe

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

// A timeline assigns the memory peaks that were observed to phases, using the lines that the program printed.
//
// Not every program prints that a phase begins, and those that do print it late or print its end early: a bar is drawn
// after the first step, and the last output is decoded after the last. So a peak between two lines belongs to the phases
// that may have run there: to the phase whose own lines surround it, else to the phase with the largest estimate.
type timeline struct {
	// pooled: the program keeps memory that it has freed, as torch's caching allocator does on a card. A phase then
	// reuses the memory of an earlier one.
	pooled bool
	// benchmark: the program sets cudnn.benchmark. See [mem.Trials].
	benchmark bool
	is        string // the quantity that is observed
	from      string // its source

	mu      sync.Mutex
	over    bool
	doubted bool   // part of the memory may belong to other processes
	phase   string // the running phase; "" before the first
	edge    string // the phase that a line has named since the last line of training
	outer   string // the phase that follows the end of phase
	since   stretch
	before  unit.Bytes // the largest peak before since
	alone   map[string]stretch
	among   []shared
	retries retries
	passed  map[string]bool
	steps   int
	last    int64
	// first is the training's until its first report of a step, with the trials of cudnn.benchmark.
	first stretch
	// cached is the most that the allocator held when the program printed so, by the phase that was running.
	cached map[string]unit.Bytes
	// The counters are torch's own, for a card: as the program prints them, and as a hook in the program reports them.
	printed, allocated, reserved *counter
}

// A stretch is the peak between two lines of the program.
type stretch struct {
	peak    unit.Bytes
	counted bool // the peak is from a counter; else it is the largest of several readings
	trials  bool // cuDNN's trials were in it
	most    bool // the peak is no larger than an earlier one, and so only an upper bound for this phase
}

// better joins two stretches of one phase: an upper bound yields to a measured peak.
func (s stretch) better(o stretch) stretch {
	switch {
	case s.peak == 0 || s.most && !o.most:
		return o
	case o.peak == 0 || o.most && !s.most || s.peak >= o.peak:
		return s
	}
	return o
}

// shared is a stretch during which any of several phases may have run.
type shared struct {
	phases []string
	stretch
}

// A counter is a running maximum over all phases so far. It is reported from time to time.
type counter struct {
	is, from string
	peak     unit.Bytes
	ran      map[string]bool // since the last report
	phases   map[string]mem.Measurement
	// once are the phases whose peak is that of their first report. later is what such a phase has reported since the
	// program reset its counter: the rest of the first report was of its first iterations.
	once  map[string]bool
	later map[string]unit.Bytes
}

// retries are the allocator's lines about requests that it tried again.
type retries struct {
	since oom.Retries // since the last line of the program
	alone map[string]oom.Retries
	among []sharedRetries
}

// sharedRetries are those of a time in which any of several phases may have run.
type sharedRetries struct {
	phases []string
	oom.Retries
}

// close assigns those since the last line to phases.
func (r *retries) close(phases []string) {
	since := r.since
	r.since = oom.Retries{}
	switch {
	case since.Count == 0:
	case len(phases) == 1:
		r.add(phases[0], since)
	default:
		r.among = append(r.among, sharedRetries{phases, since})
	}
}

func (r *retries) add(phase string, n oom.Retries) {
	if r.alone == nil {
		r.alone = map[string]oom.Retries{}
	}
	n.Join(r.alone[phase])
	r.alone[phase] = n
}

// retried adds a line of the allocator.
func (t *timeline) retried(r oom.Retry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.retries.since.Add(r)
	}
}

// retriesOf returns them by phase, "" where it is not known. Of several phases that may have run, the one with the
// largest estimate has them.
func (t *timeline) retriesOf(priced map[string]unit.Bytes) map[string]oom.Retries {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retries.close([]string{t.phase})
	for _, s := range t.retries.among {
		if known := slices.DeleteFunc(slices.Clone(s.phases), func(p string) bool { return p == "" }); len(known) > 0 {
			slices.Sort(known)
			t.retries.add(slices.MaxFunc(known, func(a, b string) int {
				return cmp.Or(cmp.Compare(priced[a], priced[b]), cmp.Compare(rank(a), rank(b)))
			}), s.Retries)
		}
	}
	t.retries.among = nil
	return t.retries.alone
}

func newCounter(is, from string) *counter {
	return &counter{is: is, from: from, ran: map[string]bool{}, phases: map[string]mem.Measurement{},
		once: map[string]bool{}, later: map[string]unit.Bytes{}}
}

// byHook names the hook as the source of a counter.
const byHook = "launch's hook in the program"

func newTimeline() *timeline {
	return &timeline{
		alone: map[string]stretch{}, passed: map[string]bool{}, last: -1, cached: map[string]unit.Bytes{},
		printed:   newCounter(mem.Allocated, "the program's own print"),
		allocated: newCounter(mem.Allocated, byHook), reserved: newCounter(mem.Reserved, byHook),
	}
}

func (t *timeline) counters() [3]*counter { return [...]*counter{t.printed, t.allocated, t.reserved} }

// see adds an observation: held bytes. counted: they are a counter's peak, not a single reading.
func (t *timeline) see(held unit.Bytes, counted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held > t.since.peak {
		t.since.peak, t.since.counted = held, counted
	}
}

// running is the phase that the program is in; "" before the first.
func (t *timeline) running() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// settled reports whether the job has been through all of its phases: it makes at least its third step, and no phase is
// running that it was not in before.
func (t *timeline) settled(phases []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range phases {
		if p != ladder.Training && !t.passed[p] {
			return false
		}
	}
	return t.steps >= 2 && len(phases) > 0 && (t.phase == ladder.Training || t.passed[t.phase])
}

// doubt notes whether part of the memory may belong to other processes.
func (t *timeline) doubt(doubted bool) {
	t.mu.Lock()
	t.doubted = t.doubted || doubted
	t.mu.Unlock()
}

// source returns the quantity that is observed, its source, and whether part of it may belong to other processes.
func (t *timeline) source() (is, from string, doubted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.is, t.from, t.doubted
}

// finish ends the timeline. Lines that are read from log files later have no time, and do not count.
func (t *timeline) finish() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
}

// event adds a sign that the program printed.
func (t *timeline) event(e oom.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	switch e.Kind {
	case job.Started:
		t.close()
		t.phase, t.outer, t.edge = ladder.Training, ladder.Training, ""
	case job.Progress:
		if t.phase != ladder.Training && t.phase != "" {
			t.passed[t.phase] = true
		}
		t.phase = ladder.Training // even if no line announced the phase
		t.close(t.edge)
		t.edge = ""
		if e.Iteration < 0 || e.Iteration != t.last {
			t.last = e.Iteration
			t.steps++
		}
		t.phase, t.outer = ladder.Training, ladder.Training
	case job.Phase:
		if e.Phase != t.phase {
			t.close(t.edge, e.Phase)
			t.outer, t.phase, t.edge = t.phase, e.Phase, e.Phase
		}
	case job.PhaseEnd:
		t.passed[e.Phase] = true
		if t.phase == e.Phase {
			t.close()
			t.phase = t.outer
		} else {
			t.close(t.edge, e.Phase)
		}
		t.edge = e.Phase
	case job.Memory:
		if t.pooled { // torch counts memory on a card only
			t.printed.report(e.Bytes, t.phase)
			t.cached[t.phase] = max(t.cached[t.phase], e.Reserved)
		}
	}
}

// close ends the stretch: its peak belongs to the running phase, or to one of also.
func (t *timeline) close(also ...string) {
	s := t.since
	t.since = stretch{}
	also = slices.DeleteFunc(also, func(p string) bool { return p == "" || p == t.phase })
	for _, p := range append(also, t.phase) {
		if p != "" {
			for _, n := range t.counters() {
				n.ran[p] = true
			}
		}
	}
	t.retries.close(append(slices.Clone(also), t.phase))
	s.most = t.pooled && s.peak <= t.before
	// the pool is emptied after the trials
	if t.pooled && t.benchmark && t.steps == 0 && t.phase == ladder.Training && len(also) == 0 {
		s.trials = true
		t.first = t.first.better(s)
		return
	}
	t.before = max(t.before, s.peak)
	if s.peak == 0 {
		return
	}
	if len(also) == 0 {
		t.alone[t.phase] = t.alone[t.phase].better(s)
		return
	}
	t.among = append(t.among, shared{append(also, t.phase), s})
}

// turns reports whether a sign may begin another phase. The hook's peak until then belongs to the phases before.
func (t *timeline) turns(e oom.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case job.Started, job.Phase, job.PhaseEnd:
		return true
	case job.Progress:
		return t.phase != ladder.Training
	}
	return false
}

// hooked adds the peaks that a hook in the program has reported. The hook reports growth only, so until its last report
// an unchanged peak proves nothing about the phases since.
func (t *timeline) hooked(allocated, reserved unit.Bytes, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last || allocated > t.allocated.peak || reserved > t.reserved.peak {
		t.allocated.report(allocated, t.phase)
		t.reserved.report(reserved, t.phase)
	}
}

// report adds a peak that was reported while phase was running. Growth belongs to a phase that ran since the last report
// and has no peak of its own yet.
func (n *counter) report(peak unit.Bytes, phase string) {
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
	n.again(peak)
	grown := peak > n.peak
	m := mem.Measurement{Is: n.is, Bytes: peak, From: n.from}
	switch {
	case len(n.ran) <= 1 && len(fresh) == 0 && grown: // the same phase, later
		for p := range n.ran {
			n.phases[p], n.once[p] = m, false
		}
	case len(fresh) == 1 && grown:
		n.phases[fresh[0]], n.once[fresh[0]] = m, true
	default:
		for _, p := range fresh {
			m.Bound = mem.AtMost
			n.phases[p] = m
		}
	}
	n.peak = max(n.peak, peak)
	n.ran = map[string]bool{}
}

// again notes a report of a phase that reported before: a lower peak is one since the program reset its counter.
func (n *counter) again(peak unit.Bytes) {
	if len(n.ran) != 1 {
		return
	}
	for p := range n.ran {
		switch m, ok := n.phases[p]; {
		case !ok || m.Bound == mem.AtMost || !n.once[p]:
		case peak < m.Bytes-m.Bytes/100:
			n.later[p] = max(n.later[p], peak)
		case n.later[p] > 0: // it comes back
			n.once[p] = false
		}
	}
}

// at is the measurement of a phase. held is what the allocator held when the program printed so; 0 where it did not.
// benchmark: the peak holds cuDNN's trials, unless the program has reset the counter since.
func (n *counter) at(p string, held unit.Bytes, benchmark bool) (m mem.Measurement, ok bool) {
	m, ok = n.phases[p]
	switch later := n.later[p]; {
	case n.once[p] && later > 0:
		m.Bytes, m.From = later, m.From+", after its first iterations"
	case benchmark, n.is == mem.Allocated && held > 0 && m.Bytes > held+printedWithin:
		m.Bound, m.With = mem.AtMost, mem.Trials
	}
	return m, ok
}

// printedWithin is how far two amounts of one line may be off: each is printed in GiB with two decimals.
const printedWithin = 16 * unit.MiB

// measured returns the measurements of each phase, and the phases that were completed. priced is the estimate of each
// phase of the job, 0 where unknown: a peak between two lines is the measurement of the phase with the largest estimate
// among those that may have run there, unless one of them alone reached as much. succeeded: the attempt did.
func (t *timeline) measured(priced map[string]unit.Bytes, succeeded bool) (by map[string][]mem.Measurement, passed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tail := t.since
	tail.most = t.pooled && tail.peak <= t.before
	peaks := map[string]stretch{}
	for p, s := range t.alone {
		peaks[p] = s
	}
	delete(peaks, "")
	if _, ok := peaks[ladder.Training]; !ok && t.first.peak > 0 && len(t.among) == 0 {
		peaks[ladder.Training] = t.first
	}
	if t.steps >= 2 || succeeded && t.steps >= 1 {
		t.passed[ladder.Training] = true
	}
	if _, ok := peaks[ladder.Training]; !ok && succeeded && len(t.among) == 0 && len(peaks) == 0 && (t.phase == ladder.Training || len(priced) == 1) {
		// No line was printed while it trained, and none of another phase.
		peaks[ladder.Training] = tail.better(t.alone[""])
		t.passed[ladder.Training] = true
	}
	t.shareOut(peaks, priced)
	return t.measurements(peaks), slices.Sorted(maps.Keys(t.passed))
}

// shareOut adds the stretches in which any of several phases may have run.
func (t *timeline) shareOut(peaks map[string]stretch, priced map[string]unit.Bytes) {
	for _, s := range t.among {
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
				got.most = got.most || o != p && (t.alone[o].peak >= s.peak || o == needs)
			}
			peaks[p] = peaks[p].better(got)
		}
	}
}

// measurements are the peaks of the phases, and what the counters reported of them.
func (t *timeline) measurements(peaks map[string]stretch) map[string][]mem.Measurement {
	out := map[string][]mem.Measurement{}
	for p, s := range peaks {
		if s.peak == 0 {
			continue
		}
		m := mem.Measurement{Is: t.is, Bytes: s.peak, From: t.from, Bound: mem.Sampled}
		if s.counted {
			m.Bound = mem.Exact
		}
		if s.most || t.doubted {
			m.Bound = mem.AtMost
		}
		if s.trials {
			m.Bound, m.With = mem.AtMost, mem.Trials
		}
		out[p] = append(out[p], m)
	}
	for p, ms := range t.counted() {
		out[p] = append(out[p], ms...)
	}
	for p := range out {
		slices.SortFunc(out[p], func(a, b mem.Measurement) int { return cmp.Compare(a.Is, b.Is) })
	}
	return out
}

// counted are the measurements of torch's own counters, by phase. The hook reads the same counter as the program, and
// at better moments; the program may know more of cuDNN's trials.
func (t *timeline) counted() map[string][]mem.Measurement {
	out := map[string][]mem.Measurement{}
	for _, n := range t.counters() {
		for p := range n.phases {
			if p != "" {
				out[p] = nil
			}
		}
	}
	for p := range out {
		held := t.cached[p]
		live, ok := t.allocated.at(p, held, t.benchmark)
		if said, also := t.printed.at(p, held, t.benchmark); also && (!ok || live.Bound == mem.AtMost &&
			said.Bound != mem.AtMost) {
			live, ok = said, true
		}
		if ok {
			out[p] = append(out[p], live)
		}
		pool, ok := t.reserved.at(p, 0, t.benchmark)
		if live.With != "" && held > 0 { // the trials are not in it
			pool, ok = mem.Measurement{Is: mem.Reserved, Bytes: held, Bound: mem.AtMost, From: t.printed.from}, true
		}
		if ok {
			out[p] = append(out[p], pool)
		}
	}
	return out
}

// rank sorts training after the others: its own lines are frequent.
func rank(phase string) int {
	if phase == ladder.Training {
		return 0
	}
	return 1
}

// peaks returns the largest peak, of all and by phase.
func (t *timeline) peaks() (peak unit.Bytes, by map[string]unit.Bytes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	by = map[string]unit.Bytes{}
	put := func(p string, b unit.Bytes) {
		peak = max(peak, b)
		if p != "" {
			by[p] = max(by[p], b)
		}
	}
	for p, s := range t.alone {
		put(p, s.peak)
	}
	for _, s := range t.among {
		put("", s.peak)
	}
	put(ladder.Training, t.first.peak)
	put(t.phase, t.since.peak)
	return peak, by
}
