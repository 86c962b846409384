package arch

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// TestAttentionAgainstTorch113 is TestAgainstTorch113 for the networks of windows, channels and dictionaries, in MiB
// for one image at scale 2, of a batch: what can be seen as a view of one image may be a copy of two. That harness's
// autocast copied what torch.nn.functional.normalize reads to float32, which CUDA's does not (it tells vector_norm
// the type): copied is what that made in a graph.
func TestAttentionAgainstTorch113(t *testing.T) {
	for _, r := range []struct {
		name                                          string
		params, batch                                 int64
		saved64, savedAMP64, savedAMP128, peak, ampPk float64
		copied64, copied128                           float64
	}{
		{"atd", 20113217, 1, 5768.3, 5017.5, 20037.5, 5803.4, 5077.0, 0, 0},
		{"atd_light", 799332, 1, 1616.8, 1765.5, 7059.2, 1658.9, 1800.6, 0, 0},
		{"craft", 737756, 2, 766.3, 566.9, 1836.2, 769.9, 571.1, 4.6875, 15.1875},
		{"dat", 14654339, 2, 3427.2, 2265.3, 9050.1, 3432.3, 2284.0, 25.3125, 101.25},
		{"dat_2", 11064419, 2, 2718.4, 1809.7, 7227.6, 2722.6, 1823.0, 25.3125, 101.25},
		{"drct", 13991867, 1, 1935.6, 1614.0, 6455.8, 1940.0, 1651.7, 0, 0},
		{"fdat_large", 10602999, 1, 1781.0, 1190.4, 4759.4, 1791.8, 1218.2, 90, 360},
		{"fdat_light", 1722735, 1, 408.2, 274.2, 1096.2, 414.0, 282.6, 20.25, 81},
	} {
		n := build(t, Spec{Type: r.name, Scale: 2})
		run := func(lq int64, low nn.DType) (saved, peak float64) {
			tape := nn.NewTape()
			tape.Dispatched, tape.UpsampleLow, tape.Torch1 = true, true, true
			x := tape.Hold(tape.Input(nn.F32, r.batch, 3, lq, lq))
			var y nn.Tensor
			tape.Autocast(low, func() { y = tape.Hold(tape.Call("", x, n.Forward)) })
			p := tape.Peak()
			saved = float64(p.Saved-p.SavedCasts) / float64(r.batch<<20)
			if got := tape.Size().Params; got != r.params {
				t.Errorf("%s: %d parameters, %d counted", r.name, got, r.params)
			}
			tape.Backward(tape.Mean(tape.Abs(tape.Sub(y, tape.ZerosLike(y)))))
			return saved, float64(tape.Peak().Bytes-x.Bytes()) / float64(r.batch<<20)
		}
		near := func(what string, got, want, tolerance float64) {
			off := (got - want) / want
			if math.Abs(off) > tolerance {
				t.Errorf("%s: %s %.1f, measured %.1f (%+.1f %%)", r.name, what, got, want, 100*off)
			}
		}
		saved, peak := run(64, nn.F32)
		near("saved", saved, r.saved64, 0.002)
		near("peak", peak, r.peak, 0.005)
		saved, peak = run(64, nn.BF16)
		near("saved under autocast", saved, r.savedAMP64-r.copied64, 0.002)
		near("peak under autocast", peak, r.ampPk-r.copied64, 0.005)
		saved, _ = run(128, nn.BF16)
		near("saved under autocast at 128", saved, r.savedAMP128-r.copied128, 0.002)
	}
}

