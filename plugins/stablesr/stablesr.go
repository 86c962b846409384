// Package stablesr is the plugin of the latent-diffusion family: StableSR, its forks with edge maps, and the trainers that
// share main.py with it.
//
// It merges the recipe as main.py does, from saved configurations, --base, the dotlist and Trainer flags, and knows what a
// training step, a validation and an image log of it cost, and which settings change that.
package stablesr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// New returns the plugin.
func New() plugin.Plugin { return stablesr{} }

type stablesr struct{}

// Manifest implements [plugin.Plugin].
func (stablesr) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "stablesr", Version: "1", About: "StableSR, its edge forks, and trainers of latent-diffusion's kind",
		Env:   append(slices.Clone(plugin.Variables), "WANDB_*"),
		Archs: []string{"AutoencoderKLResi", "LatentDiffusion", "LatentDiffusionSRTextWT", "LatentDiffusionSRTextWTFFHQ", "LatentDiffusionSRTextWTWithEdge"},
		Marks: []plugin.Mark{
			{Script: "main.py", Flags: []string{"-b", "--base"}},
			{Script: "main.py", Flags: []string{"-r", "--resume"}, Beside: []string{"ldm"}},
			{Script: "train_with_edge*.py"},
		},
	}
}

// Recognize implements [plugin.Plugin].
func (stablesr) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	r, err := readCommand(c)
	if err != nil {
		return nil, err
	}
	if r.ranks < 0 { // all GPUs that there are
		switch c.Devices {
		case 0:
			return nil, &plugin.Need{Devices: true}
		default:
			r.ranks = max(1, int64(c.Devices)) * -r.ranks
		}
	}
	prices := begin(r, c)
	j, err := r.job(c)
	if err != nil {
		prices.drop()
		return nil, err
	}
	return &recognized{r, j, prices}, nil
}

// recognized is a command of this family.
type recognized struct {
	recipe *recipe
	job    *job.Job
	ahead  *ahead // what is priced of it until somebody asks
}

// Job implements [plugin.Recognized].
func (r *recognized) Job() *job.Job { return r.job }

// job is the command as launch needs it.
func (r *recipe) job(c job.Command) (j *job.Job, err error) {
	j = &job.Job{
		Command: c, Dialect: r.dialect(), Name: r.title(), Arch: arch.Config(section(r.root, "model")).Target(), Options: r.options,
		Batch: job.Batch{Micro: r.micro, Accumulation: r.accum, Ranks: r.ranks},
	}
	if g := r.edgeGeneration(); g != arch.NoEdge {
		j.Generation = "edge processor: " + g.String()
	}
	if j.Files, err = r.files(); err != nil {
		return nil, err
	}
	if r.entry == mainPy { // nil for a number that JSON lacks: then the user can ask for knobs and options only
		j.Merged, _ = json.Marshal(r.root)
	}
	if r.logdir != "" {
		j.Exclusive = file.In(c.Dir, r.logdir)
	}
	j.Knobs = r.knobs()
	j.Signs, j.Data = r.signs(), r.reads()
	j.Resume = r.resumption()
	if strings.Contains(r.main.Code, "signal.signal(signal.SIGUSR1, melk)") { // main.py:732 of IceClear's StableSR
		j.Save = job.Save{Signal: "SIGUSR1"}
	}
	if strings.Contains(r.main.Code, "trainer.save_checkpoint(") { // in its melk, which its failures call, too
		j.LastWords = "lightning"
	}
	mem.Together([]func(){func() { j.Rehearsal = r.rehearsal(j) }, func() { j.Warnings = r.warnings(j) }})
	j.Truths = r.truths()
	return j, nil
}

// readCommand reads a command, or says that it is of another family.
func readCommand(c job.Command) (*recipe, error) {
	prog, err := c.Prog()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	x, err := readCheckout(prog)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	if !x.takesBase() {
		return nil, fmt.Errorf("%w: %s takes no --base", plugin.ErrNotMine, prog.Script)
	}
	r, err := x.load(prog.Args, nil)
	switch {
	case errors.Is(err, errOther):
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	case errors.Is(err, config.ErrArgs):
		return nil, fmt.Errorf("reading the options of %s: %w", prog.Script, err)
	case err == nil:
		r.python = python.Of(prog, c.Env)
	}
	return r, err
}

