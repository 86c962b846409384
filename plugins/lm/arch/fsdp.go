package arch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// FSDP is how PyTorch's fully sharded data parallel divides a training among [Step.World] processes, as accelerate
// wraps a model. Lines are of torch 2.15 (torch/distributed/fsdp/…) and accelerate 1.15.0.
//
// Each unit is gathered around its use, in the type of the computation, which is [Step.Weights] then. Version 2 has no
// autocast beside it (Accelerator._prepare_fsdp2), and version 1 has (prepare_model, accelerator.py:1824).
type FSDP struct {
	Version int64 // 1 for FullyShardedDataParallel, 2 for fully_shard
	// Layers: each layer of the decoder is a unit, and the root has the rest; otherwise the root has the whole model.
	Layers bool
	// Carved: the embedding is a unit of its own, and so are the last norm and lm_head together
	// (fsdp2_prepare_model in accelerate/utils/fsdp_utils.py:857).
	Carved bool
	// Keeps: what is gathered in forward stays until its backward (SHARD_GRAD_OP, reshard_after_forward of false).
	Keeps bool
	// Master is the type of the parts, of their gradients and of the optimizer's states: float32 in mixed precision,
	// whatever the model was loaded in (accelerator.py:2037, fsdp_utils.py:818), but for axolotl's version 2.
	Master nn.DType
	// Frozen is the type of the parts of weights below adapters: that in which they were loaded, since accelerate makes
	// float32 of what is trained alone (accelerator.py:2031, fsdp_utils.py:821).
	Frozen nn.DType
	// Original is use_orig_params of version 1: see [LoRA.Wide].
	Original bool
	// Offload has the parts, their gradients and the optimizer in host memory.
	Offload bool
}

// ofFSDP says what of it has no formula; "" for nothing.
func (s Step) ofFSDP() string {
	f := s.FSDP
	if f == nil {
		return ""
	}
	o, _ := s.optimizer()
	switch {
	case s.CPU:
		return "FSDP on a CPU has no formula"
	case s.World < 2:
		return "FSDP of one process has no formula"
	case s.Shards != nil:
		return "FSDP beside DeepSpeed is refused by the Trainer"
	case o.states != 2 || o.bits != 0:
		return fmt.Sprintf("the optimizer %q with FSDP has no formula", s.Optimizer)
	case s.Quant != nil:
		return "quantised weights with FSDP have no formula"
	case s.LoRA != nil && s.LoRA.Kernels != Kernels{}:
		return "axolotl's functions for adapters with FSDP have no formula: they read weights and call no layers"
	case s.LoRA != nil && f.Version == 1 && !f.Layers:
		return "adapters in FSDP 1 are units of their own, beside the layers (fsdp_auto_wrap_policy of peft)"
	case s.comparedWhole() != "":
		return s.comparedWhole()
	case s.Fused && s.LoRA != nil && f.Carved && !s.Model.Tied && f.Offload:
		return "trl's fused head with adapters and an offloaded last layer has no formula"
	case s.Liger.Head && f.Carved:
		return "Liger's fused head with a last layer that FSDP gathers by itself has no formula"
	}
	return ""
}

// share is how many elements of a parameter a process has, with padding. Version 2 cuts each parameter along its first
// dimension (FSDPParam._init_sharded_param in _fully_shard/_fsdp_param.py:354), so the first process has the most.
// Version 1 cuts all of a unit as one flat tensor (_get_reduce_scatter_tensors in _runtime_utils.py:890).
func (s Step) share(w nn.Tensor) int64 {
	if s.FSDP.Version == 1 || w.Dims() == 0 {
		return blocks(w.Numel(), s.World)
	}
	return blocks(w.Dim(0), s.World) * (w.Numel() / w.Dim(0))
}

// A fullShard is what one process has of the model, in elements: of what is trained, and of frozen weights.
type fullShard struct{ part, largest, frozen int64 }

