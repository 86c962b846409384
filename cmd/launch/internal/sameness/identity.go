// Package sameness compares what goes on, after another attempt, a resume or --continue, with what a run began as.
package sameness

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep/local"
)

const (
	dataTime = 2 * time.Second        // how long the listing of data may take
	readying = 100 * time.Millisecond // how long the program's start waits for an identity
	mostDiff = time.Minute            // how long git may take to find what differs from the commit
	diffTime = 10 * time.Second       // how long the end of a run waits for that
)

// Subject is what the identity of a command is taken of.
func Subject(state string, c job.Command, j *job.Job, seen room.Room) identity.Subject {
	return identity.Subject{Command: c, Job: j, Mask: record.MaskArgs, Masked: record.Masked, Devices: seen.Devices,
		Cache: filepath.Join(state, "cache"), Apart: []string{state}, Deadline: time.Now().Add(dataTime)}
}

// Identify starts to take the identity of a command.
func Identify(state string, c job.Command, j *job.Job, seen room.Room) *Taken {
	i := &Taken{ready: make(chan struct{}), of: Subject(state, c, j, seen)}
	go func() {
		defer close(i.ready)
		i.id = identity.Take(i.of, "")
	}()
	return i
}

// An Taken is an identity that is taken while launch prepares the program's start.
type Taken struct {
	ready chan struct{} // closed when it is taken
	id    *identity.Identity
	of    identity.Subject
}

// Already is an identity that was taken before; nil for a run whose record has none.
func Already(id *identity.Identity) *Taken {
	i := &Taken{ready: make(chan struct{}), id: id}
	close(i.ready)
	return i
}

// Get waits for the identity. It is nil if the run has none.
func (i *Taken) Get() *identity.Identity {
	<-i.ready
	return i.id
}

// Record writes the identity into a record: now, if it is taken soon, else later. settle waits until it is written.
func (i *Taken) Record(rec *record.Record) (settle func()) {
	if rec == nil {
		return func() {}
	}
	written, diffed := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(diffed)
		rec.Write(record.Event{Kind: record.Identified, Identity: i.Get()})
		close(written)
		if rec.Row == "" { // the sweep of a row has recorded the code
			KeepDiff(ctx, rec, i.of, i.id)
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

// KeepDiff keeps what differs from the commit in a run's code, beside the record: the commit alone is not what ran. The
// file is empty where nothing differs, and not there where that could not be learned.
func KeepDiff(ctx context.Context, rec *record.Record, of identity.Subject, id *identity.Identity) {
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
	if diff, err := local.DiffTree(ctx, home, files); err == nil && diff != nil {
		_ = private.WriteFile(path, diff, 0o600) // without it a later resume can list the files, and not their lines
	}
}
