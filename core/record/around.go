package record

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
)

// maxAround bounds what is read of a script or of a file of settings, in bytes.
const maxAround = 1 << 20

var (
	// environ matches a variable that a Python script reads by its name.
	environ = lazy.MustCompile(`(?:environ(?:\.get\(|\.setdefault\(|\[)|getenv\()\s*["'](\w+)["']`)
	// namedRecipe matches a file of settings that a script names itself.
	namedRecipe = lazy.MustCompile(`["']([\w./-]+\.(?:ya?ml|toml))["']`)
	// passing are variables that differ from run to run, and change no need.
	passing = lazy.MustCompile(`^(SLURM_|WANDB_|MASTER_|(LOCAL_)?RANK$|WORLD_SIZE$|` +
		`((CUDA|HIP|ROCR)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|TMPDIR)$)`)
	// forSettings are the names of options that name a JSON file of settings: programs write such files, too.
	forSettings = lazy.MustCompile(`(?i)conf|cfg|opt|recipe|setting|arg|param|deepspeed|base`)
)

// around lists what changes the memory of a job without a formula beside its arguments and the files that its plugin
// reads: its ranks, its script, the files of settings that both name, and the variables that the script reads. A need
// that was measured before one of them changed is another one: else a job could keep to a small size that a larger
// model needed. Modules that the script imports do not count, because most changes in them change no memory.
func around(j *job.Job) (out []string) {
	prog, err := command.Program(j.Command.Args, j.Command.Env, j.Command.Dir)
	if err != nil || j.Arch != "" {
		return nil
	}
	script := []byte(textOf("", prog.Path()))
	out = append(out, string(script), fmt.Sprint(j.Batch.Ranks)) // which may be those of all cards, and share states
	var names []string
	for _, m := range environ.FindAllSubmatch(script, -1) {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, kv := range j.Command.Env {
			if key, _, _ := strings.Cut(kv, "="); key == name && !passing.MatchString(name) {
				out = append(out, kv)
			}
		}
	}
	for _, w := range programWords(slices.Concat(j.Command.Args, prog.Args), j.Options) { // a launcher has settings, too
		value := w.value
		if w.name == "" {
			value = w.spelt[0]
		}
		switch filepath.Ext(value) {
		case ".yaml", ".yml", ".toml", ".py":
		case ".json":
			if w.name != "" && !forSettings.MatchString(w.name) {
				continue
			}
		default:
			continue
		}
		if !ignored(j, w) && !slices.ContainsFunc(j.Files, func(f job.File) bool { return f.Path == value }) {
			out = append(out, textOf(j.Command.Dir, value))
		}
	}
	for _, m := range namedRecipe.FindAllSubmatch(script, -1) {
		out = append(out, textOf(j.Command.Dir, string(m[1])))
	}
	return out
}

// textOf is the text of a file; "" if it cannot be read.
func textOf(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, _ := file.Read(path, maxAround)
	return string(text)
}
