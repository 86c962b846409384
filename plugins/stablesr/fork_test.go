package stablesr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

const (
	ddpmFile      = "ldm/models/diffusion/ddpm.py"
	attentionFile = "ldm/modules/attention.py"
	utilFile      = "ldm/modules/diffusionmodules/util.py"
)

// fork is a checkout of a latent-diffusion trainer, with files of it edited; an edit of "" makes a new file of what
// it gives.
func fork(t *testing.T, edits map[string]func(string) string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/fork")); err != nil {
		t.Fatal(err)
	}
	for name, edit := range edits {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		write(t, filepath.Join(dir, name), edit(string(text)))
	}
	return dir
}

func forkJob(t *testing.T, dir string, more ...string) *job.Job {
	t.Helper()
	return mine(t, dir, append([]string{"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--actual_resume",
		"m.ckpt"}, more...)...)
}

func forkRecipe(t *testing.T, dir string, more ...string) *recipe {
	t.Helper()
	r, err := readCommand(forkJob(t, dir, more...).Command)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Sources of our own, with no more than what is looked for.
const (
	switchedOff = "def checkpoint(func, inputs):\n    \"\"\"What.\"\"\"\n    if False:  # off\n        pass\n"
	switchedOn  = "def checkpoint(func, flag):\n    if flag:\n        pass\n    if False:\n        pass\n"
	handedOn    = "class SpatialTransformer(M):\n    B(checkpoint=use_checkpoint)\n"
	guidedCall  = "        self.log(unconditional_guidance_scale=5.0,\n            unconditional_conditioning=uc)\n"
	brokenVQ    = "class VQModel(P):\n    self.loss(predicted_indices=ind)\n    version.parse(v)\n"
)

// between replaces what stands between two lines of a recipe.
func between(from, to, with string) func(string) string {
	return func(s string) string {
		head, rest, _ := strings.Cut(s, from)
		_, tail, _ := strings.Cut(rest, to)
		return head + from + with + to + tail
	}
}

// trainedOn is the recipe with another data set.
func trainedOn(set string) map[string]func(string) string {
	return map[string]func(string) string{"r.yaml": between("    train:", "\n    validation:", " "+set)}
}

// as makes a file that text.
func as(text string) func(string) string { return func(string) string { return text } }

// The options that this main.py declares are its own, and what it declares nowhere is ignored as before.
func TestForkOptions(t *testing.T) {
	j := forkJob(t, fork(t, nil), "--finetune_from", "--quick", "--slow", "data.params.batch_size=2")
	for _, declared := range []string{"--actual_resume", "--finetune_from", "--quick", "m.ckpt"} {
		if strings.Contains(joined(j.Warnings), declared) {
			t.Errorf("%s is declared, and warned of: %q", declared, j.Warnings)
		}
	}
	if !strings.Contains(joined(j.Warnings), "no option --slow") || j.Batch.Micro != 2 {
		t.Errorf("micro-batch %d, %q", j.Batch.Micro, j.Warnings)
	}
	bare := mine(t, fork(t, nil), "main.py", "--train", "--base", "r.yaml", "--gpus", "0,")
	if !strings.Contains(joined(bare.Warnings), "stops without --actual_resume") || strings.Contains(joined(j.Warnings),
		"stops without") {
		t.Errorf("%q and %q", bare.Warnings, j.Warnings)
	}
	later := forkJob(t, fork(t, nil), "--strategy", "ddp", "--detect_anomaly", "lightning.trainer.strategy=ddp")
	if all := joined(later.Warnings); strings.Contains(all, "no option") || strings.Contains(all, "no override") ||
		strings.Count(all, "Lightning 1.5 and later") != 2 || strings.Contains(all, "no such argument") {
		t.Errorf("arguments of a newer Lightning: %s", all)
	}
	plain := mine(t, checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil}),
		"main.py", "--train", "--base", "r.yaml", "--gpus", "0,", "--actual_resume", "m.ckpt")
	if !strings.Contains(joined(plain.Warnings), "no option --actual_resume") {
		t.Errorf("another main.py does not have it: %q", plain.Warnings)
	}
}

