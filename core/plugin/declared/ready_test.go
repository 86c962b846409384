package declared

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
)

var update = flag.Bool("update", false, "write the files that are generated from this package")

// golden compares a generated file, or writes it with -update.
func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what this package generates (%v): go test ./core/plugin/declared -update", path, err)
	}
}

// readyNames are the ready declarations in the folder, which -update may embed only the next time.
func readyNames(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("ready/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no ready declarations: %v", err)
	}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}

// heavy are settings that change memory in some program: momentum adds states, a dataset has the vocabulary, loader
// workers take memory of a CPU's run, a text encoder's rate of 0 leaves it out.
var heavy = regexp.MustCompile(`(?i)momentum|dataset|workers|batch|size|precision|width|encoder|` +
	`optim(izer)?=?$|model=?$`)

func TestReadyIgnores(t *testing.T) {
	for _, name := range readyNames(t) {
		d, err := readReady(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Ignore {
			for _, one := range d.Ignore[i].each() {
				if slices.ContainsFunc(one.names, heavy.MatchString) {
					t.Errorf("%s ignores %v", name, one.names)
				}
			}
		}
	}
}

// Every ready declaration can be read, names itself, and has its marks where launch looks for them.
func TestReady(t *testing.T) {
	var all []readyMark
	for _, name := range readyNames(t) {
		d, err := readReady(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.About == "" || d.Prefer {
			t.Errorf("%s: a ready declaration has a line about itself, and outranks no plugin", name)
		}
		marks := marksOf(d)
		for _, m := range marks {
			if strings.Trim(strings.TrimSuffix(m.Script, ".py"), "*?") == "" && len(m.Contains) == 0 {
				t.Errorf("%s: a mark matches every script: %+v", name, m)
			}
		}
		all = append(all, readyMark{name, marks})
	}
	// not by their files: "-" is before "."
	slices.SortFunc(all, func(a, b readyMark) int { return cmp.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "ready/marks.json", append(text, '\n'))
	if err := New().Manifest().Check(); err != nil {
		t.Error(err)
	}
}

// A Trainer script that passes on a saved state resumes, although the marks of one that does not fit it, too.
func TestReadyTrainers(t *testing.T) {
	const reads = "from transformers import HfArgumentParser, TrainingArguments\n"
	for text, want := range map[string]string{
		reads + "trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)\n": "ready: hf-trainer",
		reads + "trainer.train()\n": "ready: hf-trainer-plain",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "run.py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		prog, err := command.Program([]string{"python", "run.py"}, nil, dir)
		if err != nil {
			t.Fatal(err)
		}
		if f := readyFor(programOf(prog, nil)); f == nil || f.called != want {
			t.Errorf("%q: %+v, want %q", text, f, want)
		}
	}
}

// llama2.c has nanoGPT's settings and states, and another line of a step.
func TestNanoGPTSteps(t *testing.T) {
	d, err := readReady("nanogpt")
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile(string(d.Progress))
	for line, want := range map[string]string{
		"iter 12: loss 3.1415, time 5.00ms, mfu 1.00%":                      "12",
		"12 | loss 3.1415 | lr 5.000000e-04 | 50.00ms | mfu 1.00%":          "12",
		"step 12: train loss 3.1, val loss 3.2":                             "",
		"breaks down as: 4 grad accum steps * 1 processes * 128 batch size": "",
		"loss 3.1 | 12 | loss 3.2":                                          "",
	} {
		got := ""
		if m := step.FindStringSubmatch(line); m != nil {
			got = m[step.SubexpIndex("iteration")]
		}
		if got != want {
			t.Errorf("%q: step %q, want %q", line, got, want)
		}
	}
}
