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
	// Other are the options beside these that change what is reserved and that no replay here follows ("backend:cudaMallocAsync"), and
	// what is no option, at which the program stops when it first asks for memory.
	Other string
}

// CachingOf reads PYTORCH_CUDA_ALLOC_CONF: options with a value, parted by commas, of which the last of a name counts
// (CUDAAllocatorConfig.cpp). torch is the version that reads it, 201 for 2.1, which is the first that knows expandable segments; 0 is
// one that is not known.
func CachingOf(conf string, torch int) (c Caching) {
	var other []string
	for option := range strings.SplitSeq(options(conf), ",") {
		name, value, _ := strings.Cut(option, ":")
		mb, err := strconv.ParseInt(value, 10, 32)
		switch bound := unit.Bytes(mb) * unit.MiB; {
		case option == "" || slices.Contains(indifferent, name):
		case name == "expandable_segments" && (value == "True" || value == "False") && (torch == 0 || torch >= 201):
			c.Expandable = value == "True"
		case name == "max_split_size_mb" && err == nil && bound > largeSegment:
			c.MaxSplit = bound
		case option != "backend:native" && !slices.Contains(other, option):
			other = append(other, option)
		}
	}
	c.Other = strings.Join(other, ",")
	return c
}

// indifferent are options that change nothing of what is reserved on a card.
var indifferent = []string{"pinned_use_cuda_host_register", "pinned_num_register_threads", "pinned_use_background_threads", "release_lock_on_cudamalloc"}

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
