package top

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui"
)

// Sources are where a collector looks.
type Sources struct {
	Runs record.Store
	// Cards returns the last look at the cards. The error wraps drivers.ErrNoDriver where there is no driver.
	Cards func() ([]gpu.Device, error)
}

// A Collector makes snapshots. It keeps what it has read of each run, so that a look costs little however many runs
// are recorded. It is for one goroutine.
type Collector struct {
	from    Sources
	machine string
	runs    map[string]*entry
	waiting int
	claims  time.Time // when they were read
	stamp   time.Time // of the claims
}

// An entry is what is known of a recorded run.
type entry struct {
	seen    bool      // in the last list of runs
	sign    time.Time // when it was found asleep
	asleep  bool      // no launch carries it, and it is not shown
	changed string    // the state of the record that was read
	state   string    // by the record alone
	outline *record.History
	run     Run
}

const (
	// cutOffFor is how long a run that was cut off is shown.
	cutOffFor = 24 * time.Hour
	// claimsEvery is the time after which claims are read again even if nothing shows a change.
	claimsEvery = 10 * time.Second
)

// New returns a collector.
func New(from Sources) *Collector {
	return &Collector{from: from, machine: record.Here().Host, runs: map[string]*entry{}}
}

// Look makes a snapshot.
func (c *Collector) Look(now time.Time) Snapshot {
	s := Snapshot{Version: Version, Time: now, Machine: c.machine, Runs: []Run{}, Cards: []Card{}, Others: []Process{},
		Problems: []string{}}
	c.lookAtRuns(&s)
	devices, err := c.from.Cards()
	if err != nil {
		s.NoCards = err.Error()
	}
	assign(&s, devices, within)
	if h := room.Host(); h.Memory != nil {
		total, _ := room.HostTotal()
		s.Host = &Host{Total: total, Free: h.Memory.Free}
	}
	s.Waiting = c.waits(now)
	return s
}

// within finds the process of a run that a process belongs to.
func within(pid int, roots map[int]int) (run int, ok bool) {
	root, ok := proc.Within(pid, func(p int) bool { _, is := roots[p]; return is })
	return roots[root], ok
}

// waits returns how many launches wait for memory.
func (c *Collector) waits(now time.Time) int {
	if stamp := room.ClaimStamp(); stamp != c.stamp || now.Sub(c.claims) >= claimsEvery {
		c.stamp, c.claims, c.waiting = stamp, now, 0
		pids := map[int]bool{}
		for _, h := range room.Claims() {
			if h.Waiting {
				pids[h.PID] = true
			}
		}
		c.waiting = len(pids)
	}
	return c.waiting
}

// lookAtRuns adds the runs that a launch carries, and those that were cut off.
func (c *Collector) lookAtRuns(s *Snapshot) {
	names, err := c.from.Runs.Names()
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
		return
	}
	for _, e := range c.runs {
		e.seen = false
	}
	for _, id := range names {
		e := c.runs[id]
		if e == nil {
			e = &entry{run: Run{ID: id}}
			c.runs[id] = e
		}
		e.seen = true
		if err := c.lookAtRun(e, s); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Problems = append(s.Problems, err.Error())
		}
	}
	for id, e := range c.runs {
		if !e.seen {
			delete(c.runs, id)
		}
	}
}

// lookAtRun adds a run to the snapshot if it is to be shown.
func (c *Collector) lookAtRun(e *entry, s *Snapshot) error {
	id, now := e.run.ID, s.Time
	if e.asleep && c.from.Runs.Sign(id) == e.sign {
		return nil
	}
	if e.outline == nil || e.asleep { // of a run that was shown, a look at its lock says as much
		if e.sign, e.asleep = c.from.Runs.Asleep(id, now); e.asleep {
			return c.cutOff(e, s)
		}
	}
	if err := c.read(e); err != nil {
		return err
	}
	life := e.outline.Life()
	switch {
	case !life.Alive:
		e.sign, e.asleep = c.from.Runs.Sign(id), true
		return c.cutOff(e, s)
	case life.Host != "":
		s.Elsewhere++
		return nil
	}
	e.run.State, e.run.PID = Running, life.PID
	status, err := record.ReadStatus(e.outline.Dir)
	if e.run.Status = status; err != nil && !errors.Is(err, record.ErrNoStatus) {
		s.Problems = append(s.Problems, id+": "+err.Error())
	}
	e.add(s)
	return nil
}

// cutOff shows a run that no launch carries any more if it was cut off within the last day: its status is still there.
// Else the run is asleep.
func (c *Collector) cutOff(e *entry, s *Snapshot) error {
	dir := filepath.Join(c.from.Runs.Dir, e.run.ID)
	status, err := record.ReadStatus(dir)
	if err != nil || s.Time.Sub(status.Time) > cutOffFor {
		e.outline = nil
		return nil // it has ended, or its last status is damaged
	}
	if err := c.read(e); err != nil {
		return err
	}
	if e.asleep = e.state != CutOff; e.asleep { // such as a program that took the place of its launch
		e.outline = nil
		return nil
	}
	e.run.State, e.run.PID, e.run.Status = CutOff, 0, status
	e.add(s)
	return nil
}

// read reads the record of a run if it has changed.
func (c *Collector) read(e *entry) error {
	changed := c.from.Runs.Changed(e.run.ID)
	if e.outline != nil && changed == e.changed {
		return nil
	}
	h, err := c.from.Runs.Read(e.run.ID)
	if err != nil {
		return err
	}
	row := ui.RowOf(h, record.Life{})
	e.changed, e.outline, e.state = changed, h.Outline(), row.State
	e.run.Title, e.run.Plugin, e.run.Command, e.run.Began = row.Title(), row.Plugin, row.Command, row.Began
	return nil
}

// add adds a run to a snapshot.
func (e *entry) add(s *Snapshot) {
	r := e.run
	r.Expected, r.Left = 0, nil
	if r.Status != nil && r.State == Running {
		r.Expected = r.Status.Expected()
		if left, ok := r.Status.Progress.Left(s.Time); ok {
			seconds := left.Seconds()
			r.Left = &seconds
		}
	}
	s.Runs = append(s.Runs, r)
}

// assign sets which runs use which cards, and which processes are of no run. within finds the run of a process, by the
// processes that launch has started: pid to index of the run.
func assign(s *Snapshot, devices []gpu.Device, within func(pid int, roots map[int]int) (run int, ok bool)) {
	roots := map[int]int{}
	for i, r := range s.Runs {
		if r.State != Running {
			continue
		}
		roots[r.PID] = i
		if r.Status != nil && r.Status.PID > 0 {
			roots[r.Status.PID] = i
		}
	}
	for n, d := range devices {
		card := Card{Device: d, Busy: d.Busy}
		uses := func(run int) {
			r := &s.Runs[run]
			if !slices.Contains(r.Cards, n) {
				r.Cards = append(slices.Clip(r.Cards), n)
				card.Runs = append(card.Runs, r.ID)
			}
		}
		for i, r := range s.Runs {
			if r.State == Running && r.Status != nil && r.Status.Card != "" && r.Status.Card == d.UUID {
				uses(i)
			}
		}
		for _, p := range d.Processes {
			if run, ok := within(p.PID, roots); ok {
				uses(run)
				s.Runs[run].OnCards += max(0, p.Used)
				continue
			}
			s.Others = append(s.Others, Process{n, p})
			card.Others += max(0, p.Used)
		}
		s.Cards = append(s.Cards, card)
	}
}
