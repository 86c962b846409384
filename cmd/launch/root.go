package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/receipt"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

const longHelp = `launch runs a training command so that it fits its GPU, and goes on when it does not.

It reads the command and its recipe, foresees the memory of every phase from the architecture, changes in a copy of
the recipe what has to change and says so, runs the command as if it were typed bare, and after an out-of-memory takes
the next rung of the ladder and goes on from the last saved state. It never writes a file of yours. What it does not
recognise it runs as typed.

How far it may go is --allow: none, speed, numerics, metrics (the default), recipe, model.

Exit code: the program's own. launch's are 75 (not enough free memory now; retry later or on another machine), 78 (cannot fit at the allowed cost;
nothing was started), 125 (its own trouble), 126 and 127 (the command cannot be run, or is not there).

Settings: a flag outranks LAUNCH_<FLAG> in the environment, which outranks the project's .launch.yaml, which outranks
config.yaml in the user's launch folder. The project's is the nearest one up to the repository's root or the home folder. Only
files that you or root own and nobody else can write are taken; what names paths or lowers limits, after "launch trust".`

const examples = `  launch -- python train.py -opt x.yml               run it
  launch plan -- python train.py -opt x.yml          only say what would be done
  launch plan --vram 12GiB -- python train.py …      for a card that is not here
  launch --allow speed -- python train.py …          change nothing but time
  launch --device cpu --memory 8GiB -- python …      on this machine's memory, with a limit
  for f in *.yml; do launch -q -- python train.py -opt "$f"; done`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "launch [flags] -- COMMAND [ARG ...]",
		Short:   "run a training command so that it fits its GPU, and go on when it does not",
		Long:    longHelp,
		Example: examples,
		Args:    cobra.ArbitraryArgs,
		PersistentPreRun: func(*cobra.Command, []string) { // quiet or not: something may be allowed that was not to be
			say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr)}
			for _, note := range mistyped(os.Environ()) {
				say.Warn("%s", note)
			}
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				if s.JSONFile == "" { // a settings file that cannot be read
					s.JSONFile, _ = c.Flags().GetString("json-file")
				}
				return told(s, err)
			}
			if len(args) == 0 {
				return c.Help()
			}
			return told(s, wrap(c.Context(), s, args))
		},
	}
	root.Flags().SetInterspersed(false)
	addFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			return wrongValue("--"+wrong.GetFlag().Name, wrong.GetFlag().Value.Type(), wrong.GetValue())
		}
		if strings.Contains(c.Use, "COMMAND") {
			return fmt.Errorf("%w; `%s --help` lists the flags, and the command to run stands behind --", err, c.CommandPath())
		}
		return fmt.Errorf("%w; `%s --help` lists the flags", err, c.CommandPath())
	})
	root.AddCommand(newPlan(), newEstimate(), newResume())
	for _, c := range []*cobra.Command{newExplain(), newRuns(), newShow(), newReceipts(), newGPUs(), newPlugins(), newTrust(), newVersion()} {
		c.SetUsageTemplate(withoutGlobals(c.UsageTemplate())) // the flags of a run mean nothing to them
		root.AddCommand(c)
	}
	return root
}

// takes is cobra's check of how many arguments there are, with what the command takes instead of cobra's words.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// withoutGlobals takes the list of inherited flags out of a usage template.
func withoutGlobals(template string) string {
	before, rest, found := strings.Cut(template, "{{if .HasAvailableInheritedFlags}}")
	_, after, ended := strings.Cut(rest, "{{end}}")
	if !found || !ended {
		return template
	}
	return before + after
}

// commandLine reads the settings, and the command behind "--".
func commandLine(c *cobra.Command, args []string) (settings, []string, error) {
	dir, _ := os.Getwd() // "" where it is gone: then no settings are looked for there
	s, err := readSettings(c.Flags(), dir)
	if err != nil {
		return s, nil, err
	}
	dash := c.ArgsLenAtDash()
	if len(args) > 0 && dash != 0 {
		if err := apart(c.Flags(), os.Args[:max(0, len(os.Args)-len(args))], args); err != nil { // nothing behind the first word is a flag of launch's
			return s, nil, err
		}
		return s, nil, fmt.Errorf("put -- before the command to run: %s -- %s …", c.CommandPath(), args[0])
	}
	return s, args, nil
}

