package ui

import (
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"github.com/launch-ml/launch/core/lazy"
)

// widest is the largest width that text and bars use: longer lines are hard to read. Terminals below narrowest are
// taken as that.
const widest, narrowest = 120, 20

// fitted is the printer with a width that text and bars can use.
func (p Printer) fitted() Printer {
	if p.Width > 0 {
		p.Width = min(max(p.Width, narrowest), widest)
	}
	return p
}

// textWidth is how many columns a terminal shows a text in. Colours and marks take none.
func textWidth(s string) int { return lipgloss.Width(Clean(s)) }

// pad fills to n columns.
func pad(s string, n int) string {
	if w := textWidth(s); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

// padLeft is pad with the spaces before the text.
func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-textWidth(s))) + s
}

// space stands between a number and its unit, and in a short command, while a text is wrapped. It is a character for
// private use.
const space = "\uE001"

// inAmount is the space between a number and its unit.
var inAmount = lazy.MustCompile(`(\d) ([KMGT]iB|B|%)`)

// copied are commands that are to be copied in one piece.
var copied = lazy.MustCompile(`\blaunch (show|plugins info) `)

// wrap breaks a cleaned line between words, and no word: a path or a name that is longer than the line stays whole. The
// lines after the first are indented further than it is.
func wrap(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	if line, rest, more := strings.Cut(s, "\n"); more {
		return wrap(line, width) + "\n" + wrap(rest, width)
	}
	body := strings.TrimLeft(s, " ")
	lead := min(len(s)-len(body), width/3)
	hang := strings.Repeat(" ", min(lead+len(indent), width/3))
	lines := broken(body, max(1, width-len(hang)))
	return strings.Repeat(" ", lead) + strings.Join(lines, "\n"+hang)
}

// broken are the lines of a text without a break, none wider than the room if words allow it.
func broken(body string, room int) []string {
	body = inAmount.ReplaceAllString(body, "$1"+space+"$2")
	body = copied.ReplaceAllStringFunc(body, func(s string) string { return strings.ReplaceAll(s, " ", space) })
	lines := []string{""}
	for _, word := range aWord.FindAllString(body, -1) { // with the spaces before it
		if last := &lines[len(lines)-1]; *last == "" || lipgloss.Width(*last+word) <= room {
			*last += word
		} else {
			lines = append(lines, strings.TrimLeft(word, " "))
		}
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], space, " ")
	}
	return lines
}

// Beside writes a text beside a label. On a terminal it is wrapped in the columns that the label leaves.
func (p Printer) Beside(label, text string) {
	p = p.fitted()
	room := p.Width - textWidth(label) - len(p.Prefix)
	if room < narrowest { // also without a terminal
		p.line("%s%s", label, text)
		return
	}
	blank := strings.Repeat(" ", textWidth(label))
	for i, line := range broken(clean(strings.ReplaceAll(text, "\n", " "), p.Colour), room) {
		if i > 0 {
			label = blank
		}
		p.raw(clean(p.Prefix+label, p.Colour) + line)
	}
}

var aWord = lazy.MustCompile(` *[^ ]+`)

// A sheet is a table: its header, the rows, and which columns are numbers.
type sheet struct {
	header  []string
	rows    [][]string
	numbers map[int]bool // columns that are aligned to the right
}

// least is the least width of a table's first column, into which it is wrapped where the table is too wide.
const least = 20

// sheet writes a table. Where it is too wide its first column is wrapped, and where that does not help each row is a
// list of "header: cell".
func (p Printer) sheet(s sheet) {
	text := p.table(s)
	if over := lipgloss.Width(text) - p.Width; p.Width > 0 && over > 0 {
		first := 0
		for _, row := range append([][]string{s.header}, s.rows...) {
			first = max(first, textWidth(row[0]))
		}
		if first-over < least {
			p.list(s)
			return
		}
		wrapped := sheet{header: s.header, numbers: s.numbers}
		for _, row := range s.rows {
			wrapped.rows = append(wrapped.rows, append([]string{wrap(row[0], first-over)}, row[1:]...))
		}
		text = p.table(wrapped)
	}
	for line := range strings.Lines(text) {
		p.raw(strings.TrimRight(line, " \n"))
	}
}

// table returns a table with a line below its header.
func (p Printer) table(s sheet) string {
	cells := func(row []string) []string {
		out := make([]string, len(row))
		for i, c := range row {
			out[i] = clean(c, p.Colour)
		}
		return out
	}
	t := table.New().Border(lipgloss.NormalBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).
		Wrap(true).
		StyleFunc(func(_, column int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if column < len(s.header)-1 {
				style = style.PaddingRight(2)
			}
			if s.numbers[column] {
				style = style.Align(lipgloss.Right)
			}
			return style
		}).
		Headers(cells(s.header)...)
	for _, row := range s.rows {
		t.Row(cells(row)...)
	}
	return t.String()
}

// list writes a table as a list for each row.
func (p Printer) list(s sheet) {
	for _, row := range s.rows {
		e := tableRow{title: p.bold(row[0])}
		for j, c := range row[1:] {
			if c != "" {
				e.fields = append(e.fields, s.header[j+1]+": "+c)
			}
		}
		p.entry(e)
	}
}
