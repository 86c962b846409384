package sisr

import (
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// A ledger calls a loss what the recipe calls it.
func TestLedgerNames(t *testing.T) {
	for _, tt := range []struct {
		l    part
		want string
	}{
		{part{kind: "perceptualloss", at: "train.losses.2"}, "losses.perceptualloss"},
		{part{kind: "PerceptualLoss", at: "train.perceptual_opt"}, "perceptual_opt"},
	} {
		if got := ledgerName(tt.l); got != tt.want {
			t.Errorf("%+v is called %q, want %q", tt.l, got, tt.want)
		}
	}
	net, _, err := arch.Build(arch.Spec{Type: "compact", Scale: 2})
	if err != nil {
		t.Fatal(err)
	}
	e := arch.Training(arch.StepConfig{Net: net, Batch: 2, LQ: 64, AMP: nn.F16, EMA: true, DDP: true,
		Losses: []arch.Loss{{Type: "charbonnierloss", Name: "pixel_opt", Weight: 1}, {Type: "perceptualloss", Name: "perceptual_opt", Weight: 1}}})
	if !e.Known() {
		t.Fatal(e.Unknown)
	}
	var parts []string
	for _, it := range e.Items {
		if err := it.Check(); err != nil {
			t.Error(err)
		}
		parts = append(parts, it.What)
		if it.What == "DDP buckets" && it.Count != 600652 {
			t.Errorf("the buckets have %d numbers, the network has 600652", it.Count)
		}
	}
	for _, want := range []string{"network_g", "network_g EMA", "DDP buckets", "perceptual_opt", "batch"} {
		if !slices.Contains(parts, want) {
			t.Errorf("no line of %s in %q", want, parts)
		}
	}
}
