package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program of the table below: it fails once at step 3, or runs out of memory at step 3 with a batch of 8. It saves
// each step with everything that made it, so that a mixture shows in its result.
const identityTrainer = `import argparse, json, os, sys
import helper
p = argparse.ArgumentParser()
for name in ("lr", "out", "config", "data", "notes", "api-token"):
    p.add_argument("--" + name, default="")
p.add_argument("--resume", default="")
a = p.parse_args()
if a.notes == "":
    a.notes = "notes.txt"
trail = json.load(open(a.resume)) if a.resume else []
os.makedirs(a.out, exist_ok=True)
recipe = dict(l.split(": ") for l in open(a.config).read().splitlines())
a.batch, a.accum = int(recipe["batch"]), int(recipe["accum"])
made = [helper.VALUE, recipe["lr"], a.lr, os.environ.get("SEED"), open(a.notes).read(), sorted(os.listdir(a.data))]
print("batch", a.batch, "times", a.accum, flush=True)
for step in range(len(trail) + 1, 7):
    if step == 3 and not a.resume and not os.path.exists(a.out + "/once"):
        open(a.out + "/once", "w").close()
        if os.environ.get("MEANWHILE"):
            os.system(os.environ["MEANWHILE"])
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
                 if os.environ.get("SHORT") else "ValueError: something else")
    trail.append(made)
    print("step %d/6 loss %.2f" % (step, 1 / step), flush=True)
    path = "%s/%04d.json" % (a.out, step)
    json.dump(trail, open(path, "w"))
    print("saved", path, flush=True)
print("training is over", flush=True)
`

const identityDeclaration = `script: train.py
micro-batch: {--config: batch}
accumulation: {--config: accum}
batch-norm: false
progress: 'step (?P<iteration>\d+)/(?P<total>\d+)'
saved: 'saved (?P<path>\S+)'
resume: {--resume: '{--out}/*.json'}
succeeded: 'training is over'
confirm: {micro-batch: 'batch (?P<value>\d+)', accumulation: 'times (?P<value>\d+)'}
`

// A place is a project and a home of its own.
type place struct {
	t      *testing.T
	dir    string
	launch string
	env    []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &place{t: t, dir: filepath.Join(dir, "project"), launch: filepath.Join(dir, "bin", "launch"),
		env: []string{"HOME=" + dir, "PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "LANG=C.UTF-8",
			claimsForTest + "=" + filepath.Join(dir, "claims"), "PYTHONDONTWRITEBYTECODE=1", "SEED=1"}}
	p.write("train.py", identityTrainer)
	p.write("helper.py", "VALUE = 1\n")
	p.write(".launch-job.yaml", identityDeclaration)
	p.write("r.yaml", "base: base.yaml\nbatch: 8\naccum: 1\nlr: 0.1\n")
	p.write("base.yaml", "decay: 0.1\n")
	p.write("notes.txt", "first\n")
	p.write("data/a.bin", strings.Repeat("a", 100))
	p.write("env/lib/python3.11/site-packages/addon-1.0.dist-info/METADATA", "Name: addon\n")
	for _, name := range []string{"env", "other"} {
		p.must(os.MkdirAll(filepath.Join(p.dir, name, "bin"), 0o755))
		p.must(os.Symlink(testPython(), filepath.Join(p.dir, name, "bin", "python")))
	}
	p.must(os.CopyFS(filepath.Join(p.dir, "other/lib"), os.DirFS(filepath.Join(p.dir, "env/lib"))))
	p.must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	p.must(os.Symlink(self, p.launch))
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	p.must(os.MkdirAll(filepath.Dir(path), 0o755))
	p.must(os.WriteFile(path, []byte(text), 0o644))
}

