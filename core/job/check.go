package job

import (
	"fmt"
	"path/filepath"
	"regexp/syntax"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/metric"
)

// Bounds of a plugin's answer. A real family needs at most a tenth of them.
const (
	maxBatch   = 1 << 24 // of each factor
	maxList    = 10_000  // of files, knobs, options, edits
	maxGlobs   = 200
	maxSigns   = 500
	maxPath    = 4096   // PATH_MAX
	maxName    = 100    // of a metric
	maxProgram = 50_000 // instructions of all patterns: each byte of the output may be tried on all of them
)

// Check returns the first reason why j is not a valid job, because plugins are other people's programs. It is bounded
// in time and memory. A job that passes can be planned and run without further checks of its numbers.
func (j *Job) Check() error {
	for what, n := range map[string]int64{"micro-batch": j.Batch.Micro, "accumulation": j.Batch.Accumulation, "number of ranks": j.Batch.Ranks} {
		if n < 0 || n > maxBatch {
			return fmt.Errorf("its %s is %d", what, n)
		}
	}
	if n := float64(j.Batch.Micro) * float64(j.Batch.Accumulation) * float64(j.Batch.Ranks); n > 1<<40 {
		return fmt.Errorf("its global batch is %g", n)
	}
	if len(j.LastWords) > maxName {
		return fmt.Errorf("the name of its last words has %d bytes", len(j.LastWords))
	}
	r := j.Rehearsal
	for what, n := range map[string]int{"files": len(j.Files), "knobs": len(j.Knobs), "options": len(j.Options), "things to put": len(r.Puts), "paths": len(r.Paths),
		"edits": len(r.Edits) + len(r.Largest) + len(j.Resume.Edits) + len(j.Resume.Always)} {
		if n > maxList {
			return fmt.Errorf("it has %d %s", n, what)
		}
	}
	if r.Steps < 0 || j.Signs.StateAfter < 0 {
		return fmt.Errorf("it counts %d steps", min(r.Steps, j.Signs.StateAfter))
	}
	for _, globs := range [][]string{j.Signs.Log, j.Signs.Recipes, j.Signs.States, j.Resume.Aside, r.Leaves} {
		if len(globs) > maxGlobs {
			return fmt.Errorf("it has %d globs", len(globs))
		}
		for _, g := range globs {
			if len(g) > maxPath {
				return fmt.Errorf("it has a path of %d bytes", len(g))
			}
		}
	}
	if len(j.Data) > maxGlobs || len(j.Faults) > maxList || j.States < 0 {
		return fmt.Errorf("it has %d data folders, %d faults and %d states", len(j.Data), len(j.Faults), j.States)
	}
	for _, d := range j.Data {
		if d.Path == "" || len(d.Path) > maxPath || strings.IndexByte(d.Path, 0) >= 0 || len(d.What) > maxName {
			return fmt.Errorf("it reads data from %.100q", d.Path)
		}
	}
	docs := map[string]bool{config.ArgvDoc: true, config.EnvDoc: true}
	for _, f := range j.Files {
		if err := f.check(); err != nil {
			return err
		}
		docs[f.Path] = true
	}
	for _, edits := range [][]config.Edit{r.Edits, r.Largest, j.Resume.Edits, j.Resume.Always} {
		for _, e := range edits {
			if err := e.Check(); err != nil {
				return err
			}
			if !docs[e.At.Doc] {
				return fmt.Errorf("it edits %.100q, which the command does not read", e.At.Doc)
			}
		}
	}
	if err := j.Save.check(); err != nil {
		return err
	}
	return j.Signs.check()
}

func (f File) check() error {
	switch base := filepath.Base(f.Path); {
	case f.Path == "" || len(f.Path) > maxPath || strings.IndexByte(f.Path, 0) >= 0 || base == "." || base == ".." || base == "/":
		return fmt.Errorf("it reads a file %.100q", f.Path)
	case f.Format == Python && f.Source == nil:
		return fmt.Errorf("it does not give the contents of %.100q", f.Path)
	}
	return nil
}

func (s Signs) check() error {
	if len(s.Lines) > maxSigns || len(s.Codes) > maxList {
		return fmt.Errorf("it has %d signs and %d exit codes", len(s.Lines), len(s.Codes))
	}
	total := 0
	size := func(what, pattern string) error {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return fmt.Errorf("reading %s: %w", what, err)
		}
		if total += program(re); total > maxProgram {
			return fmt.Errorf("its patterns are too large")
		}
		return nil
	}
	for _, l := range s.Lines {
		if len(l.Pattern) > maxPath {
			return fmt.Errorf("its %.40s sign has %d bytes", l.Kind, len(l.Pattern))
		}
		if l.Kind == Metric {
			if _, err := metric.ParseDirection(string(l.Direction)); err != nil || l.Name == "" || len(l.Name) > maxName {
				return fmt.Errorf("its metric %.100q has the direction %.100q", l.Name, l.Direction)
			}
		}
		if err := size(fmt.Sprintf("the %.40s sign", l.Kind), l.Pattern); err != nil {
			return err
		}
	}
	if err := checkAll(s.Checks, size); err != nil {
		return err
	}
	if len(s.StateIteration) > maxPath {
		return fmt.Errorf("its pattern of states has %d bytes", len(s.StateIteration))
	}
	return size("the pattern of states", s.StateIteration)
}

// program estimates how many instructions an expression compiles to: a repetition repeats them.
func program(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		n += program(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Max, re.Min)
	}
	return min(n, 1<<30)
}
