package arch

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// An optimizer is what one of TrainingArguments' names keeps for a trainable parameter, and needs while it steps.
type optimizer struct {
	states int64 // of the parameter's size
	// bits is 32 or 8 for one of bitsandbytes 0.50.2, whose states have a type of their own; 0 for torch's, whose states
	// have the parameter's.
	bits int
	// paged states lie in unified memory (get_state_buffer in bitsandbytes/optim/optimizer.py:375).
	paged bool
	// lists are copies of all trainable parameters while torch's lists are updated (_multi_tensor_* in torch/optim,
	// torch 2.15); on a CPU, where the update goes from tensor to tensor, of one of them. decayed are more of them with
	// weight decay.
	lists, decayed, singles int64
	factored                bool // transformers' Adafactor
}

// optimizers are by the name that TrainingArguments knows (training_args.py, OptimizerNames), as trainer_optimizer.py
// makes them. The fused kernel of AdamW writes in place; its lists make the root of the second moment.
var optimizers = map[string]optimizer{
	"adamw_torch":       {states: 2, lists: 1, singles: 1},
	"adamw_torch_fused": {states: 2},
	"sgd":               {decayed: 1},                                  // without momentum (line 317)
	"rmsprop":           {states: 1, lists: 1, singles: 1, decayed: 1}, // line 339
	"adagrad":           {states: 1, lists: 2, singles: 1, decayed: 1}, // line 329
	"adafactor":         {factored: true},                              // line 195
	"adamw_bnb_8bit":    {states: 2, bits: 8, singles: 5},              // line 246, as are the others
	"adamw_8bit":        {states: 2, bits: 8, singles: 5},              // another name for it
	"paged_adamw_8bit":  {states: 2, bits: 8, singles: 5, paged: true},
	"paged_adamw_32bit": {states: 2, bits: 32, paged: true},
	"lion_8bit":         {states: 1, bits: 8, singles: 5},
	"lion_32bit":        {states: 1, bits: 32},
	"paged_lion_8bit":   {states: 1, bits: 8, singles: 5, paged: true},
	"paged_lion_32bit":  {states: 1, bits: 32, paged: true},
	"rmsprop_bnb":       {states: 1, bits: 32},
	"rmsprop_bnb_8bit":  {states: 1, bits: 8, singles: 3},
	"rmsprop_bnb_32bit": {states: 1, bits: 32},
}

// Figures of bitsandbytes: parameters with fewer elements have states in float32 (min_8bit_size), and are never paged
// (optimizer.py:386); a scale in float32 is for so many states of 8 bits (line 562).
const (
	min8Bit     = 4096
	minPaged    = 100_000
	blockOf8Bit = 256
)

// Bitsandbytes reports whether an optimizer is one of bitsandbytes: no card has measured those.
func Bitsandbytes(name string) bool { return optimizers[name].bits > 0 }

// Listed reports whether an optimizer of torch copies lists of parameters on a card, which no card has measured. The
// families of other models have the lists of AdamW, too.
func Listed(name string, decay bool) bool {
	o := optimizers[name]
	return o.bits == 0 && name != "adamw_torch" && (o.lists > 0 || decay && o.decayed > 0)
}

func (s Step) optimizer() (o optimizer, ok bool) {
	o, ok = optimizers[s.Optimizer]
	if s.CPU {
		o.paged = false // "Paged optimizers are not supported on CPU"
	}
	return o, ok
}

func (s Step) known() bool {
	_, ok := s.optimizer()
	return ok
}

// eight reports whether a parameter's states have 8 bits. Those of an embedding have 32 (trainer.py:1331).
func (o optimizer) eight(p nn.Weight) bool {
	return o.bits == 8 && p.Numel() >= min8Bit && !embedding(p.Path)
}

func embedding(path string) bool {
	for _, name := range []string{"embed_tokens.weight", "wte.weight", "wpe.weight",
		"embed_tokens.modules_to_save.default.weight"} {
		if strings.HasSuffix(path, name) {
			return true
		}
	}
	return false
}

// states are what a parameter's states take, with their scales: apart those that are paged.
func (o optimizer) statesOf(p nn.Weight) (count int64, own, paged unit.Bytes) {
	n := p.Numel()
	switch {
	case o.factored && p.Dims() >= 2: // exp_avg_sq_row and exp_avg_sq_col, in float32 (optimization.py:181)
		count = n/p.Dim(-1) + n/p.Dim(-2)
		return count, unit.Bytes(4 * count), 0
	case o.factored:
		return n, unit.Bytes(4 * n), 0
	case o.bits == 0:
		return o.states * n, unit.Bytes(o.states) * p.Bytes(), 0
	}
	size, scales := int64(4), int64(0)
	if o.eight(p) {
		size, scales = 1, blocks(n, blockOf8Bit)
	}
	all := unit.Bytes(o.states * n * size)
	own = unit.Bytes(4 * o.states * scales)
	if o.paged && n >= minPaged {
		return o.states * (n + scales), own, all
	}
	return o.states * (n + scales), own + all, 0
}

