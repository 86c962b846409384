package record

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/metric"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A story is a run to be compared; its zero value is a finished training of 8 samples.
type story struct {
	recipe  string
	args    []string
	env     []string
	edits   []config.Edit
	items   []mem.Item
	unknown string
	peak    unit.Bytes
	rate    float64
	device  any
	torch   string
	trial   bool
}

func (s story) side(id string) Side {
	if s.recipe == "" {
		s.recipe = "train:\n  lr: 0.1\n  batch: 8\ndata:\n  root: /d/one\n"
	}
	if s.args == nil {
		s.args = []string{"python", "train.py", "-opt", "x.yml"}
	}
	if s.items == nil {
		s.items = []mem.Item{{Kind: mem.Parameters, What: "net", Bytes: 100}, {Kind: mem.Saved, What: "net", Bytes: 800}}
	}
	if s.device == nil { // as encoding/json reads it
		s.device = map[string]any{"kind": "cuda", "name": "A100", "total_bytes": 40.0 * (1 << 30), "driver": "550"}
	}
	j := &job.Job{Plugin: "p", Arch: "span", Command: job.Command{Args: s.args, Dir: "/w", Env: s.env},
		Files: []job.File{{Path: "x.yml", Format: "yaml", Flag: "-opt", Text: []byte(s.recipe)}},
		Knobs: []job.Knob{{Name: "micro-batch", At: config.Address{Doc: "x.yml", Path: "train.batch"}, Value: "8"},
			{Name: "workers", At: config.Address{Doc: config.ArgvDoc, Path: "--workers"}, Value: "4", Default: true}}}
	plan := run.Plan{Attempt: 1, Edits: s.edits, Choices: []run.Choice{{Phase: "training", Name: run.AsAsked,
		Estimate: mem.Estimate{Items: s.items, Unknown: s.unknown}}}}
	out := run.Outcome{Ending: run.Succeeded, Took: 10 * time.Second, Rate: s.rate,
		Metrics: metric.Set{"psnr": {Name: "psnr",
			Best: &metric.Point{Value: 30, Step: 5}, Last: &metric.Point{Value: 29, Step: 9}}}}
	if s.peak > 0 {
		out.Measured = map[string][]mem.Measurement{"training": {{Is: mem.Used, Bytes: s.peak, Bound: mem.AtMost}}}
	}
	h := &History{ID: id, Events: []Event{{Kind: Started, Run: &run.Run{Job: j}, Device: s.device}}}
	h.Events = append(h.Events, Event{Kind: Planned, Plan: &plan}, Event{Kind: Ended,
		Attempt: &run.Attempt{Plan: plan, Outcome: out}})
	if s.trial {
		trial := plan
		trial.Trial, trial.Attempt, trial.Edits = run.Rehearsal, 0, []config.Edit{{At: config.Address{Doc: "x.yml",
			Path: "train.lr"}, To: "99"}}
		h.Events = append(h.Events, Event{Kind: Planned, Plan: &trial}, Event{Kind: Ended,
			Attempt: &run.Attempt{Plan: trial}})
	}
	side := Side{History: h, Receipts: []Receipt{{Run: "another", Machine: Machine{Torch: "0.1"}}}}
	if s.torch != "" {
		side.Receipts = append(side.Receipts, Receipt{Run: id, Machine: Machine{Torch: s.torch}})
	}
	return side
}

// texts are the differences as "kind name: a → b".
func texts(d Diff) (out []string) {
	value := func(s *string) string {
		if s == nil {
			return "not set"
		}
		return *s
	}
	for _, x := range d.Differs {
		out = append(out, x.Kind+" "+x.Name+": "+value(x.A)+" → "+value(x.B))
	}
	return out
}

