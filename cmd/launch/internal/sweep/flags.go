package sweep

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/engine"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
)

// sweepFlags are the flags of a sweep beside launch's own.
type sweepFlags struct {
	name, file         string
	grid, zip, seeds   []string
	where, only, set   []string
	random, jobs       int
	seed               uint64
	samePlan, snapshot bool
	engine             engine.Flags
	metric, halve, ask string
	askTimeout         time.Duration
}

func (f *sweepFlags) add(to *pflag.FlagSet) {
	to.StringVar(&f.name, "name", "", "name of the sweep (default: the time)")
	to.StringVarP(&f.file, "file", "f", "", "read the sweep from a YAML file; flags add to it")
	to.StringArrayVar(&f.grid, "grid", nil, "KEY=VALUES: every value with every value of the other keys")
	to.StringArrayVar(&f.zip, "zip", nil, `"KEY=VALUES;KEY2=VALUES": the first values together, and so on`)
	to.StringArrayVar(&f.seeds, "seeds", nil, "KEY=VALUES: repeat every row with each value")
	to.StringArrayVar(&f.where, "where", nil, `only rows that fulfil a condition: "lr < 0.1 and opt = sgd or wd = 0"`)
	to.StringArrayVar(&f.only, "only", nil, `"KEY:CONDITION": set KEY only in rows that fulfil it`)
	to.StringArrayVar(&f.set, "set", nil, "KEY=VALUE: the same value in every row; KEY as of launch --set")
	to.IntVar(&f.random, "random", 0, "draw this many rows instead of taking all")
	to.Uint64Var(&f.seed, "seed", 0, "of --random: the same seed draws the same rows")
	to.IntVarP(&f.jobs, "jobs", "j", 0, "how many trials run at the same time, at most (default: as many as the cards "+
		"take; 1 without a card)")
	to.StringVar(&f.metric, "metric", "", "the metric by which --halve and --ask compare trials")
	to.StringVar(&f.halve, "halve", "", "KEY=LENGTHS: run all rows to the first length, the best of them to the "+
		"next, and so on")
	to.StringVar(&f.ask, "ask", "", "COMMAND: a program that chooses the trials (docs/large-sweeps.md)")
	to.DurationVar(&f.askTimeout, "ask-timeout", 0, "how long that program may take for an answer (default: no limit)")
	to.BoolVar(&f.snapshot, "snapshot", false, "run from a copy of the code as it is now (a git worktree)")
	f.engine.Add(to)
	to.BoolVar(&f.samePlan, "same-plan", false, "give every row the plan of the row that needs the smallest rung, so "+
		"that rows can be compared")
}

// asked reads the flags, the file and the rows.
func (f *sweepFlags) asked(c *cobra.Command, args []string) (a sweep.Asked, trials []sweep.Trial, err error) {
	if f.file != "" {
		text, err := readSweepFile(f.file)
		if err == nil {
			a, err = sweep.ParseFile(text)
		}
		if err != nil {
			return a, nil, fmt.Errorf("reading the sweep in %s: %w", f.file, err)
		}
	}
	if err := f.space(&a.Space); err != nil {
		return a, nil, err
	}
	if c.Flags().Changed("random") {
		a.Space.Random = f.random
	}
	if c.Flags().Changed("seed") {
		a.Space.Seed = f.seed
	}
	if c.Flags().Changed("jobs") {
		if a.Jobs = f.jobs; a.Jobs < 1 {
			return a, nil, errJobs
		}
	}
	if f.name != "" {
		a.Name = f.name
	}
	if a.Name == "" {
		a.Name = unnamed(time.Now())
	}
	if len(args) > 0 {
		a.Command = args
	}
	if err := a.Seek(f.metric, f.halve, f.ask, f.askTimeout); err != nil {
		return a, nil, err
	}
	a.SamePlan, a.Snapshot = a.SamePlan || f.samePlan, a.Snapshot || f.snapshot
	if err := a.CheckFlags(childFlag); err != nil {
		return a, nil, err
	}
	a.Flags = append(a.Flags, passedOn(c.Flags())...)
	for _, set := range f.set {
		a.Flags = append(a.Flags, "--set="+set)
	}
	if err := a.Check(); err != nil {
		return a, nil, err
	}
	if trials, err = a.Trials(stdinRows); err != nil {
		return a, nil, err
	}
	if a.Search != nil && record.HasMask(record.MaskArgs(a.Search.Ask)) {
		return a, nil, errors.New("the command of --ask has a secret: put it into the environment")
	}
	return a, trials, checkSecrets(trials)
}

// unnamed is the name of a sweep that was given none. Several may begin in the same second.
func unnamed(now time.Time) string {
	var some [2]byte
	rand.Read(some[:])
	return fmt.Sprintf("%s-%x", now.Format("20060102-150405"), some)
}

var errJobs = errors.New("--jobs is at least 1")

// space adds the flags to a space.
func (f *sweepFlags) space(s *sweep.Space) error {
	for _, text := range f.grid {
		d, err := sweep.ParseGrid(text)
		if err != nil {
			return fmt.Errorf("--grid: %w", err)
		}
		s.Dimensions = append(s.Dimensions, d)
	}
	for _, text := range f.zip {
		d, err := sweep.ParseZip(text)
		if err != nil {
			return fmt.Errorf("--zip: %w", err)
		}
		s.Dimensions = append(s.Dimensions, d)
	}
	for _, text := range f.seeds {
		d, err := sweep.ParseGrid(text)
		if err != nil {
			return fmt.Errorf("--seeds: %w", err)
		}
		s.Seeds = append(s.Seeds, d)
	}
	for _, text := range f.where {
		s.Where = append(s.Where, sweep.Condition(text))
	}
	for _, text := range f.only {
		o, err := sweep.ParseOnly(text)
		if err != nil {
			return fmt.Errorf("--only: %w", err)
		}
		s.Only = append(s.Only, o)
	}
	return nil
}

// childFlag reports whether trials may be given one of launch's flags. The others are the sweep's.
func childFlag(name string) bool {
	return settings.IsSetting(name) && !slices.Contains([]string{"quiet", "json-file", "state-dir"}, name)
}

// passedOn lists launch's flags on the command line that every trial gets. A sweep sends its notice itself.
func passedOn(f *pflag.FlagSet) []string {
	return settings.Given(f, func(name string) bool { return childFlag(name) && !strings.HasPrefix(name, "notify") })
}
