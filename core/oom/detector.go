package oom

import (
	"io"
	"slices"
	"sync"

	"github.com/launch-ml/launch/core/job"
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

// An excerpt is the text around lines that may matter. Only a report reads it.
type excerpt struct {
	stream    string
	lines     []held
	first     int // index of the first line that matters; what stands before is context
	bytes     int
	left      int // lines that may still be added
	memory    bool
	phase     string        // the phase by signs at the last line that may be about memory
	announced bool          // the program prints where other phases begin
	signs     map[int]Event // by line number: the plugin's signs of an out-of-memory or its survival
	after     []progress    // seen since it was closed
	looks     int           // for these
	ends      bool          // its last line is the stream's
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
	words   *literals
	sieve   *sieve // of the words that matter while no excerpt is open; nil: the automaton reads every line
	signs   *signReader
	streams []*stream
}

// A stream is one source of output.
type stream struct {
	d        *Detector
	name     string
	cleaner  cleaner
	tail     tail
	excerpts []*excerpt
	dropped  int
	open     bool // the last excerpt is still being written
	record   record
	waiting  waiting
	state    State
	renewal  renewal
}

// NewDetector returns a Detector that reads the plugin's signs as well; job.Signs{} for none. The error names the pattern
// that is no RE2 expression.
func NewDetector(signs job.Signs) (*Detector, error) {
	r, err := newSignReader(signs)
	if err != nil {
		return nil, err
	}
	words := map[string]uint64{}
	for _, w := range memoryWords {
		words[w] |= markMemory
	}
	for _, w := range notAllocated {
		words[lowered(w)] |= markMemory
	}
	for _, w := range killedWords() {
		words[w] |= markMemory
	}
	for _, w := range failureWords {
		words[w] |= markFailure
	}
	for _, w := range frameWords {
		words[w] |= markFrame
	}
	r.addWords(words)
	return &Detector{words: newLiterals(words), sieve: newSieve(words, markFrame), signs: r}, nil
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
	s.cleaner.emit = s.segment
	d.streams = append(d.streams, s)
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.cleaner.write(p)
	s.settle()
	return len(p), nil
}

// End reads the progress on a last line that has no end, as a bar's that the program left where it was. Nothing else is
// read from it: the report has it already. Call it once, after all output.
func (d *Detector) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		seg, ok := s.cleaner.pending()
		if !ok {
			continue
		}
		d.signs.match(seg.text, d.words.scan(seg.text), func(_ int, e Event, _ int) {
			if e.Kind == job.Progress && !s.state.another(e) {
				s.event(e, seg.number, string(seg.text))
			}
		})
	}
}

// segment takes one clean line.
func (s *stream) segment(seg segment) {
	marks := uint64(0)
	if s.open || s.d.sieve == nil || s.d.sieve.holds(seg.text) {
		marks = s.d.words.scan(seg.text)
	}
	if s.d.signs.any && !s.waits(seg, marks) {
		if s.signLine(seg, marks) {
			marks |= markMemory
		}
	}
	keep := marks&(markMemory|markFailure) != 0
	if marks&markMemory != 0 {
		s.retry(seg.text)
	}
	switch {
	case s.open:
		s.extend(seg, marks)
	case keep:
		s.begin(seg, marks)
	default:
		s.watch(seg)
	}
	s.tail.add(seg, keep)
	s.renew(seg)
}

// begin opens an excerpt with what came before.
func (s *stream) begin(seg segment, marks uint64) {
	if len(s.excerpts) >= firstKept+lastKept {
		s.excerpts = slices.Delete(s.excerpts, firstKept, firstKept+1)
		s.dropped++
	}
	x := &excerpt{stream: s.name, lines: s.tail.lines(beforeLines), source: s.d.Source}
	x.first = len(x.lines)
	for _, l := range x.lines {
		x.bytes += len(l.text)
	}
	s.excerpts = append(s.excerpts, x)
	s.open = true
	s.extend(seg, marks)
}

// extend adds a line to the open excerpt.
func (s *stream) extend(seg segment, marks uint64) {
	x := s.excerpts[len(s.excerpts)-1]
	if marks&(markMemory|markFailure) != 0 {
		x.left = afterLines
	} else if marks&markFrame != 0 {
		x.left = max(x.left, afterLines/2)
	}
	if marks&markMemory != 0 {
		x.memory = true
		x.phase, x.announced = s.d.phaseFor(s), s.d.signs.announces
	}
	if s.record.event != nil {
		if x.signs == nil {
			x.signs = map[int]Event{}
		}
		x.signs[s.record.event.Line.Number] = *s.record.event
		x.first = min(x.first, max(0, len(x.lines)-s.record.lines))
	}
	if n := len(x.lines); n > 0 && s.tail.redraw && x.lines[n-1].number == seg.number {
		x.bytes -= len(x.lines[n-1].text)
		x.lines = x.lines[:n-1] // drawn over
		x.first = min(x.first, n-1)
	}
	x.lines = append(x.lines, held{seg.number, string(seg.text)})
	x.bytes += len(seg.text)
	if x.left--; x.left <= 0 || x.bytes > excerptBytes+tailBytes {
		s.open = false
	}
}

// watch looks for progress after an excerpt that may be about memory. Only its own stream counts: the buffered output of a
// dying program is written late, and on another stream at any time.
func (s *stream) watch(seg segment) {
	if len(s.excerpts) == 0 {
		return
	}
	x := s.excerpts[len(s.excerpts)-1]
	if !x.memory || len(x.after) >= progressKept {
		return
	}
	if x.looks++; x.looks > mostLooks && x.looks%rareLook != 0 || !mayCount(seg.text) {
		return
	}
	if p, ok := progressOf(string(seg.text)); ok && (len(x.after) == 0 || x.after[len(x.after)-1] != p) {
		x.after = append(x.after, p)
	}
}

// snapshot returns the excerpts of all streams, the log's first, each stream's last line included though it has not ended.
func (d *Detector) snapshot() []excerpt {
	var out []excerpt
	streams := slices.Clone(d.streams)
	slices.SortStableFunc(streams, func(a, b *stream) int { return rank(a.name) - rank(b.name) })
	for _, s := range streams {
		at := len(out)
		for _, x := range s.excerpts {
			out = append(out, *x)
		}
		seg, ok := s.cleaner.pending()
		if s.open {
			out[len(out)-1].ends = true
		}
		if !ok {
			continue
		}
		last := held{seg.number, string(seg.text)}
		if s.open {
			x := &out[len(out)-1]
			x.lines = append(slices.Clone(x.lines), last)
		} else if marks := d.words.scan(seg.text); marks&(markMemory|markFailure) != 0 {
			before := s.tail.lines(beforeLines)
			out = append(out, excerpt{stream: s.name, first: len(before), lines: append(before, last),
				phase: d.phaseFor(s), ends: true})
		} else if p, ok := progressOf(last.text); ok && len(out) > at {
			x := &out[len(out)-1]
			x.after = append(slices.Clone(x.after), p)
		}
	}
	return out
}

func rank(stream string) int {
	if stream == Log {
		return 0
	}
	return 1
}
