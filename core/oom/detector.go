package oom

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/launch-ml/launch/core/job"
)

const (
	beforeLines  = 900       // of context before the first line that matters: rich prints 20 lines for a traceback's frame
	afterLines   = 300       // of context after the last one: the rest of a message, and whether the program went on
	excerptBytes = 192 << 10 // a longer excerpt is cut there, and another begun
	firstKept    = 8         // excerpts of each stream: the first failing rank comes first, what ended it comes last
	lastKept     = 8
	progressKept = 16
	mostLooks    = 2000 // lines that are looked at for progress after an excerpt, and then one in so many
	rareLook     = 64
)

// NewDetector returns a Detector that reads the plugin's signs as well; job.Signs{} for none. The error names the pattern
// that is no RE2 expression.
func NewDetector(signs job.Signs) (*Detector, error) {
	r, err := newSignReader(signs)
	if err != nil {
		return nil, err
	}
	list := map[string]uint64{}
	for marks, words := range map[uint64][]string{
		printed.MarkMemory:  slices.Concat(printed.MemoryWords, printed.NotAllocated, printed.KilledWords()),
		printed.MarkFailure: printed.FailureWords, printed.MarkFrame: printed.FrameWords,
		printed.MarkBar: printed.BarWords, printed.MarkStat: printed.StatWords, printed.MarkCount: printed.CountWords,
		printed.MarkBar | printed.MarkStat | printed.MarkCount: printed.FoldedLetters,
	} {
		for _, w := range words {
			list[printed.Lowered(w)] |= marks
		}
	}
	r.addWords(list)
	return &Detector{words: printed.NewWords(list), signs: r}, nil
}

// Write reads terminal output. It is Stream(Terminal).Write.
func (d *Detector) Write(p []byte) (int, error) { return d.Stream(Terminal).Write(p) }

// Stream returns the writer of the stream of that name.
func (d *Detector) Stream(name string) io.Writer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stream(name)
}

func (d *Detector) stream(name string) *stream {
	for _, s := range d.streams {
		if s.name == name {
			return s
		}
	}
	s := &stream{d: d, name: name}
	s.cleaner.Emit = s.segment
	d.streams = append(d.streams, s)
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.last = time.Now()
	s.cleaner.Write(p)
	return len(p), nil
}

// End reads the progress on a last line that has no end, as a bar's that the program left where it was. Nothing else is
// read from it: the report has it already. Call it once, after all output.
func (d *Detector) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		seg, ok := s.cleaner.Pending()
		if !ok {
			continue
		}
		d.signs.match(seg.Text, d.words.Scan(seg.Text), func(_ int, e Event, _ int) {
			if e.Kind == job.Progress && !s.state.another(e) {
				s.take(e, seg.Number, string(seg.Text))
			}
		})
	}
}

// segment takes one clean line.
func (s *stream) segment(seg printed.Segment) {
	marks := s.d.words.Scan(seg.Text)
	if s.d.signs.any && s.signLine(seg, marks) {
		marks |= printed.MarkMemory
	}
	keep := marks&(printed.MarkMemory|printed.MarkFailure) != 0
	if marks&printed.MarkMemory != 0 && s.d.OnRetry != nil && s.name != Log { // a log file repeats what was printed
		if n, ok := printed.ReadRetry(seg.Text); ok {
			s.d.OnRetry(Retry{*n.Requested, *n.Free, *n.Capacity})
		}
	}
	switch {
	case s.open:
		s.extend(seg, marks)
	case keep:
		s.openExcerpt(seg, marks)
	default:
		s.watch(seg, marks)
	}
	s.tail.Add(seg, keep)
	s.renewal.Read(seg, marks, len(s.excerpts) > 0)
}

// openExcerpt opens an excerpt with what came before.
func (s *stream) openExcerpt(seg printed.Segment, marks uint64) {
	if len(s.excerpts) >= firstKept+lastKept {
		s.excerpts = slices.Delete(s.excerpts, firstKept, firstKept+1)
	}
	x := &excerpt{stream: s.name, lines: s.tail.Lines(beforeLines), source: s.d.Source}
	x.first = len(x.lines)
	for _, l := range x.lines {
		x.bytes += len(l.Text)
	}
	s.excerpts = append(s.excerpts, x)
	s.open = true
	s.extend(seg, marks)
}

