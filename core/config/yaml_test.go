package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const recipe = `# A recipe such as people keep: comments, tags, every style.   (do not reorder)
name: "rrdb x4"     # quoted
scale: 4
use_amp: yes
datasets:
  train:
    batch_size: 16   # per GPU!
    gt_size: 256
    roots: [a/b, 'c d']   # two
    enlarge: auto

    # repeat: 2
  val: {root: c/d, note: 'it''s'}
  empty:
  off: ~
train:
  optim_g: {type: AdamW, lr: !!float 1e-4, betas: [0.9, 0.99]}
  milestones:
  - 100
  - 200
  note: |
    batch_size: 99

  "net.g": {a: 1}
  ema: 0.999
losses:
  - type: l1
    weight: 1.0
  - type: vgg   # dear
    weight: 1e-2
val:
  freq: 1_000`

func mustYAML(t testing.TB, text string) *YAML {
	t.Helper()
	d, err := ParseYAML([]byte(text))
	if err != nil {
		t.Fatalf("ParseYAML: %v\n%s", err, text)
	}
	return d
}

// edited says what an edit should make of text: the one place where from stands becomes to.
func edited(t *testing.T, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("%q does not stand once in the text", from)
	}
	return strings.Replace(text, from, to, 1)
}

func TestYAMLSet(t *testing.T) {
	for _, tt := range []struct{ path, get, set, from, to string }{
		{"datasets.train.batch_size", "16", "8", "size: 16   #", "size: 8   #"},
		{"datasets.train.enlarge", "auto", "20", "auto", "20"},
		{"name", `"rrdb x4"`, `"it's"`, `"rrdb x4"`, `"it's"`},
		{"use_amp", "yes", "false", "yes", "false"},
		{"datasets.train.roots.1", "'c d'", "e", "'c d'", "e"},
		{"datasets.train.roots", "[a/b, 'c d']", "[x]", "[a/b, 'c d']", "[x]"},
		{"datasets.val.root", "c/d", `"a, b"`, "c/d", `"a, b"`},
		{"datasets.val.note", "'it''s'", "1", "'it''s'", "1"},
		{"datasets.empty", "", "8", "empty:", "empty: 8"},
		{"datasets.off", "~", "8", "off: ~", "off: 8"},
		{"train.optim_g.lr", "1e-4", "2.0e-4", "1e-4", "2.0e-4"},
		{"train.optim_g.betas.1", "0.99", "0.999", "0.99]", "0.999]"},
		{"train.milestones.0", "100", "50", "- 100", "- 50"},
		{`train.net\.g.a`, "1", "2", "{a: 1}", "{a: 2}"},
		{"losses.1.weight", "1e-2", "0.0", "1e-2", "0.0"},
		{"val.freq", "1_000", "500", "1_000", "500"},
	} {
		for _, form := range []struct {
			name string
			of   func(string) string
		}{
			{"as is", func(s string) string { return s }},
			{"CRLF", func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }},
			{"BOM", func(s string) string { return "\uFEFF" + s }},
		} {
			text := form.of(recipe)
			d := mustYAML(t, text)
			if got, ok := d.Get(tt.path); !ok || got != tt.get {
				t.Errorf("%s: Get(%s) = %q, %v, want %q", form.name, tt.path, got, ok, tt.get)
			}
			if err := d.Set(tt.path, tt.set); err != nil {
				t.Errorf("%s: Set: %v", form.name, err)
				continue
			}
			if diff := cmp.Diff(edited(t, text, tt.from, tt.to), string(d.Bytes())); diff != "" {
				t.Errorf("%s: Set(%s, %s) (-want +got):\n%s", form.name, tt.path, tt.set, diff)
			}
		}
	}
}

