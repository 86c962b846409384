package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// lmFile is the observations as they were labelled, without an estimate.
func lmFile(t *testing.T) (c lmCards) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "real_lm.json"))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What each row has to say, whatever its estimate is.
func TestLMRows(t *testing.T) {
	c := lmFile(t)
	trusted, kinds := 0, map[string]int{}
	for i, r := range c.Rows {
		if r.ID != i+1 || r.Source == "" || r.Date == "" || r.Software == "" || r.Because == "" || r.Bytes <= 0 {
			t.Errorf("row %d is not whole: %+v", r.ID, r)
		}
		if r.Label != "trusted" && r.Label != "context" || c.Models[r.Net] == nil {
			t.Errorf("row %d: label %q, model %q", r.ID, r.Label, r.Net)
		}
		if r.trusted() {
			trusted++
		}
		kinds[r.What]++
		if _, err := r.Step.step(c.Models[r.Net]); err != nil && !(lmRow{observation: observation{err: err}}).unknown() {
			t.Errorf("row %d: %v", r.ID, err)
		}
	}
	if len(c.Rows) < 40 || trusted < 25 || kinds["fits"] < 5 || kinds["does not fit"] < 5 || kinds["allocated"] < 10 {
		t.Errorf("%d rows, %d trusted, %v", len(c.Rows), trusted, kinds)
	}
}

// A row's settings are the step that the formula is asked.
func TestLMStep(t *testing.T) {
	c := lmFile(t)
	l := lmStep{Batch: 3, Length: 128, Accumulate: 2, Weights: "bf16", AMP: "fp16", Optimizer: "adamw_hf",
		Attention:     "eager",
		Checkpointing: "reentrant", Padded: true}
	s, err := l.step(c.Models["gpt2"])
	if err != nil || s.Batch != 3 || s.Length != 128 || s.Accumulate != 2 || s.Weights != nn.BF16 ||
		s.Autocast != nn.F16 ||
		s.Optimizer != "adamw_torch_fused" || !s.Eager || !s.Checkpointing || !s.Reentrant || !s.Padded {
		t.Errorf("%+v: %v", s, err)
	}
	l.Form, l.World = []string{"fsdp"}, 4
	if s, err := l.step(c.Models["gpt2"]); err != nil || s.World != 4 || s.FSDP == nil || s.FSDP.Master != nn.F32 ||
		s.Weights != nn.F16 || s.Autocast != nn.F16 {
		t.Errorf("FSDP: %+v: %v", s, err)
	}
	l.Form = []string{"zero_3"}
	if s, err := l.step(c.Models["gpt2"]); err != nil || s.Shards == nil || s.Shards.Stage != 3 || s.Weights != nn.F16 ||
		s.Autocast != nn.F32 || s.Shards.Reduce != 768*768 {
		t.Errorf("ZeRO 3: %+v: %v", s, err)
	}
	l.Form = []string{"compile"}
	if _, err := l.step(c.Models["gpt2"]); !(lmRow{observation: observation{err: err}}).unknown() {
		t.Errorf("torch.compile has a formula: %v", err)
	}
	l.Form = []string{"nosuch"}
	if _, err := l.step(c.Models["gpt2"]); err == nil || (lmRow{observation: observation{err: err}}).unknown() {
		t.Errorf("a form that nobody knows: %v", err)
	}
}

// No limit of the language models is broken, and each is a limit.
func TestLMCards(t *testing.T) {
	c, err := readLM("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if broken := c.broken(); len(broken) > 0 {
		t.Error(strings.Join(broken, "\n"))
	}
	for id := range c.score.Estimates {
		if id < 1 || id > len(c.Rows) {
			t.Errorf("row %d was scored, and there is no such row", id)
		}
	}
	at := func(id int) func(rows []lmRow) *lmRow {
		return func(rows []lmRow) *lmRow { return &rows[id-1] }
	}
	agreed := slices.IndexFunc(c.Rows, func(r lmRow) bool { return r.agrees && r.trusted() })
	if agreed < 0 {
		t.Fatal("no trusted row agrees")
	}
	for name, tt := range map[string]struct {
		row    func(rows []lmRow) *lmRow
		change func(r *lmRow)
		want   string
	}{
		"a trusted row that disagrees": {at(agreed + 1), func(r *lmRow) { r.agrees = false }, "does not agree"},
		"a job that would be refused": {at(agreed + 1), func(r *lmRow) { r.over = true },
			"the estimate is more than the card has"},
		"a job that launch would not start": {at(120), func(r *lmRow) { r.refused = true },
			"the estimate is more than the card has"},
		"a row that cannot be read": {at(agreed + 1), func(r *lmRow) { r.err = filepath.ErrBadPattern }, "syntax error"},
		"an unknown one is none":    {at(agreed + 1), func(r *lmRow) { r.err = noFormula("none") }, ""},
	} {
		changed := lmCards{Rows: slices.Clone(c.Rows)}
		tt.change(tt.row(changed.Rows))
		got := strings.Join(changed.broken(), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: broken is %q, want %q", name, got, tt.want)
		}
	}
}

// A release that launch does not know gives no estimate; where none is named, the formulas are those of 5.
func TestLMRelease(t *testing.T) {
	s := arch.Step{Model: arch.Config{Type: "llama"}, Weights: nn.F32, Eager: true}
	for software, want := range map[string]arch.Release{"transformers 4.36, torch 2.1": 36,
		"trl and transformers 4.46":       46,
		"transformers 4.30 (development)": 30, "transformers 5.13.1, peft 0.19": 0, "LLaMA-Factory of 2024-05": 0} {
		if got, err := (lmRow{Software: software}).release(s); got != want || err != nil {
			t.Errorf("%s: release %d, error %v", software, got, err)
		}
	}
	for _, software := range []string{"transformers 2.5, run_clm.py", "transformers 4.0.1, torch 1.6", "transformers 4.28",
		"transformers of 2022-05, run_clm.py", "transformers 4.38"} { // llama has no formula with 4.38
		if got, err := (lmRow{Software: software}).release(s); err == nil {
			t.Errorf("%s: release %d, and launch knows none", software, got)
		}
	}
}

// What was scored once is of rows that are there, and agrees by the limits of the rest.
func TestLMScore(t *testing.T) {
	fits := lmRow{observation: observation{What: "fits", Bytes: 10 * unit.GiB}}
	peak := lmRow{observation: observation{What: "allocated", Bytes: 10 * unit.GiB}}
	for name, ok := range map[string]bool{"it fits": fits.agreed(9.9), "no estimate fits": !fits.agreed(0),
		"it does not": !fits.agreed(10.1), "5 %": peak.agreed(10.49), "6 %": !peak.agreed(10.6), "under": !peak.agreed(9.4)} {
		if !ok {
			t.Error(name)
		}
	}
}
