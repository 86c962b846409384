package arch

import (
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// Under DataParallel the first card holds every card's crops and outputs and all of the loss, and its own share of the rest.
func TestReplicas(t *testing.T) {
	cfg := StepConfig{Net: build(t, Spec{Type: "compact", Scale: 2}), Batch: 2, LQ: 64, AMP: nn.F32,
		Losses: append(charbonnier(), Loss{Type: "perceptualloss", Weight: 1})}
	alone := Training(cfg)
	cfg.Replicas = 1
	if one := Training(cfg); one.Total() != alone.Total() {
		t.Errorf("one card is none: %v and %v", one.Total(), alone.Total())
	}
	cfg.Replicas = 4
	four := Training(cfg)
	of := func(e mem.Tensors, what string, kind mem.Kind) (n unit.Bytes) {
		for _, it := range e.Items {
			if it.What == what && it.Kind == kind {
				n += it.Bytes
			}
		}
		return n
	}
	inputs := unit.Bytes(2 * 3 * (64*64 + 128*128) * 4)
	if a, b := of(alone, "batch", mem.Inputs), of(four, "batch", mem.Inputs); a != inputs || b != 4*inputs {
		t.Errorf("crops: %v, then %v; want %v and four times that", a, b, inputs)
	}
	const vgg = "losses.perceptual"
	if a, b := of(alone, vgg, mem.Saved), of(four, vgg, mem.Saved); a == 0 || b < 39*a/10 || b > 41*a/10 {
		t.Errorf("saved by the loss: %v, then %v", a, b)
	}
	for _, kind := range []mem.Kind{mem.Parameters, mem.Optimizer} {
		if a, b := of(alone, "network_g", kind), of(four, "network_g", kind); a == 0 || a != b {
			t.Errorf("%s: %v, then %v", kind, a, b)
		}
	}
	// The network's own part does not grow with the cards, but for the output that is put together.
	if a, b := of(alone, "network_g", mem.Saved), of(four, "network_g", mem.Saved); b > a+4*2*3*128*128*4 {
		t.Errorf("saved by the network: %v, then %v", a, b)
	}
}
