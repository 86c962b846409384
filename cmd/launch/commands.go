package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
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
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	if p.job == nil {
		if asJSON {
			err = printJSON(ui.PlanDocument{Version: ui.PlanVersion, Command: args, Warnings: p.warnings, Verdict: "unknown"}.Complete())
		} else {
			for _, w := range p.warnings {
				say.Warn("%s", w)
			}
			say.Line("this command is not recognised (%s): it would run as typed, and an out-of-memory would be explained", p.why())
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
	if s.JSONFile != "" {
		b, err := json.MarshalIndent(d, "", "  ")
		if err == nil {
			err = writeJSON(s.JSONFile, append(b, '\n'))
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
				return nil
			}
			say.GPUs(all)
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
			s, err := readSettings(c.Flags(), ".")
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

// version is set by the linker for a release.
var version = ""

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "print the version", Args: takes(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			v := version
			if info, ok := debug.ReadBuildInfo(); ok && v == "" {
				v = info.Main.Version
			}
			if v == "" {
				v = "(development)"
			}
			if asJSON {
				return printJSON(map[string]string{"version": v, "os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version()})
			}
			fmt.Printf("launch %s %s/%s %s\n", v, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the version as JSON")
	return c
}

func newRuns() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "runs", Short: "list the recorded runs", Args: takes(0, 0, "no argument: launch show RUN shows one"),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSettings(c.Flags(), ".")
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
				rows = append(rows, ui.RowOf(h, alive(h.PID())))
			}
			if asJSON {
				return printJSON(rows)
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Runs(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func newShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [RUN | last]", Short: "show a recorded run: its attempts, what was changed, what was measured", Args: takes(0, 1, "one run, which launch runs lists, or none for the last"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := readSettings(c.Flags(), ".")
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
				return printJSON(map[string]any{"version": record.Version, "id": h.ID, "dir": h.Dir, "torn": h.Torn, "events": h.Events})
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Show(h, alive(h.PID()))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the run as JSON")
	return c
}

func newResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume RUN", Short: "go on with a run that was cut off, stopped, or needs a higher --allow", Args: takes(1, 1, "one run, which launch runs lists, or the word last"),
		Long: `resume goes on with a run from its newest saved state, on the rung that it had come to: a run of which launch itself was
killed, that was interrupted, that failed for a reason that is mended now, or for which no allowed rung was left. A cost is
raised by --allow alone; what the run was allowed when it began stands otherwise.`,
		Example: "  launch resume last\n  launch resume last --allow recipe",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := readSettings(c.Flags(), ".")
			if err != nil {
				return err
			}
			if !c.Flags().Changed("allow") { // the user's word for this run stands
				s.Allow = ladder.None
			}
			return told(s, resume(c.Context(), s, args[0]))
		},
	}
}

// resume takes a run up where its record ends.
func resume(ctx context.Context, s settings, name string) error {
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
	case alive(h.PID()):
		return fmt.Errorf("run %s is still carried by process %d", id, h.PID())
	}
	for _, a := range r.Job.Command.Args {
		if strings.Contains(a, record.Masked) {
			return fmt.Errorf("run %s has a secret in its command that was not recorded: start it again by hand", id)
		}
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
			s.Memory = r.Room
		}
	}
	f := findDevice(ctx, s, r.Job.Command.Env)
	if f.err != nil {
		return f.err
	}
	// The attempt that was cut off has no outcome. What it left is found as after any other: its saved state.
	var first time.Time
	for _, a := range r.Attempts {
		if a.Plan.Trial == "" && first.IsZero() {
			first = a.Outcome.Began
		}
	}
	if err := r.Again(s.Allow); err != nil && stopped {
		return fmt.Errorf("run %s is over: %w", id, err)
	}
	r.Limits.Anyway = r.Limits.Anyway || s.Anyway
	if stopped && !s.Quiet {
		if st := r.Saved(); st != nil {
			say.Line("run %s: it goes on from %v", id, st)
		} else {
			say.Line("run %s: there is nothing to go on from: it starts over", id)
		}
	}
	if began, ok := h.CutOff(); ok {
		if first.IsZero() {
			first = began.Time
		}
		if st := saved(confine.New(r.Job), r.Job.Signs, began.Time); st != nil {
			r.Left = st
		}
		switch {
		case s.Quiet:
		case r.Left != nil && r.Job.Resume.None == "":
			say.Line("run %s: its last attempt was cut off; it goes on from %v", id, r.Left)
		default:
			say.Line("run %s: its last attempt was cut off, and there is nothing to go on from: it starts over", id)
		}
	}
	if r.Job.Exclusive != "" {
		unlock, err := store.Lock(r.Job.Exclusive, fmt.Sprintf("run %s (process %d)", id, os.Getpid()))
		if errors.Is(err, record.ErrBusy) {
			say.Line("%v", err)
			writeResult(s, say, result{Version: 1, Run: id, Ending: notRun, Code: run.TryLater, Error: err.Error(), Job: r.Job})
			return exitCode(run.TryLater)
		}
		if err == nil {
			defer unlock()
		}
	}
	rec, err := store.Append(id)
	if err != nil {
		return err
	}
	if err := rec.Write(record.Event{Kind: record.Resumed, Limit: limit(s)}); err != nil {
		return err
	}
	heard := hearEarly()
	defer heard.close()
	return finish(ctx, s, r, f.device, rec, say, nil, first, heard)
}

func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	// One that its parent has not fetched (in a notebook, in a container without an init) carries nothing any more.
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.EPERM) || syscall.Kill(pid, 0) == nil
}

// runs is the folder of the recorded runs.
func (s settings) runs() string { return filepath.Join(s.State, "runs") }

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
