package python

import (
	"slices"
	"strconv"
	"strings"
)

// A Kind says what a token is.
type Kind uint8

const (
	Op     Kind = iota // an operator, a bracket, a comma
	Word               // a name or a keyword
	Number             // as it is spelled
	String             // with its prefix and its quotes
)

// A Token is one token of a file. Offsets are in its text.
type Token struct {
	Kind     Kind
	From, To int
	Pair     int // of a bracket: the token that closes or opens it; -1 where there is none, and for other tokens
}

// A Range is some tokens of a file, the last exclusive.
type Range struct{ First, End int }

// Empty reports whether the range has no token.
func (r Range) Empty() bool { return r.First >= r.End }

// A Statement is a logical line: brackets and backslashes join lines, a semicolon ends one. A header such as "if
// x:" is a statement, and a body on its line belongs to it.
type Statement struct {
	Range
	Indent int
	In     int // the header in whose block it stands; -1 for the module's own
}

// Syntax is a file by its tokens and statements. It is less than a syntax tree and is made of any text: what is not
// Python gives tokens without sense, not an error.
type Syntax struct {
	Source
	Tokens     []Token
	Statements []Statement
	lines      []int // where each line begins
}

// Syntax reads the source's tokens.
func (s Source) Syntax() *Syntax {
	x := &Syntax{Source: s, Tokens: make([]Token, 0, len(s.Text)/6)} // a token has about six bytes
	x.lines = []int{0}
	for i, c := range []byte(s.Text) {
		if c == '\n' {
			x.lines = append(x.lines, i+1)
		}
	}
	l := lexer{Syntax: x}
	for l.at < len(s.Text) {
		l.next()
	}
	l.end()
	x.nest()
	return x
}

// nest finds the block that each statement stands in.
func (x *Syntax) nest() {
	var open []int
	for i := range x.Statements {
		for len(open) > 0 && x.Statements[open[len(open)-1]].Indent >= x.Statements[i].Indent {
			open = open[:len(open)-1]
		}
		x.Statements[i].In = -1
		if len(open) > 0 {
			x.Statements[i].In = open[len(open)-1]
		}
		open = append(open, i)
	}
}

// A lexer is where in a text its tokens are read.
type lexer struct {
	*Syntax
	at     int
	open   []int // brackets that are open
	first  int   // the first token of the statement
	indent int
}

// end ends the statement.
func (l *lexer) end() {
	if l.first < len(l.Tokens) {
		l.Statements = append(l.Statements, Statement{Range: Range{l.first, len(l.Tokens)}, Indent: l.indent})
	}
	l.first = len(l.Tokens)
}

func (l *lexer) add(kind Kind, to int) {
	if l.first == len(l.Tokens) && (len(l.Tokens) == 0 || !l.sameLine()) {
		l.indent = l.column()
	}
	l.Tokens = append(l.Tokens, Token{kind, l.at, to, -1})
	l.at = to
}

// sameLine reports whether a semicolon ended the statement before.
func (l *lexer) sameLine() bool {
	return !strings.Contains(l.Text[l.Tokens[len(l.Tokens)-1].To:l.at], "\n")
}

// column is the indentation of the line, a tab to the next multiple of eight.
func (l *lexer) column() (n int) {
	for _, c := range []byte(l.Text[strings.LastIndexByte(l.Text[:l.at], '\n')+1 : l.at]) {
		switch c {
		case '\t':
			n += 8 - n%8
		case ' ':
			n++
		}
	}
	return n
}

// next reads one token, or what stands between tokens.
func (l *lexer) next() {
	text := l.Text
	switch c := text[l.at]; {
	case c == '\n':
		if l.at++; len(l.open) == 0 {
			l.end()
		}
	case c == '#':
		l.at = endOfLine(text, l.at)
	case c == '\\' && strings.HasPrefix(text[l.at+1:], "\n"):
		l.at += 2
	case c == '\\' && strings.HasPrefix(text[l.at+1:], "\r\n"):
		l.at += 3
	case c <= ' ':
		l.at++
	case c == '"' || c == '\'':
		l.add(String, endOfString(text, l.at))
	case c-'0' < 10, c == '.' && l.at+1 < len(text) && text[l.at+1]-'0' < 10:
		l.add(Number, endOfNumber(text, l.at))
	case wordByte(c) || c >= 0x80:
		l.word()
	case c == ';' && len(l.open) == 0:
		l.at++
		l.end()
	default:
		l.operator()
	}
}

