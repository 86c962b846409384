package draft

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// A message is a line that the program prints, as far as its source shows it.
type message struct {
	f         *file
	statement int
	token     int
	pieces    []piece
	loops     int    // how many loops it stands in
	scope     string // names of the functions and headers around it
	condition string // of the nearest "if" around it that is no check of the rank
	bar       bool   // it is written over itself, such as a progress bar's description
	raw       bool   // it is printed as it is, without a logger's time and level
}

// A piece of a message is a text, or an expression.
type piece struct {
	text  string
	field string // the expression; "" for a text
	width bool   // it may be padded
}

// printing are the functions and methods that print, by the last part of their names.
var printing = []string{"print", "info", "warning", "log", "write", "set_description", "set_description_str",
	"set_postfix_str", "print0", "print_rank_0", "rank_zero_info", "rprint", "print_log", "master_print",
	"cprint", "echo", "secho", "log_print", "printlog", "logging", "logger"}

// messages are those of the project, the script's first.
func (d *drafting) messages() (all []message) {
	for _, f := range d.files {
		for i, s := range f.Statements {
			for _, c := range f.Calls(s.Range) {
				name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
				if !slices.Contains(printing, name) || d.logsToFile() && strings.HasPrefix(c.Name, "logging.") {
					continue
				}
				m := message{f: f, statement: i, token: c.First, pieces: joined(f.printed(c, name)),
					bar: strings.HasPrefix(name, "set_"), raw: c.Name == "print" || name == "echo"}
				if !slices.ContainsFunc(m.pieces, func(p piece) bool { return strings.TrimSpace(p.text) != "" }) ||
					slices.ContainsFunc(m.pieces, func(p piece) bool { return unfilled.MatchString(p.text) }) {
					continue
				}
				if !d.reached()[f][i] {
					continue
				}
				f.around(&m, i)
				all = append(all, m)
			}
		}
	}
	return all
}

// logsToFile reports whether the program's log goes to a file alone: logging.basicConfig(filename=…) without another
// handler.
func (d *drafting) logsToFile() bool {
	if slices.ContainsFunc(d.files, func(f *file) bool { return strings.Contains(f.Code, "StreamHandler") }) {
		return false
	}
	return slices.ContainsFunc(d.callsOf("basicConfig"), func(c call) bool {
		_, is := python.Keyword(c.f.Args(c.call.Open), "filename")
		return is
	})
}

// unfilled matches what a logger fills in from arguments that were not understood.
var unfilled = lazy.MustCompile(`%[-+ 0]?\d*(\.\d+)?[dfs]\b`)

// joined makes one text of texts that follow each other.
func joined(pieces []piece) (out []piece) {
	for _, p := range pieces {
		if n := len(out) - 1; n >= 0 && p.field == "" && out[n].field == "" {
			out[n].text += p.text
		} else if p.field != "" || p.text != "" {
			out = append(out, p)
		}
	}
	return out
}

var rankCheck = lazy.MustCompile(`rank|is_primary|is_main|is_local_main|is_master|main_process|master_process|` +
	`__name__|verbose|log_interval|print_freq|% `)

// around notes the loops, functions and conditions that a message stands in.
func (f *file) around(m *message, i int) {
	for i = f.Statements[i].In; i >= 0; i = f.Statements[i].In {
		s := f.Statements[i]
		switch text := f.Of(s.Range); f.Token(s.First) {
		case "for", "while":
			m.loops++
			m.scope += " " + text
		case "def", "class", "async":
			m.scope += " " + text
		case "if", "elif", "else", "except":
			if m.condition == "" && !rankCheck.MatchString(text) {
				m.condition = text
			}
		}
	}
}

