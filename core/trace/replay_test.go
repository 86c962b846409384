package trace

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

var rtx3090 = gpu.Device{Kind: gpu.CUDA, Name: "NVIDIA GeForce RTX 3090", Total: 24 * unit.GiB, Capability: "8.6"}

const mib = 1 << 20

// recorded is a training of three steps as the tracer reports it: 8 MiB of parameters, activations of 4 MiB a sample
// that live from forward to backward, a state of twice the parameters from the first step on, and a validation of two
// batches.
func recorded(micro, passes int, more ...string) string {
	var b strings.Builder
	id := 0
	ask := func(bytes int, kind string) int {
		id++
		fmt.Fprintf(&b, "A %d %d\n", id, bytes)
		if kind != "" {
			fmt.Fprintf(&b, "K %d %s\n", id, kind)
		}
		return id
	}
	ask(8*mib, "parameter")
	for step := range 3 {
		gradient := 0
		for pass := range passes {
			b.WriteString("M batch\n")
			in := ask(micro*mib, "")
			fmt.Fprintf(&b, "M forward 1 1 %d\n", micro)
			kept := ask(4*micro*mib, "")
			for _, line := range more {
				fmt.Fprintln(&b, strings.ReplaceAll(line, "SQUARE", fmt.Sprint(4*micro*micro)))
			}
			b.WriteString("M backward\n")
			back := ask(2*micro*mib, "")
			if pass == 0 {
				gradient = ask(8*mib, "")
			}
			fmt.Fprintf(&b, "F %d\nF %d\nF %d\n", kept, back, in)
		}
		fmt.Fprintf(&b, "K %d gradient\n", gradient)
		if step == 0 {
			ask(16*mib, "state")
		}
		fmt.Fprintf(&b, "M step\nF %d\n", gradient)
	}
	for range 2 {
		b.WriteString("M batch\n")
		in := ask(32*mib, "")
		b.WriteString("M forward 0 0 32\n")
		out := ask(16*mib, "")
		fmt.Fprintf(&b, "F %d\nF %d\n", in, out)
	}
	b.WriteString(`E {"why": "enough was seen", "torch": "2.15.0", "steps": 3}` + "\n")
	return b.String()
}

func read(t *testing.T, text string) *Trace {
	t.Helper()
	out := &Trace{}
	if err := out.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPhases(t *testing.T) {
	phases := read(t, recorded(8, 2)).Phases(rtx3090, mem.Caching{})
	if len(phases) != 2 || phases[0].Name != Training || phases[1].Name != Validation {
		t.Fatalf("the phases are %+v", phases)
	}
	if phases[0].Batches != 6 || phases[1].Batches != 2 {
		t.Errorf("%d batches of training and %d of validation", phases[0].Batches, phases[1].Batches)
	}
	e := phases[0].Estimate
	for kind, want := range map[mem.Kind]unit.Bytes{mem.Parameters: 8 * mib, mem.Gradients: 8 * mib,
		mem.Optimizer: 16 * mib,
		mem.Saved:     (8 + 32) * mib, mem.Transients: 16 * mib} {
		if got := e.Of(kind); got != want {
			t.Errorf("training has %v of %s, and not %v", got, kind, want)
		}
	}
	e = phases[1].Estimate
	if got := e.Of(mem.Transients); got != 48*mib || e.Of(mem.Gradients) != 0 {
		t.Errorf("validation has %v of other tensors and %v of gradients", got, e.Of(mem.Gradients))
	}
	// what training has cached is no need of the validation
	if slack := e.Of(mem.Slack); slack > 20*mib {
		t.Errorf("validation has %v of slack", slack)
	}
	if e.Reserved < 80*mib {
		t.Errorf("the allocator holds %v in validation, where room is", e.Reserved)
	}
}

// What a training needs is a room in which it runs to its end: in one that just holds its tensors the allocator gives
// back other segments, and so has other gaps.
func TestNeedIsARoom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		tr := read(t, uneven(r))
		need, reserved := tr.replay(0, len(tr.Events)-1, most(tr), mem.Caching{})
		if held := tr.held(0, len(tr.Events)-1, need, mem.Caching{}); held > need {
			t.Errorf("in a room of %v the allocator holds %v", need, held)
		}
		if reserved < need {
			t.Errorf("it needs %v, and has %v reserved where there is room for all", need, reserved)
		}
		phase := tr.Phases(rtx3090, mem.Caching{})[0].Estimate
		if got := phase.Of(mem.Slack) + most(tr); got != max(need, most(tr)) {
			t.Errorf("the estimate has room for %v, and the training runs in %v", got, need)
		}
	}
}

