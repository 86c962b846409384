package printed

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// A row is a line of an excerpt, and what is left of it without the prefixes that launchers put before each line.
type Row struct {
	Number int
	Text   string
	Body   string
	Rank   string // as "[rank3]", where the prefix says so
	Boxed  bool   // it stood in a box
	More   bool   // it goes on a line that another row began
	Mild   bool   // it stood in a logger's record whose level is that of a program that goes on
	Source bool   // it stood in the box of a traceback, which shows source and not what happened
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
var linePrefix = rx(`^(?:(\[[A-Za-z_]+\d+\]:|\[\d+,[\w:,-]+\]<std\w+>:) ?|\s{0,4}(\[[A-Za-z_]*:?\s?\d+\]:?|` +
	`\[\d+,[\w:,-]+\]<std\w+>:?|\d+:|\([\w.:\[\] -]{0,60}?(?:pid|ip|rank)=[^)]*\)|[\w.-]+[-_]\d+ +\||[\w.-]+ {2,}\||` +
	`\[pod/[\w./-]+\]|(?:[a-z]\w*(?:-\w+)*-\d+|(?:gpu|node|worker|host|compute)\d+|\d+\.\d+\.\d+\.\d+):)(?: |$)|` +
	`(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+\.py:\d+\](?: |$)|(?:` + stamp + `)(?: |$)|(?:#+ |> ))`)

// stamp is a time that was put before a line by who passed it on, not by who wrote it.
const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)(?: std(?:out|err) [FP]|` +
	` [\w.-]+ [\w.@/-]+(?:\[\d+\])?:)?|(?:\pL{3,9}\.?|\d+月) [ \d]?\d \d\d:\d\d:\d\d [\w.-]+ [\w.@/-]+\[\d+\]:|` +
	`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [\w.-]+ [\w.@/-]+(?:\[\d+\])?:)?`

// MaxRow bounds a row, in bytes: all that is read of a text is read of rows, and what a rule costs grows with its
// length. The longest message of an allocator has 900 bytes.
const MaxRow = 2 << 10

// rows cleans the lines of an excerpt, and says where the first line that matters begins. A line is several rows if it
// holds several lines as JSON, or is longer than MaxRow.
func Rows(lines []Held, first int, words *Words) ([]Row, int) {
	out := make([]Row, 0, len(lines))
	from, source := 0, false
	for i, l := range lines {
		if i == first {
			from = len(out)
		}
		more := false
		texts := unwrap(l.Text)
		mild, rank := false, ""
		if strings.HasPrefix(strings.TrimSpace(l.Text), `{"`) {
			mild = len(texts) > 2 && mildRecord(l.Text, 0)
			if m := rankField.FindStringSubmatch(l.Text); m != nil {
				rank = "rank=" + m[1]
			}
		}
		for _, text := range texts {
			for text != "" || !more {
				piece := text
				if len(text) > MaxRow {
					piece = text[:cut(text, words)]
				}
				text = text[len(piece):]
				r := Row{Number: l.Number, Text: l.Text, Body: piece, More: more, Mild: mild}
				if more || text != "" {
					r.Text = piece
				}
				r.Unprefix()
				r.unbox()
				r.Rank = cmp.Or(r.Rank, rank)
				if r.Boxed && strings.Contains(r.Body, "Traceback (most recent call last)") {
					source = true
				}
				source = source && r.Boxed
				r.Source = source
				if more && r.Rank == "" {
					r.Rank = out[len(out)-1].Rank
				}
				out = append(out, r)
				more = true
			}
		}
	}
	if first >= len(lines) {
		from = len(out)
	}
	unstamp(out)
	return out, from
}

const beginsTrace = "Traceback (most recent call last):"

// unstamp takes off what a logger has put before each line of a traceback, of whatever form: what stands before its
// first line stands before the others too, with other digits. A warning's is left, which a program goes on after.
func unstamp(rs []Row) {
	for i := 0; i+1 < len(rs); i++ {
		head, _, ok := strings.Cut(rs[i].Body, beginsTrace)
		if !ok || head == "" || len(head) > 160 || mildHead.MatchString(head) {
			continue
		}
		if next, ok := without(rs[i+1].Body, head); !ok || !strings.HasPrefix(next, "  File ") {
			continue
		}
		for others := 0; i < len(rs) && others < 5; i++ {
			if rest, ok := without(rs[i].Body, head); ok {
				rs[i].Body, others = rest, 0
			} else {
				others++
			}
		}
	}
}

// mildHead is a level of a record that is no failure.
var mildHead = rx(`(?i)\b(?:warn(?:ing)?|info|debug)\b`)

