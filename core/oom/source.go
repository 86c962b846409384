package oom

import (
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A notebook, and rich, show the lines around the one that failed. What stands around a forward pass tells whose it is:
// a training's is followed by a backward pass, a validation's stands below no_grad or reads a validation set.

// A listing is the source that a traceback shows of one frame.
type listing struct {
	before, after []string // the lines around the statement, the nearest last and first
	statement     string   // whole, if it spans lines
}

// shownLine is a line of a listing: its arrow if it is the one that failed, its number, and its source.
var shownLine = rx(`^\s*(?:(-+>|❱) ?)?\s*(\d+)(?: │)?(?: (.*))?$`)

// listingRows bounds the rows of a listing: IPython shows 5 lines around a statement, which may have several of its
// own.
const listingRows = 24

// listing returns the source that stands below a frame; false if there is none with an arrow.
func (f *finding) listing(c frame) (l listing, ok bool) {
	if c.row >= len(f.rows) || strings.Contains(f.rows[c.row].Body, `File "`) {
		return l, false
	}
	var lines []string
	arrow := -1
	for i := c.row + 1; i < min(len(f.rows), c.row+listingRows); i++ {
		m := shownLine.FindStringSubmatch(f.rows[i].Body)
		if m == nil || i == f.at {
			if len(lines) == 0 && strings.TrimSpace(f.rows[i].Body) == "" {
				continue // rich leaves a line free
			}
			break
		}
		if m[1] != "" && arrow < 0 {
			arrow = len(lines)
		}
		source, _, _ := strings.Cut(strings.ReplaceAll(m[3], "│", " "), "  #") // rich draws the indentation
		lines = append(lines, source)
	}
	if arrow < 0 {
		return l, false
	}
	from, to, open := arrow, arrow+1, printed.OpenBrackets(lines[arrow])
	for open < 0 && from > 0 { // Python before 3.8 has the number of a statement's last line
		from--
		open += printed.OpenBrackets(lines[from])
	}
	for open > 0 && to < len(lines) {
		open += printed.OpenBrackets(lines[to])
		to++
	}
	l.before, l.after = lines[:from], lines[to:]
	for i, line := range lines[from:to] {
		if i == 0 {
			l.statement = line
			continue
		}
		l.statement += strings.TrimSpace(line)
	}
	return l, true
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

var (
	// after a forward pass of a training
	stepAfter = rx(`\.backward\(|\btape\.gradient\(|\.apply_gradients\(|\b\w*opt\w*(?:\[\w+\])?\.(?:step|zero_grad)\(`)
	// before it
	stepBefore = rx(`\bzero_grad\(|\.train\(\)|\bGradientTape\(|\bset_grad_enabled\(True|` +
		`^\s*for\b.+\bin\b.+\btrain_?(?:loader|dl|iter|data|ds|set)\w*`)
	// before a forward pass that keeps nothing for a backward pass
	quietBefore = rx(`\b(?:no_grad|inference_mode)\(|\.eval\(\)|\bset_grad_enabled\(False`)
	// a loop over a set that is not for training, or a call with data of it
	heldOut = rx(`^\s*for\b.+\bin\b.+\b(?:val|valid|validation|dev|eval|test)_?(?:loader|dl|iter|data|ds|set|` +
		`batches)\w*|\(\w*?(?:[xX]|images|imgs|inputs|data|batch)_(?:val|valid|validation|dev|eval)\b`)
	// a call of a model or of a loss
	stepCall = rx(`(?i)(?:^|[=\s(,])(?:self\.)?(?:\w*model\w*|\w*net\w{0,2}|criterion\w*|\w*loss\w*|discriminator\w*|` +
		`generator\w*|encoder\w*|decoder\w*)\(`)
)

// around is the phase of a forward pass by the lines around the statement that failed. It is sure if they name the
// data.
func (l *listing) around() (phase Phase, sure bool) {
	deep := indent(l.statement)
	quiet := heldOut.MatchString(l.statement)
	sure = quiet
	for i := len(l.before) - 1; i >= 0; i-- {
		line := l.before[i]
		if strings.TrimSpace(line) == "" {
			continue
		}
		outer := indent(line) < deep
		deep = min(deep, indent(line))
		switch {
		case outer && heldOut.MatchString(line):
			quiet, sure = true, true
		case (outer || indent(line) == deep && strings.Contains(line, ".eval()")) && quietBefore.MatchString(line):
			quiet = true
		case !quiet && stepBefore.MatchString(line):
			return TrainForward, true
		}
	}
	if quiet && sure {
		return Validation, true
	}
	for _, line := range l.after {
		if stepAfter.MatchString(line) {
			return TrainForward, true
		}
	}
	if quiet {
		return Validation, false
	}
	return Unknown, false
}

// around is the phase of a forward pass by the lines that a traceback shows around its calls, the innermost first.
func (f *finding) around(calls []frame) (phase Phase, sure bool) {
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].installed() {
			continue
		}
		l, ok := f.listing(calls[i])
		if !ok {
			l, ok = f.inFile(calls[i])
		}
		if ok {
			if p, sure := l.around(); p != Unknown {
				return p, sure
			}
		}
	}
	return Unknown, false
}