func TestYAMLAdd(t *testing.T) {
	for _, tt := range []struct{ path, set, from, to string }{
		{"seed", "1", "freq: 1_000", "freq: 1_000\nseed: 1"},
		{"val.tile", "128", "freq: 1_000", "freq: 1_000\n  tile: 128"},
		{"datasets.train.accum", "2", "auto\n", "auto\n    accum: 2\n"},
		{"datasets.val.tile", "2", "'it''s'", "'it''s', tile: 2"},
		{"datasets.empty.x", "2", "empty:", "empty:\n    x: 2"},
		{"datasets.off.x", "2", "off: ~", "off: {x: 2}"},
		{"datasets.test.x.y", "2", "off: ~", "off: ~\n  test:\n    x:\n      y: 2"},
		{"datasets.val.x.y.z", "2", "'it''s'", "'it''s', x: {y: {z: 2}}"},
		{"train.more", "yes_no", "0.999", "0.999\n  more: yes_no"},
		{"losses.0.x", "2", "weight: 1.0", "weight: 1.0\n    x: 2"},
		{"losses.1.on", "2", "1e-2", "1e-2\n    \"on\": 2"},
		{`train.net\.g.b\.c`, "2", "{a: 1}", "{a: 1, b.c: 2}"},
	} {
		d := mustYAML(t, recipe)
		if _, ok := d.Get(tt.path); ok {
			t.Errorf("%s is there before it was added", tt.path)
		}
		e, err := Change(d, "x.yml", tt.path, tt.set)
		if err != nil {
			t.Error(err)
			continue
		}
		if !e.Add {
			t.Errorf("%v is not marked as an addition", e)
		}
		if diff := cmp.Diff(edited(t, recipe, tt.from, tt.to), string(d.Bytes())); diff != "" {
			t.Errorf("adding %s (-want +got):\n%s", tt.path, diff)
		}
		if got, _ := d.Get(tt.path); got != tt.set {
			t.Errorf("Get(%s) after adding = %q", tt.path, got)
		}
	}
}

func TestYAMLAddIn(t *testing.T) {
	for _, tt := range []struct{ text, path, want string }{
		{"a:\n    b:\n        c: 1\n", "a.d.e", "a:\n    b:\n        c: 1\n    d:\n        e: 2\n"},
		{"a: {}\n", "a.b", "a: {b: 2}\n"},
		{"a: {x: 1,}\n", "a.b", "a: {x: 1, b: 2,}\n"},
		{"a: {\n  x: 1,  # one\n}\n", "a.b", "a: {\n  x: 1, b: 2,  # one\n}\n"},
		{"{a: {x: [1, 2]}}", "a.b", "{a: {x: [1, 2], b: 2}}"},
		{"{a: }", "a.b", "{a: {b: 2}}"},
		{"a:\n- 1\n- 2\nb: 3 # c\n\n# end\n", "x", "a:\n- 1\n- 2\nb: 3 # c\nx: 2\n\n# end\n"},
		{"a:\n  b:\n    c: 1\n    # d: 1\n\n    # e\n  # f\n\nz: 1\n", "a.x",
			"a:\n  b:\n    c: 1\n    # d: 1\n\n    # e\n  x: 2\n  # f\n\nz: 1\n"},
		{"a: 1\n...\n---\nb: 2\n", "x", "a: 1\nx: 2\n...\n---\nb: 2\n"},
		{"a: 1\r\nb: 1\r\n", "x", "a: 1\r\nb: 1\r\nx: 2\r\n"},
		{"a:  # nothing yet\n  # c\nb: 1\n", "a.b", "a:  # nothing yet\n  b: 2\n  # c\nb: 1\n"},
		{"a: !!map\n  x: 1\nb: 1\n", "a.b", "a: !!map\n  x: 1\n  b: 2\nb: 1\n"},
		{"a: &unused\n  x: 1\nb: 1\n", "a.b", "a: &unused\n  x: 1\n  b: 2\nb: 1\n"},
		{"a:\n  x: |\n    text\n\nb: 1\n", "a.b", "a:\n  x: |\n    text\n  b: 2\n\nb: 1\n"},
		{"a:\n  x: plain\n    on two lines # c\nb: 1\n", "a.b", "a:\n  x: plain\n    on two lines # c\n  b: 2\nb: 1\n"},
		{"base: &b {x: 1}\na:\n  <<: *b\n", "a.b", "base: &b {x: 1}\na:\n  <<: *b\n  b: 2\n"},
	} {
		d := mustYAML(t, tt.text)
		if err := d.Set(tt.path, "2"); err != nil {
			t.Errorf("%q: %v", tt.text, err)
		} else if got := string(d.Bytes()); got != tt.want {
			t.Errorf("\n got %q\nwant %q", got, tt.want)
		}
	}
}