// apart says that a word before "--" may be the value of the flag before it, which can stand alone and so takes one behind "=" only;
// nil where it is not.
func apart(f *pflag.FlagSet, before, args []string) error {
	if len(before) == 0 {
		return nil
	}
	var flag *pflag.Flag
	last := before[len(before)-1]
	if word, ok := strings.CutPrefix(last, "--"); ok {
		flag = f.Lookup(word)
	} else if short, ok := strings.CutPrefix(last, "-"); ok && len(short) == 1 {
		flag = f.ShorthandLookup(short)
	}
	if flag == nil || !(args[0] == "fast" || len(args) > 1 && args[1] == "--") {
		return nil
	}
	return fmt.Errorf("the value of --%s stands behind =: --%s=%s", flag.Name, flag.Name, args[0])
}

// wrap runs a command. It does not return when the command ran: launch ends as the command did.
func wrap(ctx context.Context, s settings, args []string) error {
	say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet}
	if err := checkJSONFile(s); err != nil {
		return err
	}
	p, err := prepare(ctx, s, args, elsewhere)
	if err != nil {
		return err
	}
	defer p.close()
	clearLeftovers(s, say)
	if p.err != nil {
		return p.err
	}
	if p.job != nil {
		if _, err := oom.NewDetector(p.job.Signs); err != nil {
			p.without("plugin %s: %v", p.job.Plugin, err)
			p.job = nil
		}
	}
	if s.claim, err = claimMemory(s, say, p.command, p.job); err != nil {
		return err
	}
	defer s.claim.Release()
	if p.job == nil {
		return asTyped(ctx, s, p, say)
	}
	return carry(ctx, s, p, say)
}

// asTyped runs a command that no plugin recognised: one attempt, nothing edited, nothing set. An out-of-memory is
// explained.
func asTyped(ctx context.Context, s settings, p *prepared, say ui.Printer) error {
	for _, w := range p.warnings {
		say.Warn("%s", w)
	}
	if !p.asksForHelp && !p.told && (s.Expects || !s.Quiet && slices.ContainsFunc(p.command.Args, namesRecipe)) {
		say.Warn("this command is not recognised (%s): it runs as typed, once, and nothing is adjusted", p.why())
	}
	x := &executor{settings: s, say: say, settle: p.close}
	if s.Device == "cpu" {
		x.device = hostDevice(s)
	}
	rec, err := record.Store{Dir: s.runs()}.Create(time.Now())
	dir := ""
	if err == nil {
		x.record = rec
		rec.Write(record.Event{Kind: record.Followed, Args: record.MaskArgs(p.command.Args), Dir: p.command.Dir, Limit: limit(s)})
		dir, _ = rec.Attempt(1)
	}
	a := attempt{command: p.command, dir: dir}
	if s.Inside && dir == "" { // nothing is recorded, so nothing is left
		a.dir, _ = x.folder(1)
	}
	x.hook(&a, nil) // which fails over copies only
	out, err := x.attempt(ctx, a)
	if a.dir != dir {
		os.RemoveAll(a.dir)
	}
	os.RemoveAll(a.hookDir)
	if err != nil {
		if x.record != nil {
			rec.Write(record.Event{Kind: record.Stopped, Stop: &run.Stop{Why: "not started: " + err.Error()}})
		}
		return started(err)
	}
	if x.record != nil {
		rec.Write(record.Event{Kind: record.Ended, Outcome: &out})
		rec.Close()
	}
	if out.Ending == run.OutOfMemory {
		x.breakLine()
		x := ui.Explanation{Report: out.Report}
		if dir != "" {
			x.Clues = clues(filepath.Join(dir, outputFile))
		}
		x.Clues.Limit = limit(s)
		x.Advise(nil)
		say.Unrecognised(x, out.Cause, p.why())
	}
	if in := out.Inside; in != nil && (!s.Quiet || !in.Hook.Taken()) {
		x.breakLine()
		say.Inside(in.Hook)
	}
	code, whose := follows(x.exit.Status(), nil, &run.Stop{}, x.trouble)
	writeResult(s, say, result{Version: 1, Ending: out.Ending, Code: code, Whose: whose, Outcome: &out, Run: id(x.record)})
	s.tidy()
	if code != x.exit.Status() {
		say.Line("exit code %d is %s", code, whose)
		return exitCode(code)
	}
	x.exit.Become()
	return nil
}

