package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
)

// attemptFolder is the placeholder for the folder that an attempt will create, the same as in a printed command.
const attemptFolder = "{attempt}"

// programOf is a digest of the job without micro-batch and accumulation, and without the settings that do not change
// memory. So it is the same at every size and, for example, at every learning rate.
func programOf(j *job.Job) string {
	var edits []config.Edit
	var sizes []string // options
	for _, k := range j.Knobs {
		switch {
		case k.Name != job.MicroBatch && k.Name != job.Accumulation || k.Dead != "":
		case k.At.Doc == config.ArgvDoc:
			sizes = append(sizes, k.At.Path)
		default:
			edits = append(edits, config.Edit{Knob: k.Name, At: k.At, From: k.Value, To: "1", Add: k.Default})
		}
	}
	made, err := j.Rewrite(append(edits, ignoredInFiles(j)...), attemptFolder)
	if err != nil { // each size is then another program, and less is learned
		made = &job.Rewritten{Command: j.Command}
	}
	h := sha256.New()
	put := func(parts ...string) {
		for _, p := range parts {
			fmt.Fprintf(h, "%d %s", len(p), p)
		}
	}
	put(j.Command.Dir, j.Plugin, j.Dialect)
	put(MaskArgs(telling(j, made.Command, sizes))...)
	put(around(j)...)
	for _, f := range j.Files {
		text := string(f.Text)
		for _, g := range made.Files {
			if cmp.Or(g.From, g.Path) == f.Path && g.Format == f.Format && len(g.Text) > 0 {
				text = string(g.Text)
			}
		}
		if text == "" && f.Source != nil {
			text = f.Source.SHA256
		}
		put(filepath.Base(f.Path), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// ignoredInFiles returns edits that give the same value to settings of the recipe's files that do not change memory.
func ignoredInFiles(j *job.Job) (edits []config.Edit) {
	for _, path := range j.Ignore {
		doc, within, one := strings.Cut(path, ": ") // "conf.yaml: train.lr" of one file, "train.lr" of each
		if one {
			path = within
		}
		for _, f := range j.Files {
			if one && f.Path != doc && filepath.Base(f.Path) != doc {
				continue
			}
			tree, err := f.Open()
			if err != nil {
				continue
			}
			at := config.Address{Doc: f.Path, Path: path}
			if from, ok := tree.Get(path); ok {
				for _, e := range j.Asked {
					if e.At == at {
						from = e.To
					}
				}
				edits = append(edits, config.Edit{At: at, From: from, To: "0"})
			}
		}
	}
	return edits
}

// telling returns the arguments of a command on which the memory of a job may depend.
func telling(j *job.Job, c job.Command, sizes []string) []string {
	prog, err := command.Program(c.Args, c.Env, c.Dir)
	if err != nil {
		return c.Args
	}
	args := prog.Args
	if argv, err := config.ParseArgv(args, j.Options); err == nil {
		for _, path := range sizes {
			_ = argv.Remove(path) // it is not there if the program's default counts
		}
		args = argv.Args()
	}
	if all, err := prog.WithArgs(without(j, args)); err == nil {
		return all
	}
	return c.Args
}

// A word is an option with its value, a KEY=VALUE argument, or another argument.
type word struct {
	name  string // "--lr", or "lr" of a KEY=VALUE argument; "" for another argument
	value string
	spelt []string
}

// without returns the arguments that are not ignored.
func without(j *job.Job, args []string) (out []string) {
	for _, w := range programWords(args, j.Options) {
		if !ignored(j, w) {
			out = append(out, w.spelt...)
		}
	}
	return out
}

// programWords divides arguments into words. An option takes the argument after it as its value if that is no
// option, and if it is not declared as a flag.
func programWords(args []string, options []config.Option) (out []word) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		key, value, joined := strings.Cut(a, "=")
		w := word{value: value, spelt: args[i : i+1]}
		switch {
		case isOption(a):
			w.name = key
			flag := slices.ContainsFunc(options, func(o config.Option) bool {
				return o.Takes == config.None && slices.Contains(o.Names, key)
			})
			if !joined && !flag && i+1 < len(args) && !isOption(args[i+1]) {
				w.value, w.spelt = args[i+1], args[i:i+2]
				i++
			}
		case joined:
			w.name = strings.TrimLeft(key, "+~") // Hydra's signs
		}
		out = append(out, w)
	}
	return out
}

func isOption(a string) bool {
	_, err := strconv.ParseFloat(a, 64)
	return len(a) > 1 && a[0] == '-' && err != nil
}

// ignored reports whether a word does not change the memory of a job: because the job's plugin says so or, for a job
// that nobody wrote a formula for, by the setting's name.
func ignored(j *job.Job, w word) bool {
	if w.name == "" {
		return false
	}
	return slices.Contains(j.Ignore, w.name) || slices.Contains(j.Ignore, w.name+"=") ||
		j.Arch == "" && harmless(w.name, w.value)
}

// Settings that are ignored without a declaration: a scalar that a step multiplies with, the seed, how often
// something is printed, and names of what is written. A name is on the lists only if a program can hardly use it for
// something that a tensor's shape depends on. So "name", "experiment" and "config" are not, which select models in
// many projects, nor momentum and weight decay, which add optimizer states and temporaries, nor numbers of steps,
// which bound what a short run has measured.
//
// A learning rate is at most 1. In image restoration "lr" is a low resolution, which is not.
//
// If a program does use one of them so, an estimate is wrong: launch may try a size that does not fit, or take a
// smaller micro-batch than needed. It refuses nothing for it: estimates of jobs without a formula have no certain
// lines.
var (
	harmlessRates   = []string{"lr", "learning-rate", "base-lr", "init-lr", "initial-lr", "peak-lr", "max-lr", "min-lr"}
	harmlessNumbers = []string{"seed", "random-seed", "rand-seed", "manual-seed", "global-seed",
		"log-every", "log-interval", "log-freq", "log-steps", "logging-steps", "print-freq", "print-every",
		"print-interval"}
	harmlessNames = []string{"output-dir", "out-dir", "outdir", "save-dir", "log-dir", "logdir", "logging-dir",
		"results-dir", "result-dir", "run-dir", "run-name", "exp-name", "experiment-name", "wandb-project", "wandb-name",
		"wandb-run-name", "wandb-group", "wandb-entity", "hydra.run.dir", "hydra.sweep.dir"}
	harmlessFolders = []string{"out", "output"} // unless it is a number, which may be a width
)

// harmless reports whether a setting is on these lists. Of a dotted name the last part counts: "optimizer.lr".
func harmless(name, value string) bool {
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	last := name[strings.LastIndexByte(name, '.')+1:]
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err == nil && (slices.Contains(harmlessNumbers, last) || n <= 1 && slices.Contains(harmlessRates, last)):
		return true
	case err != nil && slices.Contains(harmlessFolders, name):
		return true
	}
	return slices.Contains(harmlessNames, last) || slices.Contains(harmlessNames, name)
}
