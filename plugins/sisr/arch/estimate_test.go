package arch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

const room = 1163 * unit.GiB / 100 // of an RTX 3060 of 12 GB, as PyTorch sees it

func build(t testing.TB, s Spec) Network {
	t.Helper()
	n, _, err := Build(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nano(t testing.TB, commit string) Network {
	t.Helper()
	return build(t, Spec{Type: "paragonsr2_nano", Scale: 2, Source: []byte(sources[commit])})
}

func charbonnier() []Loss { return []Loss{{Type: "charbonnierloss", Weight: 1}} }

// The run that this project began with: ParagonSR2 nano at da033d99, crops of 128, batches of 16, a validation image
// of 512×512, 11.63 GiB. PyTorch's message was "Tried to allocate 128.00 GiB".
func TestFullAttention(t *testing.T) {
	n := nano(t, "da033d99")
	for _, amp := range []nn.DType{nn.F16, nn.BF16} {
		step := StepConfig{Net: n, Batch: 16, LQ: 128, AMP: amp, EMA: true, Losses: charbonnier()}
		if e := Training(step); e.Certain() <= room {
			t.Errorf("training at %v fits: %v", amp, e.Total())
		}
		step.Batch = 2
		if e := Training(step); e.Total() > room {
			t.Errorf("training at batch 2, %v: %v", amp, e.Total())
		}

		v := Validation(ValConfig{Net: n, H: 512, W: 512, AMP: amp, GT: true, Step: &step})
		first := v.FirstFailing(room)
		if first == nil || first.Bytes != 137438953472 || !strings.Contains(first.What, "attn = torch.bmm(q, k)") {
			t.Errorf("first failing request at %v: %+v", amp, first)
		}
		for tile, fits := range map[int64]bool{256: false, 128: true, 64: true} {
			v := Validation(ValConfig{Net: n, H: 512, W: 512, AMP: amp, GT: true, Step: &step, Tile: tile, Overlap: 16})
			if (v.Total() <= room) != fits {
				t.Errorf("tiles of %d at %v: %v", tile, amp, v.Total())
			}
		}
	}
}

// The same recipe beside 069b6d59.
func TestLocalWindows(t *testing.T) {
	n := nano(t, "069b6d59")
	step := StepConfig{Net: n, Batch: 16, LQ: 128, AMP: nn.F16, EMA: true, Losses: charbonnier()}
	if e := Training(step); e.Total() < 25*unit.GiB/10 || e.Total() > 3*unit.GiB {
		t.Errorf("training: %v", e.Total())
	}
	if v := Validation(ValConfig{Net: n, H: 512, W: 512, AMP: nn.F16, Step: &step}); v.Total() > room {
		t.Errorf("validation: %v", v.Total())
	}
}

// The one number of a real log: ParagonSR2 nano at da033d99, crops of 64, batches of 6, peak VRAM 1.71 GB, with the
// losses of its recipe unknown.
func TestLogged(t *testing.T) {
	e := Training(StepConfig{Net: nano(t, "da033d99"), Batch: 6, LQ: 64, AMP: nn.BF16, EMA: true, Losses: charbonnier()})
	if logged := 171 * unit.GiB / 100; e.Total() < logged*85/100 || e.Total() > logged*115/100 {
		t.Errorf("%v, logged %v", e.Total(), logged)
	}
}

// The published totals.
func TestParameters(t *testing.T) {
	for name, want := range map[string]int64{
		"compact": 600652, "superultracompact": 45156, "esrgan": 16703171, "span": 2605080, "plksr": 7365324,
		"realplksr": 7368908, "realplksr_tiny": 2351308, "paragonsr2_micro": 19429, "paragonsr2_nano": 10595,
		"paragonsr2_tiny": 42484, "paragonsr2_xs": 77755, "paragonsr2_s": 215262, "paragonsr2_m": 1785092,
		"paragonsr2_l": 5153788, "paragonsr2_xl": 14481548, "paragonsr2_realtime": 16780, "paragonsr2_photo": 745292,
		"paragonsr2_pro": 1993420,
	} {
		e := States(StepConfig{Net: build(t, Spec{Type: name, Scale: 2}), Losses: charbonnier()})
		if e.Items[0].Count != want {
			t.Errorf("%s: %d parameters, not %d", name, e.Items[0].Count, want)
		}
	}
	// BasicSR's ESRGAN of scale 4.
	e := States(StepConfig{Net: build(t, Spec{Type: "RRDBNet", Scale: 4}), Losses: charbonnier()})
	if e.Items[0].Count != 16697987 {
		t.Errorf("RRDBNet: %d parameters", e.Items[0].Count)
	}
}

func TestStep(t *testing.T) {
	n := build(t, Spec{Type: "compact", Scale: 2})
	disc, _, err := BuildDiscriminator(Spec{Type: "UNetDiscriminatorSN"})
	if err != nil {
		t.Fatal(err)
	}
	plain := StepConfig{Net: n, Batch: 8, LQ: 64, AMP: nn.F16, Losses: charbonnier()}
	gan := plain
	gan.Disc = disc
	gan.Losses = append(charbonnier(), Loss{Type: "perceptualloss", Weight: 1}, Loss{Type: "ganloss", Weight: 0.1})
	a, b := Training(plain), Training(gan)
	if b.Total() < 3*a.Total() {
		t.Errorf("losses and discriminator: %v after %v", b.Total(), a.Total())
	}
	parts := map[string]bool{}
	for _, it := range b.Items {
		parts[it.What] = true
		if it.Bytes <= 0 || it.From == "" {
			t.Errorf("a line without bytes or source: %+v", it)
		}
	}
	for _, p := range []string{"network_g", "network_d", "losses.perceptual", "batch"} {
		if !parts[p] {
			t.Errorf("no line for %s", p)
		}
	}

	// The micro-batch is linear but for what belongs to the parameters.
	two, four := plain, plain
	two.Batch, four.Batch = 2, 4
	d := (Training(four).Total() - Training(two).Total()) - (a.Total()-Training(four).Total())/2
	if d > unit.MiB || d < -unit.MiB {
		t.Errorf("off a line by %v", d)
	}

	accumulated := plain
	accumulated.Accumulate = 2
	if d := Training(accumulated).Total() - a.Total(); d < unit.MiB || d > 3*unit.MiB {
		t.Errorf("gradients of the step before: %v", d)
	}

	penalized := gan
	penalized.Losses = append(charbonnier(), Loss{Type: "ganloss", Weight: 0.1, Args: map[string]any{"gan_type": "r3gan"}})
	if e := Training(penalized); e.Known() || !strings.Contains(e.Unknown, "penalties") {
		t.Errorf("penalties on gradients: %q", e.Unknown)
	}
	stops, _, err := BuildDiscriminator(Spec{Type: "munet", Source: []byte("x.size(1) != self.num_in_ch")})
	if err == nil || errors.Is(err, ErrUnknown) {
		t.Error("MUNet without num_in_ch:", err)
	}
	gan.Disc = stops
	if e := Training(gan); e.Known() || !strings.Contains(e.Unknown, "num_in_ch") {
		t.Errorf("a discriminator that stops: %q", e.Unknown)
	}
	for source, unknown := range map[string]bool{"class AttentionFusion: self.num_in_ch = 3": true, "class MUNet: pass": false} {
		if _, w, err := BuildDiscriminator(Spec{Type: "munet", Source: []byte(source)}); errors.Is(err, ErrUnknown) != unknown || len(w) > 0 {
			t.Errorf("%s: %q, %v", source, w, err)
		}
	}

	vgg, _, err := BuildDiscriminator(Spec{Type: "VGGStyleDiscriminator"})
	if err != nil {
		t.Fatal(err)
	}
	gan.Disc = vgg
	if e := Training(gan); !e.Known() {
		t.Errorf("a discriminator of 128 with crops of 128: %s", e.Unknown)
	}
	gan.LQ = 32
	if e := Training(gan); e.Known() || !strings.Contains(e.Unknown, "input_size 128") {
		t.Errorf("a discriminator of 128 with crops of 64: %q", e.Unknown)
	}
	if _, _, err := BuildDiscriminator(Spec{Type: "VGGStyleDiscriminator", Args: map[string]any{"input_size": 64}}); err == nil || errors.Is(err, ErrUnknown) {
		t.Error("an input_size of 64:", err)
	}

	odd := plain
	odd.Losses = append(charbonnier(), Loss{Type: "nosuchloss", Weight: 1})
	if e := Training(odd); e.Known() || !strings.Contains(e.Unknown, "nosuchloss") {
		t.Errorf("a loss without a formula: %q", e.Unknown)
	}
	odd.Losses[1].Weight = 0
	if e := Training(odd); !e.Known() {
		t.Errorf("a loss that is off: %q", e.Unknown)
	}
}

func TestCheckpointing(t *testing.T) {
	total := func(on bool) unit.Bytes {
		n := build(t, Spec{Type: "paragonsr2_pro", Scale: 2, Args: map[string]any{"use_checkpointing": on}})
		if n.CheckpointArg != "use_checkpointing" || n.Checkpointing != on {
			t.Fatalf("%+v", n)
		}
		return Training(StepConfig{Net: n, Batch: 4, LQ: 64, AMP: nn.BF16, Losses: charbonnier()}).Total()
	}
	if off, on := total(false), total(true); on*5 > off {
		t.Errorf("with %v, without %v", on, off)
	}
}

func TestBuildErrors(t *testing.T) {
	if _, _, err := Build(Spec{Type: "nosuchnet", Scale: 2}); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	_, _, err := Build(Spec{Type: "compact", Scale: 2, Args: map[string]any{"gradient_checkpointing": true}})
	if err == nil || errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "gradient_checkpointing") {
		t.Error(err)
	}
	unread := map[string]any{"gradient_checkpointing": true}
	_, warnings, err := Build(Spec{Type: "paragonsr2_nano", Scale: 2, Args: unread})
	if err != nil || len(warnings) != 2 {
		t.Error(warnings, err)
	}
	_, _, err = Build(Spec{Type: "compact", Scale: 2, Args: map[string]any{"num_feat": "64"}})
	if err == nil || !strings.Contains(err.Error(), "num_feat") {
		t.Error(err)
	}
	if _, _, err := Build(Spec{Type: "paragonsr2_nano", Scale: 2, Source: []byte("class Other")}); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func BenchmarkTraining(b *testing.B) {
	for _, name := range []string{"paragonsr2_nano", "paragonsr2_m", "esrgan", "hat_l"} {
		n := build(b, Spec{Type: name, Scale: 4})
		step := StepConfig{Net: n, Batch: 16, LQ: 64, AMP: nn.F16, EMA: true, Losses: charbonnier()}
		states := States(step)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Training(step)
			}
		})
		b.Run(name+"/validation", func(b *testing.B) {
			for b.Loop() {
				Validation(ValConfig{Net: n, H: 512, W: 512, AMP: nn.F16, Step: &step, States: &states})
			}
		})
	}
}

