package attempt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
)

// lines keeps what is printed.
type lines struct{ text []string }

func (l *lines) Warn(format string, args ...any) { l.Line(format, args...) }
func (l *lines) Line(format string, args ...any) {
	l.text = append(l.text, fmt.Sprintf(format, args...))
}
func (l *lines) Starting(*run.Plan, bool) {}

// late is a signal that arrives when it is sent.
type late struct{ sent atomic.Bool }

func (l *late) Forget() {}
func (l *late) Pending() error {
	if l.sent.Load() {
		return &Interrupted{syscall.SIGINT}
	}
	return nil
}

// What was foreseen is told and recorded, so that the run has the same ladders when it is taken up again.
func TestForeseeIsRecorded(t *testing.T) {
	store := record.In(t.TempDir())
	rec, err := store.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := &run.Run{Job: &job.Job{}, Ladders: &ladder.Set{}}
	if err := rec.Write(record.Event{Kind: record.Started, Run: r}); err != nil {
		t.Fatal(err)
	}
	said := &lines{}
	x := New(Setup{Record: rec, Report: said, Foresee: func(_ context.Context, r *run.Run, _ room.Room,
		tell func(string, ...any)) bool {
		tell("it was %s", "traced")
		r.Ladders = &ladder.Set{Values: map[string]int64{"micro-batch": 4}}
		return true
	}})
	if err := x.Foresee(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	rec.Close()
	h, err := store.Read(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Run().Ladders.Values["micro-batch"]; got != 4 || x.Priced != r.Ladders {
		t.Errorf("the record has micro-batch %d", got)
	}
	if strings.Join(said.text, ";") != "it was traced" {
		t.Errorf("it printed %q", said.text)
	}
}

// A signal ends what is going on, and the run with it; it is not lost.
func TestForeseeIsInterrupted(t *testing.T) {
	signal := &late{}
	x := New(Setup{Signals: signal, Report: &lines{}, Foresee: func(ctx context.Context, _ *run.Run, _ room.Room,
		_ func(string, ...any)) bool {
		signal.sent.Store(true)
		<-ctx.Done()
		return true
	}})
	var by *Interrupted
	if err := x.Foresee(t.Context(), &run.Run{}); !errors.As(err, &by) || by.Signal != syscall.SIGINT {
		t.Errorf("it ended with %v", err)
	}
}
