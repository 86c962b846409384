package simulate

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/unit"
)

// A Setup is what is simulated.
type Setup struct {
	Jobs     []Job
	Others   []Other
	Cards    []pack.Card
	Policy   pack.Policy
	Slowdown float64 // the true one, of two on a card
	Model    Model   // nil: Geometric
}

// A Report is what came of it.
type Report struct {
	Makespan time.Duration
	Ended    int
	Starts   int
	Stops    int           // trials that were asked to stop and put back
	Lost     time.Duration // work that was done twice
	OOMs     int           // of trials of the sweep
	Theirs   int           // of other people's processes on a card that a trial is on
	Away     int           // other people's processes that found no room
	Caused   int           // OOMs of both kinds that the trial alone on its card would not have come to
	Crowd    int           // the most trials on one card
	Latest   int           // the most later trials that were started before one
	Hash     uint64        // of all decisions
}

const (
	grace   = 30 * time.Second // from the request to stop until the memory is free
	killed  = time.Second      // the same after a kill
	restart = time.Minute      // what a trial takes to be where it was, after it was put back
	saved   = 0.10             // a state is saved after each tenth of a trial
	ramp    = 0.10             // a trial holds 60 % of its peak from the start, 85 % after half of this
	theirs  = 2 * time.Minute
)

// task is a trial that runs.
type task struct {
	pack.Running
	job    *Job
	card   int
	stage  int
	done   float64 // seconds of work
	ran    float64 // of these since this start
	goal   float64 // seconds of work in all
	extra  float64 // seconds until a restarted one works
	leaves float64 // when a stopping one is gone
	dead   bool
}

type guest struct {
	Other
	card  int
	stage int // 0 not there, 1 holds 70 %, 2 holds all, 3 gone
	next  float64
}

type sim struct {
	Setup
	now     float64 // seconds
	state   pack.State
	jobs    map[int]*Job
	tasks   []*task
	guests  []guest
	done    map[int]float64 // work that was saved of trials that were put back
	seen    map[int]bool    // whose peak was measured
	future  []Job           // not yet in the sweep, by time
	report  Report
	sharing []int
	hash    interface {
		Write([]byte) (int, error)
		Sum64() uint64
	}
}

// Simulate plays a sweep to its end.
func Simulate(s Setup) Report {
	if s.Model == nil {
		s.Model = Geometric
	}
	m := &sim{Setup: s, jobs: map[int]*Job{}, done: map[int]float64{}, seen: map[int]bool{}, hash: fnv.New64a()}
	m.state = pack.State{Policy: s.Policy, Cards: slices.Clone(s.Cards)}
	m.sharing = make([]int, len(s.Cards))
	m.future = slices.Clone(s.Jobs)
	slices.SortStableFunc(m.future, func(a, b Job) int { return int(a.At - b.At) })
	for i := range s.Jobs {
		m.jobs[s.Jobs[i].ID] = &s.Jobs[i]
	}
	for _, o := range s.Others {
		i := slices.IndexFunc(s.Cards, func(c pack.Card) bool { return c.ID == o.Card })
		m.guests = append(m.guests, guest{Other: o, card: i, next: o.At.Seconds()})
	}
	for m.join(); m.report.Ended < len(s.Jobs); {
		m.place()
		if !m.step() {
			break // nothing runs, nothing comes, and something still waits: the report shows it
		}
	}
	m.report.Makespan = time.Duration(m.now * float64(time.Second)).Round(time.Second)
	m.report.Hash = m.hash.Sum64()
	return m.report
}

// join adds the trials that have come.
func (m *sim) join() {
	for len(m.future) > 0 && m.future[0].At.Seconds() <= m.now {
		m.state.Waiting = append(m.state.Waiting, m.future[0].Trial)
		m.future = m.future[1:]
	}
}

