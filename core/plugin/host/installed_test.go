package host

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes files: a path that ends with "*" is one that can be executed.
func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		name, program := strings.CutSuffix(name, "*")
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
		if program {
			must(t, os.Chmod(path, 0o755))
		}
	}
	return dir
}

// store returns an empty store, whose programs answer with their name, and with their text as the version.
func store(t *testing.T) *Installed {
	t.Helper()
	top := t.TempDir()
	return &Installed{
		Dir: filepath.Join(top, "plugins"), Index: filepath.Join(top, "config", "plugins.json"),
		Cache:    filepath.Join(top, "state", "plugins.json"),
		Reserved: func() []string { return []string{"builtin"} }, Protocol: 1, MayRun: private.CheckFile,
		Ask: func(_ context.Context, path string) (plugin.Manifest, error) {
			b, err := os.ReadFile(path)
			return plugin.Manifest{Name: strings.TrimPrefix(filepath.Base(path), Prefix), Version: string(b)}, err
		},
	}
}

// settle makes a stamp count at once, for one test.
func settle(t *testing.T) {
	old := settled
	settled = 0
	t.Cleanup(func() { settled = old })
}

func install(t *testing.T, s *Installed, from string) *InstallResult {
	t.Helper()
	r, err := s.Install(t.Context(), from, InstallOptions{})
	must(t, err)
	return r
}

func names(t *testing.T, s *Installed) (out []string) {
	t.Helper()
	all, err := s.List()
	must(t, err)
	for _, p := range all {
		out = append(out, p.Name()+" "+p.Manifest.Version)
	}
	return out
}

func tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return nil
	})
	return out
}

func TestInstallAndRemove(t *testing.T) {
	s, src := store(t), t.TempDir()
	write(t, src, map[string]string{"launch-plugin-a*": "1", "b/launch-plugin-b*": "1", "b/data/x.txt": "x",
		"b/.git/config": "g"})
	must(t, os.Symlink("data/x.txt", filepath.Join(src, "b", "link")))
	a, b := install(t, s, filepath.Join(src, "launch-plugin-a")), install(t, s, filepath.Join(src, "b"))
	if a.Files != 1 || b.Files != 3 {
		t.Errorf("%d and %d files", a.Files, b.Files)
	}
	if got := tree(t, s.Dir); !slices.Equal(got, []string{"a/1/launch-plugin-a", "a/1.json", "b/1/data/x.txt",
		"b/1/launch-plugin-b",
		"b/1/link", "b/1.json"}) {
		t.Errorf("it installed %v", got)
	}
	for _, r := range []*InstallResult{a, b} {
		must(t, s.Verify(t.Context(), r.Plugin))
	}
	write(t, src, map[string]string{"b/launch-plugin-b*": "2"})
	if r := install(t, s, filepath.Join(src, "b")); r.Before != "1" || r.Plugin.Manifest.Version != "2" {
		t.Errorf("again: %+v", r)
	}
	if got := tree(t, filepath.Join(s.Dir, "b")); !slices.Equal(got, []string{"2/data/x.txt", "2/launch-plugin-b",
		"2/link", "2.json"}) {
		t.Errorf("again, it installed %v", got)
	}
	if got := names(t, s); !slices.Equal(got, []string{"a 1", "b 2"}) {
		t.Errorf("it lists %v", got)
	}
	// What was not installed, or is not as it was, stays.
	mine := write(t, filepath.Join(s.Dir, "b", "2"), map[string]string{"data/x.txt": "mine", "data/y.txt": "mine"})
	r, err := s.Remove("b")
	must(t, err)
	if len(r.Left) != 2 || !strings.HasPrefix(r.Left[0], mine+"/data/x.txt: it was changed") ||
		!strings.Contains(r.Left[1], "y.txt: it was added") {
		t.Errorf("it left %q", r.Left)
	}
	if got := tree(t, filepath.Join(s.Dir, "b")); !slices.Equal(got, []string{"2/data/x.txt", "2/data/y.txt"}) {
		t.Errorf("there are %v", got)
	}
	if r, err := s.Remove("a"); err != nil || len(r.Left) != 0 {
		t.Errorf("it left %v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of a: %v", err)
	}
	if _, err := s.Remove("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("removing it again: %v", err)
	}
}