// What differs is listed, under its kind, and what is the same is not.
func TestDiffers(t *testing.T) {
	for name, tt := range map[string]struct {
		b    story
		want []string
	}{
		"nothing":         {story{torch: "2.6.0"}, nil},
		"a trial's edits": {story{torch: "2.6.0", trial: true}, nil},
		"a setting": {story{torch: "2.6.0", recipe: "train:\n  lr: 0.2\n  batch: 8\ndata:\n  root: /d/one\n"},
			[]string{"settings train.lr: 0.1 → 0.2"}},
		"one that is not set": {story{torch: "2.6.0", recipe: "train:\n  batch: 8\ndata:\n  root: /d/one\n"},
			[]string{"settings train.lr: 0.1 → not set"}},
		"a comment": {story{torch: "2.6.0", recipe: "# x\ntrain: {lr: 0.1, batch: 8}\ndata: {root: /d/one}\n"},
			nil},
		"data": {story{torch: "2.6.0", recipe: "train:\n  lr: 0.1\n  batch: 8\ndata:\n  root: /d/two\n"},
			[]string{"data data.root: /d/one → /d/two"}},
		"an edit of launch": {story{torch: "2.6.0", edits: []config.Edit{{Knob: "micro-batch",
			At:   config.Address{Doc: "x.yml", Path: "train.batch"},
			From: "8", To: "4"}}}, []string{"settings train.batch: 8 → 4"}},
		"a variable that launch sets": {story{torch: "2.6.0", edits: []config.Edit{{At: config.Address{Doc: config.EnvDoc,
			Path: "OMP_NUM_THREADS"}, Add: true, To: "1"}}},
			[]string{"environment OMP_NUM_THREADS: not set → 1"}},
		"a resume": {story{torch: "2.6.0", edits: []config.Edit{{Knob: "resume", At: config.Address{Doc: "x.yml",
			Path: "path.resume"}, To: "s.state"}}}, nil},
		"versions": {story{torch: "2.7.0", device: map[string]any{"kind": "cuda", "name": "A100",
			"total_bytes": 40.0 * (1 << 30), "driver": "580"}},
			[]string{"versions driver: 550 → 580", "versions torch: 2.6.0 → 2.7.0"}},
		"a card": {story{torch: "2.6.0", device: map[string]any{"kind": "cuda", "name": "T4",
			"total_bytes": 15.0 * (1 << 30), "driver": "550"}},
			[]string{"card card: A100 → T4", "card memory: 40.0 GiB → 15.0 GiB"}},
		"a variable": {story{torch: "2.6.0", env: []string{"CUDA_LAUNCH_BLOCKING=1"}},
			[]string{"environment CUDA_LAUNCH_BLOCKING: not set → 1"}},
		"a variable that does not matter": {story{torch: "2.6.0", env: []string{"LAUNCH_QUIET=1"}}, nil},
		"an option": {story{torch: "2.6.0", args: []string{"python", "-u", "train.py", "-opt",
			"x.yml", "--workers", "9"}}, []string{"settings --workers: 4 → 9", "settings -u: not set → "}},
		"a secret": {story{torch: "2.6.0", args: []string{"python", "train.py", "-opt", "x.yml",
			"--hf_token", "abc"}}, []string{"settings --hf_token: not set → " + Masked}},
	} {
		d := Compare(story{torch: "2.6.0"}.side("a"), tt.b.side("b"))
		if got := texts(d); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
		if d.B.Attempt != 1 || d.B.Ending != run.Succeeded {
			t.Errorf("%s: attempt %d, %s, is compared", name, d.B.Attempt, d.B.Ending)
		}
		if len(d.Unknown) > 0 {
			t.Errorf("%s: %q is not recorded", name, d.Unknown)
		}
	}
}

// Data is what a training reads, not each setting of a section of that name.
func TestOfData(t *testing.T) {
	for name, want := range map[string]bool{
		"datasets.train.dataroot_gt": true, "data.root": true, "--data": true, "data": true, "--train-file": true,
		"datasets.train.name": true, "data.train.ann_file": true, "datasets.val.meta_info": true,
		"datasets.train.batch_size_per_gpu": false, "data.num_workers": false, "train.root": false, "--update": false,
		"metadata": false, "network.name": false, "--data-parallel": false,
	} {
		if ofData(name) != want {
			t.Errorf("%s is data: %v", name, !want)
		}
	}
}