// printed is what a call prints.
func (f *file) printed(c python.Call, name string) (out []piece) {
	var positional []python.Range
	for _, a := range f.Args(c.Open) {
		if a.Name == "" && a.Stars == 0 {
			positional = append(positional, a.Range)
		}
	}
	if len(positional) == 0 {
		return nil
	}
	first := f.pieces(positional[0], 0)
	if name != "print" && len(positional) > 1 && len(first) == 1 && strings.Contains(first[0].text, "%") {
		return f.percent(first[0].text, positional[1:])
	}
	if name == "print" || name == "info" || name == "rprint" {
		for i, p := range positional {
			if i > 0 {
				out = append(out, piece{text: " "})
			}
			out = append(out, f.pieces(p, 0)...)
		}
		return out
	}
	return first
}

// pieces are the texts and expressions of a string that an expression makes.
func (f *file) pieces(e python.Range, depth int) (out []piece) {
	if e.Empty() || depth > 8 {
		return nil
	}
	if f.Tokens[e.First].Pair == e.End-1 && f.Is(e.First, "(") && f.Find(f.Inside(e.First), ",") < 0 {
		return f.pieces(f.Inside(e.First), depth+1)
	}
	if parts := f.Split(e, "+"); len(parts) > 1 && strings.ContainsAny(f.Of(e), `"'`) {
		for _, p := range parts {
			out = append(out, f.pieces(p, depth+1)...)
		}
		return out
	}
	n := e.First
	for n < e.End && f.Tokens[n].Kind == python.String {
		n++
	}
	switch {
	case n == e.First:
		return []piece{{field: f.unstr(e)}}
	case n == e.End:
		for i := e.First; i < e.End; i++ {
			out = append(out, formatted(f.Token(i))...)
		}
		return out
	case f.Is(n, "%"):
		text, ok := f.Str(python.Range{First: e.First, End: n})
		if !ok {
			break
		}
		values := python.Range{First: n + 1, End: e.End}
		if f.Is(n+1, "(") && f.Tokens[n+1].Pair == e.End-1 {
			return f.percent(text, f.Split(f.Inside(n+1), ","))
		}
		return f.percent(text, []python.Range{values})
	case f.Is(n, ".") && f.Is(n+1, "format") && f.Is(n+2, "("):
		if text, ok := f.Str(python.Range{First: e.First, End: n}); ok {
			return f.format(text, f.Args(n+2))
		}
	}
	return []piece{{field: f.Of(e)}}
}

// unstr is an expression without a str() around it.
func (f *file) unstr(e python.Range) string {
	if f.Is(e.First, "str") && f.Is(e.First+1, "(") && e.First+1 < e.End && f.Tokens[e.First+1].Pair == e.End-1 {
		return f.Of(f.Inside(e.First + 1))
	}
	return f.Of(e)
}

var verb = lazy.MustCompile(`%(?:\((\w+)\))?[-+ #0]*(\d*|\*)(?:\.\d+)?[a-zA-Z%]`)

// percent are the pieces of a text with %d and its likes.
func (f *file) percent(text string, values []python.Range) (out []piece) {
	at, n := 0, 0
	for _, m := range verb.FindAllStringSubmatchIndex(text, -1) {
		out = append(out, piece{text: text[at:m[0]]})
		at = m[1]
		if strings.HasSuffix(text[m[0]:m[1]], "%") {
			out = append(out, piece{text: "%"})
			continue
		}
		p := piece{field: "?", width: m[4] >= 0 && m[5] > m[4]}
		if n < len(values) {
			p.field = f.Of(values[n])
		}
		n++
		out = append(out, p)
	}
	return append(out, piece{text: text[at:]})
}

var brace = lazy.MustCompile(`\{\{|\}\}|\{([^{}:!]*)(![rsa])?(:[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}`)