func TestRefusedSources(t *testing.T) {
	s, src := store(t), t.TempDir()
	write(t, src, map[string]string{
		"tool*": "1", "launch-plugin-text": "1", "launch-plugin-builtin*": "1", "launch-plugin-a b*": "1",
		"none/x": "", "go/go.mod": "",
		"two/launch-plugin-x*": "", "two/launch-plugin-y*": "", "out/launch-plugin-o*": "", "wrong.whl": "",
		"bad.tar.gz": "x",
	})
	must(t, os.Symlink("../tool", filepath.Join(src, "out", "link")))
	for from, says := range map[string]string{
		"tool": "is named launch-plugin-NAME, and this one \"tool\"", "launch-plugin-text": "chmod +x",
		"launch-plugin-builtin": "is built into launch", "launch-plugin-a b": "named launch-plugin-NAME",
		"none": "has 0 executable programs named launch-plugin-NAME", "go": "go build -o launch-plugin-NAME .",
		"two": "has 2 executable programs", "out": "leads out of the folder", "wrong.whl": "reading the wheel",
		"bad.tar.gz": "unpacking",
		"nothing":    "no such file",
	} {
		if _, err := s.Install(t.Context(), filepath.Join(src, from), InstallOptions{}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", from, err, says)
		}
	}
	if got := tree(t, s.Dir); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if got := names(t, s); len(got) > 0 {
		t.Errorf("listed: %v", got)
	}
}

// The environment that an author has in a Python project is not copied: its links lead to an interpreter elsewhere.
func TestEnvironmentOfProject(t *testing.T) {
	src, to := t.TempDir(), t.TempDir()
	write(t, src, map[string]string{"pyproject.toml": "", "p.py": "", "lib/x.py": "", ".venv/pyvenv.cfg": "",
		".venv/bin/x": ""})
	must(t, os.Symlink("/usr/bin/python3", filepath.Join(src, ".venv", "bin", "python3")))
	must(t, copyTree(t.Context(), src, to, environment))
	if got := tree(t, to); !slices.Equal(got, []string{"lib/x.py", "p.py", "pyproject.toml"}) {
		t.Errorf("copied: %v", got)
	}
	none := func(string) bool { return false }
	if err := copyTree(t.Context(), src, t.TempDir(), none); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("the folder of a program: %v", err)
	}
}

// A plugin is installed whole or not at all, however an installation ends.
func TestHalfInstalled(t *testing.T) {
	s, src := store(t), write(t, t.TempDir(), map[string]string{"p/launch-plugin-p*": "1", "p/x": "x"})
	answers := s.Ask
	for why, ask := range map[string]func(context.Context, string) (plugin.Manifest, error){
		"it fell over": func(context.Context, string) (plugin.Manifest, error) {
			return plugin.Manifest{}, errors.New("it fell over")
		},
		`it calls itself "else"`: func(context.Context, string) (plugin.Manifest,
			error) {
			return plugin.Manifest{Name: "else"}, nil
		},
		"must not write into its own folder": func(ctx context.Context, path string) (plugin.Manifest, error) {
			os.WriteFile(filepath.Join(filepath.Dir(path), "cache"), nil, 0o600)
			return answers(ctx, path)
		},
	} {
		s.Ask = ask
		if _, err := s.Install(t.Context(), filepath.Join(src, "p"), InstallOptions{}); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
		if got := append(tree(t, s.Dir), names(t, s)...); len(got) > 0 {
			t.Errorf("%s: left %v", why, got)
		}
	}
	// launch is killed: what lies there is not found, and cleared by the next installation.
	s.Ask = answers
	half, err := s.claim("p", "elsewhere")
	must(t, err)
	write(t, half.Folder, map[string]string{"launch-plugin-p*": "half"})
	if got := names(t, s); len(got) > 0 || len(s.Interrupted()) != 1 {
		t.Errorf("a half installation is listed: %v, %v", got, s.Interrupted())
	}
	install(t, s, filepath.Join(src, "p"))
	if got := tree(t, s.Dir); len(s.Interrupted()) > 0 || !slices.Equal(got, []string{"p/1/launch-plugin-p",
		"p/1/x", "p/1.json"}) {
		t.Errorf("left %v, %v", got, s.Interrupted())
	}
	if unlock, err := s.lock(); err != nil {
		t.Error(err)
	} else {
		if _, err := s.Install(t.Context(), filepath.Join(src, "p"), InstallOptions{}); err == nil ||
			!strings.Contains(err.Error(), "another launch") {
			t.Errorf("two at once: %v", err)
		}
		unlock()
	}
}

