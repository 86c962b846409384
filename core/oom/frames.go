package oom

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/oom/printed"
)

// A frame is one call of a traceback. Its path has slashes, on Windows too.
type frame struct {
	path, line, name string
	row              int
}

var (
	pythonFrame  = rx(`File "([^"]+)", line (\d+), in (\S+)`)
	beheaded     = rx(`^([^"]*\.py)", line (\d+), in (\S+)`)             // the first line of a paste that begins within it
	parsedFrame  = rx(`^\s*File "([^"]+)", line (\d+)\s*$`)              // of a file that could not be parsed
	strippedName = rx(`^\s*File "([^"]+\.py)", line (\d+), in\s*$`)      // a page took "<module>" for a tag
	mangledPath  = rx(`File \\"([^"\\]+)\\", line (\d+), in ([^\s\\]+)`) // a traceback as a JSON string
	wrappedName  = rx(`^\s*, in (\S+)\s*$`)                              // a page wrapped the line before its last word
	richFrame    = rx(`^\s*(\S+\.py):(\d+)(?: in(?: (\S+))?)?\s*$`)
	richName     = rx(`^\s*(?:in )?([\w<>]+)\s*$`)
	ipyFrame     = rx(`^\s*File \[?(\S+?\.py):(\d+)(?:\]\([^)]*\))?, in ([\w<>.]+)`)
	ipyCell      = rx(`^\s*(?:Input )?(Cell In ?\[\d+\]), line (\d+)(?:, in ([\w<>.]+))?`) // IPython 8, core/ultratb.py
	// until IPython 8.5, and Colab's: "Input In [5], in <cell line: 3>()", "/tmp/ipykernel_7/8.py in <cell line: 0>()"
	ipyOld = rx(`^\s*(?:Input )?\[?(<ipython-input-[^>]+>|\S+?\.pyc?|` +
		`In \[\d+\],)(?:\]\([^)]*\))? in (<cell line: \d+>|[\w<>.]+)(?:\(|$)`)
	ipyArrow = rx(`^\s*-+> (\d+)\b`)
)

// frames returns the frames within rows[from:to), outermost first. It believes only a frame that is whole on its line: it does
// not guess at one that a wrap has cut, except for rich's own wrapping, which is known.
func frames(rows []printed.Row, from, to int, rank string) []frame {
	t := frameReader{old: -1}
	for i := max(0, from); i < to; i++ {
		r := rows[i]
		if rank != "" && r.Rank != "" && r.Rank != rank {
			continue
		}
		if !r.Boxed && !strings.Contains(r.Body, "File ") && !strings.Contains(r.Body, ".py") &&
			!strings.Contains(r.Body, "Cell In") && !strings.Contains(r.Body, "<ipython-input") &&
			!strings.Contains(r.Body, "Input In [") && !strings.Contains(r.Body, "-> ") &&
			!strings.Contains(r.Body, ", in ") {
			continue
		}
		switch {
		case t.python(r.Body, i):
		case r.Boxed:
			t.rich(strings.TrimSpace(r.Body), i)
		default:
			t.ipython(r.Body, i)
		}
	}
	return t.frames
}

// A frameReader collects the frames of a traceback.
type frameReader struct {
	frames []frame
	prefix string // the first part of a path that rich has wrapped
	old    int    // the index of the last frame of an old IPython's, whose line number comes later; -1: none
}

