package kit_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/kit/testdata/faulty"
)

// try tests the plugin with a fault on the recipes.
func try(t *testing.T, fault string, change func(*kit.Options)) *kit.Report {
	t.Helper()
	p := faulty.New(fault)
	cases, err := kit.Read("testdata/recipes", []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent",
		"FAMILY_BATCH=2"})
	if err != nil {
		t.Fatal(err)
	}
	o := kit.Options{Open: func(context.Context) (kit.Opened, error) { return kit.Opened{Plugin: p}, nil },
		Cases: cases, Deadline: time.Minute, Quick: true}
	change(&o)
	report, err := kit.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The plugin without a fault passes every check, and every check is made.
func TestNoFault(t *testing.T) {
	report := try(t, "", func(o *kit.Options) {
		open := o.Open
		o.Quick = false
		o.Open = func(ctx context.Context) (kit.Opened, error) {
			p, err := open(ctx)
			p.PID = os.Getpid()
			return p, err
		}
		o.Cases[2].Sets = []string{"HOME"} // listed
	})
	for _, f := range report.Findings {
		t.Error(f)
	}
	for _, c := range kit.Checks {
		if !slices.Contains(report.Checked, c.Name) {
			t.Errorf("%s was not checked", c.Name)
		}
	}
	if !report.Passed() || report.Recognised() != 1 || len(report.Cases) != 3 {
		t.Errorf("%+v", report.Cases)
	}
}

// A case's folder may be a whole project: sockets are left out, and of a large file the beginning and the length are
// copied.
func TestLargeFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/recipes/small")); err != nil {
		t.Fatal(err)
	}
	data, err := os.Create(filepath.Join(dir, "data.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if err := data.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	report := try(t, "", func(o *kit.Options) { o.Cases[2].Command.Dir = dir })
	if !report.Passed() {
		t.Errorf("%v %v", report.Cases, report.Findings)
	}
}

// Every fault is found by the check that is made for it.
func TestFaults(t *testing.T) {
	caught := map[string]bool{}
	for _, f := range faulty.Faults {
		caught[f.Check] = true
		t.Run(f.Name, func(t *testing.T) {
			if f.Check != "starts-nothing" { // which looks at this process' children
				t.Parallel()
			}
			report := try(t, f.Name, func(o *kit.Options) {
				o.Quick = f.Check != "garbage" && f.Check != "deadline" && f.Name != "trace"
				if f.Check == "deadline" {
					o.Deadline = 300 * time.Millisecond
				}
				if open := o.Open; f.Check == "starts-nothing" {
					o.Open = func(ctx context.Context) (kit.Opened, error) {
						p, err := open(ctx)
						p.PID = os.Getpid()
						return p, err
					}
				}
			})
			var names []string
			for _, found := range report.Findings {
				names = append(names, found.Check)
				if found.Check == f.Check && (found.Want == "" || found.Saw == "" || strings.Contains(found.Saw, "%!")) {
					t.Errorf("a finding without words: %+v", found)
				}
			}
			if !slices.Contains(names, f.Check) {
				t.Errorf("%s did not find it; found: %v", f.Check, report.Findings)
			}
			if report.Passed() {
				t.Error("the plugin passed")
			}
		})
	}
	for _, c := range kit.Checks {
		if !caught[c.Name] {
			t.Errorf("no fault is planted for %s", c.Name)
		}
		if c.Promise == "" || c.Mend == "" {
			t.Errorf("%s has no words", c.Name)
		}
	}
}

// docs/plugins.md has a section for each check, with its promise and what to mend.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, c := range kit.Checks {
		if !strings.Contains(string(text), "\n#### "+c.Name+"\n") {
			t.Errorf("no section %s", c.Name)
		}
		for _, words := range []string{c.Promise, c.Mend} {
			words = strings.ReplaceAll(strings.ToUpper(words[:1])+words[1:], "`", "")
			if !strings.Contains(strings.ReplaceAll(page, "`", ""), words) {
				t.Errorf("%s: the page lacks %q", c.Name, words)
			}
		}
	}
}

// Unless --plugin names it, launch asks no plugin about a command without its mark. Such a case is declined, whatever
// the plugin would answer, and an error that its author expects would not be printed.
func TestUnmarked(t *testing.T) {
	unmarked := func(expects kit.Expects) *kit.Report {
		return try(t, "", func(o *kit.Options) {
			open := o.Open
			o.Open = func(ctx context.Context) (kit.Opened, error) {
				p, err := open(ctx)
				p.Plugin = elsewhere{p.Plugin}
				return p, err
			}
			o.Cases = slices.DeleteFunc(o.Cases, func(c kit.Case) bool { return c.Expects.Wrong == "" })
			o.Cases[0].Expects = expects
		})
	}
	report := unmarked(kit.Expects{Declined: true})
	if len(report.Findings) > 0 || len(report.Cases) != 1 || report.Cases[0].Outcome != "declined" {
		t.Errorf("%+v %v", report.Cases, report.Findings)
	}
	report = unmarked(kit.Expects{Wrong: "batch"})
	if len(report.Findings) != 1 || report.Findings[0].Check != "marks" {
		t.Errorf("%+v %v", report.Cases, report.Findings)
	}
}

// elsewhere has a mark that no recipe bears.
type elsewhere struct{ plugin.Plugin }

func (e elsewhere) Manifest() plugin.Manifest {
	m := e.Plugin.Manifest()
	m.Marks = []plugin.Mark{{Script: "elsewhere.py"}}
	return m
}