func (s Step) fullShard(t *nn.Tape) (p fullShard) {
	p.part, p.largest = s.parts(t.Trained(partModel))
	p.frozen, _ = s.parts(t.Untrained(partModel))
	return p
}

// parts is what one process has of these weights, and the largest of them.
func (s Step) parts(weights []nn.Weight) (all, largest int64) {
	flat := map[string]int64{}
	for _, w := range weights {
		largest = max(largest, s.share(w.Tensor))
		if s.FSDP.Version == 1 {
			flat[s.flat(w.Path)] += w.Numel()
			continue
		}
		all += s.share(w.Tensor)
	}
	for _, n := range flat {
		all += blocks(n, s.World)
	}
	return all, largest
}

// flat is the unit of a weight, where in version 1 each matrix of an adapter is one of its own: peft's policy wraps
// leaves that are trained (lambda_policy_fn of fsdp_auto_wrap_policy in peft/utils/other.py:1292, which
// _prepare_for_training in trainer.py:1754 asks for). Version 2 never gets this policy.
func (s Step) flat(path string) string {
	if s.FSDP.Version == 1 && (strings.Contains(path, ".lora_A.") || strings.Contains(path, ".lora_B.")) {
		return path
	}
	return s.unit(path)
}

// The units of a model beside its layers, which have their own names.
const (
	unitRoot  = "root"
	unitEmbed = "embedding"
	unitTail  = "tail"
)

// unit is the unit that a parameter belongs to.
func (s Step) unit(path string) string {
	for _, list := range []string{".layers.", ".h."} {
		_, after, is := strings.Cut(path, list)
		number, _, _ := strings.Cut(after, ".")
		if _, err := strconv.Atoi(number); is && err == nil && s.FSDP.Layers {
			return list + number
		}
	}
	if !s.FSDP.Carved {
		return unitRoot
	}
	names := strings.Split(path, ".")
	if len(names) < 2 {
		return unitRoot
	}
	switch names[len(names)-2] {
	case "embed_tokens", "wte":
		if s.Model.Tied {
			return unitTail
		}
		return unitEmbed
	case head:
		return unitTail
	case "norm", "ln_f", "final_layernorm":
		// peft's model passes on the base_model_prefix of the model below, whose children are no norms
		// (_find_final_norm in fsdp_utils.py:733)
		if s.LoRA == nil {
			return unitTail
		}
	}
	return unitRoot
}

// units are the bytes of the root, the embedding and the tail, of the largest layer and of all together.
type units struct{ root, embed, tail, layer, all int64 }

// units is what these weights take while they are gathered: in the type of the computation. Adapters that are units of
// their own are gathered while their layer is.
func (s Step) units(weights []nn.Weight) (u units) {
	each := map[string]int64{}
	for _, w := range weights {
		each[s.unit(w.Path)] += int64(w.Bytes())
		u.all += int64(w.Bytes())
	}
	for name, n := range each {
		switch name {
		case unitRoot:
			u.root = n
		case unitEmbed:
			u.embed = n
		case unitTail:
			u.tail = n
		default:
			u.layer = max(u.layer, n)
		}
	}
	return u
}

// gathered is at most so much of the parameters beside the root, which stays from forward to backward
// (_post_forward_reshard in _runtime_utils.py:486; FSDPState._lazy_init in _fully_shard/_fsdp_state.py:222). A unit is
// there with the buffer of its own all-gather in version 2, until the next one is copied out (wait_for_unshard in
// _fsdp_param_group.py:505), and with the one after it: two at once with limit_all_gathers of version 1
// (_limiter_utils.py:16).
func (f *FSDP) gathered(u units, processes int64) int64 {
	most := max(2*u.layer, 2*u.embed, 2*u.tail, u.tail+2*u.layer)
	one := max(u.layer, u.embed, u.tail)
	if f.Version == 2 { // the root has a buffer, too
		most, one = max(most, u.root), max(one, u.root)
	}
	if f.Keeps {
		most = u.all - u.root + one
	}
	return most + blocks(one, processes) // a part in the type of the computation
}

