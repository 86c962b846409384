package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// Shards is how DeepSpeed's ZeRO divides the states of a training among [Step.World] processes. Sizes are numbers of
// elements. Lines are of DeepSpeed 0.19.6 (deepspeedai/DeepSpeed at edaa7221, 2026-08-22), deepspeed/runtime/zero/….
//
// DeepSpeed makes the whole model half (_configure_distributed_model in runtime/engine.py:1749), so [Step.Weights] is
// that type, without autocast. Gradients are summed in it, too (get_data_types, engine.py:1485).
type Shards struct {
	Stage int64 // 1, 2 or 3
	// Reduce is reduce_bucket_size; Overlap is overlap_comm.
	Reduce  int64
	Overlap bool
	// Of stage 3: what is gathered ahead, up to what size a parameter is never divided, within what distance of its next
	// use it stays gathered, and how much the optimizer updates at once.
	Prefetch, Persistence, Reuse, SubGroup int64
	// HostOptimizer is offload_optimizer, and HostParams offload_param, to the CPU.
	HostOptimizer, HostParams bool
}

// Figures of AdamW in float32: a parameter of the optimizer's own, and its two moments.
const (
	masterBytes = 4
	momentBytes = 8
	normBytes   = 8 // a copy in float64 for a norm (get_grad_norm_direct in stage_1_and_2.py:2054, stage3.py:2249)
)

// ofShards says what of divided states has no formula; "" for nothing.
func (s Step) ofShards() string {
	z := s.Shards
	if z == nil {
		return ""
	}
	o, _ := s.optimizer()
	switch {
	case s.CPU:
		return "DeepSpeed on a CPU has no formula"
	case z.Stage < 1 || z.Stage > 3:
		return fmt.Sprintf("DeepSpeed's ZeRO stage %d has no formula", z.Stage)
	case s.Weights == nn.F32 || s.Autocast != nn.F32:
		return "DeepSpeed without bf16 or fp16 has no formula"
	case o.states != 2 || o.bits != 0:
		return fmt.Sprintf("the optimizer %q with DeepSpeed has no formula", s.Optimizer)
	case s.Quant != nil && z.Stage == 3:
		return "quantised weights with ZeRO 3 have no formula"
	case s.refers() && z.Stage == 3:
		return "a reference model with ZeRO 3 has no formula"
	case z.Stage == 3 && s.Liger.Head:
		return "Liger's fused head with ZeRO 3 has no formula"
	}
	return ""
}

// A portion is what one process has of the model, in elements.
type portion struct {
	trained, all int64 // of what is divided
	persisted    int64
	whole        int64 // of all parameters that are trained
	params       int64 // of all
	// largest is the largest tensor that is trained, and widest of all.
	largest, widest int64
	width           int64 // bytes of an element
}

// portion divides the model. Stages 1 and 2 cut one flat tensor (stage_1_and_2.py:392), and stage 3 each parameter
// (_partition_numel in partition_parameters.py), those that adapters leave alone, too.
func (s Step) portion(t *nn.Tape) (p portion) {
	n := max(1, s.World)
	size := t.Size(partModel)
	p.whole, p.width = size.Trainable, int64(s.Weights.Size())
	trained := t.Trained(partModel)
	for i, w := range append(trained, t.Untrained(partModel)...) {
		p.params += w.Numel()
		p.all += blocks(w.Numel(), n)
		p.widest = max(p.widest, w.Numel())
		if i < len(trained) {
			p.trained += blocks(w.Numel(), n)
			p.largest = p.widest
		}
		if s.Shards.Stage == 3 && w.Numel() <= s.Shards.Persistence { // parameter_offload.py:311
			p.persisted += w.Numel()
		}
	}
	if s.Shards.Stage < 3 {
		p.trained = 2 * blocks(size.Trainable, 2*n) // the start of each part is aligned to 4 bytes
	}
	return p
}

func (p portion) of(elements int64) unit.Bytes { return unit.Bytes(p.width * elements) }

