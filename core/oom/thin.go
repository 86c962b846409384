package oom

import (
	"bytes"

	"github.com/launch-ml/launch/core/job"
)

// A waiting line shows the progress of training, and the next such line will replace it with a higher number. If a program
// prints ten thousand of them a second, only the last one of each piece of output is matched: skipping the others costs a
// hundredth of matching them.
//
// A line waits at most until the end of its piece of output, or until a line with another meaning. So a program that prints a
// line and pauses is read at once, and the order of the signs does not change.
type waiting struct {
	text   []byte
	number int
	marks  uint64
	is     bool
	heard  int  // signs of the stream, when a line that had waited was read the last time
	vain   bool // such a line was none after all: the program has others with the same word, and each has to be read
}

// eager is how many signs of a stream are read each by itself: whether there were two steps is worth knowing.
const eager = 64

// waits takes a line that may wait, and says so. Any other line is taken once what has waited is settled.
func (s *stream) waits(seg segment, marks uint64) bool {
	r := s.d.signs
	if r.always || s.waiting.vain || s.state.Events < eager {
		return false
	}
	mine := marks >> firstSign << firstSign
	switch {
	case marks&(markMemory|markFailure) != 0, mine&^r.progress != 0, continues(seg.text):
		s.settle()
		return false
	case mine == 0:
		if !s.waiting.is || s.record.open {
			return false
		}
		_, first := richFirst(seg.text)
		if first {
			s.settle()
		}
		return !first // of no meaning, whatever waits
	}
	if s.waiting.is && s.waiting.marks != mine { // another of the plugin's words for it
		s.settle()
	}
	s.waiting.text = append(s.waiting.text[:0], seg.text...)
	s.waiting.number, s.waiting.marks, s.waiting.is = seg.number, mine, true
	return true
}

// settle reads the line that has waited.
func (s *stream) settle() {
	if w := &s.waiting; w.is {
		w.is = false
		w.vain = w.heard == s.state.Events
		w.heard = s.state.Events
		s.signLine(segment{text: w.text, number: w.number}, w.marks)
	}
}

// continues reports whether a line may go on with the record before it.
func continues(line []byte) bool {
	return len(line) > recordIndent && line[0] == ' ' && len(line)-len(bytes.TrimLeft(line, " ")) >= recordIndent
}

// progressMarks are the marks of the signs of progress. A word that another sign shares has that one's mark as well.
func progressMarks(signs []compiled) (marks uint64) {
	for _, c := range signs {
		if c.sign.Kind == job.Progress {
			marks |= c.mark
		}
	}
	return marks
}