// uneven is a training whose requests are of uneven sizes and ends.
func uneven(r *rand.Rand) string {
	var b strings.Builder
	id, live := 0, []int{}
	for range 4 {
		b.WriteString("M batch\nM forward 1 1 8\n")
		for range 60 {
			id++
			fmt.Fprintf(&b, "A %d %d\n", id, mib*(1+r.IntN(60)))
			live = append(live, id)
			if i := r.IntN(len(live)); len(live) > 10 {
				fmt.Fprintf(&b, "F %d\n", live[i])
				live = slices.Delete(live, i, i+1)
			}
		}
		b.WriteString("M backward\nM step\n")
	}
	b.WriteString(`E {"why": "enough was seen", "torch": "2.15.0", "steps": 4}` + "\n")
	return b.String()
}

// most is the most that lives at once, rounded.
func most(t *Trace) (most unit.Bytes) {
	sizes, live := map[int32]unit.Bytes{}, unit.Bytes(0)
	for _, e := range t.Events {
		switch e.What {
		case Allocated:
			sizes[e.ID] = rounded(e.Bytes)
			live += sizes[e.ID]
		case Freed:
			live -= sizes[e.ID]
		}
		most = max(most, live)
	}
	return most
}

// A script that begins anew has held nothing before.
func TestReadAnew(t *testing.T) {
	once := recorded(8, 1)
	got, want := read(t, strings.Replace(once, "E {", "Z\n"+once+"E {", 1)), read(t, once)
	if !reflect.DeepEqual(got.Events, want.Events) {
		t.Errorf("%d events, and not %d", len(got.Events), len(want.Events))
	}
}

// With one step of an optimizer its states were not beside a pass: what training needs is not known, and not less.
func TestOneStepIsNotKnown(t *testing.T) {
	text := strings.Replace(recorded(8, 1), `"steps": 3`, `"steps": 1`, 1)
	for _, p := range read(t, text).Phases(rtx3090, mem.Caching{}) {
		if known := p.Name == Validation; p.Estimate.Known() != known {
			t.Errorf("%s: known is %v: %s", p.Name, p.Estimate.Known(), p.Estimate.Unknown)
		}
	}
	one := read(t, text)
	l := &ladder.Ladder{Phase: Training, Rungs: []ladder.Rung{{}, {
		Values:    map[string]int64{job.MicroBatch: 4},
		Estimates: []mem.Estimate{{Unknown: "no formula"}},
	}}}
	p := pair{asked: one, second: one, micro: 8, other: 4}
	p.price(l, 0, one.Phases(rtx3090, mem.Caching{}), one.Phases(rtx3090, mem.Caching{}))
	if l.Rungs[1].Estimates[0].Known() {
		t.Error("a rung is priced by what is not known")
	}
}

// Batches that were read ahead are no samples of the step before which they were read, and a batch that enters in
// pieces counts once.
func TestReadAhead(t *testing.T) {
	tr := read(t, `M batch 4
M batch 4
A 1 4096
M batch 4
M forward 1 1 2 1
M forward 1 1 2 1
M backward
M forward 1 1 4 2
M backward
M step
M batch 3
M batch 2
M forward 0 0 2 5
E {"why": "the script ended", "steps": 1}
`)
	if got := tr.StepsSeen(); !slices.Equal(got, []Step{{Passes: 2, Samples: 8, Loaded: true}}) {
		t.Errorf("the steps are %+v", got)
	}
	if got := tr.batches(tr.named()); got[Training] != 2 || got[Validation] != 1 {
		t.Errorf("the batches are %v", got)
	}
	if names := tr.named(); names[2] != Training || names[10] != Validation {
		t.Errorf("what is read ahead is of %v", names)
	}
}

func TestStepsSeen(t *testing.T) {
	for _, passes := range []int{1, 4} {
		for i, s := range read(t, recorded(8, passes)).StepsSeen() {
			if want := (Step{Passes: passes, Samples: 8 * passes}); s != want {
				t.Errorf("step %d of %d passes is %+v", i, passes, s)
			}
		}
	}
}

