package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// plainly is the project's main script, which prints "64 4".
func plainly(t *testing.T) (dir string, f File) {
	t.Helper()
	dir = lay(t)
	return dir, took(t, filepath.Join(dir, "pkg/conf.py"))
}

// An interpreter that does not load the hook runs the program as it is, and the verdict says what to do about it.
func TestNotReached(t *testing.T) {
	py := mainPython(t)
	dir, f := plainly(t)
	for name, tt := range map[string]struct {
		args []string
		env  []string
	}{
		"-E":               {args: []string{py, "-E", "train.py"}},
		"-I":               {args: []string{py, "-I", "-c", "import sys; sys.path.insert(0, '.'); import train"}},
		"-S":               {args: []string{py, "-S", "train.py"}},
		"env -i":           {args: []string{"/usr/bin/env", "-i", py, "train.py"}},
		"PYTHONPATH reset": {args: []string{"/usr/bin/env", "PYTHONPATH=/", py, "train.py"}},
		"one variable":     {args: []string{"/usr/bin/env", "-u", "LAUNCH_OVERLAY", py, "train.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := install(t, environ(), f)
			if out := start(t, dir, environ(o.Env...), tt.args...); out != (outcome{stdout: "64 4\n"}) {
				t.Errorf("%+v", out)
			}
			for _, c := range []struct {
				begun bool
				since time.Duration
				want  State
			}{{false, 0, NotYet}, {false, time.Second, NotYet}, {true, 0, NotTaken}, {false, time.Minute, NotTaken}} {
				state, why := Verdict(o.Report(), []File{f}, c.begun, c.since)
				if state != c.want || (state == NotTaken) != strings.Contains(why, "PYTHONPATH") {
					t.Errorf("begun %v, since %v: %v: %s", c.begun, c.since, state, why)
				}
			}
			if state, why := o.Verdict(true, 0); state != NotTaken || why == "" {
				t.Errorf("%v %q", state, why)
			}
		})
	}
}

// A program that reads the file in a way of its own.
func TestNotImported(t *testing.T) {
	dir, f := plainly(t)
	write(t, dir, map[string]string{"own.py": "exec(open('pkg/conf.py').read())\nprint(Config().batch, LIMIT)\n"})
	o := install(t, environ(), f)
	if out := start(t, dir, environ(o.Env...), mainPython(t), "own.py"); out.stdout != "64 4\n" {
		t.Errorf("%+v", out)
	}
	if state, why := Verdict(o.Report(), []File{f}, false, time.Hour); state != NotYet {
		t.Errorf("%v %s", state, why)
	}
	if state, why := Verdict(o.Report(), []File{f}, true, 0); state != NotTaken || !strings.Contains(why, "conf.py") {
		t.Errorf("%v %s", state, why)
	}
}

// Whatever is wrong with the overlay, the file itself runs and nothing is printed.
func TestFailsOpen(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		i := 0
		for name, tt := range map[string]struct {
			over  string
			args  []string
			spoil func(dir string, f *File)
			after func(o *Overlay)
			says  string // in the verdict; "" if nothing can be said
		}{
			"a module that changed":     {over: "pkg/conf.py", args: []string{"train.py"}, spoil: func(_ string, f *File) { f.SHA256 = sum(nil) }, says: "changed"},
			"a script that changed":     {over: "self.py", args: []string{"self.py"}, spoil: func(_ string, f *File) { f.SHA256 = sum(nil) }, says: "changed"},
			"a copy that is broken":     {over: "pkg/conf.py", args: []string{"train.py"}, spoil: func(_ string, f *File) { f.Text = []byte("class C(:\n") }, says: "SyntaxError"},
			"a script that is broken":   {over: "self.py", args: []string{"self.py"}, spoil: func(_ string, f *File) { f.Text = []byte("class C(:\n") }, says: "SyntaxError"},
			"run_path of a broken copy": {over: "pkg/conf.py", args: []string{"runpath.py"}, spoil: func(_ string, f *File) { f.Text = []byte("class C(:\n") }, says: "SyntaxError"},
			"a copy with a zero byte":   {over: "pkg/conf.py", args: []string{"train.py"}, spoil: func(_ string, f *File) { f.Text = []byte("\x00") }, says: "Error"},
			"a copy that is gone":       {over: "self.py", args: []string{"self.py"}, after: func(o *Overlay) { os.RemoveAll(filepath.Join(filepath.Dir(o.report), "copies")) }, says: "FileNotFoundError"},
			"no manifest":               {over: "self.py", args: []string{"self.py"}, after: func(o *Overlay) { os.Remove(filepath.Join(filepath.Dir(o.report), "overlay.json")) }},
			"a torn manifest": {over: "self.py", args: []string{"self.py"}, after: func(o *Overlay) {
				os.WriteFile(filepath.Join(filepath.Dir(o.report), "overlay.json"), []byte(`{"report": "`), 0o600)
			}},
			"no hook": {over: "self.py", args: []string{"self.py"}, after: func(o *Overlay) { os.RemoveAll(filepath.Join(filepath.Dir(o.report), "site")) }},
		} {
			if i++; !py.turn(i) { // in the random order of a map
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := lay(t)
				f := took(t, filepath.Join(dir, tt.over))
				if tt.spoil != nil {
					tt.spoil(dir, &f)
				}
				o := install(t, environ(), f)
				if tt.after != nil {
					tt.after(o)
				}
				if out := start(t, dir, environ(o.Env...), append([]string{py.path}, tt.args...)...); out != (outcome{stdout: "64 4\n"}) {
					t.Errorf("%+v", out)
				}
				state, why := Verdict(o.Report(), []File{f}, false, 0)
				if tt.says != "" && (state != NotTaken || !strings.Contains(why, tt.says)) || tt.says == "" && state != NotYet {
					t.Errorf("%v: %s; want %q; report %+v", state, why, tt.says, o.Report())
				}
			})
		}
	})
}

