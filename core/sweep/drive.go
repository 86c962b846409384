package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/run"
)

// An Executor runs trials: on this machine, or through a batch system.
type Executor interface {
	// Start starts a trial, or takes up one that an earlier process has started. It does not wait for the end. An error
	// means that nothing was started.
	Start(Start) error
	// Ends delivers the end of each start, once.
	Ends() <-chan End
	// Stop asks a trial to save and stop; with now it ends the trial. The end is delivered as any other.
	Stop(trial int, now bool)
}

// A Start is one start of a trial.
type Start struct {
	Trial      int
	Number     int    // of this start, from 1
	Name       string // the trial's
	Invocation Invocation
	Resume     string // the run to resume; "": start from the beginning
	// Begun: an earlier process began this start, and was killed. If the trial still runs, it is waited for; if it has
	// a result, that is delivered; if neither, it is lost. It is never started here.
	Begun bool
	Since time.Time // of the start
	Card  *Card     // on which it runs; nil: it finds its own
}

// An End is the end of a start.
type End struct {
	Trial, Start int
	Result       Result
}

// An Admission decides which trials run together.
type Admission interface {
	// Admit returns the trials to start now, and the running ones to stop and put back.
	Admit(waiting, running []*Row) []Move
}

// A Keeper is an executor that keeps what its trials print.
type Keeper interface {
	// Printed returns what a trial has printed, or its beginning and its end.
	Printed(trial int) string
}

// A Move starts a trial, or has a running one stopped and put back.
type Move struct {
	Trial int
	Card  *Card // of a start: where; nil: the trial finds its own
	Stop  bool
	Now   bool   // of a stop: the trial gets no time to save
	Why   string // of a stop: for people
}

// A Saver is an executor that can ask a trial to save its state and to stop, so that it continues later.
type Saver interface {
	Save(trial int)
}

// Jobs is the admission that runs up to so many trials at the same time, in order.
type Jobs int

// Admit implements [Admission].
func (n Jobs) Admit(waiting, running []*Row) (moves []Move) {
	for i := range min(len(waiting), max(0, int(n)-len(running))) {
		moves = append(moves, Move{Trial: waiting[i].Number})
	}
	return moves
}

// A Remote is a searcher that needs time: another program answers for it.
type Remote interface {
	Searcher
	// Answered delivers when it is worth asking Next again.
	Answered() <-chan struct{}
	// Awaiting reports whether an answer is due; the error is why no more trials will come.
	Awaiting() (bool, error)
}

// A Journal keeps each event before it is acted on.
type Journal interface {
	Write(Event) error
}

// A Sweep is what [Sweep.Drive] needs to carry a sweep to its end.
type Sweep struct {
	History   *History
	Searcher  Searcher
	Template  Template
	Executor  Executor
	Admission Admission
	Journal   Journal
	// Stops asks for the sweep's end: the first time trials save and stop, the second time they end now.
	Stops <-chan string
	// Ticks have the admission asked again between two ends, also while nothing runs because there is no room; nil: it is
	// asked after each end alone.
	Ticks <-chan time.Time
	// Same returns why no trial may start any more, because what they run is not what the sweep began as; "" if it is.
	// The trials that run go on. nil: it is not asked.
	Same func() string
	// Unlike is set where Same has ended the sweep.
	Unlike bool
	// Changed is called after a row has changed; nil: nobody is told.
	Changed func(*Row)

	// Detach: return as soon as everything was started. It is for an executor whose trials need no waiting process.
	Detach bool

	stopping string // why no more trials are started
	asked    int    // how many times the end was asked for
	failed   error  // launch's own trouble
	mute     error  // why the searcher lists no more trials
}

// Detached is why a sweep with Detach stopped: its trials go on.
const Detached = "detached"

// Drive starts trials until none is left, and returns why it stopped: "" if every trial was tried. The error is a
// failure of launch itself; then the trials that still ran were asked to stop.
func (s *Sweep) Drive(ctx context.Context) (why string, err error) {
	for _, r := range s.History.Running() {
		s.start(r, true, r.Card)
	}
	for {
		if s.stopping == "" && s.failed == nil {
			s.list()
			if s.admit() && len(s.History.Running()) == 0 { // none of them could be started
				continue
			}
		}
		if len(s.History.Running()) == 0 && !s.awaits() && !s.waits() {
			break
		}
		if s.Detach && s.failed == nil && len(s.History.Waiting()) == 0 {
			return Detached, s.mute
		}
		select {
		case end := <-s.Executor.Ends():
			s.ended(end)
		case why := <-s.Stops:
			s.stop(why)
		case <-s.Ticks:
		case <-s.answered():
		case <-ctx.Done():
			s.stop(ctx.Err().Error())
			ctx = context.WithoutCancel(ctx)
		}
	}
	return s.stopping, cmp.Or(s.failed, s.mute)
}

// answered is the channel of a remote searcher's answers; nil of any other.
func (s *Sweep) answered() <-chan struct{} {
	if r, ok := s.Searcher.(Remote); ok {
		return r.Answered()
	}
	return nil
}

// awaits reports whether there is an answer to wait for.
func (s *Sweep) awaits() bool {
	r, ok := s.Searcher.(Remote)
	if !ok || s.stopping != "" || s.failed != nil || s.mute != nil || s.History.Done {
		return false
	}
	due, err := r.Awaiting()
	return due && err == nil
}

