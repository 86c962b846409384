package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// lmCards are fine-tunings of language models on real cards, as others have published them.
type lmCards struct {
	Rule   string                     `json:"rule"` // by which they were labelled
	Models map[string]json.RawMessage `json:"models"`
	Rows   []lmRow                    `json:"rows"`
	score  lmScore
}

// readLM reads the observations and prices them.
func readLM(dir string) (c lmCards, err error) {
	if err := readJSON(dir, map[string]any{"real_lm.json": &c, "real_lm_score.json": &c.score}); err != nil {
		return c, err
	}
	c.price()
	return c, nil
}

// An lmScore is what was estimated when the rows were scored, which happened once: in GiB by the row's number, and
// without the rows that had no estimate.
type lmScore struct {
	Date      string          `json:"date"`
	Estimates map[int]float64 `json:"estimates"`
}

// An lmRow is one observation with its settings. Its label was given before anything was estimated.
type lmRow struct {
	observation
	Date       string     `json:"date"`
	Total      unit.Bytes `json:"total"` // the card's memory; 0 where the card is not named
	Capability string     `json:"capability"`
	Software   string     `json:"software"`
	Label      string     `json:"label"`   // trusted or context
	Because    string     `json:"because"` // the reason of the label
	Assumed    string     `json:"assumed"` // what the source does not say
	Step       lmStep     `json:"step"`
	// It ran on that card, and the estimate is more than the card has (over), or so are its counted lines alone: then
	// launch refuses it (refused).
	over, refused bool
}

// trusted reports whether the row has to agree or to have a reason.
func (r lmRow) trusted() bool { return r.Label == "trusted" }

// An lmStep is a training step, as the source has it.
type lmStep struct {
	Batch, Length, Accumulate int64
	World                     int64 // processes; 0 is one
	Weights, AMP, Optimizer   string
	Attention                 string // eager, sdpa or flash_attention_2
	Checkpointing             string // plain or reentrant, where there is some
	Padded, Packed            bool
	Nested                    bool     // of weights of 4 bits: their scales are quantised, too
	Form                      []string // what is not a plain step
	LoRA                      *struct {
		Rank    int64
		Targets []string
		Dropout float64
		Type    string
	}
}

// A noFormula is the error for a step that has no formula: why.
type noFormula string

func (n noFormula) Error() string { return string(n) }

// lmForms are the forms of a step that are not the plain one: what each makes of a step, or why it has no formula.
var lmForms = map[string]func(l lmStep, s *arch.Step) error{
	"nf4":           quantised(4),
	"int8":          quantised(8),
	"nf4_as_loaded": asLoaded,
	"nf4_axolotl":   ofAxolotl,
	"nf4_trl":       ofTRL,
	"axolotl_old":   func(_ lmStep, s *arch.Step) error { s.InputGrad = true; return nil },
	"int8_as_loaded": func(l lmStep, s *arch.Step) error {
		s.Quant = &arch.Quant{Bits: 8, Compute: s.Weights, Loaded: s.Weights}
		return nil
	},
	"cut":    func(_ lmStep, s *arch.Step) error { s.Cut = true; return nil },
	"held":   func(_ lmStep, s *arch.Step) error { s.Held = true; return nil },
	"dpo":    unpriced("DPO of trl before 1.16, which makes logits"),
	"fsdp":   fullySharded,
	"zero_2": zero(2),
	"zero_3": zero(3),
	"zero_3_own": func(l lmStep, s *arch.Step) error { // DeepSpeed's own numbers, where accelerate's file names none
		err := zero(3)(l, s)
		s.Shards.Reduce, s.Shards.Prefetch, s.Shards.Persistence = 5e8, 5e7, 1e5
		return err
	},
	"own_trainer":   unpriced("a trainer that is the program's own"),
	"data_parallel": unpriced("several cards of one process"),
	"compile":       unpriced("torch.compile"),
	"own_decoder":   unpriced("a decoder that is not one of transformers'"),
}

func unpriced(what string) func(lmStep, *arch.Step) error {
	return func(lmStep, *arch.Step) error { return noFormula(what + ": no formula") }
}

// quantised are weights of bitsandbytes as peft prepares them: all that is not quantised is float32.
func quantised(bits int) func(lmStep, *arch.Step) error {
	return func(l lmStep, s *arch.Step) error {
		s.Quant = &arch.Quant{Bits: bits, Nested: l.Nested, Compute: s.Weights, Loaded: s.Weights}
		s.Weights = nn.F32
		return nil
	}
}