// format are the pieces of a text with {} and its likes.
func (f *file) format(text string, args []python.Arg) (out []piece) {
	at, n := 0, 0
	for _, m := range brace.FindAllStringSubmatchIndex(text, -1) {
		out = append(out, piece{text: text[at:m[0]]})
		at = m[1]
		if m[2] < 0 {
			out = append(out, piece{text: text[m[0] : m[0]+1]})
			continue
		}
		name := text[m[2]:m[3]]
		p := piece{field: name, width: m[6] >= 0 && padded(text[m[6]:m[7]])}
		head, tail, _ := strings.Cut(name, ".")
		head, _, _ = strings.Cut(head, "[")
		index := n
		if head == "" {
			n++
		} else if _, err := fmt.Sscan(head, &index); err != nil {
			index = -1
			if a, ok := python.Keyword(args, head); ok {
				p.field = strings.TrimSuffix(f.Of(a.Range)+"."+tail, ".")
			}
		}
		if index >= 0 && index < len(args) && args[index].Name == "" && args[index].Stars == 0 {
			p.field = strings.TrimSuffix(f.Of(args[index].Range)+"."+tail, ".")
		}
		out = append(out, p)
	}
	return append(out, piece{text: text[at:]})
}

var widths = lazy.MustCompile(`^:.?[<>^=]?[+ ]?#?0?[1-9{]`)

func padded(spec string) bool { return widths.MatchString(spec) && !strings.HasPrefix(spec, ":.") }