func (l *lexer) word() {
	end := l.at
	for end < len(l.Text) && (wordByte(l.Text[end]) || l.Text[end] >= 0x80) {
		end++
	}
	if end < len(l.Text) && (l.Text[end] == '"' || l.Text[end] == '\'') && prefix(l.Text[l.at:end]) {
		l.add(String, endOfString(l.Text, end))
		return
	}
	l.add(Word, end)
}

// prefix reports whether a word may stand before a string's quotes.
func prefix(word string) bool {
	return len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbuft") == ""
}

func endOfNumber(text string, i int) int {
	start := i
	for i < len(text) && (wordByte(text[i]) || text[i] == '.' || strings.IndexByte("+-", text[i]) >= 0 &&
		strings.IndexByte("eE", text[i-1]) >= 0 && i > start && !strings.HasPrefix(text[start:], "0x")) {
		i++
	}
	return i
}

// operators of more than one character.
var operators = []string{"**=", "//=", "<<=", ">>=", "...", "->", ":=", "**", "//", "==", "!=", "<=", ">=",
	"<<", ">>", "+=", "-=", "*=",
	"/=", "%=", "|=", "&=", "^=", "@="}

func (l *lexer) operator() {
	c := l.Text[l.at]
	if strings.IndexByte("([{)]},", c) < 0 {
		for _, op := range operators {
			if strings.HasPrefix(l.Text[l.at:], op) {
				l.add(Op, l.at+len(op))
				return
			}
		}
	}
	l.add(Op, l.at+1)
	i := len(l.Tokens) - 1
	switch strings.IndexByte("([{)]}", c) {
	case 0, 1, 2:
		l.open = append(l.open, i)
	case 3, 4, 5:
		if n := len(l.open) - 1; n >= 0 {
			l.Tokens[i].Pair, l.Tokens[l.open[n]].Pair = l.open[n], i
			l.open = l.open[:n]
		}
	}
}

// Is reports whether a token is that text; what is past the end is none.
func (x *Syntax) Is(token int, text string) bool { return x.Token(token) == text }

// Token is the text of a token, "" past the end.
func (x *Syntax) Token(i int) string {
	if i < 0 || i >= len(x.Tokens) {
		return ""
	}
	return x.Text[x.Tokens[i].From:x.Tokens[i].To]
}

// Of is the text of a range as it is written.
func (x *Syntax) Of(r Range) string {
	if r.Empty() {
		return ""
	}
	return x.Text[x.Tokens[r.First].From:x.Tokens[r.End-1].To]
}

// LineOf is the line of a token.
func (x *Syntax) LineOf(token int) int {
	if token >= len(x.Tokens) {
		return 0
	}
	n, found := slices.BinarySearch(x.lines, x.Tokens[token].From)
	if found {
		n++
	}
	return n
}

// Inside is what stands between a bracket and its pair. A bracket without one has nothing inside.
func (x *Syntax) Inside(open int) Range {
	if open >= len(x.Tokens) || x.Tokens[open].Pair < open {
		return Range{}
	}
	return Range{open + 1, x.Tokens[open].Pair}
}

// Split splits a range at an operator that stands in no bracket.
func (x *Syntax) Split(r Range, op string) (out []Range) {
	first := r.First
	for i := r.First; i < r.End; i++ {
		switch {
		case x.Tokens[i].Pair > i:
			i = x.Tokens[i].Pair
		case x.Tokens[i].Kind == Op && x.Token(i) == op:
			out = append(out, Range{first, i})
			first = i + 1
		}
	}
	if first < r.End {
		out = append(out, Range{first, r.End})
	}
	return out
}

