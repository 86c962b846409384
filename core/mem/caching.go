package mem

import (
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// Caching is what PyTorch's caching allocator was told. Rungs turn Expandable; the rest is the user's.
type Caching struct {
	// Expandable is expandable_segments:True: one growing segment a pool, in pages.
	Expandable bool
	// MaxSplit is max_split_size_mb: a larger block is not split, and serves no request that is much smaller. 0 is no bound.
	MaxSplit unit.Bytes
	// Other are the options beside these that change what is reserved, and that no replay here follows: "backend:cudaMallocAsync".
	Other string
}

// CachingOf reads PYTORCH_CUDA_ALLOC_CONF: options with a value, parted by commas, of which the last of a name counts
// (CUDAAllocatorConfig.cpp). An option that is none, or has no such value, stops the program when it first asks for memory: here
// it says nothing.
func CachingOf(conf string) (c Caching) {
	var other []string
	for option := range strings.SplitSeq(options(conf), ",") {
		name, value, _ := strings.Cut(option, ":")
		switch name {
		case "expandable_segments":
			c.Expandable = value == "True"
		case "max_split_size_mb":
			if mb, err := strconv.ParseInt(value, 10, 32); err == nil && unit.Bytes(mb)*unit.MiB > largeSegment { // less is an error
				c.MaxSplit = unit.Bytes(mb) * unit.MiB
			}
		case "garbage_collection_threshold", "roundup_power2_divisions", "roundup_bypass_threshold_mb", "max_non_split_rounding_mb":
			other = append(other, option)
		case "backend":
			if value != "native" {
				other = append(other, option)
			}
		}
	}
	c.Other = strings.Join(slices.Compact(other), ",")
	return c
}

// With is the same with expandable segments, or as it was.
func (c Caching) With(expandable bool) Caching {
	c.Expandable = c.Expandable || expandable
	return c
}

// options is a text of options without spaces, and without the commas within brackets.
func options(conf string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ' ', '\t':
			return -1
		case ',':
			if depth > 0 {
				return ';'
			}
		}
		return r
	}, conf)
}
