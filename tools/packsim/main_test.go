package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/sweep/pack/packtest"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/large-sweeps.md")

// The page shows what the simulation comes to: a line "<!-- packsim: NAME -->", the table, an empty line.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 70,000 trials")
	}
	path := filepath.Join("..", "..", "docs", "large-sweeps.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, table := range packtest.Tables(10_000) {
		mark := "<!-- packsim: " + table.Name + " -->\n"
		before, after, found := strings.Cut(text, mark)
		shown, rest, ends := strings.Cut(after, "\n\n")
		if !found || !ends {
			t.Fatalf("%s lacks the table %q", path, table.Name)
		}
		if d := cmp.Diff(table.Text, shown+"\n"); d != "" && !*update {
			t.Errorf("%s: simulated -, shown +; -update rewrites it:\n%s", table.Name, d)
		}
		text = before + mark + table.Text + "\n" + rest
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
