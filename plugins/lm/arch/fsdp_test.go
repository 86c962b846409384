package arch

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// What one of two processes holds, recorded by tools/capture/step_lm_fsdp.py: its parts of the parameters, of their
// gradients and of AdamW's states, and the whole gradients between the micro-batches of a step.
func TestFullyShardedRecorded(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "fsdp_lm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Processes int64
		Rows      []struct {
			Name                                              string
			Config                                            json.RawMessage
			Version, Accumulate, Whole, Params, Grads, States int64
			Mixed                                             bool
			Lora                                              *LoRA
			Frozen, Reference                                 int64
			Program                                           string
			Units                                             [][2]int64 // elements that are trained, and that are not
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded.Rows) < 74 {
		t.Errorf("%d rows are recorded, want at least 74", len(recorded.Rows))
	}
	for _, row := range recorded.Rows {
		config, err := Read(row.Config)
		if err != nil {
			t.Fatal(err)
		}
		s := Step{Model: config, Batch: 2, Length: 32, World: recorded.Processes, Accumulate: row.Accumulate,
			Weights: nn.BF16, Optimizer: "adamw_torch",
			FSDP: &FSDP{Version: row.Version, Layers: true, Carved: row.Version == 2, Master: nn.BF16}}
		if s.Fused = row.Program != ""; row.Program == "dpo" {
			s.Preference = &Preference{}
		}
		if row.Mixed || row.Lora != nil { // whose adapters are float32, as peft makes them
			s.FSDP.Master = nn.F32
		}
		if s.FSDP.Frozen = nn.BF16; row.Lora != nil {
			s.LoRA = row.Lora
			if s.LoRA.Type = nn.F32; row.Mixed {
				s.LoRA.Type = nn.BF16
			}
		}
		e := Training(s)
		if e.Unknown != "" {
			t.Fatalf("%s: unknown because %q", row.Name, e.Unknown)
		}
		tape := s.training()
		if got := s.unitsOf(tape); row.Lora != nil && !reflect.DeepEqual(got, row.Units) {
			t.Errorf("%s, version %d, mixed %v: the units are %v, want %v", row.Name, row.Version, row.Mixed, got,
				row.Units)
		}
		whole := int64(0)
		if row.Accumulate > 1 {
			whole = int64(tape.Size(partModel).GradBytes)
		}
		left := int64(0)
		for _, w := range tape.Trained(partModel) {
			left += int64(tape.Scattered(w.Tensor))
		}
		for what, pair := range map[string][2]int64{
			"parameters":      {int64(line(e, mem.Parameters, partModel)), row.Params},
			"gradients":       {left, row.Grads},
			"on the tape":     {int64(tape.Peak().Gradients), left},
			"states":          {int64(line(e, mem.Optimizer, partModel)), row.States},
			"reference":       {int64(line(e, mem.Parameters, partReference)), row.Reference},
			"frozen weights":  {int64(line(e, mem.Parameters, "frozen")), row.Frozen},
			"whole gradients": {whole, row.Whole},
		} {
			// version 1 aligns each parameter in its flat tensor to 16 bytes, and only the first process has no padding
			within := 0.0
			if row.Version == 1 {
				within = 0.002
			}
			if off := math.Abs(float64(pair[0]-pair[1])) / math.Max(1, float64(pair[1])); off > within {
				t.Errorf("%s, version %d, mixed %v, accumulation %d: %s are %d bytes, want %d", row.Name, row.Version,
					row.Mixed,
					row.Accumulate, what, pair[0], pair[1])
			}
		}
	}
}