// place asks for decisions and carries them out.
func (m *sim) place() {
	m.state.Running = m.state.Running[:0]
	for _, t := range m.tasks {
		r := t.Running
		r.Left = 0
		if r.Length > 0 { // what is left by the prediction, of which so much was seen to be done
			r.Left = max(time.Second, time.Duration(float64(r.Length)*(1-t.done/t.goal)))
		}
		m.state.Running = append(m.state.Running, r)
	}
	var started []pack.Decision
	for _, d := range pack.Place(m.state) {
		_, _ = fmt.Fprintf(m.hash, "%d %s %t;", d.Trial, d.Card, d.Stop)
		if !d.Stop {
			started = append(started, d)
			continue
		}
		t := m.tasks[slices.IndexFunc(m.tasks, func(t *task) bool { return t.ID == d.Trial })]
		t.Stopping, t.leaves = true, m.now+grace.Seconds()
		if d.Now {
			t.leaves = m.now + killed.Seconds()
		}
		m.report.Stops++
	}
	for _, d := range started {
		m.start(d)
	}
}

func (m *sim) start(d pack.Decision) {
	i := slices.IndexFunc(m.state.Waiting, func(t pack.Trial) bool { return t.ID == d.Trial })
	trial, job := m.state.Waiting[i], m.jobs[d.Trial]
	m.state.Waiting = slices.Delete(m.state.Waiting, i, i+1)
	if job.At > 0 {
		for w := range m.state.Waiting {
			if t := &m.state.Waiting[w]; m.jobs[t.ID].At < job.At {
				t.Passed++
				m.report.Latest = max(m.report.Latest, t.Passed)
			}
		}
	}
	m.report.Starts++
	card := slices.IndexFunc(m.Cards, func(c pack.Card) bool { return c.ID == d.Card })
	t := &task{Running: pack.Running{Trial: trial, Card: d.Card, Started: m.report.Starts}, job: job, card: card,
		goal: job.Time.Seconds(), done: m.done[d.Trial]}
	if trial.Stops > 0 || trial.AtLeast > 0 {
		t.extra = restart.Seconds()
	}
	m.tasks = append(m.tasks, t)
	m.grow(t, 0.60)
	m.crowd(card)
}

// crowd counts the trials of a card, and teaches the policy what its slowdown is.
func (m *sim) crowd(card int) {
	n := m.beside(card)
	m.report.Crowd = max(m.report.Crowd, n)
	if was := m.sharing[card]; was > 0 && n > 0 && was != n {
		m.state.Slowed.Add(was, n, m.Model(m.Slowdown, was)/m.Model(m.Slowdown, n))
	}
	m.sharing[card] = n
}

// beside is how many trials are on a card.
func (m *sim) beside(card int) (n int) {
	for _, t := range m.tasks {
		if t.card == card && !t.dead {
			n++
		}
	}
	return n
}

// used is what is held on a card.
func (m *sim) used(card int) (b unit.Bytes) {
	for _, t := range m.tasks {
		if t.card == card && !t.dead {
			b += t.Used
		}
	}
	return b + m.state.Cards[card].Others
}

// grow lets a trial hold a share of its peak. If the card is full, the trial dies of it.
func (m *sim) grow(t *task, share float64) {
	want := unit.Bytes(share * float64(t.job.Peak))
	if m.used(t.card)-t.Used+want > m.Cards[t.card].Total {
		m.report.OOMs++
		t.AtLeast = max(t.AtLeast, want)
		m.state.Peaks.Add(t.Need, want)
		if m.beside(t.card) > 1 {
			t.Failed = true
			if want+m.state.Cards[t.card].Others <= m.Cards[t.card].Total {
				m.report.Caused++
			}
		}
		m.back(t, true)
		return
	}
	t.Used = want
}

// back puts a trial back. It has lost the work since its last saved state.
func (m *sim) back(t *task, failed bool) {
	kept := 0.0
	if t.Saves {
		kept = math.Floor(t.done/t.goal/saved) * saved * t.goal
	}
	m.report.Lost += time.Duration((t.done - kept) * float64(time.Second))
	m.done[t.ID] = kept
	t.dead = true
	trial := t.Trial
	if !failed {
		trial.Stops++
	}
	m.state.Waiting = append(m.state.Waiting, trial)
}

