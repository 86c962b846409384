package declared

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

var (
	skips = lazy.MustCompile(`(^|\.)(skip_first_batches|islice)$`)
	// restarts are names of the place in an epoch at which a program goes on.
	restarts = lazy.MustCompile(`(?i)(start|resum|begin|skip|last|first)\w*(iter|step|batch|idx|index)|` +
		`(iter|step|batch|idx|index)e?s?_?(start|to_skip|done|begin)`)
	stored = lazy.MustCompile(`\[\s*["']|\.get\(\s*["']|\bint\(`)
)

// inPasses reports whether a program that resumes in the middle of an epoch passes over as many micro-batches as it had
// read: at another micro-batch these are other samples, and the epoch has another length.
func inPasses(files []python.Source, micro, accumulation []string) bool {
	s := &splitReader{accumulation: accumulation, sources: files, parsed: map[string]*python.Syntax{}}
	for _, f := range files {
		if !strings.Contains(f.Code, "continue") && !f.Names("skip_first_batches") && !f.Names("islice") {
			continue
		}
		x := f.Syntax()
		for i, st := range x.Statements {
			for _, r := range passedOver(x, i, st) {
				if s.used(x, i) && s.position(x, r, micro) {
					return true
				}
			}
		}
	}
	return false
}

// passedOver are the expressions of a statement that tell how many batches a loop passes over.
func passedOver(x *python.Syntax, i int, st python.Statement) (out []python.Range) {
	for _, c := range x.Calls(st.Range) {
		if args := x.Args(c.Open); skips.MatchName(c.Name) && len(args) > 1 && data.MatchString(x.Of(args[0].Range)) &&
			(len(args) == 2 == strings.HasSuffix(c.Name, "batches")) {
			out = append(out, args[1].Range)
		}
	}
	l := x.Loop(i)
	if l < 0 || !x.Is(st.First, "if") || !x.Is(x.Statements[l].First, "for") ||
		!indexed.MatchString(x.Of(x.Statements[l].Range)) {
		return out
	}
	next := i + 1
	if !strings.HasSuffix(x.Of(st.Range), "continue") && (next >= len(x.Statements) || x.Statements[next].In != i ||
		!x.Is(x.Statements[next].First, "continue")) {
		return out
	}
	counter := x.Token(x.Statements[l].First + 1)
	for at := st.First; at+1 < st.End; at++ {
		if (x.Is(at, "<") || x.Is(at, "<=")) && x.Is(at-1, counter) {
			end := at + 2
			for end < st.End && !slices.Contains([]string{":", "and", "or", ")"}, x.Token(end)) {
				end++
			}
			out = append(out, python.Range{First: at + 1, End: end})
		}
	}
	return out
}

// position reports whether an expression is a number of micro-batches that was read from a saved state.
func (s *splitReader) position(x *python.Syntax, r python.Range, micro []string) bool {
	if s.accumulated(x, r) || x.HasName(r, micro) {
		return false
	}
	if stored.MatchString(x.Of(r)) {
		return true
	}
	for i := r.First; i < r.End; i++ {
		name, ok := x.DottedAt(i, r.End)
		if !ok {
			continue
		}
		read, given := false, false
		for _, st := range x.Statements {
			for _, b := range x.Bindings(st) {
				if b.Name != name {
					continue
				}
				if given = true; s.accumulated(x, st.Range) || x.HasName(st.Range, micro) {
					return false
				}
				read = read || stored.MatchString(x.Of(b.Value))
			}
		}
		if read || !given && restarts.MatchName(name) {
			return true
		}
	}
	return false
}