// Two optimizers of one trace are counted each for itself: a critic that steps twice for each step of its generator.
func TestStepsOfTwoOptimizers(t *testing.T) {
	critic := "M batch 4\nA 1 8\nM forward 1 1 4\nM forward 1 1 4 %d\nM forward 1 1 4\nM backward\nM step 1\n"
	text := ""
	for i := range 4 {
		text += fmt.Sprintf(strings.ReplaceAll(critic, "A 1", fmt.Sprint("A ", i+1)), i+1)
		if i%2 == 1 {
			text += "M forward 1 1 4\nM backward\nM step 2\n"
		}
	}
	tr := read(t, text)
	want := []Step{{1, 1, 4, true}, {1, 1, 4, true}, {2, 1, 8, true}, {1, 1, 4, true}, {1, 1, 4, true}, {2, 1, 8, true}}
	if got := tr.StepsSeen(); !slices.Equal(got, want) {
		t.Errorf("the steps are %v", got)
	}
	told := "optimizer 1: 4 samples a step in 1 pass, optimizer 2: 8 samples a step in 1 pass"
	if got := toldSteps(tr.second()); got != told {
		t.Error(got)
	}
	if tr.steps() != 2 {
		t.Errorf("both have stepped %d times", tr.steps())
	}
	bare := regexp.MustCompile(`(?m)^M batch.*\n`).ReplaceAllString(text, "")
	bare = regexp.MustCompile(`(?m)^(M forward 1 1 4) \d$`).ReplaceAllString(bare, "$1")
	if s := read(t, bare).StepsSeen(); s[3].Samples != -1 || s[2].Samples != -1 {
		t.Errorf("without a loader the samples are %v", s)
	}
	if got := toldSteps(read(t, recorded(8, 1)).second()); got != "" { // they may be in another dimension
		t.Errorf("without batches in a forward pass it says %q", got)
	}
}

// What an optimizer that has not stepped will keep is not known.
func TestWaitingIsNotKnown(t *testing.T) {
	text := strings.Replace(recorded(8, 1), `"steps": 3`, `"steps": 3, "waiting": 1`, 1)
	if e := read(t, text).Phases(rtx3090, mem.Caching{})[0].Estimate; e.Known() {
		t.Error("the training is known")
	}
}

// A validation in which the time was over is known where its batches had repeated, and else it is not.
func TestCutShort(t *testing.T) {
	train := "M batch 4 0\nA 1 8\nM forward 1 1 4 1\nM backward\nM step 1\n"
	train += strings.ReplaceAll(train, "A 1", "A 2")
	for _, tt := range []struct {
		shapes []int
		cut    bool
		known  bool
	}{{[]int{1, 1, 1}, true, true}, {[]int{1, 1}, true, false}, {[]int{1, 2, 2}, true, false}, {[]int{1}, false, true}} {
		text := train
		for i, shape := range tt.shapes {
			text += fmt.Sprintf("M batch 4 %d\nM forward 0 0 4 %d\nA %d 4096\n", shape, i+3, i+3)
		}
		tr := read(t, text)
		tr.End = End{Why: "its 60 s of CPU time were over", Cut: tt.cut, Steps: 2}
		phases := tr.Phases(rtx3090, mem.Caching{})
		e := phases[1].Estimate
		if e.Known() != tt.known || !tt.known && !strings.Contains(e.Unknown, "cut short: its 60 s") {
			t.Errorf("%v, cut %v: %q", tt.shapes, tt.cut, e.Unknown)
		}
		if !phases[0].Estimate.Known() {
			t.Error("the training is not known")
		}
	}
}

