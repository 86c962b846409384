package python

import (
	"strings"
	"testing"
)

// What gives a name a value, by whatever statement.
func TestBinds(t *testing.T) {
	for code, want := range map[string]string{
		"a = 1": "a", "a: int = 1": "a", "a: int": "", "a == 1": "", "a": "", "f(a=1)": "", "a.b = 1": "a.b",
		"z = a = 1": "z a", "a = b.c = d = 1": "a b.c d", "a, b = 1, 2": "a b", "(a, [b, *c]) = x": "a b c",
		"a[b] = 1": "", "a.b[c].d = 1": "", "a[0], b = 1, 2": "b", "a += 1": "a", "a //= 2": "a", "a <= 2": "",
		"f = lambda x=1: x": "f", "print(a := 1)": "a", "x = (a := 1)": "a x",
		"import a.b, c as d": "a d", "from a import b as c, d": "c d", "from a import (b,\n c)": "b c",
		"from . import *": "*", "def a(b): pass": "a", "async def a(): pass": "a", "class A(B): pass": "A",
		"for a, b in c: d = 1": "a b d", "with x as a, y as (b, c): d = 1": "a b c d", "except E as e: a = 1": "e a",
		"del a, b.c": "a b.c", "global a": "a", "if x: a = b = 1": "a b", "else: a = 1": "a", "try: a += 1": "a",
		"while x == 1: pass": "", "if x == {1: 2}: a": "",
	} {
		x := NewSource("a.py", code).Syntax()
		got := map[string]bool{}
		for _, name := range x.Binds(x.Statements[0]) {
			got[name] = true
		}
		for _, name := range strings.Fields(want) {
			if !got[name] {
				t.Errorf("%q binds no %s, but %v", code, name, got)
			}
			delete(got, name)
		}
		for _, header := range []string{"if", "else", "try", "x", "with", "as", "except", "E", "y"} {
			delete(got, header)
		}
		if len(got) > 0 {
			t.Errorf("%q binds %v, too", code, got)
		}
	}
	x := NewSource("a.py", "a = 1\nz = a = 2").Syntax()
	if x.Rebinds(x.Statements[0], "a") || !x.Rebinds(x.Statements[1], "a") || x.Rebinds(x.Statements[1], "b") {
		t.Error("a chain binds each of its names again")
	}
}
