package arch

import (
	"errors"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// What an upstream constructor stops at is an error that is not about a missing formula; what it takes is none.
func TestConstructors(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name  string
		scale int64
		args  m
		wrong bool
	}{
		{"omnisr", 2, m{"num_feat": 6}, true}, {"omnisr", 2, m{"num_feat": 48}, false},
		{"man", 2, m{"n_colors": 1}, true}, {"man_light", 2, m{"n_feats": 64}, true}, {"man_light", 2, m{"n_feats": 63}, false},
		{"eimn_a", 2, m{"embed_dims": 60}, true}, {"eimn_a", 2, m{"embed_dims": 56}, false},
		{"spanplus", 2, m{"upsampler": "lp"}, true}, {"spanplus", 2, m{"upsampler": "conv"}, true},
		{"spanplus", 1, m{"upsampler": "conv", "blocks": nil}, false}, {"spanplus", 2, m{"feature_channels": 30}, true},
		{"mosrv2", 4, m{"upsampler": "none"}, true}, {"mosrv2", 4, m{"upsampler": "dysample", "mid_dim": 30}, true},
		{"mosrv2", 6, m{"upsampler": "pixelshuffle"}, true}, {"mosrv2", 6, nil, false},
		{"rtmosr_l", 3, nil, true}, {"rtmosr_l", 3, m{"unshuffle_mod": false}, false}, {"rtmosr", 3, nil, false},
		{"esrganplus", 5, nil, true}, {"esrganplus", 2, m{"noise_mode": "never"}, true},
		{"esrganplus", 2, m{"noise_style": "other"}, true}, {"esrganplus", 2, m{"noise_init_gain": -1.0}, true},
		{"omnisr", 2, m{"use_checkpoint": true}, true}, {"hyperionsr_m", 2, m{"use_checkpoint": true}, false},
		{"paragonsr_s", 2, m{"hr_blocks": 1}, false}, {"paragonsr2_static_s", 2, m{"hr_blocks": 0}, false},
		{"paragonsr2_micro", 2, m{"hr_blocks": 1}, true},                          // a name of the hybrid, an argument of 2.1
		{"gaterv3_s", 2, m{"dim": 48}, true}, {"gaterv3", 2, m{"dim": 48}, false}, // the former passes dim itself
		{"gaterv3", 2, m{"enc_blocks": []any{1, 1}}, true}, {"gaterv3_s", 2, m{"upsample": "pa_up"}, true},
		{"gaterv3_s", 2, m{"upsample": "conv"}, true}, {"gaterv3_s", 1, m{"upsample": "conv"}, false},
		{"lmlt_tiny", 2, m{"dim": 42}, true}, {"lkfmixer_t", 2, m{"large_kernel": 30}, true},
		{"nafnet32", 2, nil, true}, {"nafnet32", 1, nil, false}, {"nafnet32", 1, m{"dec_blk_nums": []any{2, 2}}, true},
		{"cascadedgaze", 4, nil, true}, {"docres_base", 2, nil, true}, {"docres_base", 1, m{"heads": []any{5, 5, 5, 5}}, true},
		{"moesr2", 2, m{"dim": 30}, true}, {"spanf3", 2, m{"unshuffle_mod": true}, false},
		{"realcugan", 1, nil, true}, {"realcugan", 4, m{"fast": true}, true}, {"realcugan", 2, m{"fast": true, "pro": true}, true},
		{"dis_fast", 5, nil, true}, {"ditn_real", 2, m{"patch_size": 0}, true}, {"seemore_t", 2, m{"topk": 4}, true},
		{"seemore_t", 2, m{"lr_space": "log"}, true}, {"dctlsa", 2, m{"num_modules": 5}, true}, {"dctlsa", 2, m{"nf": 56}, true},
		{"temporalspan", 2, m{"feature_channels": 44}, true}, {"temporalspanv2", 2, m{"num_frames": 4}, true},
		{"temporalspanv2", 2, m{"num_blocks": 5}, true}, {"tscunet", 2, m{"clip_size": 4}, true}, {"tscunet", 3, nil, true},
		{"tscunet", 2, m{"sigma": true}, true}, {"scunet_aaf6aa", 3, nil, true}, {"scunet_aaf6aa", 2, m{"dim": 96}, true},
		{"emt", 2, m{"dim": 64}, true}, {"emt", 2, m{"upsampler": "nearest"}, true}, {"emt", 5, nil, true},
		{"flexnet", 4, m{"window_size": 16}, true}, {"flexnet", 5, nil, false}, {"flexnet", 5, m{"upsampler": "nearest+conv"}, true},
		{"metaflexnet", 2, m{"num_blocks": []any{1, 1}}, true}, {"flexnet", 2, m{"dim": 33, "upsampler": "dysample"}, true},
		{"escrealm", 2, m{"attn_type": "xformers"}, true}, {"escrealm", 2, m{"num_heads": 3}, true}, {"escrealm", 5, nil, true},
		{"escrealm_xl", 8, m{"attn_type": "SDPA"}, false},
		{"tfdat", 5, nil, true}, {"tfdat", 4, m{"embed_dim": 90}, true}, {"tfdat", 1, nil, false}, {"tfdat", 4, m{"clip_size": 5}, true},
	} {
		_, _, err := Build(Spec{Type: c.name, Scale: c.scale, Args: c.args})
		if (err != nil) != c.wrong || errors.Is(err, ErrUnknown) {
			t.Errorf("%s at %d, %v: %v", c.name, c.scale, c.args, err)
		}
	}
	for _, c := range []struct {
		name string
		args m
	}{{"mosrv2", m{"upsampler": "lda"}}, {"eimn_a", m{"freeze_param": true}}, {"gaterv3", m{"attention": true}},
		{"emt", m{"window_list": []any{}}}, {"tscunet", m{"state": m{}}},
		{"escrealm", m{"attn_type": "SDPA", "window_size": 10}}} {
		if _, _, err := Build(Spec{Type: c.name, Scale: 2, Args: c.args}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s, %v: %v; upstream takes it, and there is no formula", c.name, c.args, err)
		}
	}
}

