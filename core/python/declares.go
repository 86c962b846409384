package python

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// An Option is one that a program declares to argparse.
type DeclaredOption struct {
	config.Option
	// Default is its default as it is spelled, a string without its quotes; "" where none is given.
	Default string
	// Required says that the program stops without it.
	Required bool
}

// Options lists the options that the code declares by add_argument, in order. Positional arguments are none.
func (s Source) Options() (out []DeclaredOption) {
	const call = "add_argument"
	for at := 0; ; {
		i := strings.Index(s.Code[at:], call)
		if i < 0 {
			return out
		}
		from := at + i
		at = from + len(call)
		rest, called := strings.CutPrefix(strings.TrimLeft(s.Code[at:], " \t"), "(")
		if !called || !whole(s.Code, from, at) {
			continue
		}
		if o := optionOf(Arguments(rest)); len(o.Names) > 0 {
			out = append(out, o)
		}
	}
}

// Declares returns the option of that name.
func (s Source) Declares(name string) (DeclaredOption, bool) {
	for _, o := range s.Options() {
		if slices.Contains(o.Names, name) {
			return o, true
		}
	}
	return DeclaredOption{}, false
}

// flags are the actions that take no argument. Others, and classes of a program's own, take one.
var flags = []string{"store_true", "store_false", "store_const", "append_const", "count", "help", "version", "argparse.BooleanOptionalAction", "BooleanOptionalAction"}

func optionOf(arguments []string) (o DeclaredOption) {
	for _, a := range arguments {
		if s, quoted := Unquote(a); quoted {
			if strings.HasPrefix(s, "-") {
				o.Names = append(o.Names, s)
			}
			continue
		}
		name, value, _ := strings.Cut(a, "=")
		value, _ = Unquote(strings.TrimSpace(value))
		switch strings.TrimSpace(name) {
		case "default":
			o.Default = value
		case "required":
			o.Required = value == "True"
		case "action":
			if slices.Contains(flags, value) {
				o.Takes = config.None
			}
		case "nargs":
			o.Takes = map[string]config.Takes{"*": config.Any, "+": config.Some, "?": config.Maybe}[value]
		}
	}
	return o
}

// Arguments splits what follows an opening bracket at its commas, up to the bracket that closes it.
func Arguments(code string) (out []string) {
	depth, start := 0, 0
	add := func(end int) {
		if a := strings.TrimSpace(code[start:end]); a != "" {
			out = append(out, a)
		}
		start = end + 1
	}
	for i := 0; i < len(code); {
		switch c := code[i]; {
		case c == '"' || c == '\'':
			i = endOfString(code, i)
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case depth == 0 && c == ',':
			add(i)
		case strings.IndexByte(")]}", c) >= 0:
			if depth == 0 {
				add(i)
				return out
			}
			depth--
		}
		i++
	}
	return out
}

// Unquote returns the text of a string literal without a prefix, and whether s is one; else s.
func Unquote(s string) (string, bool) {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && endOfString(s, 0) == len(s) && s[len(s)-1] == s[0] {
		n := len(quotes(s, 0))
		if len(s) >= 2*n {
			return s[n : len(s)-n], true
		}
	}
	return s, false
}

// Defines reports whether the module defines a class or a function of that name, without regard to case; what stands in another class or
// function is none of the module's.
func (s Source) Defines(name string) bool {
	var inside []int // indentations of the definitions that the line stands in
	depth := 0
	for line := range strings.Lines(blank(s.Text, func(int) bool { return true })) {
		text := strings.TrimLeft(line, " \t")
		if outer := depth; strings.TrimSpace(text) == "" {
			continue
		} else if depth = max(0, depth+brackets(text)); outer > 0 { // the line before goes on
			continue
		}
		indent := len(line) - len(text)
		for len(inside) > 0 && indent <= inside[len(inside)-1] {
			inside = inside[:len(inside)-1]
		}
		defined, is := definition(text)
		if is && len(inside) == 0 && strings.EqualFold(defined, name) {
			return true
		}
		if is {
			inside = append(inside, indent)
		}
	}
	return false
}

// brackets is how many more brackets a line opens than it closes.
func brackets(line string) (n int) {
	for _, c := range []byte(line) {
		switch c {
		case '(', '[', '{':
			n++
		case ')', ']', '}':
			n--
		}
	}
	return n
}

// definition is the name that a line defines as a class or a function.
func definition(line string) (name string, ok bool) {
	words := strings.FieldsFunc(line, func(r rune) bool { return r < 0x80 && !wordByte(byte(r)) })
	if len(words) > 2 && words[0] == "async" {
		words = words[1:]
	}
	if len(words) > 1 && (words[0] == "class" || words[0] == "def") && strings.IndexAny(line, " \t") > 0 {
		return words[1], true
	}
	return "", false
}
