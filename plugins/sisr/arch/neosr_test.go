package arch

import (
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// neosrRecipes are the networks of neosr's training recipes for images at 31c7022, options/train_*.toml: each has
// two recipes, of which the second makes its degradations on the card. All have the same discriminator, losses and
// optimizers.
const neosrRecipes = `
asid atd catanet cfsr compact craft cugan dat_m dct dctlsa ditn drct eimn esc esrgan flexnet grformer hasn
hat_m hit_srf hma krgn lmlt man moesr mosrv2 msdan ninasr omnisr plainusr plksr rcan realplksr rgt safmn
sebica span spanplus srformer_light swinir_small`

// neosrUnknown are those without a formula.
const neosrUnknown = "catanet"

// neosrStep is the step of neosr's recipes with a network.
func neosrStep(t *testing.T, network string) (StepConfig, error) {
	t.Helper()
	spec := Spec{Project: Neosr, Type: network, Scale: 4}
	if network == "omnisr" {
		spec.Args = map[string]any{"upsampling": int64(4), "window_size": int64(8)}
	}
	net, _, err := Build(spec)
	if err != nil {
		return StepConfig{}, err
	}
	disc, _, err := BuildDiscriminator(Spec{Project: Neosr, Type: "metagan"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := StepConfig{Project: Neosr,
		Net: net, Batch: 8, LQ: 64, AMP: nn.BF16, OptimG: "adan_sf", OptimD: "adan_sf", EMA: true, Disc: disc,
		Neosr: NeosrStep{Wavelet: "80000", Augments: true},
	}
	for _, name := range []string{"mssim_loss", "consistency_loss", "ldl_loss", "fdl_loss", "gan_loss"} {
		cfg.Losses = append(cfg.Losses, Loss{Project: Neosr, Type: name, Weight: 1, Args: map[string]any{}})
	}
	return cfg, nil
}

// Of neosr's own recipes nine in ten have a complete training estimate, and the others are unknown by name.
func TestNeosrRecipes(t *testing.T) {
	names := strings.Fields(neosrRecipes)
	complete := 0
	for _, name := range names {
		cfg, err := neosrStep(t, name)
		unknown := strings.Contains(" "+neosrUnknown+" ", " "+name+" ")
		switch {
		case unknown != errors.Is(err, ErrUnknown):
			t.Errorf("%s: %v", name, err)
			continue
		case err != nil:
			continue
		}
		cfg.Batch, cfg.LQ = 2, 32
		if m := cfg.Net.Multiple; m > 32 || cfg.Net.MinLQ > 32 {
			cfg.LQ = m
		}
		if e := Training(cfg); !e.Known() {
			t.Errorf("%s: %s", name, e.Unknown)
			continue
		}
		complete++
	}
	// One of the two recipes of dctlsa is no TOML at 31c7022: line 88 names a key twice.
	if recipes := 2*complete - 1; 10*recipes < 9*2*len(names) {
		t.Errorf("%d of %d recipes are complete", recipes, 2*len(names))
	}
}

// A name of neosr is priced as neosr's class, or is unknown.
func TestNeosrIsNotRedux(t *testing.T) {
	for _, row := range []struct {
		name         string
		redux, neosr int64 // parameters at scale 4
	}{{"srformer_light", 6_894_948, 872_748}, {"span", 2_621_964, 2_236_728}, {"man", 8_712_612, 8_712_588}} {
		for p, want := range map[Project]int64{Redux: row.redux, Neosr: row.neosr} {
			n, _, err := Build(Spec{Project: p, Type: row.name, Scale: 4})
			if err != nil {
				t.Fatal(err)
			}
			if got := Parameters(n); got != want {
				t.Errorf("%v's %s has %d parameters, want %d", p, row.name, got, want)
			}
		}
	}
	for _, name := range []string{"esrgan_lite", "paragonsr_s", "sebica_mini", "ultracompact"} {
		if _, _, err := Build(Spec{Project: Neosr, Type: name, Scale: 4}); !errors.Is(err, ErrUnknown) {
			t.Errorf("neosr's %s: %v", name, err)
		}
	}
	if (Loss{Project: Neosr, Type: "perceptualloss"}).HasFormula() {
		t.Error("neosr has no loss of that name")
	}
	if _, _, err := BuildDiscriminator(Spec{Project: Neosr, Type: "metagan2"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("neosr's metagan2: %v", err)
	}
}

// What differs from traiNNer-redux's step: the generator's gradients are there while the discriminator steps, its
// judgement of the output has no graph, both networks are averaged, a batch is loaded ahead, and ldl_loss holds two
// images.
func TestNeosrStep(t *testing.T) {
	cfg, err := neosrStep(t, "compact")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Batch, cfg.LQ = 2, 32
	total := func(change func(c *StepConfig, n *NeosrStep)) int64 {
		c, n := cfg, cfg.Neosr
		change(&c, &n)
		c.Neosr = n
		e := Training(c)
		if !e.Known() {
			t.Fatal(e.Unknown)
		}
		return int64(e.Total())
	}
	as := total(func(*StepConfig, *NeosrStep) {})
	d := cfg.Disc
	tape := nn.NewTape()
	tape.Part("d", func() { d.forward(tape, tape.Input(nn.F32, 1, 3, 128, 128)) })
	without := total(func(c *StepConfig, _ *NeosrStep) { c.EMA = false })
	g := Parameters(cfg.Net)
	if want := int64(tape.Size("d").ParamBytes+tape.Size("d").BufferBytes) + 4*g; as-without != want {
		t.Errorf("without the averaged networks %d less, want %d", as-without, want)
	}
	crops := int64(4 * 2 * 3 * (32*32 + 128*128))
	if got := as - total(func(_ *StepConfig, n *NeosrStep) { n.Augments = false }); got != crops {
		t.Errorf("without augmentations %d less, want %d", got, crops)
	}
	if got := as - total(func(_ *StepConfig, n *NeosrStep) { n.Wavelet = "" }); got <= 0 {
		t.Errorf("without wavelets %d less", got)
	}
	if got := total(func(_ *StepConfig, n *NeosrStep) { n.MatchLQ = true }) - as; got <= 0 {
		t.Errorf("with match_lq_colors %d more", got)
	}
	for what, n := range map[string]NeosrStep{"train.sam": {SAM: true}, "train.eco": {ECO: true}} {
		c := cfg
		c.Neosr = n
		if e := Training(c); !strings.Contains(e.Unknown, what) {
			t.Errorf("%s: %q", what, e.Unknown)
		}
	}
}
