package arch

import (
	"strings"
	"testing"
)

// Upsample enlarges by three and by powers of two; at other scales these networks cannot be built, and no price says that they can.
func TestScales(t *testing.T) {
	for _, name := range []string{"swinir_m", "hat_s", "rcan", "dat", "drct", "rgt_s"} {
		for scale, ok := range map[int64]bool{1: true, 2: true, 3: true, 4: true, 5: false, 6: false, 8: true} {
			if _, _, err := Build(Spec{Type: name, Scale: scale}); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "scale") {
				t.Errorf("%s at scale %d: %v", name, scale, err)
			}
		}
	}
	if _, _, err := Build(Spec{Type: "swinir_s", Scale: 5}); err != nil { // pixelshuffledirect shuffles by anything
		t.Errorf("swinir_s at scale 5: %v", err)
	}
}
