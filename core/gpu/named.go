package gpu

import (
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// named is the memory of NVIDIA's cards in GiB, by their names without "NVIDIA", "GeForce" and "Tesla": the sizes of
// NVIDIA's product pages, read as GiB. The driver keeps some of it: out-of-memory messages report 15.89 GiB of a P100
// and 11.63 GiB of an RTX 3060. A card that is sold with several sizes needs one in its name.
var named = map[string]unit.Bytes{
	"gtx 1080": 8, "gtx 1080 ti": 11, "titan xp": 12, "rtx 2060": 6, "rtx 2070": 8, "rtx 2080": 8, "rtx 2080 ti": 11,
	"titan rtx": 24, "rtx 3050": 8, "rtx 3060": 12, "rtx 3060 ti": 8, "rtx 3070": 8, "rtx 3070 ti": 8, "rtx 3080": 10,
	"rtx 3080 ti": 12, "rtx 3090": 24, "rtx 3090 ti": 24, "rtx 4060": 8, "rtx 4070": 12, "rtx 4070 ti": 12,
	"rtx 4080": 16, "rtx 4090": 24, "rtx 5070": 12, "rtx 5070 ti": 16, "rtx 5080": 16, "rtx 5090": 32,
	"rtx a4000": 16, "rtx a5000": 24, "rtx a6000": 48, "p100": 16, "v100-16gb": 16, "v100-32gb": 32, "t4": 16,
	"a10": 24, "a10g": 24, "a30": 24, "a40": 48, "a100-40gb": 40, "a100-80gb": 80, "l4": 24, "l40": 48, "l40s": 48,
	"h100": 80, "h200": 141, "b200": 180,
}

// Named returns the memory of a card by its name, "RTX 3060" or "nvidia geforce rtx 3060".
func Named(name string) (unit.Bytes, bool) {
	words := strings.Fields(strings.ToLower(name))
	for len(words) > 0 && (words[0] == "nvidia" || words[0] == "geforce" || words[0] == "tesla") {
		words = words[1:]
	}
	n, ok := named[strings.Join(words, " ")]
	if !ok { // "A100 80GB"
		n, ok = named[strings.Join(words, "-")]
	}
	return n * unit.GiB, ok
}
