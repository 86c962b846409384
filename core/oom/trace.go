package oom

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"
	"unicode/utf8"
)

// A row is a line of an excerpt, and what is left of it without the prefixes that launchers put before each line.
type row struct {
	number int
	text   string
	body   string
	rank   string // as "[rank3]", where the prefix says so
	boxed  bool   // it stood in a box
	more   bool   // it goes on a line that another row began
	mild   bool   // of a traceback in a logger's record: its level is that of a program that goes on
	source bool   // it stood in the box of a traceback, which shows source and not what happened
}

// linePrefix is what others put before each line of a program; its groups, where they took part, say whose line it is.
//
//   - torchrun --tee (torch/distributed/elastic/multiprocessing/tail_log.py): a role and the local rank, "[default0]:";
//     torch's own "[rank0]: " before an exception (torch/distributed/c10d_logger.py), Lightning's "[rank: 0] "
//   - mpirun --tag-output "[1,0]<stderr>:", and SageMaker's "[1,mpirank:0,algo-1]<stderr>:"
//   - srun --label "0: "; pdsh, as DeepSpeed's launcher uses it, "worker-1: "
//   - Ray and vLLM: "(train_fn pid=12, ip=10.0.0.1) "
//   - docker compose "trainer-1  | ", kubectl logs --prefix "[pod/trainer-0/main] ", stamps of kubectl and docker logs,
//     and of the files that they read ("2026-01-02T03:04:05.6Z stderr F ": Kubernetes' CRI log format)
//   - syslog and journalctl "Jan  2 03:04:05 host unit[12]: "
//   - vLLM's logger, of an error, whose traceback it puts into one record: "ERROR 09-28 15:47:24 [core.py:718] "
//   - a comment, a quotation
var linePrefix = rx(`^(?:(\[[A-Za-z_]+\d+\]:|\[\d+,[\w:,-]+\]<std\w+>:) ?|\s{0,4}(\[[A-Za-z_]*:?\s?\d+\]:?|\[\d+,[\w:,-]+\]<std\w+>:?|\d+:|` +
	`\([\w.:\[\] -]{0,60}?(?:pid|ip|rank)=[^)]*\)|` +
	`[\w.-]+[-_]\d+ +\||[\w.-]+ {2,}\||\[pod/[\w./-]+\]|` +
	`(?:[a-z]\w*(?:-\w+)*-\d+|(?:gpu|node|worker|host|compute)\d+|\d+\.\d+\.\d+\.\d+):)(?: |$)|` +
	`(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+\.py:\d+\](?: |$)|` +
	`(?:` + stamp + `)(?: |$)|(?:#+ |> ))`)

// stamp is a time that was put before a line by who passed it on, not by who wrote it.
const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)(?: std(?:out|err) [FP]|` +
	` [\w.-]+ [\w.@/-]+(?:\[\d+\])?:)?|` +
	`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [\w.-]+ [\w.@/-]+(?:\[\d+\])?:)?`

// rawEscape is an SGR sequence within JSON, as in a saved notebook, and once that is decoded.
var rawEscape = rx(`(?:\\u001b|\x1b)\[[0-9;]*m`)

// maxRow bounds a row, in bytes: all that is read of a text is read of rows, and what a rule costs grows with its length.
// The longest message of an allocator has 900 bytes.
const maxRow = 2 << 10

// rows cleans the lines of an excerpt, and says where the first line that matters begins. A line is several rows if it
// holds several lines as JSON, or is longer than maxRow.
func rows(lines []held, first int, words *words) ([]row, int) {
	out := make([]row, 0, len(lines))
	from, source := 0, false
	for i, l := range lines {
		if i == first {
			from = len(out)
		}
		more := false
		texts := unwrap(l.text)
		mild, rank := false, ""
		if strings.HasPrefix(strings.TrimSpace(l.text), `{"`) {
			mild = len(texts) > 2 && mildRecord(l.text, 0)
			if m := rankField.FindStringSubmatch(l.text); m != nil {
				rank = "rank=" + m[1]
			}
		}
		for _, text := range texts {
			for text != "" || !more {
				piece := text
				if len(text) > maxRow {
					piece = text[:cut(text, words)]
				}
				text = text[len(piece):]
				r := row{number: l.number, text: l.text, body: piece, more: more, mild: mild}
				if more || text != "" {
					r.text = piece
				}
				r.unprefix()
				r.unbox()
				r.rank = cmp.Or(r.rank, rank)
				if r.boxed && strings.Contains(r.body, "Traceback (most recent call last)") {
					source = true
				}
				source = source && r.boxed
				r.source = source
				if more && r.rank == "" {
					r.rank = out[len(out)-1].rank
				}
				out = append(out, r)
				more = true
			}
		}
	}
	if first >= len(lines) {
		from = len(out)
	}
	return out, from
}

