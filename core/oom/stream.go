package oom

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// Names of the streams that the Detector knows apart. Others are live streams like Terminal.
const (
	Terminal = "terminal" // a pseudo-terminal, or a file or pipe that holds what would stand on one
	Stdout   = "stdout"
	Stderr   = "stderr"
	// Log is the program's own log file. If both have a sign or a message, the log wins: it is not wrapped, not redrawn
	// and not shared with other processes. What only a live stream has counts as well, because a log starts late and
	// misses what kills the program.
	Log = "log"
)

// An excerpt is the text around lines that may matter. Only a report reads it.
type excerpt struct {
	stream    string
	lines     []printed.Held
	first     int // index of the first line that matters; what stands before is context
	bytes     int
	left      int // lines that may still be added
	memory    bool
	phase     string             // the phase by signs at the last line that may be about memory
	announced bool               // the program prints where other phases begin
	signs     map[int]Event      // by line number: the plugin's signs of an out-of-memory or its survival
	after     []printed.Progress // seen since it was closed
	looks     int                // for these
	ends      bool               // its last line is the stream's
	source    func(path string) []byte
}

// A Detector reads a program's output as it is written. It never fails, never holds output back, and holds a bounded
// amount of it. It may be written to from several goroutines, one a stream.
type Detector struct {
	// OnEvent, if not nil, is called for every sign, in order within a stream, from within Write; it must not call the
	// Detector. It is set before the first write.
	OnEvent func(Event)
	// OnRetry, if not nil, is called in the same way for every line of an allocator about a request that it tries again.
	OnRetry func(Retry)
	// Source, if not nil, returns the text of a source file that a traceback names; nil if it cannot. It is read where
	// the traceback shows one line of it and the lines around that one tell more. It is set before the first write.
	Source func(path string) []byte

	mu      sync.Mutex
	words   *printed.Words
	signs   *signReader
	streams []*stream
}

// A stream is one source of output.
type stream struct {
	d        *Detector
	name     string
	cleaner  printed.Cleaner
	tail     printed.Tail
	excerpts []*excerpt
	open     bool // the last excerpt is still being written
	record   printed.Record
	state    State
	renewal  printed.Renewal
	event    *Event    // the last sign of memory, of the line at hand
	last     time.Time // when something came
}

// signLine matches one line, and the record it belongs to where rich has wrapped one over several lines. It says whether
// an out-of-memory, or the survival of one, was among the signs.
func (s *stream) signLine(seg printed.Segment, marks uint64) bool {
	s.event = nil
	text, isRich := seg.Text, false
	if s.name != Log {
		if message, first := printed.RichFirst(seg.Text); first {
			s.endRecord()
			s.record.Begin(seg.Number, seg.Text, message)
			text, isRich = message, true
		} else if s.record.Open {
			if rest, more := printed.RichRest(seg.Text); more && s.record.Add(seg.Text, rest) {
				return s.event != nil
			}
			s.endRecord()
		}
	}
	s.d.signs.match(text, marks, func(i int, e Event, end int) {
		if isRich {
			if end >= len(text) || e.Kind == checked { // it, or another value of the check, may be in the next line
				return
			}
			s.record.Done(i)
		}
		s.take(e, seg.Number, string(text))
	})
	return s.event != nil
}

// endRecord matches a wrapped record as a whole, once it is known to be complete.
func (s *stream) endRecord() {
	s.inRecord(func(e Event) { s.take(e, s.record.Number, string(s.record.Text)) })
	s.record.Open = false
}

// take records a sign.
func (s *stream) take(e Event, number int, text string) {
	e = s.placed(e)
	e.Line = Line{Stream: s.name, Number: number, Text: text}
	if e.Kind == checked {
		s.state.value(s.d.signs.checks, e)
		return
	}
	if s.state.another(e) {
		return
	}
	if e.Kind != StoppedEarly {
		s.state.take(e)
	}
	if e.Kind == job.OutOfMemory || e.Kind == job.Survived || e.Kind == job.Failed {
		s.event = &e
	}
	if s.d.OnEvent != nil {
		s.d.OnEvent(e)
	}
}

// placed gives a value the step that it belongs to, where its line does not say.
func (s *stream) placed(e Event) Event {
	switch e.Kind {
	case job.Metric, job.Rate, job.Updates, job.SavedState, checked:
		if e.Step == metric.NoStep {
			e.Step = s.iteration()
		}
	}
	return e
}

// iteration is the one that a value on this stream belongs to. A log file is read later than the terminal, which has
// come further by then: where it reports progress, its own counts.
func (s *stream) iteration() int64 {
	if s.name == Log && s.state.Moved && !s.state.restarts {
		return s.state.Iteration
	}
	return s.d.iteration()
}

