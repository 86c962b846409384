package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/truth/rows"
)

// write makes a file of a test, with its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A rehearsal runs pieces of a card day with a binary and examples of its own.
type rehearsal struct {
	t                        *testing.T
	launch, examples, folder string
	env                      []string
}

func newRehearsal(t *testing.T, env ...string) rehearsal {
	dir := t.TempDir()
	r := rehearsal{t, filepath.Join(dir, "launch"), filepath.Join(dir, "examples"), filepath.Join(dir, "records"),
		append(os.Environ(), env...)}
	if said, err := exec.Command("go", "build", "-o", r.launch, "../../cmd/launch").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	write(t, filepath.Join(r.examples, "moco", "demo.sh"), "[ \"$1\" = cpu ] && \"$LAUNCH\" version\n")
	sisr, err := filepath.Abs("../../examples/sisr")
	if err == nil {
		err = os.Symlink(sisr, filepath.Join(r.examples, "sisr"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// piece runs one piece, and returns what it printed.
func (r rehearsal) piece(args ...string) string {
	r.t.Helper()
	args = append([]string{"../capture/card.py", r.folder, "--launch", r.launch, "--examples", r.examples}, args...)
	command := exec.CommandContext(r.t.Context(), python(), args...)
	command.Env = r.env
	said, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, said)
	}
	return string(said)
}

// steps are those that the folder has.
func (r rehearsal) steps() map[string]step {
	r.t.Helper()
	d, err := readDay(r.folder)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, s := range d.Steps {
		if !s.OK || s.Facts.Torch == "" || s.Facts.Date == "" {
			r.t.Errorf("%s: %+v", name, s)
		}
	}
	return d.Steps
}

// A card day without a card: it stops when its time is up, goes on where it stopped, and its folder can be taken.
func TestCardDay(t *testing.T) {
	r := newRehearsal(t)
	piece := func(more ...string) string {
		return r.piece(append(more, "--device", "cpu", "--only",
			`nvml|inside|oom (host|caught)|demo moco|row .*"kind": "(gan|ddp)".*fp32|row .*benchmark.*validation`)...)
	}
	began := time.Now()
	said := piece("--minutes", "0.26") // the first step has its 15 seconds, and not all of the others
	if !strings.Contains(said, "steps are left: run the same command again") || time.Since(began) > 40*time.Second {
		t.Fatalf("the first piece took %v: %s", time.Since(began), said)
	}
	if first := r.steps(); len(first) == 0 || first["nvml"].Took == 0 {
		t.Fatalf("the first piece made %v", first)
	}
	said = piece("--minutes", "5", "--pace", "0.1")
	if !strings.Contains(said, "nothing is left") || strings.Contains(said, "nvml") {
		t.Fatalf("the second piece: %s", said)
	}
	if steps := r.steps(); len(steps) != 8 {
		t.Errorf("%d steps: %v", len(steps), steps)
	}
	var out bytes.Buffer
	if err := take(r.folder, t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"8 of 8 steps are as expected", "3 rows, allocated: median", "nothing is written"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("take printed no %q: %s", want, out.String())
		}
	}
	rehearsed, err := rows.ReadCards(filepath.Join(r.folder, "gpu.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rehearsed.Rows { // the formulas of a GAN's step, of DDP and of a whole validation are gpu.py's
		e, err := row.Price()
		if err != nil {
			t.Fatal(err)
		}
		tensors, _, _, _ := rows.Sums(e)
		if o := off(tensors, *row.Peak().Allocated); o < -rows.PeakUnder || o > .05 {
			t.Errorf("%s: the tape has %v, PyTorch %v", row.Row, tensors, *row.Peak().Allocated)
		}
	}
}

// The steps that are for CUDA alone, behind a stub of torch.cuda: rows and logs, and what -take makes of them.
func TestCardDayOnAStub(t *testing.T) {
	stub, err := filepath.Abs("../capture/stub")
	if err != nil {
		t.Fatal(err)
	}
	r := newRehearsal(t, "PYTHONPATH="+stub)
	said := r.piece("--tiny", "--minutes", "5", "--pace", "0.1", "--only",
		`oom (request|limit)|row .*"benchmark": true.*"kind": "validation"`)
	if !strings.Contains(said, "nothing is left") {
		t.Fatal(said)
	}
	if steps := r.steps(); len(steps) != 3 {
		t.Errorf("%d steps: %v", len(steps), steps)
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "tools/truth/testdata/grid.txt"), "")
	write(t, filepath.Join(root, "core/mem/priors.json"), "[]\n")
	var out bytes.Buffer
	if err := take(r.folder, root, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 of 3 steps are as expected", "1 rows in", "2 logs in", "no context is taken"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("take printed no %q: %s", want, out.String())
		}
	}
	logs, err := filepath.Glob(filepath.Join(root, "core/oom/testdata/card/*_a_stub_of_1_gib_torch_1_13*.log"))
	if err != nil || len(logs) != 2 {
		t.Errorf("logs %v, %v", logs, err)
	}
}

