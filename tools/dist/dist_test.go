package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, 11, 23, 15, 25, 38, 0, time.UTC)

// installation is a small one: a script is the program.
func installation() []file {
	return []file{
		{path: "bin/launch", mode: 0o755, data: []byte("#!/bin/sh\necho \"launch: $*\"\n")},
		{path: "bin/launch-ml", link: "launch"},
		{path: "share/doc/launch-ml/LICENSE", mode: 0o644, data: []byte("free\n")},
		{path: "share/man/man1/launch.1", mode: 0o644, data: []byte(".TH LAUNCH 1\n")},
	}
}

func small() wheel {
	return wheel{name: name, version: "1.2.3", summary: summary, license: "Apache-2.0",
		tags: architectures[0].tags, date: day, files: installation()}
}

// TestWheel holds the layout that pip and uv need: each program a script that may be executed, and each file recorded.
func TestWheel(t *testing.T) {
	w := small()
	called := "launch_ml-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl"
	if got := w.file(); got != called {
		t.Errorf("the wheel is called %s, want %s", got, called)
	}
	packed, err := w.pack()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		want := fs.FileMode(0o644)
		if strings.Contains(f.Name, "/scripts/") {
			want = 0o755
		}
		if f.Mode() != want || f.ExternalAttrs>>16&0o170000 != 0o100000 {
			t.Errorf("%s has the mode %v (%o)", f.Name, f.Mode(), f.ExternalAttrs>>16)
		}
	}
	want := []string{"launch_ml-1.2.3.data/scripts/launch", "launch_ml-1.2.3.data/scripts/launch-ml",
		"launch_ml-1.2.3.dist-info/licenses/LICENSE", "launch_ml-1.2.3.data/data/share/man/man1/launch.1",
		"launch_ml-1.2.3.dist-info/WHEEL", "launch_ml-1.2.3.dist-info/METADATA", "launch_ml-1.2.3.dist-info/RECORD"}
	if !slices.Equal(names, want) {
		t.Errorf("the wheel has %q, want %q", names, want)
	}
	record, err := z.Open("launch_ml-1.2.3.dist-info/RECORD")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(record).ReadAll()
	if err != nil || len(rows) != len(names) {
		t.Fatalf("RECORD has %d rows for %d files: %v", len(rows), len(names), err)
	}
	for i, row := range rows {
		if row[0] != names[i] || (row[1] == "") != strings.HasSuffix(row[0], "RECORD") {
			t.Errorf("RECORD has %q for %s", row, names[i])
		}
	}
}

// TestWheelIsInstalled has pip install the wheel, where there is a pip, and runs both commands.
func TestWheelIsInstalled(t *testing.T) {
	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-m", "pip", "--version").Run(); err != nil {
		t.Skip("no pip here")
	}
	dir := t.TempDir()
	w := small()
	w.tags = []string{"any"} // on any machine
	packed, err := w.pack()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, w.file()), packed, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-m", "pip", "install", "-q", "--no-index", "--find-links", dir,
		"--prefix", filepath.Join(dir, "here"), name).CombinedOutput()
	if err != nil {
		t.Fatalf("pip: %v\n%s", err, out)
	}
	for _, command := range []string{"launch", name} {
		all, err := filepath.Glob(filepath.Join(dir, "here", "*", command)) // Debian's pip puts it into local/bin
		if err != nil || len(all) == 0 {
			all, err = filepath.Glob(filepath.Join(dir, "here", "*", "*", command))
		}
		if err != nil || len(all) != 1 {
			t.Fatalf("%s was not installed: %q, %v", command, all, err)
		}
		link := filepath.Join(dir, "link-"+command) // as pipx and uv have it on the PATH
		if err := os.Symlink(all[0], link); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(link, "version").CombinedOutput(); err != nil || string(out) != "launch: version\n" {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
}

func TestTarball(t *testing.T) {
	packed, err := tarball("launch-ml-1.2.3-linux-amd64", installation(), day)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	r, found := tar.NewReader(z), map[string]*tar.Header{}
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h
	}
	program, link := found["launch-ml-1.2.3-linux-amd64/bin/launch"], found["launch-ml-1.2.3-linux-amd64/bin/launch-ml"]
	if program == nil || program.Mode != 0o755 || !program.ModTime.Equal(day.Truncate(time.Second)) ||
		program.Uname != "" {
		t.Errorf("the program is %+v", program)
	}
	if link == nil || link.Typeflag != tar.TypeSymlink || link.Linkname != "launch" {
		t.Errorf("the alias is %+v", link)
	}
}

// Nothing of the moment or of the machine is in the files: no time, no user, no order of a map.
func TestSameTwice(t *testing.T) {
	for name, pack := range map[string]func() ([]byte, error){
		"wheel":   func() ([]byte, error) { return small().pack() },
		"tarball": func() ([]byte, error) { return tarball("x", installation(), day) },
	} {
		one, err := pack()
		if err != nil {
			t.Fatal(err)
		}
		two, err := pack()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("two %ss differ", name)
		}
	}
}

// TestELF compiles a program that is static, and one that needs pthread_create, which glibc has in its version 2.34.
func TestELF(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "x.c")
	text := "#include <pthread.h>\nvoid *f(void *x) { return x; }\n" +
		"int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0); }\n"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	static, dynamic := filepath.Join(dir, "static"), filepath.Join(dir, "dynamic")
	for _, args := range [][]string{{"-static", "-o", static, source, "-lpthread"}, {"-o", dynamic, source, "-lpthread"}} {
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Skipf("no C compiler with libraries here: %v\n%s", err, out)
		}
	}
	if startsAnywhere(static) != nil || startsAnywhere(dynamic) == nil {
		t.Errorf("static: %v; dynamic: %v", startsAnywhere(static), startsAnywhere(dynamic))
	}
	if err := startsSince(dynamic, 1); err == nil || !strings.Contains(err.Error(), "of GLIBC_2.") {
		t.Errorf("a program that needs a later glibc: %v", err)
	}
	if err := startsSince(dynamic, 99); err != nil {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string][3]string{
		"v1.2.3":      {"1.2.3", "1.2.3", "1.2.3"},
		"v1.2.3-rc.1": {"1.2.3-rc.1", "1.2.3rc1", "1.2.3~rc1"},
		"v1.2.3-0.20261123152538-0123456789ab": {"1.2.3-0.20261123152538-0123456789ab", "1.2.3.dev20261123152538",
			"1.2.3~20261123152538"},
	} {
		r := release{version: version, date: day}
		if got := [3]string{r.number(), r.python(), r.debian()}; got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// A release is that of the code, and of the changelog's first version.
func TestReleaseIsTheCodes(t *testing.T) {
	next, err := codeVersion(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for version, right := range map[string]bool{next: true, next + "-rc.1": true, next + "-rc1": false, next + "1": false,
		"v9.9.9": false, "": false} {
		if err := (release{version: version}).is(next); (err == nil) != right {
			t.Errorf("%q beside %s: %v", version, next, err)
		}
	}
	dir := t.TempDir()
	code := filepath.Join(dir, versionFile)
	if err := os.MkdirAll(filepath.Dir(code), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct{ path, text string }{{code, "const Version = \"v1.2.0\"\n"},
		{filepath.Join(dir, "CHANGELOG.md"), "# Changelog\n\n## v1.1.0\n\n## v1.2.0\n"}} {
		if err := os.WriteFile(f.path, []byte(f.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := codeVersion(dir); err == nil {
		t.Errorf("a changelog that begins with another version: %s", v)
	}
}
