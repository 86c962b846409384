package oom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/oom/printed"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/unit"
)

// trainer are the signs of a trainer that exits 0 whatever happens, replaces messages and logs through rich.
var trainer = job.Signs{
	MustSucceed: true,
	Lines: []job.Sign{
		{Kind: job.Started, Pattern: `Start training from epoch: (?P<epoch>\d+), iter: (?P<iteration>\d+)`},
		{Kind: job.Progress, Pattern: `\[epoch:\s*[\d,]+, iter:\s*(?P<iteration>[\d,]+), lr:\([^)]*\)\]`},
		{Kind: job.Memory, Pattern: `\[peak VRAM: (?P<bytes>[\d.]+) (?P<unit>GB)\]`},
		{Kind: job.SavedState, Pattern: `Saving models and training states to (?P<path>\S+) for epoch: \d+, iter: (?P<iteration>\d+)`},
		{Kind: job.Phase, Phase: "validation", Pattern: `Saving \d+ validation images`},
		{Kind: job.PhaseEnd, Phase: "validation", Pattern: `Validation \S+ done`},
		{Kind: job.OutOfMemory, Phase: "training", Pattern: `Ran out of VRAM during training`},
		{Kind: job.Survived, Pattern: `OOM Recovery successful`},
		{Kind: job.Setting, Knob: "batch", Pattern: `Batch size per gpu: (?P<value>\d+)`},
		{Kind: job.Interrupted, Pattern: `User interrupted`},
		{Kind: job.Failed, Pattern: `Training stopped`},
		{Kind: job.Succeeded, Pattern: `End of training`},
	},
}

const trainingLog = `2025-11-21 10:00:00,000 INFO: Batch size per gpu: 16
2025-11-21 10:00:00,000 INFO: Start training from epoch: 0, iter: 0.
2025-11-21 10:00:01,000 INFO: [epoch:  0, iter:   1,100, lr:(2.000e-04,)] [peak VRAM: 1.71 GB] l_g_total: 0.1
2025-11-21 10:00:01,000 INFO: Saving models and training states to experiments/x for epoch: 0, iter: 1100.
`

const traceback = "Traceback (most recent call last):\n  File \"train.py\", line 441, in train_pipeline\n    model.optimize_parameters(i)\n" +
	"  File \"models/sr_model.py\", line 652, in optimize_parameters\n    loss = self.net(lq)\n"

func TestState(t *testing.T) {
	d := newDetector(t, trainer)
	var kinds []job.SignKind
	d.OnEvent = func(e Event) { kinds = append(kinds, e.Kind) }
	write(t, d, Log, trainingLog)
	s := d.State()
	if s.Iteration != 1100 || s.Phase != "training" || !s.Started || s.Succeeded || s.Settings["batch"] != "16" {
		t.Errorf("the state is %+v", s)
	}
	if s.Peak != unit.Bytes(1836098519) {
		t.Errorf("the peak is %d", s.Peak)
	}
	if s.Saved == nil || s.Saved.Path != "experiments/x" || s.Saved.Iteration != 1100 || s.Saved.Line.Number != 4 {
		t.Errorf("the saved state is %+v", s.Saved)
	}
	want := []job.SignKind{job.Setting, job.Started, job.Progress, job.Memory, job.SavedState}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	write(t, d, Log, "Saving 3 validation images\n")
	if p := d.State().Phase; p != "validation" {
		t.Errorf("the phase is %q in validation", p)
	}
	write(t, d, Log, "Validation set5 done\n")
	if p := d.State().Phase; p != "training" {
		t.Errorf("the phase is %q after validation", p)
	}
}

// Once a program has announced its number of steps, a bar with another total is not that of its training.
func TestAnnouncedTotal(t *testing.T) {
	d := newDetector(t, job.Signs{Lines: []job.Sign{
		{Kind: job.Started, Pattern: `steps in all = (?P<total>\d+)`},
		{Kind: job.Progress, Pattern: `\| (?P<iteration>\d+)/(?P<total>\d+) \[`},
		{Kind: job.Phase, Phase: "validation", Pattern: `Running Evaluation`},
	}})
	write(t, d, Terminal, "  9%| 3/32 [00:01\nsteps in all = 6\n 67%| 4/6 [00:11\n***** Running Evaluation\n 13%| "+
		"2/16 [00:01\n")
	if s := d.State(); s.Iteration != 4 || s.Total != 6 || s.Phase != "validation" {
		t.Errorf("iteration %d of %d in %s, want 4 of 6 in validation", s.Iteration, s.Total, s.Phase)
	}
	write(t, d, Terminal, " 83%| 5/6 [00:16\n")
	if s := d.State(); s.Iteration != 5 || s.Phase != "training" {
		t.Errorf("iteration %d in %s, want 5 in training", s.Iteration, s.Phase)
	}
}