// dialect names the project by the model that the recipe builds, and by the trainer that the checkout has.
func (r *recipe) dialect() string {
	target := text(r.root, keyTarget)
	name := target[strings.LastIndexByte(target, '.')+1:]
	switch {
	case r.entry == edgePy:
		return "StableSR, " + filepath.Base(r.prog.Script)
	case name == "LatentDiffusionSRTextWTWithEdge":
		return "StableSR with edge maps"
	case strings.HasPrefix(name, "LatentDiffusionSRTextWT"), name == "AutoencoderKLResi":
		return "StableSR"
	}
	switch r.code(target).Trainer {
	case arch.EditPairs:
		return "instruct-pix2pix"
	case arch.Views:
		return "zero123"
	case arch.Embeddings:
		return "textual inversion"
	case arch.TwoBatches:
		return "Dreambooth"
	}
	return "latent-diffusion"
}

func (r *recipe) edgeGeneration() arch.Generation {
	if r.model == nil {
		return arch.NoEdge
	}
	return r.model.Edge()
}

// resumption makes the command go on from the last.ckpt that the dying run wrote.
func (r *recipe) resumption() job.Resume {
	at := func(path string) config.Address { return config.Address{Doc: config.ArgvDoc, Path: path} }
	if r.namesFolder() { // the program finds last.ckpt itself, in the one folder that its name has
		from, there := r.argv.Get("--resume_from_checkpoint")
		return job.Resume{Edits: []config.Edit{{Knob: "resume", At: at("--resume_from_checkpoint"), From: from,
			To:  job.SavedPath,
			Add: !there, Cost: "none"}}}
	}
	resume := config.Edit{Knob: "resume", At: at("--resume"), To: job.SavedPath, Cost: "none"}
	resume.From, _ = r.argv.Get("--resume")
	resume.Add = !r.argv.Has("--resume")
	out := job.Resume{}
	switch v, named := r.argv.Get("--name"); {
	case r.entry == edgePy && named && v != "": // the script always hands a name on, and main.py refuses both
		out.Edits = append(out.Edits, config.Edit{Knob: "resume", At: at("--name"), From: v, Cost: "none"})
	case r.entry == edgePy && !named && !r.argv.Has("--name="):
		out.Edits = append(out.Edits, config.Edit{Knob: "resume", At: at("--name="), Add: true, Cost: "none"})
	case r.entry == mainPy && named:
		out.Edits = append(out.Edits, config.Edit{Knob: "resume", At: at("--name"), From: v, Remove: true, Cost: "none"})
	}
	out.Edits = append(out.Edits, resume)
	return out
}

// rehearsal shortens the run: one accumulation of micro-batches, one validation, one saved state, no image log.
func (r *recipe) rehearsal(j *job.Job) job.Rehearsal {
	if r.entry == edgePy {
		return job.Rehearsal{None: filepath.Base(r.prog.Script) + " has no option for its log folder: it would write among the real runs"}
	}
	if r.logdir != "" {
		return job.Rehearsal{None: "the command goes on with a run, in whose folder it would write"}
	}
	if r.micro <= 0 || r.accum <= 0 {
		return job.Rehearsal{None: "the recipe does not say how many micro-batches make a step"}
	}
	short := func(key string, value int) change { return change{knob: "rehearsal", key: key, value: value} }
	batches := int(max(2, r.micro*r.accum)) // of which every rung makes at least one step
	changes := []change{
		short(trainerKey+"max_epochs", 1), short(trainerKey+"max_steps", batches), // never before the epoch's end, and so its validation
		short(trainerKey+"limit_train_batches", batches), short(trainerKey+"limit_val_batches", 2),
		short("lightning.modelcheckpoint.params.every_n_train_steps", 1),
	}
	if v, ok := get(r.root, keyImages+".disabled"); !ok || v != true {
		changes = append(changes, change{knob: "rehearsal", key: keyImages + ".disabled", value: true, why: "an image log takes a thousand steps of diffusion"})
	}
	edits, err := r.makes(j, changes...)
	if err != nil {
		return job.Rehearsal{None: fmt.Sprintf("it cannot be shortened: %v", err)}
	}
	at := config.Address{Doc: config.ArgvDoc, Path: "--logdir"}
	from, there := r.argv.Get("--logdir")
	edits = append(edits, config.Edit{Knob: "rehearsal", At: at, From: from, To: job.Scratch, Add: !there, Cost: "none"})
	if !slices.ContainsFunc(r.environ(j), func(kv string) bool { return strings.HasPrefix(kv, "WANDB_MODE=") }) {
		edits = append(edits, config.Edit{Knob: "rehearsal", At: config.Address{Doc: config.EnvDoc, Path: "WANDB_MODE"}, To: "disabled", Add: true, Cost: "none"})
	}
	return job.Rehearsal{Edits: edits}
}

// environ is what the program's environment is made of.
func (r *recipe) environ(j *job.Job) []string {
	return r.prog.Environ(j.Command.Env)
}