// asLoaded are 4-bit weights beside which all others keep the type that they were loaded in: LLaMA-Factory prepares a
// model by itself, and makes only norms float32, where upcast_layernorm asks for it (src/llmtuner/model/patcher.py of
// 0.6, model/model_utils/checkpointing.py at ff6d4d12e).
func asLoaded(l lmStep, s *arch.Step) error {
	s.Quant = &arch.Quant{Bits: 4, Nested: l.Nested, Compute: s.Weights, Loaded: s.Weights}
	return nil
}

// ofAxolotl are 4-bit weights with axolotl's own functions for adapters, which it turns on where there is no dropout
// (utils/schemas/validation.py of 0.19.0).
func ofAxolotl(l lmStep, s *arch.Step) error {
	s.InputGrad, s.LoRA.Kernels = true, arch.Kernels{QKV: true, O: true, MLP: true}
	return asLoaded(l, s)
}

// ofTRL are 4-bit weights that trl from 0.7.10 to 1.15 trains in bf16: peft makes all else float32, and
// peft_module_casting_to_bf16 makes the embedding, the last layer and the adapters bfloat16 again (trl/trainer/utils.py
// of 0.7.10). The norms stay float32, which is not counted.
func ofTRL(l lmStep, s *arch.Step) error {
	s.LoRA.Type = nn.BF16
	return asLoaded(l, s)
}

// fullySharded is FSDP 1 with a unit for each layer, as the Trainer has it: in mixed precision what is trained is
// float32, and is gathered in the type of the computation (wrap in plugins/lm/fsdp.go).
func fullySharded(_ lmStep, s *arch.Step) error {
	f := &arch.FSDP{Version: 1, Layers: true, Master: s.Weights, Frozen: s.Weights, Original: s.LoRA != nil}
	if s.Autocast != nn.F32 {
		f.Master, s.Weights = nn.F32, s.Autocast
	}
	if s.LoRA != nil {
		s.LoRA.Type, s.LoRA.Wide = s.Weights, true
	}
	s.FSDP = f
	return nil
}

// zero is DeepSpeed's ZeRO with the numbers that "auto" stands for (parseDeepspeed in plugins/lm/deepspeed.go).
// DeepSpeed makes the whole model half, and there is no autocast beside it.
func zero(stage int64) func(lmStep, *arch.Step) error {
	return func(_ lmStep, s *arch.Step) error {
		hidden := s.Model.Hidden
		s.Shards = &arch.Shards{Stage: stage, Reduce: hidden * hidden, Prefetch: hidden * hidden * 9 / 10,
			Persistence: 10 * hidden, Reuse: 1e9, SubGroup: 1e9, Overlap: stage == 3}
		if s.Autocast != nn.F32 {
			s.Weights, s.Autocast = s.Autocast, nn.F32
		}
		if s.LoRA != nil {
			s.LoRA.Type = s.Weights
		}
		return nil
	}
}

// lmOptimizers are those that have the states and the size of another one. transformers' own AdamW, which is gone
// since 5.0, goes from tensor to tensor and makes no lists.
var lmOptimizers = map[string]string{"adamw_hf": "adamw_torch_fused"}

var lmTypes = map[string]nn.DType{"": nn.F32, "fp32": nn.F32, "bf16": nn.BF16, "fp16": nn.F16}