// A report that cannot be written costs the report, not the overlay.
func TestNoReport(t *testing.T) {
	dir, f := plainly(t)
	o := install(t, environ(), f)
	if err := os.Mkdir(o.report, 0o700); err != nil {
		t.Fatal(err)
	}
	if out := start(t, dir, environ(o.Env...), mainPython(t), "train.py"); out != (outcome{stdout: "8 9\n"}) {
		t.Errorf("%+v", out)
	}
}

// Another sitecustomize runs as if ours were not there: the user's, one that fails, one that chains on its part, none.
func TestChain(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		const says = "import sys\nprint('theirs', __file__, __name__, sys.modules[__name__].__spec__.origin, sys.path)\n"
		i := 0
		for name, text := range map[string]string{
			"the user's":           says,
			"broken":               "print('theirs')\nraise RuntimeError('boom')\n",
			"no import":            "import nothing_of_that_name\n",
			"imports the settings": "import sys\nsys.path.insert(0, '.')\nimport pkg.conf\nsys.path.pop(0)\n",
		} {
			if i++; !py.turn(i) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := lay(t)
				f := took(t, filepath.Join(dir, "pkg/conf.py"))
				theirs := filepath.Join(dir, "their site")
				write(t, theirs, map[string]string{"sitecustomize.py": text})
				env := environ("PYTHONPATH=" + theirs)
				args := []string{py.path, "-B", "-c", "import sys; print(sys.path, sys.modules.get('sitecustomize'))\nimport pkg.cli; pkg.cli.main()"}
				want := start(t, dir, env, args...)
				o := install(t, env, f)
				got := start(t, dir, environ(o.Env...), args...)
				want.stdout = strings.ReplaceAll(want.stdout, "64 4", "8 9")
				if got != want || !strings.Contains(got.stdout, "8 9") {
					t.Errorf("%+v\nplain\n%+v", got, want)
				}
			})
		}
		t.Run("an overlay within an overlay", func(t *testing.T) {
			dir := lay(t)
			f := took(t, filepath.Join(dir, "pkg/conf.py"))
			outer := install(t, environ(), File{Path: f.Path, SHA256: f.SHA256, Text: []byte("broken(")})
			inner := install(t, environ(outer.Env...), f)
			if out := start(t, dir, environ(inner.Env...), py.path, "train.py"); out != (outcome{stdout: "8 9\n"}) {
				t.Errorf("%+v", out)
			}
		})
	})
}

// The distribution's sitecustomize, or none, is what a program finds under that name.
func TestSitecustomizeAsBefore(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		dir, f := plainly(t)
		o := install(t, environ(), f)
		args := []string{py.path, "-c", "import sys\nprint('sitecustomize' in sys.modules)\ntry:\n import sitecustomize as s; print(s)\nexcept ImportError as e: print(e)"}
		if want, got := start(t, dir, environ(), args...), start(t, dir, environ(o.Env...), args...); got != want {
			t.Errorf("%+v, plain %+v", got, want)
		}
	})
}

