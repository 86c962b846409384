package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/tree"
	"github.com/launch-ml/launch/core/ui"
)

// acceptFlag is the name of the flag that addAccept declares.
const acceptFlag = "accept"

// addAccept declares --accept. It is no setting of launch: in a variable or a file it would mix experiments unseen.
func addAccept(f *pflag.FlagSet) {
	f.Bool(acceptFlag, false, "go on although code, data, environment or the like have changed since the run began; the "+
		"run is then marked as mixed")
}

const (
	dataTime = 2 * time.Second        // how long the listing of data may take
	readying = 100 * time.Millisecond // how long the program's start waits for an identity
	mostDiff = time.Minute            // how long git may take to find what differs from the commit
	diffTime = 10 * time.Second       // how long the end of a run waits for that
)

// subject is what the identity of a command is taken of.
func (s settings) subject(c job.Command, j *job.Job, seen room.Room) identity.Subject {
	return identity.Subject{Command: c, Job: j, Mask: record.MaskArgs, Masked: record.Masked, Devices: seen.Devices,
		Cache: filepath.Join(s.State, "cache"), Apart: []string{s.State}, Deadline: time.Now().Add(dataTime)}
}

// identify starts to take the identity of a command.
func (s settings) identify(c job.Command, j *job.Job, seen room.Room) *identified {
	i := &identified{ready: make(chan struct{}), of: s.subject(c, j, seen)}
	go func() {
		defer close(i.ready)
		i.id = identity.Take(i.of, "")
	}()
	return i
}

// An identified is an identity that is taken while launch prepares the program's start.
type identified struct {
	ready chan struct{} // closed when it is taken
	id    *identity.Identity
	of    identity.Subject
}

// already is an identity that was taken before; nil for a run whose record has none.
func already(id *identity.Identity) *identified {
	i := &identified{ready: make(chan struct{}), id: id}
	close(i.ready)
	return i
}

// get waits for the identity. It is nil if the run has none.
func (i *identified) get() *identity.Identity {
	<-i.ready
	return i.id
}

// record writes the identity into a record: now, if it is taken soon, else later. settle waits until it is written.
func (i *identified) record(rec *record.Record) (settle func()) {
	if rec == nil {
		return func() {}
	}
	written, diffed := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(diffed)
		rec.Write(record.Event{Kind: record.Identified, Identity: i.get()})
		close(written)
		if rec.Row == "" { // the sweep of a row has recorded the code
			keepDiff(ctx, rec, i.of, i.id)
		}
	}()
	select {
	case <-written:
	case <-time.After(readying):
	}
	return func() {
		<-written
		late := time.AfterFunc(diffTime, cancel)
		<-diffed
		late.Stop()
		cancel()
	}
}

// keepDiff keeps what differs from the commit in a run's code, beside the record: the commit alone is not what ran. The
// file is empty where nothing differs, and not there where that could not be learned.
func keepDiff(ctx context.Context, rec *record.Record, of identity.Subject, id *identity.Identity) {
	ctx, cancel := context.WithTimeout(ctx, mostDiff)
	defer cancel()
	if rec == nil || id == nil || id.Commit == "" {
		return
	}
	home, files := id.Paths(of)
	path := rec.CodeDiff(id.OfCode())
	if _, err := os.Stat(path); err == nil || home == "" { // it is kept, or the identity was read from a record
		return
	}
	if diff, err := tree.Diff(ctx, home, files); err == nil && diff != nil {
		_ = private.WriteFile(path, diff, 0o600) // without it a later resume can list the files, and not their lines
	}
}

// A keeper is the journal of a run that goes on only as what it began.
type keeper struct {
	run.Journal
	began  *identified // what the run is
	again  func() identity.Subject
	rec    *record.Record // may be nil
	run    *run.Run
	say    ui.Printer
	accept bool
	ended  bool // an attempt of this launch has ended
	input  stdin
	pipes  []pipe // that arguments name
	past   identity.Past
}

// Planned implements [run.Journal]. Before an attempt after the first it compares what is there now with what the run
// began as.
func (k *keeper) Planned(p *run.Plan) error {
	if !k.ended && p.Trial == "" {
		k.input.begin(os.Stdin)
		k.pipes = pipesOf(k.again().Command)
	}
	if was := k.began; k.ended && p.Trial == "" && was.get() != nil {
		now := identity.Take(k.again(), was.get().Salt)
		what := append(identity.Compare(was.get(), now, k.past), k.input.again()...)
		for _, p := range k.pipes {
			what = append(what, p.again()...)
		}
		switch {
		case len(what) == 0:
		case !k.accept:
			return &run.Halt{Stop: &run.Stop{Code: run.OwnTrouble, Why: changedSince(id(k.rec), what),
				Unlike: mixOf(nil, what).What}}
		default:
			k.mark(mixOf(p.Resume, what), now)
		}
	}
	return k.Journal.Planned(p)
}