// Find is the first token of a range that is that operator and stands in no bracket, or -1.
func (x *Syntax) Find(r Range, op string) int {
	for i := r.First; i < r.End; i++ {
		switch {
		case x.Token(i) == op && x.Tokens[i].Kind != String:
			return i
		case x.Tokens[i].Pair > i:
			i = x.Tokens[i].Pair
		}
	}
	return -1
}

// An Arg is one argument of a call.
type Arg struct {
	Name  string // of a keyword
	Stars int    // of *args and **kwargs
	Range        // the value
}

// Args are the arguments of the call whose bracket is open.
func (x *Syntax) Args(open int) (out []Arg) {
	for _, r := range x.Split(x.Inside(open), ",") {
		a := Arg{Range: r}
		switch {
		case x.Is(r.First, "*") || x.Is(r.First, "**"):
			a.Stars = len(x.Token(r.First))
			a.First++
		case r.First+1 < r.End && x.Tokens[r.First].Kind == Word && x.Is(r.First+1, "="):
			a.Name = x.Token(r.First)
			a.First += 2
		}
		out = append(out, a)
	}
	return out
}

// Keyword is the argument of that name.
func Keyword(args []Arg, name string) (Arg, bool) {
	i := slices.IndexFunc(args, func(a Arg) bool { return a.Name == name && a.Stars == 0 })
	if i < 0 {
		return Arg{}, false
	}
	return args[i], true
}

// A Call is a call by a name, such as "parser.add_argument". What is called on another expression begins with a dot.
type Call struct {
	Name  string
	First int // the name's first token
	Open  int // the bracket
}

// Calls lists the calls in a range, the outer before the inner.
func (x *Syntax) Calls(r Range) (out []Call) {
	for i := r.First; i < r.End; i++ {
		if x.Tokens[i].Kind != Op || !x.Is(i, "(") || i == r.First || x.Tokens[i-1].Kind != Word {
			continue
		}
		first := i - 1
		for first-2 >= r.First && x.Is(first-1, ".") && x.Tokens[first-2].Kind == Word {
			first -= 2
		}
		name := x.Of(Range{first, i})
		if first > r.First && x.Is(first-1, ".") {
			name = "." + name
		}
		if !keywords[name] && !x.Is(first-1, "def") && !x.Is(first-1, "class") {
			if strings.ContainsAny(name, " \t\r\n\f") { // spaces may stand around the dots
				name = strings.Join(strings.Fields(name), "")
			}
			out = append(out, Call{name, first, i})
		}
	}
	return out
}

// keywords that may stand before a bracket, and call nothing.
var keywords = map[string]bool{"if": true, "elif": true, "while": true, "for": true, "in": true, "not": true,
	"and": true, "or": true, "return": true, "assert": true, "lambda": true, "yield": true, "is": true, "del": true,
	"with": true, "else": true, "import": true}

// Dotted is a range that is a name such as "a.b.c".
func (x *Syntax) Dotted(r Range) (string, bool) {
	var name strings.Builder
	for i := r.First; i < r.End; i++ {
		if word := (i-r.First)%2 == 0; word != (x.Tokens[i].Kind == Word) || !word && !x.Is(i, ".") {
			return "", false
		}
		name.WriteString(x.Token(i))
	}
	return name.String(), (r.End-r.First)%2 == 1
}

// Str is a range that is a string literal, or several that Python joins. Bytes and f-strings with fields are none.
func (x *Syntax) Str(r Range) (string, bool) {
	for !r.Empty() && x.Is(r.First, "(") && x.Tokens[r.First].Pair == r.End-1 {
		r = Range{r.First + 1, r.End - 1}
	}
	var out strings.Builder
	for i := r.First; i < r.End; i++ {
		text, ok := Literal(x.Token(i))
		if x.Tokens[i].Kind != String || !ok {
			return "", false
		}
		out.WriteString(text)
	}
	return out.String(), !r.Empty()
}

