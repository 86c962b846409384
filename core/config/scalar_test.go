package config

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What PyYAML 6.0's safe loader makes of these, as it printed it.
func TestYAML11(t *testing.T) {
	for text, want := range map[string]any{
		"1e-4": "1e-4", "1e4": "1e4", "1.0e4": "1.0e4", "1.0e-04": 1e-4, "1.e+2": 100.0, "1.5": 1.5, ".5": 0.5,
		"-.5": "-.5", "5.": 5.0,
		"1_0.5": 10.5, "!!float 1e-4": 1e-4, "!!float 3": 3.0, "!!float inf": math.Inf(1), ".inf": math.Inf(1),
		"-.INF": math.Inf(-1), ".Nan": ".Nan",
		"010": int64(8), "0": int64(0), "-0": int64(0), "08": "08", "0o10": "0o10", "0x1F": int64(31),
		"-0x_f": int64(-15), "0b11": int64(3),
		"1_000": int64(1000), "_1": "_1", "+12": int64(12), "1:30": int64(90), "1:60": "1:60",
		"-1:30:05": int64(-5405), "1:30.5": 90.5,
		"!!int 1_0": int64(10), "!!int '12'": int64(12), "yes": true, "No": false, "ON": true, "off": false, "y": "y",
		"n": "n", "TRUE": true,
		"tRUE": "tRUE", "!!bool yes": true, "~": nil, "": nil, "null": nil, "Null": nil, "nULL": "nULL",
		"!!null x": nil, "!!str 8": "8",
		"! 8": int64(8), "! ": "", "!": "", `! "8"`: int64(8), "! 'x'": "x", "'8'": "8", `"8"`: "8",
		"2026-01-02": "2026-01-02", "<": "<", "1e": "1e", "-": nil, "+": "+", ".": ".", "0.": 0.0, "1__0": int64(10),
		"123456789012345678901": 123456789012345678901.0, "!!float 1:30": 90.0, "!!float .5": 0.5,
		"!!int x": Opaque, "!!int 1.5": Opaque, "!!float x": Opaque, "!!float 0x1p3": Opaque, "!!bool 1": Opaque,
		"!what 8": Opaque, "0b_": Opaque,
		"!!int --5": Opaque, "!!int ++5": Opaque, "!!int -+5": Opaque, "!!int +-5": Opaque,
		"=": Opaque,
	} {
		if text == "-" {
			continue // a sequence, and no scalar at all
		}
		v := mustYAML(t, "k: "+text+"\n").Lookup("k")
		var got any = v.Kind()
		switch v.Kind() {
		case Null:
			got = nil
		case Bool:
			got, _ = v.Bool()
		case Int:
			if i, ok := v.Int(); ok {
				got = i
			} else {
				got, _ = v.Float()
			}
		case Float:
			got, _ = v.Float()
		case String:
			got, _ = v.Str()
		}
		if got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, v.Kind(), want)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		value      any
		yaml, toml string
	}{
		{nil, "null", ""}, {true, "true", "true"}, {8, "8", "8"}, {int64(-1), "-1", "-1"},
		{1e-4, "0.0001", "0.0001"}, {1e-5, "1.0e-05", "1.0e-05"}, {2.0, "2.0", "2.0"}, {1e300, "1.0e+300",
			"1.0e+300"}, {2.5e-7, "2.5e-07", "2.5e-07"},
		{math.Inf(-1), "-.inf", "-inf"},
		{"abc", "abc", `"abc"`}, {"a/b.png", "a/b.png", `"a/b.png"`}, {"yes", `"yes"`, `"yes"`}, {"null", `"null"`,
			`"null"`}, {"", `""`, `""`},
		{"1e-4", `"1e-4"`, `"1e-4"`}, {".5", `".5"`, `".5"`}, {"1:30", `"1:30"`, `"1:30"`}, {"2026-01-02",
			`"2026-01-02"`, `"2026-01-02"`},
		{"a: b", `"a: b"`, `"a: b"`}, {"C:\\d", `"C:\\d"`, `"C:\\d"`}, {"a\tb\n", `"a\tb\n"`,
			`"a\u0009b\u000A"`}, {"é\u2028", `"é\u2028"`, "\"é\u2028\""},
		{[]any{1, "on", []float64{0.5}}, `[1, "on", [0.5]]`, `[1, "on", [0.5]]`}, {[]string{"a"}, "[a]",
			`["a"]`}, {[]int{}, "[]", "[]"},
	} {
		if got, err := YAMLText(tt.value); got != tt.yaml {
			t.Errorf("YAMLText(%v) = %s, %v, want %s", tt.value, got, err, tt.yaml)
		}
		if got, err := TOMLText(tt.value); got != tt.toml {
			t.Errorf("TOMLText(%v) = %s, %v, want %s", tt.value, got, err, tt.toml)
		}
	}
	for _, v := range []any{struct{}{}, []any{map[string]int{}}, "\xff"} {
		if got, err := YAMLText(v); err == nil {
			t.Errorf("YAMLText(%v) = %s", v, got)
		}
	}
}

