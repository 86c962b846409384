package mem

import (
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

func TestCachingOf(t *testing.T) {
	for conf, want := range map[string]Caching{
		"":                         {},
		"expandable_segments:True": {Expandable: true},
		" expandable_segments : True , max_split_size_mb:128":                         {Expandable: true, MaxSplit: 128 * unit.MiB},
		"expandable_segments:True,expandable_segments:False":                          {},
		"expandable_segments:true":                                                    {Other: "expandable_segments:true"}, // an error to PyTorch
		"max_split_size_mb:20":                                                        {Other: "max_split_size_mb:20"},     // likewise
		"max_split_size_mb:many,garbage":                                              {Other: "max_split_size_mb:many,garbage"},
		",PYTORCH_NO_CUDA_MEMORY_CACHING":                                             {Other: "PYTORCH_NO_CUDA_MEMORY_CACHING"},
		"backend:native":                                                              {},
		"backend:cudaMallocAsync,max_split_size_mb:64":                                {MaxSplit: 64 * unit.MiB, Other: "backend:cudaMallocAsync"},
		"roundup_power2_divisions:[256:1,512:2,>:8],garbage_collection_threshold:0.8": {Other: "roundup_power2_divisions:[256:1;512:2;>:8],garbage_collection_threshold:0.8"},
		"pinned_use_background_threads:True":                                          {},
	} {
		if got := CachingOf(conf, 0); got != want {
			t.Errorf("%q is %+v, want %+v", conf, got, want)
		}
	}
	for torch, want := range map[int]Caching{113: {Other: "expandable_segments:True"}, 201: {Expandable: true}} {
		if got := CachingOf("expandable_segments:True", torch); got != want {
			t.Errorf("torch %d reads %+v, want %+v", torch, got, want)
		}
	}
	asked := Caching{MaxSplit: unit.GiB}
	if got := asked.With(true); got != (Caching{Expandable: true, MaxSplit: unit.GiB}) || asked.With(false) != asked || got.With(false) != got {
		t.Errorf("with expandable segments: %+v", got)
	}
}

// Blocks above the bound are neither split nor given to what is smaller, and go back to the driver before all else does.
func TestMaxSplit(t *testing.T) {
	const MiB = unit.MiB
	type step struct {
		ask  unit.Bytes
		free int
	}
	ask := func(n unit.Bytes) step { return step{ask: n} }
	free := func(i int) step { return step{free: i} }
	for name, c := range map[string]struct {
		steps         []step
		limit         unit.Bytes
		reserved, now unit.Bytes // at its fullest, and at the end
		expandable    bool
	}{
		"a block somewhat too large serves":  {[]step{ask(200 * MiB), free(1), ask(181 * MiB)}, 0, 200 * MiB, 200 * MiB, false},
		"one that wastes a segment does not": {[]step{ask(200 * MiB), free(1), ask(180 * MiB)}, 0, 380 * MiB, 380 * MiB, false},
		"one of the bound serves, if near enough": {
			[]step{ask(140 * MiB), free(1), ask(128 * MiB)}, 0, 140 * MiB, 140 * MiB, false},
		"a block of the bound is oversize": {
			[]step{ask(128 * MiB), free(1), ask(50 * MiB)}, 0, 178 * MiB, 178 * MiB, false},
		"nor for what is small":                       {[]step{ask(200 * MiB), free(1), ask(50 * MiB)}, 0, 250 * MiB, 250 * MiB, false},
		"below the bound blocks are split":            {[]step{ask(100 * MiB), free(1), ask(50 * MiB), ask(50 * MiB)}, 0, 100 * MiB, 100 * MiB, false},
		"what is split off an oversize block is none": {[]step{ask(150 * MiB), free(1), ask(135 * MiB), ask(12 * MiB)}, 0, 162 * MiB, 162 * MiB, false},
		"near the limit one oversize block goes back": {[]step{ask(200 * MiB), ask(30 * MiB), free(1), free(2), ask(60 * MiB)}, 250 * MiB, 230 * MiB, 90 * MiB, false},
		"or several":                            {[]step{ask(130 * MiB), ask(140 * MiB), ask(30 * MiB), free(1), free(2), free(3), ask(250 * MiB)}, 320 * MiB, 300 * MiB, 280 * MiB, false},
		"no more than that takes":               {[]step{ask(130 * MiB), ask(140 * MiB), ask(150 * MiB), free(1), free(2), free(3), ask(250 * MiB)}, 500 * MiB, 420 * MiB, 380 * MiB, false},
		"blocks below the bound go all or not":  {[]step{ask(100 * MiB), ask(110 * MiB), ask(40 * MiB), free(1), free(2), free(3), ask(150 * MiB)}, 350 * MiB, 250 * MiB, 150 * MiB, false},
		"or all, where that is not enough":      {[]step{ask(130 * MiB), ask(100 * MiB), free(1), free(2), ask(230 * MiB)}, 240 * MiB, 230 * MiB, 230 * MiB, false},
		"of growing segments, too, none serves": {[]step{ask(200 * MiB), ask(20 * MiB), free(1), ask(50 * MiB)}, 0, 280 * MiB, 280 * MiB, true},
	} {
		a := Allocator{Caching: Caching{MaxSplit: 128 * MiB, Expandable: c.expandable}, Limit: c.limit}
		var ids []int32
		for _, s := range c.steps {
			if s.free > 0 {
				a.Free(ids[s.free-1])
			} else {
				ids = append(ids, a.Ask(s.ask))
			}
		}
		if a.usage.Reserved != c.reserved || a.now.Reserved != c.now {
			t.Errorf("%s: %v reserved at the fullest and %v at the end, want %v and %v", name, a.usage.Reserved, a.now.Reserved, c.reserved, c.now)
		}
		a.check(t)
	}
}

// The slack says how the allocator was replayed, and is a guess where it was told what no replay follows.
func TestSlackAsTold(t *testing.T) {
	for conf, want := range map[string]struct {
		from  string
		guess bool
	}{
		"":                         {"the caching allocator replayed in segments of 2 and 20 MiB or more", false},
		"max_split_size_mb:128":    {"the caching allocator replayed in segments of 2 and 20 MiB or more, none above 128 MiB split", false},
		"expandable_segments:True": {"the caching allocator replayed in expandable segments", false},
		"backend:cudaMallocAsync":  {"the caching allocator replayed in segments of 2 and 20 MiB or more; as without backend:cudaMallocAsync", true},
	} {
		e := step(4).OnCard(gpu.Device{Name: "some card", Total: 8 * unit.GiB}, CachingOf(conf, 204))
		for _, it := range e.Items {
			if it.Kind == Slack && (it.From != want.from || it.Guess != want.guess) {
				t.Errorf("%q: %q, guess %v", conf, it.From, it.Guess)
			}
		}
	}
	// What a large tensor leaves serves those that follow, if it may be split.
	tape, e := nn.NewTape(), Tensors{}
	tape.NoGrad(func() {
		tape.Part("net", func() {
			x := tape.Input(nn.F32, 1, 3, 512, 512)
			for i, out := range []int64{64, 16, 16, 16} {
				x = tape.Conv2d(string(rune('a'+i)), x, nn.Conv{Out: out, K: 3, Pad: 1})
				if out == 16 {
					tape.Hold(x)
				}
			}
		})
	})
	e.AddPeak(tape.Peak(), "an image")
	_, free := e.slack(Caching{})
	if _, bounded := e.slack(Caching{MaxSplit: 64 * unit.MiB}); bounded < free+20*unit.MiB {
		t.Errorf("%v reserved where 64 MiB are not split, %v where they are", bounded, free)
	}
}
