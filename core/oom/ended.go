package oom

import (
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/unit"
)

var (
	trace      = lazy.MustCompile(`^\S*Traceback \(most recent call last\):\s*$`)
	anError    = lazy.MustCompile(`^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Timeout|Warning)(?::|\s*$)`)
	notMain    = lazy.MustCompile(`^(?:Exception ignored|Exception in thread|--- Logging error|Error in atexit)`)
	traceLines = lazy.MustCompile(`^(?:\s|\+|$|During handling of|The above exception)`)
)

// inOrder is how far apart two outputs have to be for their order to be known.
const inOrder = 100 * time.Millisecond

// lastTrace is the error with which the output ends: that of a traceback after which nothing was printed, in the
// program's own thread.
func (d *Detector) lastTrace() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var s *stream
	for _, other := range d.streams {
		if s == nil || other.last.After(s.last) {
			s = other
		}
	}
	if s == nil || slices.ContainsFunc(d.streams, func(o *stream) bool { return o != s && s.last.Sub(o.last) < inOrder }) {
		return "" // two outputs are read one after the other: which came last is not known
	}
	var lines []string
	for _, l := range s.tail.Lines(200) {
		lines = append(lines, l.Text)
	}
	if seg, ok := s.cleaner.Pending(); ok {
		lines = append(lines, string(seg.Text))
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	for i, line := range slices.Backward(lines) {
		last := i == len(lines)-1
		switch {
		case last && !anError.MatchString(line), !last && !trace.MatchString(line) && !traceLines.MatchString(line) &&
			!anError.MatchString(line):
			return ""
		case trace.MatchString(line) && (i == 0 || !notMain.MatchString(lines[i-1])):
			return unit.Clip(lines[len(lines)-1], 200)
		case trace.MatchString(line):
			return ""
		}
	}
	return ""
}
