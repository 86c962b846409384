package arch

import (
	"math"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// cardPeaks are what torch.cuda.max_memory_allocated was on an RTX 4090 (Windows 11, torch of early 2025): inference
// of one image of 480 × 640 under autocast to float16 with cudnn.benchmark, after five runs, contiguous and channels
// last (traiNNer-redux, docs/source/resources/benchmark1x.csv to benchmark4x.csv at 3ebe5d23, vram_base and vram_cl).
// Here is one row for each thing that differs between the two: the maps of 3×3 convolutions (Compact, SAFMN), a
// convolution from three channels (ArtCNN), transposed ones (Real-CUGAN), a 1×1 convolution alone at the peak
// (SPANPlus), group norm (RealPLKSR without layer_norm), DySample, a large kernel that does not matter (MAN).
var cardPeaks = []struct {
	net              string
	args             map[string]any
	scale            int64
	out              nn.DType // of the result; the benchmark holds the one before, too
	contiguous, last unit.Bytes
}{
	{"compact", nil, 1, nn.F16, 176923136, 98205696},
	{"compact", nil, 2, nn.F16, 182483456, 102717440},
	{"artcnn_r16f96", nil, 4, nn.F16, 421329408, 362180608},
	{"mosr", nil, 2, nn.F16, 519134720, 498314240},
	{"realcugan", nil, 3, nn.F16, 2549935104, 1838917632},
	{"safmn_l", nil, 4, nn.F16, 1102547456, 945621504},
	{"man_tiny", nil, 1, nn.F16, 428705280, 429753856},
	{"spanplus", nil, 1, nn.F16, 319682560, 319672320},
	{"realplksr", map[string]any{"upsampler": "dysample", "layer_norm": false}, 4, nn.F16, 1905701888, 2377561088},
	{"realplksr", map[string]any{"upsampler": "pixelshuffle", "layer_norm": false}, 2, nn.F32, 388947456, 428123136},
	{"realplksr", map[string]any{"upsampler": "dysample", "layer_norm": true}, 1, nn.F16, 417182720, 339186176},
}

// TestCardPeaks compares validations in both memory formats with a card's peaks.
func TestCardPeaks(t *testing.T) {
	const tolerance = 0.011
	for _, r := range cardPeaks {
		for _, last := range []bool{false, true} {
			measured := r.contiguous
			if last {
				measured = r.last
			}
			e := Validation(ValConfig{
				Net: build(t, Spec{Type: r.net, Scale: r.scale, Args: r.args}), H: 480, W: 640, AMP: nn.F16,
				Layout: Layout{NetworkLast: last, ImageLast: last},
			})
			before := 3 * 480 * 640 * unit.Bytes(r.scale*r.scale) * r.out.Size()
			want := float64(measured - before - mem.BLASWorkspace(gpu.Device{Capability: "8.9"}).Bytes)
			var a mem.Allocator // which counts whole blocks
			u, _ := a.Replay(e)
			if got := float64(u.Allocated); math.Abs(got/want-1) > tolerance {
				t.Errorf("%s ×%d %v, channels last %v: %.1f MiB, measured %.1f",
					r.net, r.scale, r.args, last, got/(1<<20), want/(1<<20))
			}
		}
	}
}

// The lines of a validation name what is copied: in cuDNN's workspace on a card, nothing with channels last, a guess
// in float32 and nothing on a CPU.
func TestWorkspace(t *testing.T) {
	const (
		maps = "copies as NHWC of the input (37.5 MiB) and the result (37.5 MiB), " +
			"at the peak, network_g.body.32: torch.nn.functional.conv2d"
		unseen = "copies as NHWC that cuDNN may make in float32, as it does in lower precision on an RTX 4090, " +
			"in network_g.body.2: torch.nn.functional.conv2d"
	)
	for _, c := range []struct {
		name  string
		amp   nn.DType
		last  bool
		host  *Host
		bytes unit.Bytes
		guess bool
		from  string
	}{
		{name: "contiguous", amp: nn.F16, bytes: 75*unit.MiB + 64*64*9*2, from: maps},
		{name: "channels last", amp: nn.F16, last: true},
		{name: "float32", bytes: 150*unit.MiB + 64*64*9*4, guess: true, from: unseen},
		{name: "on a CPU", host: &Host{}},
	} {
		e := Validation(ValConfig{
			Net: build(t, Spec{Type: "compact", Scale: 1}), H: 480, W: 640, AMP: c.amp, Host: c.host,
			Layout: Layout{NetworkLast: c.last, ImageLast: c.last},
		})
		var got, want []mem.Item
		for _, it := range e.Items {
			if it.Kind == mem.Workspace {
				got = append(got, it)
			}
		}
		if c.bytes > 0 {
			want = []mem.Item{{Kind: mem.Workspace, What: nn.CuDNN, Bytes: c.bytes, Guess: c.guess, From: c.from}}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}
