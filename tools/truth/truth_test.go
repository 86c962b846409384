package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/truth/rows"
)

const root = "../.."

// The limits hold, and the document has the tables that the tool prints today.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	data, broken, err := report(root, &out, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "accuracy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), begin)
	tables, _, _ := strings.Cut(rest, end)
	if strings.TrimSpace(tables) != strings.TrimSpace(out.String()) {
		t.Error("docs/accuracy.md is not what the tool prints: run go run ./tools/truth -write docs/accuracy.md")
	}
	for name, want := range data {
		path := filepath.Join(root, "docs", "accuracy", name+".csv")
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the tool writes: run go run ./tools/truth -write docs/accuracy.md (%v)", path, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(root, "docs", "accuracy", "*")); len(files) != len(data) {
		t.Errorf("%d files of data, want %d: %v", len(files), len(data), files)
	}
}

// Each limit is a limit: a comparison that breaks it is said to.
func TestBroken(t *testing.T) {
	c, err := compare(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(c *comparison)
		says   string
	}{
		"a parameter":     {func(c *comparison) { c.rows[0].Price.Params++ }, "parameters"},
		"saved tensors":   {func(c *comparison) { c.rows[0].Price.Saved *= 2 }, "saved tensors +"},
		"a peak too low":  {func(c *comparison) { c.rows[0].live = c.rows[0].Peak * 97 / 100 }, "peak -3"},
		"a peak too high": {func(c *comparison) { c.rows[0].live = c.rows[0].Peak * 104 / 100 }, "peak +4"},
		"few rows":        {func(c *comparison) { c.rows = c.rows[:59] }, "want at least 60"},
		"one family":      {func(c *comparison) { c.rows = c.rows[:1] }, "families"},
		"refused for naught": {func(c *comparison) {
			for i := range len(c.rows)/20 + 1 {
				c.rows[i].refused = true
			}
		}, "refused falsely"},
	} {
		broken := comparison{files: c.files, rows: append([]compared(nil), c.rows...)}
		tt.change(&broken)
		if got := strings.Join(broken.broken(), "; "); !strings.Contains(got, tt.says) {
			t.Errorf("%s: said %q, want %q", name, got, tt.says)
		}
	}
}

// A job that needs more than its room by more than the tape is off is refused, one that needs less is not.
func TestRefusals(t *testing.T) {
	c, err := compare(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.rows {
		if want := r.Tensors.Certain() > unit.Bytes(roomAbove*float64(r.Peak)); r.refused != want {
			t.Errorf("%s, %s: refused %v, want %v", r.Name, r.Settings(), r.refused, want)
		}
	}
}

// Of what was not measured there is no figure, and a tracker on the CPU is no card.
func TestUnmeasured(t *testing.T) {
	dir := t.TempDir()
	setting := `{"batch": 4, "checkpointing": false, "net": "plain", "optimizer": "adamw", "precision": "fp32", "size": 64, "source": "ours"}`
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table := func() string {
		c, err := readCards(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.table(&printer{w: &out})
		return out.String()
	}
	write("grid.txt", setting+"\n"+strings.Replace(setting, "64,", "128,", 1)+"\n")
	row := `{"device": "%s", "rows": [{"row": ` + setting + `, "facts": {"device": "A card", "capability": "8.6"}, "phases": {
		"second forward and backward": {"allocated": 200000000, "reserved": 210000000, "used": null}}}]}`
	write("gpu_cpu.json", strings.Replace(row, "%s", "cpu", 1))
	if got := table(); !strings.Contains(got, "all 2 rows of the grid") || strings.Contains(got, "ratio") {
		t.Errorf("without a card: %s", got)
	}
	write("gpu_card.json", strings.Replace(row, "%s", "cuda", 1))
	if got := table(); !strings.Contains(got, "1 of 2 rows of the grid are unmeasured") || !strings.Contains(got, "A card") {
		t.Errorf("with one row: %s", got)
	}
}

// python is Debian's, with torch 1.13 on the CPU.
func python() string {
	if p := os.Getenv("LAUNCH_TEST_PYTHON"); p != "" {
		return p
	}
	return "/usr/bin/python3"
}

// The grid that is counted is the script's own.
func TestGrid(t *testing.T) {
	out, err := exec.Command(python(), filepath.Join(root, "tools", "capture", "gpu.py"), "--list", "--checkout", "redux=.").Output()
	if err != nil {
		t.Fatal(err)
	}
	grid, err := os.ReadFile(filepath.Join("testdata", "grid.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != string(grid) {
		t.Error("testdata/grid.txt is not the grid: run gpu.py --list --checkout redux=. into it")
	}
}

// The script that measures a card runs its rows without one, goes on where it stopped, and the tape has what it sees.
func TestCaptureWithoutGPU(t *testing.T) {
	out := filepath.Join(t.TempDir(), "gpu.json")
	run := func(only string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, python(), filepath.Join(root, "tools", "capture", "gpu.py"), out, "--device", "cpu", "--only", only)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	read := func() (c rows.Cards) {
		data, err := os.ReadFile(out)
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const row = `"batch": 2, "checkpointing": false, "net": "residual bn", "optimizer": "adamw", "precision": "fp32"`
	run(row)
	first := read()
	run(row) // again: nothing is left to measure
	if c := read(); len(c.Rows) != 1 || len(first.Rows) != 1 || c.Device != "cpu" {
		t.Fatalf("%d rows of %q, then %d, want one", len(first.Rows), c.Device, len(c.Rows))
	}
	r := first.Rows[0]
	if len(r.Phases) != 6 {
		t.Errorf("the phases are %v, want six", r.Phases)
	}
	e, err := r.Price()
	if err != nil {
		t.Fatal(err)
	}
	tensors, _, _, _ := rows.Sums(e)
	peak := r.Peak()
	if peak.Allocated == nil || peak.Reserved != nil || peak.Used != nil {
		t.Fatalf("the tracker says %+v, want what is live and nothing that only a card knows", peak)
	}
	if o := off(tensors, *peak.Allocated); o < -.02 || o > .05 {
		t.Errorf("the tape has %v, PyTorch %v (%+.1f %%)", tensors, *peak.Allocated, 100*o)
	}
}

// The limits of traces are limits too.
func TestTracesBroken(t *testing.T) {
	traces, err := readTraced(root)
	if err != nil {
		t.Fatal(err)
	}
	ran, err := readReally(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) < 80 || len(ran) < 10 || len(tracedBroken(traces)) > 0 || len(reallyBroken(ran)) > 0 {
		t.Fatalf("%d and %d rows: %v, %v", len(traces), len(ran), tracedBroken(traces), reallyBroken(ran))
	}
	large, small := slices.Clone(traces), slices.Clone(traces)
	for i := range traces {
		large[i].fitted *= 2
		small[i].refused = small[i].fitted / 2
	}
	for want, of := range map[string][]tracedModel{"that trained fit": large, "did not train do not fit": small} {
		if got := tracedBroken(of); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("no limit is broken where %q: %v", want, got)
		}
	}
	far := slices.Clone(ran)
	far[0].traced *= 1.03
	if got := reallyBroken(far); len(got) != 1 || !strings.Contains(got[0], far[0].kind) {
		t.Errorf("a trace 3 %% off breaks %v", got)
	}
}