// cut returns where to end the first row of a text that is longer than one: at a space, and if there is one, far from all
// words that matter, so that none is torn in two.
func cut(text string, words *words) int {
	const room = 48 // longer than any word
	first := 0
	for at := maxRow; ; {
		at = strings.LastIndexByte(text[:at], ' ')
		if at <= maxRow/2 {
			break
		}
		if words.scan([]byte(text[at-room:min(len(text), at+room)]))&^(markBar|markStat|markCount) == 0 {
			return at
		}
		first = max(first, at)
	}
	if first > 0 {
		return first
	}
	at := maxRow
	for at > maxRow-4 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// unwrap returns the lines that a line holds: itself, unless it is JSON.
func unwrap(text string) []string {
	s := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(s, `{"`) && strings.HasSuffix(s, "}"):
		if lines := recorded(s, 0); lines != nil {
			return lines
		}
	case strings.Contains(s, `\u001b[`): // a string of a saved notebook
		var line string
		if json.Unmarshal([]byte(strings.TrimSuffix(s, ",")), &line) == nil {
			return strings.Split(strings.TrimRight(rawEscape.ReplaceAllString(line, ""), "\r\n"), "\n")
		}
		s = rawEscape.ReplaceAllString(s, "")
		s = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(s), ","), `"`)
		return []string{strings.TrimSuffix(strings.TrimPrefix(s, `"`), `\n`)}
	}
	return []string{text}
}

// unprefix takes off what others have put before the line, four deep at most: a stamp, a pod, a rank, a comment.
func (r *row) unprefix() {
	for range 4 {
		m := linePrefix.FindStringSubmatchIndex(r.body)
		if m == nil {
			break
		}
		for g := 2; g < len(m) && r.rank == ""; g += 2 {
			if m[g] >= 0 {
				r.rank = strings.TrimSuffix(r.body[m[g]:m[g+1]], ":")
			}
		}
		r.body = r.body[m[1]:]
	}
	if message, ok := richFirst([]byte(r.body)); ok {
		r.body = string(message)
	}
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
	ipyOld = rx(`^\s*(?:Input )?\[?(<ipython-input-[^>]+>|\S+?\.pyc?|In \[\d+\],)(?:\]\([^)]*\))? in ` +
		`(<cell line: \d+>|[\w<>.]+)(?:\(|$)`)
	ipyArrow = rx(`^\s*-+> (\d+)\b`)
)