// step is what the formula is asked.
func (l lmStep) step(config json.RawMessage) (s arch.Step, err error) {
	if s.Model, err = arch.Read(config); err != nil {
		return s, err
	}
	s.Batch, s.Length, s.Accumulate, s.World = l.Batch, l.Length, max(l.Accumulate, 1), max(l.World, 1)
	s.Weights, s.Autocast, s.Optimizer = lmTypes[l.Weights], lmTypes[l.AMP], l.Optimizer
	if same, ok := lmOptimizers[l.Optimizer]; ok {
		s.Optimizer = same
	}
	s.Padded, s.Eager, s.Flash = l.Padded, l.Attention == "eager", l.Attention == "flash_attention_2"
	s.Checkpointing, s.Reentrant = l.Checkpointing != "", l.Checkpointing == "reentrant"
	if l.LoRA != nil {
		s.LoRA = &arch.LoRA{Rank: l.LoRA.Rank, Targets: l.LoRA.Targets, Dropout: l.LoRA.Dropout,
			Type: lmTypes[l.LoRA.Type]}
	}
	for _, name := range l.Form {
		form, ok := lmForms[name]
		if !ok {
			return s, fmt.Errorf("the form %q is not one that is known", name)
		}
		if err := form(l, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// text is the step in words.
func (l lmStep) text() string {
	words := []string{fmt.Sprintf("%d × %d tokens", l.Batch, l.Length), l.Weights + " weights"}
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	add(l.AMP != "", l.AMP+" autocast")
	add(true, l.Attention)
	add(l.Padded, "padded")
	add(l.Packed, "packed")
	add(l.Checkpointing != "", "checkpointing")
	add(l.World > 1, fmt.Sprintf("%d processes", l.World))
	add(l.Accumulate > 1, fmt.Sprintf("accumulation %d", l.Accumulate))
	if l.LoRA != nil {
		words = append(words, fmt.Sprintf("LoRA %d of %s", l.LoRA.Rank, strings.Join(l.LoRA.Targets, ", ")))
	}
	words = append(words, l.Optimizer)
	for _, f := range l.Form {
		words = append(words, strings.ReplaceAll(f, "_", " "))
	}
	return strings.Join(words, ", ")
}

// price estimates every row, as many at a time as there are processors.
func (c *lmCards) price() {
	var all sync.WaitGroup
	for i := range c.Rows {
		r := &c.Rows[i]
		all.Go(func() { r.price(c.Models[r.Net]) })
	}
	all.Wait()
}

// price asks the formula, and compares. A context is a card's and not the step's.
func (r *lmRow) price(config json.RawMessage) {
	if r.What == "context" {
		r.estimate = mem.CUDAContext(r.Card, r.Total).Bytes
		r.agrees = math.Abs(off(r.estimate, r.Bytes)) <= usedOff
		return
	}
	s, err := r.Step.step(config)
	if err != nil {
		r.err = err
		return
	}
	if s.Release, err = r.release(s); err != nil {
		r.err = err
		return
	}
	e := arch.Training(s)
	if !e.Known() {
		r.err = noFormula(e.Unknown)
		return
	}
	d := gpu.Device{Kind: gpu.CUDA, Name: r.Card, Capability: r.Capability, Total: r.Total}
	p := plugin.Price("training", e, d)
	r.compare(p)
	ran := r.What != "does not fit" && r.Total > 0
	r.over, r.refused = ran && p.Estimate.Total() > r.Total, ran && ladder.Judge(p.Estimate, r.Total) == ladder.Not
}

// named is the release of transformers that a row's source names, or the month of its code.
var named = regexp.MustCompile(`transformers (?:of )?(\d+)(?:[.-](\d+))?`)

// oldest4 is the first release of transformers 4 that launch has formulas of.
const oldest4 = 30

// release is that of transformers 4 which a row names; 0 for 5, and where it names none. launch says of an older one,
// and of one in which the model has no formula, that it is not known.
func (r lmRow) release(s arch.Step) (arch.Release, error) {
	v := named.FindStringSubmatch(r.Software)
	if v == nil {
		return 0, nil
	}
	major, _ := strconv.Atoi(v[1])
	minor, _ := strconv.Atoi(v[2])
	switch {
	case major == 5:
		return 0, nil
	case major != 4 || minor < oldest4:
		return 0, noFormula(v[0] + " has no formula")
	}
	s.Release = arch.Release(minor)
	if why := s.Dated(); why != "" {
		return 0, noFormula(why)
	}
	return s.Release, nil
}

// unknown reports whether a row has no estimate for a reason that is its own: a form or a model without a formula.
func (r lmRow) unknown() bool {
	var n noFormula
	return errors.As(r.err, &n) || errors.Is(r.err, arch.ErrUnknown)
}

// kinds are the kinds of figures that the rows have, in the order of a table.
func (c lmCards) kinds() []string {
	return slices.DeleteFunc([]string{"allocated", "reserved", "used", "context", "fits", "does not fit"},
		func(what string) bool {
			return !slices.ContainsFunc(c.Rows, func(r lmRow) bool { return r.What == what })
		})
}