// A training's phases are all priced, the image log with what it is called with, and the host's memory is known.
func TestForkPhases(t *testing.T) {
	j := forkJob(t, fork(t, nil))
	set := laddersOf(t, j, card(80*unit.GiB))
	of := func(phase string) mem.Estimate {
		l := set.Ladder(phase)
		if l == nil {
			t.Fatalf("%s has no ladder", phase)
		}
		return l.Rungs[0].At(set.Shared.Asked)
	}
	trained, validated, logged := of(ladder.Training), of(ladder.Validation), of(images)
	if !trained.Known() || !validated.Known() || !logged.Known() || set.Host.Unknown != "" {
		t.Errorf("%q, %q, %q, %q", trained.Unknown, validated.Unknown, logged.Unknown, set.Host.Unknown)
	}
	if strings.Contains(joined(j.Warnings), "xformers") {
		t.Errorf("attention.py does not look for xformers: %q", j.Warnings)
	}
	// Training's images are of 512, and the validation's of 256.
	if r := forkRecipe(t, fork(t, nil)); r.size != 512 || r.valSize != 256 {
		t.Errorf("images of %d and of %d", r.size, r.valSize)
	}
	larger := laddersOf(t, forkJob(t, fork(t, map[string]func(string) string{"r.yaml": replace("output_size: 256",
		"output_size: 512")})),
		card(80*unit.GiB))
	if e := larger.Ladder(ladder.Validation).Rungs[0].At(larger.Shared.Asked); e.Total() < validated.Total()+2*unit.GiB {
		t.Errorf("a validation of images of 512 takes %v, and of 256 %v", e.Total(), validated.Total())
	}
	// Guidance doubles the samples: six latents of 64 × 64 look at each other at once, twice 4096² numbers a head.
	without := laddersOf(t, forkJob(t, fork(t, map[string]func(string) string{"r.yaml": replace("guidance_scale: 3.0",
		"guidance_scale: 1.0")})),
		card(80*unit.GiB))
	least := 3 * 8 * 4096 * 4096 * 4 * unit.Bytes(1)
	if more := logged.Total() - without.Ladder(images).Rungs[0].At(without.Shared.Asked).Total(); more < least {
		t.Errorf("guidance takes %v more, want at least %v", more, least)
	}
	// The log takes three of a batch: beyond that only images of the batch itself are more.
	batches := []variant{{micro: 2, accum: 1, size: 512}, {micro: 3, accum: 1, size: 512}, {micro: 5, accum: 1,
		size: 512}, {micro: 8, accum: 1, size: 512}}
	r := forkRecipe(t, fork(t, nil))
	b := newBuilder(r, j, card(80*unit.GiB))
	got := b.bare(logging, batches)
	for i, v := range batches {
		if alone := b.bare(logging, []variant{v})[0]; alone.Total() != got[i].Total() {
			t.Errorf("micro-batch %d: %v, by itself %v", v.micro, got[i].Total(), alone.Total())
		}
	}
	if a, z := got[1].Total(), got[3].Total(); z-a > 100*unit.MiB || z < a {
		t.Errorf("a batch of 8 takes %v, one of 3 %v", z, a)
	}
	for name, more := range map[string][]string{
		"of no batch": {"lightning.trainer.limit_val_batches=0"},
		"never":       {"lightning.trainer.num_sanity_val_steps=0", "lightning.trainer.val_check_interval=5000000"},
	} {
		if laddersOf(t, forkJob(t, fork(t, nil), more...), card(80*unit.GiB)).Ladder(ladder.Validation) != nil {
			t.Errorf("%s: there is a validation", name)
		}
	}
	for name, edit := range map[string]func(string) string{
		"disabled":    replace("max_images: 4", "max_images: 4\n        disabled: True"),
		"of no image": replace("max_images: 4", "max_images: 0"),
	} {
		off := forkJob(t, fork(t, map[string]func(string) string{"r.yaml": edit}))
		if laddersOf(t, off, card(80*unit.GiB)).Ladder(images) != nil {
			t.Errorf("%s: there is an image log", name)
		}
	}
}