// mark notes that the run is no longer what it began as. now is what it is from here on; nil: what it was.
func (k *keeper) mark(m run.Mix, now *identity.Identity) {
	if k.run.Mixed = append(k.run.Mixed, m); now != nil {
		k.began = already(now)
		keepDiff(context.Background(), k.rec, k.again(), now)
	}
	if k.rec != nil {
		k.rec.Write(record.Event{Kind: record.Mixed, Identity: now, Mix: &m})
	}
	k.say.Warn("%v", m)
}

// Ended implements [run.Journal]. It lists the data once more: what the attempt itself has written is no change.
func (k *keeper) Ended(a *run.Attempt) error {
	if a.Plan.Trial == "" {
		k.ended = true
		if was := k.began.get(); was != nil && a.Outcome.Ending != run.Succeeded {
			k.past = identity.Past{Left: was.Again(k.again())}
			if k.rec != nil {
				k.rec.Write(record.Event{Kind: record.Listed, Data: k.past.Left})
			}
		}
	}
	return k.Journal.Ended(a)
}

func mixOf(from *run.State, what []identity.Difference) (m run.Mix) {
	if from != nil {
		m.From, m.State = from.Steps(), filepath.Base(from.Path)
	}
	for _, d := range what {
		m.What = append(m.What, d.String())
	}
	return m
}

// mostChanges bounds how many changes one sentence names.
const mostChanges = 5

// sinceBegun names in one sentence what differs from the beginning of a run.
func sinceBegun(what []identity.Difference) string {
	var words []string
	for _, d := range what[:min(len(what), mostChanges)] {
		words = append(words, d.String())
	}
	if n := len(what) - mostChanges; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(words, ", ")
}

// changedSince is why a run does not go on.
func changedSince(run string, what []identity.Difference) string {
	return fmt.Sprintf("run %s is no longer what it began as: %s. To go on all the same, and to mark the run as mixed: "+
		"launch resume %s --%s", run, sinceBegun(what), run, acceptFlag)
}

// An unlikeError is why launch does not go on with a run.
type unlikeError struct {
	run  string
	what []string
	text string
}

func (e *unlikeError) Error() string { return e.text }

// same compares a recorded run with what is there now. A difference is an error or, with --accept, a mix; a run that
// starts over mixes nothing. now is the identity that counts from here on.
func (s settings) same(h *record.History, r *run.Run, seen room.Room, over restart, say ui.Printer) (
	now *identity.Identity, mix *run.Mix, err error,
) {
	was := h.Identity()
	if was == nil { // recorded before launch kept it
		return nil, nil, nil
	}
	now = identity.Take(s.subject(r.Job.Command, r.Job, seen), was.Salt)
	what := identity.Compare(was, now, h.Past())
	if unknown := identity.Unread(was, now); len(unknown) > 0 && over != always && !say.Quiet {
		say.Line("run %s: launch could not compare %s with what it began as", h.ID, strings.Join(unknown, ", "))
	}
	if len(what) == 0 {
		return was, nil, nil
	}
	for _, d := range what {
		say.Warn("since run %s began: %-11s  %v", h.ID, d.Kind, d)
	}
	if over == always {
		return now, nil, nil
	}
	if !s.Accept {
		return nil, nil, &ownExit{&unlikeError{h.ID, mixOf(nil, what).What, changedSince(h.ID, what)}, run.OwnTrouble}
	}
	m := mixOf(r.Saved(), what)
	return now, &m, nil
}

// withForeign adds to a mix that others have written saved states in the run's folder.
func withForeign(mix *run.Mix, from *run.State, foreign []string) *run.Mix {
	if len(foreign) == 0 {
		return mix
	}
	if mix == nil {
		m := mixOf(from, nil)
		mix = &m
	}
	mix.What = append(mix.What, "others have written saved states in its folder: "+run.Few(foreign))
	return mix
}

// A candidate is a recorded run of the command that --continue was given with.
type candidate struct {
	history *record.History
	what    []identity.Difference // what differs from what is there now
}

// changed reports whether the run is not what the command would be now.
func (c *candidate) changed(p *intake.Reading) bool {
	if c.history.Identity() == nil { // recorded before launch kept it
		return !sameRecipe(c.history.Run().Job, record.MaskRun(p.Run).Job)
	}
	return len(c.what) > 0
}

