package arch

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// llama7B is Llama 2 of 7 billion parameters: all its tensors divide by 8.
var llama7B = Config{Type: "llama", Vocab: 32000, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32, KVHeads: 32,
	HeadDim: 128, Rotary: 128, Positions: 4096, Activation: "silu"}

const (
	params7B  = 6_738_415_616
	part7B    = params7B / 8
	largest7B = 32000 * 4096
	norms7B   = 65 * 4096
)

// line is an estimate's line of that kind and name.
func line(e mem.Tensors, k mem.Kind, what string) (sum unit.Bytes) {
	for _, it := range e.Items {
		if it.Kind == k && it.What == what {
			sum += it.Bytes
		}
	}
	return sum
}

// Model states of 7 billion parameters in 8 processes, by hand from DeepSpeed 0.19.6.
func TestShardedBytes(t *testing.T) {
	type lines map[string]unit.Bytes
	auto := Shards{Reduce: 4096 * 4096, Prefetch: 15_099_494, Persistence: 40960, Reuse: 1e9, SubGroup: 1e9}
	stage := func(n int64, edit func(z *Shards)) *Shards {
		z := auto
		z.Stage = n
		edit(&z)
		return &z
	}
	as := func(*Shards) {}
	const gathered = 2 * (5e8 + 2*largest7B + 15_099_494 + largest7B + 15_099_494)
	for name, tt := range map[string]struct {
		z          *Shards
		accumulate int64
		want       lines
	}{
		"stage 3": {stage(3, as), 2, lines{"parameters model": 2 * part7B, "optimizer model": 12 * part7B,
			"gradients own part": 2 * part7B, "buffers reduce bucket": 2 * 4096 * 4096,
			"parameters undivided": 2 * norms7B, "parameters gathered": gathered,
			"buffers flat copy of a bucket": 2 * largest7B}},
		"overlapped": {stage(3, func(z *Shards) { z.Overlap = true }), 1,
			lines{"buffers flat copy of a bucket": 5 * 2 * largest7B}},
		"stage 3, offloaded": {stage(3, func(z *Shards) { z.HostOptimizer, z.HostParams = true, true }), 1,
			lines{"parameters model": 0, "optimizer model": 0, "gradients own part": 0, "parameters gathered": gathered}},
		"stage 2": {stage(2, func(z *Shards) { z.Reduce, z.Overlap = 5e8, true }), 1,
			lines{"parameters model": 2 * params7B, "optimizer model": 12 * part7B, "buffers reduce buckets": 2 * 2 * 5e8,
				"buffers flat copy of a bucket": 2 * 5e8, "gradients own part": 2 * (part7B + 2*largest7B), "gradients model": 0}},
		"stage 2, added up": {stage(2, as), 2, lines{"gradients own part": 2 * 2 * (part7B + 2*largest7B)}},
		"stage 2, offloaded": {stage(2, func(z *Shards) { z.HostOptimizer = true }), 1,
			lines{"optimizer model": 0, "gradients own part": 0,
				"buffers gradient on its way to host memory": (2 + 8) * largest7B}},
		"stage 1": {stage(1, as), 2, lines{"parameters model": 2 * params7B, "optimizer model": 12 * part7B,
			"gradients model": 2 * params7B}},
	} {
		s := Step{Model: llama7B, Batch: 1, Length: 512, World: 8, Accumulate: tt.accumulate, Weights: nn.BF16,
			Checkpointing: true, Optimizer: "adamw_torch_fused", Shards: tt.z}
		e := Training(s)
		if e.Unknown != "" {
			t.Fatalf("%s: unknown because %q", name, e.Unknown)
		}
		for what, want := range tt.want {
			kind, of, _ := strings.Cut(what, " ")
			kinds := map[string]mem.Kind{"parameters": mem.Parameters, "optimizer": mem.Optimizer,
				"gradients": mem.Gradients, "buffers": mem.Buffers}
			if got := line(e, kinds[kind], of); got != want {
				t.Errorf("%s: %s is %d bytes, want %d", name, what, got, want)
			}
		}
	}
}