// A program of which another file is overlaid sees nothing of it.
func TestUnconcerned(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		dir := t.TempDir()
		write(t, dir, map[string]string{"other.py": "A = 1\n", "main.py": programs["state"] + programs["raises"]})
		o := install(t, environ(), File{Path: filepath.Join(dir, "other.py"), SHA256: sum([]byte("A = 1\n")), Text: []byte("A = 2\n")})
		args := []string{py.path, "main.py"}
		want, got := start(t, dir, environ(), args...), start(t, dir, environ(o.Env...), args...)
		for _, o := range []*outcome{&want, &got} {
			o.stdout, o.stderr = reAddress.ReplaceAllString(o.stdout, "0x"), reAddress.ReplaceAllString(o.stderr, "0x")
		}
		if got != want {
			t.Errorf("with an overlay\n%+v\nplain\n%+v", got, want)
		}
	})
}

// A Python that is too old runs its program, and says so.
func TestOldPythons(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".pyenv/versions/*/bin/python"))
	n := 0
	for _, path := range paths {
		out, err := exec.Command(path, "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])").Output()
		version := strings.TrimSpace(string(out))
		if err != nil || !old(version) {
			continue
		}
		n++
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"main.py": "import sys, conf\nprint(conf.A, [p for p in sys.path if 'attempt' in p])\n", "conf.py": "A = 1\n"})
			f := File{Path: filepath.Join(dir, "conf.py"), SHA256: sum([]byte("A = 1\n")), Text: []byte("A = 2\n")}
			o := install(t, environ(), f)
			if out := start(t, dir, environ(o.Env...), path, "main.py"); out.code != 0 || out.stderr != "" || (out.stdout != "1 []\n" && out.stdout != "(1, [])\n") {
				t.Errorf("%+v", out)
			}
			r := o.Report()
			if state, why := Verdict(r, []File{f}, true, 0); r.Old != version || state != NotTaken || !strings.Contains(why, version) {
				t.Errorf("%+v: %v %s", r, state, why)
			}
		})
	}
	t.Logf("%d interpreters older than 3.8", n)
}

// A virtual environment's interpreter takes the overlay, and its PYTHONPATH is the user's behind ours.
func TestVenv(t *testing.T) {
	py := mainPython(t)
	dir, f := plainly(t)
	venv := filepath.Join(t.TempDir(), "venv")
	if out := start(t, dir, environ(), py, "-m", "venv", "--without-pip", venv); out.code != 0 {
		t.Fatalf("making a virtual environment: %s", out.stderr) // Debian's Python has the module without ensurepip
	}
	mine := filepath.Join(dir, "mine")
	o := install(t, environ("PYTHONPATH="+mine), f)
	out := start(t, dir, environ(o.Env...), filepath.Join(venv, "bin/python"), "-c",
		"import sys, os; print(sys.path[1] == "+fmt.Sprintf("%q", mine)+", sys.prefix, os.environ['PYTHONPATH'].split(':')[1:])\nimport pkg.cli; pkg.cli.main()")
	if want := fmt.Sprintf("True %s ['%s']\n8 9\n", venv, mine); out != (outcome{stdout: want}) {
		t.Errorf("%+v, want %q", out, want)
	}
}

// Many processes write to one report, and no line is lost or mixed with another.
func TestManyProcesses(t *testing.T) {
	dir, f := plainly(t)
	write(t, dir, map[string]string{"many.py": `
import multiprocessing as mp, sys
def work(n):
    import importlib, pkg.conf as c
    for _ in range(n):
        importlib.reload(c)
    assert c.Config().batch == 8
if __name__ == "__main__":
    ps = [mp.get_context("fork").Process(target=work, args=(40,)) for _ in range(16)]
    [p.start() for p in ps]; [p.join() for p in ps]
    sys.exit(sum(p.exitcode for p in ps))
`})
	o := install(t, environ(), f)
	if out := start(t, dir, environ(o.Env...), mainPython(t), "many.py"); out.code != 0 || out.stderr != "" {
		t.Fatalf("%+v", out)
	}
	if r := o.Report(); r.Booted != 1 || r.Applied[f.Path] != 16*41 || len(r.Instances) < 16 {
		t.Errorf("booted %d, applied %v, %d instances", r.Booted, r.Applied, len(r.Instances))
	}
	text, err := os.ReadFile(o.report)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !json.Valid(line) {
			t.Errorf("torn: %s", line)
		}
	}
}