// What log_images is called with: its defaults in this class, and of the recipe's what it takes.
func TestLogImagesArguments(t *testing.T) {
	base := arch.Images{N: 3, Rows: 3, Sample: true, Quantized: true, Guided: true, EMA: true}
	changed := func(f func(*arch.Images)) arch.Images {
		g := base
		f(&g)
		return g
	}
	none := replace("log_images_kwargs", "others")
	for name, tt := range map[string]struct {
		edits map[string]func(string) string
		want  arch.Images
	}{
		"the recipe's": {nil, base},
		"defaults": {map[string]func(string) string{"r.yaml": none},
			changed(func(g *arch.Images) { g.N, g.Guided, g.ProgressiveRows = 5, false, true })},
		"no guidance to ask for": {map[string]func(string) string{ddpmFile: replace("unconditional_guidance_scale=1.0, ",
			"")},
			changed(func(g *arch.Images) { g.Guided = false })},
		"always guided": {map[string]func(string) string{ddpmFile: replace("        return {}\n", guidedCall),
			"r.yaml": none},
			changed(func(g *arch.Images) { g.N, g.ProgressiveRows = 5, true })},
		"averages stay": {map[string]func(string) string{"r.yaml": replace("not_taken", "use_ema_scope")},
			base},
		"averages go": {map[string]func(string) string{"r.yaml": replace("not_taken: True",
			"use_ema_scope: False")}, changed(func(g *arch.Images) { g.EMA = false })},
		"CompVis's, without a source": {map[string]func(string) string{ddpmFile: as(""), "r.yaml": none},
			arch.CompVisImages()},
	} {
		r := forkRecipe(t, fork(t, tt.edits))
		if got := r.logImages(text(r.root, keyTarget), section(r.root, keyImages)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// Whose trainer it is, by what only its code has.
func TestTrainers(t *testing.T) {
	after := func(line string) func(string) string {
		return func(s string) string { return s + "\n        " + line + "\n" }
	}
	for name, tt := range map[string]struct {
		edits map[string]func(string) string
		want  arch.Code
	}{
		"CompVis's": {nil, arch.Code{}},
		"two views": {map[string]func(string) string{ddpmFile: after("self.cc_projection = None")},
			arch.Code{Trainer: arch.Views}},
		"an image and its edit": {map[string]func(string) string{ddpmFile: after(`xc["c_concat"]`)},
			arch.Code{Trainer: arch.EditPairs}},
		"words": {map[string]func(string) string{ddpmFile: after("self.instantiate_embedding_manager(c)")},
			arch.Code{Trainer: arch.Embeddings}},
		"words in a comment": {map[string]func(string) string{ddpmFile: after("# self.instantiate_embedding_manager(c)")},
			arch.Code{}},
		"two batches": {map[string]func(string) string{ddpmFile: after("a + self.reg_weight * loss_reg")},
			arch.Code{Trainer: arch.TwoBatches}},
		"nothing recomputed": {map[string]func(string) string{utilFile: as(switchedOff)}, arch.Code{Kept: true}},
		"recomputed":         {map[string]func(string) string{utilFile: as(switchedOn)}, arch.Code{}},
		"blocks as StableSR's": {map[string]func(string) string{attentionFile: replace("checkpoint=True",
			"checkpoint=False")}, arch.Code{Blocks: arch.BlocksNever}},
		"blocks as the recipe says": {map[string]func(string) string{attentionFile: as(handedOn)},
			arch.Code{Blocks: arch.BlocksAsked}},
		"a folder on Python's path": {map[string]func(string) string{"main.py": replace("./elsewhere", "./sub"),
			"sub/" + ddpmFile: as("self.cc_projection")},
			arch.Code{Trainer: arch.Views}},
	} {
		r := forkRecipe(t, fork(t, tt.edits))
		if got := r.code(text(r.root, keyTarget)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if own := tt.want.Trainer != arch.CompVis; own == (r.dialect() == "latent-diffusion") {
			t.Errorf("%s is called %s", name, r.dialect())
		}
	}
}

// How large images are is the data set's to say: its arguments, its transforms, a default that is known. What a first
// stage was made for is no answer.
func TestImageSizes(t *testing.T) {
	transforms := func(list string) string { return "{target: any.Set, params: {image_transforms: [" + list + "]}}" }
	crop, resize := "{target: t.CenterCrop, params: {size: 384}}", "{target: t.Resize, params: {size: 256}}"
	for set, want := range map[string]int64{
		"{target: any.Set, params: {size: 256}}":                                               256,
		"{target: any.Set, params: {size: 768, crop_size: 512}}":                               512,
		"{target: any.Set, params: {config: {size: 128}}}":                                     128,
		"{target: any.Set, params: {other: 256}}":                                              0,
		"{target: any.Set}":                                                                    0,
		"{target: edit_dataset.EditDataset, params: {path: x}}":                                256,
		"{target: edit_dataset.EditDataset, params: {crop_res: 128, max_resize_res: 256}}":     128,
		"{target: basicsr.data.paired_image_dataset.PairedImageDataset, params: {gt_size: 5}}": 5,
		"{target: any.Set, params: {gt_size: 5}}":                                              0,
		"{image_transforms: {size: 256}}":                                                      256,
		transforms(resize):                                                                     0,
		transforms(resize + "," + crop):                                                        384,
		transforms(crop + "," + resize):                                                        256,
		transforms("{target: t.Resize, params: {size: [64, 64]}}"):                             64,
		transforms(crop + ",{target: t.Resize, params: {size: [64, 32]}}"):                     0,
		transforms(""): 0,
	} {
		r := forkRecipe(t, fork(t, trainedOn(set)))
		if got := r.imageSize("train"); got != want {
			t.Errorf("%s: %d, want %d", set, got, want)
		}
	}
	set := laddersOf(t, forkJob(t, fork(t, trainedOn("{target: any.Set}"))), card(80*unit.GiB))
	if e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked); e.Known() || !strings.Contains(e.Unknown,
		"how large the images are") {
		t.Errorf("of a data set that says nothing: %v (%s)", e.Total(), e.Unknown)
	}
}

// A sample of the data sets that are known, and that another is not known is said with its name.
func TestForkSamples(t *testing.T) {
	const square = 3 * 256 * 256 * 4
	for set, want := range map[string]unit.Bytes{
		"{target: ldm.data.personalized.PersonalizedBase, params: {size: 256}}":            square,
		"{target: ldm.data.personalized_style.PersonalizedBase, params: {size: 256}}":      square,
		"{target: ldm.data.lsun.LSUNBedroomsTrain, params: {size: 256}}":                   square,
		"{target: ldm.data.imagenet.ImageNetTrain, params: {config: {size: 256}}}":         square,
		"{target: ldm.data.imagenet.ImageNetSRTrain, params: {size: 256, downscale_f: 2}}": square + square/4,
		"{target: ldm.data.imagenet.ImageNetSRTrain, params: {size: 256}}":                 square + square/16,
		"{target: edit_dataset.EditDataset, params: {path: x}}":                            2 * square,
		"{target: somebodys.Set, params: {size: 256}}":                                     0,
	} {
		r := forkRecipe(t, fork(t, trainedOn(set)))
		got, _, why := r.sample("train")
		if got != want || (why == "") != (want > 0) || want == 0 && !strings.Contains(why, "somebodys.Set") {
			t.Errorf("%s: %v (%s), want %v", set, got, why, want)
		}
	}
	two := forkRecipe(t, fork(t, nil),
		"data.params.reg={target: ldm.data.personalized.PersonalizedBase, params: {size: 512}}")
	if n, _, _ := two.sample("train"); n != 2*3*512*512*4 {
		t.Errorf("with images to keep a sample is %v", n)
	}
	views := forkRecipe(t, fork(t, trainedOn("{validation: False, image_transforms: {size: 256}}")),
		"data.target=ldm.data.simple.ObjaverseDataModuleFromConfig")
	if n, _, why := views.sample("train"); n != 2*square || views.size != 256 {
		t.Errorf("two views are %v (%s), images of %d", n, why, views.size)
	}
}

// What the checkout's own code does with a recipe that is in order.
func TestForkWarnings(t *testing.T) {
	const vq = " {target: ldm.models.autoencoder.VQModel, params: {embed_dim: 3, n_embed: 64, " +
		"ddconfig: {z_channels: 3, ch: 32, ch_mult: [1, 2], in_channels: 3, out_ch: 3}, " +
		"lossconfig: {target: taming.modules.losses.vqperceptual.VQLPIPSWithDiscriminator, params: {disc_start: 1}}}}"
	auto := "ldm/models/autoencoder.py"
	for name, tt := range map[string]struct {
		edits map[string]func(string) string
		args  []string
		want  []string
		not   []string
	}{
		"in order":                     {nil, nil, nil, []string{"use_checkpoint", "predicted_indices"}},
		"a data set that is not there": {nil, nil, []string{"ldm.data.simple is not in this checkout"}, nil},
		"a data set that is": {map[string]func(string) string{"ldm/data/simple.py": as("def hf_dataset():\n    pass\n")},
			nil, nil,
			[]string{"is not in this checkout"}},
		"no data": {map[string]func(string) string{"r.yaml": between("context_dim: 768", "lightning:",
			",\n        legacy: False}\n")}, nil,
			[]string{"no section data"}, nil},
		"half of the bits": {nil, []string{"lightning.trainer.precision=16"}, []string{"precision 16 stops"}, nil},
		"half, recomputed in half": {map[string]func(string) string{utilFile: as("autocast()\n")},
			[]string{"lightning.trainer.precision=bf16"}, nil, []string{"precision"}},
		"half, and nothing recomputed": {map[string]func(string) string{utilFile: as(switchedOff)},
			[]string{"lightning.trainer.precision=16"}, nil, []string{"precision"}},
		"nothing is recomputed": {map[string]func(string) string{utilFile: as(switchedOff)}, nil,
			[]string{"use_checkpoint: True has no effect"}, nil},
		"nothing was to be": {map[string]func(string) string{utilFile: as(switchedOff),
			"r.yaml": replace("use_checkpoint: True", "use_checkpoint: False")}, nil, nil, []string{"use_checkpoint"}},
		"VQModel": {map[string]func(string) string{auto: as(brokenVQ), "r.yaml": between("model:", "\ndata:", vq)}, nil,
			[]string{"version without importing it", "predicted_indices, which taming."}, nil},
	} {
		all := joined(forkJob(t, fork(t, tt.edits), tt.args...).Warnings)
		for _, want := range tt.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: no %q in\n%s", name, want, all)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(all, not) {
				t.Errorf("%s: %q in\n%s", name, not, all)
			}
		}
	}
}

// A main.py may name the logger that asks for a login, and take another.
func TestForkLogger(t *testing.T) {
	names := "\nlogger = WandbLogger()\n"
	for more, want := range map[string]bool{"": false, names: true,
		names + "cfg = default_logger_cfgs[\"testtube\"]\n": false,
		names + "cfg = default_logger_cfgs[\"wandb\"]\n":    true} {
		r := forkRecipe(t, fork(t, map[string]func(string) string{"main.py": func(s string) string { return s + more }}))
		if got := r.logsToWandb(); got != want {
			t.Errorf("%q: %v", more, got)
		}
	}
}

// Autocast saves more than float32 where attention is computed whole: softmax's maps in both types, and copies of
// weights (latent_amp_inversion.json beside latent_inversion.json). The weights stay as they are.
func TestForkPrecision(t *testing.T) {
	saved := func(more ...string) (saved, weights unit.Bytes) {
		dir := fork(t, map[string]func(string) string{utilFile: as(switchedOff)})
		set := laddersOf(t, forkJob(t, dir, more...), card(80*unit.GiB))
		e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked)
		return e.Of(mem.Saved), e.Of(mem.Parameters)
	}
	full, weights := saved()
	half, same := saved("lightning.trainer.precision=16")
	if half < full*11/10 || half > full*2 || same != weights {
		t.Errorf("in half %v is saved, else %v; weights %v and %v", half, full, same, weights)
	}
}

