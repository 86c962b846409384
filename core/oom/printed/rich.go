package printed

import (
	"bytes"
	"unicode/utf8"
)

// A record is one message of rich's log handler, which wraps it into a column, between the time and level on its left and
// the file name on its right (Rich, rich/_log_render.py).
type Record struct {
	Open   bool
	Number int
	Text   []byte // joined as rich broke it
	Spaced []byte // joined with spaces throughout
	edge   int    // the column where the message's lines end, 0 if unknown
	filled bool   // the last line reached the edge
	Lines  int
	Found  []int
}

const MaxRecord = 8 << 10

func (r *Record) Begin(number int, line, message []byte) {
	r.Open, r.Number, r.Lines, r.Found = true, number, 1, r.Found[:0]
	r.Text = append(r.Text[:0], message...)
	r.Spaced = append(r.Spaced[:0], message...)
	r.edge = 0
	if right := richRight.FindIndex(line); right != nil {
		r.edge = utf8.RuneCount(bytes.TrimRight(line, " ")) - utf8.RuneCount(bytes.TrimSpace(line[right[0]:])) - 1
	}
	r.fill(line, message)
}

// fill reports whether a line reaches the edge: rich breaks a word only if it is longer than a line, and then fills the line.
func (r *Record) fill(line, message []byte) {
	at := bytes.Index(line, message)
	r.filled = r.edge > 0 && at >= 0 && utf8.RuneCount(line[:at+len(message)]) == r.edge
}

func (r *Record) Add(line, rest []byte) bool {
	if len(r.Spaced)+len(rest) > MaxRecord {
		return false
	}
	if !r.filled {
		r.Text = append(r.Text, ' ')
	}
	r.Text = append(r.Text, rest...)
	r.Spaced = append(append(r.Spaced, ' '), rest...)
	r.fill(line, rest)
	r.Lines++
	return true
}

func (r *Record) Done(i int) { r.Found = append(r.Found, i) }

// recordIndent is the least indentation of a wrapped message: the width of the level column.
const recordIndent = 9

var (
	richHead  = rx(`^(?:\[[^\]]{4,24}\]\s+|\s*)(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{1,8}`)
	richRight = rx(`\s+[\w.-]+\.py:\d+\s*$`)
)

// richFirst returns the message part of a record's first line.
func RichFirst(line []byte) ([]byte, bool) {
	if len(line) < recordIndent || line[0] != '[' && line[0] != ' ' && (line[0] < 'C' || line[0] > 'W') {
		return nil, false
	}
	m := richHead.FindIndex(line)
	if m == nil {
		return nil, false
	}
	message := line[m[1]:]
	if r := richRight.FindIndex(message); r != nil {
		message = message[:r[0]]
	}
	return bytes.TrimRight(message, " "), true
}

// richRest returns the message part of a further line of a record.
func RichRest(line []byte) ([]byte, bool) {
	rest := bytes.TrimLeft(line, " ")
	if len(line)-len(rest) < recordIndent || len(rest) == 0 {
		return nil, false
	}
	return bytes.TrimRight(rest, " "), true
}
