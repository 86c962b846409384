package sisr

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// recipeYAML is a recipe of our own with traiNNer-redux's keys.
const recipeYAML = `name: test run
scale: 2
use_amp: false
num_gpu: auto
datasets:
  train:
    name: Train
    type: pairedimagedataset
    dataroot_gt: gt
    dataroot_lq: lq
    lq_size: 64
    batch_size_per_gpu: 8   # mine
    accum_iter: 1
  val:
    name: Val
    type: pairedimagedataset
    dataroot_lq: val
network_g:
  type: compact
path: {}
train:
  ema_decay: 0.999
  total_iter: 1000
  optim_g: {type: AdamW, lr: !!float 2e-4}
  losses:
    - {type: l1loss, loss_weight: 1.0}
val:
  val_enabled: true
  val_freq: 100
  save_img: false
logger: {print_freq: 10, save_checkpoint_freq: 100}
`

// folder makes a command's folder: files by name, and PNG images by size.
func folder(t *testing.T, files map[string]string, images map[string][2]int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, size := range images {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, image.NewGray(image.Rect(0, 0, size[0], size[1]))); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return dir
}

func recognize(t *testing.T, dir string, args ...string) (*job.Job, error) {
	t.Helper()
	return recognizeAs(t, job.Command{Args: args, Dir: dir, Env: []string{"PATH=/usr/bin"}, Devices: -1})
}

func recognizeAs(t *testing.T, c job.Command) (*job.Job, error) {
	t.Helper()
	r, err := New().Recognize(t.Context(), c)
	if err != nil {
		return nil, err
	}
	return r.Job(), nil
}

// priced recognises the recipe and prices it on a card of that size.
func priced(t *testing.T, recipe string, vram unit.Bytes) (*job.Job, *ladder.Set) {
	t.Helper()
	dir := folder(t, map[string]string{"x.yml": recipe}, map[string][2]int{"val/a.png": {128, 96}, "val/b.png": {256, 512}, "gt/1.png": {8, 8}, "gt/2.png": {8, 8}})
	j, err := recognize(t, dir, "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	return j, plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: vram})
}

func TestRecognizeSpellings(t *testing.T) {
	dir := folder(t, map[string]string{"x.yml": recipeYAML}, nil)
	for _, args := range [][]string{
		{"python", "train.py", "-opt", "x.yml"},
		{"python3", "-u", "train.py", "-opt=x.yml"},
		{"python", "train.py", "--auto", "-opt", "x.yml"},
		{"python", "-m", "train", "-opt", "x.yml"},
		{"torchrun", "--nproc-per-node", "2", "train.py", "--launcher", "pytorch", "-opt", "x.yml"},
		{"accelerate", "launch", "train.py", "-opt", "x.yml"},
		{"env", "CUDA_VISIBLE_DEVICES=0", "python", "train.py", "-opt", "x.yml"},
		{"uv", "run", "train.py", "-opt", "x.yml"},
		{"poetry", "run", "python", "train.py", "-opt", "x.yml"},
		{"sh", "-c", "python train.py -opt x.yml"},
	} {
		j, err := recognize(t, dir, args...)
		if err != nil {
			t.Errorf("%s: %v", strings.Join(args, " "), err)
			continue
		}
		if j.Arch != "compact" || j.Batch.Micro != 8 || j.Name != "test run" {
			t.Errorf("%s: read as %+v", strings.Join(args, " "), j)
		}
		if args[0] == "torchrun" && j.Batch.Ranks != 2 {
			t.Errorf("torchrun with two processes has %d ranks", j.Batch.Ranks)
		}
		resumes := strings.Contains(strings.Join(args, " "), "--auto")
		if adds := len(j.Resume.Edits) == 1; adds == resumes {
			t.Errorf("%s: a resume adds %v", strings.Join(args, " "), j.Resume.Edits)
		}
	}
}

func TestRecognizeRefuses(t *testing.T) {
	dir := folder(t, map[string]string{
		"x.yml": recipeYAML, "broken.yml": "datasets: [", "list.yml": "- 1\n", "other.yml": "model: {target: ldm}\n",
		"nonet.yml": "datasets: {train: {batch_size_per_gpu: 4}}\n", "ten.yml": strings.Replace(recipeYAML, "gpu: 8", "gpu: ten", 1),
	}, nil)
	for name, tt := range map[string]struct {
		args    []string
		notMine bool
		says    string
	}{
		"no such file":        {[]string{"python", "train.py", "-opt", "y.yml"}, false, "there is no recipe y.yml"},
		"a folder":            {[]string{"python", "train.py", "-opt", "."}, false, "is a folder"},
		"no YAML":             {[]string{"python", "train.py", "-opt", "broken.yml"}, false, "broken.yml"},
		"a list":              {[]string{"python", "train.py", "-opt", "list.yml"}, false, "not a mapping of settings"},
		"another framework's": {[]string{"python", "train.py", "-opt", "other.yml"}, true, "neither network_g nor datasets"},
		"no network":          {[]string{"python", "train.py", "-opt", "nonet.yml"}, false, "network_g.type is missing"},
		"no number":           {[]string{"python", "train.py", "-opt", "ten.yml"}, false, "ten.yml:12: datasets.train.batch_size_per_gpu is ten"},
		"no -opt":             {[]string{"python", "train.py"}, true, ""},
	} {
		_, err := recognize(t, dir, tt.args...)
		if err == nil || errors.Is(err, plugin.ErrNotMine) != tt.notMine || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want it to say %q, not mine: %v", name, err, tt.says, tt.notMine)
		}
	}
}