// Adapters of rank 8 of q and v, in 8 processes: what is frozen is divided, gathered or kept whole as what is trained
// is, and has no states. Weights of 4 bits are whole in each process of stage 2.
func TestShardedAdapters(t *testing.T) {
	const adapters = 32 * 2 * 2 * 8 * 4096
	s := Step{Model: llama7B, Batch: 1, Length: 512, World: 8, Accumulate: 1, Weights: nn.BF16, Checkpointing: true,
		Optimizer: "adamw_torch_fused", LoRA: &LoRA{Rank: 8, Targets: []string{"q_proj", "v_proj"}, Type: nn.BF16},
		Shards: &Shards{Stage: 3, Reduce: 4096 * 4096, Prefetch: 15_099_494, Persistence: 40960, Reuse: 1e9, SubGroup: 1e9}}
	e := Training(s)
	for what, tt := range map[string]struct {
		kind mem.Kind
		want unit.Bytes
	}{
		partModel:               {mem.Parameters, 2 * (params7B + adapters) / 8},
		"own part":              {mem.Gradients, 2 * adapters / 8},
		"undivided":             {mem.Parameters, 2 * (norms7B + adapters)},
		"gathered":              {mem.Parameters, 2 * (5e8 + 3*largest7B + 2*15_099_494)},
		"reduce bucket":         {mem.Buffers, 2 * 4096 * 4096},
		"flat copy of a bucket": {mem.Buffers, 2 * adapters},
	} {
		if got := line(e, tt.kind, what); got != tt.want {
			t.Errorf("%s: %d bytes, want %d (%s)", what, got, tt.want, e.Unknown)
		}
	}
	if got := line(e, mem.Optimizer, partModel); got != 12*adapters/8 {
		t.Errorf("states of %d bytes, want %d", got, 12*adapters/8)
	}
	s.Fused = true // which gathers the head once more
	const more = 2 * (5e8 + 4*largest7B + 2*15_099_494)
	if got, want := line(Training(s), mem.Parameters, "gathered"), unit.Bytes(more); got != want {
		t.Errorf("with trl's fused head %d bytes are gathered, want %d", got, want)
	}
	s.Fused, s.Shards = false, &Shards{Stage: 2, Reduce: 5e8}
	s.Quant = &Quant{Bits: 4, Nested: true, Compute: nn.BF16, Loaded: nn.BF16}
	e = Training(s)
	const head, linears = 2 * largest7B, params7B - 2*largest7B - norms7B
	if got, want := line(e, mem.Parameters, partModel), unit.Bytes(linears/2+2*(head+norms7B+adapters)); got != want {
		t.Errorf("4 bits in stage 2: %d bytes of parameters, want %d (%s)", got, want, e.Unknown)
	}
	if got := line(e, mem.Optimizer, partModel); got != 12*adapters/8 {
		t.Errorf("4 bits in stage 2: states of %d bytes, want %d", got, 12*adapters/8)
	}
	if line(e, mem.Buffers, "constants of quantised weights") == 0 {
		t.Error("4 bits in stage 2: no constants")
	}
}

// A preference's reference is whole in each process of stage 2. Adapters have none.
func TestShardedReference(t *testing.T) {
	s := Step{Model: llama7B, Batch: 1, Length: 128, World: 8, Accumulate: 1, Weights: nn.BF16, Checkpointing: true,
		Optimizer: "adamw_torch_fused", Preference: &Preference{Reference: nn.BF16}, Shards: &Shards{Stage: 2, Reduce: 5e8}}
	e := Training(s)
	if got := line(e, mem.Parameters, partReference); got != 2*params7B {
		t.Errorf("a reference of %d bytes, want %d (%s)", got, 2*params7B, e.Unknown)
	}
	if got := line(e, mem.Optimizer, partModel); got != 12*part7B {
		t.Errorf("states of %d bytes, want %d", got, 12*part7B)
	}
	s.LoRA = &LoRA{Rank: 8, Targets: []string{"q_proj"}, Type: nn.BF16}
	for _, stage := range []int64{2, 3} {
		s.Shards.Stage = stage
		if e = Training(s); !e.Known() || line(e, mem.Parameters, partReference) != 0 {
			t.Errorf("adapters in stage %d: %q, a reference of %d bytes", stage, e.Unknown,
				line(e, mem.Parameters, partReference))
		}
	}
}

