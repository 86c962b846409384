package draft

import (
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/python"
)

// fewest is how many commands a table of commands has at least: a shorter one may be of anything.
const fewest = 3

// withoutOthers is the script without the other commands of a program that has several: in a table {"train": train,
// "serve": serve} the functions that the command does not name, and their imports. What those print, save and load is
// nothing of this command. Lines keep their numbers.
func withoutOthers(s python.Source, prog command.Prog) python.Source {
	if len(prog.Args) == 0 || strings.HasPrefix(prog.Args[0], "-") {
		return s
	}
	x := s.Syntax()
	for i, t := range x.Tokens {
		if t.Kind != python.Op || !x.Is(i, "{") || t.Pair < 0 {
			continue
		}
		if mine, others := commandsOf(x, i, prog.Args[0]); mine != "" && len(others)+1 >= fewest {
			return without(s, x, others)
		}
	}
	return s
}

// commandsOf reads a table of commands: the function that the typed one names, and those of all others. mine is ""
// where the literal is no such table, or does not have it.
func commandsOf(x *python.Syntax, open int, typed string) (mine string, others map[string]bool) {
	others = map[string]bool{}
	for i := open + 1; i+2 < x.Tokens[open].Pair; i += 4 {
		key, ok := python.Literal(x.Token(i))
		if !ok || !x.Is(i+1, ":") || x.Tokens[i+2].Kind != python.Word || !x.Is(i+3, ",") && i+3 != x.Tokens[open].Pair {
			return "", nil
		}
		if key == typed {
			mine = x.Token(i + 2)
			continue
		}
		others[x.Token(i+2)] = true
	}
	delete(others, mine)
	return mine, others
}

// without blanks the names of functions wherever they stand, and what imports them alone.
func without(s python.Source, x *python.Syntax, names map[string]bool) python.Source {
	text := []byte(s.Text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if text[i] != '\n' && text[i] != '\r' {
				text[i] = ' '
			}
		}
	}
	for _, st := range x.Statements {
		last := st.End - 1
		if x.Is(last, ")") {
			last--
		}
		if x.Is(last, ",") {
			last--
		}
		if x.Is(st.First, "from") && names[x.Token(last)] && x.Find(st.Range, ",") < 0 {
			blank(x.Tokens[st.First].From, x.Tokens[st.End-1].To)
		}
	}
	for i, t := range x.Tokens {
		if t.Kind == python.Word && names[x.Token(i)] {
			blank(t.From, t.To)
		}
	}
	return python.NewSource(s.Path, string(text))
}
