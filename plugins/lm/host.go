package lm

import (
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// host is what the job as asked has in host memory instead of on the card. What data sets and loaders need is not
// known, so it is a lower bound, and it is nil where nothing is moved.
func (b *builder) host() *ladder.HostLadder {
	if b.t.unknown != "" || b.device.Kind == gpu.CPU {
		return nil
	}
	s := b.at(b.ways[0])
	s.Accumulate = b.t.split.Accumulation
	var moved []mem.Item
	if paged := arch.Paged(s); paged > 0 {
		moved = append(moved, mem.Item{Kind: mem.Optimizer, What: "paged states", Bytes: paged,
			From: b.t.step.Optimizer + " in unified memory: at most so much is here, where the card has no room for any of it"})
	}
	optimizer, params := arch.Offloaded(s)
	if optimizer > 0 {
		moved = append(moved, mem.Item{Kind: mem.Optimizer, What: "offloaded states", Bytes: optimizer,
			From: "offload_optimizer: parameters, states and gradients in float32, and halves; pinned, up to twice this"})
	}
	if params > 0 {
		moved = append(moved, mem.Item{Kind: mem.Parameters, What: "offloaded parameters", Bytes: params,
			From: "offload_param: a part for each process"})
	}
	if params, rest := arch.HostShards(s); params > 0 {
		const pinned = "offload_params: a part for each process; pinned, up to twice this"
		moved = append(moved, mem.Item{Kind: mem.Parameters, What: "offloaded parameters", Bytes: params, From: pinned},
			mem.Item{Kind: mem.Optimizer, What: "offloaded gradients and states", Bytes: rest, From: pinned})
	}
	if len(moved) == 0 {
		return nil
	}
	ranks := max(1, b.t.ranks)
	lines := []mem.HostLine{mem.HostProcesses(ranks, mem.RuntimeOf(b.s.env.TorchCUDA()))}
	for _, it := range moved {
		it.Bytes, it.Guess = it.Bytes*unit.Bytes(ranks), true
		lines = append(lines, mem.HostLine{When: mem.Training, Item: it})
	}
	return &ladder.HostLadder{Rungs: []ladder.HostRung{{Name: "as asked", Lines: lines}},
		Unknown: "what the data set and its loaders need is not known"}
}