// waits reports whether trials wait for room that others hold.
func (s *Sweep) waits() bool {
	return s.Ticks != nil && s.stopping == "" && s.failed == nil && len(s.History.Waiting()) > 0
}

// note records an event and applies it.
func (s *Sweep) note(e Event) bool {
	e.Version, e.Time = Version, time.Now()
	if err := s.Journal.Write(e); err != nil { // what runs already runs on: its launch keeps its result
		s.failed = cmp.Or(s.failed, fmt.Errorf("recording the sweep: %w; no further trial is started. When the folder "+
			"has room again: launch sweep resume %s", err, s.History.Spec.Name))
		return false
	}
	s.apply(e)
	return true
}

func (s *Sweep) apply(e Event) {
	s.History.Apply(e)
	if row := s.History.Row(e.Trial); row != nil && s.Changed != nil {
		s.Changed(row)
	}
}

// fail ends the sweep for a reason of launch's own.
func (s *Sweep) fail(err error) {
	if s.failed == nil {
		s.failed = err
		for _, r := range s.History.Running() {
			s.Executor.Stop(r.Number, false)
		}
	}
}

// list asks the searcher for trials.
func (s *Sweep) list() {
	if s.History.Done || s.mute != nil {
		return
	}
	next, done := s.Searcher.Next(s.History)
	if r, ok := s.Searcher.(Remote); ok { // the trials that run are worth their results, whoever asked for them
		if _, s.mute = r.Awaiting(); s.mute != nil {
			return
		}
	}
	if len(next) > 0 || done {
		s.note(Event{Kind: Listed, Trials: next, Done: done})
	}
	if s.failed == nil && len(next) == 0 && !done && !s.awaits() && len(s.History.Running()) == 0 &&
		len(s.History.Waiting()) == 0 {
		s.fail(errors.New("the searcher lists no trial and waits for none"))
	}
}

// admit starts and stops what the admission decides, and reports whether it started anything.
func (s *Sweep) admit() (started bool) {
	running := s.History.Running()
	for _, m := range s.Admission.Admit(s.History.Waiting(), running) {
		r := s.History.Row(m.Trial)
		switch {
		case r == nil || s.failed != nil:
		case m.Stop && slices.Contains(running, r) && !r.putBack:
			if s.note(Event{Kind: PutBack, Trial: m.Trial, Why: m.Why}) {
				s.putBack(m)
			}
		case !m.Stop && r.State != Running:
			if s.changed() {
				return false
			}
			s.start(r, false, m.Card)
			started = true
		}
	}
	return started && s.failed == nil
}

// changed stops the sweep if what its trials run is not what it began as. Trials that run go on.
func (s *Sweep) changed() bool {
	if s.Same == nil {
		return false
	}
	why := s.Same()
	if s.Unlike = why != ""; s.Unlike && s.stopping == "" {
		s.stopping = why
	}
	return s.Unlike
}

// putBack stops a trial that runs again later.
func (s *Sweep) putBack(m Move) {
	if x, ok := s.Executor.(Saver); ok && !m.Now {
		x.Save(m.Trial)
		return
	}
	s.Executor.Stop(m.Trial, m.Now)
}

// start starts a row, or takes up its present start.
func (s *Sweep) start(r *Row, begun bool, card *Card) {
	inv, err := s.Template.Render(r.Trial)
	if err != nil {
		s.fail(err)
		return
	}
	if !begun && !s.note(Event{Kind: Started, Trial: r.Number, Start: r.Starts + 1, Resume: r.Run(), Card: card}) {
		return
	}
	err = s.Executor.Start(Start{Trial: r.Number, Number: r.Starts, Name: s.Template.Name(r.Number), Invocation: inv,
		Resume: r.Resume, Begun: begun, Since: r.Begun, Card: card})
	if err != nil {
		s.ended(End{r.Number, r.Starts, Result{Ending: NotRun, Code: run.OwnTrouble, Why: err.Error()}})
	}
}

// prove notes which values of a row its training is not known to have got.
func (s *Sweep) prove(trial int, r *Result) {
	inv, err := s.Template.Render(s.History.Row(trial).Trial)
	if err != nil || s.History.Spec.ID == "" { // without marks no launch knows that it is to look
		return
	}
	output, read := "", false
	inv.Prove(r, func(key, value string) bool {
		if k, ok := s.Executor.(Keeper); ok && !read {
			output, read = k.Printed(trial), true
		}
		return Printed(output, key, value)
	})
}

// ended records the end of a start.
func (s *Sweep) ended(end End) {
	if r := s.History.Row(end.Trial); r == nil || r.State != Running || r.Starts != end.Start {
		return
	}
	if end.Result.Ending == Lost && s.asked > 1 { // it was killed because the user asked for that
		end.Result.Ending = run.Interrupted
	}
	s.prove(end.Trial, &end.Result)
	e := Event{Kind: Ended, Trial: end.Trial, Start: end.Start, Result: &end.Result}
	if !s.note(e) { // the row's result is still in the trial's folder; here the loop must see the end
		e.Version, e.Time = Version, time.Now()
		s.apply(e)
	}
}

// stop asks the running trials to stop.
func (s *Sweep) stop(why string) {
	if s.asked++; s.stopping == "" {
		s.stopping = why
	}
	for _, r := range s.History.Running() {
		s.Executor.Stop(r.Number, s.asked > 1)
	}
}