// A split keeps the global batch, pins what would follow the micro-batch, and touches three values and no others.
func TestTrainingLadder(t *testing.T) {
	_, set := priced(t, recipeYAML, 12*unit.GiB)
	l := set.Ladder(ladder.Training)
	var split *ladder.Rung
	for i, r := range l.Rungs {
		if r.Name == "micro-batch 2 × accumulation 4" {
			split = &l.Rungs[i]
		}
		if r.Cost < ladder.Recipe && r.Values != nil && r.Values[job.MicroBatch]*r.Values[job.Accumulation] != 8 {
			t.Errorf("%s changes the global batch and costs %v", r.Name, r.Cost)
		}
	}
	if split == nil {
		t.Fatalf("no rung with a micro-batch of 2: %+v", l.Rungs)
	}
	if split.Cost != ladder.Speed {
		t.Errorf("a split of a network without batch normalisation costs %v", split.Cost)
	}
	tree, _ := config.ParseYAML([]byte(recipeYAML))
	for _, e := range split.Edits {
		if err := config.Apply(tree, e); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.NewReplacer("batch_size_per_gpu: 8 ", "batch_size_per_gpu: 2 ", "accum_iter: 1\n", "accum_iter: 4\n    dataset_enlarge_ratio: 8000\n").Replace(recipeYAML)
	if got := string(tree.Bytes()); got != want { // 8000: max(2000·8 // 2 images, 1)
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
}

// The reason of a split names its direction: --fill takes larger pieces.
func TestPieces(t *testing.T) {
	text := strings.NewReplacer("batch_size_per_gpu: 8 ", "batch_size_per_gpu: 4 ", "accum_iter: 1\n", "accum_iter: 2\n").Replace(recipeYAML)
	_, set := priced(t, text, 12*unit.GiB)
	seen := map[string]bool{}
	for _, r := range set.Ladder(ladder.Training).Rungs {
		for _, e := range r.Edits {
			switch {
			case e.Knob != knobMicro || r.Cost >= ladder.Recipe:
			case r.Values[job.MicroBatch] > 4:
				seen["larger"] = strings.HasSuffix(e.Why, "of 8 in larger pieces")
			default:
				seen["smaller"] = strings.HasSuffix(e.Why, "of 8 in smaller pieces")
			}
		}
	}
	if !seen["larger"] || !seen["smaller"] {
		t.Errorf("pieces are named %v", seen)
	}
}

// Of a global batch that nobody trains with no divisions are looked for: the ladder has the other ways alone, at once.
func TestHugeAccumulation(t *testing.T) {
	for accum, divides := range map[string]bool{"2": true, "2048": true, "2049": false, "1000000000000": false, "9223372036854775807": false} {
		_, set := priced(t, strings.Replace(recipeYAML, "accum_iter: 1", "accum_iter: "+accum, 1), 12*unit.GiB)
		if got := slices.ContainsFunc(set.Ladder(ladder.Training).Rungs, func(r ladder.Rung) bool { return strings.HasPrefix(r.Name, "micro-batch") }); got != divides {
			t.Errorf("accum_iter %s: divisions %v, want %v", accum, got, divides)
		}
	}
}

func TestValidationLadder(t *testing.T) {
	_, set := priced(t, recipeYAML, 12*unit.GiB)
	l := set.Ladder(ladder.Validation)
	asked := l.Rungs[l.Asked].At(0)
	if !asked.Known() || asked.Total() <= 0 {
		t.Fatalf("validation at 256×512 is %+v", asked)
	}
	if len(l.Rungs) < 3 || !strings.HasPrefix(l.Rungs[1].Name, "validation in tiles") || l.Rungs[1].Cost != ladder.Metrics {
		t.Errorf("below the whole image stand %+v", l.Rungs)
	}
	if last := l.Rungs[len(l.Rungs)-1]; last.Name != "no validation" || last.Cost < ladder.Recipe {
		t.Errorf("no validation at all is no mild rung: %+v", last)
	}
	for _, r := range l.Rungs {
		for _, e := range r.Edits {
			if e.Knob == knobMicro {
				t.Errorf("%s shrinks the training batch", r.Name)
			}
		}
	}
}

// What is not known is said, and never zero.
func TestUnknown(t *testing.T) {
	for name, tt := range map[string]struct{ recipe, phase, says string }{
		"a network without a formula": {strings.Replace(recipeYAML, "compact", "nobodysnet", 1), ladder.Training, "no formula"},
		"a loss without a formula":    {strings.Replace(recipeYAML, "l1loss", "nobodysloss", 1), ladder.Training, "nobodysloss"},
		"images that are not there":   {strings.Replace(recipeYAML, "dataroot_lq: val", "dataroot_lq: elsewhere", 1), ladder.Validation, "elsewhere"},
		"metrics on the card":         {strings.Replace(recipeYAML, "save_img: false", "metrics_enabled: true\n  metrics: {lpips: {type: calculate_lpips}}\n  save_img: false", 1), ladder.Validation, "lpips"},
	} {
		_, set := priced(t, tt.recipe, 12*unit.GiB)
		l := set.Ladder(tt.phase)
		if e := l.Rungs[l.Asked].At(0); e.Known() || !strings.Contains(e.Unknown, tt.says) {
			t.Errorf("%s: estimate %v, unknown %q; want it to say %q", name, e.Total(), e.Unknown, tt.says)
		}
		if tt.says == "lpips" { // what is not slower is not said to be, and stands behind the tiles all the same
			last, tile := l.Rungs[len(l.Rungs)-2], l.Rungs[len(l.Rungs)-3] // behind them is no validation at all
			if !strings.Contains(last.Name, "no metrics") || last.Slowdown != tile.Slowdown || last.Slowdown <= 1 {
				t.Errorf("%s: %q at %v behind %q at %v", name, last.Name, last.Slowdown, tile.Name, tile.Slowdown)
			}
		}
	}
}

// What a training's unknown part keeps on the card beside a validation is a guess in the ledger, and not nothing.
func TestUncountedPartsBesideValidation(t *testing.T) {
	_, whole := priced(t, recipeYAML, 12*unit.GiB)
	_, part := priced(t, strings.Replace(recipeYAML, "l1loss", "nobodysloss", 1), 12*unit.GiB)
	a, b := whole.Ladder(ladder.Validation).Rungs[0].At(0), part.Ladder(ladder.Validation).Rungs[0].At(0)
	if !b.Known() || b.Total() <= a.Total() || b.Certain() > a.Certain() {
		t.Errorf("with a loss nobody knows: %v, %v of it certain; without %v, %v", b.Total(), b.Certain(), a.Total(), a.Certain())
	}
}

// What stops at the discriminator is said, by the checkout's own source of it.
func TestDiscriminatorsThatStop(t *testing.T) {
	const attribute, features, weight = "'MUNet' object has no attribute 'num_in_ch'", "forward_with_features", "start_iter"
	file := "traiNNer/archs/munet_arch.py"
	broken := map[string]string{file: "class MUNet:\n    def forward(self, x):\n        if x.size(1) != self.num_in_ch:\n"}
	whole := map[string]string{file: "class MUNet:\n    def forward(self, x):\n"}
	const gan = "{type: ganloss, loss_weight: 0.1}"
	for _, tt := range []struct {
		disc, losses string
		source       map[string]string
		says         []string
	}{
		{"munet", gan, broken, []string{attribute}},
		{"MUNet", gan, broken, []string{attribute}},
		{"munet", "{type: l1loss, loss_weight: 1.0}", broken, nil}, // which is then not built
		{"munet", gan, whole, nil},
		{"munet", gan, nil, []string{"taken for"}},
		{"dunet", "{type: featurematchingloss, loss_weight: 1.0, start_iter: 5}", broken, []string{features}},
		{"munet", "{type: featurematchingloss, loss_weight: 1.0, start_iter: 5}", broken, []string{attribute}},
		{"munet", "{type: featurematchingloss, loss_weight: 1.0}", whole, []string{weight}},
		{"dunet", "{type: featurematchingloss, loss_weight: 0}", broken, nil},
	} {
		files := map[string]string{"x.yml": strings.Replace(recipeYAML, "{type: l1loss, loss_weight: 1.0}", tt.losses, 1) + "network_d: {type: " + tt.disc + "}\n"}
		for name, text := range tt.source {
			files[name] = text
		}
		j, err := recognize(t, folder(t, files, nil), "python", "train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, w := range j.Warnings {
			if strings.Contains(w, attribute) || strings.Contains(w, features) || strings.Contains(w, weight) || strings.Contains(w, "taken for") {
				said = append(said, w)
			}
		}
		if len(said) != len(tt.says) || len(said) > 0 && !strings.Contains(said[0], tt.says[0]) {
			t.Errorf("%s with %s: %q", tt.disc, tt.losses, said)
		}
	}
}

// A network that the checkout has not stops the trainer as it is built.
func TestNetworksThatStop(t *testing.T) {
	const says = "this checkout has no network"
	archs := map[string]string{"traiNNer/archs/srvgg_arch.py": "@ARCH_REGISTRY.register()\nclass Compact(nn.Module):\n    pass\n", "traiNNer/archs/other_arch.py": "def compact_large(**kwargs):\n    pass\n"}
	gan := "{type: l1loss, loss_weight: 1.0}\n    - {type: ganloss, gan_type: vanilla, loss_weight: 0.1}"
	for _, tt := range []struct {
		net, disc, losses string
		source            map[string]string
		stops             []string
	}{
		{"compact", "", "", archs, nil},
		{"COMPACT", "", "", archs, nil},
		{"compact_large", "", "", archs, nil},
		{"span", "", "", archs, []string{"span"}},
		{"span", "", "", nil, nil},
		{"compact", "", "", map[string]string{"traiNNer/archs/other_arch.py": "def compact_large(**kwargs):\n    pass\n"}, []string{"compact"}},
		{"compact", "unetdiscriminatorsn", "", archs, nil}, // nobody asks for it
		{"compact", "unetdiscriminatorsn", gan, archs, []string{"unetdiscriminatorsn"}},
	} {
		text := strings.Replace(recipeYAML, "type: compact\n", "type: "+tt.net+"\n", 1)
		if tt.disc != "" {
			text += "network_d: {type: " + tt.disc + "}\n"
		}
		if tt.losses != "" {
			text = strings.Replace(text, "{type: l1loss, loss_weight: 1.0}", tt.losses, 1)
		}
		files := map[string]string{"x.yml": text}
		for name, source := range tt.source {
			files[name] = source
		}
		j, err := recognize(t, folder(t, files, nil), "python", "train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(j.Warnings, "\n")
		if strings.Count(all, says) != len(tt.stops) {
			t.Errorf("%+v: warns %q", tt, all)
		}
		for _, name := range tt.stops {
			if !strings.Contains(all, says+` "`+name+`"`) {
				t.Errorf("%+v: warns %q", tt, all)
			}
		}
	}
}

// A loss that the checkout has not stops the trainer as it is made, and one without a gradient at the first step, if it has no other.
func TestLossesThatStop(t *testing.T) {
	const made, alone = "this checkout has no loss", "without a gradient"
	checkout := map[string]string{"traiNNer/losses/basic_loss.py": "@LOSS_REGISTRY.register()\nclass L1Loss(nn.Module):\n    pass\n", "traiNNer/losses/contextual_loss.py": "@LOSS_REGISTRY.register()\nclass ContextualLoss(nn.Module):\n    pass\n"}
	for _, tt := range []struct {
		losses string
		source map[string]string
		says   string
	}{
		{"{type: L1Loss, loss_weight: 1.0}", checkout, ""},
		{"{type: contrastiveloss, loss_weight: 1.0}", checkout, made + ` "contrastiveloss"`},
		{"{type: contrastiveloss, loss_weight: 1.0}", nil, ""},
		{"{type: l1loss, loss_weight: 1.0}\n    - {type: contrastiveloss, loss_weight: 0}", checkout, ""},
		{"{type: contextualloss, loss_weight: 1.0}", checkout, alone},
		{"{type: contextualloss, loss_weight: 1.0, layer_weights: {conv3_2: 1.0}}", nil, alone},
		{"{type: contextualloss, loss_weight: 1.0}\n    - {type: l1loss, loss_weight: 0}", nil, alone},
		{"{type: contextualloss, loss_weight: 1.0}\n    - {type: l1loss, loss_weight: 0.1}", nil, ""},
		{"{type: contextualloss, loss_weight: 1.0, use_vgg: false}", nil, ""},
		{"{type: contextualloss, loss_weight: 1.0, layer_weights: {conv_3_2: 1.0}}", nil, ""}, // it has one layer, and stops otherwise
	} {
		files := map[string]string{"x.yml": strings.Replace(recipeYAML, "{type: l1loss, loss_weight: 1.0}", tt.losses, 1)}
		for name, text := range tt.source {
			files[name] = text
		}
		j, err := recognize(t, folder(t, files, nil), "python", "train.py", "-opt", "x.yml")
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(j.Warnings, "\n")
		if !strings.Contains(all, tt.says) || strings.Contains(all, made) != strings.HasPrefix(tt.says, made) || strings.Contains(all, alone) != (tt.says == alone) {
			t.Errorf("%s: warns %q, want %q", tt.losses, all, tt.says)
		}
	}
}

func TestWarnings(t *testing.T) {
	options := "class A(Struct):\n    batch_size_per_gpu: int\n    lq_size: int\n\nclass ReduxOptions(Struct):\n    name: str\n    datasets: dict[str, A]\n    network_g: dict[str, Any]\n    val: dict[str, Any]\n"
	recipe := "name: x\nnetwork_g: {type: compact}\ndatasets:\n  train: {batch_size_per_gpu: 4, lq_size: 32, use_hflip: true}\nval: {val_enabled: false, val_batch_size: 1}\nbogus: 1\n"
	dir := folder(t, map[string]string{"x.yml": recipe, "traiNNer/utils/redux_options.py": options}, nil)
	j, err := recognize(t, dir, "python", "train.py", "-opt", "x.yml")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(j.Warnings, "\n")
	for _, want := range []string{
		"val.val_batch_size: no version of the trainer has this key",
		"bogus: this checkout does not know the key",
		"datasets.train.use_hflip: this checkout does not know the key",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning says %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "network_g.type") || strings.Contains(all, "lq_size:") {
		t.Errorf("a key that is accepted is warned of:\n%s", all)
	}
}

func TestDialects(t *testing.T) {
	for name, tt := range map[string]struct {
		file, text, dialect string
		accumulates         bool
	}{
		"BasicSR": {"x.yml", "name: b\nmodel_type: SRModel\nscale: 4\ndatasets:\n  train: {gt_size: 128, batch_size_per_gpu: 16}\nnetwork_g: {type: RRDBNet, num_in_ch: 3, num_out_ch: 3}\ntrain:\n  ema_decay: 0.999\n  optim_g: {type: Adam, lr: !!float 1e-4}\n  pixel_opt: {type: L1Loss, loss_weight: 1.0}\n", "BasicSR", false},
		"neosr":   {"x.toml", "name = \"n\"\nmodel_type = \"image\"\nscale = 4\n[datasets.train]\npatch_size = 64\nbatch_size = 8\n[network_g]\ntype = \"compact\"\n[train]\nema = 0.999\n", "neosr", true},
	} {
		dir := folder(t, map[string]string{tt.file: tt.text}, nil)
		j, err := recognize(t, dir, "python", "train.py", "-opt", tt.file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		set := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: 12 * unit.GiB})
		if j.Dialect != tt.dialect {
			t.Errorf("%s is taken for %s", name, j.Dialect)
		}
		smaller := 0
		for _, r := range set.Ladder(ladder.Training).Rungs[1:] {
			if r.Values[job.MicroBatch] == j.Batch.Micro || r.Values[knobCrop] != set.Values[knobCrop] {
				continue
			}
			smaller++
			if (r.Cost < ladder.Recipe) != tt.accumulates {
				t.Errorf("%s: %s costs %v", name, r.Name, r.Cost)
			}
		}
		if smaller == 0 {
			t.Errorf("%s: no rung has a smaller micro-batch", name)
		}
	}
}

// A validation's memory format is the project's: of the recipe in traiNNer-redux, the network's alone in neosr, neither
// without mixed precision.
func TestLayout(t *testing.T) {
	const (
		basicSR = "model_type: SRModel\nscale: 4\ndatasets:\n  train: {gt_size: 128, batch_size_per_gpu: 16}\n" +
			"network_g: {type: RRDBNet}\n"
		neosr = "[datasets.train]\npatch_size = 64\nbatch_size = 8\n[network_g]\ntype = \"compact\"\n"
	)
	both, network, none := arch.Layout{NetworkLast: true, ImageLast: true}, arch.Layout{NetworkLast: true}, arch.Layout{}
	for name, tt := range map[string]struct {
		path, text string
		amp        nn.DType
		want       arch.Layout
	}{
		"redux":             {"x.yml", recipeYAML, nn.BF16, both},
		"redux, float32":    {"x.yml", recipeYAML, nn.F32, none},
		"redux, told so":    {"x.yml", recipeYAML + "use_channels_last: true\n", nn.F16, both},
		"redux, told not":   {"x.yml", recipeYAML + "use_channels_last: false\n", nn.F16, none},
		"BasicSR":           {"x.yml", basicSR, nn.F16, none},
		"neosr":             {"x.toml", neosr, nn.BF16, network},
		"neosr has no such": {"x.toml", "use_channels_last = false\n" + neosr, nn.F16, network},
	} {
		r, _, err := readRecipe(tt.path, []byte(tt.text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := r.layout(tt.amp); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// What an anchor shares with other keys, or the command says over the recipe, cannot be set in a copy: no rung tries to.
func TestWhatCannotBeSet(t *testing.T) {
	shared := strings.Replace(recipeYAML, "batch_size_per_gpu: 8 ", "batch_size_per_gpu: &b 8 ", 1) + "other: *b\n"
	j, set := priced(t, shared, 12*unit.GiB)
	for _, r := range set.Ladder(ladder.Training).Rungs {
		if _, err := j.Rewrite(r.Edits, t.TempDir()); err != nil {
			t.Errorf("rung %q cannot be carried out: %v", r.Name, err)
		}
	}
	if all := strings.Join(j.Warnings, "\n"); !strings.Contains(all, "batch_size_per_gpu cannot be changed in a copy") {
		t.Errorf("nobody says that the batch cannot be changed:\n%s", all)
	}

	basic := "name: b\nmodel_type: SRModel\nscale: 4\ndatasets:\n  train: {gt_size: 128, batch_size_per_gpu: 16}\nnetwork_g: {type: RRDBNet, num_in_ch: 3, num_out_ch: 3}\ntrain: {pixel_opt: {type: L1Loss, loss_weight: 1.0}}\n"
	dir := folder(t, map[string]string{"x.yml": basic}, nil)
	args := []string{"python", "train.py", "-opt", "x.yml", "--force_yml", "datasets:train:batch_size_per_gpu=4"}
	j, err := recognize(t, dir, args...)
	if err != nil || j.Batch.Micro != 4 {
		t.Fatalf("--force_yml …=4 is read as %+v, %v", j, err)
	}
	if !slices.ContainsFunc(j.Knobs, func(k job.Knob) bool {
		return k.Name == knobMicro && k.Value == "4" && k.Dead == outranked
	}) {
		t.Errorf("the knobs are %+v: an edit of the micro-batch would have no effect", j.Knobs)
	}
	set = plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: gpu.CUDA, Total: 12 * unit.GiB})
	for _, r := range set.Ladder(ladder.Training).Rungs {
		for _, e := range r.Edits {
			if e.Knob == knobMicro {
				t.Errorf("%s edits what the command outranks", r.Name)
			}
		}
	}
}

func TestImpossibleNumbers(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, says string }{
		"a quoted batch":  {"gpu: 8 ", `gpu: "8" `, `batch_size_per_gpu is "8"; it is a whole number`},
		"no batch":        {"gpu: 8 ", "gpu: 0 ", "batch_size_per_gpu is 0; it is a whole number from 1"},
		"a negative crop": {"lq_size: 64", "lq_size: -64", "lq_size is -64; it is a whole number of at least 1"},
		"no crop":         {"lq_size: 64", "lq_size: 0", "lq_size is 0; it is a whole number of at least 1"},
		"no scale":        {"scale: 2", "scale: 0", "scale is 0; it is at least 1"},
		"a huge batch":    {"gpu: 8 ", "gpu: 1000000000 ", "batch_size_per_gpu is 1000000000"},
	} {
		dir := folder(t, map[string]string{"x.yml": strings.Replace(recipeYAML, tt.from, tt.to, 1)}, nil)
		if _, err := recognize(t, dir, "python", "train.py", "-opt", "x.yml"); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}

// What guides and recipes say and the code does not do is said with its evidence; a loss schedule that counts pieces is
// no longer the same mathematics when a batch is split.
func TestTruths(t *testing.T) {
	recipe := strings.Replace(recipeYAML, "    dataroot_lq: val\n", "    dataroot_lq: val\n    lq_size: 32\n", 1)
	recipe = strings.Replace(recipe, "type: compact", "type: paragonsr2_nano", 1)
	recipe = strings.Replace(recipe, "accum_iter: 1", "accum_iter: 2", 1)
	recipe = strings.Replace(recipe, "  total_iter: 1000\n", "  total_iter: 1000\n  gradient_checkpointing: true\n  dynamic_loss_scheduling: {enabled: true, momentum: 0.92}\n", 1)
	j, set := priced(t, recipe, 12*unit.GiB)
	said := strings.Join(j.Truths, "\n")
	for _, want := range []string{"datasets.val.lq_size (line 18) has no effect", "gradient_checkpointing is no key", "momentum of 0.92 acts 2 times"} {
		if !strings.Contains(said, want) {
			t.Errorf("it is not said that %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "millions of parameters") { // which of the networks of that name it is, is only assumed
		t.Errorf("without the checkout's own source:\n%s", said)
	}
	l := set.Ladder(ladder.Training)
	for _, r := range l.Rungs[l.Asked+1:] {
		if r.Values[job.MicroBatch] < 8 && r.Cost < ladder.Numerics {
			t.Errorf("%q costs %v", r.Name, r.Cost)
		}
	}
	if j, _ := priced(t, recipeYAML, 12*unit.GiB); len(j.Truths) != 0 {
		t.Errorf("of a plain recipe it is said: %q", j.Truths)
	}
}

// A rehearsal is short, lies in an experiment of its own that is named for removal, and is not made of what resumes.
func TestRehearsal(t *testing.T) {
	j, _ := priced(t, recipeYAML, 12*unit.GiB)
	out, err := j.Rewrite(j.Rehearsal.Edits, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := string(out.Files[0].Text)
	for _, want := range []string{"total_iter: 3", "val_freq: 2", "save_checkpoint_freq: 2", "name: \"" + job.ScratchName} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(j.Rehearsal.Leaves) == 0 || !strings.HasSuffix(j.Rehearsal.Leaves[0], "experiments/"+job.ScratchName) {
		t.Errorf("it leaves %q", j.Rehearsal.Leaves)
	}
	resumes, _ := priced(t, strings.Replace(recipeYAML, "path: {}", "path: {resume_state: a.state}", 1), 12*unit.GiB)
	if resumes.Rehearsal.None == "" {
		t.Error("what goes on from a state is rehearsed")
	}
}

// DAT normalises one pixel of each image over the batch: of one image alone it does not train, and no rung asks for that.
func TestSmallestBatch(t *testing.T) {
	for net, want := range map[string]string{"dat_light": "2", "compact": "1"} {
		_, set := priced(t, strings.Replace(recipeYAML, "type: compact", "type: "+net, 1), 4*unit.GiB)
		least := ""
		for _, r := range set.Ladder(ladder.Training).Rungs {
			for _, e := range r.Edits {
				if e.Knob == job.MicroBatch && (least == "" || len(e.To) < len(least) || len(e.To) == len(least) && e.To < least) {
					least = e.To
				}
			}
		}
		if least != want {
			t.Errorf("%s: the smallest micro-batch of its rungs is %q, want %s", net, least, want)
		}
	}
}

// Without a launcher "auto" is as many replicas as there are cards, and the first of them is the fullest.
func TestCardsByAuto(t *testing.T) {
	dir := folder(t, map[string]string{"x.yml": recipeYAML}, map[string][2]int{"val/a.png": {128, 96}, "gt/1.png": {8, 8}})
	command := func(devices int, args ...string) job.Command {
		return job.Command{Args: append(args, "train.py", "-opt", "x.yml"), Dir: dir, Env: []string{"PATH=/usr/bin"}, Devices: devices}
	}
	price := func(c job.Command) (int64, mem.Estimate) {
		j, err := recognizeAs(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if several := c.Devices > 1 && c.Args[0] == "python"; j.Batch.Replicas != several { // a process of torchrun's is a rank
			t.Errorf("%v on %d cards: %+v", c.Args, c.Devices, j.Batch)
		}
		set := plugintest.Ladders(t, New(), c, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB})
		l := set.Ladder(ladder.Training)
		return j.Batch.Ranks, l.Rungs[l.Asked].At(set.Shared.Asked)
	}
	has := func(e mem.Estimate, what string) bool {
		return slices.ContainsFunc(e.Items, func(it mem.Item) bool { return it.What == what })
	}
	var need *plugin.Need
	if _, err := New().Recognize(t.Context(), command(0, "python")); !errors.As(err, &need) || !need.Devices {
		t.Fatalf("how many cards there are was not asked for: %v", err)
	}
	n, one := price(command(-1, "python"))
	if n != 1 || has(one, "NCCL") {
		t.Errorf("not known how many: %d ranks, %+v", n, one.Items)
	}
	if n, two := price(command(2, "python")); n != 2 || !has(two, "NCCL") || has(two, "DDP buckets") || two.Of(mem.Inputs) != 2*one.Of(mem.Inputs) {
		t.Errorf("two cards: %d, %+v", n, two.Items)
	}
	if n, ddp := price(command(0, "torchrun", "--nproc_per_node", "2")); n != 2 || !has(ddp, "NCCL") || !has(ddp, "DDP buckets") || ddp.Of(mem.Inputs) != one.Of(mem.Inputs) {
		t.Errorf("two processes: %d ranks, %+v", n, ddp.Items)
	}
}

// A process for each GPU is as many ranks as there are GPUs, in words as in figures.
func TestRanksByWord(t *testing.T) {
	dir := folder(t, map[string]string{"x.yml": strings.Replace(recipeYAML, "num_gpu: auto", "num_gpu: 1", 1)}, map[string][2]int{"val/a.png": {128, 96}, "gt/1.png": {8, 8}})
	price := func(devices int, nproc string) (*job.Job, unit.Bytes, int64) {
		c := job.Command{Args: []string{"torchrun", "--nproc_per_node", nproc, "train.py", "-opt", "x.yml", "--launcher", "pytorch"}, Dir: dir, Env: []string{"PATH=/usr/bin"}, Devices: devices}
		j, err := recognizeAs(t, c)
		if err != nil {
			t.Fatalf("%s on %d: %v", nproc, devices, err)
		}
		set := plugintest.Ladders(t, New(), c, gpu.Device{Kind: gpu.CUDA, Total: 24 * unit.GiB})
		l := set.Ladder(ladder.Training)
		return j, l.Rungs[l.Asked].At(set.Shared.Asked).Total(), j.Batch.Ranks
	}
	_, two, _ := price(0, "2")
	_, one, _ := price(0, "1")
	for _, word := range []string{"gpu", "auto"} {
		var need *plugin.Need
		_, err := New().Recognize(t.Context(), job.Command{Args: []string{"torchrun", "--nproc_per_node", word, "train.py", "-opt", "x.yml"}, Dir: dir})
		if !errors.As(err, &need) || !need.Devices {
			t.Errorf("%s: how many GPUs there are was not asked for: %v", word, err)
		}
		if j, n, ranks := price(2, word); n != two || ranks != 2 || j.Batch.Replicas {
			t.Errorf("%s on two: %v of %d ranks, want %v", word, n, ranks, two)
		}
		if j, n, _ := price(-1, word); n != one || !strings.Contains(strings.Join(j.Warnings, "\n"), "how many there are is not known") || strings.Contains(strings.Join(j.Warnings, "\n"), "for each core") != (word == "auto") {
			t.Errorf("%s on nobody knows how many: %v, want %v; warns %q", word, n, one, j.Warnings)
		}
	}
	_, alone, _ := price(4, "4")
	for devices, share := range map[int]string{0: "", 1: "4 of them share a GPU", 2: "2 of them share a GPU", 3: "2 of them share a GPU", 4: "", -1: ""} {
		j, n, _ := price(devices, "4")
		if strings.Contains(strings.Join(j.Warnings, "\n"), "share a GPU") != (share != "") || !strings.Contains(strings.Join(j.Warnings, "\n"), share) {
			t.Errorf("four processes on %d GPUs: warns %q, want %q", devices, j.Warnings, share)
		}
		if k, _ := strconv.Atoi(share[:min(1, len(share))]); n != alone*unit.Bytes(max(1, k)) {
			t.Errorf("four processes on %d GPUs need %v of the fullest, want %d times %v", devices, n, max(1, k), alone)
		}
	}
	for _, wrong := range []string{"abc", "0"} {
		if j, _, _ := price(0, wrong); !strings.Contains(strings.Join(j.Warnings, "\n"), "torchrun will stop before it starts anything: --nproc_per_node is "+wrong) {
			t.Errorf("%s: warns %q", wrong, j.Warnings)
		}
	}
}

// Without a GPU by its recipe a job takes nothing of a card, and nothing of it is to be fitted to one; its host is.
func TestIdleCard(t *testing.T) {
	none := strings.Replace(recipeYAML, "num_gpu: auto", "num_gpu: 0", 1)
	_, set := priced(t, none, unit.GiB)
	for _, l := range append(set.Phases, set.Shared) {
		if len(l.Rungs) != 1 || l.Phase != ladder.Shared && !strings.Contains(l.Rungs[0].At(0).Unknown, "runs on the CPU") {
			t.Errorf("%s: %+v", l.Phase, l.Rungs)
		}
	}
	if len(set.Phases) != 2 || set.Host == nil || len(set.Host.Rungs) == 0 {
		t.Errorf("%d phases, host %+v", len(set.Phases), set.Host)
	}
	on := func(name, recipe, kind string) bool {
		dir := folder(t, map[string]string{name: recipe}, map[string][2]int{"val/a.png": {64, 64}, "gt/1.png": {8, 8}})
		j, err := recognize(t, dir, "python", "train.py", "-opt", name)
		if err != nil {
			t.Fatal(err)
		}
		set := plugintest.Ladders(t, New(), j.Command, gpu.Device{Kind: kind, Total: 12 * unit.GiB})
		return set.Ladder(ladder.Training).Rungs[0].At(0).Known()
	}
	basic := "name: x\nmodel_type: SRModel\nscale: 2\nnum_gpu: 0\n" +
		"network_g: {type: SRVGGNetCompact, upscale: 2}\ndatasets:\n  train: {gt_size: 64, batch_size_per_gpu: 2}\n" +
		"train:\n  optim_g: {type: Adam}\n  pixel_opt: {type: L1Loss}\n"
	toml := "name = \"x\"\nscale = 2\nnum_gpu = 0\n[datasets.train]\npatch_size = 32\nbatch_size = 2\n[network_g]\ntype = \"compact\"\n[train.optim_g]\ntype = \"adamw\"\n[train.pixel_opt]\ntype = \"l1loss\"\n"
	for _, tt := range []struct {
		name, recipe string
		kind         string
		priced       bool
	}{{"x.yml", none, gpu.CPU, true}, {"x.yml", recipeYAML, gpu.CUDA, true}, {"b.yml", basic, gpu.CUDA, false}, {"b.yml", basic, gpu.CPU, true}, {"n.toml", toml, gpu.CUDA, true}} {
		if got := on(tt.name, tt.recipe, tt.kind); got != tt.priced {
			t.Errorf("%s on %v: priced %v, want %v", tt.name, tt.kind, got, tt.priced)
		}
	}
}

// DataParallel deals what num_gpu counts to all cards that the process sees.
func TestCardsCounted(t *testing.T) {
	dir := folder(t, map[string]string{
		"x.yml": strings.Replace(recipeYAML, "num_gpu: auto", "num_gpu: 2", 1),
		"d.yml": strings.Replace(strings.Replace(recipeYAML, "compact", "dat_light", 1), "batch_size_per_gpu: 8 ", "batch_size_per_gpu: 1 ", 1),
	}, map[string][2]int{"val/a.png": {128, 96}, "gt/1.png": {8, 8}})
	said := func(recipe string, devices int, args ...string) string {
		j, err := recognizeAs(t, job.Command{Args: append(args, "train.py", "-opt", recipe), Dir: dir, Env: []string{"PATH=/usr/bin"}, Devices: devices})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(j.Warnings, "\n")
	}
	for _, tt := range []struct {
		devices int
		says    string
	}{{2, "the first card gathers the outputs of all 2"}, {-1, "the first card gathers the outputs of all 2"}, {4, "the process sees 4"}, {1, "the process sees 1"}} {
		if got := said("x.yml", tt.devices, "python"); !strings.Contains(got, tt.says) {
			t.Errorf("%d cards: %q, want %q", tt.devices, got, tt.says)
		}
	}
	if got := said("x.yml", 0, "torchrun", "--nproc_per_node", "2"); strings.Contains(got, "DataParallel") {
		t.Errorf("with a launcher: %q", got)
	}
	if got := said("d.yml", 1, "python"); !strings.Contains(got, "a micro-batch takes 2 of them at least") {
		t.Errorf("a micro-batch of one: %q", got)
	}
}

// The phases of a job are priced at once, and each asks which settings of an aliased recipe can be set.
func TestSettableAtOnce(t *testing.T) {
	r, _, err := readRecipe("x.yml", []byte(strings.Replace(recipeYAML, "batch_size_per_gpu: 8 ", "batch_size_per_gpu: &b 8 ", 1)+"other: *b\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var tasks []func()
	for range 8 {
		tasks = append(tasks, func() {
			for i := range 50 {
				if !r.settable(fmt.Sprint("val.new", i)) || r.settable(r.micro) {
					t.Error("another answer")
				}
			}
		})
	}
	mem.Together(tasks)
}