// sharded is what stays on the card from the first optimizer step on, and while a training goes backward the buffers of
// DeepSpeed. Of those some are bounds, which refuse nothing.
func (s Step) sharded(t *nn.Tape) []mem.Item {
	z, p, size := s.Shards, s.portion(t), t.Size(partModel)
	items := []mem.Item{{Kind: mem.Parameters, What: partModel, Bytes: size.ParamBytes, Count: size.Params,
		From: "whole in each process: ZeRO divides parameters from stage 3 on"}}
	if z.Stage == 3 {
		items[0].Bytes, items[0].Count = p.of(p.all), p.all
		items[0].From = "ZeRO 3: " + s.part()
		if z.HostParams {
			items[0].Bytes, items[0].From = 0, "ZeRO 3: in host memory (offload_param)"
		}
	}
	items = append(items, s.buffers(size, s.Model.Type+", counted from config.json")...)
	items = append(items, reference(t)...) // whole: prepare_deepspeed gives it stage 0 (trl/models/utils.py)
	if s.Balanced && s.Model.Experts != nil {
		items = append(items, s.balancing())
	}
	if !z.HostOptimizer {
		items = append(items, mem.Item{Kind: mem.Optimizer, What: partModel, Count: 3 * p.trained,
			Bytes: unit.Bytes((masterBytes + momentBytes) * p.trained),
			From:  s.part() + ": a copy of the parameters in float32, and the states of AdamW"})
	}
	if z.Stage == 3 {
		return append(items, s.gatheredItems(p, t.Training)...)
	}
	if t.Training {
		items = append(items, s.reducing(p)...)
	}
	return items
}

// part is what each process has, in words.
func (s Step) part() string {
	if s.World > 1 {
		return fmt.Sprintf("one of %d parts", s.World)
	}
	return "all of it in the one process"
}

// reducing are the buffers of stages 1 and 2 in backward: the bucket, which is twice there with overlap_comm
// (setup_buckets in stage_1_and_2.py:2493), its flat copy (allreduce_bucket, line 1833), and the gradients of the
// process's own part with whole parameters at its edges (copy_grads_in_partition, line 1650), a second time while
// micro-batches are added up (line 941).
func (s Step) reducing(p portion) []mem.Item {
	z := s.Shards
	buckets := int64(1)
	if z.Overlap {
		buckets = 2
	}
	flat := max(min(z.Reduce, p.whole), p.largest)
	items := []mem.Item{
		{Kind: mem.Buffers, What: "reduce buckets", Bytes: p.of(buckets * z.Reduce), Count: buckets * z.Reduce, Guess: true,
			From: "reduce_bucket_size, twice with overlap_comm: in backward only"},
		{Kind: mem.Buffers, What: "flat copy of a bucket", Bytes: p.of(flat), Count: flat, Guess: true,
			From: "at most, while a bucket or a larger gradient is summed"},
	}
	if z.HostOptimizer { // temp_grad_buffer_for_gpu_offload (line 591), and a norm in float64 (line 1575)
		return append(items, mem.Item{Kind: mem.Buffers, What: "gradient on its way to host memory", Guess: true,
			Bytes: p.of(p.largest) + normBytes*unit.Bytes(p.largest), Count: 2 * p.largest,
			From: "of the largest parameter, and its norm in float64"})
	}
	own := min(p.whole, p.trained+2*p.largest)
	if s.Accumulate > 1 {
		own *= 2
	}
	return append(items, mem.Item{Kind: mem.Gradients, What: "own part", Bytes: p.of(own), Count: own, Guess: true,
		From: "at most: with whole parameters at the edges, twice while micro-batches are added up"})
}