// Lines of the ledger are matched by kind and part. Where an estimate is unknown there is no line, and never a zero.
func TestLines(t *testing.T) {
	a := story{peak: 1000}.side("a")
	b := story{peak: 1100, items: []mem.Item{{Kind: mem.Parameters, What: "net", Bytes: 100},
		{Kind: mem.Saved, What: "net", Bytes: 300}, {Kind: mem.Saved, What: "net", Bytes: 100}, {Kind: mem.Workspace,
			What: "net", Bytes: 50}}}.side("b")
	p := Compare(a, b).Phases[0]
	type row struct {
		Kind mem.Kind
		A, B unit.Bytes
	}
	var got []row
	for _, l := range p.Predicted {
		got = append(got, row{l.Kind, *l.A, *l.B})
	}
	want := []row{{mem.Saved, 800, 400}, {mem.Workspace, 0, 50}, {mem.Parameters, 100, 100}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the lines differ (-want +got):\n%s", d)
	}
	if delta, ok := p.Total.Delta(); !ok || delta != -350 {
		t.Errorf("the total differs by %v, %v; want -350", delta, ok)
	}
	if m := p.Measured; len(m) != 1 || *m[0].A != 1000 || *m[0].B != 1100 || m[0].BoundB != mem.AtMost {
		t.Errorf("measured: %+v", m)
	}
	p = Compare(a, story{unknown: "no formula"}.side("b")).Phases[0]
	if len(p.Predicted) != 0 || p.Total.A == nil || p.Total.B != nil || p.Measured[0].B != nil {
		t.Errorf("an unknown estimate, and nothing measured: %+v", p)
	}
	if _, ok := p.Total.Delta(); ok {
		t.Error("a difference to what is unknown")
	}
}

// What is not recorded is listed, with the run that lacks it, and is no difference: it may have been the same.
func TestUnknown(t *testing.T) {
	none := story{device: map[string]any{}}
	for name, tt := range map[string]struct {
		a, b story
		want []string
	}{
		"torch of one":  {story{torch: "2.6.0"}, story{}, []string{"torch of b", "allocator of b"}},
		"torch of both": {story{}, story{}, []string{"torch"}},
		"no card": {story{torch: "2.6.0"}, story{torch: "2.6.0", device: none.device},
			[]string{"driver of b", "card of b"}},
	} {
		if d := Compare(tt.a.side("a"), tt.b.side("b")); !slices.Equal(d.Unknown, tt.want) {
			t.Errorf("%s: %q, want %q", name, d.Unknown, tt.want)
		} else if len(d.Differs) > 0 {
			t.Errorf("%s: these differ: %q", name, texts(d))
		}
	}
}

// Speed and metrics are figures, and what was not reported is none.
func TestResults(t *testing.T) {
	d := Compare(story{rate: 10}.side("a"), story{rate: 12.5}.side("b"))
	if f := d.Results[0]; f.Name != "samples per second" || *f.A != 10 || *f.B != 12.5 {
		t.Errorf("the speed is %+v", f)
	}
	if r, ok := d.Results[0].Ratio(); !ok || r != 1.25 {
		t.Errorf("the ratio is %v, %v", r, ok)
	}
	i := slices.IndexFunc(d.Results, func(f FigurePair) bool { return f.Name == "psnr, best" })
	if i < 0 || *d.Results[i].A != 30 {
		t.Errorf("no psnr in %+v", d.Results)
	}
	d = Compare(story{rate: 10}.side("a"), story{}.side("b"))
	if _, ok := d.Results[0].Ratio(); ok || d.Results[0].B != nil {
		t.Errorf("a speed that nobody reported: %+v", d.Results[0])
	}
}

// A command that no plugin recognised has its words and its peak.
func TestTyped(t *testing.T) {
	typed := func(id, is string, peak unit.Bytes, args ...string) Side {
		return Side{History: &History{ID: id, Events: []Event{{Kind: Followed, Args: args, Dir: "/w"},
			{Kind: Ended, Outcome: &run.Outcome{Ending: run.Succeeded, Peak: peak, PeakIs: is}}}}}
	}
	d := Compare(typed("a", mem.Used, 10, "sh", "-c", "one"), typed("b", mem.Used, 30, "sh", "-c", "two"))
	if got := texts(d); !slices.Equal(got, []string{"command words: sh -c one → sh -c two"}) {
		t.Errorf("differs: %q", got)
	}
	if delta, ok := d.Phases[0].Measured[0].Delta(); !ok || delta != 20 {
		t.Errorf("the peak differs by %v, %v", delta, ok)
	}
	if d := Compare(typed("a", mem.Used, 10, "x"), typed("b", mem.Resident, 30, "x")); len(d.Phases) != 0 {
		t.Errorf("two quantities are compared: %+v", d.Phases)
	}
}
