package oom

import (
	"path"
	"strings"
)

// A row is a line of an excerpt, and what is left of it without the prefixes that launchers put before each line.
type row struct {
	number int
	text   string
	body   string
	rank   string // as "[rank3]", where the prefix says so
	boxed  bool   // it stood in a box
	source bool   // it stood in the box of a traceback, which shows source and not what happened
}

// prefixes of torchrun and its redirects, mpirun, srun -l, Ray, docker compose; a comment, a quotation.
var linePrefix = rx(`^(?:\s{0,4}(\[(?:rank|default)?\s?\d+\]:?|\[\d+,\d+\]<std\w+>:?|\d+:|\([\w.]*(?:pid|ip|` +
	`rank)=[^)]*\)|` +
	`[\w.-]+-\d+ +\|)(?: |$)|(?:#+ |> ))`)

// notebookEscape is an SGR sequence within JSON, as in a saved notebook.
var notebookEscape = rx(`\\u001b\[[0-9;]*m`)

// rows cleans the lines of an excerpt.
func rows(lines []held) []row {
	out := make([]row, len(lines))
	source := false
	for i, l := range lines {
		r := row{number: l.number, text: l.text, body: l.text}
		if strings.Contains(r.body, `\u001b[`) {
			r.body = notebookEscape.ReplaceAllString(r.body, "")
			r.body = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(r.body), ","), `"`)
			r.body = strings.TrimSuffix(strings.TrimPrefix(r.body, `"`), `\n`)
		}
		for range 3 {
			m := linePrefix.FindStringSubmatchIndex(r.body)
			if m == nil {
				break
			}
			if m[2] >= 0 && r.rank == "" {
				r.rank = strings.TrimSuffix(r.body[m[2]:m[3]], ":")
			}
			r.body = r.body[m[1]:]
		}
		if message, ok := richFirst([]byte(r.body)); ok {
			r.body = string(message)
		}
		r.unbox()
		if r.boxed && strings.Contains(r.body, "Traceback (most recent call last)") {
			source = true
		}
		source = source && r.boxed
		r.source = source
		out[i] = r
	}
	return out
}

// unbox takes off the frame that rich draws around a traceback (Rich, rich/traceback.py and rich/box.py).
func (r *row) unbox() {
	s := strings.TrimSpace(r.body)
	switch {
	case strings.HasPrefix(s, "╭"), strings.HasPrefix(s, "╰"), strings.HasPrefix(s, "┌"), strings.HasPrefix(s, "└"):
		r.boxed = true
		r.body = strings.Trim(s, "╭╮╰╯┌┐└┘─ ")
	case strings.HasPrefix(s, "│"):
		r.boxed = true
		r.body = strings.TrimPrefix(strings.TrimSuffix(s, "│"), "│")
	}
}

// A frame is one call of a traceback.
type frame struct {
	path, line, name string
	row              int
}

var (
	pythonFrame = rx(`File "([^"]+)", line (\d+), in (\S+)`)
	mangledPath = rx(`File \\"([^"\\]+)\\", line (\d+), in ([^\s\\]+)`) // a traceback as a JSON string
	richFrame   = rx(`^\s*(\S+\.py):(\d+)(?: in(?: (\S+))?)?\s*$`)
	richName    = rx(`^\s*(?:in )?([\w<>]+)\s*$`)
	ipyFrame    = rx(`^\s*File (\S+\.py):(\d+), in ([\w<>.]+)`)
	ipyOld      = rx(`^\s*(\S+\.py) in ([\w<>]+)\(`)
	ipyArrow    = rx(`^-+> (\d+)\b`)
)

// frames returns the frames within rows[from:to), outermost first. Only a frame that stands whole on its line is
// believed: one that a wrap has cut is not guessed at, but for rich's own wrapping, which is known.
func frames(rows []row, from, to int, rank string) []frame {
	var out []frame
	prefix, old := "", -1
	for i := max(0, from); i < to; i++ {
		r := rows[i]
		if rank != "" && r.rank != "" && r.rank != rank {
			continue
		}
		if !r.boxed && !strings.Contains(r.body, "File ") && !strings.Contains(r.body, ".py") &&
			!strings.HasPrefix(r.body, "-") {
			continue
		}
		if m := pythonFrame.FindStringSubmatch(r.body); m != nil {
			out = append(out, frame{m[1], m[2], m[3], i})
			continue
		}
		if m := mangledPath.FindStringSubmatch(r.body); m != nil {
			out = append(out, frame{m[1], m[2], m[3], i})
			continue
		}
		if r.boxed {
			body := strings.TrimSpace(r.body)
			if m := richFrame.FindStringSubmatch(body); m != nil {
				out = append(out, frame{prefix + m[1], m[2], m[3], i})
			} else if m := richName.FindStringSubmatch(body); m != nil && len(out) > 0 && out[len(out)-1].name == "" {
				out[len(out)-1].name = m[1]
			} else if strings.HasPrefix(body, "/") && !strings.ContainsAny(body, " :") {
				prefix = body
				continue
			}
			prefix = ""
			continue
		}
		if m := ipyFrame.FindStringSubmatch(r.body); m != nil {
			out = append(out, frame{m[1], m[2], m[3], i})
		} else if m := ipyOld.FindStringSubmatch(r.body); m != nil {
			out = append(out, frame{m[1], "", m[2], i})
			old = len(out) - 1
		} else if m := ipyArrow.FindStringSubmatch(r.body); m != nil && old == len(out)-1 && old >= 0 {
			out[old].line = m[1]
		}
	}
	return out
}

// installed says that a path belongs to Python or to an installed package, and so is nobody's own code. A source build of
// torch is one too.
func (f frame) installed() bool {
	p := strings.ToLower(strings.ReplaceAll(f.path, `\`, "/"))
	for _, s := range []string{"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "/torch/nn/",
		"/torch/autograd/", "/torch/utils/", "/torch/optim/", "/torch/cuda/", "/torch/distributed/", "code/__torch__/"} {
		if strings.Contains(p, s) || strings.HasPrefix(p, s[1:]) {
			return true
		}
	}
	if strings.Contains(p, "/bin/") && !strings.HasSuffix(p, ".py") {
		return true // an entry point that an installer wrote
	}
	return strings.HasPrefix(p, "<") || strings.Contains(p, ":/") && windowsStdlib.MatchString(p)
}

// windowsStdlib is the standard library on Windows: C:\Python311\lib\threading.py, …\envs\x\lib\asyncio\events.py.
var windowsStdlib = rx(`(?:python\d*|conda\d?|envs/[^/]+)/lib/`)

// own returns the innermost frame outside installed packages, as "file.py:LINE in func", or "".
func own(frames []frame) string {
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		if f.installed() || f.line == "" || f.name == "" {
			continue
		}
		return path.Base(strings.ReplaceAll(f.path, `\`, "/")) + ":" + f.line + " in " + f.name
	}
	return ""
}
