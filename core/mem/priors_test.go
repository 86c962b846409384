package mem

import (
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// What was measured on a card of the same name, the newest, is its line; another card keeps its own.
func TestPriors(t *testing.T) {
	all := []Prior{
		{Card: "A card", Capability: "8.9", Date: "2026-12-02", Driver: "580.1", Torch: "2.11.0", Rows: 30,
			Context: 410 * unit.MiB, ContextLeast: 400 * unit.MiB, BLAS: 8 * unit.MiB},
		{Card: "A card", Capability: "8.9", Date: "2026-12-01", Context: 300 * unit.MiB},
		{Card: "Another", Capability: "9.0", Date: "2026-12-03", Context: 700 * unit.MiB},
	}
	it, ok := measuredContext(all, "A card")
	const from = "measured in 30 processes, 400 MiB to 410 MiB, on A card, driver 580.1, torch 2.11.0, 2026-12-02"
	if !ok || it.Bytes != 410*unit.MiB || it.Kind != Context || !it.Guess || it.From != from {
		t.Errorf("%v, %+v", ok, it)
	}
	if it, ok := measuredContext(all, "A third"); ok {
		t.Errorf("a card that was not measured has %+v", it)
	}
	if it, ok := measuredBLAS(all, "8.9"); !ok || it.Bytes != 8*unit.MiB {
		t.Errorf("cuBLAS: %v, %+v", ok, it)
	}
	if it, ok := measuredBLAS(all, "9.0"); ok {
		t.Errorf("a workspace that was not seen has %+v", it)
	}
	for _, p := range priors() {
		if p.Card == "" || p.Driver == "" || p.Torch == "" || p.Date == "" || p.Context <= 0 || p.Rows <= 0 {
			t.Errorf("priors.json has %+v", p)
		}
	}
}
