package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/packed"
	"github.com/launch-ml/launch/core/sweep/store"
	"github.com/launch-ml/launch/core/sweep/tree"
	"github.com/launch-ml/launch/core/ui"
)

const sweepHelp = `sweep runs a command once for each row of a space of settings, each as a launch of its own: with an
estimate, a ladder and a record. Rows that ran out of memory as asked finish on a lower rung, and the
table marks them. A sweep that was killed continues with "launch sweep resume": no row is lost, and
none that succeeded runs again.

KEY is
  {KEY} in COMMAND   a placeholder, replaced by the value
  --option           an option of the program: replaced where it stands, or added
  env:NAME           a variable of the environment
  anything else      an address in the recipe, or a setting in Python (as with --set)
{trial} is the row's number and {name} is SWEEP-NUMBER, in COMMAND and in values. With --halve,
{first} is the number of the row that a row continues.

VALUES is a list as in CSV: 0.1,0.2 or "a,b",c. 1..5 is 1,2,3,4,5; 0.1..0.5..0.2 is 0.1,0.3,0.5. With
--random also uniform:0..1, log:1e-5..1e-1 and int:1..1000.

Without COMMAND, sweep reads commands from standard input, one a line. --file is a YAML file with the
keys name, command, grid, zip, seeds, where, only, random, seed, jobs, flags, same-plan, snapshot,
metric, halve, ask, ask-timeout.

--halve and --ask search: the trials depend on the metric that earlier ones reported. A trial that
cannot fit is then an answer, and no failure.

Ctrl-C asks the trials to save and stop; a second Ctrl-C ends them.`

const sweepExamples = `  launch sweep --grid --lr=0.1,0.2 --jobs 2 -- python train.py --out runs/{name}
  launch sweep --grid train.optim_g.lr=1e-4,2e-4 --grid name={name} -- python train.py -opt x.yml
  launch sweep plan --grid --width=32..128..32 -- python train.py
  launch sweep --random 20 --seed 1 --grid --lr=log:1e-5..1e-1 --jobs 2 --memory 8GiB -- python train.py
  for f in *.yml; do echo "python train.py -opt $f"; done | launch sweep --name all
  launch sweep status; launch sweep resume; launch sweep export --csv > rows.csv`

// sweepFlags are the flags of a sweep beside launch's own.
type sweepFlags struct {
	name, file         string
	grid, zip, seeds   []string
	where, only, set   []string
	random, jobs       int
	seed               uint64
	samePlan, snapshot bool
	engine             engineFlags
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
	f.engine.add(to)
	to.BoolVar(&f.samePlan, "same-plan", false, "give every row the plan of the row that needs the smallest rung, so "+
		"that rows can be compared")
}

func newSweep() *cobra.Command {
	f := &sweepFlags{}
	c := &cobra.Command{
		Use: "sweep [flags] -- COMMAND [ARG ...]", Short: "run a command with many settings, each as a launch of its own",
		Long: sweepHelp, Example: sweepExamples, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			asked, trials, err := f.asked(c, args)
			if err != nil {
				return err
			}
			engine, err := f.engine.read(c, s, f.jobs)
			if err != nil {
				return err
			}
			return startSweep(c.Context(), s, asked, trials, engine, f.engine.detach)
		},
	}
	c.Flags().SetInterspersed(false)
	f.add(c.Flags())
	for _, sub := range []*cobra.Command{newSweepPlan(), newSweepStatus(), newSweepShow(), newSweepResume(),
		newSweepStop(), newSweepExport(), newSweepEmit(), newSweepLine(), newSweepRow()} {
		c.AddCommand(sub)
	}
	return exits(c, sweepExits...)
}