func TestTrainings(t *testing.T) {
	for _, name := range []string{"esrgan", "compact", "paragonsr2_nano", "swinir_s"} {
		step := StepConfig{Net: build(t, Spec{Type: name, Scale: 2}), LQ: 32, AMP: nn.F16, EMA: true, Losses: charbonnier()}
		batches := []int64{16, 1, 6, 4, 2, 8}
		for i, e := range Trainings(step, batches...) {
			step.Batch = batches[i]
			if want := Training(step); !slices.Equal(e.Items, want.Items) {
				t.Errorf("%s at %d: %v, by itself %v", name, batches[i], e.Total(), want.Total())
			}
		}
	}
}

// leavesSize are networks that restore an image at its size, which upstream trains at a scale of 1 alone.
var leavesSize = map[string]bool{"nafnet32": true, "nafnet64": true, "cascadedgaze": true, "docres_base": true, "docres_large": true}

// Whatever a recipe says, there is an answer.
func TestOddSizes(t *testing.T) {
	sizes := []int64{-1, 0, 1, 3, 17, 33}
	if testing.Short() {
		sizes = []int64{0, 17}
	}
	for _, name := range Names(Redux) {
		scale := int64(2)
		if leavesSize[name] {
			scale = 1
		}
		if name == "swin2sr_l" { // which upstream has no other of
			scale = 4
		}
		n := build(t, Spec{Type: name, Scale: scale})
		for _, size := range sizes {
			e := Training(StepConfig{Net: n, Batch: 1, LQ: size, AMP: nn.F16, Losses: charbonnier()})
			v := Validation(ValConfig{Net: n, H: size, W: 40, AMP: nn.F16, Tile: 32, Overlap: 8})
			if size < 1 && e.Known() && e.Total() == 0 || e.Total() < 0 || v.Total() < 0 {
				t.Errorf("%s at %d: %v, %v", name, size, e, v)
			}
		}
	}
}