// iteration is the highest of all streams: a bar and a validation's results may be on different ones. NoStep if
// there is none, or if it is only a count within an epoch.
func (d *Detector) iteration() int64 {
	n := int64(metric.NoStep)
	for _, s := range d.streams {
		if s.state.restarts {
			return metric.NoStep
		}
		if s.state.Events > 0 {
			n = max(n, s.state.Iteration)
		}
	}
	return n
}

// now is the state of a stream, with the signs of a record that is not known to be complete.
func (s *stream) now() State {
	t := s.state
	t.Rates, t.Updates = t.Rates.Clone(), t.Updates.Clone()
	t.Settings, t.Metrics, t.Checks = maps.Clone(t.Settings), maps.Clone(t.Metrics), slices.Clone(t.Checks)
	for i, v := range t.Checks {
		t.Checks[i] = v.Clone()
	}
	s.inRecord(func(e Event) {
		e = s.placed(e)
		e.Line.Text = string(s.record.Text)
		switch e.Kind {
		case StoppedEarly:
		case checked:
			t.value(s.d.signs.checks, e)
		default:
			t.take(e)
		}
	})
	return t
}

// State returns what the signs have shown so far. The phase is the log's, if the log has signs; of counts and progress it is
// the highest of all streams, because the same line may be in each.
func (d *Detector) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sumState()
}

func (d *Detector) sumState() State {
	out := State{Iteration: -1}
	for _, s := range d.streams {
		t := s.now()
		out.values(t.Checks, s.name == Log)
		if t.Events == 0 {
			continue
		}
		if out.Events == 0 || s.name == Log {
			out.Phase = t.Phase
		}
		if out.Saved == nil || t.Saved != nil && t.Saved.Iteration > out.Saved.Iteration {
			out.Saved = t.Saved
		}
		if out.Resumed == nil {
			out.Resumed = t.Resumed
		}
		out.Iteration = max(out.Iteration, t.Iteration)
		out.Moved, out.Varied, out.Figures = out.Moved || t.Moved, out.Varied || t.Varied, out.Figures || t.Figures
		if out.Total == 0 || t.Total > 0 && s.name == Log {
			out.Total = t.Total
		}
		out.Started = out.Started || t.Started
		out.Succeeded = out.Succeeded || t.Succeeded
		out.Failed = out.Failed || t.Failed
		out.Interrupted = out.Interrupted || t.Interrupted
		out.OutOfMemory = max(out.OutOfMemory, t.OutOfMemory)
		out.Survived = max(out.Survived, t.Survived)
		if out.SurvivedLine == "" || t.SurvivedLine != "" && s.name == Log {
			out.SurvivedLine = t.SurvivedLine
		}
		out.Rates, out.Updates = firstTrack(s.name, out.Rates, t.Rates), firstTrack(s.name, out.Updates, t.Updates)
		out.Peak = max(out.Peak, t.Peak)
		out.Events = max(out.Events, t.Events)
		join(&out.Settings, t.Settings, s.name == Log)
		join(&out.Metrics, t.Metrics, s.name == Log)
	}
	return out
}

// join adds what a stream has said: the log's word counts most, and of the others the first stream's.
func join[M ~map[string]V, V any](to *M, from M, isLog bool) {
	for name, v := range from {
		if _, said := (*to)[name]; said && !isLog {
			continue
		}
		if *to == nil {
			*to = M{}
		}
		(*to)[name] = v
	}
}

// firstTrack is the track that counts: the log's, else that of the first stream that has one.
func firstTrack(stream string, have, here *metric.Track) *metric.Track {
	if here != nil && (have == nil || stream == Log) {
		return here
	}
	return have
}

// phaseFor returns the phase by signs at this moment: the stream's own if it has any, else the best other.
func (d *Detector) phaseFor(s *stream) string {
	if s.state.Events > 0 {
		return s.state.Phase
	}
	return d.sumState().Phase
}

// lastLine returns the last line that is not blank, without its margins; "" if there is none among the last 40.
func (s *stream) lastLine() string {
	lines := s.tail.Lines(40)
	if seg, ok := s.cleaner.Pending(); ok {
		lines = append(lines, seg.Held())
	}
	for _, l := range slices.Backward(lines) {
		if text := strings.TrimSpace(l.Text); text != "" {
			return text
		}
	}
	return ""
}

// inRecord calls found for every sign in the wrapped record that was not found in its first line.
func (s *stream) inRecord(found func(Event)) {
	r, d := &s.record, s.d
	if !r.Open {
		return
	}
	seen := slices.Clone(r.Found)
	for _, text := range [][]byte{r.Text, r.Spaced} {
		before := seen // a check may match several times
		d.signs.match(text, d.words.Scan(text), func(i int, e Event, _ int) {
			if !slices.Contains(before, i) {
				seen = append(seen, i)
				found(e)
			}
		})
		if bytes.Equal(r.Text, r.Spaced) {
			return
		}
	}
}
