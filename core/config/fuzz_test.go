package config

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// leaves returns the paths of all values below v, as deep as depth.
func leaves(v Value, depth int) []string {
	var all []string
	var walk func(v Value, keys []string)
	walk = func(v Value, keys []string) {
		if len(keys) > 0 {
			all = append(all, JoinPath(keys...))
		}
		if len(keys) == depth || len(all) > 12 {
			return
		}
		keys = slices.Clip(keys)
		for _, k := range v.Keys() {
			walk(v.Get(k), append(keys, k))
		}
		for i := range v.Len() {
			if v.Kind() == Seq {
				walk(v.Index(i), append(keys, strconv.Itoa(i)))
			}
		}
	}
	walk(v, nil)
	return all
}

// checkEdits sets and adds everywhere in text and requires what every edit promises: a refused one changes nothing,
// a carried out one changes its value and inserts or replaces one run of bytes.
func checkEdits(t interface{ Fatalf(string, ...any) }, text []byte, only string, parse func([]byte) (Tree, error)) {
	d, err := parse(text)
	if err != nil {
		return
	}
	if !bytes.Equal(d.Bytes(), text) {
		t.Fatalf("%q reads back as %q", text, d.Bytes())
	}
	paths := leaves(d.Root(), 6)
	if only != "" {
		paths = []string{only}
	}
	for _, p := range slices.Clone(paths) {
		if SplitPath(p) != nil {
			paths = append(paths, p+".new_key", p+".new.deep")
		}
	}
	paths = append(paths, "new_key")
	for _, path := range paths {
		for _, to := range []string{"7", `"a, b: #c"`} {
			e, err := parse(text)
			if err != nil {
				t.Fatalf("%q is read once and not again: %v", text, err)
			}
			was, had := e.Get(path)
			if err := e.Set(path, to); err != nil {
				if !bytes.Equal(e.Bytes(), text) {
					t.Fatalf("%q: a refused edit of %s changed it to %q", text, path, e.Bytes())
				}
				continue
			}
			if got, ok := e.Get(path); !ok || got != to {
				t.Fatalf("%q: %s set to %s reads %q in %q", text, path, to, got, e.Bytes())
			}
			again, err := parse(e.Bytes())
			if err != nil {
				t.Fatalf("%q became %q: %v", text, e.Bytes(), err)
			}
			if !again.Root().At(path).Exists() {
				t.Fatalf("%q: %s is lost in %q", text, path, e.Bytes())
			}
			if had && was != "" && len(e.Bytes())-len(text) != len(to)-len(was) {
				t.Fatalf("%q: setting %s from %q to %q made %q", text, path, was, to, e.Bytes())
			}
			if !had && !strings.Contains(string(e.Bytes()), to) {
				t.Fatalf("%q: %s was added as %s, but it is %q", text, path, to, e.Bytes())
			}
		}
	}
}

func parseYAML(b []byte) (Tree, error) { return ParseYAML(b) }
func parseTOML(b []byte) (Tree, error) { return ParseTOML(b) }

func FuzzYAML(f *testing.F) {
	f.Add([]byte(recipe))
	for _, s := range []string{
		"a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: *a\n", "a: !!float 1e-4 # c\nb: !!str\n? q\n: r\n",
		"{a: [1, {b: 2}], c: }", "a: |+\n  t\n\nb: >-\n u\n",
		"\uFEFFa: 'it''s'\r\nb: \"x\\\"\"\r\n", "%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n", "a: x\n  y\n\n  z # c\n",
		"- a\n", "a: [b: c]\n", "é: ü\n\u2028b: 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 1<<10 {
			checkEdits(t, text, "", parseYAML)
		}
	})
}

func FuzzTOML(f *testing.F) {
	f.Add([]byte(tomlRecipe))
	for _, s := range []string{"a.b = 1\n[a.c]\nd = 2\n", "[[a]]\n[a.b]\nc = 1\n[[a.d]]\n",
		"a = {b = {}, c.d = 1}\r\n", "x = [[1], [{a = 1}]]", "\uFEFFa = 1979-05-27 07:32:00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 1<<10 {
			checkEdits(t, text, "", parseTOML)
		}
	})
}

// recipes draws YAML of every style that recipes are written in.
func recipes() *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{"1", "1e-4", "!!float 1e-4", "~", "", "yes", "x y", "'it''s'", `"a\"b"`,
		"!!str 5", "&unused 3", "0.5", "[1, 2]", "{}", "[]"})
	comment := rapid.SampledFrom([]string{"", "", "", " # note", "   # a: 1, [b"})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		step := rapid.IntRange(1, 4).Draw(t, "step")
		n := 0
		var mapping func(indent string, depth int, first string)
		mapping = func(indent string, depth int, first string) {
			for range rapid.IntRange(1, 3).Draw(t, "keys") {
				n++
				b.WriteString(first + "k" + strconv.Itoa(n) + ":")
				first = indent
				kind := rapid.IntRange(0, 6).Draw(t, "kind")
				if depth == 0 && kind > 2 {
					kind = 0
				}
				c := comment.Draw(t, "comment")
				switch kind {
				case 0, 1, 2:
					if s := scalar.Draw(t, "scalar"); s != "" {
						b.WriteString(" " + s)
					}
					b.WriteString(c + "\n")
				case 3, 4:
					b.WriteString(c + "\n")
					in := indent + strings.Repeat(" ", step)
					mapping(in, depth-1, in)
				case 5:
					b.WriteString(c + "\n")
					mapping(indent+"  ", depth-1, indent+"- ")
				case 6:
					b.WriteString(" |\n" + indent + "    text # no comment\n\n")
				}
				if rapid.IntRange(0, 5).Draw(t, "own line") == 0 {
					b.WriteString(indent + "# a line\n\n")
				}
			}
		}
		mapping("", 3, "")
		text := b.String()
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 1:
			text = strings.ReplaceAll(text, "\n", "\r\n")
		case 2:
			text = "\uFEFF" + text
		case 3:
			text = strings.TrimSuffix(text, "\n")
		}
		return text
	})
}

// Of every recipe every value can be set, but for blocks of text and collections, and every mapping can be added to.
func TestYAMLEditsEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := recipes().Draw(t, "text")
		d, err := ParseYAML([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		some := rapid.SampledFrom(append(leaves(d.root, 9), "")).Draw(t, "path")
		checkEdits(t, []byte(text), some, parseYAML)
		for _, path := range []string{some} {
			v := d.root.At(path)
			target := path
			if v.Kind() == Map {
				target = strings.TrimPrefix(path+".new", ".")
			} else if _, ok := d.Get(path); !ok {
				continue
			}
			to := "7"
			if tag := "!!str "; strings.Contains(text, tag) {
				to = `"7"`
				if v.Kind() == Float {
					to = "7.5"
				}
			}
			e := mustParse(t, text)
			if err := e.Set(target, to); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	})
}

func mustParse(t *rapid.T, text string) *YAML {
	d, err := ParseYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
