package printed

import (
	"slices"
	"strings"
)

// A held is a line kept in an excerpt.
type Held struct {
	Number int
	Text   string
}

// Held is the line as it is kept.
func (s Segment) Held() Held { return Held{s.Number, string(s.Text)} }

// A Tail keeps the last lines of a stream.
type Tail struct {
	kept   []Held
	bytes  int  // of them
	Redraw bool // the last line is to be replaced by the next
}

const (
	TailBytes = 128 << 10
	tailLines = 1500
)

// add appends a line. A line that was redrawn is replaced, as a terminal would: hours of progress bars are one line.
// One that matters (keep) stays.
func (t *Tail) Add(s Segment, keep bool) {
	if n := len(t.kept) - 1; t.Redraw && n >= 0 && t.kept[n].Number == s.Number { // not across the line feed of a CR LF
		t.bytes -= len(t.kept[n].Text)
		t.kept = t.kept[:n]
	}
	t.Redraw = s.redraw && !keep
	if t.bytes+len(s.Text) > 2*TailBytes || len(t.kept) >= 2*tailLines {
		t.kept = slices.Clone(t.kept[t.from(tailLines):])
		t.bytes = 0
		for _, l := range t.kept {
			t.bytes += len(l.Text)
		}
	}
	t.kept = append(t.kept, s.Held())
	t.bytes += len(s.Text)
}

// from is where the last n lines begin; of fewer if they have more than tailBytes.
func (t *Tail) from(n int) int {
	at, bytes := len(t.kept), 0
	for at > max(0, len(t.kept)-n) && bytes+len(t.kept[at-1].Text) <= TailBytes {
		at--
		bytes += len(t.kept[at].Text)
	}
	return at
}

// lines returns up to n last lines, at most tailBytes of them.
func (t *Tail) Lines(n int) []Held {
	out := slices.Clone(t.kept[t.from(n):])
	for i := range out {
		out[i].Text = strings.TrimRight(out[i].Text, " ")
	}
	return out
}