// unitsOf are the elements of each unit that are trained, and that are not, as step_lm_fsdp.py lists them.
func (s Step) unitsOf(t *nn.Tape) (all [][2]int64) {
	each := map[string]*[2]int64{}
	for i, weights := range [][]nn.Weight{t.Trained(partModel), t.Untrained(partModel)} {
		for _, w := range weights {
			name := s.flat(w.Path)
			if each[name] == nil {
				each[name] = new([2]int64)
			}
			each[name][i] += w.Numel()
		}
	}
	for _, u := range each {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return all
}

// Peaks as PyTorch's FSDPMemTracker counts them (tools/capture/peak_lm_fsdp.py) lie between the lines that are certain
// and the whole estimate.
func TestFullyShardedPeaks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "fsdp_peak.json"))
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Processes, Length int64
		Rows              []struct {
			Config            json.RawMessage
			Carved            bool
			Batch, Accumulate int64
			Peak              unit.Bytes
			Lora              *struct {
				LoRA
				Keeps, Fused bool
				Loaded       string
			}
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded.Rows) < 17 {
		t.Errorf("%d rows are recorded, want at least 17", len(recorded.Rows))
	}
	var before, bound unit.Bytes
	for _, row := range recorded.Rows {
		config, err := Read(row.Config)
		if err != nil {
			t.Fatal(err)
		}
		s := Step{Model: config, Batch: row.Batch, Length: recorded.Length, World: recorded.Processes,
			Accumulate: row.Accumulate, Weights: nn.BF16, Optimizer: "adamw_torch",
			FSDP: &FSDP{Version: 2, Layers: true, Carved: row.Carved, Master: nn.F32, Frozen: nn.BF16}}
		if row.Lora != nil {
			s.FSDP.Keeps, s.LoRA = row.Lora.Keeps, &row.Lora.LoRA
			s.LoRA.Type = nn.BF16
			if s.Fused = row.Lora.Fused; row.Lora.Loaded == "fp32" {
				s.FSDP.Frozen = nn.F32
			}
		}
		e := Training(s)
		var certain, all unit.Bytes
		for _, it := range e.Items {
			if all += it.Bytes; !it.Guess {
				certain += it.Bytes
			}
		}
		// the same model in float32 has larger parts, and a larger last layer, which trl's head makes whole
		if got, want := all-bound, row.Peak-before; s.Fused && s.FSDP.Frozen == nn.F32 && got != want {
			t.Errorf("%d bytes more in float32, want %d", got, want)
		}
		before, bound = row.Peak, all
		if s.Fused { // which makes intermediates of a tile on a CPU: see decoder.logProbs
			tile := 4 * (recorded.Length - 1) * config.Vocab
			all += unit.Bytes(7*tile + tile/4)
		}
		if e.Unknown != "" || row.Peak < certain || row.Peak > all {
			t.Errorf("%d layers, carved %v, tied %v, batch %d, accumulation %d, adapters %v: recorded %d bytes, "+
				"want %d to %d (%s)", config.Layers, row.Carved, config.Tied, row.Batch, row.Accumulate, s.LoRA,
				row.Peak, certain, all, e.Unknown)
		}
	}
}

// fullyShard is 7 billion parameters in 8 processes.
func fullyShard(edit func(f *FSDP)) Step {
	f := &FSDP{Version: 2, Layers: true, Carved: true, Master: nn.F32}
	edit(f)
	s := Step{Model: llama7B, Batch: 1, Length: 512, World: 8, Accumulate: 1, Weights: nn.BF16, Checkpointing: true,
		Optimizer: "adamw_torch_fused", FSDP: f}
	if f.Version == 1 {
		s.Autocast = nn.BF16
	}
	return s
}

// What is gathered and reduced, by hand from torch 2.15 and accelerate 1.15.
func TestFullySharded(t *testing.T) {
	const (
		layer = (params7B - 2*largest7B - 4096) / 32
		tail  = largest7B + 4096
		rest  = 2*largest7B + 4096 // embedding, norm and lm_head
	)
	type lines map[string]unit.Bytes
	for name, tt := range map[string]struct {
		edit func(f *FSDP)
		want lines
	}{
		"version 2": {func(*FSDP) {}, lines{"parameters model": 4 * part7B, "optimizer model": 8 * part7B,
			"parameters gathered root": 0, "parameters gathered": 2 * (tail + 2*layer + layer/8),
			"gradients of units": 2 * (3 * layer)}},
		"version 1": {func(f *FSDP) { f.Version, f.Carved = 1, false }, lines{"parameters model": 4 * part7B,
			"optimizer model": 8 * part7B, "parameters gathered root": 2 * rest,
			"parameters gathered": 2 * (2*layer + layer/8),
			"gradients of units":  2 * (rest + 4*layer)}},
		"kept": {func(f *FSDP) { f.Keeps = true }, lines{"parameters gathered": 2 * (params7B + layer + layer/8)}},
		"one unit": {func(f *FSDP) { f.Version, f.Layers, f.Carved = 1, false, false },
			lines{"parameters gathered root": 2 * params7B, "parameters gathered": 0,
				"gradients of units": 2 * 3 * params7B}},
		"bfloat16": {func(f *FSDP) { f.Master = nn.BF16 }, lines{"parameters model": 2 * part7B,
			"optimizer model": 4 * part7B}},
		"offloaded": {func(f *FSDP) { f.Offload = true }, lines{"parameters model": 0, "optimizer model": 0,
			"parameters gathered": 2 * (tail + 2*layer + layer/8)}},
	} {
		e := Training(fullyShard(tt.edit))
		if e.Unknown != "" {
			t.Fatalf("%s: unknown because %q", name, e.Unknown)
		}
		for what, want := range tt.want {
			kind, of, _ := strings.Cut(what, " ")
			kinds := map[string]mem.Kind{"parameters": mem.Parameters, "optimizer": mem.Optimizer,
				"gradients": mem.Gradients}
			if got := line(e, kinds[kind], of); got != want {
				t.Errorf("%s: %s is %d bytes, want %d", name, what, got, want)
			}
		}
	}
}

