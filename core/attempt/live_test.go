package attempt

import (
	"errors"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// reported is one line of progress, so many seconds after noon.
type reported struct {
	stream           string
	iteration, total int64
	second           float64
	text             string
}

func stepsOf(lines ...reported) *steps {
	s := &steps{}
	for _, l := range lines {
		e := oom.Event{Kind: job.Progress, Iteration: l.iteration, Total: l.total}
		e.Line.Stream, e.Line.Text = l.stream, l.text
		s.see(e, noon.Add(time.Duration(l.second*float64(time.Second))))
	}
	return s
}

func TestSteps(t *testing.T) {
	out, log := oom.Terminal, oom.Stderr
	for _, tt := range []struct {
		name  string
		lines []reported
		want  *record.Progress // At is not compared
	}{
		{"none", nil, nil},
		{"no count", []reported{{out, -1, 0, 1, ""}}, nil},
		{"one", []reported{{out, 7, 100, 1, ""}}, &record.Progress{Iteration: 7, Total: 100}},
		{"two a second apart", []reported{{out, 10, 100, 1, ""}, {out, 30, 100, 2, ""}},
			&record.Progress{Iteration: 30, Total: 100, Step: 50 * time.Millisecond, Rate: 20}},
		{"the first iteration is slow", []reported{{out, 0, 0, 0, ""}, {out, 1, 0, 60, ""}, {out, 3, 0, 62, ""}},
			&record.Progress{Iteration: 3, Step: time.Second, Rate: 1}},
		{"faster than before: the rate is the present one, a step's time the mean",
			[]reported{{out, 1, 0, 0, ""}, {out, 2, 0, 100, ""}, {out, 12, 0, 110, ""}},
			&record.Progress{Iteration: 12, Step: 10 * time.Second, Rate: 1}},
		{"each epoch counts again", []reported{{out, 10, 50, 0, ""}, {out, 50, 50, 40, ""}, {out, 5, 50, 60, ""},
			{out, 10, 50, 65, ""}}, &record.Progress{Iteration: 10, Total: 50, Epoch: true, Step: time.Second, Rate: 1}},
		{"the total may be an epoch's", []reported{{out, 10, 50, 0, "Epoch: [0][10/50]"}},
			&record.Progress{Iteration: 10, Total: 50, Epoch: true}},
		{"a bar of the epoch, and a log", []reported{{log, 90, 100, 0, ""}, {log, 5, 100, 10, ""},
			{out, 105, 1000, 5, ""}}, &record.Progress{Iteration: 105, Total: 1000}},
	} {
		got := stepsOf(tt.lines...).progress()
		if got != nil {
			got.At = time.Time{}
		}
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// However long the training, and however often it reports, little is kept.
func TestStepsBounded(t *testing.T) {
	s := &steps{}
	for i := range int64(100_000) {
		s.see(oom.Event{Kind: job.Progress, Iteration: i}, noon.Add(time.Duration(i)*100*time.Millisecond))
	}
	if n := len(s.streams[""].marks); n > 70 {
		t.Errorf("%d reports are kept", n)
	}
	if p := s.progress(); p.Rate < 9.9 || p.Rate > 10.1 {
		t.Errorf("rate %v", p.Rate)
	}
}

// The status has the samples of the planned batch, the plugin's total, and no memory where none was read.
func TestStatusOf(t *testing.T) {
	l := &listener{}
	l.steps.streams = stepsOf(reported{oom.Terminal, 10, 0, 1, ""}, reported{oom.Terminal, 30, 0, 2, ""}).streams
	a := attempt{batch: job.Batch{Micro: 2, Accumulation: 4, Ranks: 1}, total: 1000,
		status: record.Status{Attempt: 3, Predicted: map[string]unit.Bytes{"training": 5}}}
	s := l.status(a, observe.Now{Phase: "training"}, noon, noon)
	if s.Attempt != 3 || s.Memory != nil || s.Progress.Total != 1000 || s.Progress.Rate != 20*8 || s.Expected() != 5 {
		t.Errorf("%+v, %+v", s, s.Progress)
	}
	a.signs.CountsMicro = true
	if s := l.status(a, observe.Now{Held: 7, Peak: 6}, noon, noon); s.Progress.Rate != 20*2 || s.Memory.Peak != 7 {
		t.Errorf("micro-batches: %+v, %+v", s.Progress, s.Memory)
	}
}

// The status lies in the run's folder while the program runs, and no longer.
func TestPublish(t *testing.T) {
	rec, err := record.In(t.TempDir()).Create(noon)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	seen := make(chan record.Status, 100)
	x := New(Setup{Record: rec, Live: func(s record.Status) { seen <- s }})
	watch := observe.Start(t.Context(), observe.Subject{Host: noHost})
	defer watch.Stop()
	stop := x.publish(attempt{status: record.Status{Attempt: 4}}, &listener{}, watch, noon)
	defer stop()
	if s := <-seen; s.Attempt != 4 || !s.Began.Equal(noon) || s.Progress != nil || s.Memory != nil {
		t.Errorf("reported %+v", s)
	}
	if s, err := record.ReadStatus(rec.Dir); err != nil || s.Attempt != 4 {
		t.Errorf("read %+v, %v", s, err)
	}
	stop()
	if _, err := record.ReadStatus(rec.Dir); !errors.Is(err, record.ErrNoStatus) {
		t.Errorf("after the end: %v", err)
	}
}

func noHost() ladder.HostRooms { return ladder.HostRooms{} }