// namesRecipe reports whether an argument looks like a training's recipe, so that its user may expect more of launch than
// to run it.
func namesRecipe(arg string) bool {
	return slices.ContainsFunc(strings.Fields(arg), func(w string) bool {
		w = strings.Trim(w, `"'`)
		return strings.HasSuffix(w, ".yml") || strings.HasSuffix(w, ".yaml") || strings.HasSuffix(w, ".toml") || strings.HasPrefix(w, "train") && strings.HasSuffix(w, ".py")
	})
}

// carry plans and runs a job to its end.
func carry(ctx context.Context, s settings, p *prepared, say ui.Printer) error {
	heard := hearEarly()
	defer heard.close()
	v := p.view()
	v.Truths = unsaid(filepath.Join(s.State, "said"), p.job)
	switch {
	case !s.Quiet:
		say.Plan(v)
	case v.Stop != nil:
		say.Stop(p.run, v.Stop)
	}
	if s.Quiet {
		for _, note := range s.Notes { // something may be left undone that its user expects
			say.Warn("%s", note)
		}
	}
	if v.Stop != nil {
		writeResult(s, say, result{Version: 1, Ending: "refused", Code: v.Stop.Code, Stop: v.Stop, Job: p.job})
		return exitCode(v.Stop.Code)
	}
	store := record.Store{Dir: s.runs()}
	rec, err := store.Create(time.Now())
	if err != nil {
		say.Warn("%v: nothing is recorded, and the run cannot be resumed should launch itself be killed", err)
	}
	var held []string
	if p.job.Exclusive != "" {
		unlock, err := store.Lock(p.job.Exclusive, fmt.Sprintf("run %s (process %d)", id(rec), os.Getpid()))
		switch {
		case errors.Is(err, record.ErrBusy):
			if rec != nil {
				rec.Close()
				os.RemoveAll(rec.Dir)
			}
			say.Line("%v", err)
			writeResult(s, say, result{Version: 1, Ending: notRun, Code: run.TryLater, Error: err.Error(), Job: p.job})
			return exitCode(run.TryLater)
		case err != nil:
			say.Warn("%v: another launch in the same experiment would not be noticed", err)
		default:
			defer unlock()
			held = []string{p.job.Exclusive}
		}
	}
	if rec != nil {
		if err := rec.Write(record.Event{Kind: record.Started, Run: masked(p.run), Device: p.device, Limit: limit(s)}); err != nil {
			say.Warn("%v", err)
		}
	}
	err = finish(ctx, s, p.run, p.device, rec, say, p.close, before{held: held}, heard)
	if ownTrouble(err) {
		say.Warn("%v: the command runs as typed, once, and nothing is adjusted", err)
		p.warnings, p.told = nil, true
		return asTyped(ctx, s, p, say)
	}
	return err
}

// before is what a run has before its first attempt here.
type before struct {
	began time.Time     // when an earlier launch of the same run started its first attempt; zero where there was none
	made  []string      // what the attempts of that have left that a next one would overwrite or stumble over
	held  []string      // folders of which it holds the lock
	spans []states.Span // of those attempts
}

