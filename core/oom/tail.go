package oom

import "bytes"

// A held is a line kept in an excerpt.
type held struct {
	number int
	text   string
}

// A tail keeps the last lines of a stream, in bytes and without an allocation for each.
type tail struct {
	buf    []byte
	starts []mark
	redraw bool // the last line is to be replaced by the next
}

type mark struct{ at, number int }

const (
	tailBytes = 128 << 10
	tailLines = 1500
)

// add appends a line. A line that was redrawn is replaced, as a terminal would: hours of progress bars are one line. One
// that matters (keep) stays.
func (t *tail) add(s segment, keep bool) {
	if n := len(t.starts); t.redraw && n > 0 && t.starts[n-1].number == s.number { // not across the line feed of a CR LF
		t.buf = t.buf[:t.starts[n-1].at]
		t.starts = t.starts[:n-1]
	}
	t.redraw = s.redraw && !keep
	if len(t.buf)+len(s.text) > 2*tailBytes || len(t.starts) >= 2*tailLines {
		t.drop()
	}
	t.starts = append(t.starts, mark{len(t.buf), s.number})
	t.buf = append(t.buf, s.text...)
}

// drop forgets the older half.
func (t *tail) drop() {
	first := max(0, len(t.starts)-tailLines)
	for first < len(t.starts) && len(t.buf)-t.starts[first].at > tailBytes {
		first++
	}
	from := len(t.buf)
	if first < len(t.starts) {
		from = t.starts[first].at
	}
	t.buf = t.buf[:copy(t.buf, t.buf[from:])]
	t.starts = t.starts[:copy(t.starts, t.starts[first:])]
	for i := range t.starts {
		t.starts[i].at -= from
	}
}

// lines returns up to n last lines, at most tailBytes of them.
func (t *tail) lines(n int) []held {
	first := max(0, len(t.starts)-n)
	for first < len(t.starts) && len(t.buf)-t.starts[first].at > tailBytes {
		first++
	}
	out := make([]held, 0, len(t.starts)-first)
	for i := first; i < len(t.starts); i++ {
		end := len(t.buf)
		if i+1 < len(t.starts) {
			end = t.starts[i+1].at
		}
		out = append(out, held{t.starts[i].number, string(bytes.TrimRight(t.buf[t.starts[i].at:end], " "))})
	}
	return out
}