func TestChanged(t *testing.T) {
	settle(t)
	src := write(t, t.TempDir(), map[string]string{"p/launch-plugin-p*": "1", "p/x": "x"})
	must(t, os.Symlink("x", filepath.Join(src, "p", "link")))
	for name, tt := range map[string]struct {
		do   func(dir string) error
		says string
	}{
		"the program": {func(dir string) error {
			return os.WriteFile(dir+"/launch-plugin-p", []byte("2"),
				0o755)
		}, "launch-plugin-p has changed"},
		"a file, with its time put back": {func(dir string) error {
			info, err := os.Stat(dir + "/x")
			must(t, err)
			must(t, os.WriteFile(dir+"/x", []byte("y"), 0o644))
			return os.Chtimes(dir+"/x", info.ModTime(), info.ModTime())
		}, "x has changed"},
		"a file more": {func(dir string) error { return os.WriteFile(dir+"/sitecustomize.py", nil, 0o644) },
			"sitecustomize.py was added"},
		"a file less": {func(dir string) error { return os.Remove(dir + "/x") }, "x was removed"},
		"a link elsewhere": {func(dir string) error {
			os.Remove(dir + "/link")
			return os.Symlink("/etc/passwd",
				dir+"/link")
		}, "link has changed"},
		"the list": {func(dir string) error { return os.WriteFile(dir+".json", []byte("[]"), 0o600) },
			"1.json has changed"},
		"no list":          {func(dir string) error { return os.Remove(dir + ".json") }, "1.json was removed"},
		"others may write": {func(dir string) error { return os.Chmod(dir+"/x", 0o666) }, "others can write to"},
		"all gone":         {os.RemoveAll, "is gone; `launch plugins remove p`"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			p := install(t, s, filepath.Join(src, "p")).Plugin
			must(t, s.Verify(t.Context(), p)) // remembered from here on
			must(t, tt.do(p.Folder))
			if err := s.Verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), tt.says) ||
				!strings.Contains(err.Error(), "plugin p is not run") {
				// The list is only read once a file has changed: it says nothing by itself.
				if name != "the list" && name != "no list" || err != nil {
					t.Errorf("it is %v", err)
				}
			}
			s.Cache = "" // nothing is remembered
			if err := s.Verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("by its checksums it is %v", err)
			}
			if tt.says = ""; name == "others may write" || name == "all gone" {
				return
			}
			r, err := s.Trust(t.Context(), "p")
			must(t, err)
			if len(r.Changed) != 1 {
				t.Errorf("trusting it found %v", r.Changed)
			}
			must(t, s.Verify(t.Context(), r.Plugin))
		})
	}
}

// A link of an installed plugin, such as the one to a Python environment's interpreter, leads to nothing that everybody
// can exchange.
func TestLinkTarget(t *testing.T) {
	settle(t)
	bin := write(t, t.TempDir(), map[string]string{"bin/python*": "1"}) + "/bin"
	src := write(t, t.TempDir(), map[string]string{"p/launch-plugin-p*": "1"})
	s := store(t)
	p := install(t, s, filepath.Join(src, "p")).Plugin
	must(t, os.Symlink(bin+"/python", filepath.Join(p.Folder, "python")))
	r, err := s.Trust(t.Context(), "p")
	must(t, err)
	p = r.Plugin
	must(t, s.Verify(t.Context(), p)) // remembered from here on
	must(t, os.Chmod(bin, 0o777))
	for range 2 {
		if err := s.Verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), "others can write to "+bin) {
			t.Errorf("it is %v", err)
		}
		if _, err := s.Trust(t.Context(), "p"); err == nil {
			t.Error("it is trusted again")
		}
	}
	must(t, os.Chmod(bin, 0o755))
	must(t, s.Verify(t.Context(), p))
	must(t, os.Chmod(bin, 0o777))
	if _, err := s.Remove("p"); err != nil {
		t.Errorf("it cannot be removed: %v", err)
	}
}

