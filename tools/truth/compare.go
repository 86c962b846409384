package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/truth/rows"
)

// The limits, of every row and of all together.
const (
	savedOff   = rows.SavedOff
	peakUnder  = rows.PeakUnder
	peakOver   = rows.PeakOver
	leastRows  = 60
	leastKinds = 4
	// A job is refused falsely where the room is this much more than it was measured to need, and the verdict is that it
	// cannot fit.
	roomAbove = 1.02
	refusals  = 0.05 // of the rows
)

// A compared row has launch's price beside PyTorch's measurement, and what others would say.
type compared struct {
	rows.Row
	rows.Price
	live       unit.Bytes
	refused    bool
	accelerate unit.Bytes
}

// off is a relative error: positive is over.
func off(got, want unit.Bytes) float64 { return float64(got-want) / float64(max(want, 1)) }

type comparison struct {
	files []rows.File
	rows  []compared
}

// compare prices every recorded row.
func compare(root string) (c comparison, err error) {
	if c.files, err = rows.All(root); err != nil {
		return c, err
	}
	for _, f := range c.files {
		for _, r := range f.Rows {
			p, err := r.Price()
			if err != nil {
				return c, err
			}
			room := unit.Bytes(roomAbove * float64(r.Peak))
			c.rows = append(c.rows, compared{Row: r, Price: p, live: p.Live(), accelerate: accelerate(r),
				refused: ladder.Judge(p.Tensors.Estimate, room) == ladder.Not})
		}
	}
	return c, nil
}

// accelerate is the rule of `accelerate estimate-memory` for training with Adam: four times the model's size (gather_data
// in src/accelerate/commands/estimate.py of huggingface/accelerate at 5b85718; the size is that of all tensors of the
// model, here of all modules that the job has on the card).
func accelerate(r rows.Row) unit.Bytes { return 4 * r.Model }

// broken lists the limits that do not hold.
func (c comparison) broken() (out []string) {
	kinds := map[string]bool{}
	refused := 0
	for _, r := range c.rows {
		kinds[r.Family] = true
		say := func(format string, v ...any) {
			out = append(out, fmt.Sprintf("%s, %s: ", r.Name, r.Settings())+fmt.Sprintf(format, v...))
		}
		if r.Price.Params != r.Row.Params {
			say("%d parameters, PyTorch has %d", r.Price.Params, r.Row.Params)
		}
		if r.Row.Saved != nil {
			if o := off(r.Price.Saved, *r.Row.Saved); math.Abs(o) > savedOff {
				say("saved tensors %+.2f %%", 100*o)
			}
		}
		if o := off(r.live, r.Peak); o < -peakUnder || o > peakOver {
			say("peak %+.2f %% (%s)", 100*o, r.Moment)
		}
		if r.refused {
			refused++
		}
	}
	if len(c.rows) < leastRows {
		out = append(out, fmt.Sprintf("%d rows, want at least %d", len(c.rows), leastRows))
	}
	delete(kinds, "torchvision")
	if len(kinds) < leastKinds {
		out = append(out, fmt.Sprintf("%d families, want %d", len(kinds), leastKinds))
	}
	if share := float64(refused) / float64(max(len(c.rows), 1)); share > refusals {
		out = append(out, fmt.Sprintf("%.1f %% of the rows are refused falsely, at most %.0f %% may be", 100*share, 100*refusals))
	}
	return out
}

// sources says what was recorded, and with what.
func (c comparison) sources(p *printer) {
	p.heading("What was recorded")
	var lines [][]string
	for _, f := range c.files {
		var commits []string
		for _, name := range slices.Sorted(maps.Keys(f.Commits)) {
			commits = append(commits, name+" "+f.Commits[name][:min(8, len(f.Commits[name]))])
		}
		with := "torch " + f.Torch
		if f.Torchvision != "" {
			with += ", torchvision " + f.Torchvision
		}
		if f.Timm != "" {
			with += ", timm " + f.Timm
		}
		if f.Transformers != "" {
			with = "torch " + f.Torch + ", transformers " + f.Transformers + ", peft " + f.Peft + ", accelerate " + f.Accelerate
		}
		lines = append(lines, []string{f.Family, fmt.Sprint(len(f.Rows)), with, strings.Join(commits, ", "), f.Recorded})
	}
	p.table([]string{"family", "rows", "with", "checkouts", "recorded"}, 5, lines)
}

func mib(b unit.Bytes) string { return fmt.Sprintf("%.1f", float64(b)/(1<<20)) }

func percent(x float64) string { return fmt.Sprintf("%+.2f %%", 100*x+0) }

