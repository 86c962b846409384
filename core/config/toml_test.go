package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tomlRecipe = `# a recipe
name = "x"   # its name
use_amp = true
quoted."a.b" = 1

[datasets.train]
batch_size = 8 # per GPU
roots = [ 'a\b', "c" ]
  indented = 1_000

# about val
[datasets.val]

[network_g]
type = "esrgan"
kw = { dim = 180, deep = { x = 1 }, }
none = {}

[[losses]]
type = "l1"
weight = 1.0
[[losses]]
type = "vgg"
layers = [ [1, 2], { w = 0.5 } ]

[train]
lr = 5e-4
many = [
  1, # one
  2,
]
text = '''
two
lines'''
`

func mustTOML(t testing.TB, text string) *TOML {
	t.Helper()
	d, err := ParseTOML([]byte(text))
	if err != nil {
		t.Fatalf("ParseTOML: %v\n%s", err, text)
	}
	return d
}

func TestTOMLSet(t *testing.T) {
	for _, tt := range []struct{ path, get, set, from, to string }{
		{"datasets.train.batch_size", "8", "4", "= 8 #", "= 4 #"},
		{"name", `"x"`, `"it's"`, `"x"`, `"it's"`},
		{`quoted.a\.b`, "1", "2", `"a.b" = 1`, `"a.b" = 2`},
		{"datasets.train.roots.0", `'a\b'`, "'z'", `'a\b'`, "'z'"},
		{"datasets.train.roots", `[ 'a\b', "c" ]`, "[]", `[ 'a\b', "c" ]`, "[]"},
		{"datasets.train.indented", "1_000", "5", "1_000", "5"},
		{"network_g.kw.dim", "180", "60", "180", "60"},
		{"network_g.kw.deep.x", "1", "0", "x = 1", "x = 0"},
		{"losses.0.weight", "1.0", "0.5", "1.0", "0.5"},
		{"losses.1.layers.0.1", "2", "3", "[1, 2]", "[1, 3]"},
		{"losses.1.layers.1.w", "0.5", "0.25", "0.5", "0.25"},
		{"train.lr", "5e-4", "1e-4", "5e-4", "1e-4"},
		{"train.many.1", "2", "3", "  2,", "  3,"},
		{"train.text", "'''\ntwo\nlines'''", `"one"`, "'''\ntwo\nlines'''", `"one"`},
		// absent
		{"seed", "", "1", "\"a.b\" = 1\n", "\"a.b\" = 1\nseed = 1\n"},
		{"datasets.train.accumulate", "", "2", "  indented = 1_000\n", "  indented = 1_000\n  accumulate = 2\n"},
		{"datasets.val.tile", "", "64", "[datasets.val]\n", "[datasets.val]\ntile = 64\n"},
		{"quoted.c", "", "2", "\"a.b\" = 1\n", "\"a.b\" = 1\nquoted.c = 2\n"},
		{"network_g.kw.b", "", "2", "{ x = 1 },", "{ x = 1 }, b = 2,"},
		{"network_g.none.b", "", "2", "{}", "{ b = 2 }"},
		{"network_g.none.b.c", "", "2", "{}", "{ b.c = 2 }"},
		{"losses.1.b", "", "2", "{ w = 0.5 } ]", "{ w = 0.5 } ]\nb = 2"},
		{"val.tile", "", "64", "lines'''\n", "lines'''\n\n[val]\ntile = 64\n"},
		{"datasets.test.a b", "", "64", "lines'''\n", "lines'''\n\n[datasets.test]\n\"a b\" = 64\n"},
		{"datasets.seed", "", "64", "lines'''\n", "lines'''\n\n[datasets]\nseed = 64\n"},
	} {
		for _, crlf := range []bool{false, true} {
			form := func(s string) string { return s }
			if crlf {
				form = func(s string) string { return "\uFEFF" + strings.ReplaceAll(s, "\n", "\r\n") }
			}
			text := form(tomlRecipe)
			d := mustTOML(t, text)
			if got, ok := d.Get(tt.path); ok != (tt.get != "") || got != strings.TrimPrefix(form(tt.get), "\uFEFF") {
				t.Errorf("Get(%s) = %q, %v, want %q", tt.path, got, ok, tt.get)
			}
			if err := d.Set(tt.path, tt.set); err != nil {
				t.Error(err)
				continue
			}
			from, to := strings.TrimPrefix(form(tt.from), "\uFEFF"), strings.TrimPrefix(form(tt.to), "\uFEFF")
			if diff := cmp.Diff(edited(t, text, from, to), string(d.Bytes())); diff != "" {
				t.Errorf("Set(%s, %s), CRLF %v (-want +got):\n%s", tt.path, tt.set, crlf, diff)
			}
		}
	}
}

func TestTOMLAddIn(t *testing.T) {
	for _, tt := range []struct{ text, path, want string }{
		{"[a]\nx = 1\n", "k", "k = 2\n[a]\nx = 1\n"},
		{"[a]\nx = 1", "a.k", "[a]\nx = 1\nk = 2"},
		{"[a]\nx = 1", "b.k", "[a]\nx = 1\n\n[b]\nk = 2\n"},
		{"[a.b]\nx = 1\n", "a.k", "[a.b]\nx = 1\n\n[a]\nk = 2\n"},
		{"[[a]]\nx = 1\n[[a]]\nx = 2\n", "a.0.k", "[[a]]\nx = 1\nk = 2\n[[a]]\nx = 2\n"},
		{"[[a]]\nx = 1\n[[a]]\nx = 2\n", "a.0.s.k", "[[a]]\nx = 1\ns.k = 2\n[[a]]\nx = 2\n"},
		{"a = [{x = 1}]\n", "a.0.k", "a = [{x = 1, k = 2}]\n"},
		{"a = {b.c = 1, d = 1}\n", "a.b.k", "a = {b.c = 1, b.k = 2, d = 1}\n"},
	} {
		d := mustTOML(t, tt.text)
		if err := d.Set(tt.path, "2"); err != nil {
			t.Errorf("%q: %v", tt.text, err)
		} else if got := string(d.Bytes()); got != tt.want {
			t.Errorf("\n got %q\nwant %q", got, tt.want)
		}
	}
}

