package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// source makes a source by hand: items are "path=literal" or "path:expression", found in text in order.
func source(text string, items ...string) *PythonSource {
	s := &PythonSource{Path: "/x/conf.py", Text: []byte(text)}
	at := 0
	for _, it := range items {
		i := strings.IndexAny(it, "=:")
		path, spelled := it[:i], it[i+1:]
		start := at + strings.Index(text[at:], spelled)
		at = start
		item := PythonItem{Path: path, Literal: it[i] == '=', Start: start, End: start + len(spelled), Line: 1 + strings.Count(text[:start], "\n"), Value: json.RawMessage("null")}
		if item.Literal {
			item.Value = json.RawMessage(strings.NewReplacer("'", `"`, "(", "[", ")", "]", "True", "true", "None", "null").Replace(spelled))
		}
		s.Items = append(s.Items, item)
	}
	return s
}

const conf = `LIMIT = 10
class Base:
    batch: int = 64  # per GPU
    lr = compute()
class Config(Base, nn.Module):
    size = (448, 448)
    name = 'a#b'
A = {'b': 1, 'c.d': True}
LIMIT = None
`

func confSource() *PythonSource {
	s := source(conf, "LIMIT=10", "Base.batch=64", "Base.lr:compute()", "Config.size=(448, 448)", "Config.name='a#b'",
		"A:{'b': 1, 'c.d': True}", "A.b=1", `A.c\.d=True`, "LIMIT=None")
	s.Classes = []PythonClass{{Name: "Base", Bases: []string{"Config"}}, {Name: "Config", Bases: []string{"Base", "nn.Module"}}} // a cycle must not hang
	return s
}

func TestPythonSet(t *testing.T) {
	doc, err := OpenPython(confSource())
	if err != nil {
		t.Fatal(err)
	}
	if string(doc.Bytes()) != conf {
		t.Error("with no edit a file is itself")
	}
	for _, e := range [][2]string{{"Base.batch", "8"}, {"A.b", "12345"}, {"Config.size", "(1, 2)"}, {`A.c\.d`, "False"}, {"A.b", "2"}, {"LIMIT", `"x"`}, {"Config.name", `"long \x23 name"`}} {
		if err := doc.Set(e[0], e[1]); err != nil {
			t.Fatal(err)
		}
		if got, ok := doc.Get(e[0]); !ok || got != e[1] {
			t.Errorf("%s is %q after it was set to %q", e[0], got, e[1])
		}
	}
	want := strings.NewReplacer("64", "8", "(448, 448)", "(1, 2)", "'a#b'", `"long \x23 name"`, "'b': 1", "'b': 2", "True", "False", "LIMIT = None", `LIMIT = "x"`).Replace(conf)
	if got := string(doc.Bytes()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, ok := doc.Get("A"); ok || got != `{'b': 2, 'c.d': False}` && got != "" {
		t.Errorf("what holds the edits is %q", got)
	}
}

// An edit that cannot be placed is refused, and changes nothing.
func TestPythonRefuses(t *testing.T) {
	s := confSource()
	s.Text = append(s.Text, "M = (1,\n 2)\n"...)
	at := strings.Index(string(s.Text), "(1,\n")
	s.Items = append(s.Items, PythonItem{Path: "M", Literal: true, Start: at, End: at + 7, Value: json.RawMessage("[1,2]")})
	doc, err := OpenPython(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range [][2]string{{"Base.lr", "1"}, {"A", "1"}, {"none", "1"}, {"M", "1"}, {"LIMIT", ""}, {"LIMIT", " 1"}, {"LIMIT", "1\n2"}, {"LIMIT", "1 # x"}, {"", "1"}} {
		if err := doc.Set(e[0], e[1]); err == nil {
			t.Errorf("%s = %q is not refused", e[0], e[1])
		}
	}
	if string(doc.Bytes()) != string(s.Text) {
		t.Error("a refused edit changed the text")
	}
	if _, err := OpenPython(&PythonSource{Problem: "it is not UTF-8"}); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Error(err)
	}
	if _, err := OpenPython(&PythonSource{Text: []byte("a"), Items: []PythonItem{{Path: "x", Start: 0, End: 2}}}); err == nil {
		t.Error("an item outside the file is not refused")
	}
}

func TestPythonRoot(t *testing.T) {
	doc, err := OpenPython(confSource())
	if err != nil {
		t.Fatal(err)
	}
	root := doc.Root()
	if v, ok := root.At("Base.batch").Int(); !ok || v != 64 || root.At("Base.batch").Line() != 3 {
		t.Error("Base.batch")
	}
	if !root.At("LIMIT").IsNull() {
		t.Error("LIMIT: the last assignment counts")
	}
	if v, ok := root.Lookup("A", "c.d").Bool(); !ok || !v {
		t.Error("A.c.d")
	}
	if v, ok := root.At("Config.size.1").Int(); !ok || v != 448 {
		t.Error("Config.size.1")
	}
	if root.At("Base.lr").Exists() {
		t.Error("an expression has no value")
	}
}

func TestPythonField(t *testing.T) {
	s := confSource()
	for _, tt := range []struct{ class, name, path string }{
		{"Config", "size", "Config.size"}, {"Config", "batch", "Base.batch"}, {"Base", "batch", "Base.batch"}, {"Config", "none", ""}, {"Other", "batch", ""},
	} {
		it, ok := s.Field(tt.class, tt.name)
		if ok != (tt.path != "") || it.Path != tt.path {
			t.Errorf("%s.%s is %q", tt.class, tt.name, it.Path)
		}
	}
}

func TestPythonText(t *testing.T) {
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, "None"}, {true, "True"}, {false, "False"}, {-3, "-3"}, {int64(1) << 60, "1152921504606846976"}, {0.1, "0.1"}, {1e-4, "0.0001"}, {2.0, "2.0"}, {1e300, "1e+300"},
		{"it's #1\n", `"it's \x231\n"`}, {"é", `"\u00e9"`}, {[]int64{1, 2}, "(1, 2)"}, {[]any{1, "a", []any{}}, `(1, "a", ())`}, {[]int64{1}, "(1,)"},
	} {
		if got, err := PythonText(tt.v); err != nil || got != tt.want || oneLiteral(got) != nil {
			t.Errorf("%v is %q, want %q (%v)", tt.v, got, tt.want, err)
		}
	}
	for _, v := range []any{struct{}{}, 1 / zero, map[string]any{}} {
		if got, err := PythonText(v); err == nil {
			t.Errorf("%v is spelled %q", v, got)
		}
	}
}

var zero float64