func (c comparison) table(p *printer) {
	p.heading("Every row")
	p.text("Allocated: the peak of live bytes of a step with optimizer states, parameters and all, in MiB. Saved: the error of the saved tensors. Beside " +
		"them what a user could run instead, divided by the same measurement. accelerate: four times parameters and buffers of all modules, its rule for " +
		"training with Adam in float32. FakeTensor: parameters, buffers, gradients, optimizer states and the outputs of all modules without children, added up " +
		"over one forward under FakeTensorMode (tools/capture/track.py, fake_sum); GPUMemNet publishes results of such a sum, and not its script. " +
		"A dash: torch does not let, or nobody has recorded it.")
	var lines [][]string
	for _, r := range c.rows {
		saved := "–"
		if r.Row.Saved != nil {
			saved = percent(off(r.Price.Saved, *r.Row.Saved))
		}
		fake := "–"
		if r.Fake != nil {
			fake = fmt.Sprintf("%.2f", float64(*r.Fake)/float64(r.Peak))
		}
		lines = append(lines, []string{r.Name, r.Settings(), mib(r.live), mib(r.Peak), fmt.Sprintf("%.4f", float64(r.live)/float64(r.Peak)), saved,
			fmt.Sprintf("%.2f", float64(r.accelerate)/float64(r.Peak)), fake})
	}
	head := []string{"architecture", "settings", "estimate", "measured", "ratio", "saved", "accelerate", "FakeTensor"}
	p.long("steps", head, 2, lines, "Off by more than 1 %", func(r []string) bool {
		ratio, err := strconv.ParseFloat(r[4], 64)
		return err != nil || math.Abs(ratio-1) > 0.01
	})
}

// A deviation sums relative errors up.
type deviation struct {
	n                  int
	median, p95, worst float64 // of the absolute error
	under              float64
}

func summarise(offs []float64) (e deviation) {
	e.n = len(offs)
	if e.n == 0 {
		return e
	}
	abs := make([]float64, e.n)
	for i, o := range offs {
		abs[i] = math.Abs(o)
		if o < -peakUnder {
			e.under++
		}
	}
	slices.Sort(abs)
	e.median, e.p95, e.worst = (abs[(e.n-1)/2]+abs[e.n/2])/2, abs[int(math.Ceil(.95*float64(e.n)))-1], abs[e.n-1]
	e.under /= float64(e.n)
	return e
}

func (e deviation) cells() []string {
	if e.n == 0 {
		return []string{"0", "–", "–", "–", "–"}
	}
	return []string{fmt.Sprint(e.n), fmt.Sprintf("%.2f %%", 100*e.median), fmt.Sprintf("%.2f %%", 100*e.p95), fmt.Sprintf("%.2f %%", 100*e.worst),
		fmt.Sprintf("%.1f %%", 100*e.under)}
}

func (c comparison) summary(p *printer) {
	p.heading("Allocated: the summary")
	var lines [][]string
	add := func(what string, keep func(compared) bool, offs func(compared) (float64, bool)) {
		var all []float64
		n, refused := 0, 0
		for _, r := range c.rows {
			if !keep(r) {
				continue
			}
			if o, ok := offs(r); ok {
				all = append(all, o)
			}
			n++
			if r.refused {
				refused++
			}
		}
		cells := summarise(all).cells()
		refusal := "–"
		if strings.HasPrefix(what, "launch") {
			refusal = fmt.Sprintf("%.1f %%", 100*float64(refused)/float64(max(n, 1)))
		}
		lines = append(lines, append(append([]string{what}, cells...), refusal))
	}
	every := func(compared) bool { return true }
	withFake := func(r compared) bool { return r.Fake != nil }
	ours := func(r compared) (float64, bool) { return off(r.live, r.Peak), true }
	families := map[string]bool{}
	for _, f := range c.files { // a family may have several recordings
		families[f.Family] = true
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		add("launch, "+name, func(r compared) bool { return r.Family == name }, ours)
	}
	add("launch, all", every, ours)
	add("accelerate's rule, the same rows", every, func(r compared) (float64, bool) { return off(r.accelerate, r.Peak), true })
	add("launch, where FakeTensor runs", withFake, ours)
	add("FakeTensor's sum, the same rows", withFake, func(r compared) (float64, bool) { return off(*r.Fake, r.Peak), true })
	add("launch, saved tensors", every, func(r compared) (float64, bool) {
		if r.Row.Saved == nil {
			return 0, false
		}
		return off(r.Price.Saved, *r.Row.Saved), true
	})
	p.table([]string{"what", "rows", "median", "95th percentile", "worst", "under by more than 2 %", "false refusals"}, 1, lines)
	exact := 0
	for _, r := range c.rows {
		if r.Price.Params == r.Row.Params {
			exact++
		}
	}
	p.text("Parameters are exact in %d of %d rows. A false refusal: the room is %.0f %% above what was measured, and the verdict (ladder.Judge) is that the job cannot fit.",
		exact, len(c.rows), 100*(roomAbove-1))
}