// run runs a command in the project, and returns its exit code and what it printed.
func (p *place) run(env []string, args ...string) (code int, text string) {
	p.t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = p.dir, append(append([]string{}, p.env...), env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		p.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String()
}

// A typing is what decides the result of a run beside the files.
type typing struct {
	python, lr, token string
	env               []string
}

var (
	unchanged     = typing{"env/bin/python", "0.1", "four", nil}
	withoutSecret = typing{"env/bin/python", "0.1", "", nil} // without a secret: a sweep goes on by its name alone
)

func (s typing) command(out string) []string {
	args := []string{s.python, "train.py", "--out", out, "--lr", s.lr, "--config", "r.yaml", "--data", "data",
		"--notes", "notes.txt"}
	if s.token != "" {
		args = append(args, "--api-token", s.token)
	}
	return args
}

// An input is one thing that decides a result, and how it changes. A change of files can also be made by a shell while
// the run goes on.
type input struct {
	name  string
	shell string        // changes files; "": it is not a file
	start func(*typing) // changes what is typed
	says  string        // a pattern that names the difference
	own   bool          // made while the run goes on, it may be the run's own doing
}

var inputs = []input{
	{name: "code", shell: "echo '# more' >> train.py", says: `train\.py has changed`},
	{name: "imported module", shell: "echo 'VALUE = 2' > helper.py", says: `helper\.py has changed`},
	{name: "recipe", shell: "sed -i 's/lr: 0.1/lr: 0.2/' r.yaml", says: `r\.yaml has changed`},
	{name: "included recipe", shell: "echo 'decay: 0.2' > base.yaml", says: `base\.yaml has changed`},
	{name: "argument", start: func(s *typing) { s.lr = "0.2" }, says: `0\.2`},
	{name: "secret argument", start: func(s *typing) { s.token = "eight" }, says: `hidden:`},
	{name: "environment", start: func(s *typing) { s.env = append(s.env, "SEED=2") }, says: `SEED was 1 and is now 2`},
	{name: "interpreter", start: func(s *typing) { s.python = "other/bin/python" }, says: `another|other/bin/python`},
	{name: "package", shell: "cd env/lib/python3.11/site-packages && mv addon-1.0.dist-info addon-1.1.dist-info",
		says: `addon was 1\.0 and is now 1\.1`},
	{name: "data file", shell: "sleep 0.05; echo second > notes.txt", says: `notes\.txt has changed`, own: true},
	{name: "data listing", shell: "sleep 0.05; echo b > data/b.bin", says: `data/b\.bin is new`, own: true},
	{name: "ranks", start: func(s *typing) { s.env = append(s.env, "WORLD_SIZE=2") }, says: `ranks was 1 and is now 2`},
}

// change makes the change, if it is one of files, and returns what is typed from then on.
func (in input) change(p *place) typing {
	s := unchanged
	if in.shell != "" {
		if code, out := p.run(nil, "sh", "-c", in.shell); code != 0 {
			p.t.Fatalf("changing %s: %s", in.name, out)
		}
	}
	if in.start != nil {
		in.start(&s)
	}
	return s
}

// mixedRun demands that the last run is marked, and where it was mixed.
func (p *place) mixedRun(in input) {
	p.t.Helper()
	mark := regexp.MustCompile(`mixed from step 2: .*` + in.says)
	if _, out := p.run(nil, p.launch, "show", "last"); !mark.MatchString(out) {
		p.t.Errorf("show does not mark it as mixed from step 2, %s: %s", in.says, out)
	}
}

func (p *place) stops(in input, code, want int, out string) {
	p.t.Helper()
	if code != want || !regexp.MustCompile(in.says).MatchString(out) {
		p.t.Errorf("exit %d, want %d and %q: %s", code, want, in.says, out)
	}
}

// A way is one way to go on with an experiment. It returns how that ended, and what was printed. in is nil where
// nothing changes.
type way struct {
	name string
	only func(input) bool // nil: all inputs
	// goOn makes the experiment begin, the input change, and the experiment go on.
	goOn func(p *place, in *input, accept ...string) (code int, out string)
	// anew: after a change another run begins, instead of an error.
	anew bool
	rows bool // a sweep: its table has the mark
}

// typed is what is typed after the change.
func typed(p *place, in *input) typing {
	if in == nil {
		return unchanged
	}
	return in.change(p)
}

func files(in input) bool { return in.shell != "" && !in.own }

func launched(p *place, flags []string, s typing, out string) []string {
	return append(append(append([]string{p.launch}, flags...), "--"), s.command(out)...)
}

func begin(p *place, args []string, env ...string) {
	p.t.Helper()
	if code, out := p.run(env, args...); code == 0 {
		p.t.Fatalf("the first run did not fail: %s", out)
	}
}

var ways = []way{
	{name: "retry", only: files, goOn: func(p *place, in *input, accept ...string) (int, string) {
		env := []string{"SHORT=1"}
		if in != nil {
			env = append(env, "MEANWHILE="+in.shell)
		}
		return p.run(env, launched(p, accept, unchanged, "out")...)
	}},
	{name: "resume", goOn: func(p *place, in *input, accept ...string) (int, string) {
		begin(p, launched(p, nil, unchanged, "out"))
		s := typed(p, in)
		args := append([]string{p.launch, "resume", "last"}, accept...)
		return p.run(s.env, append(append(args, "--"), s.command("out")...)...)
	}},
	{name: "continue", anew: true, goOn: func(p *place, in *input, accept ...string) (int, string) {
		begin(p, launched(p, []string{"--continue"}, unchanged, "out"))
		s := typed(p, in)
		return p.run(s.env, launched(p, append([]string{"--continue"}, accept...), s, "out")...)
	}},
	{name: "emitted line", anew: true, goOn: func(p *place, in *input, accept ...string) (int, string) {
		line := func(s typing) string {
			_, out := p.run(s.env, append([]string{p.launch, "sweep", "emit", "parallel", "--grid", "--lr=" + s.lr, "--"},
				s.command("out")...)...)
			return strings.Replace(out, "--continue", strings.Join(append([]string{"--continue"}, accept...), " "), 1)
		}
		begin(p, []string{"sh", "-c", line(unchanged)})
		s := typed(p, in)
		return p.run(s.env, "sh", "-c", line(s))
	}},
	{name: "sweep row", rows: true, only: files, goOn: func(p *place, in *input, accept ...string) (int, string) {
		env := []string{}
		if in != nil {
			env = append(env, "MEANWHILE="+in.shell)
		}
		args := append([]string{p.launch, "sweep", "--name", "s", "--grid", "--lr=1,2"}, accept...)
		code, out := p.run(env, append(append(args, "--"), withoutSecret.command("out/{trial}")...)...)
		if in == nil && strings.Count(out, "failed") > 0 { // each row fails once
			code = 0
		}
		return code, out
	}},
	{name: "sweep resume", rows: true, only: func(in input) bool { return in.start == nil || in.name == "environment" },
		goOn: func(p *place, in *input, accept ...string) (int, string) {
			begin(p, append([]string{p.launch, "sweep", "--name", "s", "--grid", "--lr=1,2", "--"},
				withoutSecret.command("out/{trial}")...))
			s := typed(p, in)
			return p.run(s.env, append([]string{p.launch, "sweep", "resume", "s"}, accept...)...)
		}},
}

// TestIdentity goes through everything that decides a result, and every way to go on with an experiment: what is the
// same goes on, a change stops or begins a run of its own, and --accept goes on and marks the result.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Run("the same", func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				if code, out := w.goOn(p, nil); code != 0 || strings.Contains(out, "mixed") {
					t.Errorf("exit %d: %s", code, out)
				}
			})
			accepted := false
			for _, in := range inputs {
				if w.only != nil && !w.only(in) {
					continue
				}
				t.Run(in.name, func(t *testing.T) {
					t.Parallel()
					w.changed(newPlace(t), in)
				})
				if accepted && testing.Short() {
					continue
				}
				accepted = true
				t.Run(in.name+", accepted", func(t *testing.T) {
					t.Parallel()
					w.accepted(newPlace(t), in)
				})
			}
		})
	}
}