// Whatever string or number is written reads back as itself, in either language and to either reader of YAML.
func TestTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-+.0-9eE_:xob~nulyesof]{0,6}`)).Draw(t, "string")
		f := rapid.Float64().Draw(t, "float")
		for _, lang := range []struct {
			text  func(any) (string, error)
			start string
			parse func([]byte) (Tree, error)
		}{
			{YAMLText, "k: ", func(b []byte) (Tree, error) { return ParseYAML(b) }},
			{TOMLText, "k = ", func(b []byte) (Tree, error) { return ParseTOML(b) }},
		} {
			for _, v := range []any{s, f} {
				text, err := lang.text(v)
				if err != nil {
					t.Fatal(err)
				}
				d, err := lang.parse([]byte(lang.start + text + "\n"))
				if err != nil {
					t.Fatalf("%s%s: %v", lang.start, text, err)
				}
				got := d.Root().Get("k")
				if gs, ok := got.Str(); v == any(s) && (!ok || gs != s) {
					t.Fatalf("%q was written as %s and reads %q", s, text, gs)
				}
				if gf, ok := got.Float(); v == any(f) && (!ok || gf != f) {
					t.Fatalf("%v was written as %s and reads %v", f, text, gf)
				}
				if lang.start == "k: " && text[0] != '"' && !agreed(text) {
					t.Fatalf("%s reads differently by YAML 1.1 and 1.2", text)
				}
			}
		}
	})
}

func TestPaths(t *testing.T) {
	for path, want := range map[string][]string{
		"": nil, "a": {"a"}, "a.b.0": {"a", "b", "0"}, `a\.b.c`: {"a.b", "c"}, `a\\.b`: {`a\`, "b"}, "a..b": {"a", "",
			"b"}, "a.": {"a", ""},
	} {
		if got := SplitPath(path); !cmp.Equal(got, want) {
			t.Errorf("SplitPath(%q) = %q, want %q", path, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringMatching(`[ab.\\é]{0,3}`), 1, 4).Draw(t, "keys")
		if got := SplitPath(JoinPath(keys...)); !cmp.Equal(got, keys) && JoinPath(keys...) != "" {
			t.Fatalf("%q becomes %q", keys, got)
		}
	})
}

func TestEditJSON(t *testing.T) {
	for _, tt := range []struct {
		edit Edit
		want string
	}{
		{Edit{Knob: "micro-batch", At: Address{"x.yml", "a.b"}, From: "16", To: "8", Cost: "speed",
			Why: "it would not fit"},
			`{"knob":"micro-batch","doc":"x.yml","path":"a.b","from":"16","to":"8","cost":"speed","why":"it would not fit"}`},
		{Edit{At: Address{ArgvDoc, "-opt"}, Add: true, To: "8"},
			`{"knob":"","doc":"argv","path":"-opt","from":null,"to":"8","cost":"","why":""}`},
		{Edit{At: Address{EnvDoc, "A"}}, `{"knob":"","doc":"env","path":"A","from":"","to":"","cost":"","why":""}`},
	} {
		got, err := json.Marshal(tt.edit)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s, %v\nwant %s", got, err, tt.want)
		}
		var back Edit
		if err := json.Unmarshal(got, &back); err != nil || back != tt.edit {
			t.Errorf("%s reads back as %+v, %v", got, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"knob": 1}`), new(Edit)); err == nil {
		t.Error("a knob that is a number was taken")
	}
	if s := (Edit{At: Address{"x.yml", "a"}, Add: true, To: "1"}).String(); s != "x.yml:a: (absent) -> 1" {
		t.Error(s)
	}
}

func TestApply(t *testing.T) {
	d := mustYAML(t, "a: 1\nb: 2\n")
	for _, tt := range []struct {
		edit Edit
		why  string
	}{
		{Edit{At: Address{"x", "a"}, From: "1", To: "3"}, ""},
		{Edit{At: Address{"x", "a"}, From: "1", To: "4"}, "was 1 when the recipe was read, and is 3 now"},
		{Edit{At: Address{"x", "b"}, Add: true, To: "4"}, "there already as 2"},
		{Edit{At: Address{"x", "c"}, From: "1", To: "4"}, "not there any more"},
		{Edit{At: Address{"x", "c"}, Add: true, To: "4"}, ""},
		{Edit{At: Address{"x", "d"}, Add: true, To: "yes"}, "editing x: d: "},
	} {
		if err := Apply(d,
			tt.edit); tt.why == "" && err != nil || tt.why != "" && (err == nil || !strings.Contains(err.Error(),
			tt.why)) {
			t.Errorf("%v: %v, want %q", tt.edit, err, tt.why)
		}
	}
	if got := string(d.Bytes()); got != "a: 3\nb: 2\nc: 4\n" {
		t.Errorf("%q", got)
	}
}

func TestParse(t *testing.T) {
	for name, text := range map[string]string{"x.yml": "a: 1", "x.TOML": "a = 1", "x": `{"a": 1}`} {
		d, err := Parse(name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if i, ok := d.Root().Get("a").Int(); !ok || i != 1 || string(d.Bytes()) != text {
			t.Errorf("%s: a = %d", name, i)
		}
		if s, err := d.Text("x y"); err != nil || s != `"x y"` {
			t.Errorf("%s: %s", name, s)
		}
	}
	for name, text := range map[string]string{"x.yml": "a: [", "x.toml": "a"} {
		if _, err := Parse(name, []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "reading "+name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
