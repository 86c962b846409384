package top

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// A style is how a terminal shows a text. The colours are of the terminal's own palette, which its user has chosen for
// a light or a dark background.
type style string

const (
	plain   style = ""
	bold    style = "1"
	faint   style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	cyan    style = "36"
	reverse style = "7"
)

// A canvas collects the lines of a screen. Its memory is used again for the next one.
type canvas struct {
	text  []byte
	width int // of the screen, in columns; 0: lines are as long as they are
	paint bool
	lines int
	at    int // the columns that the present line has
}

func (c *canvas) reset(width int, paint bool) {
	*c = canvas{text: c.text[:0], width: width, paint: paint}
}

// end ends the line.
func (c *canvas) end() {
	for len(c.text) > 0 && c.text[len(c.text)-1] == ' ' {
		c.text = c.text[:len(c.text)-1]
	}
	c.text = append(c.text, '\n')
	c.lines++
	c.at = 0
}

// left is how many columns the line has left.
func (c *canvas) left() int {
	if c.width <= 0 {
		return 1 << 20
	}
	return max(0, c.width-c.at)
}

// write adds a text, cut where the line ends.
func (c *canvas) write(text string, s style) { c.cell(text, -1, false, s) }

// cell adds a text in so many columns, -1 for as many as it needs: longer text ends in "…". Text of files and processes
// is cleaned of what a terminal would obey.
func (c *canvas) cell(text string, width int, toRight bool, s style) {
	text, has := tidy(text)
	room := c.left()
	if width >= 0 {
		room = min(room, width)
	}
	if has > room {
		text = ansi.Truncate(text, room, "…")
		has = ansi.StringWidth(text)
	}
	fill := 0
	if width >= 0 {
		fill = max(0, room-has)
	}
	if toRight {
		c.spaces(fill)
	}
	if c.paint && s != plain && has > 0 {
		c.text = append(append(append(c.text, "\x1b["...), s...), 'm')
		c.text = append(c.text, text...)
		c.text = append(c.text, "\x1b[0m"...)
	} else {
		c.text = append(c.text, text...)
	}
	if !toRight {
		c.spaces(fill)
	}
	c.at += has + fill
}

func (c *canvas) spaces(n int) {
	for range min(n, c.left()) {
		c.text = append(c.text, ' ')
	}
}

// gap adds empty columns.
func (c *canvas) gap(n int) {
	n = min(n, c.left())
	c.spaces(n)
	c.at += n
}

// line adds a line of one text.
func (c *canvas) line(text string, s style) {
	c.write(text, s)
	c.end()
}

// tidy cleans a text, and returns its width.
func tidy(text string) (clean string, width int) {
	for i := range len(text) {
		if b := text[i]; b < 0x20 || b > 0x7e {
			text = ui.OneLine(text)
			return text, ansi.StringWidth(text)
		}
	}
	return text, len(text)
}

// unknown is shown for what is not known. It is never zero.
const unknown = "not known"

// amount is an amount of memory, or unknown where it is 0.
func amount(b unit.Bytes) string {
	if b <= 0 {
		return unknown
	}
	return b.String()
}

// bar returns a bar of so many columns: the parts that are full and taken, and the rest. At least one column shows what
// is more than nothing, and one stays empty until all is full.
func bar(width int, full, taken float64) string {
	columns := func(part float64) int {
		if part <= 0 {
			return 0
		}
		return max(1, int(part*float64(width)+0.5))
	}
	all := min(width, columns(full+taken))
	if all == width && full+taken < 1 && width > 1 {
		all--
	}
	others := min(all, columns(taken))
	return strings.Repeat("█", all-others) + strings.Repeat("╱", others) + strings.Repeat("░", width-all)
}

// span is a time in at most two units: "45s", "12m", "3h 20m", "2d 4h".
func span(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h " + strconv.Itoa(int(d%time.Hour/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d " + strconv.Itoa(int(d%(24*time.Hour)/time.Hour)) + "h"
}

// rate is a speed with three digits.
func rate(v float64) string {
	switch {
	case v <= 0:
		return unknown
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
