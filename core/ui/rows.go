package ui

import "strings"

// narrow is the width below which a table is a list: what stands side by side is then too far apart to be read, or
// breaks in the middle of a name.
const narrow = 100

// A tableRow is a row of a table, and the same as a list. below are lines that follow it in both.
type tableRow struct {
	line   string
	title  string
	fields []string
	below  []string
}

// columnOf is how wide the column of names in a table is. No name is cut: on a terminal the longest decides, and grid
// makes a list of what is too wide; where there is none, a long one moves what follows it in its row.
func (p Printer) columnOf(least int, names []string) int {
	const most = 44
	for _, n := range names {
		if w := textWidth(n); p.Width > 0 || w <= most {
			least = max(least, w)
		}
	}
	return least
}

// field is a value with its name; "" where there is none.
func field(name, value string) string {
	if value = strings.TrimSpace(value); value == "" {
		return ""
	}
	return strings.TrimSpace(name + " " + value)
}

// grid writes a table. On a terminal that is narrow, or too narrow for some row, it is a list without the header.
func (p Printer) grid(header string, all []tableRow) {
	list := p.Width > 0 && (p.Width < narrow || p.Width < textWidth(header))
	for _, r := range all {
		list = list || p.Width > 0 && p.Width < textWidth(r.line)
	}
	if header != "" && !list {
		p.line("%s", header)
	}
	for _, r := range all {
		if !list {
			p.line("%s", r.line)
		} else {
			p.entry(r)
		}
		for _, l := range r.below {
			p.line("%s", l)
		}
	}
}

// entry writes a row as a list: its title, and below it what it has, as much as there is room for in a line.
func (p Printer) entry(r tableRow) {
	if r.title != "" {
		p.line("%s", r.title)
	}
	line := ""
	for _, f := range r.fields {
		switch joined := line + " · " + f; {
		case f == "":
		case line == "":
			line = "  " + f
		case textWidth(joined) > p.Width:
			p.line("%s", line)
			line = "  " + f
		default:
			line = joined
		}
	}
	if line != "" {
		p.line("%s", line)
	}
}

// whole writes a line that is not wrapped: a command, or a path, that somebody may copy.
func (p Printer) whole(format string, args ...any) {
	p.Width = 0
	p.line(format, args...)
}