// reducing is at most so much of gradients that are whole: those of a unit wait for its last one, are copied into the
// input of its reduce-scatter, and the input of the unit before is still there (post_backward in
// _fsdp_param_group.py:695, reduce_scatter_max_input_buffers). In version 1 they are views of a flat tensor that is
// made of them, and padded (_reduce_grad in _runtime_utils.py:831). The root's wait until the end of backward, as do
// those of a tail that has the embedding.
func (f *FSDP) reducing(u units, tied bool) int64 {
	waits := u.root
	if f.Carved && tied {
		waits += u.tail
	}
	if f.Version == 1 {
		return max(waits+4*u.layer, 3*waits+u.layer)
	}
	return waits + max(3*u.layer, waits+u.layer, 2*u.tail, u.tail+2*u.layer, 2*u.embed+u.layer)
}

// comparedWhole says what of preference optimisation has no formula with FSDP; "" for nothing.
func (s Step) comparedWhole() string {
	f, p := s.FSDP, s.Preference
	copied := s.refers()
	switch {
	case p == nil:
		return ""
	case f.Version == 1:
		return "preference optimisation with FSDP 1 has no formula"
	case p.Precomputed && s.Fused:
		return "precompute_ref_log_probs with FSDP has no formula: before the training the whole reference is there"
	case copied && !s.Fused:
		return "LLaMA-Factory's reference model with FSDP has no formula: adapters have it without a copy"
	case copied && (f.Keeps || f.Offload):
		return "trl's reference model with FSDP has a formula with reshard_after_forward, and on the card alone"
	}
	return ""
}

// referenced is what a process has of trl's reference model, which is one unit (fully_shard in
// trl/models/utils.py:332).
func (s Step) referenced(t *nn.Tape) (part int64) {
	part, _ = s.parts(append(t.Trained(partReference), t.Untrained(partReference)...))
	return part
}

// gatherReference holds what is gathered of trl's reference model while it answers, which has the parameters of the
// model before it: the weights, and the buffer of their all-gather, which is freed after its forward (_post_forward in
// _fully_shard/_fsdp_state.py:341).
func (d *decoder) gatherReference() {
	if d.s.FSDP == nil {
		return
	}
	const piece = 1 << 30 // a tape's tensors have no longer dimension than 2^31
	for left := 2 * d.Size(partModel).Params; left > 0; left -= piece {
		d.Hold(d.Zeros(d.ParamType, min(left, piece)))
	}
}

// loose reports whether trl's fused head finds the last layer's weight in parts: beside adapters it is a unit of its
// own, whose layer is never called, and so the head makes all of it, in the type of its parts (full_tensor in
// trl/trainer/utils.py:1637). Elsewhere the last norm or the embedding has it gathered, or the root.
func (s Step) loose() bool {
	return s.Fused && s.FSDP != nil && s.FSDP.Carved && s.LoRA != nil && !s.Model.Tied
}