// rest is the work until a task's next event: it works again, it grows, it ends.
func (t *task) rest() float64 {
	switch {
	case t.extra > 0:
		return t.extra
	case t.stage < 2:
		return min(t.goal-t.done, float64(t.stage+1)*ramp/2*t.goal-t.ran)
	}
	return t.goal - t.done
}

// speeds are those of each card.
func (m *sim) speeds() []float64 {
	n := make([]int, len(m.Cards))
	for _, t := range m.tasks {
		n[t.card]++
	}
	for _, g := range m.guests {
		if g.stage == 1 || g.stage == 2 {
			n[g.card]++
		}
	}
	out := make([]float64, len(n))
	for i, k := range n {
		out[i] = m.Model(m.Slowdown, max(1, k))
	}
	return out
}

// step goes on to the next event, and is false if there is none.
func (m *sim) step() bool {
	speed, at := m.speeds(), math.Inf(1)
	for _, t := range m.tasks {
		if e := m.now + t.rest()/speed[t.card]; e < at {
			at = e
		}
		if t.Stopping {
			at = min(at, t.leaves)
		}
	}
	for _, g := range m.guests {
		if g.stage < 3 && (g.stage > 0 || len(m.tasks)+len(m.state.Waiting)+len(m.future) > 0) {
			at = min(at, g.next)
		}
	}
	if len(m.future) > 0 {
		at = min(at, m.future[0].At.Seconds())
	}
	if math.IsInf(at, 1) {
		return false
	}
	d := at - m.now
	m.now = at
	for _, t := range m.tasks {
		work := d * speed[t.card]
		if t.extra > 0 {
			t.extra -= work
			continue
		}
		t.done, t.ran = t.done+work, t.ran+work
	}
	for _, t := range slices.Clone(m.tasks) {
		m.happen(t)
	}
	for i := range m.guests {
		m.visit(&m.guests[i])
	}
	m.join()
	cards := map[int]bool{}
	m.tasks = slices.DeleteFunc(m.tasks, func(t *task) bool {
		if t.dead {
			cards[t.card] = true
		}
		return t.dead
	})
	for c := range cards {
		m.crowd(c)
	}
	return true
}

const instant = 1e-6 // seconds: events that are so near are now

// happen lets a task end, grow or leave if it is time.
func (m *sim) happen(t *task) {
	switch {
	case t.dead:
	case t.extra > 0 && t.extra <= instant:
		t.extra = 0
	case t.extra <= 0 && t.goal-t.done <= instant:
		t.dead = true
		m.report.Ended++
	case t.Stopping && t.leaves-m.now <= instant:
		m.back(t, false)
	case t.extra <= 0 && t.stage < 2 && float64(t.stage+1)*ramp/2*t.goal-t.ran <= instant:
		t.stage++
		m.grow(t, []float64{0.60, 0.85, 1}[t.stage])
		if t.Ramped = t.stage == 2 && !t.dead; t.Ramped && !m.seen[t.ID] {
			m.seen[t.ID] = true
			m.state.Peaks.Add(t.Need, t.Used)
		}
	}
}

// visit lets somebody else's process come, grow or go if it is time.
func (m *sim) visit(g *guest) {
	if g.stage == 3 || g.next-m.now > instant {
		return
	}
	card := &m.state.Cards[g.card]
	first := unit.Bytes(0.7 * float64(g.Use))
	free := card.Total - m.used(g.card)
	switch g.stage {
	case 0:
		if free < g.Use {
			m.report.Away++
			g.stage = 3
			return
		}
		card.Others += first
		g.stage, g.next = 1, m.now+theirs.Seconds()
	case 1:
		if free < g.Use-first {
			if m.beside(g.card) > 0 { // else they are in each other's way
				m.report.Theirs++
			}
			if m.beside(g.card) > 1 {
				m.report.Caused++
			}
			card.Others -= first
			g.stage = 3
			return
		}
		card.Others += g.Use - first
		g.stage, g.next = 2, m.now+(g.Stays-theirs).Seconds()
	case 2:
		card.Others -= g.Use
		g.stage = 3
	}
}
