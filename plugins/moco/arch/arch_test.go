package arch

import (
	"math"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// The figures here were measured with torch 1.13 on CPU, 2026: parameters and saved bytes of the projects' own encoders
// (torchvision 0.14, timm 0.4.9), peaks by a trace of allocations over full training steps of the projects' own
// builders in one process, in their steady state. Autocast's were measured with bfloat16 under CUDA's cast lists.

func build(t *testing.T, l Library, name string) Encoder {
	t.Helper()
	e, err := Build(l, name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// slope is what an image more makes the graph save, its crop included where the first layer saves it, and what an image
// more makes the same forward need without a graph.
func slope(e Encoder, image int64, low nn.DType, torch1, frozen bool, head nn.Module) (saved, transient int64) {
	at := func(n int64) (int64, int64) {
		run := func(noGrad bool) nn.Peak {
			t := nn.NewTape()
			t.Dispatched, t.Torch1 = true, torch1
			x := t.Hold(t.Input(nn.F32, n, 3, image, image))
			forward := func() {
				t.Autocast(low, func() { t.Hold(t.Call("", x, e.Module(Options{FrozenStem: frozen, Head: head}))) })
			}
			if noGrad {
				t.NoGrad(func() { t.FreezeParams(forward) })
				return t.Peak()
			}
			forward()
			return t.Peak()
		}
		p, k := run(false), run(true)
		images := n * 3 * image * image * 4
		kept := int64(p.Saved)
		if low == nn.F32 && !frozen { // the batch itself, which the tape accounts for as such
			kept += images
		}
		return kept, int64(k.Bytes) - images
	}
	s1, t1 := at(2)
	s2, t2 := at(3)
	return s2 - s1, t2 - t1
}

func TestResNetSavedBytes(t *testing.T) {
	for _, r := range []struct {
		name   string
		params int64 // with fc to 128
		image  int64
		low    nn.DType
		saved  int64
	}{
		{"resnet18", 11242176, 224, nn.F32, 22179840},
		{"resnet18", 11242176, 224, nn.BF16, 11892736},
		{"resnet18", 11242176, 112, nn.F32, 5615616},
		{"resnet18", 11242176, 112, nn.BF16, 3008512},
		{"resnet50", 23770304, 224, nn.F32, 85909504},
		{"resnet50", 23770304, 224, nn.BF16, 43757568},
		{"resnet50", 23770304, 112, nn.F32, 21775360},
		{"resnet50", 23770304, 112, nn.BF16, 11088384},
		{"resnet101", 42762432, 224, nn.F32, 126853120},
		{"resnet101", 42762432, 224, nn.BF16, 64229376},
		{"resnet101", 42762432, 112, nn.F32, 32011264},
		{"resnet101", 42762432, 112, nn.BF16, 16206336},
	} {
		e := build(t, Torchvision, r.name)
		fc := nn.Linear{Out: 128}.Module()
		tape := nn.NewTape()
		tape.Call("", tape.Input(nn.F32, 2, 3, 64, 64), e.Module(Options{Head: fc}))
		if got := tape.Size().Params; got != r.params {
			t.Errorf("%s: %d parameters, torchvision has %d", r.name, got, r.params)
		}
		saved, _ := slope(e, r.image, r.low, true, false, fc)
		if saved != r.saved {
			t.Errorf("%s at %d in %v: saves %d bytes an image, measured %d (%+.3f %%)", r.name, r.image, r.low, saved, r.saved,
				100*float64(saved-r.saved)/float64(r.saved))
		}
	}
}

// Measured with tools/capture's measure.py on torch 2.15, torchvision 0.29 and timm 1.0.31, on the "meta" device, 2026:
// what an image more makes the graph save, and the same forward need without a graph (the momentum encoder's). Of
// vit_b_16 under autocast there is no figure: torch runs its attention as one function, into which the emulation of
// CUDA's cast lists does not see.
func TestAgainstTorch215(t *testing.T) {
	for _, r := range []struct {
		lib              Library
		name             string
		low              nn.DType
		saved, transient int64
	}{
		{Torchvision, "resnet50", nn.F32, 85909504, 10436608},
		{Torchvision, "resnet50", nn.BF16, 43757568, 5218304},
		{Torchvision, "vit_b_16", nn.F32, 124215592 + 602112, 7867392},
		{Timm, "vit_small", nn.F32, 58496392 + 602112, 3631104},
		{Timm, "vit_small", nn.BF16, 33379720, 2145792},
		{Timm, "vit_base", nn.F32, 116953384 + 602112, 7262208},
		{Timm, "vit_base", nn.BF16, 66418984, 3933696},
	} {
		var head nn.Module
		if r.name == "resnet50" {
			head = nn.Linear{Out: 128}.Module()
		}
		saved, transient := slope(build(t, r.lib, r.name), 224, r.low, false, false, head)
		if saved != r.saved || transient != r.transient {
			t.Errorf("%s in %v: saves %d bytes an image and needs %d without a graph, PyTorch %d and %d", r.name, r.low, saved, transient, r.saved, r.transient)
		}
	}
}

func TestViTSavedBytes(t *testing.T) {
	small6 := vit{dim: 384, depth: 12, heads: 6}.encoder()
	for _, r := range []struct {
		name   string
		e      Encoder
		params int64
		f32    float64 // MB
		amp    float64
	}{
		{"vit_small, 12 heads", build(t, VITs, "vit_small"), 21665664, 81.40, 66.85},
		{"vit_small, 6 heads", small6, 21665664, 70.22, 50.09},
		{"vit_base", build(t, VITs, "vit_base"), 85798656, 139.80, 99.84},
		{"torchvision's vit_b_16", build(t, Torchvision, "vit_b_16"), 85798656, 139.80, 99.84},
	} {
		tape := nn.NewTape()
		tape.Torch1 = true
		tape.Call("", tape.Input(nn.F32, 1, 3, 224, 224), r.e.Module(Options{}))
		if got := tape.Size().Params; got != r.params {
			t.Errorf("%s: %d parameters, measured %d", r.name, got, r.params)
		}
		f32, _ := slope(r.e, 224, nn.F32, true, false, nil)
		amp, _ := slope(r.e, 224, nn.BF16, true, false, nil)
		for _, c := range []struct {
			low       string
			got, want float64
		}{{"float32", float64(f32) / 1e6, r.f32}, {"autocast", float64(amp) / 1e6, r.amp}} {
			if off := (c.got - c.want) / c.want; math.Abs(off) > 0.001 {
				t.Errorf("%s in %s: saves %.2f MB an image, measured %.2f (%+.2f %%)", r.name, c.low, c.got, c.want, 100*off)
			}
		}
	}
}

// steps are the projects' jobs of which whole models and whole steps were measured.
var steps = map[string]Step{
	"v2 R50 --mlp": {Project: V2, Dim: 128, K: 65536, MLP: true, Optimizer: "sgd"},
	"v3 R50":       {Project: V3, Dim: 256, MLPDim: 4096, Optimizer: "lars", AMP: nn.BF16},
	"v3 ViT-S":     {Project: V3, Dim: 256, MLPDim: 4096, Optimizer: "adamw", AMP: nn.BF16, FrozenStem: true},
	"v3 ViT-B":     {Project: V3, Dim: 256, MLPDim: 4096, Optimizer: "adamw", AMP: nn.BF16, FrozenStem: true},
	"solar R50":    {Project: Solar, Dim: 256, MLPDim: 4096, K: 65536, Queue: true, Optimizer: "sgd", AMP: nn.BF16, FrozenStem: true, Accumulate: 4},
}

func step(t *testing.T, name string) Step {
	s := steps[name]
	s.World, s.DDP, s.Image, s.Torch1 = 1, true, 224, true
	switch name {
	case "v3 ViT-S":
		s.Encoder = build(t, VITs, "vit_small")
	case "v3 ViT-B":
		s.Encoder = build(t, VITs, "vit_base")
	default:
		s.Encoder = build(t, Torchvision, "resnet50")
	}
	return s
}

func TestWholeModels(t *testing.T) {
	for _, r := range []struct {
		name              string
		params, trainable int64
		static            float64 // GiB under DDP
		optimizer         string
	}{
		{"v2 R50 --mlp", 55933312, 27966656, 0.55, ""},
		{"v3 R50", 68012160, 35058752, 0.65, ""},
		{"v3 ViT-S", 84266752, 42815104, 0.95, ""},
		{"v3 ViT-B", 215678464, 108150016, 2.42, ""},
		{"solar R50", 101584512, 51835776, 1.02, "sgd"},
		{"solar R50", 101584512, 51835776, 1.21, "adamw"},
	} {
		s := step(t, r.name)
		s.Batch = 2
		if r.optimizer != "" {
			s.Optimizer = r.optimizer
		}
		tape := nn.NewTape()
		q := s
		q.Queue = q.Queue || q.Project == V2
		q.record(tape)
		if got := tape.Size(s.query(), s.key()).Params; got != r.params {
			t.Errorf("%s: %d parameters, the builder has %d", r.name, got, r.params)
		}
		if got := tape.Size(s.query()).Trainable; got != r.trainable {
			t.Errorf("%s: %d trainable, the builder has %d", r.name, got, r.trainable)
		}
		var static unit.Bytes
		for _, it := range Training(s).Items {
			switch it.Kind {
			case mem.Parameters, mem.Buffers, mem.Optimizer, mem.Gradients:
				static += it.Bytes
			}
		}
		if got := float64(static) / (1 << 30); math.Abs(got-r.static) > 0.006 {
			t.Errorf("%s %s: %.3f GiB of model states, measured %.2f", r.name, r.optimizer, got, r.static)
		}
	}
}

func TestPeaksOfSteps(t *testing.T) {
	for _, r := range []struct {
		name string
		low  nn.DType
		n    int64
		peak float64 // MiB above what is always there
	}{
		{"v2 R50 --mlp", nn.F32, 8, 750.6}, {"v2 R50 --mlp", nn.F32, 16, 1501.1},
		{"v3 R50", nn.F32, 8, 1408.5}, {"v3 R50", nn.F32, 16, 2795.9},
		{"v3 R50", nn.BF16, 8, 840.7}, {"v3 R50", nn.BF16, 16, 1518.1},
		{"v3 ViT-S", nn.F32, 4, 816.3}, {"v3 ViT-S", nn.F32, 8, 1440.4},
		{"v3 ViT-S", nn.BF16, 4, 786.5}, {"v3 ViT-S", nn.BF16, 8, 1299.3},
		{"solar R50", nn.BF16, 8, 903.5}, {"solar R50", nn.BF16, 16, 1579.6}, {"solar R50", nn.BF16, 24, 2255.8}, {"solar R50", nn.BF16, 32, 2963.1},
		{"solar R50", nn.F32, 8, 1466.5}, {"solar R50", nn.F32, 16, 2797.0},
	} {
		s := step(t, r.name)
		s.Batch, s.AMP = r.n, r.low
		s.Queue = s.Queue || s.Project == V2
		tape := nn.NewTape()
		tape.Dispatched = true
		s.record(tape)
		p := tape.Peak()
		got := float64(p.Bytes-tape.Size(s.query()).GradBytes) / (1 << 20)
		off := (got - r.peak) / r.peak
		t.Logf("%s %v n=%d: %.1f MiB, measured %.1f (%+.2f %%), %s", r.name, r.low, r.n, got, r.peak, 100*off, p.Moment)
		if math.Abs(off) > 0.03 {
			t.Errorf("%s in %v, %d images: peak %.1f MiB, measured %.1f (%+.1f %%)", r.name, r.low, r.n, got, r.peak, 100*off)
		}
	}
}

// What the tensors of a process need in all, by the closed forms of the same study: GiB per GPU for so many images of
// each, under DistributedDataParallel on two GPUs.
func TestAllocatedTable(t *testing.T) {
	sizes := []int64{16, 32, 40, 48, 64, 96, 128, 256}
	for _, r := range []struct {
		name string
		low  nn.DType
		gib  []float64
	}{
		{"v2 R50 --mlp", nn.F32, []float64{2.02, 3.48, 4.22, 4.95, 6.42, 9.35, 12.28, 24.0}},
		{"v3 R50", nn.F16, []float64{2.13, 3.52, 4.23, 4.93, 6.34, 9.15, 11.96, 23.2}},
		{"v3 ViT-S", nn.F16, []float64{3.23, 5.24, 6.29, 7.34, 9.44, 13.6, 17.8, 34.7}},
		{"v3 ViT-B", nn.F16, []float64{5.80, 8.83, 10.4, 11.9, 15.0, 21.2, 27.5, 52.3}},
		{"solar R50", nn.F16, []float64{2.57, 3.91, 4.61, 5.31, 6.71, 9.51, 12.3, 23.5}},
		{"solar R50", nn.F32, []float64{3.75, 6.48, 7.85, 9.21, 11.9, 17.4, 22.9, 44.7}},
	} {
		s := step(t, r.name)
		s.AMP, s.World = r.low, 2
		for i, e := range Trainings(s, sizes...) {
			got := float64(e.Total()) / (1 << 30)
			if off := (got - r.gib[i]) / r.gib[i]; !e.Known() || math.Abs(off) > 0.02 {
				t.Errorf("%s in %v, %d images: %.2f GiB, the closed form has %.2f (%+.1f %%)", r.name, r.low, sizes[i], got, r.gib[i], 100*off)
			}
		}
	}
}

// What is interpolated is what would have been priced.
func TestTrainingsAreEachTraining(t *testing.T) {
	s := step(t, "solar R50")
	sizes := []int64{64, 2, 17, 32, 256, 32}
	for i, e := range Trainings(s, sizes...) {
		s.Batch = sizes[i]
		if want := Training(s); !slices.Equal(e.Items, want.Items) {
			t.Errorf("%d images: %v, priced by itself %v", sizes[i], e.Total(), want.Total())
		}
	}
}

// moco's ShuffleBN gathers the images of all processes, twice over: of many, that is the peak.
func TestShuffledBatchOfManyProcesses(t *testing.T) {
	s := step(t, "v2 R50 --mlp")
	s.Batch = 32
	total := func(world int64) int64 {
		s.World = world
		return int64(Training(s).Total())
	}
	image := int64(3 * 224 * 224 * 4)
	if got, want := total(64)-total(32), 2*32*32*image; math.Abs(float64(got-want)) > 0.05*float64(want) {
		t.Errorf("32 processes more need %d bytes more, want %d", got, want)
	}
	if total(8) != total(1) {
		t.Errorf("of eight the forward of the keys needs more than the gathered images: %d, of one %d", total(8), total(1))
	}
}

// solar-ssl's main registers the queue whether its loss reads it or not.
func TestQueueThatNobodyReads(t *testing.T) {
	s := step(t, "solar R50")
	s.Batch = 2
	queue := func() (b unit.Bytes) {
		for _, it := range Training(s).Items {
			if it.What == "queue" {
				b += it.Bytes
			}
		}
		return b
	}
	const want = 256*65536*4 + 8
	if got := queue(); got != want {
		t.Errorf("the queue has %d bytes, want %d", got, want)
	}
	s.Queue = false
	if got := queue(); got != want {
		t.Errorf("unread it has %d bytes, want %d", got, want)
	}
	s.Project = SolarExp
	if got := queue(); got != 0 {
		t.Errorf("the branch has none, and %d bytes", got)
	}
}

// A saved state that stays, gradients that are freed, one process without buckets.
func TestWhatAStepKeeps(t *testing.T) {
	s := step(t, "solar R50")
	s.Batch = 32
	full := Training(s).Total()
	s.Checkpoint = 370 << 20
	if got := Training(s).Total() - full; got != 370<<20 {
		t.Errorf("a saved state on the card needs %v", got)
	}
	s.Checkpoint, s.DDP = 0, false
	buckets := full - Training(s).Total()
	if math.Abs(float64(buckets)-4*51835776) > 1e6 {
		t.Errorf("the buckets need %v", buckets)
	}
	s.DDP, s.Accumulate, s.Torch1 = true, 1, false // zero_grad frees them before the forward (set_to_none)
	if got := full - Training(s).Total(); got != 4*51835776 {
		t.Errorf("gradients that are not there need %v", got)
	}
}