// changed demands that an experiment does not go on after a change.
func (w way) changed(p *place, in input) {
	p.t.Helper()
	code, out := w.goOn(p, &in)
	switch {
	case in.name == "recipe" && !w.rows && !w.anew: // the run keeps the one that it began with
		p.stops(in, code, 0, out)
	case w.anew && in.another(): // no run of that command is there
		if code != 0 || strings.Contains(out, "resumes from") {
			p.t.Errorf("exit %d, and it does not begin a run of its own: %s", code, out)
		}
	case w.anew:
		p.stops(in, code, 0, out)
		if !strings.Contains(out, "another run starts") || strings.Contains(out, "resumes from") {
			p.t.Errorf("it does not begin a run of its own: %s", out)
		}
	default:
		p.stops(in, code, 125, out)
	}
}

// accepted demands that an experiment goes on after a change where that is accepted, and is marked.
func (w way) accepted(p *place, in input) {
	p.t.Helper()
	code, out := w.goOn(p, &in, "--accept")
	switch {
	case w.rows:
		_, table := p.run(nil, p.launch, "sweep", "status", "s")
		if w.name == "sweep resume" && (code != 0 || !strings.Contains(table, "mixed: ")) {
			p.t.Errorf("exit %d, and the table has no mark: %s %s", code, out, table)
		}
	case in.name == "recipe": // the run keeps the one that it began with, so nothing is mixed
		if p.stops(in, code, 0, out); strings.Contains(out, "mixed") {
			p.t.Errorf("it is marked: %s", out)
		}
	case in.another() && w.anew:
		if code != 0 || strings.Contains(out, "resumes from") {
			p.t.Errorf("exit %d, and it does not begin a run of its own: %s", code, out)
		}
	case in.another(): // the job was read from the command that it began with
		if code != 125 || !strings.Contains(out, "has another command") {
			p.t.Errorf("exit %d: %s", code, out)
		}
	default:
		p.stops(in, code, 0, out)
		p.mixedRun(in)
	}
}

