package ui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

var update = flag.Bool("update", false, "rewrite the golden texts")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}

// lines is an estimate of a network at a micro-batch, with lines of every group. bytes is the sum of what grows.
func lines(saved unit.Bytes) mem.Estimate {
	return mem.Estimate{Items: []mem.Item{
		{Kind: mem.Parameters, What: "network_g", Bytes: 640 * unit.MiB, Count: 160 << 20, From: "counted"},
		{Kind: mem.Optimizer, What: "network_g", Bytes: 1280 * unit.MiB, Count: 320 << 20,
			From: "AdamW: 2 float32 states a parameter"},
		{Kind: mem.Saved, What: "network_g", Bytes: saved, From: "at the peak"},
		{Kind: mem.Workspace, What: "cuDNN", Bytes: 512 * unit.MiB, Guess: true, From: "a guess"},
		{Kind: mem.Slack, What: "PyTorch", Bytes: saved / 10, From: "the caching allocator replayed"},
		{Kind: mem.Context, What: "the card", Bytes: 300 * unit.MiB, Guess: true, From: "prior"},
	}}
}

// sample is a job whose training does not fit as asked, and whose validation cannot be priced.
func sample(t *testing.T) View {
	t.Helper()
	edits := func(micro, accum string) []config.Edit {
		const why = "the same global batch of 16 in smaller pieces"
		return []config.Edit{
			{Knob: "micro-batch", At: config.Address{Doc: "x.yml", Path: "datasets.train.batch_size_per_gpu"}, From: "16",
				To: micro, Cost: "speed", Why: why},
			{Knob: "accumulation", At: config.Address{Doc: "x.yml", Path: "datasets.train.accum_iter"}, From: "1",
				To: accum, Cost: "speed", Why: why},
		}
	}
	rung := func(name string, cost ladder.Cost, slow float64, saved unit.Bytes, e ...config.Edit) ladder.Rung {
		r := ladder.Rung{Name: name, Cost: cost, Slowdown: slow, Edits: e}
		for _, share := range []unit.Bytes{1, 2} {
			r.Estimates = append(r.Estimates, lines(saved/share))
		}
		return r
	}
	unknown := mem.Estimate{Unknown: "how large the images are is not known", Items: lines(unit.GiB).Items[:2]}
	batch := func(micro, accum int64) map[string]int64 {
		return map[string]int64{job.MicroBatch: micro, job.Accumulation: accum}
	}
	eight := rung("micro-batch 8 × accumulation 2", ladder.Speed, 1.02, 5*unit.GiB, edits("8", "2")...)
	four := rung("micro-batch 4 × accumulation 4", ladder.Speed, 1.3, 5*unit.GiB/2, edits("4", "4")...)
	eight.Values, four.Values = batch(8, 2), batch(4, 4)
	r := &run.Run{
		Job: &job.Job{Dialect: "Sample", Arch: "net", Name: "Grüße 世界", Plugin: "sample",
			Batch: job.Batch{Micro: 16, Accumulation: 1, Ranks: 1}, Warnings: []string{"the folder data/val is missing"}},
		Limits: run.Limits{Allow: ladder.Metrics}, Room: 7 * unit.GiB,
		Ladders: &ladder.Set{
			Values: batch(16, 1),
			Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"},
				{Name: "bfloat16", Cost: ladder.Recipe, Slowdown: 0.7}}},
			Phases: []ladder.Ladder{
				{Phase: ladder.Training, Rungs: []ladder.Rung{
					rung("as asked", ladder.None, 1, 10*unit.GiB), eight, four,
					rung("crop 64 instead of 128", ladder.Recipe, 0.5, unit.GiB),
				}},
				{Phase: ladder.Validation, Rungs: []ladder.Rung{
					{Name: "as asked", Estimates: []mem.Estimate{unknown, unknown}},
				}},
			},
		},
	}
	if err := r.Ladders.Check(); err != nil {
		t.Fatal(err)
	}
	plan, stop := r.First()
	if stop != nil {
		t.Fatalf("%+v", stop)
	}
	card := &gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA Test", Total: 8 * unit.GiB, Used: unit.GiB}
	return View{Run: r, Plan: plan, Device: card}
}

// The plan at the widths of a phone, of a terminal and of a wide one, without colours, and as it is when piped. No line
// exceeds the width.
func TestPlanAtWidths(t *testing.T) {
	v := sample(t)
	for _, width := range []int{40, 80, 120} {
		var out strings.Builder
		Printer{W: &out, Width: width, Bars: true}.Plan(v)
		golden(t, fmt.Sprintf("plan-%d.txt", width), out.String())
		for line := range strings.Lines(out.String()) {
			if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("at %d columns a line has %d: %s", width, w, line)
			}
		}
	}
	var piped strings.Builder
	Printer{W: &piped}.Plan(v)
	golden(t, "plan-piped.txt", piped.String())
	v.Verbose = true
	var verbose strings.Builder
	Printer{W: &verbose}.Plan(v)
	golden(t, "plan-verbose.txt", verbose.String())
}