// formatted are the pieces of a string literal.
func formatted(token string) (out []piece) {
	i := strings.IndexAny(token, `"'`)
	if i < 0 {
		return nil
	}
	if !strings.ContainsAny(strings.ToLower(token[:i]), "f") {
		if text, ok := python.Literal(token); ok {
			return []piece{{text: text}}
		}
		return nil
	}
	quote := token[i : i+1]
	if strings.HasPrefix(token[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	body := strings.TrimSuffix(token[i+len(quote):], quote)
	for body != "" {
		open := strings.IndexByte(body, '{')
		if open < 0 {
			break
		}
		if strings.HasPrefix(body[open:], "{{") {
			out = append(out, plain(body[:open+1]))
			body = body[open+2:]
			continue
		}
		out = append(out, plain(body[:open]))
		field, spec, n := replacement(body[open:])
		out = append(out, piece{field: field, width: padded(spec)})
		body = body[open+n:]
	}
	return append(out, plain(body))
}

func plain(s string) piece {
	if text, ok := python.Literal(`"` + strings.NewReplacer(`"`, `\"`, `}}`, `}`).Replace(s) + `"`); ok {
		return piece{text: text}
	}
	return piece{text: s}
}

// replacement is the expression and the format of a replacement field, and its length.
func replacement(s string) (field, spec string, n int) {
	depth, colon := 0, -1
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			if end := strings.IndexByte(s[i+1:], c); end >= 0 {
				i += end + 1
			}
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case depth == 0 && c == '}':
			if colon < 0 {
				colon = i
			}
			field, _, _ = strings.Cut(s[1:colon], "!r")
			return strings.TrimSuffix(strings.TrimSpace(field), "="), s[colon:i], i + 1
		case depth == 0 && c == ':' && colon < 0:
			colon = i
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
	}
	return strings.TrimSpace(s[1:]), "", len(s)
}

var (
	pathEnd   = lazy.MustCompile(`[\w./~-]*$`)
	pathBegin = lazy.MustCompile(`^[\w/-]*(?:\.[\w/-]+)*`)
)

// path is a message in which all pieces of a path are one: those around a field without a space between them.
func (m *message) path(at int) (whole message, field int) {
	whole = *m
	first, last := at, at
	before, after := "", ""
	for first > 0 {
		p := m.pieces[first-1]
		tail := pathEnd.FindString(p.text)
		if before = p.text[:len(p.text)-len(tail)]; before != "" || p.field == "" && first < 2 {
			break
		}
		first-- // all of the text is of the path, and so is the field before it
	}
	for last+1 < len(m.pieces) {
		p := m.pieces[last+1]
		head := pathBegin.FindString(p.text)
		if after = p.text[len(head):]; after != "" || p.field == "" && last+2 >= len(m.pieces) {
			break
		}
		last++
	}
	whole.pieces = nil
	if first > 0 {
		whole.pieces = append(whole.pieces, m.pieces[:first-1]...)
		whole.pieces = append(whole.pieces, piece{text: before})
	}
	field = len(whole.pieces)
	whole.pieces = append(whole.pieces, m.pieces[at])
	if last+1 < len(m.pieces) {
		whole.pieces = append(whole.pieces, piece{text: after})
		whole.pieces = append(whole.pieces, m.pieces[last+2:]...)
	}
	return whole, field
}

var letter = lazy.MustCompile(`\p{L}`)

// vague reports whether no word stands on the line before a field, so that other lines could match its pattern.
// A line that a print begins by marks and the field is not vague: its pattern is anchored.
func (m *message) vague(at int) bool {
	marks, fields := "", 0
	for i := at - 1; i >= 0; i-- {
		text := m.pieces[i].text
		line := text[strings.LastIndexByte(text, '\n')+1:]
		if letter.MatchString(line) {
			return false
		}
		if m.pieces[i].field != "" {
			fields++
		}
		if marks += line; line != text {
			break
		}
	}
	if at+1 < len(m.pieces) {
		after, _, _ := strings.Cut(m.pieces[at+1].text, "\n")
		marks += after
	}
	n := len(strings.Join(strings.Fields(marks), ""))
	return !m.raw || n == 0 || fields > 0 && n < 3
}

// text is an RE2 expression of a whole message.
func (m *message) text() string {
	var b strings.Builder
	for _, p := range m.pieces {
		b.WriteString(cond(p.field != "", `.*?`, escaped(p.text)))
	}
	return strings.TrimRight(b.String(), ": ")
}

// pattern is an RE2 expression of a message in which one or two fields are named groups. Texts match as they are,
// spaces as any spaces.
func (m *message) pattern(groups map[int]string) string {
	first, last := len(m.pieces), -1
	for i := range groups {
		first, last = min(first, i), max(last, i)
	}
	for first > 0 && !strings.Contains(m.pieces[first-1].text, "\n") { // the line with the fields
		first--
	}
	head := ""
	if first > 0 {
		text := m.pieces[first-1].text
		head = escaped(strings.TrimLeft(text[strings.LastIndexByte(text, '\n')+1:], " \t\r"))
	}
	begin := first
	for first < last && groups[first] == "" && strings.TrimSpace(m.pieces[first].text) == "" && head == "" {
		first++ // what comes first says nothing
	}
	var b strings.Builder
	words := head
	for _, p := range m.pieces[begin:last] {
		words += p.text
	}
	if m.raw && groups[last] == iteration && first == begin && !letter.MatchString(words) { // marks alone match anywhere
		b.WriteString(`^`)
	}
	b.WriteString(head)
	for i := first; i <= last; i++ {
		p := m.pieces[i]
		switch {
		case groups[i] != "":
			if p.width {
				b.WriteString(`\s*`)
			}
			b.WriteString(groups[i])
		case p.field != "":
			b.WriteString(`.*?`)
		default:
			text := p.text
			if b.Len() == 0 {
				text = strings.TrimLeft(text, " \t\r\n")
			}
			b.WriteString(escaped(text))
		}
	}
	if last+1 < len(m.pieces) { // what follows, up to the next word's end: "10/" is no "1"
		text, _, _ := strings.Cut(m.pieces[last+1].text, "\n")
		if text = strings.TrimRight(text, " \t"); text != "" && len(text) <= 12 {
			b.WriteString(escaped(text))
		}
	}
	return b.String()
}

var spaces = lazy.MustCompile(`[ \t]+`)

func escaped(text string) string {
	var b strings.Builder
	at := 0
	for _, m := range spaces.FindAllStringIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[at:m[0]]))
		b.WriteString(cmp.Or(map[bool]string{true: " "}[text[m[0]:m[1]] == " "], `\s+`))
		at = m[1]
	}
	b.WriteString(regexp.QuoteMeta(text[at:]))
	return strings.ReplaceAll(b.String(), "\n", `\s*`)
}