func (t *frameReader) add(file, line, name string, row int) {
	t.frames = append(t.frames, frame{strings.ReplaceAll(file, `\`, "/"), line, name, row})
}

// finds reports whether a pattern matches, and sets its groups.
func finds(m *[]string, re *pattern, body string) bool {
	*m = re.FindStringSubmatch(body)
	return *m != nil
}

// python reads a frame as Python prints it.
func (t *frameReader) python(body string, row int) bool {
	var m []string
	last := len(t.frames) - 1
	switch {
	case finds(&m, pythonFrame, body), row == 0 && finds(&m, beheaded, body), finds(&m, mangledPath, body):
		t.add(m[1], m[2], m[3], row)
	case finds(&m, strippedName, body) && !strings.HasPrefix(body, " "):
		t.add(m[1], m[2], "<module>", row)
	case m != nil: // a wrap took the name
		t.add(m[1], m[2], "", row)
	case last >= 0 && t.frames[last].name == "" && t.frames[last].row == row-1 && finds(&m, wrappedName, body):
		t.frames[last].name, t.frames[last].row = m[1], row
	case finds(&m, parsedFrame, body):
		t.add(m[1], m[2], "", row)
	default:
		return false
	}
	return true
}

// rich reads a line within rich's box: a frame, or a part of one that rich has wrapped.
func (t *frameReader) rich(body string, row int) {
	var m []string
	switch last := len(t.frames) - 1; {
	case finds(&m, richFrame, body):
		t.add(t.prefix+m[1], m[2], m[3], row)
	case last >= 0 && t.frames[last].name == "" && finds(&m, richName, body):
		t.frames[last].name = m[1]
	case strings.HasPrefix(body, "/") && !strings.ContainsAny(body, " :"):
		t.prefix = body
		return
	}
	t.prefix = ""
}

// ipython reads a frame as IPython prints it.
func (t *frameReader) ipython(body string, row int) {
	var m []string
	switch last := len(t.frames) - 1; {
	case finds(&m, ipyCell, body):
		t.add(m[1], m[2], withoutClass(cmp.Or(m[3], "<module>")), row)
	case finds(&m, ipyFrame, body):
		t.add(m[1], m[2], withoutClass(m[3]), row)
	case finds(&m, ipyOld, body):
		if strings.HasPrefix(m[2], "<cell") {
			m[2] = "<module>"
		}
		t.add(strings.TrimSuffix(m[1], ","), "", withoutClass(m[2]), row)
		t.old = last + 1
	case t.old == last && last >= 0 && finds(&m, ipyArrow, body):
		t.frames[last].line = m[1]
	}
}

// withoutClass is the name of a function without that of its class.
func withoutClass(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// installed says that a path belongs to Python or to an installed package, and so is nobody's own code. A source build of
// torch is one too.
func (f frame) installed() bool {
	p := strings.ToLower(f.path)
	if strings.HasPrefix(p, "<ipython-input") {
		return false
	}
	for _, s := range []string{"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "/torch/nn/",
		"/torch/autograd/", "/torch/utils/", "/torch/optim/", "/torch/cuda/", "/torch/distributed/", "code/__torch__/"} {
		if strings.Contains(p, s) || strings.HasPrefix(p, s[1:]) {
			return true
		}
	}
	if strings.Contains(p, "/bin/") && !strings.HasSuffix(p, ".py") {
		return true // an entry point that an installer wrote
	}
	if (strings.HasSuffix(p, ".pyx") || strings.HasSuffix(p, ".pxi")) && !strings.HasPrefix(p, "/") {
		return true // Cython names a file as it stood where the package was built
	}
	return strings.HasPrefix(p, "<") || strings.Contains(p, ":/") && windowsStdlib.MatchString(p)
}

// windowsStdlib is the standard library on Windows: C:\Python311\lib\threading.py, …\envs\x\lib\asyncio\events.py.
var windowsStdlib = rx(`(?:python\d*|conda\d?|envs/[^/]+)/lib/`)

// ownFrame is the index of the innermost frame outside installed packages; -1 if there is none.
func ownFrame(calls []frame) int {
	n := len(calls) - 1
	for n >= 0 && calls[n].installed() {
		n--
	}
	return n
}

// inAny reports whether the name of one of some frames matches.
func inAny(calls []frame, name *pattern) bool {
	return slices.ContainsFunc(calls, func(c frame) bool { return name.MatchString(c.name) })
}

// own returns the innermost frame outside installed packages, as "file.py:LINE in func", or "". Of a file that could not
// be parsed there is no function.
func own(frames []frame) string {
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		parsed := f.name == "" && i == len(frames)-1 && strings.HasSuffix(f.path, ".py")
		if f.installed() || f.line == "" || f.name == "" && !parsed {
			continue
		}
		at := path.Base(f.path) + ":" + f.line
		if parsed {
			return at
		}
		return at + " in " + f.name
	}
	return ""
}