// Colours change nothing but colours, and there are none where the printer has none.
func TestPlanColours(t *testing.T) {
	v := sample(t)
	sgr := regexp.MustCompile(`\x1b\[[\d;]*m`)
	for _, width := range []int{0, 33, 40, 80, 120, 300} {
		var bare, painted strings.Builder
		Printer{W: &bare, Width: width, Bars: true}.Plan(v)
		Printer{W: &painted, Width: width, Bars: true, Colour: true}.Plan(v)
		if strings.ContainsAny(bare.String(), "\x1b"+string(markBlue)) {
			t.Errorf("at %d columns: colours in %q", width, bare.String())
		}
		if n := len(sgr.FindAllString(painted.String(), -1)); n < 20 {
			t.Errorf("at %d columns: %d colours", width, n)
		}
		if diff := cmp.Diff(bare.String(), sgr.ReplaceAllString(painted.String(), "")); diff != "" {
			t.Errorf("at %d columns: -bare +painted\n%s", width, diff)
		}
	}
}

// Every figure of the bars is in the text, which is the same without them.
func TestBarsAddNothing(t *testing.T) {
	v := sample(t)
	var with, without strings.Builder
	Printer{W: &with, Bars: true}.Plan(v)
	Printer{W: &without}.Plan(v)
	isBar := regexp.MustCompile(`^  ([█▓▒▚░┃─╱»? ]+|█ model and optimizer .*)$`)
	var kept []string
	for line := range strings.Lines(with.String()) {
		if line == "\n" || !isBar.MatchString(strings.TrimRight(line, "\n")) {
			kept = append(kept, line)
		}
	}
	if diff := cmp.Diff(without.String(), strings.Join(kept, "")); diff != "" {
		t.Errorf("-without bars +with bars, the bars removed\n%s", diff)
	}
	for _, c := range v.Plan.Choices {
		for _, e := range []mem.Estimate{v.asked(c.Phase), c.Estimate} {
			for _, p := range parts(e) {
				if !e.Known() || p.bytes == 0 {
					continue
				}
				if !strings.Contains(without.String(), p.bytes.String()) {
					t.Errorf("%s: %s of %v is in no text:\n%s", c.Phase, p.name, p.bytes, without.String())
				}
			}
		}
	}
}

var bareCells = regexp.MustCompile(`[\x{FDD0}-\x{FDEF}]`)

// A bar never exceeds its width, its groups add up to the total, and a larger total has no shorter bar.
func TestBars(t *testing.T) {
	kinds := mem.Kinds()
	rapid.Check(t, func(t *rapid.T) {
		var e mem.Estimate
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 12).Draw(t, "kinds") {
			b := unit.Bytes(rapid.Int64Range(-1<<34, 1<<50).Draw(t, "bytes"))
			if kind != mem.Correction {
				b = max(b, 0)
			}
			e.Items = append(e.Items, mem.Item{Kind: kind, Bytes: b, Guess: rapid.Bool().Draw(t, "guess")})
		}
		if rapid.Bool().Draw(t, "unknown") {
			e.Unknown = "why"
		}
		sum, guess := unit.Bytes(0), unit.Bytes(0)
		for _, p := range parts(e) {
			sum, guess = sum+p.bytes, guess+p.guess
		}
		if sum != e.Total() || guess != e.Total()-e.Vouched() {
			t.Fatalf("the groups have %v, %v of it guessed; the estimate %v", sum, guess, e.Total())
		}
		width := rapid.IntRange(1, 200).Draw(t, "width")
		room := unit.Bytes(rapid.Int64Range(0, 1<<45).Draw(t, "room"))
		other := e.Total() / 2
		top := room + unit.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "taken"))
		s := newScale(width, room, top, []unit.Bytes{e.Total(), other})
		for _, bar := range []string{s.bar(e), s.device()} {
			if w := lipgloss.Width(bareCells.ReplaceAllString(bar, "")); w > width {
				t.Fatalf("a bar of %d columns in %d: %s", w, width, bar)
			}
		}
		cells := s.stack(e)
		if len(cells) > s.columns(e.Total()) || s.columns(other) > s.columns(e.Total()) && other <= e.Total() {
			t.Fatalf("%d cells for %v, %d for %v", len(cells), e.Total(), s.columns(other), other)
		}
	})
}

// Each group has its share of a bar.
func TestBarShares(t *testing.T) {
	e := mem.Estimate{Items: []mem.Item{
		{Kind: mem.Parameters, Bytes: 10}, {Kind: mem.Saved, Bytes: 30}, {Kind: mem.Transients, Bytes: 18},
		{Kind: mem.Slack, Bytes: 2}, {Kind: mem.Correction, Bytes: -20},
	}}
	s := newScale(61, 50, 60, []unit.Bytes{60})
	got := bareCells.ReplaceAllString(s.bar(e), "")
	want := strings.Repeat("█", 7) + strings.Repeat("▓", 20) + strings.Repeat("▒", 12) + "░          ┃"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got, want = bareCells.ReplaceAllString(s.device(), ""), strings.Repeat("─", 50)+"┃"+strings.Repeat("╱", 10)
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.Items[4].Bytes = 10000 // cut at twice the device
	s = newScale(61, 50, 60, []unit.Bytes{e.Total()})
	if got := bareCells.ReplaceAllString(s.bar(e), ""); !strings.HasSuffix(got, "»") || s.full != 120 {
		t.Errorf("%q on a scale of %d", got, s.full)
	}
}

