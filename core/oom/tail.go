package oom

import (
	"slices"
	"strings"
)

// A held is a line kept in an excerpt.
type held struct {
	number int
	text   string
}

// A tail keeps the last lines of a stream.
type tail struct {
	kept   []held
	bytes  int  // of them
	redraw bool // the last line is to be replaced by the next
}

const (
	tailBytes = 128 << 10
	tailLines = 1500
)

// add appends a line. A line that was redrawn is replaced, as a terminal would: hours of progress bars are one line. One
// that matters (keep) stays.
func (t *tail) add(s segment, keep bool) {
	if n := len(t.kept) - 1; t.redraw && n >= 0 && t.kept[n].number == s.number { // not across the line feed of a CR LF
		t.bytes -= len(t.kept[n].text)
		t.kept = t.kept[:n]
	}
	t.redraw = s.redraw && !keep
	if t.bytes+len(s.text) > 2*tailBytes || len(t.kept) >= 2*tailLines {
		t.kept = slices.Clone(t.kept[t.from(tailLines):])
		t.bytes = 0
		for _, l := range t.kept {
			t.bytes += len(l.text)
		}
	}
	t.kept = append(t.kept, held{s.number, string(s.text)})
	t.bytes += len(s.text)
}

// from is where the last n lines begin; of fewer if they have more than tailBytes.
func (t *tail) from(n int) int {
	at, bytes := len(t.kept), 0
	for at > max(0, len(t.kept)-n) && bytes+len(t.kept[at-1].text) <= tailBytes {
		at--
		bytes += len(t.kept[at].text)
	}
	return at
}

// lines returns up to n last lines, at most tailBytes of them.
func (t *tail) lines(n int) []held {
	out := slices.Clone(t.kept[t.from(n):])
	for i := range out {
		out[i].text = strings.TrimRight(out[i].text, " ")
	}
	return out
}