// another reports whether the command is another one with the change, in what is no secret.
func (in input) another() bool { return in.name == "argument" || in.name == "interpreter" }

// TestIdentityOfNodes has node 1 join with something changed: the same takes part, a change is refused, and --accept
// lets it take part, marked, unless it is another command or recipe.
func TestIdentityOfNodes(t *testing.T) {
	join := func(t *testing.T, in *input, state string, accept ...string) (code int, first, second string) {
		p := newPlace(t)
		other := *p
		other.dir = filepath.Join(filepath.Dir(p.dir), "second", filepath.Base(p.dir))
		p.must(os.CopyFS(other.dir, os.DirFS(p.dir)))
		for _, name := range []string{"env", "other"} {
			p.must(os.Remove(filepath.Join(other.dir, name, "bin", "python")))
			p.must(os.Symlink(testPython(), filepath.Join(other.dir, name, "bin", "python")))
		}
		for _, q := range []*place{p, &other} { // nothing fails here
			q.write("out/once", "")
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		p.must(err)
		at := "--nodes-at=" + l.Addr().String()
		l.Close()
		c := exec.Command(p.launch, append([]string{at, "--this-node=0/2", "--"}, unchanged.command("out")...)...)
		c.Dir, c.Env = p.dir, p.env
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		p.must(c.Start())
		s := typed(&other, in)
		args := append([]string{p.launch, at, "--this-node=1/2"}, accept...)
		if state != "" {
			s.env = append(s.env, "XDG_STATE_HOME="+state)
		}
		code, second = other.run(s.env, append(append(args, "--"), s.command("out")...)...)
		if code != 0 { // node 0 waits for another node 1
			c.Process.Signal(os.Interrupt)
		}
		c.Wait()
		return code, out.String(), second
	}
	t.Run("the same", func(t *testing.T) {
		t.Parallel()
		if code, first, second := join(t, nil, ""); code != 0 || strings.Contains(first, "mixed") {
			t.Errorf("exit %d: %s %s", code, first, second)
		}
	})
	t.Run("another key", func(t *testing.T) {
		t.Parallel()
		code, _, second := join(t, nil, t.TempDir())
		if code != 125 || !strings.Contains(second, "another nodes.key: copy the file") ||
			strings.Contains(second, "step 1/") {
			t.Errorf("exit %d: %s", code, second)
		}
	})
	for _, in := range inputs {
		if in.own || in.name == "interpreter" || in.name == "ranks" { // these may differ from node to node
			continue
		}
		names := map[string]string{"code": "train.py", "imported module": "helper.py", "recipe": "r.yaml",
			"included recipe": "base.yaml", "argument": "--lr", "secret argument": "--api-token",
			"environment": "variable SEED", "package": "package addon"}[in.name]
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			code, first, second := join(t, &in, "")
			if code != 125 || !strings.Contains(second, names) || !strings.Contains(first, "node 1 cannot take part") ||
				!strings.Contains(first, names) {
				t.Errorf("exit %d, want 125 and %s: %s%s", code, names, first, second)
			}
		})
		t.Run(in.name+", accepted", func(t *testing.T) {
			t.Parallel()
			another := in.name == "recipe" || in.start != nil && in.name != "environment"
			code, first, second := join(t, &in, "", "--accept")
			switch {
			case another && code != 125:
				t.Errorf("another command or recipe takes part: exit %d: %s", code, second)
			case !another && (code != 0 || !strings.Contains(first, "mixed: node 1 has another "+names)):
				t.Errorf("exit %d, and node 0 does not mark it: %s %s", code, first, second)
			}
		})
	}
}
