package mem

import (
	"strings"
	"testing"
)

func TestItemCheck(t *testing.T) {
	for _, tt := range []struct {
		it   Item
		says string // "" for a good line
	}{
		{Item{Kind: Parameters, What: "network_g", Bytes: 8, Count: 2}, ""},
		{Item{Kind: Saved, What: "network_g", Bytes: 8}, ""},
		{Item{Kind: Correction, What: "measured", Bytes: -8}, ""},
		{Item{Kind: "weights", What: "network_g", Bytes: 8}, "no kind of memory"},
		{Item{Kind: Saved, Bytes: 8}, "belong to no part"},
		{Item{Kind: Saved, What: "network_g", Bytes: -8}, "-8 bytes"},
		{Item{Kind: Parameters, What: "network_g", Bytes: 8}, "no count"},
		{Item{Kind: Buffers, What: "queue", Bytes: 8}, "no count"},
	} {
		err := tt.it.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.it, err, tt.says)
		}
	}
}