// A recipe may say by its arguments which generation it is for, where no checkout does.
func TestGenerationByArguments(t *testing.T) {
	spec := Spec{Type: "paragonsr2_nano", Scale: 2, Args: map[string]any{"hr_blocks": int64(1)}}
	if n, warnings, err := Build(spec); err != nil || n.Generation != paragonDynamic || !n.Assumed || len(warnings) != 1 {
		t.Errorf("with version 2.1's argument: %q, %q, %v; the local windows' formula would be wrong for it", n.Generation,
			warnings, err)
	}
	delete(spec.Args, "hr_blocks")
	if n, warnings, err := Build(spec); err != nil || !n.Assumed || len(warnings) != 1 {
		t.Errorf("without: %+v, %q, %v; want an assumption that is named", n.Generation, warnings, err)
	}
}

// A generation that is asked for comes before the checkout's file, and a line of the estimate names it.
func TestGenerationIsChosen(t *testing.T) {
	for name, chosen := range map[string]map[string]int64{
		"paragonsr2_nano":     {"2f64430b": 83715, "069b6d59": 10595},
		"paragonsr2_realtime": {"1121aa15": 16732, "ea36e5c8": 16780},
	} {
		for key, params := range chosen {
			n := build(t, Spec{Type: name, Scale: 2, Generation: key, Source: []byte("class EfficientSelfAttention")})
			e := States(StepConfig{Net: n, Losses: charbonnier()})
			if got := e.Items[0]; got.Count != params || !strings.Contains(got.From, key) || n.Assumed {
				t.Errorf("%s of %s: %d parameters, %q, assumed %v; want %d", name, key, got.Count, got.From, n.Assumed, params)
			}
		}
	}
	for name, key := range map[string]string{
		"paragonsr2_nano": "ea36e5c8", "compact": "069b6d59", "paragonsr2_pro": "1121aa15",
	} {
		if _, _, err := Build(Spec{Type: name, Scale: 2, Generation: key}); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s of %s: %v", name, key, err)
		}
	}
	_, _, err := Build(Spec{Type: "paragonsr2_realtime", Scale: 2, Source: []byte("class NanoBlock\nclass PhotoBlock")})
	if err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("realtime of deafa14d, which does not run: %v", err)
	}
}
