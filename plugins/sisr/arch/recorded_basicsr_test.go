package arch

import (
	"slices"
	"testing"
)

// TestBasicSRNetworks compares the networks of BasicSR, and of the projects built on it, with PyTorch's own account of each
// project's class.
func TestBasicSRNetworks(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "basicsr_net_*.json") {
		for _, r := range rec.Rows {
			n, _, err := Build(Spec{Project: rec.Project, Type: r.Name, Scale: r.scale(), Frames: r.Shape[1] / 3, Args: r.Args})
			if err != nil {
				t.Errorf("%v: %v", rec.Project, err)
				continue
			}
			compare(t, r, n.Forward, n.Checkpointing, 0.02, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// scale is the recipe's, by the network's own argument; 4 is what the classes default to, and 1 is of those that restore.
func (r row) scale() int64 {
	for _, name := range []string{"scale", "upscale"} {
		if n, ok := toInt(r.Args[name]); ok {
			return n
		}
	}
	if slices.Contains([]string{"nafnet", "nafnetlocal", "baseline", "baselinelocal", "restormer"}, r.Name) {
		return 1
	}
	return 4
}

// TestBasicSRDiscriminators does the same for their discriminators.
func TestBasicSRDiscriminators(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "basicsr_disc*.json") {
		for _, r := range rec.Rows {
			d, _, err := BuildDiscriminator(Spec{Project: rec.Project, Type: r.Name, Args: r.Args})
			if err != nil {
				t.Errorf("%v: %v", rec.Project, err)
				continue
			}
			compare(t, r, d.forward, false, 0.002, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// TestBasicSRLosses does the same for their losses, of an image that requires a gradient.
func TestBasicSRLosses(t *testing.T) {
	saved, peak := deviation{what: "saved"}, deviation{what: "peak of a step"}
	for _, rec := range recordings(t, "basicsr_loss*.json") {
		for _, r := range rec.Rows {
			compareLoss(t, r, Loss{Project: rec.Project, Type: r.Name, Args: r.Args}, &saved, &peak)
		}
	}
	saved.log(t)
	peak.log(t)
}