func TestTOMLRefuses(t *testing.T) {
	for _, tt := range []struct{ path, set, why string }{
		{"name", "x", "not one TOML value"},
		{"name", "1 # one", "not one TOML value"},
		{"name", "1\ny = 2", "not one TOML value"},
		{"name", "", "not one TOML value"},
		{"name", "1e", "not one TOML value"},
		{"name.x", "1", "is no table"},
		{"losses", "1", "a sequence that is not written as one value"},
		{"losses.0", "1", "a mapping that is not written as one value"},
		{"losses.7.x", "1", "is no table"},
		{"train", "1", "line 26: train: a mapping"},
		{"train.many", "[1]", "several lines or comments"},
		{"train.many.9", "1", "is no table"},
		{"", "1", "whole document"},
	} {
		d := mustTOML(t, tomlRecipe)
		if err := d.Set(tt.path, tt.set); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Set(%s, %q) = %v, want %q", tt.path, tt.set, err, tt.why)
		}
		if string(d.Bytes()) != tomlRecipe {
			t.Errorf("Set(%s, %q) failed and changed the text", tt.path, tt.set)
		}
	}
}

// The proof behind every edit: whatever else is different is seen.
func TestSameBut(t *testing.T) {
	const before = "a = {b = 1, c = [1, {d = 2}]}\ne = 1\n"
	for _, tt := range []struct {
		after, path string
		want        bool
	}{
		{before, "a.b", true},
		{strings.Replace(before, "b = 1", "b = 9", 1), "a.b", true},
		{strings.Replace(before, "d = 2", "d = 9", 1), "a.c.1.d", true},
		{strings.Replace(before, "b = 1", "b = 1, x.y = 9", 1), "a.x.y", true},
		{strings.Replace(before, "b = 1", "b = 9", 1), "a.c", false},
		{strings.Replace(before, "[1,", "[9,", 1), "a.c.1.d", false},
		{strings.Replace(before, "d = 2", "d = 9", 1), "a.c.0", false},
		{strings.Replace(before, "b = 1", "b = 1, x = {y = 9, z = 9}", 1), "a.x.y", false},
		{strings.Replace(before, "e = 1", "e = 1\nf = 1", 1), "a.b", false},
		{strings.Replace(before, "e = 1", "f = 1", 1), "f", false},
	} {
		if got := sameBut(mustTOML(t, before).value, mustTOML(t, tt.after).value, SplitPath(tt.path)); got != tt.want {
			t.Errorf("%q but for %s: %v", tt.after, tt.path, got)
		}
	}
}

func TestTOMLReads(t *testing.T) {
	d := mustTOML(t,
		tomlRecipe+"[n]\nhex = 0xFF\noct = 0o17\nbin = 0b11\nneg = -1_0\nf = +1.5e1_0\ninf = -inf\nnan = nan\n"+
			"date = 2026-01-02\nesc = \"\\u00e9\\n\"\nbig = 9223372036854775807\n")
	for path, want := range map[string]int64{"n.hex": 255, "n.oct": 15, "n.bin": 3, "n.neg": -10, "n.big": 1<<63 - 1} {
		if i, ok := d.Root().At(path).Int(); !ok || i != want {
			t.Errorf("%s = %d, %v", path, i, ok)
		}
	}
	if f, ok := d.Root().At("n.f").Float(); !ok || f != 1.5e10 {
		t.Errorf("n.f = %v", f)
	}
	if s, ok := d.Root().At("n.esc").Str(); !ok || s != "é\n" {
		t.Errorf("n.esc = %q", s)
	}
	if v := d.Root().At("losses.1.layers.1.w"); v.Line() != 24 || v.Kind() != Float {
		t.Errorf("w is %v on line %d", v.Kind(), v.Line())
	}
}

func TestTOMLBadInput(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "empty"},
		{"# only\n", "empty"},
		{"a = 1\nb = \n", "line 2"},
		{"a = 1\na = 2\n", "line 2"},
		{strings.Repeat("#", maxTOML+1), "too large"},
		{strings.Repeat("a.", 300) + "b = 1", "line 1: nested more than 128 deep"},
		{"[" + strings.Repeat("a.", 300) + "b]", "line 1: nested more than 128 deep"},
		{"a = 1\n\x00", "line 2: a zero byte"},
		{"a = \"\xff\"", "not UTF-8"},
		{"a = 1\n[a]\nb = 1\n", "a"},
		{"a = " + strings.Repeat("[", 20000), "line 1"},
		{"a = " + strings.Repeat("[", 300) + strings.Repeat("]", 300), "deep"},
	} {
		if _, err := ParseTOML([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func BenchmarkTOMLEdit(b *testing.B) {
	for b.Loop() {
		d, err := ParseTOML([]byte(tomlRecipe))
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Set("datasets.train.batch_size", "4"); err != nil {
			b.Fatal(err)
		}
	}
}