// LDL runs the averaged network on the batch while the graph is there.
func TestLDLRunsTheAveragedNetwork(t *testing.T) {
	step := StepConfig{Net: build(t, Spec{Type: "swinir_s", Scale: 2}), Batch: 1, LQ: 32, AMP: nn.BF16, EMA: true}
	peak := func(loss string) nn.Peak {
		tape := nn.NewTape()
		step.Losses = []Loss{{Type: loss, Weight: 1}}
		if unknown := step.record(tape); unknown != "" {
			t.Fatal(loss, ": ", unknown)
		}
		return tape.Peak()
	}
	with, without := peak("ldlloss"), peak("l1loss")
	if got := with.ForwardPeak - without.ForwardPeak; got < 1<<20 {
		t.Errorf("the forwards with LDL peak %v above those with L1; the averaged network's own is more than that", got)
	}
}

// A network of clips takes the channels of all frames, and is compared with one image.
func TestClipsAreComparedWithAnImage(t *testing.T) {
	n := build(t, Spec{Type: "temporalspan", Scale: 2, Args: map[string]any{"num_frames": int64(7)}})
	if n.InCh != 21 || n.gtCh() != 3 {
		t.Errorf("a clip of 7 frames has %d channels, and its image %d; want 21 and 3", n.InCh, n.gtCh())
	}
	step := StepConfig{Net: n, Batch: 1, LQ: 32, Losses: []Loss{{Type: "l1loss", Weight: 1}}}
	if e := Training(step); !e.Known() {
		t.Error("a step on clips: ", e.Unknown)
	}
	if e := Validation(ValConfig{Net: n, H: 48, W: 48, Tile: 32}); !e.Known() {
		t.Error("a validation of a clip in tiles: ", e.Unknown)
	}
}