// Where gradients are added up, those of the micro-batches before are whole: two bytes a parameter, however many
// processes there are. The parts of them are there while the optimizer steps, with its states.
func TestFullyShardedGradients(t *testing.T) {
	as := func(*FSDP) {}
	for accumulate, want := range map[int64]unit.Bytes{1: 4 * part7B, 2: 2 * params7B} {
		s := fullyShard(as)
		s.Accumulate = accumulate
		e := Training(s)
		if got := e.Of(mem.Gradients) - line(e, mem.Gradients, "of units"); got < want*9/10 || got > want+2*largest7B {
			t.Errorf("accumulation %d: %d bytes of gradients at the peak, want about %d", accumulate, got, want)
		}
	}
	s := fullyShard(as)
	s.Batch, s.Length = 1, 8 // so that the end of backward is the peak
	if p := s.training().Peak(); p.Gradients != 4*part7B || p.Bytes < 4*part7B {
		t.Errorf("%d bytes of gradients are left after backward, and the peak is %d, want %d", p.Gradients, p.Bytes,
			4*part7B)
	}
	s.FSDP.Offload = true
	if p := s.training().Peak(); p.Gradients != 0 {
		t.Errorf("%d bytes of offloaded gradients are left", p.Gradients)
	}
	if params, rest := HostShards(s); params != 4*part7B || rest != 12*part7B {
		t.Errorf("host memory has %d and %d bytes, want %d and %d", params, rest, 4*part7B, 12*part7B)
	}
	if e := Evaluation(fullyShard(as), false); e.Unknown != "" || e.Of(mem.Gradients) != 0 {
		t.Errorf("an evaluation has %d bytes of gradients (%q)", e.Of(mem.Gradients), e.Unknown)
	}
}

// trl's reference model is one unit: while it answers all of it is on the card, twice (FSDPMemTracker: 93479936 bytes
// of unsharded parameters and as many of their all-gather, for 46739968 parameters in bfloat16).
func TestFullyShardedReference(t *testing.T) {
	s := fullyShard(func(f *FSDP) { f.Frozen = nn.F32 })
	s.Batch, s.Length, s.Fused, s.Preference = 1, 8, true, &Preference{}
	e := Training(s)
	if got := line(e, mem.Parameters, partReference); got != 4*part7B || e.Unknown != "" {
		t.Errorf("the parts of the reference are %d bytes, want %d (%s)", got, 4*part7B, e.Unknown)
	}
	if got := s.training().Peak().Bytes; got < 2*2*params7B || got > 2*2*params7B+2*largest7B {
		t.Errorf("the peak is %d bytes, want a little more than %d", got, 2*2*params7B)
	}
}

// With use_orig_params of version 1 peft makes an adapter's input float32, which autocast then copies. The difference
// was recorded with saved_tensors_hooks in two processes of gloo, from the second step on: 888484 and 863908 bytes.
func TestWideAdapters(t *testing.T) {
	config, err := Read([]byte(`{"model_type": "llama", "vocab_size": 301, "num_hidden_layers": 3, "hidden_size": 64,
		"max_position_embeddings": 64, "intermediate_size": 150, "num_attention_heads": 4, "num_key_value_heads": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	saved := func(wide bool) unit.Bytes {
		return Saved(Step{Model: config, Batch: 2, Length: 32, World: 2, Weights: nn.BF16, Autocast: nn.BF16,
			Optimizer: "adamw_torch", FSDP: &FSDP{Version: 1, Layers: true, Master: nn.F32, Frozen: nn.BF16},
			LoRA: &LoRA{Rank: 8, Targets: []string{"q_proj", "v_proj", "down_proj"}, Type: nn.BF16, Wide: wide}})
	}
	if more, want := saved(true)-saved(false), unit.Bytes(888484-863908); more != want {
		t.Errorf("%d bytes more are saved, want %d", more, want)
	}
}

func TestFullyShardedWithoutFormula(t *testing.T) {
	for want, edit := range map[string]func(s *Step){
		"one process":   func(s *Step) { s.World = 1 },
		"DeepSpeed":     func(s *Step) { s.Shards = &Shards{Stage: 2, Reduce: 1} },
		"\"adafactor\"": func(s *Step) { s.Optimizer = "adafactor" },
		"offloaded last layer": func(s *Step) {
			s.Fused, s.LoRA, s.FSDP.Offload = true, &LoRA{Rank: 8, Targets: []string{AllLinear}}, true
		},
		"before the training": func(s *Step) { s.Fused, s.Preference = true, &Preference{Precomputed: true} },
		"LLaMA-Factory's":     func(s *Step) { s.Preference = &Preference{} },
		"FSDP 1 has no":       func(s *Step) { s.Preference, s.FSDP.Version = &Preference{}, 1 },
		"reshard_after_forward": func(s *Step) {
			s.Fused, s.FSDP.Keeps, s.Preference = true, true, &Preference{}
		},
		"Liger's": func(s *Step) { s.Liger.Head = true },
		"functions for adapters": func(s *Step) {
			s.LoRA = &LoRA{Rank: 8, Targets: []string{AllLinear}, Kernels: Kernels{MLP: true}}
		},
		"quantised": func(s *Step) {
			s.Quant, s.LoRA = &Quant{Bits: 4, Compute: nn.BF16}, &LoRA{Rank: 8, Targets: []string{AllLinear}}
		},
		"on a CPU": func(s *Step) { s.CPU = true },
	} {
		s := fullyShard(func(*FSDP) {})
		edit(&s)
		if e := Training(s); !strings.Contains(e.Unknown, want) {
			t.Errorf("unknown because %q, want %q", e.Unknown, want)
		}
	}
}