// opens counts how often one of the files of a folder is opened, until the result is called.
func opens(t *testing.T, dir string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
	must(t, err)
	return func() (n int) {
		defer unix.Close(fd)
		var b [1 << 16]byte
		for {
			got, err := unix.Read(fd, b[:])
			if err != nil || got <= 0 {
				return n
			}
			for at := 0; at < got; n++ {
				if e := bytes.NewReader(b[at+4:]); e.Len() > 0 && b[at+7]&0x40 != 0 { // IN_ISDIR: a list of the folder
					n--
				}
				at += unix.SizeofInotifyEvent + int(b[at+12])
			}
		}
	}
}

// Files are read once, and again when one has changed.
func TestFilesAreReadOnce(t *testing.T) {
	s := store(t)
	p := install(t, s, write(t, t.TempDir(), map[string]string{"launch-plugin-p*": "1", "x": "x", "y": "y"})).Plugin
	verify := func() int {
		t.Helper()
		n := opens(t, p.Folder)
		must(t, s.Verify(t.Context(), p))
		return n()
	}
	if n := verify(); n != 3 {
		t.Errorf("just installed: %d files are opened", n)
	}
	if n := verify(); n != 3 {
		t.Errorf("a file that has only just changed could change again unseen: %d files are opened", n)
	}
	settle(t)
	if n := verify(); n != 3 {
		t.Errorf("then %d files are opened", n)
	}
	if n := verify(); n != 0 {
		t.Errorf("unchanged, %d files are opened", n)
	}
	now := time.Now()
	must(t, os.Chtimes(filepath.Join(p.Folder, "x"), now, now))
	if n := verify(); n != 3 {
		t.Errorf("touched, %d files are opened", n)
	}
}

func TestTrust(t *testing.T) {
	settle(t)
	s, dir := store(t), write(t, t.TempDir(), map[string]string{"launch-plugin-a*": "1",
		"launch-plugin-builtin*": "", "launch-plugin-text": "",
		"other/launch-plugin-a*": "9", "launch-plugin-b*": "1"})
	dirs := []string{dir, filepath.Join(dir, "other")}
	strangers := func() string {
		var out []string
		for _, p := range s.Programs(dirs) {
			out = append(out, fmt.Sprint(p.Name(), p.MayBeTrusted))
		}
		return strings.Join(out, " ")
	}
	if got := strangers(); got != "atrue btrue builtinfalse afalse" {
		t.Errorf("it finds %s", got)
	}
	if got := s.Untold(s.Programs(dirs)); len(got) != 2 {
		t.Errorf("told of %v", got)
	}
	if got := s.Untold(s.Programs(dirs)); len(got) != 0 {
		t.Errorf("told again of %v", got)
	}
	path := filepath.Join(dir, "launch-plugin-a")
	if _, err := s.Trust(t.Context(), filepath.Join(dir, "launch-plugin-text")); err == nil {
		t.Error("a text is trusted")
	}
	r, err := s.Trust(t.Context(), path)
	must(t, err)
	must(t, s.Verify(t.Context(), r.Plugin))
	if got := strangers(); got != "btrue builtinfalse afalse" {
		t.Errorf("then it finds %s", got)
	}
	must(t, os.WriteFile(path, []byte("2"), 0o755))
	var changed *ChangedPlugin
	if err := s.Verify(t.Context(), r.Plugin); !errors.As(err, &changed) || changed.File != path ||
		!strings.Contains(err.Error(), "since you trusted it") {
		t.Errorf("changed: %v", err)
	}
	r, err = s.Trust(t.Context(), "a")
	must(t, err)
	must(t, s.Verify(t.Context(), r.Plugin))
	if got := names(t, s); !slices.Equal(got, []string{"a 2"}) || len(r.Changed) != 1 || r.Before != "1" {
		t.Errorf("trusted again: %v, %+v", got, r)
	}
	_, err = s.Trust(t.Context(), filepath.Join(dir, "other", "launch-plugin-a"))
	must(t, err)
	if got := names(t, s); !slices.Equal(got, []string{"a 9"}) {
		t.Errorf("another of its name: %v", got)
	}
	removed, err := s.Remove("a")
	must(t, err)
	if _, err := os.Stat(path); err != nil || len(removed.Left) != 1 {
		t.Errorf("removed: %v, %v", removed.Left, err)
	}
	install(t, s, path)
	if _, err := s.Trust(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is installed in") {
		t.Errorf("one that is installed: %v", err)
	}
}