// extend adds a line to the open excerpt.
func (s *stream) extend(seg printed.Segment, marks uint64) {
	x := s.excerpts[len(s.excerpts)-1]
	if marks&(printed.MarkMemory|printed.MarkFailure) != 0 {
		x.left = afterLines
	} else if marks&printed.MarkFrame != 0 {
		x.left = max(x.left, afterLines/2)
	}
	if marks&printed.MarkMemory != 0 {
		x.memory = true
		x.phase, x.announced = s.d.phaseFor(s), s.d.signs.announces
	}
	s.signed(x)
	if n := len(x.lines); n > 0 && s.tail.Redraw && x.lines[n-1].Number == seg.Number {
		x.bytes -= len(x.lines[n-1].Text)
		x.lines = x.lines[:n-1] // drawn over
		x.first = min(x.first, n-1)
	}
	x.lines = append(x.lines, seg.Held())
	x.bytes += len(seg.Text)
	if x.left--; x.left <= 0 || x.bytes > excerptBytes+printed.TailBytes {
		s.open = false
	}
}

// signed adds the sign that was read last to an excerpt.
func (s *stream) signed(x *excerpt) {
	if s.event == nil {
		return
	}
	if x.signs == nil {
		x.signs = map[int]Event{}
	}
	x.signs[s.event.Line.Number] = *s.event
	x.first = min(x.first, max(0, len(x.lines)-s.record.Lines))
}

// watch looks for progress after an excerpt that may be about memory. Only its own stream counts: the buffered output of a
// dying program is written late, and on another stream at any time.
func (s *stream) watch(seg printed.Segment, marks uint64) {
	if len(s.excerpts) == 0 {
		return
	}
	x := s.excerpts[len(s.excerpts)-1]
	if !x.memory || len(x.after) >= progressKept {
		return
	}
	if x.looks++; x.looks > mostLooks && x.looks%rareLook != 0 || !printed.MayCount(marks) {
		return
	}
	if p, ok := printed.ProgressOf(string(seg.Text)); ok && (len(x.after) == 0 || x.after[len(x.after)-1] != p) {
		x.after = append(x.after, p)
	}
}

// snapshot returns the excerpts of all streams, the log's first.
func (d *Detector) snapshot() (out []excerpt) {
	for _, isLog := range []bool{true, false} {
		for _, s := range d.streams {
			if (s.name == Log) == isLog {
				out = append(out, s.snapshot()...)
			}
		}
	}
	return out
}

// snapshot returns the excerpts of a stream, with its last line though that has not ended.
func (s *stream) snapshot() (out []excerpt) {
	for _, x := range s.excerpts {
		out = append(out, *x)
	}
	if s.open {
		out[len(out)-1].ends = true
	}
	seg, ok := s.cleaner.Pending()
	if !ok {
		return out
	}
	last := seg.Held()
	if s.open {
		x := &out[len(out)-1]
		x.lines = append(slices.Clone(x.lines), last)
	} else if marks := s.d.words.Scan(seg.Text); marks&(printed.MarkMemory|printed.MarkFailure) != 0 {
		before := s.tail.Lines(beforeLines)
		out = append(out, excerpt{stream: s.name, first: len(before), lines: append(before, last),
			phase: s.d.phaseFor(s), ends: true})
	} else if p, ok := printed.ProgressOf(last.Text); ok && len(out) > 0 {
		x := &out[len(out)-1]
		x.after = append(slices.Clone(x.after), p)
	}
	return out
}

// Kept are the lines around those that may matter, of all streams, each shortened.
func (d *Detector) Kept() (lines []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.snapshot() {
		for _, l := range x.lines {
			lines = append(lines, printed.Clip(l.Text))
		}
	}
	return lines
}

// Slow describes the patterns that were not matched on every line, because that would have slowed down the program.
func (d *Detector) Slow() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.signs.signs {
		if c.slow {
			out = append(out, fmt.Sprintf("%s %.60q", c.sign.Kind, c.sign.Pattern))
		}
	}
	return out
}