// frames returns the frames within rows[from:to), outermost first. It believes only a frame that is whole on its line: it does
// not guess at one that a wrap has cut, except for rich's own wrapping, which is known.
func frames(rows []row, from, to int, rank string) []frame {
	t := frameReader{old: -1}
	for i := max(0, from); i < to; i++ {
		r := rows[i]
		if rank != "" && r.rank != "" && r.rank != rank {
			continue
		}
		if !r.boxed && !strings.Contains(r.body, "File ") && !strings.Contains(r.body, ".py") &&
			!strings.Contains(r.body, "Cell In") && !strings.Contains(r.body, "<ipython-input") &&
			!strings.Contains(r.body, "Input In [") && !strings.Contains(r.body, "-> ") &&
			!strings.Contains(r.body, ", in ") {
			continue
		}
		switch {
		case t.python(r.body, i):
		case r.boxed:
			t.rich(strings.TrimSpace(r.body), i)
		default:
			t.ipython(r.body, i)
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

// python reads a frame as Python prints it.
func (t *frameReader) python(body string, row int) bool {
	if m := pythonFrame.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{m[1], m[2], m[3], row})
		return true
	}
	if m := beheaded.FindStringSubmatch(body); m != nil && row == 0 {
		t.frames = append(t.frames, frame{m[1], m[2], m[3], row})
		return true
	}
	if m := mangledPath.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{m[1], m[2], m[3], row})
		return true
	}
	if m := strippedName.FindStringSubmatch(body); m != nil {
		name := "<module>"
		if strings.HasPrefix(body, " ") { // else a wrap took the name
			name = ""
		}
		t.frames = append(t.frames, frame{m[1], m[2], name, row})
		return true
	}
	if m := wrappedName.FindStringSubmatch(body); m != nil {
		if n := len(t.frames) - 1; n >= 0 && t.frames[n].name == "" && t.frames[n].row == row-1 {
			t.frames[n].name, t.frames[n].row = m[1], row
			return true
		}
	}
	if m := parsedFrame.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{m[1], m[2], "", row})
		return true
	}
	return false
}

// rich reads a line within rich's box: a frame, or a part of one that rich has wrapped.
func (t *frameReader) rich(body string, row int) {
	last := len(t.frames) - 1
	if m := richFrame.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{t.prefix + m[1], m[2], m[3], row})
	} else if m := richName.FindStringSubmatch(body); m != nil && last >= 0 && t.frames[last].name == "" {
		t.frames[last].name = m[1]
	} else if strings.HasPrefix(body, "/") && !strings.ContainsAny(body, " :") {
		t.prefix = body
		return
	}
	t.prefix = ""
}

// ipython reads a frame as IPython prints it.
func (t *frameReader) ipython(body string, row int) {
	last := len(t.frames) - 1
	if m := ipyCell.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{m[1], m[2], withoutClass(cmp.Or(m[3], "<module>")), row})
	} else if m := ipyFrame.FindStringSubmatch(body); m != nil {
		t.frames = append(t.frames, frame{m[1], m[2], withoutClass(m[3]), row})
	} else if m := ipyOld.FindStringSubmatch(body); m != nil {
		if strings.HasPrefix(m[2], "<cell") {
			m[2] = "<module>"
		}
		t.frames = append(t.frames, frame{strings.TrimSuffix(m[1], ","), "", withoutClass(m[2]), row})
		t.old = last + 1
	} else if m := ipyArrow.FindStringSubmatch(body); m != nil && t.old == last && last >= 0 {
		t.frames[last].line = m[1]
	}
}

// withoutClass is the name of a function without that of its class.
func withoutClass(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// installed says that a path belongs to Python or to an installed package, and so is nobody's own code. A source build of
// torch is one too.
func (f frame) installed() bool {
	p := strings.ToLower(strings.ReplaceAll(f.path, `\`, "/"))
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

// own returns the innermost frame outside installed packages, as "file.py:LINE in func", or "". Of a file that could not
// be parsed there is no function.
func own(frames []frame) string {
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		parsed := f.name == "" && i == len(frames)-1 && strings.HasSuffix(f.path, ".py")
		if f.installed() || f.line == "" || f.name == "" && !parsed {
			continue
		}
		at := path.Base(strings.ReplaceAll(f.path, `\`, "/")) + ":" + f.line
		if parsed {
			return at
		}
		return at + " in " + f.name
	}
	return ""
}