// stateLines are the optimizer's states on the card. Of paged states only those of the largest parameter have to be
// there, while it is updated: see [Step.stepTemps].
func (s Step) stateLines(t *nn.Tape) mem.Item {
	o, _ := s.optimizer()
	it := mem.Item{Kind: mem.Optimizer, What: partModel}
	var paged unit.Bytes
	eight := false
	for _, p := range t.Trained(partModel) {
		count, own, moved := o.statesOf(p)
		it.Count += count
		it.Bytes += own
		paged += moved
		eight = eight || o.eight(p)
	}
	if eight { // a map of 256 values for each state, which all parameters share (line 547)
		it.Count += 256 * o.states
		it.Bytes += unit.Bytes(4 * 256 * o.states)
	}
	it.From = s.Optimizer + ": " + o.about() + ", from the first optimizer step on"
	if paged > 0 {
		it.From += fmt.Sprintf("; %v more in unified memory, which the driver moves to host memory where a card has no room",
			paged)
	}
	return it
}

func (o optimizer) about() string {
	switch {
	case o.factored:
		return "a row and a column in float32 for each matrix"
	case o.bits == 8:
		return fmt.Sprintf("%d states of a byte with a scale for each 256, of float32 for embeddings and "+
			"small tensors", o.states)
	case o.bits == 32:
		return fmt.Sprintf("%d states in float32", o.states)
	case o.states == 0:
		return "no states"
	}
	return fmt.Sprintf("%d states of a trainable parameter's type", o.states)
}

// Paged is what the optimizer's states take in unified memory: at most so much moves to host memory.
func Paged(s Step) (b unit.Bytes) {
	o, ok := s.optimizer()
	if !ok || !o.paged || s.unknown() != "" {
		return 0
	}
	for _, p := range s.training().Trained(partModel) {
		_, _, paged := o.statesOf(p)
		b += paged
	}
	return b
}

// stepTemps is what the optimizer needs while it steps.
func (s Step) stepTemps(t *nn.Tape) (b unit.Bytes) {
	o, _ := s.optimizer()
	switch {
	case s.Shards != nil:
		return s.shardTemps(t)
	case s.FSDP != nil:
		return s.fsdpTemps(t)
	case o.factored:
		return s.adafactor(t)
	}
	copies := o.lists
	if s.CPU {
		copies = o.singles
	}
	if s.Decay {
		copies += o.decayed
	}
	switch {
	case o.bits == 0 && s.CPU:
		return unit.Bytes(copies) * t.LargestParam(partModel)
	case o.bits == 0:
		return unit.Bytes(copies) * t.Size(partModel).GradBytes
	}
	for _, p := range t.Trained(partModel) {
		_, _, paged := o.statesOf(p)
		if s.CPU && !s.Dispatched {
			paged = unit.Bytes(o.onCPU(p)) * unit.Bytes(4*p.Numel())
		}
		b = max(b, paged)
	}
	return b
}

// onCPU is how many copies in float32 bitsandbytes makes of a parameter to update it on a CPU: of the gradient, of a
// half parameter, and of what it computes (backends/cpu/ops.py:345, 469). No dispatcher sees them.
func (o optimizer) onCPU(p nn.Weight) (copies int64) {
	copies = 3
	if o.eight(p) {
		copies = o.singles
	}
	if p.DType() != nn.F32 {
		copies++
	}
	return copies
}

// adafactor is Adafactor.step (optimization.py:147), which goes from tensor to tensor: copies of a half gradient and of
// a half parameter in float32, the update of the tensor before, and two updates at a time.
func (s Step) adafactor(t *nn.Tape) (b unit.Bytes) {
	var matrices, vectors []nn.Weight // groups with and without weight decay (trainer.py, create_optimizer)
	for _, p := range t.Trained(partModel) {
		if p.Dims() < 2 {
			vectors = append(vectors, p)
		} else {
			matrices = append(matrices, p)
		}
	}
	before := unit.Bytes(0)
	for _, p := range append(matrices, vectors...) {
		n := unit.Bytes(4 * p.Numel())
		need := before + 2*n
		if p.DType() != nn.F32 {
			need += 2 * n
		}
		b, before = max(b, need), n
	}
	return b
}
