package arch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/mem"
)

// TestBasicSRNetworks compares the networks of BasicSR, and of the projects built on it, with PyTorch's own account
// of each project's class.
func TestBasicSRNetworks(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "basicsr_net_*.json") {
		for _, r := range rec.Rows {
			n, _, err := Build(Spec{Project: rec.Project, Type: r.Name, Scale: r.scale(), Frames: r.Shape[1] / 3, Args: r.Args})
			if err != nil {
				t.Errorf("%v: %v", rec.Project, err)
				continue
			}
			compare(t, r, n.Forward, n.Checkpointing, 0.02, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// scale is the recipe's, by the network's own argument; 4 is what the classes default to, and 1 is of those that
// restore.
func (r row) scale() int64 {
	for _, name := range []string{"scale", "upscale"} {
		if n, ok := toInt(r.Args[name]); ok {
			return n
		}
	}
	if slices.Contains([]string{"nafnet", "nafnetlocal", "baseline", "baselinelocal", "restormer"}, r.Name) {
		return 1
	}
	return 4
}

// TestBasicSRDiscriminators does the same for their discriminators.
func TestBasicSRDiscriminators(t *testing.T) {
	saved, peak, eval := deviation{what: "saved"}, deviation{what: "peak of a step"}, deviation{what: "peak of inference"}
	for _, rec := range recordings(t, "basicsr_disc*.json") {
		for _, r := range rec.Rows {
			d, _, err := BuildDiscriminator(Spec{Project: rec.Project, Type: r.Name, Args: r.Args})
			if err != nil {
				t.Errorf("%v: %v", rec.Project, err)
				continue
			}
			compare(t, r, d.forward, false, 0.002, &saved, &peak, &eval)
		}
	}
	saved.log(t)
	peak.log(t)
	eval.log(t)
}

// TestBasicSRLosses does the same for their losses, of an image that requires a gradient.
func TestBasicSRLosses(t *testing.T) {
	saved, peak := deviation{what: "saved"}, deviation{what: "peak of a step"}
	for _, rec := range recordings(t, "basicsr_loss*.json") {
		for _, r := range rec.Rows {
			compareLoss(t, r, Loss{Project: rec.Project, Type: r.Name, Args: r.Args}, &saved, &peak)
		}
	}
	saved.log(t)
	peak.log(t)
}

// TestBasicSRRecipes asks which of the shipped recipes of BasicSR and the projects built on it have a complete training
// estimate: a model, networks, losses and optimizers of their own project.
func TestBasicSRRecipes(t *testing.T) {
	text, err := os.ReadFile("testdata/recipes_basicsr.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, whole := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 7 || f[0] == "#" {
			continue
		}
		kind, recipe := f[0], f[1]+" "+f[2]
		all[kind]++
		if missing := missingParts(f[3], f[4], f[5], f[6], f[7:]); len(missing) == 0 {
			whole[kind]++
		} else if kind == "image" {
			t.Logf("%s: no formula for %s", recipe, strings.Join(missing, ", "))
		}
	}
	if all["image"] < 70 || whole["image"]*100 < 90*all["image"] {
		t.Errorf("%d of %d recipes for images have a complete training estimate; want 90 %%", whole["image"], all["image"])
	}
	for kind, n := range all {
		t.Logf("%s: %d of %d", kind, whole[kind], n)
	}
}

// missingParts lists those parts of a recipe of BasicSR's spelling that have no formula.
func missingParts(model, net, disc, optim string, sections []string) (missing []string) {
	p := Owner(BasicSR, net)
	if _, ok := models.find(p, model); !ok {
		missing = append(missing, model)
	}
	if _, ok := networks.find(p, net); !ok {
		missing = append(missing, net)
	}
	if _, ok := discriminators.find(p, disc); !ok && disc != "-" {
		missing = append(missing, disc)
	}
	for o := range strings.SplitSeq(optim, "+") {
		if _, known := optimizerOf(o); !known {
			missing = append(missing, o)
		}
	}
	for _, s := range sections {
		if _, kind, _ := strings.Cut(s, "="); !(Loss{Project: p, Type: kind}).HasFormula() {
			missing = append(missing, kind)
		}
	}
	return missing
}

// TestBasicSRNames looks for a recording of every name: a formula that nothing has checked is none.
func TestBasicSRNames(t *testing.T) {
	checked := map[string]bool{}
	for _, rec := range recordings(t, "basicsr_*.json") {
		for _, r := range rec.Rows {
			checked[r.Name] = true
		}
	}
	checked["ldlloss"] = true // by the steps of RealESRGANModel in steps_basicsr.json
	for _, p := range []Project{BasicSR, ATD, DRCT, HAT, DAT, NAFNet, Restormer, RGT, SRFormer} {
		for _, n := range slices.Concat(Names(p), DiscriminatorNames(p), LossNames(p)) {
			if !checked[n] {
				t.Errorf("%v's %s: never compared with PyTorch", p, n)
			}
		}
	}
}

// TestBasicSRStates asks what lies beside a validation: BasicSR's gradients, too, and a discriminator of one size of
// images.
func TestBasicSRStates(t *testing.T) {
	gan := []Loss{
		{Project: BasicSR, Type: "L1Loss", Name: "pixel_opt", Weight: 1},
		{Project: BasicSR, Type: "GANLoss", Name: "gan_opt", Weight: 1},
	}
	disc, _, err := BuildDiscriminator(Spec{Project: BasicSR, Type: "VGGStyleDiscriminator"})
	if err != nil {
		t.Fatal(err)
	}
	n := build(t, Spec{Project: BasicSR, Type: "MSRResNet", Scale: 4})
	e := States(StepConfig{Project: BasicSR, Model: "SRGANModel", Net: n, Batch: 16, LQ: 32, Losses: gan, Disc: disc})
	if !e.Known() {
		t.Fatal(e.Unknown)
	}
	gradients := map[string]int64{}
	for _, it := range e.Items {
		if it.Kind == mem.Gradients {
			gradients[it.What] = it.Count
		}
	}
	if gradients["network_g"] != 1517571 || gradients["network_d"] != 14499401 {
		t.Errorf("gradients of %v; want those of both networks", gradients)
	}
}
