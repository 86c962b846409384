package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/ui"
)

// What the page shows of a log is what is printed of it.
func TestExplainPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "$ launch explain core/")
	path, rest, _ := strings.Cut(rest, "\n")
	shown, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended {
		t.Fatal("the page shows no log")
	}
	x, err := explainTexts([]string{filepath.Join("..", "..", "core", path)}, false)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	ui.Printer{W: &b}.Explain(x)
	if b.String() != shown {
		t.Errorf("docs/explain.md shows\n%s\nand launch explain core/%s prints\n%s", shown, path, b.String())
	}
}