// Literal is the text of a string token; ok is false for bytes, for an f-string with fields, and for one without an
// end.
func Literal(token string) (text string, ok bool) {
	i := strings.IndexAny(token, `"'`)
	if i < 0 {
		return "", false
	}
	how, body := strings.ToLower(token[:i]), token[i:]
	n := len(quotes(body, 0))
	if len(body) < 2*n || !strings.HasSuffix(body, body[:n]) || strings.ContainsAny(how, "b") {
		return "", false
	}
	body = body[n : len(body)-n]
	if strings.ContainsAny(how, "ft") && strings.ContainsAny(body, "{}") {
		return "", false
	}
	if strings.Contains(how, "r") || !strings.Contains(body, `\`) {
		return body, true
	}
	return unescape(body), true
}

// unescape replaces the escapes of a string literal. What is no escape stays, as in Python.
func unescape(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			break
		}
		out.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s[1:], "\n"):
			s = s[2:]
		case strings.IndexByte("abfnrtv\\'\"", s[1]) >= 0:
			if s[1] == '\'' || s[1] == '"' {
				out.WriteByte(s[1])
			} else {
				r, _, _, _ := strconv.UnquoteChar(s[:2], 0)
				out.WriteRune(r)
			}
			s = s[2:]
		default:
			if r, _, rest, err := strconv.UnquoteChar(s, 0); err == nil {
				out.WriteRune(r)
				s = rest
			} else {
				out.WriteString(s[:2])
				s = s[2:]
			}
		}
	}
	out.WriteString(s)
	return out.String()
}

// An Assignment is what a statement assigns to one name, or declares of it: "a.b: int = 8".
type Assignment struct {
	Name       string
	Annotation Range
	Value      Range // empty where the name is only declared
}

// Assigns is what a statement assigns, where that is one name or attribute.
func (x *Syntax) Assigns(s Statement) (Assignment, bool) {
	target, value := s.Range, Range{}
	if eq := x.Find(s.Range, "="); eq >= 0 {
		target, value = Range{s.First, eq}, Range{eq + 1, s.End}
		if x.Find(value, "=") >= 0 { // a = b = 1
			return Assignment{}, false
		}
	}
	a := Assignment{Value: value}
	if colon := x.Find(target, ":"); colon >= 0 {
		target, a.Annotation = Range{target.First, colon}, Range{colon + 1, target.End}
	}
	name, ok := x.Dotted(target)
	a.Name = name
	return a, ok && (!a.Annotation.Empty() || !value.Empty()) && !keywords[name] && name != "try" && name != "finally"
}

// A Definition is a statement that defines a function or a class.
type Definition struct {
	Class bool
	Name  string
	Open  int // the bracket of its parameters or bases; -1 where it has none
}

// Defines is what a statement defines.
func (x *Syntax) Definition(s Statement) (d Definition, ok bool) {
	i := s.First
	if x.Is(i, "async") {
		i++
	}
	if d.Class = x.Is(i, "class"); !d.Class && !x.Is(i, "def") || i+1 >= s.End || x.Tokens[i+1].Kind != Word {
		return d, false
	}
	d.Name, d.Open = x.Token(i+1), -1
	if x.Is(i+2, "[") && x.Tokens[i+2].Pair > 0 { // type parameters
		i = x.Tokens[i+2].Pair - 1
	}
	if x.Is(i+2, "(") && i+2 < s.End {
		d.Open = i + 2
	}
	return d, true
}

// Block is the statements in the block of a header, those in blocks of theirs included: from and to, the last
// exclusive.
func (x *Syntax) Block(header int) (from, to int) {
	to = header + 1
	for to < len(x.Statements) && x.Statements[to].Indent > x.Statements[header].Indent {
		to++
	}
	return header + 1, to
}

// Within reports whether a statement stands in the block of a header, or is it.
func (x *Syntax) Within(statement, header int) bool {
	for i := statement; i >= header; i = x.Statements[i].In {
		if i == header {
			return true
		}
	}
	return false
}