// finish carries a run to its end and ends as its last attempt did. It returns an error only where nothing ran.
func finish(ctx context.Context, s settings, r *run.Run, device *gpu.Device, rec *record.Record, say ui.Printer, settle func(), b before, heard early) error {
	x := &executor{early: heard, settings: s, job: r.Job, roots: confine.New(r.Job), device: device, record: rec, say: say, settle: settle, made: b.made, held: b.held, spans: b.spans, differs: r.Differs}
	x.firstBegan, x.priced = b.began, cmp.Or(r.Priced, r.Ladders)
	defer x.enter("run " + id(rec))()
	j := &journal{record: rec, say: say, executor: x, run: r, subject: receipt.Of(r.Job, device, s.Memory > 0), receipts: s.receipts()}
	stop, err := r.Carry(ctx, x, j)
	var sooner *interruptedEarly
	if errors.As(err, &sooner) {
		stop = &run.Stop{Why: string(run.Interrupted), Code: 128 + int(sooner.signal)}
		if rec != nil {
			rec.Write(record.Event{Kind: record.Stopped, Stop: stop})
			rec.Close()
		}
		say.Line("%v: run %s", sooner, id(rec))
		writeResult(s, say, result{Version: 1, Run: id(rec), Ending: run.Interrupted, Code: stop.Code, Whose: "launch's: " + sooner.Error(), Stop: stop, Job: r.Job, Attempts: r.Attempts})
		return exitCode(stop.Code)
	}
	if err != nil {
		if _, ok := startCode(err); ok || !slices.ContainsFunc(r.Attempts, func(a run.Attempt) bool { return a.Plan.Trial == "" }) {
			return started(err)
		}
		say.Line("%v", err) // launch's own trouble after an attempt: that attempt's code stands
		stop = &run.Stop{Why: err.Error()}
	}
	last := r.Last()
	code, whose := follows(x.exit.Status(), last, stop, x.trouble)
	if rec != nil {
		rec.Write(record.Event{Kind: record.Stopped, Stop: stop})
		rec.Close()
	}
	say.Summary(r, stop, id(rec), code, whose)
	if state := r.Saved(); rec != nil && last != nil && state != nil { // else there is nothing that would be lost by starting over
		d := &ui.RunDoc{ID: rec.ID, State: string(last.Outcome.Ending), SavedState: state}
		goOn(d, masked(r), stop, &last.Outcome)
		say.GoOn(d)
	}
	res := result{Version: 1, Code: code, Whose: whose, Stop: stop, Job: r.Job, Attempts: r.Attempts, Run: id(rec)}
	if last != nil {
		res.Ending = last.Outcome.Ending
	}
	writeResult(s, say, res)
	s.tidy()
	if code != x.exit.Status() {
		return exitCode(code)
	}
	x.exit.Become()
	return nil
}

// follows is the exit code that launch ends with, and whose it is, after a last attempt whose program ended with that status.
// trouble is launch's own: after output that could not be written a program that did not notice has not succeeded, and where the
// keeper was killed nobody knows how it would have ended.
func follows(status int, last *run.Attempt, stop *run.Stop, trouble error) (code int, whose string) {
	code, whose = status, "the program's own"
	switch {
	case errors.Is(trouble, proc.ErrKeeper):
		code, whose = run.OwnTrouble, trouble.Error()
	case stop.Code != 0:
		code = stop.Code
		whose = map[int]string{
			run.TryLater: "launch's: no room now, or preempted; elsewhere or later", run.CannotFit: "launch's: cannot fit at the allowed cost",
			run.OwnTrouble: "launch's: the settings did not reach the program",
		}[code]
	case last != nil && last.Plan.Trial != "" && last.Outcome.Ending == run.Interrupted && code == 0:
		code, whose = 130, "launch's: interrupted before the run itself began"
	case trouble != nil && code == 0:
		code, whose = 1, "launch's: the program exited 0, but "+trouble.Error()
	case last != nil && last.Outcome.Silent:
		code, whose = 1, "launch's: the program exited 0, and the words by which it says that it succeeded never came"
	case last != nil && last.Outcome.Lied && last.Outcome.Ending != run.Interrupted:
		code, whose = 1, "launch's: the program exited 0, and its own words say that it failed"
	}
	return code, whose
}

