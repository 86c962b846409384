package printed

import "bytes"

const (
	// maxLine bounds what is held of a line that does not end; what follows it counts as a further line. The overlap
	// is read twice, so that no message is cut in two unseen.
	MaxLine = 16 << 10
	overlap = 1 << 10
	// maxString bounds an escape sequence's string: a stray ESC ] must not swallow the rest of the output.
	maxString = 2 << 10
)

// A segment is a piece of clean text that ended with a newline, with a carriage return, or at maxLine.
type Segment struct {
	Text   []byte // valid until emit returns
	Number int    // of the line, from 1
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
type Cleaner struct {
	Emit    func(Segment)
	line    []byte
	number  int
	state   escState
	strlen  int
	drawn   bool // the line so far ended in a carriage return
	wrapped bool // the line so far was cut at maxLine
}

// plainRun returns how many bytes of p stand before the first control character.
func plainRun(p []byte) int {
	for i, b := range p {
		if b < ' ' && b != '\t' || b == 0x7f {
			return i
		}
	}
	return len(p)
}

func (c *Cleaner) Write(p []byte) {
	for i := 0; i < len(p); i++ {
		if c.state != plainText {
			c.escaped(p[i])
			continue
		}
		end := i + plainRun(p[i:])
		line := p[i:end]
		if len(c.line) > 0 || len(line) > MaxLine || end == len(p) || p[end] != '\n' && p[end] != '\r' {
			c.text(line)
			line = c.line
		} // else the whole line lies here, and need not be copied
		if i = end; i == len(p) {
			return
		}
		switch p[i] {
		case '\n':
			c.newline(line)
		case '\r':
			c.flush(line, true)
			c.drawn = true
			if i+1 < len(p) && p[i+1] == '\n' { // as a terminal ends every line
				i++
				c.newline(nil)
			}
		case 0x1b:
			c.state = escape
		}
	}
}

func (c *Cleaner) text(p []byte) {
	for len(c.line)+len(p) > MaxLine {
		n := MaxLine - len(c.line)
		c.line = append(c.line, p[:n]...)
		p = p[n:]
		c.Emit(Segment{Text: c.line, Number: c.number + 1})
		c.line = append(c.line[:0], c.line[len(c.line)-overlap:]...)
		c.wrapped = true
	}
	c.line = append(c.line, p...)
}

func (c *Cleaner) newline(line []byte) {
	c.flush(line, false)
	c.number++
	c.drawn, c.wrapped = false, false
}

// flush emits the line so far. An empty line is emitted only if the program printed it as one.
func (c *Cleaner) flush(line []byte, redraw bool) {
	if len(line) > 0 || !redraw && !c.drawn && !c.wrapped {
		c.Emit(Segment{Text: line, Number: c.number + 1, redraw: redraw})
	}
	c.line = c.line[:0]
}

// pending returns the last line, which has no end yet.
func (c *Cleaner) Pending() (Segment, bool) {
	return Segment{Text: bytes.Clone(c.line), Number: c.number + 1}, len(c.line) > 0
}

func (c *Cleaner) escaped(b byte) {
	if b == '\n' || b == 0x18 || b == 0x1a { // a line end, CAN or SUB ends a broken sequence
		c.state = plainText
		if b == '\n' {
			c.newline(c.line)
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