func TestYAMLRefuses(t *testing.T) {
	const text = `base: &base {x: 1, y: &n 5, m: {z: 1}}
run:
  <<: *base
  own: 1
same: *base
lone: &lone 1
number: *n
lr: !!float 1e-4
tuple: !!python/tuple [1, 2]
note: |
  text
block:
- 1
lines: [
  1,  # one
  2,
]
dup: 1
inner: [&in 1]
uses: *in
flow: {d}
`
	for _, tt := range []struct{ path, set, why string }{
		{"run.x", "2", "inherited through <<"},
		{"base.x", "2", "&base is used elsewhere"},
		{"base.new", "2", "&base is used elsewhere"},
		{"base.m.z", "2", "&base is used elsewhere"},
		{"same.x", "2", "alias *base"},
		{"same", "2", "alias *base"},
		{"number", "2", "alias *n"},
		{"lr", "fast", "line 8: the new value fast conflicts with the YAML tag !!float"},
		{"tuple", "[1]", "conflicts with the YAML tag !!python/tuple"},
		{"note", "x", "block of text"},
		{"block", "x", "over several lines"},
		{"block.7", "1", "has no item 7"},
		{"block.x", "1", "has no item x"},
		{"lines", "[3]", "comments inside"},
		{"dup.x", "1", "line 18: 1 stands where a mapping"},
		{"dup", "1e-4", "write 0.0001 for the number"},
		{"dup", "1e-4", "a string to YAML 1.1 and a float to YAML 1.2"},
		{"dup", "on", "a bool to YAML 1.1"},
		{"dup", "010", "an int to YAML 1.1"},
		{"dup", "[1, 1:30]", "an int to YAML 1.1"},
		{"dup", "2026-01-02", "cannot be set"},
		{"dup", "1 # one", "not one"},
		{"dup", "", "not one value"},
		{"dup", "a: b", "not one"},
		{"dup", "- b", "not one"},
		{"dup", "1\n2", "more than one line"},
		{"dup", "&a 1", "not one"},
		{"dup", "*base", "cannot be set"},
		{"dup", "!!float 1", "not one"},
		{"dup", "[!!float 1]", "tags, anchors"},
		{"dup", "[1", "not valid YAML"},
		{"dup", "a\x00", "zero byte"},
		{"", "1", "whole document"},
		{"inner", "1", "line 19: &in is used elsewhere"},
		{"flow.d", "1", "without changing something else"},
	} {
		d := mustYAML(t, text)
		err := d.Set(tt.path, tt.set)
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Set(%s, %q) = %v, want %q", tt.path, tt.set, err, tt.why)
		}
		if string(d.Bytes()) != text {
			t.Errorf("Set(%s, %q) failed and changed the text", tt.path, tt.set)
		}
	}
	d := mustYAML(t, text)
	for _, path := range []string{"lone", "run.own"} {
		if err := d.Set(path, "2"); err != nil {
			t.Errorf("Set(%s): %v", path, err)
		}
	}
}

// The proof behind every edit: whatever else is different is seen.
func TestChangeEqual(t *testing.T) {
	const before = "a: {b: 1, c: [x, 'y', !!int 3]}\nd: &d 1\ne:\n"
	for _, tt := range []struct {
		after string
		path  string
		add   bool
		want  bool
	}{
		{before, "a.b", false, true},
		{strings.Replace(before, "b: 1", "b: 2", 1), "a.b", false, true},
		{strings.Replace(before, "b: 1", "b: [2]", 1), "a.b", false, true},
		{strings.Replace(before, "b: 1", "b: &n 2", 1), "a.b", false, false},
		{strings.Replace(before, "b: 1", "b: !!int 2", 1), "a.b", false, false},
		{strings.Replace(before, "3]", "3], z: 1", 1), "a", true, true},
		{strings.Replace(before, "b: 1", "z: 1, b: 1", 1), "a", true, false},
		{strings.Replace(before, "b: 1", "b: 1, z: 1", 1), "a.b", false, false},
		{strings.Replace(before, "e:", "e: {f: 1}", 1), "e", true, true},
		{strings.Replace(before, "e:", "e: {f: 1, g: 1}", 1), "e", true, false},
		{strings.Replace(before, "e:", "e: [f, g]", 1), "e", true, false},
		{strings.Replace(before, "x,", "z,", 1), "a.b", false, false},
		{strings.Replace(before, "'y'", "y", 1), "a.b", false, false},
		{strings.Replace(before, "!!int 3", "3", 1), "a.b", false, false},
		{strings.Replace(before, "&d", "&f", 1), "a.b", false, false},
		{strings.Replace(before, "b: 1", "f: 1", 1), "a.b", false, false},
	} {
		a, b := mustYAML(t, before).docs[0], mustYAML(t, tt.after).docs[0]
		c := change{target: a.Content[0], add: tt.add}
		for _, k := range SplitPath(tt.path) {
			c.target = child(c.target, k, false)
		}
		if got := c.equal(a, b); got != tt.want {
			t.Errorf("%q but for %s: %v", tt.after, tt.path, got)
		}
	}
}

