package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A run that saw no device has no room, which is not a room of nothing.
func TestShowLeavesOutWhatIsNotKnown(t *testing.T) {
	for room, want := range map[unit.Bytes]string{
		0:            "\n      training: estimate 1.00 GiB, measured 900 MiB allocated\n",
		8 * unit.GiB: "\n      training: estimate 1.00 GiB of 8.00 GiB, measured 900 MiB allocated\n",
	} {
		a := run.Attempt{Outcome: run.Outcome{Ending: run.Succeeded, Measured: map[string][]mem.Measurement{ladder.Training: {{Bytes: 900 * unit.MiB, Is: "allocated"}}}},
			Plan: run.Plan{Attempt: 1, Room: room, Choices: []run.Choice{
				{Phase: ladder.Training, Name: "as asked", Estimate: mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.GiB}}}},
				{Phase: ladder.Validation, Name: "as asked", Estimate: mem.Estimate{Unknown: "the images are not here"}},
			}}}
		h := &record.History{ID: "x", Events: []record.Event{{Kind: record.Started, Run: &run.Run{Job: &job.Job{Dialect: "r", Plugin: "p"}}}, {Kind: record.Ended, Attempt: &a}}}
		var out strings.Builder
		Printer{W: &out}.Show(h, record.Life{})
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "0 B") || strings.Contains(got, "validation:") {
			t.Errorf("room %v: %s", room, got)
		}
	}
}

// A run that another machine carries is listed with that machine and its last sign.
func TestRunElsewhere(t *testing.T) {
	h := &record.History{ID: "20261102-000000.000-beef", Events: []record.Event{{Kind: record.Followed, Args: []string{"true"}}}}
	row := RowOf(h, record.Life{Alive: true, PID: 7, Host: "gpu7", Sign: time.Now().Add(-40 * time.Second)})
	if row.State != "running" || row.Host != "gpu7" || row.LastSign == nil {
		t.Fatalf("the row is %+v", row)
	}
	var out strings.Builder
	Printer{W: &out}.Runs([]RunRow{row})
	if !strings.Contains(out.String(), "on gpu7, last sign 40") {
		t.Errorf("it is listed as %q", out.String())
	}
	out.Reset()
	Printer{W: &out}.Show(h, record.Life{Alive: true, PID: 7, Host: "gpu7", Sign: time.Now().Add(-40 * time.Second)})
	if !strings.Contains(out.String(), "process 7 on gpu7, last sign 40s ago") {
		t.Errorf("it is shown as %q", out.String())
	}
}

// Every attempt that was planned is listed under its own number, also one whose launch was killed.
func TestShowListsEveryAttempt(t *testing.T) {
	planned := func(n int) record.Event {
		return record.Event{Kind: record.Planned, Plan: &run.Plan{Attempt: n}}
	}
	ended := func(n int, ending run.Ending) record.Event {
		a := &run.Attempt{Plan: run.Plan{Attempt: n}, Outcome: run.Outcome{Ending: ending}}
		return record.Event{Kind: record.Ended, Attempt: a}
	}
	h := &record.History{ID: "x", Events: []record.Event{
		{Kind: record.Started, Run: &run.Run{Job: &job.Job{Dialect: "r", Plugin: "p"}}},
		planned(1), ended(1, run.Interrupted), planned(2), planned(3), ended(3, run.Succeeded),
	}}
	if r := h.Run(); len(r.Attempts) != 2 || r.Numbered != 3 {
		t.Errorf("%d attempts ended, %d numbers are taken; want 2 and 3", len(r.Attempts), r.Numbered)
	}
	var out strings.Builder
	Printer{W: &out}.Show(h, record.Life{})
	got := strings.Join(strings.Fields(out.String()), " ")
	last := 0
	for _, want := range []string{
		"attempt 1 ", "interrupted", "attempt 2 ", "cut off: launch was killed", "attempt 3 ", "succeeded",
	} {
		at := strings.Index(got[last:], want)
		if at < 0 {
			t.Fatalf("after byte %d, %q is missing in\n%s", last, want, out.String())
		}
		last += at
	}
	out.Reset()
	Printer{W: &out}.Explain(Explanation{Run: &RunDoc{State: "succeeded", Attempts: []AttemptDoc{
		{Number: 1, Ending: run.Interrupted}, {Number: 3, Changes: "as asked"},
	}}})
	if got := out.String(); !strings.Contains(got, "  attempt 1  ") || !strings.Contains(got, "in attempt 3, as asked") {
		t.Errorf("it explains\n%s", got)
	}
}