// fullySharded is what stays on the card from the first optimizer step on, and what is gathered around a unit. The
// gradients are on the tape: see [Step.scatter].
func (s Step) fullySharded(t *nn.Tape) []mem.Item {
	f, p, size := s.FSDP, s.fullShard(t), t.Size(partModel)
	u := s.units(append(t.Trained(partModel), t.Untrained(partModel)...))
	master := int64(f.Master.Size())
	part := fmt.Sprintf("FSDP%d: one of %d parts, in %v", f.Version, s.World, f.Master)
	items := []mem.Item{{Kind: mem.Parameters, What: partModel, Bytes: unit.Bytes(master * p.part), Count: p.part,
		From: part}}
	if p.frozen > 0 {
		items = append(items, mem.Item{Kind: mem.Parameters, What: "frozen", Count: p.frozen,
			Bytes: unit.Bytes(int64(f.Frozen.Size()) * p.frozen),
			From:  fmt.Sprintf("FSDP%d: one of %d parts, in %v, as it was loaded", f.Version, s.World, f.Frozen)})
	}
	if part := s.referenced(t); part > 0 {
		items = append(items, mem.Item{Kind: mem.Parameters, What: partReference, Count: part,
			Bytes: unit.Bytes(int64(f.Frozen.Size()) * part),
			From: fmt.Sprintf("FSDP%d: one of %d parts, in %v, as it was loaded; all of it, and as much again for the "+
				"buffer, while it answers", f.Version, s.World, f.Frozen)})
	}
	if f.Offload {
		for i := range items {
			items[i].Bytes, items[i].From = 0, fmt.Sprintf("FSDP%d: in host memory (offload_params)", f.Version)
		}
	} else {
		items = append(items, mem.Item{Kind: mem.Optimizer, What: partModel, Bytes: unit.Bytes(2 * master * p.part),
			Count: 2 * p.part, From: part + ": the states of AdamW"})
	}
	if size.Buffers > 0 {
		items = append(items, mem.Item{Kind: mem.Buffers, What: partModel, Bytes: size.BufferBytes, Count: size.Buffers,
			From: s.Model.Type + ", counted from config.json"})
	}
	if u.root > 0 {
		// while the optimizer steps, nothing is gathered
		items = append(items, s.gatheredItem("gathered root", u.root,
			"what is in no other unit, whole from forward to backward"))
	}
	items = append(items, s.gatheredItem("gathered", f.gathered(u, s.World),
		"at most: the unit in use, and the one before or after it"))
	if s.Balanced && s.Model.Experts != nil {
		items = append(items, s.balancing())
	}
	if t.Training {
		items = append(items, mem.Item{Kind: mem.Gradients, What: "of units", Guess: true,
			Bytes: unit.Bytes(f.reducing(s.units(t.Trained(partModel)), s.Model.Tied)),
			From:  "at most: whole gradients of a unit that wait for their reduce-scatter, with its inputs"})
	}
	return items
}

func (s Step) gatheredItem(what string, bytes int64, from string) mem.Item {
	return mem.Item{Kind: mem.Parameters, What: what, Bytes: unit.Bytes(bytes), Count: bytes / int64(s.Weights.Size()),
		Guess: true, From: from}
}

// scatter makes the tape keep a part of each gradient in backward. Without a sync, in all micro-batches but the last,
// gradients stay whole, in the type of the computation (Accelerator.no_sync, accelerator.py:1166; trainer.py:1897;
// post_backward in _fsdp_param_group.py:712).
func (s Step) scatter(t *nn.Tape) {
	t.Reduced = true
	if s.FSDP.Offload {
		return
	}
	t.Scattered = func(w nn.Tensor) unit.Bytes {
		return unit.Bytes(s.share(w)) * unit.Bytes(s.FSDP.Master.Size())
	}
}

// fsdpTemps is what the optimizer needs on the card while it steps. Version 2 has DTensors, which torch's lists do not
// take: it goes from tensor to tensor (_foreach_supported_types in torch/optim/optimizer.py:45).
func (s Step) fsdpTemps(t *nn.Tape) unit.Bytes {
	if s.FSDP.Offload {
		return 0
	}
	o, _ := s.optimizer()
	p, master := s.fullShard(t), int64(s.FSDP.Master.Size())
	if s.FSDP.Version == 2 {
		return unit.Bytes(o.singles * master * p.largest)
	}
	return unit.Bytes(o.lists * master * p.part)
}

// HostShards is what FSDP has of one process in host memory: its part of the parameters, and gradients and the states
// of AdamW for it.
func HostShards(s Step) (params, rest unit.Bytes) {
	if s.FSDP == nil || !s.FSDP.Offload || s.unknown() != "" {
		return 0, 0
	}
	p := s.fullShard(s.training())
	part := unit.Bytes(p.part) * unit.Bytes(s.FSDP.Master.Size())
	return part + unit.Bytes(p.frozen)*unit.Bytes(s.FSDP.Frozen.Size()), 3 * part
}