// Settings may be printed on one stream while the bars are drawn on another that spoke first.
func TestSettingsOfEveryStream(t *testing.T) {
	d := newDetector(t, job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`},
		{Kind: job.Setting, Knob: "batch", Pattern: `batch size: (?P<value>\d+)`},
	}})
	write(t, d, Stderr, "step 1\nbatch size: 8\n")
	write(t, d, Terminal, "batch size: 4\n")
	if got := d.State().Settings["batch"]; got == "" {
		t.Errorf("settings %v", d.State().Settings)
	}
	d = newDetector(t, job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`},
		{Kind: job.Setting, Knob: "batch", Pattern: `batch size: (?P<value>\d+)`},
	}})
	write(t, d, Stderr, "step 1\n")
	write(t, d, Terminal, "batch size: 4\n")
	if got := d.State().Settings["batch"]; got != "4" {
		t.Errorf("printed on standard output, after a bar on standard error: %v", d.State().Settings)
	}
	write(t, d, Log, "batch size: 16\n")
	if got := d.State().Settings["batch"]; got != "16" {
		t.Errorf("its log says 16: %v", d.State().Settings)
	}
}

func write(t testing.TB, d *Detector, stream, text string) {
	t.Helper()
	if _, err := d.Stream(stream).Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// TestWrappedSigns: rich wraps records into a column of whatever terminal there is.
func TestWrappedSigns(t *testing.T) {
	f := fixtureNamed(t, "real/rich_terminal")
	for _, step := range []int{1, 7, 1 << 20} {
		d := newDetector(t, trainer)
		var events []string
		d.OnEvent = func(e Event) { events = append(events, fmt.Sprint(e.Kind, " ", e.Iteration, " ", e.Path)) }
		for at := 0; at < len(f.log); at += step {
			if _, err := d.Write(f.log[at:min(len(f.log), at+step)]); err != nil {
				t.Fatal(err)
			}
		}
		s := d.State()
		if s.Iteration != 300 || s.Saved == nil || s.Saved.Iteration != 300 {
			t.Errorf("in steps of %d: the state is %+v, after %q", step, s, events)
		}
		if len(events) != 8 { // the fixture trains twice: three times an iteration and one saved state
			t.Errorf("in steps of %d: the events are %q", step, events)
		}
	}
}

// TestPendingRecord: the last record may be followed by nothing.
func TestPendingRecord(t *testing.T) {
	d := newDetector(t, trainer)
	write(t, d, Terminal, "[11/21/26 20:58:04] INFO     Batch size per                       train.py:26\n"+
		"                             gpu: 12\n")
	if got := d.State().Settings["batch"]; got != "12" {
		t.Errorf("batch is %q", got)
	}
	write(t, d, Terminal, "[11/21/26 20:58:05] ERROR    Ran out of VRAM                      train.py:33\n"+
		"                             during training. Reduce lq_size.\n")
	v := d.Judge(Seen{Exit: Exited(0)}, trainer)
	if v.Ending != OutOfMemory || v.Report.Stage != "training" {
		t.Errorf("judged %v in %q: %s", v.Ending, v.Report.Stage, v.Cause)
	}
}

// TestEnd: the last step of a bar that is left without a line break is a step.
func TestEnd(t *testing.T) {
	signs := job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `(?P<iteration>\d+)/(?P<total>\d+) \[`}}}
	d := newDetector(t, signs)
	heard := 0
	d.OnEvent = func(Event) { heard++ }
	write(t, d, Stderr, "\r 87%|##  | 7/8 [00:01<00:02]\r100%|##  | 8/8 [00:01<00:02]")
	if s := d.State(); s.Iteration != 7 {
		t.Errorf("before the end: %+v", s)
	}
	if d.End(); d.State().Iteration != 8 || heard != 2 {
		t.Errorf("at the end: %+v, after %d events", d.State(), heard)
	}
}

func TestBadPattern(t *testing.T) {
	_, err := NewDetector(job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `iter (\d+`}}})
	if err == nil || !strings.Contains(err.Error(), "progress") {
		t.Errorf("the error is %v", err)
	}
}

func TestRequiredWord(t *testing.T) {
	for _, tt := range [][2]string{
		{`\[epoch:\s*([\d,]+), iter:\s*([\d,]+)`, "[epoch:"},
		{`(?i)End of Training`, "end of training"},
		{`a|b`, ""},
		{`(?:foo)?\d+`, ""},
		{`(?:loss)+ x`, "loss"},
		{`\d+`, ""},
	} {
		if got := requiredWord(tt[0]); got != tt[1] {
			t.Errorf("requiredWord(%q) is %q, want %q", tt[0], got, tt[1])
		}
	}
}