// without returns a line without a head, whose digits may be others, as many as they need; false if it has none.
func without(line, head string) (string, bool) {
	digit := func(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	at := 0
	for i := 0; i < len(head); {
		if digit(head, i) && digit(line, at) {
			for digit(head, i) {
				i++
			}
			for digit(line, at) {
				at++
			}
			continue
		}
		if at >= len(line) || line[at] != head[i] {
			return "", strings.TrimSpace(head[i:]) == "" && at == len(line)
		}
		i, at = i+1, at+1
	}
	return line[at:], true
}

// cut returns where to end the first row of a text that is longer than one: at a space, and if there is one, far from
// all words that matter, so that none is torn in two.
func cut(text string, words *Words) int {
	const room = 48 // longer than any word
	first := 0
	for at := MaxRow; ; {
		at = strings.LastIndexByte(text[:at], ' ')
		if at <= MaxRow/2 {
			break
		}
		if words.Scan([]byte(text[at-room:min(len(text), at+room)]))&^(MarkBar|MarkStat|MarkCount) == 0 {
			return at
		}
		first = max(first, at)
	}
	if first > 0 {
		return first
	}
	at := MaxRow
	for at > MaxRow-4 && !utf8.RuneStart(text[at]) {
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
func (r *Row) Unprefix() {
	for range 4 {
		m := linePrefix.FindStringSubmatchIndex(r.Body)
		if m == nil {
			break
		}
		for g := 2; g < len(m) && r.Rank == ""; g += 2 {
			if m[g] >= 0 {
				r.Rank = strings.TrimSuffix(r.Body[m[g]:m[g+1]], ":")
			}
		}
		r.Body = r.Body[m[1]:]
	}
	if message, ok := RichFirst([]byte(r.Body)); ok {
		r.Mild = r.Mild || warningHead.MatchString(r.Body)
		r.Body = string(message)
	}
}

// warningHead is the level of a warning at the head of a record. Whole programs are logged at level INFO by who started
// them: that says nothing.
var warningHead = rx(`^(?:\[[^\]]{4,24}\]\s+|\s*)WARNING\s`)

// Warned reports whether a row is of a warning, and not the last that was printed: the program went on.
func Warned(rs []Row, i int) bool {
	said := func(r Row) bool { return !r.Mild && strings.TrimSpace(r.Body) != "" }
	return rs[i].Mild && slices.ContainsFunc(rs[i+1:], said)
}

// unbox takes off the frame that rich draws around a traceback (Rich, rich/traceback.py and rich/box.py).
func (r *Row) unbox() {
	s := strings.TrimSpace(r.Body)
	switch {
	case strings.HasPrefix(s, "╭"), strings.HasPrefix(s, "╰"), strings.HasPrefix(s, "┌"), strings.HasPrefix(s, "└"):
		r.Boxed = true
		r.Body = strings.Trim(s, "╭╮╰╯┌┐└┘─ ")
	case strings.HasPrefix(s, "│"):
		r.Boxed = true
		r.Body = strings.TrimPrefix(strings.TrimSuffix(s, "│"), "│")
	}
}

func Clip(s string) string {
	if len(s) > Clipped {
		return strings.ToValidUTF8(s[:Clipped], "") + "…"
	}
	return s
}

const Clipped = 600

func Near(rs []Row, at, before, after int) []Row {
	return rs[max(0, at-before):min(len(rs), at+after+1)]
}

func Joined(rs []Row) string {
	var b strings.Builder
	for _, r := range rs {
		b.WriteString(Clip(r.Body))
		b.WriteByte('\n')
	}
	return b.String()
}

// Fenced reports whether a line is alone in a code block of a Markdown page with headings, or is shortened there with
// dots: then the page explains the message. A pasted log has more lines.
func Fenced(rs []Row, at int) bool {
	fence := func(i, step int) bool {
		for i += step; i >= 0 && i < len(rs); i += step {
			if s := strings.TrimSpace(rs[i].Body); s != "" {
				return strings.HasPrefix(s, "```") || strings.HasPrefix(s, "~~~")
			}
		}
		return false
	}
	if !fence(at, -1) || !fence(at, 1) {
		return false
	}
	return elided.MatchString(rs[at].Body) || slices.ContainsFunc(Near(rs, at, 12, 0), func(r Row) bool {
		return heading.MatchString(r.Text)
	})
}

var (
	heading = rx(`^#{1,6} \w`)
	elided  = rx(`[\w(](?:\.\.\.|…)(?:\W|$)`)
)