// newSweepPlan prices every row and starts nothing.
func newSweepPlan() *cobra.Command {
	f, asJSON := &sweepFlags{}, false
	c := &cobra.Command{
		Use: "plan [flags] -- COMMAND [ARG ...]", Short: "print what each row needs, and which rows do not fit; start " +
			"nothing",
		Long: `plan prints each row's estimate, the rung on which it would run, its card and its length. It starts and
writes nothing, except to --json-file. Two rows that would write into the same folder are an error.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			a, trials, err := f.asked(c, args)
			if err != nil {
				return err
			}
			return planSweep(c.Context(), s, a, trials, asJSON)
		},
	}
	c.Flags().SetInterspersed(false)
	f.add(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print the plans as JSON")
	return exits(c, exitMeaning{"0", "every row fits, or nothing is known about that"},
		exitMeaning{"78", "a row will not fit or might not"}, exitMeaning{"125", "launch itself failed"})
}

func planSweep(ctx context.Context, s settings, a sweep.Asked, trials []sweep.Trial, asJSON bool) error {
	if a.Search != nil && len(a.Search.Ask) > 0 {
		return errors.New("a searcher program chooses the rows while the sweep runs: there are none to plan")
	}
	if err := checkTexts(a, trials); err != nil {
		return err
	}
	spec, t, err := a.Spec(record.MaskArgs(a.Command))
	if err != nil {
		return err
	}
	cards := packing(ctx, s, spec, nil, t, trials)
	spec.Pack = len(cards) > 0
	quotes, err := priceSweep(ctx, s, &spec, &t, a.SamePlan, trials, false)
	if err != nil {
		return err
	}
	if spec.Pack {
		of := s.ofTrials(spec.Flags)
		packed.Forecast(policy(of), of.Fill, cards, a.Jobs, trials, quotes)
	}
	d := ui.SweepPlan(spec, trials, quotes)
	if asJSON {
		err = printJSON(d)
	} else {
		ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.SweepPlan(spec, d)
	}
	if err == nil {
		err = sweep.Conflicts(quotes)
	}
	if err == nil && !d.Fits {
		err = exitCode(run.CannotFit)
	}
	return err
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

// longestFile is how long a sweep's file may be, in bytes: a device has no end.
const longestFile = 64 << 20

// readSweepFile reads a sweep's file, which may be a pipe.
func readSweepFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestFile+1))
	if err == nil && len(text) > longestFile {
		err = fmt.Errorf("it has more than %d bytes", longestFile)
	}
	return text, err
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

// stdinRows reads commands from standard input.
func stdinRows() ([]sweep.Trial, error) {
	if isTerminal(os.Stdin) {
		return nil, errors.New("a sweep needs a command after --, or commands on standard input, one a line")
	}
	return sweep.ReadCommands(os.Stdin)
}

// childFlag reports whether trials may be given one of launch's flags. The others are the sweep's.
func childFlag(name string) bool {
	own := ownFlags().Lookup(name) != nil
	return own && !slices.Contains([]string{"quiet", "json-file", "state-dir"}, name)
}

// passedOn lists launch's flags on the command line that every trial gets. A sweep sends its notice itself.
func passedOn(f *pflag.FlagSet) []string {
	return visited(f, func(name string) bool { return childFlag(name) && !strings.HasPrefix(name, "notify") })
}

// visited lists those flags on the command line that take accepts.
func visited(f *pflag.FlagSet, take func(name string) bool) (flags []string) {
	f.Visit(func(g *pflag.Flag) {
		values := []string{g.Value.String()}
		if list, ok := g.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if take(g.Name) {
				flags = append(flags, "--"+g.Name+"="+value)
			}
		}
	})
	return flags
}

// checkTexts refuses a sweep that its journal, which is JSON, could not give back as it is: a row that starts again
// would be another one.
func checkTexts(a sweep.Asked, trials []sweep.Trial) error {
	texts := slices.Concat(a.Command, a.Flags)
	for _, d := range slices.Concat(a.Space.Dimensions, a.Space.Seeds) {
		for _, v := range d.Values {
			texts = append(texts, v.List...)
		}
	}
	for _, t := range trials {
		texts = append(texts, t.Command...)
		for _, s := range t.Assignment {
			texts = append(texts, s.Key, s.Value)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%.100q is not UTF-8, and what a sweep records is: name a file by a link, or by its folder", text)
		}
	}
	return noPipes(job.Command{Args: texts})
}

// checkSecrets refuses rows with secrets: the journal of a sweep has all of them.
func checkSecrets(trials []sweep.Trial) error {
	for _, t := range trials {
		if record.HasMask(record.MaskArgs(t.Command)) {
			return fmt.Errorf("the command on row %d has a secret: put it into the environment", t.Number)
		}
		for _, s := range t.Assignment {
			if record.HasMask(record.MaskArgs([]string{s.Key, s.Value})) ||
				record.HasMask(record.MaskArgs([]string{s.String()})) {
				return fmt.Errorf("%s is a secret: put it into the environment", s.Key)
			}
		}
	}
	return nil
}

// startSweep begins a sweep and drives it to its end.
func startSweep(ctx context.Context, s settings, a sweep.Asked, trials []sweep.Trial, engine *sweep.Engine,
	detach bool) error {
	err := cmp.Or(checkTexts(a, trials), checkJSONFile(s))
	if err != nil {
		return err
	}
	spec, t, err := a.Spec(record.MaskArgs(a.Command))
	if err != nil {
		return err
	}
	cards := packing(ctx, s, spec, engine, t, trials)
	if spec.Pack = len(cards) > 0; !spec.Pack {
		spec.Jobs = max(1, spec.Jobs)
	}
	quotes, err := priceSweep(ctx, s, &spec, &t, a.SamePlan, trials, true)
	if err != nil {
		return err
	}
	if err := sweep.Conflicts(quotes); err != nil {
		return err
	}
	spec.Engine = sized(engine, s, quotes)
	sweeps := store.In(s.State)
	j, err := createSweep(ctx, s, sweeps, &spec, a.Snapshot)
	if err != nil {
		return err
	}
	t.Dir = spec.Template().Dir
	h, err := sweeps.Read(spec.Name)
	if err == nil && len(quotes) == len(trials) && len(quotes) > 0 {
		e := sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Priced, Quotes: quotes}
		h.Apply(e)
		err = j.Write(e)
	}
	if err != nil {
		j.Close()
		return err
	}
	if say := reporter(s); !s.Quiet {
		count := ui.Count(len(trials), "trial")
		if spec.Search != nil {
			count = "a search"
		}
		say.Line("sweep %s: %s, %s; launch sweep status %s prints the table", spec.Name, count, where(spec, len(cards)),
			spec.Name)
		say.SamePlan(spec)
	}
	return driveSweep(ctx, s, j, h, trials, t, detach)
}

// createSweep records a new sweep with the code that it runs and, for a snapshot, copies the code.
func createSweep(ctx context.Context, s settings, sweeps store.Store, spec *sweep.Spec,
	snapshot bool) (*store.Journal, error) {
	code, diff, err := tree.Read(ctx, spec.Dir)
	if err != nil {
		reporter(s).Warn("%v", err)
	}
	if snapshot && code == nil {
		return nil, errors.New("--snapshot copies the code by git, and there is no git repository here")
	}
	if snapshot {
		if path := tree.Past(code, spec.Command); path != "" {
			return nil, fmt.Errorf("--snapshot runs a copy of the code, and the command names %s, which is not of the copy: "+
				"give its path from the folder of the command", path)
		}
	}
	spec.Tree = code
	copied := filepath.Join(sweeps.Folder(spec.Name), "code")
	if snapshot {
		if spec.Snapshot, err = tree.Inside(code, spec.Dir, copied); err != nil {
			return nil, err
		}
	}
	if !snapshot {
		spec.Identity = s.ofSweep(spec, spec.Command)
	}
	j, err := sweeps.Create(*spec)
	if err != nil {
		return nil, err
	}
	if len(diff) > 0 {
		err = private.WriteFile(filepath.Join(sweeps.Folder(spec.Name), "tree.diff"), diff, 0o600)
	}
	if err == nil && snapshot {
		if _, err = tree.Copy(ctx, spec.Dir, copied); err == nil {
			err = keepSettings(spec, copied)
		}
		if err == nil { // only now is there what its rows run
			for _, path := range besides(spec.Command, code.Root, copied) {
				reporter(s).Warn("%s stands in the command by its absolute path: rows read that file, and not the copy", path)
			}
			err = j.Write(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Taken,
				Identity: s.ofSweep(spec, spec.Command), PID: os.Getpid()})
		}
	}
	if err != nil {
		j.Close()
		os.RemoveAll(sweeps.Folder(spec.Name))
		return nil, err
	}
	return j, nil
}

// warnChanged warns if the code is not that with which the sweep began.
func warnChanged(ctx context.Context, s settings, h *sweep.History) {
	was := h.Spec.Tree
	if was == nil || h.Spec.Snapshot != "" {
		return
	}
	now, _, err := tree.Read(ctx, h.Spec.Dir)
	if err != nil || now == nil || now.Commit == was.Commit && now.Changes == was.Changes {
		return
	}
	reporter(s).Warn("the code has changed since sweep %s began (commit %.12s): rows that run now run other code; "+
		"--snapshot keeps a copy", h.Spec.Name, was.Commit)
}

// manyTrials are so many that to price them takes long enough to be told: each is a plan of its own.
const manyTrials = 500

// priceSweep prices the trials and, if the user wants one plan for all, finds it. With probe, trials of a command
// that no plugin recognises are not priced one by one.
func priceSweep(ctx context.Context, s settings, spec *sweep.Spec, t *sweep.Template, samePlan bool,
	trials []sweep.Trial, probe bool) ([]sweep.Quote, error) {
	x, err := executor(s, *spec, t.Dir)
	if err != nil {
		return nil, err
	}
	if len(trials) >= manyTrials && !s.Quiet {
		reporter(s).Line("pricing %d trials before one begins; Ctrl-C ends it", len(trials))
	}
	quotes, err := x.Plan(ctx, *t, trials, probe && !samePlan)
	if err != nil || !samePlan {
		return quotes, err
	}
	price := func(shared sweep.Assignment) ([]sweep.Quote, error) {
		with := *t
		with.Shared = shared
		again, err := x.Plan(ctx, with, trials, false)
		quotes = again
		return again, err
	}
	shared, cost, err := sweep.SamePlan(quotes, price)
	if err != nil {
		return nil, err
	}
	spec.Shared, spec.SharedCost, t.Shared = shared, &cost, shared
	return quotes, nil
}

// executor runs and prices the trials of a sweep on this machine.
func executor(s settings, spec sweep.Spec, dir string) (*local.Executor, error) {
	sweeps := store.In(s.State)
	o := local.Options{Dir: dir, Flags: append(s.withoutNotices(spec.Flags), "--state-dir="+s.State),
		Folder: func(n int) string { return sweeps.Trial(spec.Name, n) }, Runs: record.In(s.State)}
	if spec.ID != "" {
		o.Mark = spec.Mark
	}
	if spec.Pack {
		s.ofTrials(spec.Flags).onCards(&o)
	}
	return local.New(o), nil
}

// driveSweep drives a sweep whose journal this process holds, and sends its notice. It closes the journal. trials is
// the list of a new sweep.
func driveSweep(ctx context.Context, s settings, j *store.Journal, h *sweep.History, trials []sweep.Trial,
	t sweep.Template, detach bool) error {
	why, err := drive(ctx, s, j, h, trials, t, detach)
	if why != sweep.Detached {
		s.notify(reporter(s), sweepNotice(h, why, err))
	}
	return err
}

// closeJournal warns where the disk may not have all of the sweep.
func closeJournal(j *store.Journal, say ui.Printer) {
	if err := j.Close(); err != nil {
		say.Warn("recording the sweep: %v", err)
	}
}

// drive is driveSweep without the notice. It returns why the sweep was stopped, "" if it was not.
func drive(ctx context.Context, s settings, j *store.Journal, h *sweep.History, trials []sweep.Trial,
	t sweep.Template, detach bool) (string, error) {
	say := reporter(s)
	defer closeJournal(j, say)
	x, admission, leave, err := runner(ctx, s, h.Spec, t.Dir)
	if err != nil {
		return "", err
	}
	defer leave()
	searcher, end, err := searcherOf(h, t, trials)
	if err != nil {
		return "", err
	}
	stops := make(chan string, 1)
	p, err := s.packer(ctx, h, x, say, stops)
	if err != nil {
		return "", err
	}
	defer p.close()
	d := &sweep.Sweep{History: h, Searcher: searcher, Template: t, Executor: x, Admission: p.or(admission), Journal: j,
		Detach: detach, Stops: stops, Ticks: p.ticks(), Changed: func(r *sweep.Row) { say.Trial(h, r) },
		Same: func() string { return s.sameCode(h, t.Command) }}
	signalled := 0
	ignore := passSignals(stops, func(c int) { signalled = c })
	why, err := d.Drive(ctx)
	end()
	ignore()
	if why == sweep.Detached && err == nil {
		return why, leaveTasks(x, h, say)
	}
	if _, asks := searcher.(sweep.Remote); err != nil && asks {
		return why, fmt.Errorf("%w; launch sweep resume %s starts it again and tells it what came of the "+
			"trials", err, h.Spec.Name)
	}
	if err != nil {
		return "", err
	}
	code := signalled
	switch {
	case why == "":
		code = h.Code()
	case signalled == 0 && d.Unlike:
		code = run.OwnTrouble
	case signalled == 0 && p.gaveUp():
		code = run.TryLater
	}
	if err := j.Write(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Stopped, Why: why,
		Code: code}); err != nil {
		say.Warn("recording the sweep: %v", err)
	}
	say.SweepEnd(h, why, code)
	if err := writeSweep(s, h); err != nil {
		say.Warn("%v", err)
	}
	if code != 0 {
		return why, exitCode(code)
	}
	return why, nil
}

// passSignals sends the name of each signal that asks launch to stop to stops, until the function that it returns is
// called. Signals that launch was started with ignored have no effect. SIGINT is then taken all the same, so that it
// is not ignored in the trials: it is how they are asked to stop.
func passSignals(stops chan<- string, note func(code int)) (end func()) {
	signals, ended, over := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	ignored := map[os.Signal]bool{}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if ignored[sig] = signal.Ignored(sig); !ignored[sig] || sig == syscall.SIGINT {
			signal.Notify(signals, sig)
		}
	}
	go func() {
		defer close(over)
		for {
			select {
			case sig := <-signals:
				if ignored[sig] {
					continue
				}
				note(128 + number(sig))
				select {
				case stops <- sig.String():
				case <-ended:
				}
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
		<-over
	}
}