// gatheredItems are those of stage 3: the gradients of the process's own part and the bucket, which stay
// (_setup_for_real_optimizer in stage3.py:733); small parameters, which are never divided; and what is gathered around
// a layer. A parameter stays until its next use is further away than max_reuse_distance
// (__params_to_release in partitioned_param_coordinator.py:634): at the turn from forward to backward that is half of
// it, beside the layer itself, and what is fetched ahead with its flat copy (AllGatherCoalescedHandle).
func (s Step) gatheredItems(p portion, training bool) (items []mem.Item) {
	z := s.Shards
	if !z.HostOptimizer {
		items = append(items, mem.Item{Kind: mem.Gradients, What: "own part", Bytes: p.of(p.trained), Count: p.trained,
			From: "ZeRO 3's flat buffer, which stays between steps"})
	}
	items = append(items, mem.Item{Kind: mem.Buffers, What: "reduce bucket", Bytes: p.of(z.Reduce), Count: z.Reduce,
		From: "reduce_bucket_size"})
	if s.World > 1 || z.HostParams { // a process alone has them where they are (_no_gather_coalesced)
		rest := p.params - p.persisted
		ahead := min(rest, z.Prefetch+p.widest)
		live := min(rest, z.Reuse/2+2*p.widest+z.Prefetch)
		if s.Fused { // gathers the last layer by itself, both ways (maybe_gather_lm_head_ctx in trl/trainer/utils.py)
			live = min(rest, live+s.Model.Vocab*s.Model.Hidden)
		}
		items = append(items,
			mem.Item{Kind: mem.Parameters, What: "undivided", Bytes: p.of(p.persisted), Count: p.persisted,
				From: "parameters up to stage3_param_persistence_threshold, whole in each process"},
			mem.Item{Kind: mem.Parameters, What: "gathered", Bytes: p.of(live + ahead), Count: live + ahead, Guess: true,
				From: "at most: half of stage3_max_reuse_distance, a layer, and what is fetched ahead with its flat copy"})
	}
	if !training {
		return items
	}
	copies := int64(1) // reduce_scatter_coalesced in comm/coalesced_collectives.py:158
	if z.Overlap {     // max_param_reduce_events (stage3.py:449): so many more on another stream, each with its gradients
		copies += 4
	}
	again := copies * min(p.whole, max(z.Reduce, p.largest))
	items = append(items, mem.Item{Kind: mem.Buffers, What: "flat copy of a bucket", Bytes: p.of(again), Count: again,
		Guess: true, From: "at most, while gradients are summed; five times with overlap_comm"})
	return items
}

// shardTemps is what the optimizer needs on the card while it steps: the gradients of a part as one flat tensor, then
// in float32 (step in stage_1_and_2.py:2350, _prepare_fp32_grad_for_sub_group in stage3.py:2398), torch's lists after
// them, or a norm in float64 before.
func (s Step) shardTemps(t *nn.Tape) unit.Bytes {
	z, p := s.Shards, s.portion(t)
	if z.HostOptimizer {
		return 0
	}
	o, _ := s.optimizer()
	group, one := p.trained, p.largest
	if z.Stage == 3 {
		one = blocks(p.largest, max(1, s.World))
		group = s.subGroup(t)
	}
	flat := p.of(group) + masterBytes*unit.Bytes(group)
	lists := masterBytes * unit.Bytes((1+o.lists)*group)
	return max(flat, lists, normBytes*unit.Bytes(one))
}

// subGroup is the most of a part that stage 3 updates at once (_create_fp16_sub_groups in stage3.py:1158): the Trainer
// has a group of parameters with weight decay, and one without.
func (s Step) subGroup(t *nn.Tape) (most int64) {
	for _, matrices := range []bool{true, false} {
		now := int64(0)
		for _, w := range t.Trained(partModel) {
			if (w.Dims() >= 2) != matrices {
				continue
			}
			now += blocks(w.Numel(), max(1, s.World))
			most = max(most, now)
			if now >= s.Shards.SubGroup {
				now = 0
			}
		}
	}
	return most
}

// Offloaded is what DeepSpeed has of one process in host memory: the copy of the parameters in float32, AdamW's states
// and the gradients in float32, beside halves of the parameters (stage_1_and_2.py:499, in stages 1 and 2) or of the
// gradients (stage3.py:742), which the other stages have while micro-batches are added up (line 1516 of the former).
func Offloaded(s Step) (optimizer, params unit.Bytes) {
	if s.Shards == nil || s.unknown() != "" {
		return 0, 0
	}
	t := s.training()
	p := s.portion(t)
	if s.Shards.HostOptimizer {
		optimizer = unit.Bytes((masterBytes+momentBytes+4)*p.trained) + p.of(p.trained)
		if s.Shards.Stage < 3 {
			optimizer += p.of(p.largest) // temp_grad_buffer_for_cpu_offload
			if s.Accumulate > 1 {
				optimizer += p.of(p.trained)
			}
		}
	}
	if s.Shards.HostParams {
		params = p.of(p.all)
	}
	return optimizer, params
}
