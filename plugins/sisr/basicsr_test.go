package sisr

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// basicRecipe is a recipe in BasicSR's spelling.
func basicRecipe(model, data, net, train string) string {
	return "name: b\nmodel_type: " + model + "\nscale: 4\ndatasets:\n  train: {" + data + "}\nnetwork_g: {" + net +
		"}\ntrain:\n  optim_g: {type: Adam, lr: 0.0001}\n" + train
}

const pixelLoss = "  pixel_opt: {type: L1Loss, loss_weight: 1.0}\n"

// Projects that are built on BasicSR are told by their networks, which are priced as their own classes; train.py lies
// in their package, and the experiments beside that.
func TestProjectsOnBasicSR(t *testing.T) {
	stages := "gt_size: 96, batch_size_per_gpu: 8, gt_sizes: [32, 48, 96], mini_batch_sizes: [8, 5, 1]"
	restormer := basicRecipe("ImageCleanModel", stages, "type: Restormer, dim: 16", pixelLoss)
	restormer = strings.Replace(restormer, "scale: 4", "scale: 1", 1)
	four := func(model, net string) string {
		return basicRecipe(model, "gt_size: 256, batch_size_per_gpu: 4", net, pixelLoss)
	}
	dat := "type: DAT, upscale: 4, split_size: [8, 32], depth: [1], num_heads: [6]"
	hat := "type: HAT, upscale: 4, window_size: 16, upsampler: pixelshuffle, depths: [1], num_heads: [6]"
	for name, tt := range map[string]struct {
		script, text string
		micro        int64
		known        bool
	}{
		"BasicSR":         {"basicsr/train.py", four("SRModel", "type: MSRResNet, upscale: 4"), 4, true},
		"HAT":             {"hat/train.py", four("HATModel", hat), 4, true},
		"DAT":             {"basicsr/train.py", four("DATModel", dat), 4, true},
		"Restormer":       {"basicsr/train.py", restormer, 5, true}, // 5 crops of 48 are more pixels than 8 of 32, or 1 of 96
		"another model":   {"basicsr/train.py", four("OwnModel", "type: MSRResNet, upscale: 4"), 4, false},
		"redux's compact": {"basicsr/train.py", four("SRModel", "type: compact"), 4, false},
	} {
		pkg := filepath.Dir(tt.script)
		dir := folder(t, map[string]string{"x.yml": tt.text, tt.script: "", pkg + "/__init__.py": ""}, nil)
		j, err := recognize(t, dir, "python", tt.script, "-opt", "x.yml")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, w := range j.Warnings {
			if strings.Contains(w, "will stop") {
				t.Errorf("%s: %s", name, w)
			}
		}
		if want := filepath.Join(dir, "experiments", "b"); j.Exclusive != want {
			t.Errorf("%s: the experiment is %s, want %s", name, j.Exclusive, want)
		}
		set := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB})
		l := set.Ladder(ladder.Training)
		if e := l.Rungs[l.Asked].At(0); e.Known() != tt.known || j.Batch.Micro != tt.micro {
			t.Errorf("%s: micro-batch %d, estimate %v (%s); want %d, known %v", name, j.Batch.Micro, e.Total(), e.Unknown,
				tt.micro, tt.known)
		}
		if name != "Restormer" {
			continue
		}
		for _, r := range l.Rungs {
			for _, e := range r.Edits {
				if e.Knob == knobMicro || e.Knob == knobCrop {
					t.Errorf("rung %q changes a size that the stages decide", r.Name)
				}
			}
		}
	}
}

// A loss of weight 0 is computed all the same, and its network is on the card; the section ldl_opt runs the averaged
// network with a graph that stays until the next step, whatever the loss is called.
func TestBasicSRLossSections(t *testing.T) {
	vgg := "  perceptual_opt: {type: PerceptualLoss, perceptual_weight: 0, style_weight: 0, layer_weights: {conv5_4: 1}}\n"
	gan := "  gan_opt: {type: GANLoss, gan_type: vanilla, loss_weight: 0}\n"
	ldl := "  ldl_opt: {type: L1Loss, loss_weight: 1.0}\n"
	total := func(model, train string) unit.Bytes {
		const net = "type: RRDBNet, num_in_ch: 3, num_out_ch: 3, num_block: 4"
		train = "  ema_decay: 0.999\n  optim_d: {type: Adam, lr: 0.0001}\n" + train
		text := basicRecipe(model, "gt_size: 128, batch_size_per_gpu: 4", net, train) +
			"network_d: {type: UNetDiscriminatorSN, num_in_ch: 3}\n"
		dir := folder(t, map[string]string{"x.yml": text}, nil)
		j, err := recognize(t, dir, "python", "train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		l := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB}).Ladder(ladder.Training)
		e := l.Rungs[l.Asked].At(0)
		if !e.Known() {
			t.Fatalf("%s: %s", model, e.Unknown)
		}
		return e.Total()
	}
	plain := total("RealESRGANModel", pixelLoss)
	if with := total("RealESRGANModel", pixelLoss+vgg); with-plain < 76*unit.MiB { // VGG19 up to conv5_4
		t.Errorf("with a perceptual loss of weight 0: %v more", with-plain)
	}
	if with := total("RealESRGANModel", pixelLoss+gan); with-plain < 60*unit.MiB {
		t.Errorf("with an adversarial loss of weight 0: %v more", with-plain)
	}
	if with := total("RealESRGANModel", pixelLoss+ldl); with-plain < 150*unit.MiB {
		t.Errorf("with LDL: %v more", with-plain)
	}
	if with := total("SRGANModel", pixelLoss+ldl); with-total("SRGANModel", pixelLoss) != 0 {
		t.Error("SRGANModel builds LDL's loss and does not compute it")
	}
}

// Real-ESRGAN's models keep a pool of degraded pairs on the card, unless the pairs are given.
func TestDegradationsOfBasicSR(t *testing.T) {
	recipe := basicRecipe("RealESRNetModel", "gt_size: 128, batch_size_per_gpu: 4", "type: RRDBNet", pixelLoss)
	for text, want := range map[string]bool{
		"": true, "high_order_degradation: false\n": false, "high_order_degradation: true\n": true,
	} {
		r, _, err := readRecipe("x.yml", []byte(recipe+text), nil)
		if err != nil || r.otf != want {
			t.Errorf("%q: pool %v, %v", text, r.otf, err)
		}
	}
}