// Bounds of what is read around a line of a file.
const (
	fileBefore = 60
	fileAfter  = 12
)

// inFile returns the source around a frame's line in its own file, which is read only while the program runs here. A
// file whose line is another than the traceback shows is not the one that ran.
func (f *finding) inFile(c frame) (l listing, ok bool) {
	shown := strings.TrimSpace(f.sourceOf(c))
	n, err := strconv.Atoi(c.line)
	if f.x == nil || f.x.source == nil || shown == "" || err != nil || n < 1 {
		return l, false
	}
	lines := strings.Split(string(f.x.source(c.path)), "\n")
	if n > len(lines) || strings.TrimSpace(lines[n-1]) != shown {
		return l, false
	}
	l.statement = lines[n-1]
	from := n - 1
	for from > 0 && n-from <= fileBefore {
		from--
		if line := lines[from]; defines.MatchString(line) && indent(line) < indent(l.statement) {
			break // of the function
		}
	}
	l.before = lines[from : n-1]
	for _, line := range lines[n:min(len(lines), n+fileAfter)] {
		if strings.TrimSpace(line) != "" && indent(line) < indent(l.statement) {
			break // of its block
		}
		l.after = append(l.after, line)
	}
	return l, true
}

var defines = rx(`^\s*(?:async )?def `)

// differentiated reports whether a listing shows a backward pass from what the statement that failed was to compute.
func (f *finding) differentiated(calls []frame) bool {
	return !f.withoutGradients(calls) && slices.ContainsFunc(calls, func(c frame) bool {
		l, ok := f.listing(c)
		m := assigned.FindStringSubmatch(l.statement)
		return ok && m != nil && !c.installed() && slices.ContainsFunc(l.after, func(line string) bool {
			return strings.HasPrefix(strings.TrimSpace(line), m[1]+".backward(")
		})
	})
}

// assigned is a statement that gives a value to a name.
var assigned = rx(`^\s*(\w+) *= *[^=]`)

// calledInStep reports whether the statement that failed is a call of a model or of a loss, of which no frame is shown.
func (f *finding) calledInStep(calls []frame) bool {
	n := len(calls) - 1
	if n < 0 || calls[n].installed() {
		return false
	}
	l, ok := f.listing(calls[n])
	return ok && stepCall.MatchString(l.statement)
}

// sourceOf returns the line of source below a frame.
func (f *finding) sourceOf(c frame) string {
	if l, ok := f.listing(c); ok {
		return l.statement
	}
	if c.row+1 < len(f.rows) && c.row+1 != f.at {
		return f.rows[c.row+1].Body
	}
	return ""
}

// statement is the source line of a frame, without its comment.
func (f *finding) statement(c frame) string {
	line, _, _ := strings.Cut(strings.TrimSpace(f.sourceOf(c)), "  #")
	return line
}

// noGradients is in the source of a line that keeps nothing for a backward pass.
var noGradients = rx(`\b(?:no_grad|inference_mode)\(`)

// withoutGradients reports whether the source of one of some frames switches gradients off.
func (f *finding) withoutGradients(calls []frame) bool {
	return slices.ContainsFunc(calls, func(c frame) bool { return noGradients.MatchString(f.sourceOf(c)) })
}