// TestSignWithoutWord: a pattern that promises no literal is tried on every line.
func TestSignWithoutWord(t *testing.T) {
	d := newDetector(t, job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `^(?P<iteration>\d+)$`}}})
	write(t, d, Stdout, "12\nx\n13\n")
	if got := d.State().Iteration; got != 13 {
		t.Errorf("the iteration is %d", got)
	}
}

func TestPrecedence(t *testing.T) {
	// The terminal has the replaced message; the log file, read later, has the original with its numbers.
	d := newDetector(t, trainer)
	write(t, d, Terminal, "ERROR Ran out of VRAM during training. Reduce lq_size.\n")
	write(t, d, Log, trainingLog+"2025-11-21 10:00:09,000 ERROR: boom\n"+traceback+
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.63 GiB of which 1.00 GiB is free.\n")
	r := d.Report(Exited(0))
	if !r.OOM || !r.Fatal || r.Requested == nil || *r.Requested != 2*unit.GiB || r.Evidence[0].Stream != Log {
		t.Errorf("the report is %+v", r)
	}
}

// On a terminal every line ends in CR LF, and that redraws nothing: the context before a message is there all the same.
func TestTailOfATerminal(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		var tl printed.Tail
		c := printed.Cleaner{Emit: func(s printed.Segment) { tl.Add(s, false) }}
		c.Write([]byte("one" + end + "two" + end + "10%\r20%\r30%" + end + "three" + end))
		var got []string
		for _, l := range tl.Lines(10) {
			got = append(got, l.Text)
		}
		if s := strings.Join(got, " "); s != "one two 30% three" {
			t.Errorf("lines ending in %q: the tail holds %q, want one two 30%% three", end, s)
		}
	}
}

// A metric without a step has the step of the progress, on whatever stream that is; unknown where the count begins
// again.
func TestMetrics(t *testing.T) {
	signs := job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`},
		{Kind: job.Metric, Name: "acc", Direction: metric.Maximise, Pattern: `accuracy (?P<value>\S+)`},
		{Kind: job.Metric, Name: "loss", Direction: metric.Minimise, Pattern: `at (?P<step>[\d,]+): loss (?P<value>\S+)`},
	}}
	d := newDetector(t, signs)
	write(t, d, Terminal, "accuracy 0.1\n")
	write(t, d, Stderr, "step 100\nat 1,050: loss 3e-1\n")
	write(t, d, Terminal, "accuracy 0.9\naccuracy of\n")
	write(t, d, Stderr, "step 1\n")
	write(t, d, Terminal, "accuracy 0.5\n")
	acc, loss := d.State().Metrics["acc"], d.State().Metrics["loss"]
	if *acc.Best != (metric.Point{Value: 0.9, Step: 100}) || *acc.Last != (metric.Point{Value: 0.5,
		Step: metric.NoStep}) ||
		*loss.Last != (metric.Point{Value: 0.3, Step: 1050}) {
		t.Errorf("%v %v, %v", acc.Best, acc.Last, loss.Last)
	}
	write(t, d, Log, "accuracy 0.51\n")
	if acc = d.State().Metrics["acc"]; acc.Last.Value != 0.51 {
		t.Errorf("its log has 0.51: %v", acc.Last)
	}
	write(t, d, Log, "accuracy nan\n")
	if acc = d.State().Metrics["acc"]; acc.Last != nil || !acc.Diverged {
		t.Errorf("NaN is %+v", acc)
	}
}

// A log file is read after the terminal has come further: its values belong to the steps of the log.
func TestStepOfLog(t *testing.T) {
	d := newDetector(t, job.Signs{Lines: []job.Sign{
		{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`},
		{Kind: job.Metric, Name: "acc", Direction: metric.Maximise, Pattern: `accuracy (?P<value>\S+)`},
	}, Checks: []job.Check{{Name: "moves", Rule: job.Moving, Pattern: `accuracy (?P<value>\S+)`}}})
	const text = "step 1\nstep 2\naccuracy 0.9\nstep 3\nstep 4\naccuracy 0.8\n"
	write(t, d, Terminal, text)
	write(t, d, Log, text)
	s := d.State()
	if acc := s.Metrics["acc"]; acc.Best.Step != 2 || acc.Last.Step != 4 {
		t.Errorf("the best is of step %d, the last of step %d; want 2 and 4", acc.Best.Step, acc.Last.Step)
	}
	if of := s.Checks[0].Series[0]; of.First.Step != 2 || of.Other.Step != 4 {
		t.Errorf("the values are of steps %d and %d, want 2 and 4", of.First.Step, of.Other.Step)
	}
}