// limit is what the kernel holds each process of a run to; 0: nothing.
func limit(s settings) unit.Bytes {
	if s.Device != "cpu" {
		return 0
	}
	return s.Memory
}

// started says why a command could not be started, and hands its exit code on.
func started(err error) error {
	if code, ok := startCode(err); ok {
		var start *proc.StartError
		errors.As(err, &start)
		return &ownExit{start, code}
	}
	return err
}

// An ownExit is launch's own trouble with an exit code of its own.
type ownExit struct {
	error
	code int
}

// told writes launch's own trouble to --json-file, so that no older result is taken for this one's. A code that was handed on
// has its result there already.
func told(s settings, err error) error {
	var code exitCode
	if err == nil || errors.As(err, &code) || checkJSONFile(s) != nil {
		return err
	}
	r := result{Version: 1, Ending: notRun, Code: run.OwnTrouble, Error: err.Error(), Whose: "launch's: nothing was run"}
	var own *ownExit
	if errors.As(err, &own) {
		r.Code = own.code
	}
	writeResult(s, ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet}, r)
	return err
}

// notRun is the ending of what launch could not run.
const notRun run.Ending = "not run"

func id(rec *record.Record) string {
	if rec == nil {
		return "(not recorded)"
	}
	return rec.ID
}

// masked is the run as it is recorded: without secrets, and without an environment that is nobody's business.
func masked(r *run.Run) *run.Run {
	out := *r
	j := *r.Job
	j.Command.Args, j.Command.Env = record.MaskArgs(j.Command.Args), record.MaskEnv(j.Command.Env)
	j.Command.Sources = nil // those that matter are among the job's files
	out.Job = &j
	return &out
}

// journal records, and says what ended. A disk that is full must not stop a training: it is said once, and the run
// goes on unrecorded.
type journal struct {
	record   *record.Record
	say      ui.Printer
	executor *executor
	run      *run.Run
	subject  receipt.Subject
	receipts receipt.Store
	said     bool
}

func (j *journal) Planned(p *run.Plan) error {
	if j.record != nil {
		j.warn(j.record.Planned(p))
	}
	return nil
}

func (j *journal) Ended(a *run.Attempt) error {
	if j.record != nil {
		j.warn(j.record.Ended(a))
	}
	name := id(j.record)
	if j.record == nil {
		name = "unrecorded-" + a.Outcome.Began.UTC().Format("20060102-150405.000")
	}
	if err := j.receipts.Append(j.subject.Receipts(name, j.run, a)...); err != nil && j.record != nil {
		j.warn(err)
	}
	if a.Outcome.Ending != run.Succeeded || !j.say.Quiet {
		j.executor.breakLine()
	}
	j.say.Ended(a)
	return nil
}

func (j *journal) warn(err error) {
	if err != nil && !j.said {
		j.said = true
		j.say.Warn("%v: the run goes on, without a whole record", err)
	}
}

// unsaid returns those truths of a job that its user has not been told by an earlier run, and remembers them: a run says
// each once, `launch plan` says them all.
func unsaid(path string, j *job.Job) (fresh []string) {
	known, _ := private.ReadFile(path)
	var add []byte
	for _, t := range j.Truths {
		sum := fmt.Sprintf("%x\n", sha256.Sum256([]byte(j.Command.Dir+"\x00"+t)))
		if bytes.Contains(known, []byte(sum)) {
			continue
		}
		fresh, add = append(fresh, t), append(add, sum...)
	}
	if len(add) > 0 && private.MkdirAll(filepath.Dir(path)) == nil {
		if f, err := private.Open(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			f.Write(add) // not remembered, it is said again
			f.Close()
		}
	}
	return fresh
}