// The hook costs little at the start, and nothing of the standard library.
func TestStart(t *testing.T) {
	py := mainPython(t)
	dir, f := plainly(t)
	o := install(t, environ(), f)
	plain, with := time.Hour, time.Hour // the least of several, taken in turns: the machine has other work
	for range 9 {
		for _, m := range []struct {
			env  []string
			took *time.Duration
		}{{environ(), &plain}, {environ(o.Env...), &with}} {
			at := time.Now()
			if out := start(t, dir, m.env, py, "-c", "pass"); out != (outcome{}) {
				t.Fatalf("%+v", out)
			}
			*m.took = min(*m.took, time.Since(at))
		}
	}
	t.Logf("start %v, with the hook %v: %v more", plain, with, with-plain)
	if with-plain > 25*time.Millisecond {
		t.Errorf("the hook costs %v", with-plain)
	}
	modules := func(env []string) []string {
		out := start(t, dir, env, py, "-c", "import sys; print(*sorted(sys.modules))")
		return strings.Fields(out.stdout)
	}
	before := modules(environ())
	for _, m := range modules(environ(o.Env...)) {
		if !slices.Contains(before, m) && !slices.Contains([]string{"_functools", "_operator", "_launch"}, m) {
			t.Errorf("the hook imports %s", m)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.py": "A = 1\n"})
	if err := os.Symlink("a.py", filepath.Join(dir, "b.py")); err != nil {
		t.Fatal(err)
	}
	a, b := File{Path: filepath.Join(dir, "a.py")}, File{Path: filepath.Join(dir, "b.py")}
	for name, tt := range map[string]struct {
		dir   string
		files []File
	}{
		"a folder with a colon": {dir + "/x:y", []File{a}},
		"a relative folder":     {"x", []File{a}},
		"a missing file":        {dir + "/x", []File{{Path: dir + "/none.py"}}},
		"one file twice":        {dir + "/x", []File{a, b}},
		"a relative file":       {dir + "/x", []File{{Path: "overlay.go"}}},
	} {
		if _, err := Install(tt.dir, tt.files, nil); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	o, err := Install(dir+"/x", []File{b}, []string{"PYTHONPATH=/one", "PYTHONPATH="})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"PYTHONPATH=" + dir + "/x/site", "LAUNCH_OVERLAY=" + dir + "/x/overlay.json"}; !slices.Equal(o.Env, want) {
		t.Errorf("%q, want %q", o.Env, want) // an empty PYTHONPATH must not become the current folder
	}
	info, err := os.Stat(dir + "/x/site")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if r := o.Report(); r.Booted != 0 || len(r.Missing([]File{b})) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestParseReport(t *testing.T) {
	r := ParseReport([]byte("\n{\"event\": \"boot\", \"python\": \"3.7.1\", \"pid\": 1}\n\n{\"event\": \"applied\", \"path\": \"/a.py\", \"pi\n" +
		"{\"event\": \"boot\", \"python\": \"3.12.1\"}\nnonsense\n{\"event\": \"later\"}\n{\"event\": \"applied\", \"path\": \"/b.py\"}\n" +
		"{\"event\": \"instance\", \"path\": \"/b.py\", \"class\": \"\", \"pid\": 7, \"values\": {\"C.a\": \"1\"}}\n" +
		"{\"event\": \"instance\", \"path\": \"/b.py\", \"class\": \"C\", \"pid\": 7, \"values\": {\"C.a\": \"2\"}}\n{\"event\": \"stale\", \"path\": \"/c.py\""))
	if r.Booted != 2 || r.Old != "" || !maps.Equal(r.Applied, map[string]int{"/b.py": 1}) || len(r.Stale) != 0 {
		t.Errorf("%+v", r)
	}
	if v, ok := r.Value("/b.py", "C.a"); v != "2" || !ok {
		t.Errorf("the value is %q: an instance's counts for more than its class's", v)
	}
	if _, ok := r.Value("/a.py", "C.a"); ok {
		t.Error("a value of another file")
	}
	// what was served once is not undone by a file that the user edits while the program runs
	files := []File{{Path: "/b.py"}}
	r.Stale["/b.py"], r.Errors["/b.py"] = 1, "x"
	if state, _ := Verdict(r, files, true, time.Hour); state != Taken {
		t.Error(state)
	}
}
