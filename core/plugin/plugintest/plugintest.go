// Package plugintest holds a plugin to its word, on a command of its family:
//
//	func TestPromises(t *testing.T) {
//		plugintest.Check(t, mine.New(), job.Command{Args: []string{"python3", "train.py", "-opt", "x.yml"}, Dir: "testdata/project", Env: os.Environ()}, card)
//	}
//
// The most of it is one question, asked of every rung: if the user had typed what this rung makes of the job, would the
// plugin say the same of it? A rung's edits are made in a copy of the command's folder, as launch makes them, and the plugin
// reads and prices that as any command. A knob that is turned where nobody reads it, an estimate that forgets a setting, an
// edit that cannot be made: each shows as two answers that differ. Whether a price is true it cannot say: that takes PyTorch
// (docs/accuracy.md).
//
// The smallest whole plugin is the toy in plugintest_test.go.
package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/formula"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

// Check holds p to what [plugin.Plugin] promises, on the command c and the device d. c.Dir is copied, and read from the copy;
// Python files that p asks for are read by the command's own interpreter, or by python3.
func Check(t testing.TB, p plugin.Plugin, c job.Command, d gpu.Device) {
	t.Helper()
	c = copied(t, c)
	before := tree(t, c.Dir)
	marked(t, p, c)
	for _, args := range [][]string{{"python3", "-c", "pass"}, {"python3", "no_such_script.py"}} {
		if _, err := p.Recognize(t.Context(), job.Command{Args: args, Dir: c.Dir, Env: c.Env}); !errors.Is(err, plugin.ErrNotMine) {
			t.Errorf("it takes %q for its own: %v", args, err)
		}
	}
	r, j := recognize(t, p, c)
	set, err := r.Ladders(t.Context(), d)
	if err != nil || set == nil {
		t.Fatalf("%q cannot be priced: %v", c.Args, err)
	}
	if err := set.Check(); err != nil {
		t.Error(err)
	}
	anew, again := recognize(t, p, c)
	if !reflect.DeepEqual(wire(t, again), wire(t, j)) {
		t.Error("asked the same, it recognises another job")
	}
	for _, r := range []plugin.Recognized{r, anew} {
		if again, err := r.Ladders(t.Context(), d); err != nil || !bytes.Equal(wire(t, again), wire(t, set)) {
			t.Errorf("asked the same, it has other ladders (%v)", err)
		}
	}
	survives(t, j)
	survives(t, set)
	if now := tree(t, c.Dir); !reflect.DeepEqual(now, before) {
		t.Errorf("it wrote into the command's folder: %v, before it was asked %v", now, before)
	}
	sources(t, set)
	for what, edits := range map[string][]config.Edit{"rehearsal": j.Rehearsal.Edits, "resume": j.Resume.Edits, "retry": j.Resume.Always} {
		if _, err := j.Rewrite(edits, attempt(j)); err != nil {
			t.Errorf("the edits of a %s cannot be made: %v", what, err)
		}
	}
	signs(t, j, set)
	if err := j.Check(); err != nil {
		t.Errorf("launch would not take its job: %v", err)
	}
	if j.Exclusive != "" && !filepath.IsAbs(j.Exclusive) {
		t.Errorf("what two runs must not share is %q, and no absolute path", j.Exclusive)
	}
	if r := j.Resume; len(r.Edits) == 0 && r.None == "" && !r.Automatic {
		t.Error("it says neither how a retry goes on from a saved state nor, as Resume.None, why it starts over")
	}
	if r := j.Rehearsal; len(r.Edits) > 0 && !r.Away && len(r.Leaves) == 0 && !slices.ContainsFunc(r.Edits, func(e config.Edit) bool {
		return strings.Contains(e.To, job.Scratch) || strings.Contains(e.To, job.ScratchName)
	}) {
		t.Error("its rehearsal leads nothing into a folder of launch's own: what it writes is written over the user's")
	}
	rungs(t, p, j, set, d)
	feeds(t, p, j, set, d)
}

// sources holds every line of every estimate to a source.
func sources(t testing.TB, set *ladder.Set) {
	t.Helper()
	for _, l := range set.Phases {
		for _, r := range l.Rungs {
			for s := range r.Estimates {
				for _, it := range r.At(s).Items {
					if it.From == "" {
						t.Errorf("%s: %s: the %s of %s come from nowhere", l.Phase, r.Name, it.Kind, it.What)
					}
				}
			}
		}
	}
}