// A script that makes one step and ends by itself has its peak there. One that was stopped after it may need more, and
// one without a step has not trained.
func TestOneStep(t *testing.T) {
	const step = "M batch 4 0\nA 1 8\nM forward 1 1 4 1\nM backward\nM step 1\n"
	for name, tt := range map[string]struct {
		end   End
		known bool
		told  string
	}{
		"it ended": {End{Why: "the script ended", Whole: true, Steps: 1}, true,
			"1 optimizer step: training (1 batches); the script makes no more"},
		"it failed": {End{Why: "ValueError: 3", Cut: true, Steps: 1}, false,
			"it stopped early: ValueError: 3; it printed \"bye\""},
		"no step": {End{Why: "the script ended", Whole: true}, false, ""},
		"out of time": {End{Why: "the time was over", Cut: true, Steps: 1}, false,
			"it stopped early: the time was over; it printed"},
	} {
		tr := read(t, step)
		tr.End, tr.Output = tt.end, "bye\n"
		phases := tr.Phases(rtx3090, mem.Caching{})
		if known := phases[0].Estimate.Known(); known != tt.known {
			t.Errorf("%s: known %v: %q", name, known, phases[0].Estimate.Unknown)
		}
		if told := tr.told(phases); !strings.Contains(told, tt.told) || tt.end.Steps > 0 && strings.Contains(told,
			"had trained") {
			t.Errorf("%s: %s", name, told)
		}
		if why := tr.problem().Error(); strings.Contains(why, "before it had trained") != (tt.end.Steps == 0) {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// What a progress bar has printed is one line, and no reason.
func TestLastLine(t *testing.T) {
	bar := "begun\r 1it [00:01]\r 2it [00:02]"
	if got := lastLine(bar); got != " 2it [00:02]" {
		t.Errorf("the last line is %q", got)
	}
	if got := lastLine(strings.Repeat("x", 5000)); len(got) != mostLine {
		t.Errorf("the last line has %d bytes", len(got))
	}
	tr := &Trace{Output: bar, End: End{Why: "the time was over", Cut: true}}
	if got := tr.stopped(); got != "the time was over" {
		t.Errorf("it stopped by %q", got)
	}
}

// A loop without a loader: its evaluation is told by how the model is called.
func TestNamedWithoutLoader(t *testing.T) {
	text := strings.ReplaceAll(recorded(8, 1), "M batch\n", "")
	phases := read(t, text).Phases(rtx3090, mem.Caching{})
	if len(phases) != 2 || phases[1].Name != Validation || phases[1].Estimate.Of(mem.Transients) != 48*mib {
		t.Errorf("the phases are %+v", phases)
	}
}

func TestCosts(t *testing.T) {
	const square = "A 90000 SQUARE\nF 90000"
	for name, tt := range map[string]struct {
		asked, second string
		cost          ladder.Cost
		says          string
	}{
		"the same samples": {recorded(8, 1), recorded(4, 2), ladder.None, ""},
		"accumulation did not arrive": {recorded(8, 1), recorded(4, 1), ladder.Recipe,
			"8 samples enter an optimizer step at micro-batch 8, and 4 at 4"},
		"micro-batch did not arrive": {recorded(8, 1), recorded(8, 2), ladder.Recipe, "and 16 at 4"},
		"a contrastive loss": {recorded(8, 1, square), recorded(4, 2, square), ladder.Recipe,
			"grows with the square"},
		"batch normalisation": {recorded(8, 1, "M norm"), recorded(4, 2, "M norm"), ladder.Numerics,
			"batch normalisation"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pair{asked: read(t, tt.asked), second: read(t, tt.second), micro: 8, other: 4}
			why, cost := p.costs()
			if cost != tt.cost || !strings.Contains(why, tt.says) || (why == "") != (tt.says == "") {
				t.Errorf("it costs %v: %q", cost, why)
			}
		})
	}
}

// The rungs between and beyond the two traces lie on their line.
func TestPriceOnALine(t *testing.T) {
	unknown := []mem.Estimate{{Unknown: "no formula"}}
	l := &ladder.Ladder{Phase: Training, Rungs: []ladder.Rung{{Estimates: unknown}}}
	for _, micro := range []int64{4, 2} {
		l.Rungs = append(l.Rungs, ladder.Rung{Values: map[string]int64{job.MicroBatch: micro},
			Estimates: []mem.Estimate{{Unknown: "no formula"}}})
	}
	p := pair{asked: read(t, recorded(8, 1)), second: read(t, recorded(4, 2)), micro: 8, other: 4}
	p.price(l, 0, p.asked.Phases(rtx3090, mem.Caching{}), p.second.Phases(rtx3090, mem.Caching{}))
	for i, micro := range []unit.Bytes{4, 2} {
		e := l.Rungs[i+1].Estimates[0]
		if got := e.Of(mem.Saved) + e.Of(mem.Transients); !e.Known() || got != micro*7*mib {
			t.Errorf("at %d samples there are %v of activations", micro, got)
		}
		if got := e.Of(mem.Parameters) + e.Of(mem.Optimizer); got != 24*mib {
			t.Errorf("at %d samples there are %v of model states", micro, got)
		}
	}
}

func TestReadRefusesNoise(t *testing.T) {
	for _, text := range []string{"A 1\n", "A -1 5\n", "A 1 -5\n", "hello\n", "F x\n", "E {\n",
		"A 99999999999999999999 1\n"} {
		if err := (&Trace{}).read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is read as an event", text)
		}
	}
}

// Each library answers what torch and its driver stub ask by name, and stands in for the driver's library.
func TestLibraries(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.NewFile(bytes.NewReader(libraries[arch]))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine {
			t.Errorf("that of %s is for %v", arch, f.Machine)
		}
		if name, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(name, []string{"libcuda.so.1"}) {
			t.Errorf("that of %s is called %v (%v)", arch, name, err)
		}
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"_ZN3c104cuda12device_countEv", "cuDevicePrimaryCtxGetState", "launch_devices",
		} {
			if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == want }) {
				t.Errorf("that of %s has no %s", arch, want)
			}
		}
	}
}

// A script that makes nothing on a card is one that trains on the CPU, and not one of which nothing is known.
func TestToldOfCPU(t *testing.T) {
	tr := &Trace{}
	tr.End.Torch, tr.End.Steps = "2.15.0", 4
	got := tr.told(nil)
	if !strings.Contains(got, "4 optimizer steps; it made nothing on a card, so it trains on the CPU") ||
		strings.Contains(got, "no validation") {
		t.Errorf("it does not say that the script trains on the CPU: %q", got)
	}
}