// lastOf returns the last run that is the same as a command, else the last run of that command; nil if there is none.
func (s settings) lastOf(p *intake.Reading) (*candidate, error) {
	all, err := s.candidates(record.MaskRun(p.Run).Job, p.Command, p.Job, p.Room)
	if len(all) == 0 || err != nil {
		return nil, err
	}
	if c := &all[len(all)-1]; len(c.what) == 0 {
		return c, nil
	}
	return &all[0], nil
}

// candidates lists the recorded runs of a job's command, the newest first, up to one that is the same in everything.
func (s settings) candidates(now *job.Job, c job.Command, asked *job.Job, seen room.Room) (all []candidate, err error) {
	store := record.In(s.State)
	ids, err := store.List()
	if err != nil {
		return nil, err
	}
	of := s.subject(c, asked, seen)
	var mine *identity.Identity
	for i, id := range slices.Backward(ids) {
		if len(ids)-i > mostLooked {
			break
		}
		h, err := store.Read(id)
		if err != nil || h.Run() == nil || !sameCommand(h.Run().Job, now) {
			continue
		}
		was := h.Identity()
		if was == nil { // recorded before launch kept it
			return append(all, candidate{history: h}), nil
		}
		if mine == nil {
			mine = identity.Take(of, was.Salt)
		}
		found := candidate{h, identity.Compare(was, mine.Salted(of, was.Salt), h.Past())}
		if !reflect.DeepEqual(h.Run().Job.Asked, now.Asked) {
			continue
		}
		if all = append(all, found); len(found.what) == 0 {
			break
		}
	}
	return all, nil
}

// ofSweep is the identity of a sweep: of its command without the values of its rows. It is nil where each row has a
// command of its own.
func (s settings) ofSweep(spec *sweep.Spec, command []string) *identity.Identity {
	if len(command) == 0 {
		return nil
	}
	salt := ""
	if spec.Identity != nil {
		salt = spec.Identity.Salt
	}
	return identity.Take(s.subject(s.commandOf(spec, command), nil, room.Room{}), salt)
}

func (s settings) commandOf(spec *sweep.Spec, command []string) job.Command {
	return job.Command{Args: command, Dir: cmp.Or(spec.Snapshot, spec.Dir), Env: os.Environ()}
}

// unlike lists what differs from what a sweep began as. at is until when its rows have written files. Without data it
// compares what a row cannot have changed.
func (s settings) unlike(h *sweep.History, command []string, data bool) (
	now *identity.Identity, what []identity.Difference,
) {
	was := h.Spec.Identity
	if was == nil || len(command) == 0 {
		return nil, nil
	}
	now = s.ofSweep(&h.Spec, command)
	past := identity.Past{Until: h.At}
	for _, r := range h.Rows {
		for _, at := range []time.Time{r.Begun, r.Over} {
			if at.After(past.Until) {
				past.Until = at
			}
		}
		if r.State == sweep.Running { // it may have gone on until now, where another process or a batch system runs it
			past.Until = time.Now()
		}
	}
	what = identity.Compare(was, now, past)
	return now, slices.DeleteFunc(what, func(d identity.Difference) bool {
		return d.Kind == identity.Arguments || d.Kind == identity.Ranks || d.Kind == identity.Data && !data
	})
}

// sameCode is why a sweep starts no further row; "" if it does.
func (s settings) sameCode(h *sweep.History, command []string) string {
	now, what := s.unlike(h, command, false)
	if len(what) == 0 || now == nil || s.Accept {
		return ""
	}
	return fmt.Sprintf("since it began %s, and further rows would not compare with those before. `launch sweep resume %s "+
		"--%s` runs them all the same and marks them; --snapshot keeps a copy of the code", sinceBegun(what), h.Spec.Name,
		acceptFlag)
}

// sameSweep compares a sweep that goes on with what is there now. With --accept, e gets what differs.
func (s settings) sameSweep(h *sweep.History, command []string, e *sweep.Event) error {
	now, what := s.unlike(h, command, true)
	if len(what) == 0 {
		return nil
	}
	say := reporter(s)
	for _, d := range what {
		say.Warn("since sweep %s began: %-11s  %v", h.Spec.Name, d.Kind, d)
	}
	if !s.Accept {
		return &ownExit{fmt.Errorf("sweep %s does not go on: since it began %s. `launch sweep resume %s --%s` goes on all "+
			"the same, and marks the rows that run from now on", h.Spec.Name, sinceBegun(what), h.Spec.Name, acceptFlag),
			run.OwnTrouble}
	}
	e.Identity, e.Mixed = now, mixOf(nil, what).What
	return nil
}
