package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain, tab\tand\nline":    "plain, tab\tand\nline",
		"größe, 大きさ, ½ × 2":        "größe, 大きさ, ½ × 2",
		"\x1b[31mred\x1b[0m":       "red",
		"\x1b[2J\x1b[1;1Hgone":     "gone",
		"\x1b]0;title\x07 shown":   "]0;title shown", // nothing is hidden by a string that may never end
		"\x1b[12":                  "",
		"\x1b[1\nafter":            "\nafter",
		"\x1b\x1b[1mx":             "x",
		"over\rwritten\b\b":        "overwritten",
		"del\x7f nul\x00 bell\x07": "del nul bell",
		"c1 \u009b31m \u0085":      "c1 31m ",
		"bidi \u202egnp.\u2066x":   "bidi gnp.x",
		"line\u2028separated":      "line separated",
		"latin-1 \xe9, raw \x9b2J": "latin-1 \ufffd, raw \ufffd2J",
		"mark \ufdd1\ufdd0":        "mark ",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := OneLine("a\nlaunch: succeeded\tin 3 s"); got != "a launch: succeeded in 3 s" {
		t.Errorf("one line: %q", got)
	}
}

// Whatever a name holds, a line that begins as launch's is launch's, and only launch's own colours reach a terminal.
func TestPrinterCleans(t *testing.T) {
	var b bytes.Buffer
	p := Printer{W: &b, Prefix: "launch: "}
	p.Warn("%v", errors.New("no \x1b[31mplugin\x1b[0m\r\nlaunch: succeeded in 3 s"))
	if got, want := b.String(), "launch: note: no plugin\n    launch: succeeded in 3 s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Reset()
	p.Colour = true
	p.Warn("%s", "\x1b[31mred\ufdd3 \x1b]52;c;eA==\x07")
	if got := b.String(); !strings.HasPrefix(got, "launch: \x1b[33mnote:\x1b[0m ") || strings.Contains(got, "\x1b[31m") || strings.Contains(got, "\x1b]") {
		t.Errorf("%q", got)
	}
	b.Reset()
	p.Line("%s", p.bold("\x1b[2Jx\ufdd0\ufdd2"))
	if got := b.String(); got != "launch: \x1b[1mx\x1b[0m\n" {
		t.Errorf("%q", got)
	}
}

func TestCleanJSON(t *testing.T) {
	in := map[string]string{"a\u009b": "x\x7f\x1b[31m\u202e\n½"}
	doc, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	doc = CleanJSON(doc)
	if bytes.ContainsAny(doc, "\x7f\u009b\u202e\x1b") || !bytes.Contains(doc, []byte("½")) {
		t.Errorf("%q", doc)
	}
	out := map[string]string{}
	if err := json.Unmarshal(doc, &out); err != nil || out["a\u009b"] != in["a\u009b"] {
		t.Errorf("it reads as %q, %v", out, err)
	}
}

// A name with a line break is one row of a table.
func TestRunsRow(t *testing.T) {
	var b bytes.Buffer
	Printer{W: &b}.Runs([]RunRow{{ID: "20260101", State: "failed", Command: []string{"sh", "-c", "x\n20990101  succeeded"}}})
	if strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%q", b.String())
	}
}
