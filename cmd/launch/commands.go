package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/claim"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/ui"
)

// attemptFolder stands in a printed command for the folder that an attempt will make.
const attemptFolder = "{attempt}"

func newPlan() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [flags] -- COMMAND [ARG ...]",
		Short: "say what would be done, and do nothing",
		Long: `plan reads the command, foresees its memory and says what would be changed. It starts nothing and writes nothing.

Exit code: 0 if what is planned fits, or if there is nothing to say whether it does; 78 if it does not, or may not: what only
may not fit is run all the same.`,
		Example: "  launch plan --vram 12GiB -- python train.py -opt x.yml\n  launch plan --json -- python train.py -opt x.yml | jq .fits",
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("plan needs a command: launch plan -- python train.py …")
			}
			return plan(c.Context(), s, args, asJSON)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return c
}

func plan(ctx context.Context, s settings, args []string, asJSON bool) error {
	p, err := prepare(ctx, s, args, here)
	if err != nil {
		return err
	}
	defer p.close()
	if p.err != nil {
		return p.err
	}
	if why, _ := memoryRefused(s, p.command, p.job); why != "" {
		p.warnings = append(p.warnings, why)
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	if p.job == nil {
		if asJSON {
			err = printJSON(ui.PlanDocument{Version: ui.PlanVersion, Command: args, Warnings: p.warnings, Verdict: "unknown"}.Complete())
		} else {
			for _, w := range p.warnings {
				say.Warn("%s", w)
			}
			if p.told {
				say.Line("it would run as typed, and an out-of-memory would be explained")
			} else {
				say.Line("this command is not recognised (%s): it would run as typed, and an out-of-memory would be explained", p.why())
			}
		}
		if err == nil && p.failed {
			err = exitCode(run.OwnTrouble)
		}
		return err
	}
	v := p.view()
	command, env := args, map[string]string{}
	if v.Plan != nil {
		made, err := p.job.Rewrite(v.Plan.Edits, attemptFolder)
		if err != nil {
			return err
		}
		command, env = made.Command.Args, made.Set
	}
	d := v.Document(command, env)
	if s.JSONFile != "" && !s.project["json-file"] { // a plan writes nothing that nobody typed
		kept := d // a file stays, and others may read it; on standard output is the command to run
		kept.Command = record.MaskArgs(d.Command)
		b, err := json.MarshalIndent(kept, "", "  ")
		if err == nil {
			err = writeJSON(s.JSONFile, append(ui.CleanJSON(b), '\n'))
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", s.JSONFile, err)
		}
	}
	if asJSON {
		if err := printJSON(d); err != nil {
			return err
		}
	} else {
		say.Plan(v)
		if v.Plan != nil && len(v.Plan.Edits) > 0 {
			say.Line("command: %s", quoted(command))
		}
	}
	if d.Fits != nil && !*d.Fits {
		return exitCode(run.CannotFit)
	}
	return nil
}

// quoted is a command as a shell would read it.
func quoted(args []string) string {
	var out []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]{}()<>|&;!#~") && a != attemptFolder && !strings.HasPrefix(a, attemptFolder+"/") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}

func newGPUs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "gpus", Short: "list the GPUs, what is in use, and by whom", Args: takes(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), driverDeadline)
			defer cancel()
			all, err := nvml.List(ctx)
			if err != nil && !errors.Is(err, nvml.ErrNoDriver) {
				return err
			}
			if asJSON {
				return printJSON(append([]gpu.Device{}, all...))
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			if err != nil {
				say.Line("no GPU: %v", err)
			} else {
				say.GPUs(all)
			}
			for _, c := range claim.List() {
				say.Line("%v of %s claimed by process %d (uid %d)", c.Bytes, c.Kind, c.PID, c.UID)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func newPlugins() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "plugins", Short: "list the plugins and what they know", Args: takes(0, 0, "no argument"),
		Long: `plugins lists the plugins: those built in, then programs launch-plugin-NAME beside launch, in the user's plugin folder
($XDG_DATA_HOME/launch/plugins) and on PATH. A program that others could have written is not run, nor one that a relative entry
of PATH leads to; one that could not be asked is asked again here.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			sources, left := findPlugins(c.Context(), s, manifests(), true)
			if asJSON {
				return printJSON(sources)
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			for _, src := range sources {
				where := "built in"
				if src.Path != "" {
					where = src.Path
				}
				say.Line("%-12s %s (%s)", src.Manifest.Name, src.Manifest.About, where)
				if len(src.Manifest.Archs) > 0 {
					say.Line("%-12s formulas: %s", "", strings.Join(src.Manifest.Archs, " "))
				}
			}
			for _, l := range left {
				say.Warn("%v", l)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func newRuns() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "runs", Short: "list the recorded runs", Args: takes(0, 0, "no argument: launch show RUN shows one"),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			store := record.Store{Dir: s.runs()}
			ids, err := store.List()
			if err != nil {
				return err
			}
			rows := []ui.RunRow{}
			for _, id := range ids {
				h, err := store.Read(id)
				if err != nil {
					rows = append(rows, ui.RunRow{ID: id, State: "cannot be read: " + err.Error()})
					continue
				}
				rows = append(rows, ui.RowOf(h, h.Life()))
			}
			if asJSON {
				return printJSON(rows)
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Runs(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.AddCommand(newPrune())
	return c
}

func newShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [RUN | last]", Short: "show a recorded run: its attempts, what was changed, what was measured", Args: takes(0, 1, "one run, which launch runs lists, or none for the last"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			store := record.Store{Dir: s.runs()}
			id, err := store.Find(strings.Join(args, ""))
			if err != nil {
				return err
			}
			h, err := store.Read(id)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(map[string]any{"version": record.Version, "id": h.ID, "dir": h.Dir, "torn": h.Torn, "running": h.Life().Alive, "events": h.Events})
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Show(h, h.Life())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the run as JSON")
	return c
}

func newResume() *cobra.Command {
	var fromStart bool
	c := &cobra.Command{
		Use: "resume RUN [-- COMMAND ...]", Short: "go on with a run that was cut off, stopped, or needs a higher --allow", Args: runAndCommand,
		Long: `resume goes on with a run from its newest saved state, on the rung that it had come to: a run of which launch itself was
killed, that was interrupted, that failed for a reason that is mended now, or for which no allowed rung was left. A cost is
raised by --allow alone; what the run was allowed when it began stands otherwise. A run that has left no saved state, or whose
program cannot resume, is started over only with --from-start.

Secrets of a command are not recorded. A run whose command has one is resumed by giving the whole command again.`,
		Example: "  launch resume last\n  launch resume last --allow recipe\n  launch resume last --from-start\n  launch resume last -- python train.py --wandb-token \"$TOKEN\"",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("allow") { // the user's word for this run stands
				s.Allow = ladder.None
			}
			return told(s, resume(c.Context(), s, args[0], args[1:], fromStart))
		},
	}
	c.Flags().BoolVar(&fromStart, "from-start", false, "start the run over, whatever it has saved")
	return c
}

// resume takes a run up where its record ends. command is the run's, given again; or nil.
func resume(ctx context.Context, s settings, name string, command []string, fromStart bool) error {
	store := record.Store{Dir: s.runs()}
	id, err := store.Find(name)
	if err != nil {
		return err
	}
	h, err := store.Read(id)
	if err != nil {
		return err
	}
	r := h.Run()
	switch {
	case r == nil && (len(h.Events) == 0 || h.Events[0].Kind != record.Followed):
		return fmt.Errorf("the record of run %s is damaged: its beginning cannot be read", id)
	case r == nil:
		return fmt.Errorf("run %s was of a command that no plugin recognised: there is nothing to go on from", id)
	}
	life := h.Life()
	rec, err := store.Append(id) // from here on no other launch can take the run
	if errors.Is(err, record.ErrBusy) {
		return later(s, id, r, err)
	}
	if err != nil {
		return err
	}
	defer rec.Close()
	taken := false
	defer func() {
		if !taken { // the run has ended when it did, not now
			rec.Untake(life)
		}
	}()
	if h, err = store.Read(id); err != nil { // the launch that had it may have ended since
		return err
	}
	r = h.Run()
	if err := giveAgain(r, id, command); err != nil {
		return err
	}
	stopped := h.Stop() != nil
	r.Job.Command.Env = os.Environ()
	if info, err := os.Stat(r.Job.Command.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the folder of run %s is gone: %s", id, r.Job.Command.Dir)
	}
	if err := os.Chdir(r.Job.Command.Dir); err != nil {
		return fmt.Errorf("going to the run's folder: %w", err)
	}
	say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet}
	if r.Host {
		s.Device = "cpu"
		if s.Memory == 0 {
			s.Memory = h.Limit() // as it was; a run without a limit has none
		}
	}
	clearLeftovers(s, say)
	f := findDevice(ctx, s, r.Job.Command.Env)
	if f.err != nil {
		return f.err
	}
	if s.claim, err = claimMemory(s, say, r.Job.Command, r.Job); err != nil {
		return err
	}
	defer s.claim.Release()
	// The attempt that was cut off has no outcome. What it left is found as after any other: its saved state.
	var first time.Time
	var b before
	for _, a := range r.Attempts {
		if a.Plan.Trial == "" && first.IsZero() {
			first = a.Outcome.Began
		}
		b.made = append(b.made, a.Outcome.Made...)
		b.spans = append(b.spans, spanOf(&a.Outcome))
	}
	if err := r.Again(s.Allow); err != nil && stopped {
		return fmt.Errorf("run %s is over: %w", id, err)
	}
	r.Limits.Anyway = r.Limits.Anyway || s.Anyway
	began, cut := h.CutOff()
	if cut {
		if first.IsZero() {
			first = began.Time
		}
		b.spans = append(b.spans, states.Span{Began: began.Time, Ended: time.Now()})
		left := cutShort(h, r.Job, s.locks(), life.Over())
		if left.reported != nil {
			r.Cut = r.Cut.Further(*left.reported)
		}
		if left.State != nil {
			r.Left = left.State
		}
		b.made = append(b.made, left.made...)
		for _, path := range left.Strange {
			say.Warn("%s is newer than the run's last attempt, and nothing shows that this run wrote it: it does not go on from there", path)
		}
	}
	if fromStart { // on the rung that the run had come to
		r.Left = nil
		for i := range r.Attempts {
			r.Attempts[i].Outcome.Saved = nil
		}
	}
	state, why := r.Saved(), "it left no complete saved state"
	if none := r.Job.Resume.None; none != "" {
		why = none
	}
	switch {
	case state == nil && !fromStart:
		return fmt.Errorf("run %s has nothing to go on from: %s; launch resume %s --from-start starts it over", id, why, id)
	case s.Quiet:
	case state == nil:
		say.Line("run %s: it starts over", id)
	case cut:
		say.Line("run %s: its last attempt was cut off; it goes on from %v", id, state)
	default:
		say.Line("run %s: it goes on from %v", id, state)
	}
	if r.Job.Exclusive != "" {
		unlock, err := store.Lock(r.Job.Exclusive, fmt.Sprintf("run %s (process %d)", id, os.Getpid()))
		if errors.Is(err, record.ErrBusy) {
			return later(s, id, r, err)
		}
		if err == nil {
			defer unlock()
			b.held = []string{r.Job.Exclusive}
		}
	}
	if err := rec.Write(record.Event{Kind: record.Resumed, Limit: limit(s)}); err != nil {
		return err
	}
	taken = true
	heard := hearEarly()
	defer heard.close()
	b.began = first
	return finish(ctx, s, r, f.device, rec, say, nil, b, heard)
}

// later ends a resume that has to wait for another launch.
func later(s settings, id string, r *run.Run, why error) error {
	say := ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr), Quiet: s.Quiet}
	say.Line("%v", why)
	writeResult(s, say, result{Version: 1, Run: id, Ending: notRun, Code: run.TryLater, Error: why.Error(), Job: r.Job})
	return exitCode(run.TryLater)
}

// locks is the folder of launch's locks and marks.
func (s settings) locks() string { return filepath.Join(s.State, "locks") }

// runs is the folder of the recorded runs.
func (s settings) runs() string { return filepath.Join(s.State, "runs") }

func printJSON(v any) error {
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := os.Stdout.Write(ui.CleanJSON(doc.Bytes()))
	return err
}
