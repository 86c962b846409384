package arch

import (
	"errors"
	"testing"
)

// What the constructors of the attention networks stop at, and what they take.
func TestAttentionConstructors(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name  string
		scale int64
		args  m
		wrong bool
	}{
		{"srformer", 2, m{"use_checkpoint": true}, true}, {"srformerv2", 2, m{"use_checkpoint": true}, false},
		{"srformer", 2, m{"window_size": 15}, true}, {"srformer", 2, m{"window_size": 12}, false},
		{"srformer", 2, m{"upsampler": "nearest+conv"}, true}, {"srformer", 4, m{"upsampler": "nearest+conv"}, false},
		{"srformer", 2, m{"upsampler": ""}, true}, {"srformer", 1, m{"upsampler": nil}, false},
		{"srformer", 6, nil, true}, {"srformer_light", 6, nil, false}, {"srformer", 2, m{"embed_dim": 90}, true},
		{"srformer", 2, m{"resi_connection": "2conv"}, true}, {"srformer", 2, m{"num_heads": []any{6}}, true},
		{"srformerv2", 2, m{"squeeze_dim": 45}, true}, {"srformerv2", 2, m{"squeeze_dim": 50}, false},
		{"srformerv2", 2, m{"drop_rate": 0.1}, true}, {"srformerv2", 2, m{"window_size": 16}, false},
		{"swin2sr_l", 2, nil, true}, {"swin2sr_l", 4, nil, false}, {"swin2sr_m", 6, nil, true}, {"swin2sr_s", 6, nil, false},
		{"swin2sr_s", 2, m{"upsampler": "pixelshuffle_hf"}, true}, {"swin2sr_s", 2, m{"upsampler": "pixelshuffle_aux"}, false},
		{"swin2sr_s", 2, m{"upsampler": "pixelshuffle_aux", "in_chans": 1}, true}, {"swin2sr_s", 2, m{"img_size": 60}, true},
		{"swin2sr_s", 2, m{"img_size": 4}, false}, {"swin2sr_s", 2, m{"num_heads": []any{7, 6, 6, 6}}, true},
		{"swin2sr_s", 2, m{"qk_scale": 1}, true},
		{"rgt", 6, nil, true}, {"rgt_s", 2, m{"split_size": []any{8, 24}}, true}, {"rgt_s", 2, m{"img_size": 50}, false},
		{"rgt_s", 2, m{"c_ratio": 0.21}, true}, {"rgt_s", 2, m{"num_heads": []any{7, 6, 6, 6, 6, 6}}, true},
		{"rgt_s", 2, m{"mlp_ratio": 1.005}, false}, {"rgt_s", 2, m{"mlp_ratio": 1.01}, true}, {"rgt_s", 2, m{"use_checkpoint": true}, true},
		{"elan", 2, m{"c_elan": 100}, true}, {"elan", 2, m{"c_elan": 99, "window_sizes": nil}, false},
		{"elan", 2, m{"window_sizes": []any{4, 8}}, true}, {"elan_light", 2, m{"norm": true, "colors": 1}, true},
		{"hit_sir", 2, m{"embed_dim": 64}, true}, {"hit_srf", 2, m{"expansion_factor": 4}, false}, {"hit_sir", 2, m{"mlp_ratio": 2}, true},
		{"hit_sir", 2, m{"hier_win_ratios": []any{0.5, 1, 2}}, true}, {"hit_sir", 2, m{"hier_win_ratios": []any{0.5, 1, 1.5, 2, 2, 2}}, true},
		{"hit_sir", 2, m{"hier_win_ratios": []any{0.5, 1, 1, 2, 3, "4"}}, true}, {"hit_sir", 2, m{"upsampler": "nearest+conv"}, true},
		{"hat_iln_s", 2, m{"img_range": 1.0}, true}, {"hat_s", 2, m{"img_range": 1.0}, false}, {"dat_iln", 2, m{"img_range": 1.0}, true},
		{"dat_2", 2, m{"img_range": 1.0}, false}, {"dat_iln_light", 2, m{"use_chk": true, "unshuffle_mod": true}, false},
		{"grl_t", 2, m{"stripe_size": []any{64, 48}}, true}, {"grl_t", 2, m{"stripe_size": []any{32, 16}, "img_size": 32}, false},
		{"grl_t", 2, m{"img_size": 48}, true}, {"grl_s", 6, nil, true}, {"grl_t", 6, nil, false}, {"grl_b", 2, m{"num_heads_stripe": []any{4, 4, 4, 4, 4, 4, 4}}, true},
		{"grl_t", 2, m{"use_checkpoint": true}, true}, {"grl_t", 2, m{"stripe_groups": []any{nil, nil}}, false},
		{"hit_sng", 2, m{"base_win_size": []any{8, 4}}, true}, {"hit_sir", 2, m{"base_win_size": []any{8, 4}}, false},
		{"dwt", 6, nil, true}, {"dwt_s", 2, m{"upsampler": "nearest+conv"}, true}, {"dwt", 2, m{"window_size": 24}, true},
		{"dwt", 2, m{"num_heads": []any{7, 6, 6, 6, 6, 6}}, true}, {"dwt", 2, m{"layer_kinds": []any{[]any{0, 2}}}, true},
	} {
		_, _, err := Build(Spec{Type: c.name, Scale: c.scale, Args: c.args})
		if (err != nil) != c.wrong || errors.Is(err, ErrUnknown) {
			t.Errorf("%s at %d, %v: %v", c.name, c.scale, c.args, err)
		}
	}
}