func TestYAMLReads(t *testing.T) {
	d := mustYAML(t, "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nrun: {z: 9, <<: [*b, *m], w: 5}\n"+
		"dup: 1\ndup: 2\n1: int\n\"1\": str\non: true\nlist: [*b]\n")
	for path, want := range map[string]string{
		"run.x": "1", "run.y": "2", "run.z": "9", "run.w": "5", "dup": "2", "1": "str", "on": "true", "list.0.y": "2",
	} {
		if v := d.Root().At(path); v.Text() != want {
			t.Errorf("%s = %q, want %q", path, v.Text(), want)
		}
		if got, ok := d.Get(path); !ok || got != want {
			t.Errorf("Get(%s) = %q, want %q", path, got, want)
		}
	}
	if diff := cmp.Diff([]string{"y", "z", "x", "w"}, d.Keys("run")); diff != "" {
		t.Errorf("keys as a Python dict has them (-want +got):\n%s", diff)
	}
	if v := d.Lookup("run", "nothing", "at", "all"); v.Exists() || v.Line() != 0 || v.Len() != 0 || v.Text() != "" {
		t.Error("what is absent is not absent")
	}
	if v := d.Lookup("dup"); v.Line() != 5 {
		t.Errorf("dup is on line %d", v.Line())
	}
}

func TestYAMLBadInput(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		bomb.WriteString(strings.NewReplacer("I", string(rune('b'+i)), "P", string(rune('a'+i))).Replace(
			"I0: &I0 [*P0, *P0, *P0, *P0, *P0, *P0, *P0, *P0, *P0, *P0]\n"))
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "empty"},
		{"comments only", "# nothing\n\n", "empty"},
		{"a list", "- 1\n- 2\n", "line 1: the document is a sequence"},
		{"a word", "\n\nhello\n", "line 3: the document is a string"},
		{"null", "~\n", "the document is null"},
		{"not closed", "a: 1\nb: [1, 2\nc: 3\n", "line "},
		{"tab", "a:\n\tb: 1\n", "line "},
		{"binary", "\x89PNG\r\n\x1a\n\x00\x00", "a zero byte"},
		{"zero byte", "a: 1\nb: \x00\n", "line 2: a zero byte"},
		{"latin 1", "a: 1\nb: \xe9t\xe9\n", "line 2: not UTF-8"},
		{"UTF-16", "\xff\xfea\x00", "UTF-16"},
		{"bomb", bomb.String(), "aliases"},
		{"its own alias", "a: &a [1, *a]\n", "line 1: *a stands inside"},
		{"no anchor", "a: *b\n", "anchor"},
		{"deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "deep"},
		{"deep and open", "a: " + strings.Repeat("[", 20000), "line 1"},
		{"deep blocks", strings.Repeat("- ", 9000) + "x", "deep"},
		{"merge of a list", "a: {<<: [1]}\n", "line 1: << wants a mapping"},
		{"long", strings.Repeat("a", maxText+1), "too large"},
	} {
		if _, err := ParseYAML([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func BenchmarkYAMLEdit(b *testing.B) {
	var text bytes.Buffer
	for _, name := range []string{"xa", "xb", "xc"} { // some hundred lines
		text.WriteString(name + ":\n  " + strings.ReplaceAll(recipe, "\n", "\n  ") + "\n")
	}
	b.ReportMetric(float64(bytes.Count(text.Bytes(), []byte("\n"))), "lines")
	for b.Loop() {
		d, err := ParseYAML(text.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Set("xb.datasets.train.batch_size", "8"); err != nil {
			b.Fatal(err)
		}
	}
}