// TestAttentionArguments asks for what upstream's constructors stop at.
func TestAttentionArguments(t *testing.T) {
	list := func(v ...any) []any { return v }
	for _, r := range []struct {
		name  string
		scale int64
		args  map[string]any
		open  bool // unknown rather than wrong
	}{
		{name: "dat", scale: 4, args: map[string]any{"upsampler": "nearest"}},
		{name: "dat", scale: 5},
		{name: "dat", scale: 4, args: map[string]any{"num_heads": list(6, 6)}},
		{name: "dat", scale: 4, args: map[string]any{"num_heads": list(7, 6, 6, 6, 6, 6)}},
		{name: "dat", scale: 4, args: map[string]any{"img_size": 60}},
		{name: "dat_s", scale: 4, args: map[string]any{"use_checkpoint": true}},
		{name: "dat_s", scale: 4, args: map[string]any{"resi_connection": "2conv"}},
		{name: "dat_s", scale: 4, args: map[string]any{"split_size": list(8)}},
		{name: "drct", scale: 4, args: map[string]any{"use_chk": true}},
		{name: "drct", scale: 4, args: map[string]any{"upsampler": "pixelshuffledirect"}},
		{name: "drct", scale: 4, args: map[string]any{"embed_dim": 181}},
		{name: "drct", scale: 6},
		{name: "atd", scale: 2, args: map[string]any{"upsampler": "nearest+conv"}},
		{name: "atd", scale: 2, args: map[string]any{"upsampler": ""}},
		{name: "atd", scale: 2, args: map[string]any{"num_heads": list(6, 6, 6, 6, 6, 11)}},
		{name: "atd_light", scale: 2, args: map[string]any{"use_checkpoint": true}},
		{name: "craft", scale: 2, args: map[string]any{"resi_connection": "3conv"}},
		{name: "craft", scale: 2, args: map[string]any{"split_size_0": 5}, open: true},
		{name: "craft", scale: 2, args: map[string]any{"embed_dim": 49}},
		{name: "fdat_light", scale: 5},
		{name: "fdat_large", scale: 2, args: map[string]any{"unshuffle_mod": true}},
		{name: "fdat_light", scale: 2, args: map[string]any{"mid_dim": 32}},
		{name: "fdat", scale: 2, args: map[string]any{"upsampler_type": "conv"}},
		{name: "fdat", scale: 2, args: map[string]any{"upsampler_type": "lda"}, open: true},
		{name: "fdat", scale: 2, args: map[string]any{"upsampler_type": "dysample", "mid_dim": 30}},
		{name: "fdat", scale: 2, args: map[string]any{"group_block_pattern": "spatial"}},
	} {
		if _, _, err := Build(Spec{Type: r.name, Scale: r.scale, Args: r.args}); err == nil || errors.Is(err, ErrUnknown) != r.open {
			t.Errorf("%s at scale %d %v: %v", r.name, r.scale, r.args, err)
		}
	}
	for name, want := range map[string]Network{
		"dat":       {CheckpointArg: "use_chk", BatchNorm: true, MinBatch: 2, NoFP16: true, Multiple: 32},
		"drct_l":    {CheckpointArg: "use_checkpoint", NoFP16: true, Multiple: 16},
		"atd":       {NoFP16: true, Multiple: 16},
		"craft":     {Multiple: 16},
		"fdat_tiny": {Multiple: 8},
		"fdat_xl":   {NoFP16: true, Multiple: 8},
	} {
		n := build(t, Spec{Type: name, Scale: 2})
		if n.CheckpointArg != want.CheckpointArg || n.BatchNorm != want.BatchNorm || n.NoFP16 != want.NoFP16 ||
			n.Multiple != want.Multiple || n.MinBatch != want.MinBatch || n.Checkpointing {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// BenchmarkAttention prices a training step of the largest networks.
func BenchmarkAttention(b *testing.B) {
	for _, name := range []string{"hat_l", "swinir_l", "dat_2_l", "drct_xl", "atd", "craft", "fdat_xl"} {
		n, _, err := Build(Spec{Type: name, Scale: 4})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				tape := nn.NewTape()
				x := tape.Hold(tape.Input(nn.F32, 4, 3, 64, 64))
				var y nn.Tensor
				tape.Autocast(nn.BF16, func() { y = tape.Hold(tape.Call("", x, n.Forward)) })
				tape.Backward(tape.Mean(tape.Abs(y)))
				if tape.Peak().Bytes == 0 {
					b.Fatal(fmt.Sprint(name, ": nothing"))
				}
			}
		})
	}
}
