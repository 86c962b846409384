package gpu

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// named is the memory of NVIDIA's cards in GiB, by their names without "NVIDIA", "GeForce" and "Tesla": the sizes
// that NVIDIA publishes, read as GiB, and not looked up one by one. The driver keeps some of it: out-of-memory
// messages report 15.89 GiB of a P100 and 11.63 GiB of an RTX 3060. A card that is sold with several sizes needs one
// in its name.
var named = map[string]unit.Bytes{
	"gtx 1080": 8, "gtx 1080 ti": 11, "titan xp": 12, "rtx 2060": 6, "rtx 2070": 8, "rtx 2080": 8, "rtx 2080 ti": 11,
	"titan rtx": 24, "rtx 3050": 8, "rtx 3060": 12, "rtx 3060 ti": 8, "rtx 3070": 8, "rtx 3070 ti": 8, "rtx 3080": 10,
	"rtx 3080 ti": 12, "rtx 3090 ti": 24, "rtx 4060": 8, "rtx 4070": 12, "rtx 4070 ti": 12,
	"rtx 4080": 16, "rtx 4090": 24, "rtx 5070": 12, "rtx 5070 ti": 16, "rtx 5080": 16, "rtx a4000": 16,
	"rtx a5000": 24, "p100": 16, "v100-16gb": 16, "v100-32gb": 32, "a30": 24, "a100-40gb": 40, "a100-80gb": 80,
}

// printed is the memory in MiB that nvidia-smi prints of cards that show clearly less than their product page, most of
// them because their ECC is on; from listings in public logs, all with the same figure.
var printed = map[string]unit.Bytes{
	"t4": 15360, "a10": 23028, "a10g": 23028, "l4": 23034, "a40": 46068, "l40s": 46068, "rtx a6000": 49140,
	"h100": 81559, "h200": 143771, "b200": 183359, "rtx 5090": 32607,
	"rtx 3090": 24258, // what CUDA gives out, as a live card's figure is: 23.69 GiB in messages (karpathy/nanoGPT#93)
}

// Named returns the memory of a card by its name, "RTX 3060", "rtx3060" or "nvidia geforce rtx 3060".
func Named(name string) (unit.Bytes, bool) {
	name = bareName(name)
	for n, size := range printed {
		if bareName(n) == name {
			return size * unit.MiB, true
		}
	}
	for n, size := range named {
		if bareName(n) == name {
			return size * unit.GiB, true
		}
	}
	return 0, false
}

// bareName is the name of a card without its maker, its series and what stands between its parts.
func bareName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for len(words) > 0 && (words[0] == "nvidia" || words[0] == "geforce" || words[0] == "tesla") {
		words = words[1:]
	}
	return strings.Join(words, "")
}

// Names are the names by which [Named] knows cards, as they are typed, without those that it takes for the same.
func Names() (all []string) {
	for n := range printed {
		all = append(all, strings.ToUpper(n))
	}
	for n := range named {
		all = append(all, strings.ToUpper(n))
	}
	for i, n := range all {
		all[i] = strings.ReplaceAll(n, " TI", " Ti")
	}
	slices.Sort(all)
	return all
}