// copied is the command in a copy of its folder.
func copied(t testing.TB, c job.Command) job.Command {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(c.Dir)); err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Args = slices.Clone(c.Args)
	for i, a := range c.Args {
		if rel, err := filepath.Rel(from, a); err == nil && filepath.IsAbs(a) && filepath.IsLocal(rel) {
			c.Args[i] = filepath.Join(dir, rel)
		}
	}
	c.Dir = dir
	return c
}

// attempt is the folder that edited copies go to.
func attempt(j *job.Job) string { return filepath.Join(j.Command.Dir, "launch-attempt") }

// marked holds the manifest against the command: launch asks no plugin of which no mark matches.
func marked(t testing.TB, p plugin.Plugin, c job.Command) {
	t.Helper()
	m := p.Manifest()
	if m.Name == "" || m.Version == "" || m.About == "" {
		t.Errorf("the manifest lacks a name, a version or what it is about: %+v", m)
	}
	survives(t, &m)
	prog, err := command.Program(c.Args, c.Env, c.Dir)
	if err != nil {
		t.Fatalf("%q is no Python command: %v", c.Args, err)
	}
	seen := plugin.See(prog, c.Env)
	if !slices.ContainsFunc(m.Marks, func(mark plugin.Mark) bool { return mark.Matches(seen) }) {
		t.Errorf("%q bears none of its marks: launch would not ask it", c.Args)
	}
}

// Ladders recognises the command c and prices it on the device d.
func Ladders(t testing.TB, p plugin.Plugin, c job.Command, d gpu.Device) *ladder.Set {
	t.Helper()
	r, _ := recognize(t, p, c)
	set, err := r.Ladders(t.Context(), d)
	if err != nil || set == nil {
		t.Fatalf("%q cannot be priced: %v", c.Args, err)
	}
	if err := set.Check(); err != nil {
		t.Fatalf("%q: its ladders are none: %v", c.Args, err)
	}
	return set
}

// recognize answers what p needs to know, as launch does. The job is as launch has it.
func recognize(t testing.TB, p plugin.Plugin, c job.Command) (plugin.Recognized, *job.Job) {
	t.Helper()
	r, err := plugin.Answer(t.Context(), p.Recognize, &c, finder{t, c})
	if err != nil || r == nil || r.Job() == nil {
		t.Fatalf("%q is not recognised: %v", c.Args, err)
	}
	j := *r.Job()
	j.Command, j.Plugin = c, p.Manifest().Name
	return r, &j
}

// finder finds out what a plugin needs to know of a command: there is one GPU.
type finder struct {
	t       testing.TB
	command job.Command
}

func (f finder) Devices() int { return 1 }

func (f finder) Sources(ctx context.Context, paths []string) []config.PythonSource {
	prog := f.program()
	return overlay.Read(ctx, python.Of(prog, f.command.Env).Interpreter, f.command.Env, prog.Dir, paths)
}

// Formulas runs formulas of the plugin's own wherever they lie.
func (f finder) Formulas(ctx context.Context, formulas []job.Formula) []job.Counted {
	prog := f.program()
	r := formula.Runner{
		Interpreter: python.Of(prog, f.command.Env).Interpreter, Env: prog.Environ(f.command.Env),
		Dir: prog.Dir, Script: prog.Path(), Roots: []string{"/"}, Deadline: time.Minute, Cache: cache(f.t),
	}
	return r.Run(ctx, formulas)
}

var caches sync.Map // by test: its folder of counted formulas. Every rung is asked for again

func cache(t testing.TB) string {
	dir, ok := caches.Load(t)
	if !ok {
		dir = t.TempDir()
		caches.Store(t, dir)
		t.Cleanup(func() { caches.Delete(t) })
	}
	return dir.(string)
}

func (f finder) program() command.Prog {
	prog, err := command.Program(f.command.Args, f.command.Env, f.command.Dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return prog
}

// wire is what goes from a plugin's process to launch's.
func wire(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// survives holds a value against what launch reads of it.
func survives[T any](t testing.TB, v *T) {
	t.Helper()
	var read T
	sent := wire(t, v)
	if err := json.Unmarshal(sent, &read); err != nil {
		t.Error(err)
	} else if !bytes.Equal(wire(t, &read), sent) {
		t.Errorf("launch would read another %T than was sent", read)
	}
}

// tree is what lies in a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[path] = "a folder"
			return err
		}
		info, err := e.Info()
		if err == nil {
			files[path] = info.Mode().String() + " " + info.ModTime().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
