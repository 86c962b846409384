package oom

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A finding is one line that matches a rule or a sign of the plugin.
type finding struct {
	rule   rule
	name   string // of the exception, where the line has one
	x      *excerpt
	rows   []printed.Row
	at     int
	stream string
	order  int
	phase  string // the plugin's word for the phase
	traced bool   // it has a traceback's frames right above it
	fatal  bool   // the program, or the step, ended here
	alive  bool   // the program went on, by what it printed after
	done   bool   // it was caught, and the program went on, unless the program is known to have failed
	saved  bool   // the last state was saved by then: a step was made since
	past   bool   // it belongs to an earlier program in the same text
	printed.Numbers
}

func (f *finding) ofMemory() bool { return f.rule.kind != NoMemory }

// ofCard reports whether it is about a card's memory.
func (f *finding) ofCard() bool { return strings.HasPrefix(string(f.rule.kind), "gpu_") }

// headLines bounds how many lines above its message an exception's name may be.
const headLines = 4

// maxTrace bounds the lines of a traceback: a deep one in rich's boxes has that many.
const maxTrace = 900

// beganTrace is the first line of a traceback; IPython names the exception before it (IPython/core/ultratb.py).
var beganTrace = rx(`(?:([A-Z]\w*(?:Error|Exception|Exhausted|Interrupt))\s*)?Traceback \(most recent call last\)`)

// calls returns the frames of the traceback that ends in a finding, and those of what was raised because of it.
func (f *finding) calls() (calls, after []frame) {
	rank := f.rows[f.at].Rank
	from := max(0, f.at-maxTrace)
	for i := f.at - 1; i >= from; i-- {
		r := f.rows[i]
		if rank != "" && r.Rank != "" && r.Rank != rank {
			continue
		}
		if strings.Contains(r.Body, ": Traceback (most recent call last)") &&
			exceptionLine.MatchString(strings.TrimSpace(r.Body)) {
			continue // a message that begins with another language's traceback (MXNet's python/mxnet/base.py)
		}
		if strings.Contains(r.Body, "Traceback (most recent call last)") ||
			strings.Contains(r.Body, "Traceback of TorchScript") {
			from = i
			break
		}
		if i < f.at-1 && exceptionLine.MatchString(strings.TrimSpace(r.Body)) {
			if i >= f.at-headLines && len(frames(f.rows, i+1, f.at, rank)) == 0 {
				continue // the head of the same message (Paddle's paddle/phi/core/enforce.h prints it over several lines)
			}
			from = i + 1
			break
		}
	}
	calls = frames(f.rows, from, f.at, rank)
	until := min(len(f.rows), f.at+250)
	for i := f.at + 1; i < until; i++ {
		if r := f.rows[i]; r.Rank == rank && exceptionLine.MatchString(strings.TrimSpace(r.Body)) {
			until = i
		}
	}
	for _, c := range frames(f.rows, f.at+1, until, rank) {
		if b := strings.TrimSpace(f.rows[c.row].Body); strings.HasPrefix(b, "File ") {
			after = append(after, c)
		}
	}
	if n := len(after) - 1; n > 0 && after[n].name == "<module>" && after[0].name != "<module>" {
		slices.Reverse(after) // a debugger's
	}
	return calls, after
}

// tracebackHead is the row of the nearest line by which a traceback begins, or as far up as one may be.
func (f *finding) tracebackHead() int {
	from := f.at
	for from > 0 && f.at-from < maxTrace && !beganTrace.MatchString(strings.TrimSpace(f.rows[from].Body)) {
		from--
	}
	return from
}

// traceback returns the row at which the traceback begins that ends in this finding; -1 if there is none.
func (f *finding) traceback() int {
	for i := f.at - 1; i > max(0, f.at-maxTrace); i-- {
		if r := f.rows[i]; r.Rank == f.rows[f.at].Rank && strings.HasPrefix(r.Body, "Traceback (most recent call last)") {
			return i
		}
	}
	return -1
}

// sure is how far a finding can be trusted.
func (f *finding) sure() Confidence {
	switch {
	case f.ofMemory() && f.rule.weight >= probable, !f.ofMemory() && f.rule.weight >= ordered:
		return Certain
	case f.ofMemory() && f.rule.weight <= killed:
		return Weak
	}
	return Likely
}

func (f *finding) evidence() Evidence {
	line := f.rows[f.at]
	return Evidence{From: Output, Line: Line{f.stream, line.Number, printed.Clip(strings.TrimSpace(line.Text))},
		For: f.rule.kind, Sure: f.sure()}
}
