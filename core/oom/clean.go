package oom

import (
	"bytes"
	"encoding/binary"
)

const (
	// maxLine bounds what is held of a line that does not end; what follows it counts as a further line. The overlap
	// is read twice, so that no message is cut in two unseen.
	maxLine = 16 << 10
	overlap = 1 << 10
	// maxString bounds an escape sequence's string: a stray ESC ] must not swallow the rest of the output.
	maxString = 2 << 10
)

// A segment is a piece of clean text that ended with a newline, with a carriage return, or at maxLine.
type segment struct {
	text   []byte // valid until the next write
	number int    // of the line, from 1
	redraw bool   // ended by a carriage return: a terminal shows what follows in its place
}

type escState uint8

const (
	plainText escState = iota
	escape             // after ESC
	csi                // after ESC [
	str                // after ESC ], P, X, ^ or _
	strEsc             // ESC within such a string
	charset            // after ESC ( and its like: one more byte
)

// A cleaner cuts bytes into lines without escape sequences and control characters. It keeps its state between writes, so
// that the lines are the same wherever the bytes are split. It reads ECMA-48 by hand: this runs on every byte, and
// ansi.Strip wants a whole string.
//
// Control characters are dropped, not replaced: torch 2.3 prints the GPU's index as a raw byte, and UTF-16 text, as
// PowerShell writes it, is ASCII with NULs between.
type cleaner struct {
	emit    func(segment)
	line    []byte
	number  int
	state   escState
	strlen  int
	drawn   bool // the line so far ended in a carriage return
	wrapped bool // the line so far was cut at maxLine
}

// special marks the bytes that end a run of plain text.
var special = func() (t [256]bool) {
	for b := range 32 {
		t[b] = b != '\t'
	}
	t[0x7f] = true
	return t
}()

// plainRun returns how many bytes of p stand before the first special one. Eight at a time: the high bit of a byte of
// the mask is set where the byte is below a space or is DEL, and, falsely, for a tab.
func plainRun(p []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(p); i += 8 {
		v := binary.LittleEndian.Uint64(p[i:])
		below := (v - 0x20*ones) &^ v
		del := v ^ 0x7f*ones
		del = (del - ones) &^ del
		if (below|del)&highs == 0 {
			continue
		}
		break
	}
	for i < len(p) && !special[p[i]] {
		i++
	}
	return i
}

func (c *cleaner) write(p []byte) {
	for i := 0; i < len(p); {
		if c.state != plainText {
			c.escaped(p[i])
			i++
			continue
		}
		end := i + plainRun(p[i:])
		if end > i {
			c.text(p[i:end])
			i = end
			continue
		}
		switch p[i] {
		case '\n':
			c.newline()
		case '\r':
			c.flush(true)
			c.drawn = true
		case 0x1b:
			c.state = escape
		}
		i++
	}
}

func (c *cleaner) text(p []byte) {
	for len(c.line)+len(p) > maxLine {
		n := maxLine - len(c.line)
		c.line = append(c.line, p[:n]...)
		p = p[n:]
		c.emit(segment{text: c.line, number: c.number + 1})
		c.line = append(c.line[:0], c.line[len(c.line)-overlap:]...)
		c.wrapped = true
	}
	c.line = append(c.line, p...)
}

func (c *cleaner) newline() {
	c.flush(false)
	c.number++
	c.drawn, c.wrapped = false, false
}

// flush emits the line so far. An empty one is emitted only where it is a line of its own.
func (c *cleaner) flush(redraw bool) {
	if len(c.line) > 0 || !redraw && !c.drawn && !c.wrapped {
		c.emit(segment{text: c.line, number: c.number + 1, redraw: redraw})
	}
	c.line = c.line[:0]
}

// pending returns the last line, which has no end yet.
func (c *cleaner) pending() (segment, bool) {
	return segment{text: bytes.Clone(c.line), number: c.number + 1}, len(c.line) > 0
}

func (c *cleaner) escaped(b byte) {
	if b == '\n' || b == 0x18 || b == 0x1a { // a line end, CAN or SUB ends a broken sequence
		c.state = plainText
		if b == '\n' {
			c.newline()
		}
		return
	}
	switch c.state {
	case escape:
		switch {
		case b == '[':
			c.state = csi
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state, c.strlen = str, 0
		case b >= 0x20 && b <= 0x2f:
			c.state = charset
		case b == 0x1b:
		default:
			c.state = plainText
		}
	case csi:
		if b >= 0x40 && b <= 0x7e {
			c.state = plainText
			if b == 'C' { // cursor forward: consoles that redraw print it for spaces
				c.text([]byte{' '})
			}
		} else if b == 0x1b {
			c.state = escape
		}
	case charset:
		if b < 0x20 || b > 0x2f {
			c.state = plainText
		}
	case str:
		if c.strlen++; b == 0x07 || c.strlen > maxString {
			c.state = plainText
		} else if b == 0x1b {
			c.state = strEsc
		}
	case strEsc:
		if b == '\\' {
			c.state = plainText
		} else {
			c.state = str
		}
	}
}
