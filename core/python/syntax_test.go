package python

import (
	"strings"
	"testing"
)

// Each statement is given with the header that it stands under.
func TestStatements(t *testing.T) {
	text := "import a # b\n@d(1)\nclass A(B):\n    x: int = f(1,\n  2); y = '''a\nb'''\n    def g(self): return " +
		"\\\n  1\n\n  # c\n" +
		"\tz = rb'x' f\"{'a'}\"\nw = [)\n"
	x := NewSource("a.py", text).Syntax()
	var got []string
	for _, s := range x.Statements {
		in := "module"
		if s.In >= 0 {
			in = x.Of(x.Statements[s.In].Range)
		}
		got = append(got, in+" | "+x.Of(s.Range))
	}
	want := []string{"module | import a", "module | @d(1)", "module | class A(B):", "class A(B): | x: int = f(1,\n  2)",
		"class A(B): | y = '''a\nb'''", "class A(B): | def g(self): return \\\n  1",
		"def g(self): return \\\n  1 | z = rb'x' f\"{'a'}\"", "module | w = [)"}
	if strings.Join(got, "\n;") != strings.Join(want, "\n;") {
		t.Errorf("got\n%s", strings.Join(got, "\n;"))
	}
	if from, to := x.Block(2); from != 3 || to != 7 {
		t.Errorf("the class's block is %d to %d", from, to)
	}
	if n := x.LineOf(x.Statements[6].First); n != 11 {
		t.Errorf("line %d", n)
	}
}

func TestExpressions(t *testing.T) {
	x := NewSource("a.py", `a.b(1, "x, y", k=f(2)[3], *z, **w).c("é")  (d)`).Syntax()
	calls := x.Calls(Range{0, len(x.Tokens)})
	var names []string
	for _, c := range calls {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "a.b f .c" {
		t.Errorf("calls %q", got)
	}
	var args []string
	for _, a := range x.Args(calls[0].Open) {
		args = append(args, strings.Repeat("*", a.Stars)+a.Name+":"+x.Of(a.Range))
	}
	if got := strings.Join(args, " "); got != `:1 :"x, y" k:f(2)[3] *:z **:w` {
		t.Errorf("arguments %s", got)
	}
	for token, want := range map[string]string{`"a"`: "a", `'\n\q\''`: "\n\\q'", `r"\n"`: `\n`, `b"a"`: "",
		`f"a"`: "a", `f"{a}"`: "",
		`"a`: "", `u"""a"b"""`: `a"b`, `"\u00e9"`: "é"} {
		if got, ok := Literal(token); got != want || ok != (want != "") {
			t.Errorf("%s is %q", token, got)
		}
	}
}