const cardFacts = `"facts": {"device": "Some Card 24GB", "total": 25757220864, "capability": "8.9",
	"driver": "580.1", "torch": "2.11.0+cu130", "date": "2026-12-01"}`

// aCardDay writes records as a card would have left them: two rows, two logs, a demo that failed.
func aCardDay(t *testing.T, context int64) (folder string) {
	folder = t.TempDir()
	row := func(more string, first, second, used int64) string {
		return fmt.Sprintf(`{"row": {"batch": 16, "checkpointing": false, "net": "plain", "optimizer": "adamw",
			"precision": "bf16", "size": 64, "source": "ours"%s},
			%s, "overheads": {"context": 280000000, "cublas_allocated": 8519680}, "phases": {"model": {"allocated": 1},
			"forward and backward": {"allocated": %d, "reserved": %d}, "second forward and backward": {"allocated": %d,
				"reserved": 400000000},
			"second optimizer step": {"allocated": 30000000, "reserved": 400000000, "reserved_now": 400000000, "used": %d}}}`,
			more, cardFacts, first, first, second, used)
	}
	write(t, filepath.Join(folder, "gpu.json"), `{"schema": 1, "device": "cuda", "rows": [`+row("", 170000000, 170000000,
		400000000+context)+", "+
		row(`, "benchmark": true`, 236300000, 170000000, 410000000+context)+`, {"row": {"net": "none"}, "error": "exit 1"}]}`)
	write(t, filepath.Join(folder, "card.json"), `{"schema": 1, "device": "cuda", "steps": {
		"oom capacity": {"ok": true, "took_s": 3, "kind": "capacity", "exit": 1, "expect": {"oom": true},
			"said": {"oom": true}, "text": "a log\n", `+cardFacts+`},
		"oom killed": {"ok": true, "took_s": 3, "skipped": "no control group", `+cardFacts+`},
		"oom context": {"ok": false, "took_s": 3, "kind": "context", "exit": 1, "expect": {"oom": true},
			"said": {"oom": false}, "text": "another\n", `+cardFacts+`},
		"demo sisr": {"ok": false, "took_s": 9, "exit": 1, "text": "NOT SO", `+cardFacts+`}}}`)
	return folder
}

func TestTake(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "tools/truth/testdata/grid.txt"), "")
	write(t, filepath.Join(root, "core/mem/priors.json"), "[]\n")
	var out bytes.Buffer
	if err := take(aCardDay(t, 290<<20), root, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"oom context: the report has map[oom:false], want map[oom:true]", "demo sisr: exit 1",
		"2 of 4 steps are as expected", "2 rows in", "2 logs in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("take printed no %q: %s", want, out.String())
		}
	}
	if err := take(aCardDay(t, 300<<20), root, &out); err != nil { // once more: nothing is there twice
		t.Fatal(err)
	}
	priors, err := mem.ReadPriors(filepath.Join(root, "core/mem/priors.json"))
	if err != nil || len(priors) != 1 || priors[0].ContextLeast != 300*unit.MiB ||
		priors[0].Context != 300*unit.MiB+10000000 || priors[0].BLAS != 8519680 || priors[0].Rows != 2 {
		t.Errorf("priors %+v, %v", priors, err)
	}
	const name = "some_card_24gb_torch_2_11_0_cu130"
	log, err := os.ReadFile(filepath.Join(root, "core/oom/testdata/card/capacity_"+name+".log"))
	if err != nil || string(log) != "a log\n" {
		t.Errorf("the log is %q, %v", log, err)
	}
	c, err := readCards(filepath.Join(root, "tools/truth/testdata"))
	if err != nil || len(c.measured) != 2 {
		t.Fatalf("%d rows, %v", len(c.measured), err)
	}
	var tables bytes.Buffer
	p := printer{w: &tables}
	c.table(&p)
	priorsTable(&p, priors)
	for _, want := range []string{"cudnn.benchmark", "1.390", "Some Card 24GB", "WHAT ONLY A CARD KNOWS", "309.5"} {
		if !strings.Contains(tables.String(), want) {
			t.Errorf("the tables have no %q:\n%s", want, tables.String())
		}
	}
	if peak := *c.measured[1].Peak().Allocated; peak != 170000000 {
		t.Errorf("with cudnn.benchmark the peak is %v: its trials are counted", peak)
	}
}
