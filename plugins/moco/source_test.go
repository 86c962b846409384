package moco

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
)

var (
	testClass  = regexp.MustCompile(`^class (\w+)(?:\(([\w, ]*)\))?:`)
	testField  = regexp.MustCompile(`^    (\w+)\s*(?::[^=]+)?=\s*([^#]*?)\s*(?:#.*)?$`)
	testImport = regexp.MustCompile(`^from ([\w.]+) import (.*)$`)
)

// pythonSource is what launch's reader says of a file as simple as those in testdata: classes with one field a line.
func pythonSource(t *testing.T, path string) config.PythonSource {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		return config.PythonSource{Path: path, Problem: err.Error()}
	}
	sum := sha256.Sum256(raw)
	s := config.PythonSource{Path: path, Text: raw, SHA256: hex.EncodeToString(sum[:]), Calls: map[string][]int{}}
	class, at := "", 0
	for i, line := range strings.Split(string(raw), "\n") {
		if m := testClass.FindStringSubmatch(line); m != nil {
			class = m[1]
			c := config.PythonClass{Name: class, Line: i + 1}
			if m[2] != "" {
				c.Bases = strings.Split(m[2], ", ")
			}
			s.Classes = append(s.Classes, c)
		} else if m := testImport.FindStringSubmatch(line); m != nil {
			for _, name := range strings.Split(m[2], ", ") {
				name, as, renamed := strings.Cut(name, " as ")
				if !renamed {
					as = name
				}
				s.Imports = append(s.Imports, config.PythonImport{Module: m[1], Name: name, As: as, Line: i + 1})
			}
		} else if m := testField.FindStringSubmatchIndex(line); m != nil && class != "" {
			text := line[m[4]:m[5]]
			it := config.PythonItem{Path: class + "." + line[m[2]:m[3]], Start: at + m[4], End: at + m[5], Line: i + 1, Value: json.RawMessage("null")}
			switch quoted, is := python.Unquote(text); {
			case is:
				it.Value, _ = json.Marshal(quoted)
				it.Literal = true
			case text == "True", text == "False":
				it.Value, it.Literal = json.RawMessage(strings.ToLower(text)), true
			default:
				var f float64
				if json.Unmarshal([]byte(text), &f) == nil {
					it.Value, it.Literal = json.RawMessage(text), true
				}
			}
			s.Items = append(s.Items, it)
		} else if line != "" && line[0] != ' ' {
			class = ""
		}
		at += len(line) + 1
	}
	return s
}

// checkout copies one of testdata's, with files replaced: by name, each as pairs of old and new text.
func checkout(t *testing.T, name string, replace map[string][]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	for file, pairs := range replace {
		path := filepath.Join(dir, file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for i := 0; i+1 < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("%s has no %q", file, pairs[i])
			}
			text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// images makes files with names of images in a folder.
func images(t *testing.T, dir string, n int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, itoa(int64(i))+".png"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// asked is a command in a checkout on so many GPUs; -1 where launch would not know.
func asked(dir string, gpus int, args ...string) job.Command {
	return job.Command{Args: append([]string{"python"}, args...), Dir: dir, Env: []string{"PATH=/usr/bin"}, Devices: gpus}
}

// recognize answers the plugin's needs as launch would.
func recognize(t *testing.T, c job.Command) (*job.Job, error) {
	t.Helper()
	for range 4 {
		r, err := New().Recognize(t.Context(), c)
		var need *plugin.Need
		if !errors.As(err, &need) {
			if err != nil {
				return nil, err
			}
			j := r.Job()
			j.Command = c
			return j, nil
		}
		for _, path := range need.Sources {
			if c.Source(path) != nil {
				t.Fatalf("asks for %s twice", path)
			}
			c.Sources = append(c.Sources, pythonSource(t, path))
		}
		if need.Devices && c.Devices == 0 {
			c.Devices = -1
		}
	}
	t.Fatal("asks and asks")
	return nil, nil
}

func mine(t *testing.T, c job.Command) *job.Job {
	t.Helper()
	j, err := recognize(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func says(lines []string, what string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, what) })
}

func TestManifestMarks(t *testing.T) {
	marks := New().Manifest().Marks
	matches := func(script string, beside ...string) bool {
		return slices.ContainsFunc(marks, func(m plugin.Mark) bool {
			return m.Matches(plugin.Seen{Script: script, Exists: func(p string) bool { return slices.Contains(beside, p) }})
		})
	}
	if !matches("main_moco.py", "moco/builder.py") || !matches("main.py", "src/training/train_moco.py") || !matches("src.training.train_moco", "src/training/train_moco.py") {
		t.Error("the family's own commands bear no mark")
	}
	if matches("main.py") || matches("main.py", "src/training/train.py") || matches("train.py", "src/training/train_moco.py") || matches("main_moco.py") {
		t.Error("somebody else's command bears a mark")
	}
}