// The averages' backup stays once they were swapped in, and never comes where they are not.
func TestBackup(t *testing.T) {
	backup := func(phase string, edit func(string) string, more ...string) (n unit.Bytes) {
		averaged := both(replace("use_ema: False", "use_ema: True"), edit)
		set := laddersOf(t, forkJob(t, fork(t, map[string]func(string) string{"r.yaml": averaged}), more...),
			card(80*unit.GiB))
		for _, it := range set.Ladder(phase).Rungs[0].At(set.Shared.Asked).Items {
			if strings.HasSuffix(it.What, "EMA backup") {
				n += it.Bytes
			}
		}
		return n
	}
	quiet := replace("not_taken: True", "use_ema_scope: False")
	asked := backup(ladder.Training, replace())
	if asked < 3*unit.GiB {
		t.Errorf("the sanity check swaps, and %v is kept", asked)
	}
	for name, tt := range map[string]struct {
		edit func(string) string
		more []string
		want unit.Bytes
	}{
		"an image log swaps": {replace(), []string{"lightning.trainer.num_sanity_val_steps=0",
			"lightning.trainer.val_check_interval=5000000"}, asked},
		"a validation swaps": {quiet, []string{"lightning.trainer.num_sanity_val_steps=0"}, asked},
		"nothing ever swaps": {quiet, []string{"lightning.trainer.num_sanity_val_steps=0",
			"lightning.trainer.val_check_interval=5000000"}, 0},
	} {
		for _, phase := range []string{ladder.Training, images} {
			if got := backup(phase, tt.edit, tt.more...); got != tt.want {
				t.Errorf("%s, %s: %v, want %v", name, phase, got, tt.want)
			}
		}
	}
}

// Where a main.py names its folder without the time of day, the states lie there, and nothing of the name is taken
// away.
func TestNamedFolder(t *testing.T) {
	named := map[string]func(string) string{"main.py": func(s string) string {
		return s + "\nnowname = f\"{cfg_name}_{opt.name}\"\n"
	}}
	j := forkJob(t, fork(t, named), "--name", "first[1]")
	if got := j.Signs.States[0]; got != `logs/r_first\[1]/checkpoints/last.ckpt` {
		t.Errorf("states at %s", got)
	}
	if e := j.Resume.Edits; len(e) != 1 || e[0].At.Path != "--resume_from_checkpoint" || !e[0].Add ||
		e[0].To != job.SavedPath {
		t.Errorf("it resumes by %+v", e)
	}
	if other := forkJob(t, fork(t, nil), "--name", "first"); !strings.Contains(other.Signs.States[0], "????-??-??T") {
		t.Errorf("states at %s", other.Signs.States[0])
	}
}