// A list that others could have written starts nothing.
func TestForeignIndex(t *testing.T) {
	s := store(t)
	install(t, s, write(t, t.TempDir(), map[string]string{"launch-plugin-p*": "1"}))
	must(t, os.Chmod(s.Index, 0o666))
	if all, err := s.List(); err == nil || len(all) > 0 || !strings.Contains(err.Error(), "others can write to") {
		t.Errorf("it lists %v, %v", all, err)
	}
	must(t, os.Chmod(s.Index, 0o600))
	must(t, os.WriteFile(s.Index, []byte(`{"version": 2, "plugins": []}`), 0o600))
	if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "update launch") {
		t.Errorf("of a newer launch: %v", err)
	}
	for _, broken := range []string{"{", `{"plugins": 3}`} {
		must(t, os.WriteFile(s.Index, []byte(broken), 0o600))
		if _, err := s.List(); err == nil || !strings.Contains(err.Error(), "remove it, and install or trust your") {
			t.Errorf("of %s: %v", broken, err)
		}
	}
}

type entry struct {
	name, text, link string
	kind             byte // of a tar archive
}

func tarOf(t *testing.T, path string, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		must(t, w.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.text)), Mode: 0o6777, Typeflag: e.kind,
			Linkname: e.link}))
		_, err := w.Write([]byte(e.text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, z.Close())
	must(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

func zipOf(t *testing.T, path string, entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name}
		h.SetMode(0o755)
		if e.link != "" {
			h.SetMode(0o777 | fs.ModeSymlink)
			e.text = e.link
		}
		f, err := w.CreateHeader(h)
		must(t, err)
		_, err = f.Write([]byte(e.text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, os.WriteFile(path, b.Bytes(), 0o644))
	return path
}

func TestArchives(t *testing.T) {
	dir := t.TempDir()
	whole := []entry{{name: "p-1/launch-plugin-p", text: "1", kind: tar.TypeReg}, {name: "p-1/sub/x", text: "x",
		kind: tar.TypeReg},
		{name: "p-1/sub/link", link: "../launch-plugin-p", kind: tar.TypeSymlink}}
	flat := []entry{{name: "./launch-plugin-p", text: "1", kind: tar.TypeReg}}
	for _, path := range []string{tarOf(t, dir+"/a.tar.gz", whole...), tarOf(t, dir+"/b.tgz", flat...), zipOf(t,
		dir+"/c.zip", whole...)} {
		s := store(t)
		r := install(t, s, path)
		must(t, s.Verify(t.Context(), r.Plugin))
		info, err := os.Stat(r.Plugin.Path)
		must(t, err)
		if info.Mode() != 0o755 {
			t.Errorf("%s: its program has mode %v", path, info.Mode())
		}
	}
	out := filepath.Join(dir, "out")
	for name, bad := range map[string][]entry{
		"climbs":             {{name: "../launch-plugin-p", text: "1", kind: tar.TypeReg}},
		"absolute":           {{name: out, text: "1", kind: tar.TypeReg}},
		"a link out":         {{name: "l", link: "/etc", kind: tar.TypeSymlink}},
		"a link that climbs": {{name: "l", link: "../..", kind: tar.TypeSymlink}},
		"a link through a link": {{name: "a", link: ".", kind: tar.TypeSymlink}, {name: "l", link: "a/../x",
			kind: tar.TypeSymlink}},
		"a hard link": {{name: "l", link: "/etc/passwd", kind: tar.TypeLink}},
		"a device":    {{name: "d", kind: tar.TypeChar}},
		"a FIFO":      {{name: "d", kind: tar.TypeFifo}},
		"twice": {{name: "launch-plugin-p", text: "1", kind: tar.TypeReg},
			{name: "launch-plugin-p", text: "2", kind: tar.TypeReg}},
	} {
		s := store(t)
		paths := []string{tarOf(t, dir+"/bad.tar.gz", bad...)}
		if k := bad[0].kind; k == tar.TypeReg || k == tar.TypeSymlink {
			paths = append(paths, zipOf(t, dir+"/bad.zip", bad...))
		}
		for _, path := range paths {
			if _, err := s.Install(t.Context(), path, InstallOptions{}); err == nil || !strings.Contains(err.Error(),
				"unpacking") {
				t.Errorf("%s, %s: %v", name, filepath.Base(path), err)
			}
			if got := tree(t, s.Dir); len(got) > 0 {
				t.Errorf("%s left %v", name, got)
			}
		}
	}
	if _, err := os.Lstat(out); err == nil {
		t.Error("an archive wrote outside")
	}
}

// wheelOf makes a wheel with one module and one script.
func wheelOf(t *testing.T, dir, script string) string {
	t.Helper()
	info := "p-1.dist-info/"
	return zipOf(t, filepath.Join(dir, "p-1-py3-none-any.whl"),
		entry{name: "p.py", text: "def main():\n    print(__file__)\n"},
		entry{name: info + "METADATA", text: "Metadata-Version: 2.1\nName: p\nVersion: 1\n"},
		entry{name: info + "WHEEL", text: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		entry{name: info + "entry_points.txt", text: "[console_scripts]\n" + script + " = p:main\nother = p:main\n"},
		entry{name: info + "RECORD", text: "p.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info +
			"entry_points.txt,,\n" + info + "RECORD,,\n"})
}

// A wheel gets an environment of its own, in which its script runs, and which has no pip.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("makes environments of Python")
	}
	if out, err := exec.Command("python3", "-c", "import venv, ensurepip").CombinedOutput(); err != nil {
		t.Skipf("python3 cannot make environments: %s", out)
	}
	s := store(t)
	s.Ask = func(ctx context.Context, path string) (plugin.Manifest, error) {
		c := exec.CommandContext(ctx, path)
		c.Env = []string{"PYTHONDONTWRITEBYTECODE=1"}
		out, err := c.CombinedOutput()
		return plugin.Manifest{Name: "p", Version: strings.TrimSpace(string(out))}, err
	}
	var told []string
	o := InstallOptions{NoIndex: true, Tell: func(line string) { told = append(told, line) }}
	r, err := s.Install(t.Context(), wheelOf(t, t.TempDir(), "launch-plugin-p"), o)
	must(t, err)
	p := r.Plugin
	if module := p.Manifest.Version; !strings.HasPrefix(module, p.Folder+"/venv/lib/") || len(told) != 2 {
		t.Errorf("it runs %s; told %q", module, told)
	}
	if pips, _ := filepath.Glob(p.Folder + "/venv/lib/*/site-packages/pip*"); len(pips) > 0 {
		t.Errorf("it holds %v", pips)
	}
	if got, _ := filepath.Glob(s.Dir + "/*"); !slices.Equal(got, []string{s.Dir + "/p"}) {
		t.Errorf("left: %v", got)
	}
	must(t, s.Verify(t.Context(), p))
	sites, _ := filepath.Glob(p.Folder + "/venv/lib/*/site-packages")
	must(t, os.WriteFile(sites[0]+"/evil.pth", []byte("import os"), 0o644))
	if err := s.Verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), "evil.pth was added") {
		t.Errorf("with another .pth file: %v", err)
	}
	if _, err := s.Install(t.Context(), wheelOf(t, t.TempDir(), "tool"), o); err == nil ||
		!strings.Contains(err.Error(), "has 0 scripts named") {
		t.Errorf("without a script: %v", err)
	}
}