// What upstream takes, and there is no formula for.
func TestAttentionWithoutFormula(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name string
		args m
	}{
		{"srformer", m{"patch_size": 2}}, {"swin2sr_s", m{"patch_size": 2}}, {"grl_t", m{"stripe_groups": []any{4, nil}}},
		{"grl_t", m{"euclidean_dist": true}}, {"grl_t", m{"fairscale_checkpoint": true}}, {"grl_t", m{"anchor_proj_type": "conv2d"}},
		{"grl_t", m{"qkv_proj_type": "separable_conv"}}, {"grl_t", m{"conv_type": "linear"}}, {"grl_t", m{"out_channels": 1}},
	} {
		if _, _, err := Build(Spec{Type: c.name, Scale: 2, Args: c.args}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s, %v: %v; upstream takes it, and there is no formula", c.name, c.args, err)
		}
	}
}

// RGT's reduction is by the longer side, and wants a shorter one that is as large.
func TestReductionOfASmallImage(t *testing.T) {
	n := build(t, Spec{Type: "rgt_s", Scale: 2})
	for width, known := range map[int64]bool{63: false, 64: true, 1200: true} {
		if e := Validation(ValConfig{Net: n, H: 1200, W: width}); (e.Unknown == "") != known {
			t.Errorf("1200×%d: %q", width, e.Unknown)
		}
	}
	if e := Training(StepConfig{Net: n, Batch: 1, LQ: 3, Losses: charbonnier()}); e.Unknown == "" {
		t.Error("crops of 3 pixels are priced")
	}
}

// HiT-SIR reflects each image up to windows of up to 64 pixels, which a smaller one than half of that is too small for; the
// images of HiT-SRF may be half as large again.
func TestReflectedWindows(t *testing.T) {
	for name, sizes := range map[string]map[int64]bool{"hit_sir": {32: false, 33: true, 64: true}, "hit_srf": {16: false, 17: true, 32: true},
		"hit_sng": {32: false, 33: true, 64: true}} {
		n := build(t, Spec{Type: name, Scale: 2})
		for lq, known := range sizes {
			if e := Training(StepConfig{Net: n, Batch: 1, LQ: lq, Losses: charbonnier()}); (e.Unknown == "") != known || known != (lq >= n.MinLQ) {
				t.Errorf("%s at %d: %q, and its least crop is %d", name, lq, e.Unknown, n.MinLQ)
			}
		}
	}
}

// A size that a network's windows do not divide is unknown, with the sizes in its reason; the multiple that the network
// asks for is none.
func TestWindowsThatDoNotDivide(t *testing.T) {
	n := build(t, Spec{Type: "srformerv2", Scale: 2, Args: map[string]any{"window_size": 16, "depths": []any{1}, "num_heads": []any{8}}})
	if n.Multiple != 48 {
		t.Errorf("windows of 16 and 12 want a multiple of %d", n.Multiple)
	}
	for lq, known := range map[int64]bool{64: false, 48: true, 40: true} {
		e := Training(StepConfig{Net: n, Batch: 1, LQ: lq, Losses: charbonnier()})
		if (e.Unknown == "") != known {
			t.Errorf("crops of %d: %q", lq, e.Unknown)
		}
	}
}
