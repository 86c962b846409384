package gpu

import "strings"

// generations are the compute capabilities of NVIDIA's cards, by how their names begin. The first that fits counts, so
// Ada's come before the RTX 20 and the RTX 50. Source: developer.nvidia.com/cuda-gpus, and /cuda-legacy-gpus for those
// before 7.5, read on 2026-11-30. A name of none of them has none that is known here.
var generations = []struct {
	capability string
	names      []string
}{
	{"8.9", []string{"RTX 2000 Ada", "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 5880 Ada", "RTX 6000 Ada"}},
	{"12.1", []string{"GB10"}},
	{"12.0", []string{"RTX 50", "RTX PRO "}},
	{"10.3", []string{"B300"}},
	{"10.0", []string{"B200"}},
	{"9.0", []string{"H100", "H200", "H20"}},
	{"8.9", []string{"RTX 40", "L4", "L40"}},
	{"8.0", []string{"A100", "A800", "A30"}},
	{"8.6", []string{"RTX 30", "RTX A", "A10", "A40"}},
	{"7.5", []string{"GTX 16", "RTX 20", "TITAN RTX", "Quadro RTX", "T4"}},
	{"7.0", []string{"V100", "TITAN V"}},
	{"6.1", []string{"GTX 10", "TITAN X", "P40"}},
	{"6.0", []string{"P100"}},
	{"3.7", []string{"K80"}},
}

// Capability is the card's CUDA compute capability; "" where it is not known, or where the card is not NVIDIA's.
func (c Card) Capability() string {
	for _, g := range generations {
		for _, name := range g.names {
			if c.Kind() == CUDA && strings.HasPrefix(c.Name, name) {
				return g.capability
			}
		}
	}
	return ""
}