// Amounts and options are not broken where a line is.
func TestWrap(t *testing.T) {
	const text = "    the estimate of 1.25 GiB or 84 % is not the room; --receipts=false plans without them, 12 B"
	for width := 24; width < 100; width++ {
		got := wrap(text, width)
		if strings.Join(strings.Fields(got), " ") != strings.TrimSpace(text) {
			t.Fatalf("at %d columns the text is another: %q", width, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n")
			if lipgloss.Width(line) > width {
				t.Errorf("at %d columns: %q", width, line)
			}
			for _, torn := range []string{"1.25", "84", "-", "--", "12"} {
				if strings.HasSuffix(line, torn) {
					t.Errorf("at %d columns %q is torn from what follows", width, line)
				}
			}
		}
	}
}

// A comparison at the widths of a terminal and of a phone, and of several cards.
func TestCompare(t *testing.T) {
	v := sample(t)
	speed := func(c run.Configuration) float64 { return map[int]float64{1: 30, 2: 24}[c.Rung] }
	one := Compare([]Compared{{View: v, Speed: speed}})
	small := sample(t)
	small.Run.Room = 4 * unit.GiB
	small.Device = &gpu.Device{Kind: gpu.CUDA, Name: "a card of 4.00 GiB", Total: 4 * unit.GiB, Planned: true}
	small.Plan, small.Stop = small.Run.First()
	small.Run.Ladders.Phases[0].Rungs = small.Run.Ladders.Phases[0].Rungs[:3] // this card's ladder is shorter
	two := Compare([]Compared{{View: v}, {View: small}})
	for name, d := range map[string]CompareDoc{"one": one, "two": two} {
		for _, width := range []int{0, 70, 100} {
			var out strings.Builder
			Printer{W: &out, Width: width}.Compare(d)
			golden(t, fmt.Sprintf("compare-%s-%d.txt", name, width), out.String())
			for line := range strings.Lines(out.String()) {
				if w := lipgloss.Width(strings.TrimRight(line, "\n")); width > 0 && w > width {
					t.Errorf("at %d columns a line has %d: %s", width, w, line)
				}
			}
		}
	}
	training := one.Phases[0]
	if training.RelativeTo != "micro-batch 8 × accumulation 2" || len(training.Rows) != 5 {
		t.Errorf("%+v", training)
	}
	for _, r := range training.Rows {
		e := r.Cards[0]
		if e.Memory == nil || *e.Share != float64(*e.Memory)/float64(8*unit.GiB) {
			t.Errorf("%s: %+v", r.Configuration, e)
		}
		measured := r.Rate != nil
		if measured != (r.Relative != nil) || measured != strings.HasPrefix(r.Configuration, "micro-batch") {
			t.Errorf("%s has the speed %v", r.Configuration, r.Rate)
		}
		if *r.Global != 16 {
			t.Errorf("%s has the global batch %d", r.Configuration, *r.Global)
		}
	}
	for _, r := range one.Phases[1].Rows {
		if e := r.Cards[0]; e.Memory != nil || e.Share != nil || e.Verdict != "unknown" || e.Unknown == "" {
			t.Errorf("what is not known is zero: %+v", e)
		}
	}
	values := Compare([]Compared{{View: v, Setting: "micro-batch=16"}, {View: small, Setting: "micro-batch=16"}})
	rows := values.Phases[0].Rows
	if len(rows) != 1 || rows[0].Configuration != "micro-batch=16" || rows[0].Cards[1].Memory == nil {
		t.Errorf("%+v", rows)
	}
}

// At every width a table has all the words of each row, in their order.
func TestSheetKeepsWords(t *testing.T) {
	d := Compare([]Compared{{View: sample(t)}})
	var want []string
	for _, row := range (Printer{}).compareSheet(d, d.Phases[0]).rows {
		want = append(want, strings.Fields(Clean(row[0]))...)
	}
	for width := 20; width < 160; width++ {
		var out strings.Builder
		p := Printer{W: &out, Width: width}
		p.sheet(p.compareSheet(d, d.Phases[0]))
		seen := strings.Fields(out.String())
		for _, word := range want {
			i := slices.Index(seen, word)
			if i < 0 {
				t.Fatalf("at %d columns %q is missing:\n%s", width, word, out.String())
			}
			seen[i] = ""
		}
	}
}

// A name with a line break, such as a plugin's of a rung, stays on its line of a table.
func TestCompareKeepsLines(t *testing.T) {
	v := sample(t)
	v.Run.Ladders.Phases[0].Rungs[1].Name = "evil\nlaunch: succeeded \x1b[31m"
	for _, width := range []int{0, 40, 100} {
		var out strings.Builder
		Printer{W: &out, Width: width}.Compare(Compare([]Compared{{View: v}}))
		if strings.Contains(out.String(), "\nlaunch:") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("at %d columns:\n%s", width, out.String())
		}
	}
}
