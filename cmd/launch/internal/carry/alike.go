package carry

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
)

// agreed has what has to be the same on all nodes of a run, by name, as digests: the settings that launch may change,
// the program's arguments, and the recipes. A difference is shown by its name alone, since a value may be a secret.
func agreed(r *run.Run) map[string]string {
	out := map[string]string{"what launch may change": changeable(r)}
	c := r.Job.Command
	args, dir := c.Args, c.Dir
	if prog, err := c.Prog(); err == nil {
		args, dir = prog.Args, prog.Dir
	}
	for name, value := range options(args) {
		if !nodesOwn(r.Job, dir, name, value) {
			out[name] = sum([]byte(value))
		}
	}
	for _, arg := range args {
		_, value, assigned := strings.Cut(arg, "=")
		if !assigned {
			value = arg
		}
		if slices.Contains(recipeEndings, strings.ToLower(filepath.Ext(value))) {
			recipe(out, value, file.In(dir, value))
		}
	}
	for _, f := range r.Job.Files {
		if f.Format != job.Binary {
			recipe(out, f.Path, file.In(dir, f.Path))
		}
	}
	return out
}

// alike has what else makes nodes the same: code, all recipes, Python, packages and variables, by name, as digests.
// Data may be another part on each node, and a file outside the project may have another path.
func alike(id *identity.Identity) map[string]string {
	out := map[string]string{}
	if id == nil {
		return out
	}
	for _, f := range slices.Concat(id.Code, id.Recipes) {
		name := f.Path
		if filepath.IsAbs(name) {
			name = filepath.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name))
		}
		out[name] = sum([]byte(f.Hash))
	}
	for _, p := range id.Packages {
		name, version, _ := strings.Cut(p, " ")
		out["package "+name] += sum([]byte(version))
	}
	for _, kv := range id.Env {
		if name, value, _ := strings.Cut(kv, "="); !strings.HasPrefix(value, "hidden:") { // hashed with each node's own salt
			out["variable "+name] = sum([]byte(value))
		}
	}
	if id.Release != "" {
		out["version of Python"] = sum([]byte(id.Release))
	}
	return out
}

// recipeEndings are those of files whose content decides what is trained. Data may be another part on each node.
var recipeEndings = []string{".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".py"}

// mostRecipe is the size of a file above which it is data.
const mostRecipe = 1 << 20

// recipe adds the content of a text.
func recipe(out map[string]string, name, path string) {
	if text, err := file.Read(path, mostRecipe); err == nil && utf8.Valid(text) {
		out[name] = sum(text)
	}
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return fmt.Sprintf("%x", s[:16])
}

// options has the values of a program's arguments by name: of an option that is given twice the last one, as most
// programs take it.
func options(args []string) map[string]string {
	out, at, before := map[string]string{}, "", 0
	for _, a := range args {
		_, err := strconv.ParseFloat(a, 64) // a negative number is a value
		name, value, assigned := strings.Cut(a, "=")
		switch {
		case strings.HasPrefix(a, "-") && err != nil:
			if out[name] = value; assigned {
				name = ""
			}
			at = name
		case at != "":
			out[at] += "\x00" + a
		case assigned && name != "":
			out[name] = value
		default:
			before++
			out[fmt.Sprintf("argument %d", before)] = a
		}
	}
	for name, value := range out {
		out[name] = strings.TrimPrefix(value, "\x00")
	}
	return out
}

// nodesOwn reports whether an argument may differ from node to node: which node it is, its address, and where it
// writes.
func nodesOwn(j *job.Job, dir, name, value string) bool {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)) {
	case "rank", "noderank", "machinerank", "node", "nodeid", "processid", "globalrank", "localaddr", "localrank", "host",
		"hostname", "nodename", "logdir", "cachedir", "tmpdir":
		return true
	}
	if value == "" || strings.ContainsRune(value, 0) {
		return false
	}
	folder := filepath.Clean(file.In(dir, value))
	for _, path := range slices.Concat(j.Signs.States, j.Signs.Log, []string{j.Exclusive}) {
		if path != "" && strings.HasPrefix(filepath.Clean(file.In(j.Command.Dir, path)), folder+"/") && folder != dir {
			return true
		}
	}
	return false
}

// changeable identifies what launch may change of a job, and how.
func changeable(r *run.Run) string {
	type rung struct{ Phase, Name string }
	what := struct {
		Plugin, Dialect, Arch string
		Knobs                 map[string]string
		Micro, Accumulation   int64
		Rungs                 []rung
	}{r.Job.Plugin, r.Job.Dialect, r.Job.Arch, map[string]string{}, r.Job.Batch.Micro, r.Job.Batch.Accumulation, nil}
	for _, k := range r.Job.Knobs {
		what.Knobs[k.Name] = k.Value
	}
	for _, l := range append([]ladder.Ladder{r.Ladders.Shared}, r.Ladders.Phases...) {
		for _, g := range l.Rungs {
			what.Rungs = append(what.Rungs, rung{l.Phase, g.Name})
		}
	}
	text, _ := json.Marshal(what)
	return sum(text)
}
