package sisr

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/plugin"
)

// What a bare network cannot be is said in a sentence, with what would do; what it can be, however small, is priced.
func TestEstimateOfTheImpossible(t *testing.T) {
	for name, tt := range map[string]struct {
		arch     string
		settings map[string]string
		says     string // "": it is priced
	}{
		"a crop below the least":       {"hit_srf", map[string]string{"lq": "7"}, "hit_srf does not train on a low-resolution crop of 7: --lq 17 is the least"},
		"batch normalisation":          {"dat_light", nil, "so it takes --micro-batch 2 at least"},
		"a loss that nobody knows":     {"compact", map[string]string{"losses": "l1loss,nosuch"}, `losses has "nosuch", which has no formula; those that have one are`},
		"adversarial, against nobody":  {"compact", map[string]string{"losses": "l1loss,ganloss"}, "an adversarial loss needs a discriminator, such as --set discriminator="},
		"a discriminator nobody knows": {"compact", map[string]string{"discriminator": "nosuch"}, "those that have one are docres_discriminator, dunet"},
		"tiles that overlap by a tile": {"compact", map[string]string{"image": "64", "tile": "32", "tile-overlap": "32"}, "tile-overlap is less than tile"},
		"no argument of the network's": {"compact", map[string]string{"queue": "7"}, `"queue"; what is no setting of the step is taken for an argument of the network`},
		"less than no channels": {"span", map[string]string{"feature_channels": "-5"},
			"feature_channels: -5 is not a whole number of at least 1"},
		"no channels": {"span", map[string]string{"feature_channels": "0"},
			"feature_channels: 0 is not a whole number of at least 1"},
		"an optimizer nobody knows": {"span", map[string]string{"optimizer": "nosuch"},
			`optimizer is "nosuch": it is one of adam, `},
		"an upsampler nobody knows": {"swinir_s", map[string]string{"upsampler": "foo"},
			`upsampler "foo" leaves the image at its size, and the scale is 4: pixelshuffle, `},
		"a project nobody knows": {"span", map[string]string{"project": "foo"},
			`project is "foo": it is one of redux, basicsr, neosr`},
		"another project's network": {"ninasr", map[string]string{"project": "redux"},
			"no formula for it; projects with a network of that name: neosr"},
		"another project's loss": {"ninasr", map[string]string{"losses": "charbonnierloss"},
			`losses has "charbonnierloss", which has no formula; those that have one are chc_loss, consistency_loss`},
		"neosr's network": {"ninasr", nil, ""},
		"neosr's step": {"span", map[string]string{"project": "neosr", "discriminator": "metagan",
			"losses": "mssim_loss,fdl_loss", "image": "64"}, ""},
		"a crop beyond counting":       {"flexnet", map[string]string{"lq": "100000"}, "with these settings: a micro-batch of 1 with low-resolution crops of 100000 is too large to be counted"},
		"an image beyond counting":     {"compact", map[string]string{"image": "64x9999999999", "training": "false"}, "with these settings: an image of 64 × 9999999999 is too large to be counted"},
		"a crop that is just enough":   {"hit_srf", map[string]string{"lq": "17"}, ""},
		"a discriminator and its loss": {"compact", map[string]string{"losses": "l1loss,ganloss", "discriminator": "dunet"}, ""},
		"no training, and a tiny crop": {"rgt_s", map[string]string{"lq": "1", "training": "false", "image": "64"}, ""},
		"no training, and no loss": {
			"dat", map[string]string{"losses": "nosuch,ganloss", "training": "false", "image": "64"}, "",
		},
		"no training, one image": {"dat", map[string]string{"micro-batch": "1", "training": "false", "image": "64"}, ""},
	} {
		phases, err := New().(plugin.Estimator).Estimate(t.Context(), &plugin.Bare{Arch: tt.arch, Settings: tt.settings}, gpu.Device{})
		switch {
		case tt.says == "" && (err != nil || len(phases) == 0):
			t.Errorf("%s: %v, %d phases", name, err, len(phases))
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}

// Both memory formats have a price, channels last under mixed precision alone. On a card the peak has cuBLAS's
// workspace.
func TestEstimateOfFormats(t *testing.T) {
	card := gpu.Device{Kind: gpu.CUDA, Capability: "8.9"}
	allocated := func(amp, last string, d gpu.Device) int64 {
		q := &plugin.Bare{Arch: "compact", Settings: map[string]string{
			"amp": amp, "use_channels_last": last, "training": "false", "image": "640x480", "scale": "1",
		}}
		phases, err := New().(plugin.Estimator).Estimate(t.Context(), q, d)
		if err != nil || len(phases) != 1 {
			t.Fatalf("%v, %d phases", err, len(phases))
		}
		return int64(phases[0].Allocated)
	}
	const copies, block = 2*64*480*640*2 + 64*64*9*2, 1 << 20
	more := allocated("fp16", "false", gpu.Device{}) - allocated("fp16", "true", gpu.Device{})
	if more < copies || more > copies+block {
		t.Errorf("contiguous takes %d more than channels last, want %d", more, copies)
	}
	if a, b := allocated("off", "false", card), allocated("off", "true", card); a != b {
		t.Errorf("in float32 the formats take %d and %d", a, b)
	}
	if got := allocated("fp16", "true", card) - allocated("fp16", "true", gpu.Device{}); got != 8519680 {
		t.Errorf("a card allocates %d more than the tensors", got)
	}
}

// Where several projects have a network of that name, a warning names the one that is priced.
func TestEstimateNamesTheProject(t *testing.T) {
	const note = "span is priced as traiNNer-redux's class; set --project for another one: neosr"
	for name, tt := range map[string]struct {
		arch, project, says string
		params              int64
	}{
		"of several, the first":   {"span", "", note, 2_621_964},
		"of several, one by name": {"span", "neosr", "", 2_236_728},
		"of one alone":            {"ninasr", "", "", 1_030_194},
	} {
		q := &plugin.Bare{Arch: tt.arch, Settings: map[string]string{}}
		if tt.project != "" {
			q.Settings["project"] = tt.project
		}
		phases, err := New().(plugin.Estimator).Estimate(t.Context(), q, gpu.Device{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said := strings.Join(phases[0].Warnings, "\n"); tt.says == "" && said != "" || !strings.Contains(said, tt.says) {
			t.Errorf("%s: it warns %q, want %q", name, said, tt.says)
		}
		if got := phases[0].Estimate.Items[0].Count; got != tt.params {
			t.Errorf("%s: %d parameters, want %d", name, got, tt.params)
		}
	}
}