// What an attempt that ran out of memory was seen to hold is less than what it needed.
func TestPeakOfOutOfMemoryIsABound(t *testing.T) {
	peak := 900 * unit.MiB
	for ending, want := range map[run.Ending]string{run.OutOfMemory: "at least 900 MiB data", run.Succeeded: "900 MiB data"} {
		a := run.Attempt{Plan: run.Plan{Attempt: 1}, Outcome: run.Outcome{Ending: ending, Peak: peak, PeakIs: "data"}}
		r := &run.Run{Job: &job.Job{}, Attempts: []run.Attempt{a}}
		var summary, shown, explained strings.Builder
		Printer{W: &summary}.Summary(r, nil, "x", 0, "the program's own")
		Printer{W: &shown}.outcome(&a.Outcome)
		Printer{W: &explained}.Explain(Explanation{Run: &RunDoc{State: string(ending), PeakBytes: &peak, PeakIs: "data"}})
		for where, got := range map[string]string{"measured peak ": summary.String(), "measured peak: ": shown.String(), "  measured peak ": explained.String()} {
			if !strings.Contains(got, where+want) {
				t.Errorf("%s: %q lacks %q", ending, got, where+want)
			}
		}
	}
}

// A peak that holds cudnn.benchmark's trials is marked as that wherever it is printed.
func TestPeakWithTrials(t *testing.T) {
	m := mem.Measurement{Is: mem.Allocated, Bytes: 8 * unit.GiB, Bound: mem.AtMost, With: mem.Trials}
	a := run.Attempt{Plan: run.Plan{Attempt: 1}, Outcome: run.Outcome{Ending: run.Succeeded, Peak: m.Bytes, PeakIs: m.Is,
		PeakWith: m.With}}
	var summary, shown, receipts strings.Builder
	Printer{W: &summary}.Summary(&run.Run{Job: &job.Job{}, Attempts: []run.Attempt{a}}, nil, "x", 0, "the program's own")
	Printer{W: &shown}.outcome(&a.Outcome)
	Printer{W: &receipts}.Receipts([]record.Receipt{{Measured: []mem.Measurement{m, m}}})
	for where, tt := range map[string]struct{ got, want string }{
		"summary": {summary.String(), "measured peak 8.00 GiB allocated (with cudnn.benchmark's trials)"},
		"show":    {shown.String(), "measured peak: 8.00 GiB allocated (with cudnn.benchmark's trials)"},
		"phase": {measuredText([]mem.Measurement{m}), ", measured ≤ 8.00 GiB allocated (with cudnn.benchmark's " +
			"trials)"},
		"receipt": {receipts.String(), "≤ 8.00 GiB   allocated (with cudnn.benchmark's trials) · micro-batch"},
		"more":    {receipts.String(), "≤ 8.00 GiB   allocated (with cudnn.benchmark's trials)\n"},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("%s: %q lacks %q", where, tt.got, tt.want)
		}
	}
}

func TestSummaryOfAMisreadBatch(t *testing.T) {
	a := run.Attempt{Plan: run.Plan{Batch: job.Batch{Micro: 16, Accumulation: 256, Ranks: 1}},
		Outcome: run.Outcome{Ending: run.Succeeded, Settings: map[string]string{job.Accumulation: "1"}}}
	var summary strings.Builder
	Printer{W: &summary}.Summary(&run.Run{Job: &job.Job{}, Attempts: []run.Attempt{a}}, nil, "x", 0, "the program's own")
	want := "the program reports accumulation 1, and launch read 256 from the command: " +
		"the global batch that launch printed is wrong"
	if !strings.Contains(summary.String(), want) {
		t.Errorf("%s\nlacks: %s", summary.String(), want)
	}
}
