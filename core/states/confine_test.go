package states

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// tree makes files below a folder, and folders of names that end in "/"; "a -> b" is a link.
func tree(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		from, to, link := strings.Cut(n, " -> ")
		path := filepath.Join(dir, from)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(to, path)
		case strings.HasSuffix(n, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("x"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// top is a folder with a project "w", a home "home", and a disk "big".
func top(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree(t, dir, "w/train.py", "home/thesis.txt", "big/old.pt")
	return dir
}

func asked(dir string, args ...string) *job.Job {
	return &job.Job{Plugin: "mine", Command: job.Command{Dir: dir + "/w", Args: append([]string{"python", "train.py"}, args...), Env: []string{"HOME=" + dir + "/home"}}}
}

// What is found: within the command's folder, through links that were there before, and in folders that are named.
func TestGlob(t *testing.T) {
	for name, tt := range map[string]struct {
		glob   string
		before []string // there when the job is read; {} is the folder above the project
		args   []string
		recipe string
		later  []string // made by the program
		want   []string
	}{
		"in the project":                 {glob: "runs/*/*.pt", later: []string{"w/runs/a/1.pt", "w/runs/b/2.pt"}, want: []string{"w/runs/a/1.pt", "w/runs/b/2.pt"}},
		"absolute":                       {glob: "{}/w/runs/*.pt", later: []string{"w/runs/1.pt"}, want: []string{"w/runs/1.pt"}},
		"above it":                       {glob: "../big/*.pt"},
		"elsewhere":                      {glob: "{}/big/*.pt"},
		"everywhere":                     {glob: "/*"},
		"above it, after a star":         {glob: "*/../../big/*.pt", before: []string{"w/a/"}},
		"a link of the user's":           {glob: "experiments/*/1.pt", before: []string{"w/experiments -> {}/big"}, later: []string{"big/x/1.pt"}, want: []string{"w/experiments/x/1.pt"}},
		"a relative link":                {glob: "experiments/*/1.pt", before: []string{"w/experiments -> ../big"}, later: []string{"big/x/1.pt"}, want: []string{"w/experiments/x/1.pt"}},
		"a link to a link":               {glob: "e/*.pt", before: []string{"w/e -> f", "w/f -> {}/big"}, want: []string{"w/e/old.pt"}},
		"a link within":                  {glob: "e/*.pt", before: []string{"w/e -> f", "w/f/"}, later: []string{"w/f/1.pt"}, want: []string{"w/f/1.pt"}},
		"a link that a star matches":     {glob: "runs/*/*.pt", before: []string{"w/runs/a -> {}/big"}, want: []string{"w/runs/a/old.pt"}},
		"a link of the program's":        {glob: "e/*.pt", later: []string{"w/e -> {}/big"}},
		"one that a star matches":        {glob: "*/*.pt", later: []string{"w/e -> {}/big"}},
		"a file that is such a link":     {glob: "*.pt", later: []string{"w/1.pt -> {}/big/old.pt"}},
		"a link to the last state":       {glob: "*.pt", later: []string{"w/1.pt", "w/last.pt -> 1.pt", "w/best.pt -> {}/w/1.pt"}, want: []string{"w/1.pt", "w/best.pt", "w/last.pt"}},
		"an argument names the folder":   {glob: "{}/big/*.pt", args: []string{"--out", "{}/big"}, want: []string{"big/old.pt"}},
		"with =":                         {glob: "{}/big/*.pt", args: []string{"--out={}/big/"}, want: []string{"big/old.pt"}},
		"relative":                       {glob: "{}/big/*.pt", args: []string{"--out=../big"}, want: []string{"big/old.pt"}},
		"spelled oddly":                  {glob: "{}/big/*.pt", args: []string{"--out=./..//big/."}, want: []string{"big/old.pt"}},
		"in a shell's words":             {glob: "{}/big/*.pt", args: []string{"-c", "python train.py --out {}/big && true"}, want: []string{"big/old.pt"}},
		"a state's run, relative":        {glob: "{}/big/run/checkpoints/*.pt", args: []string{"--resume", "../big/run/checkpoints/1.pt"}, before: []string{"big/run/checkpoints/1.pt"}, want: []string{"big/run/checkpoints/1.pt"}},
		"an argument names the disk":     {glob: "/*", args: []string{"--out", "/"}},
		"one that is not there yet":      {glob: "{}/big/new/x/*.pt", args: []string{"--out", "{}/big/new"}, later: []string{"big/new/x/1.pt"}, want: []string{"big/new/x/1.pt"}},
		"another":                        {glob: "{}/big/*.pt", args: []string{"--out", "{}/bigger"}},
		"a folder below it":              {glob: "{}/big/*.pt", args: []string{"--out", "{}/big/below"}},
		"a state's run":                  {glob: "{}/big/run/checkpoints/*.pt", args: []string{"--resume", "{}/big/run/checkpoints/1.pt"}, before: []string{"big/run/checkpoints/1.pt"}, want: []string{"big/run/checkpoints/1.pt"}},
		"the recipe names the folder":    {glob: "{}/big/*.pt", recipe: "out: {}/big # the disk", want: []string{"big/old.pt"}},
		"in an f-string":                 {glob: "{}/big/*.pt", recipe: "out = f'{}/big/{tag}'", want: []string{"big/old.pt"}},
		"by the home folder":             {glob: "{}/home/exp/*.pt", recipe: "out: ~/exp", before: []string{"home/exp/1.pt"}, want: []string{"home/exp/1.pt"}},
		"the recipe names another":       {glob: "{}/big/*.pt", recipe: "out: {}/home"},
		"a characters' class, escaped":   {glob: `run \[1\]/*.pt`, later: []string{"w/run [1]/1.pt"}, want: []string{"w/run [1]/1.pt"}},
		"no glob":                        {glob: ""},
		"the project itself":             {glob: "."},
		"a pattern that is none":         {glob: "[/*.pt"},
		"a state that is in the project": {glob: "last.pt", later: []string{"w/last.pt"}, want: []string{"w/last.pt"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := top(t)
			in := func(list []string) (out []string) {
				for _, s := range list {
					out = append(out, strings.ReplaceAll(s, "{}", dir))
				}
				return out
			}
			tree(t, dir, in(tt.before)...)
			j := asked(dir, in(tt.args)...)
			if tt.recipe != "" {
				if err := os.WriteFile(dir+"/w/x.yml", []byte(in([]string{tt.recipe})[0]), 0o644); err != nil {
					t.Fatal(err)
				}
				j.Command.Args = append(j.Command.Args, "-opt", "x.yml")
				j.Files = []job.File{{Path: "x.yml", Flag: "-opt"}}
			}
			glob := in([]string{tt.glob})[0]
			j.Signs.States = []string{glob}
			r := NewRoots(j)
			tree(t, dir, in(tt.later)...)
			var got []string
			for _, path := range r.Glob(glob) {
				rel, _ := filepath.Rel(dir, path)
				got = append(got, rel)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q; %s", got, tt.want, r.Warning())
			}
		})
	}
}

// A project that is reached by a link may be named either way.
func TestLinkedProject(t *testing.T) {
	dir := top(t)
	tree(t, dir, "p -> w", "w/runs/1.pt")
	j := asked(dir)
	j.Command.Dir = dir + "/p"
	j.Signs.States = []string{dir + "/p/runs/*.pt", dir + "/w/runs/*.pt", "runs/*.pt"}
	r := NewRoots(j)
	for _, g := range j.Signs.States {
		if got := r.Glob(g); len(got) != 1 {
			t.Errorf("%s: found %q", g, got)
		}
	}
}

// A plugin's answer names no folder: what is searched for names is read from the disk.
func TestForgedRecipe(t *testing.T) {
	dir := top(t)
	j := asked(dir, "-opt", "x.yml")
	tree(t, dir, "w/x.yml")
	j.Files = []job.File{{Path: "x.yml", Flag: "-opt", Text: []byte("out: " + dir + "/home")}, {Path: dir + "/home/thesis.txt", Format: job.Python}}
	if err := os.WriteFile(dir+"/home/thesis.txt", []byte("# "+dir+"/home"), 0o644); err != nil {
		t.Fatal(err)
	}
	j.Resume.Aside = []string{dir + "/home/*.txt"}
	if r := NewRoots(j); len(r.Movable(j.Resume.Aside[0])) > 0 || !strings.Contains(r.Warning(),
		"plugin mine names paths outside the folders of this command; launch ignores them") {
		t.Errorf("it is named by the plugin's own words; %q", r.Warning())
	}
}

// A link that another account made on the way is not followed.
func TestForeignLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a link another's")
	}
	dir := top(t)
	tree(t, dir, "w/e -> "+dir+"/big", "w/runs/a -> "+dir+"/big")
	for _, l := range []string{"w/e", "w/runs/a"} {
		if err := os.Lchown(filepath.Join(dir, l), 64102, 64102); err != nil {
			t.Fatal(err)
		}
	}
	j := asked(dir)
	j.Signs.States, j.Resume.Aside = []string{"e/*.pt", "runs/*/*.pt"}, []string{"e/*.pt"}
	r := NewRoots(j)
	for _, g := range j.Signs.States {
		if got := r.Glob(g); len(got) > 0 {
			t.Errorf("%s: followed to %q", g, got)
		}
	}
	if len(r.Movable("e/*.pt")) > 0 {
		t.Error("it is moved")
	}
}

// Saved states move into a folder beside them; what lies elsewhere, or is reached by a link that the program made, stays.
func TestMoveInto(t *testing.T) {
	dir := top(t)
	tree(t, dir, "w/experiments -> ../big", "w/runs/1.pt", "w/2.pt")
	j := asked(dir)
	j.Resume.Aside = []string{"runs/*.pt", "experiments/*.pt", dir + "/home/*.txt", "../home/*.txt", "made/*.txt", "2.pt"}
	r := NewRoots(j)
	tree(t, dir, "w/made -> "+dir+"/home")
	for _, g := range j.Resume.Aside {
		for _, f := range r.Movable(g) {
			if into, err := f.MoveInto("before"); err != nil || into != filepath.Join(filepath.Dir(f.Path), "before") {
				t.Errorf("%s: %s, %v", f.Path, into, err)
			}
		}
	}
	want := []string{"big/before/old.pt", "home/thesis.txt", "w/before/2.pt", "w/experiments", "w/made", "w/runs/before/1.pt", "w/train.py"}
	if got := list(t, dir); !slices.Equal(got, want) {
		t.Errorf("left with %q, want %q", got, want)
	}
	// The folder became a link while the program ran.
	tree(t, dir, "w/late/1.pt")
	j.Resume.Aside = []string{"late/*.pt"}
	r = NewRoots(j)
	files := r.Movable("late/*.pt")
	if err := os.Rename(dir+"/w/late", dir+"/w/was"); err != nil {
		t.Fatal(err)
	}
	tree(t, dir, "w/late -> "+dir+"/big", "big/1.pt")
	if _, err := files[0].MoveInto("x"); err == nil {
		t.Error("it is moved through a link that the program made")
	}
}

// A trial's leaves are removed: what has the scratch name and was not there before.
func TestLeaves(t *testing.T) {
	dir := top(t)
	tree(t, dir, "w/experiments -> ../big", "w/precious/1.txt", "w/name-there/1.txt")
	j := asked(dir)
	s := job.ScratchName
	j.Rehearsal.Leaves = []string{
		"experiments/" + s, "tb/" + s, s + "/sub", "name-" + s, // the last was there before
		s + "/../precious", "precious", dir + "/home/" + s + "/../thesis.txt", "/" + s, dir + "/home", "",
	}
	r := NewRoots(j)
	if got := r.Warning(); !strings.Contains(got, "and 3 more") {
		t.Errorf("warns %q", got)
	}
	remove := r.Leaves("there")
	tree(t, dir, "big/there/1.txt", "w/tb/there/1.txt", "w/there/sub/1.txt", "w/there/other.txt")
	remove()
	want := []string{"big/old.pt", "home/thesis.txt", "w/experiments", "w/name-there/1.txt", "w/precious/1.txt", "w/there/other.txt", "w/train.py"}
	if got := list(t, dir); !slices.Equal(got, want) {
		t.Errorf("left with %q, want %q", got, want)
	}
	// The trial makes links of the folders on the way.
	remove = r.Leaves("two")
	tree(t, dir, "w/two -> precious", "w/precious/sub/2.txt")
	remove()
	if _, err := os.Stat(dir + "/w/precious/sub/2.txt"); err != nil {
		t.Error("the leaf was removed through a link")
	}
}

func TestStageThroughALink(t *testing.T) {
	dir := top(t)
	for name, puts := range map[string][]job.Put{
		"a file through a link":     {{Path: "x", Link: dir + "/home"}, {Path: "x/evil", Text: []byte("x")}},
		"a link through a link":     {{Path: "x", Link: dir + "/home"}, {Path: "./x/evil", Link: dir}},
		"a file in place of a link": {{Path: "x", Link: dir + "/home/thesis.txt"}, {Path: "x", Text: []byte("x")}},
		"a link that comes later":   {{Path: "x/evil", Text: []byte("x")}, {Path: "x", Link: dir + "/home"}},
		"outside":                   {{Path: "../evil", Text: []byte("x")}},
	} {
		if err := Stage(filepath.Join(dir, "scratch", name), puts); err == nil {
			t.Errorf("%s: it is laid out", name)
		}
	}
	if got := list(t, dir+"/home"); !slices.Equal(got, []string{"thesis.txt"}) {
		t.Errorf("the home has %q", got)
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	from, to, fifo := dir+"/a", dir+"/b", dir+"/fifo"
	if err := os.WriteFile(from, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	patch := func(at int64, text string) []job.Patch {
		return []job.Patch{{Bytes: []job.Bytes{{At: at, New: []byte(text)}}}}
	}
	if err := Copy(from, to, patch(8, "xy")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(to); string(got) != "01234567xy" {
		t.Errorf("copied %q", got)
	}
	for _, at := range []int64{-1, 9, 1 << 62} {
		if err := Copy(from, to, patch(at, "xy")); err == nil {
			t.Errorf("a patch at %d is written", at)
		}
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, "/dev/zero"} {
		if err := Copy(path, to, nil); err == nil {
			t.Errorf("%s is copied", path)
		}
	}
}

func TestExclusive(t *testing.T) {
	dir := top(t)
	r := NewRoots(asked(dir, "--out", dir+"/big"))
	for folder, want := range map[string]bool{"/": false, dir: false, dir + "/home": false, dir + "/w/runs": true, dir + "/big/x": true, "runs": true} {
		if r.Covers(folder) != want {
			t.Errorf("%s: %v, want %v", folder, !want, want)
		}
	}
}

// Many paths that lead outside are one warning.
func TestOneWarning(t *testing.T) {
	j := asked(top(t))
	for i := range 1000 {
		j.Signs.Log = append(j.Signs.Log, fmt.Sprintf("/etc/%d/%s", i, strings.Repeat("x", 1000)))
	}
	if w := NewRoots(j).Warning(); len(w) > 1000 || !strings.Contains(w, "and 997 more") {
		t.Errorf("%d bytes: %.300s", len(w), w)
	}
}