// One process has all parts, and gathers nothing. An evaluation has no gradients of a step, nor their copies.
func TestShardsAlone(t *testing.T) {
	s := Step{Model: llama7B, Batch: 1, Length: 512, World: 1, Accumulate: 1, Weights: nn.BF16, Checkpointing: true,
		Optimizer: "adamw_torch_fused", Shards: &Shards{Stage: 3, Reduce: 4096 * 4096, Persistence: 40960, Reuse: 1e9,
			SubGroup: 1e9}}
	e := Training(s)
	if got := line(e, mem.Parameters, partModel) + line(e, mem.Optimizer, partModel) +
		line(e, mem.Gradients, "own part"); got != 16*params7B {
		t.Errorf("one process has %d bytes of states, want %d", got, 16*params7B)
	}
	if got := line(e, mem.Parameters, "gathered"); got != 0 {
		t.Errorf("one process gathers %d bytes", got)
	}
	s.Shards.Stage = 2
	e = Evaluation(s, false)
	if got := line(e, mem.Buffers, "reduce buckets") + e.Of(mem.Gradients); got != 0 {
		t.Errorf("an evaluation has %d bytes of a backward", got)
	}
}

// While the optimizer steps there is a gradient in the model's type and one in float32 for each parameter of a sub
// group, and before that a norm in float64 of one tensor. torch's lists are a copy of the float32 gradients.
func TestShardTemps(t *testing.T) {
	for name, tt := range map[string]struct {
		z         Shards
		world     int64
		optimizer string
		want      unit.Bytes
	}{
		"all at once":  {Shards{Stage: 3, SubGroup: 1e12}, 1, "adamw_torch_fused", 6 * (params7B - norms7B)},
		"one by one":   {Shards{Stage: 3, SubGroup: 1}, 1, "adamw_torch_fused", 8 * largest7B},
		"lists":        {Shards{Stage: 3, SubGroup: 1e12}, 8, "adamw_torch", 8 * (params7B - norms7B) / 8},
		"stage 2":      {Shards{Stage: 2}, 8, "adamw_torch_fused", 6 * part7B},
		"on the host":  {Shards{Stage: 2, HostOptimizer: true}, 8, "adamw_torch_fused", 0},
		"the norm":     {Shards{Stage: 2}, 64, "adamw_torch_fused", 8 * largest7B},
		"parts of one": {Shards{Stage: 3, SubGroup: 1}, 8, "adamw_torch_fused", 8 * largest7B / 8},
	} {
		s := Step{Model: llama7B, Batch: 1, Length: 8, World: tt.world, Weights: nn.BF16, Optimizer: tt.optimizer,
			Shards: &tt.z}
		if got := s.shardTemps(s.training()); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tt.want)
		}
	}
}

// What is in host memory: 18 bytes a parameter in stage 3, and 2 more for parameters.
func TestOffloaded(t *testing.T) {
	s := Step{Model: llama7B, Batch: 1, Length: 512, World: 8, Accumulate: 2, Weights: nn.BF16, Optimizer: "adamw_torch",
		Shards: &Shards{Stage: 3, HostOptimizer: true, HostParams: true}}
	if optimizer, params := Offloaded(s); optimizer != 18*part7B || params != 2*part7B {
		t.Errorf("stage 3 moves %d and %d bytes, want %d and %d", optimizer, params, 18*part7B, 2*part7B)
	}
	s.Shards = &Shards{Stage: 2, HostOptimizer: true}
	if optimizer, params := Offloaded(s); optimizer != 20*part7B+2*largest7B || params != 0 {
		t.Errorf("stage 2 moves %d and %d bytes, want %d and 0", optimizer, params, 20*part7B+2*largest7B)
	}
}

func TestShardsWithoutFormula(t *testing.T) {
	for want, edit := range map[string]func(s *Step){
		"without bf16":  func(s *Step) { s.Weights = nn.F32 },
		"stage 4":       func(s *Step) { s.Shards.Stage = 4 },
		"\"adafactor\"": func(s *Step) { s.Optimizer = "adafactor" },
		"a reference":   func(s *Step) { s.Preference = &Preference{Reference: nn.BF16} },
		"Liger's":       func(s *Step) { s.Liger.Head = true },
		"quantised": func(s *Step) {
			s.LoRA, s.Quant = &LoRA{Rank: 8, Targets: []string{AllLinear}}, &Quant{Bits: 4, Compute: nn.BF16, Loaded: nn.BF16}
		},
		"on a CPU": func(s *Step) { s.CPU = true },
	} {
		s := Step{Model: llama7B, Batch: 1, Length: 8, World: 8, Weights: nn.BF16, Optimizer: "adamw_torch",
			Shards: &Shards{Stage: 3}}
		edit(&s)
		if e := Training(s); !strings.Contains(e.Unknown, want) {
			t.Errorf("unknown because %q, want %q", e.Unknown, want)
		}
	}
}
