// Package sbatch is launch sbatch-line, which prints a command as a script for Slurm.
package sbatch

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/engine"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/slurm"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

const sbatchHelp = `sbatch-line prints a batch script: an #SBATCH line for everything that launch can derive (host
memory, cards, the time, a signal before the time limit), and the command as a launch that saves
at that signal and goes on when Slurm starts it again. What is not known gets no line, and a
comment has the reason. It submits nothing: pipe it into sbatch, or copy the lines into a script
of yours.

On a machine without the cluster's cards, --vram names the card to plan for. A job of several
machines is refused: its script has to start a launch on each.`

// SbatchVersion is the version of [sbatchDocument].
const SbatchVersion = 1

// SbatchDocument is the output of `launch sbatch-line --json`.
type SbatchDocument struct {
	Version int             `json:"version"`
	Verdict string          `json:"verdict"` // as in `launch plan --json`
	Options []string        `json:"options"` // of sbatch: one for each #SBATCH line
	Unknown []sbatchUnknown `json:"unknown"` // the options that are left out
	Notes   []string        `json:"notes"`   // what else the comments of the script have
	Command []string        `json:"command"`
	Script  string          `json:"script"`
	// Memory is the estimate of the job's host memory; the line asks for 1 GiB more. null: not known.
	Memory  *unit.Bytes `json:"host_memory_bytes"`
	Cards   *int        `json:"cards"`   // null: not known, or none
	Seconds *float64    `json:"seconds"` // of the training, by receipts; the line asks for more. null: not known
}

// sbatchUnknown is an option that launch cannot derive.
type sbatchUnknown struct {
	Option string `json:"option"`
	Why    string `json:"why"`
}

// New makes launch sbatch-line.
func New(f *cli.Factory) *cobra.Command {
	var o sbatchOptions
	var engine engine.Flags
	c := &cobra.Command{
		Use: "sbatch-line [flags] -- COMMAND [ARG ...]", Short: "print a command as a script for Slurm's sbatch: memory, " +
			"cards, time, signal",
		Long: sbatchHelp,
		Example: "  launch sbatch-line --vram 24GiB -- python train.py -opt x.yml\n" +
			"  launch sbatch-line --sbatch \"-p gpu -t 8:00:00\" -- python train.py -opt x.yml | sbatch",
		RunE: settings.WithCommand(func(c *cobra.Command, s settings.Values, args []string) error {
			e, err := engine.Engine("--array", "-a", "--wrap", "--parsable", "--signal", "--no-requeue")
			if err != nil {
				return err
			}
			o.reader = reading.New(f, s.State, s.Room, s.Limits, s.Reading)
			o.engine, o.nodes, o.saves, o.given = e, s.Nodes, s.Program.Leave != nil, c.Flags()
			o.say = cli.Reporter(s.Output.Quiet, s.Output.Verbose)
			return sbatchLine(c.Context(), o, args)
		}),
	}
	c.Flags().SetInterspersed(false)
	c.Flags().StringArrayVar(&engine.Sbatch, "sbatch", nil,
		`options of sbatch, such as "--partition=gpu --time=8:00:00"; they outrank those of launch`)
	c.Flags().DurationVar(&engine.Before, "save-before", slurm.DefaultBefore,
		"how long before its time limit the job is asked to save")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the lines, and what is not known, as JSON")
	settings.AddSet(c.Flags())
	settings.Use(c, settings.All) // those that are given go into the script
	return cli.Exits(c, cli.Exit("0", "the script was printed"),
		cli.Exit("78", "the job cannot fit at the allowed cost; nothing was printed on standard output"),
		cli.Exit("125", "launch or a plugin failed"))
}

// sbatchOptions are what launch sbatch-line takes.
type sbatchOptions struct {
	asJSON bool
	reader reading.Reader
	engine *sweep.Engine
	nodes  settings.Nodes
	saves  bool           // the user has set the signals at which the program saves
	given  *pflag.FlagSet // the flags of the command line
	say    ui.Printer
}

func sbatchLine(ctx context.Context, o sbatchOptions, args []string) error {
	p, err := o.reader.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p.Err != nil {
		return p.Err
	}
	if p, err = o.reader.Prefer(ctx, p, args); err != nil {
		return err
	}
	for _, w := range p.Warnings {
		o.say.Warn("%s", w)
	}
	if err := oneMachine(o.nodes, p.Command); err != nil {
		return err
	}
	cluster, err := slurm.AskCluster(ctx, nil)
	if ctx.Err() != nil {
		return err
	}
	d := &SbatchDocument{Version: SbatchVersion, Verdict: ladder.Unknown.String(), Notes: []string{}}
	own := []string{ownName()}
	if p.Job == nil {
		why := "launch does not recognise this command (" + p.Why() + ")"
		d.lacks(why, "--mem", "--gres", "--time", "--signal")
		d.Options = optionLines(slurm.Needs{}, o.engine.Options)
		d.Command = slices.Concat(own, flagsGiven(o.given, nil), []string{"--"}, args)
		return d.print(o.asJSON)
	}
	if err := d.needs(o, p, args); err != nil {
		return err
	}
	d.note(o.reader.Room.GPUs, p, cluster)
	flags := flagsGiven(o.given, []string{"continue"})
	if !o.saves {
		flags = append(flags, slurm.SaveOn(o.engine.Before, cluster.Kill))
	}
	d.Command = slices.Concat(own, []string{"--continue"}, flags, []string{"--"}, args)
	return d.print(o.asJSON)
}

// needs sets the options of a job, as a sweep on Slurm derives them.
func (d *SbatchDocument) needs(o sbatchOptions, p *intake.Reading, args []string) error {
	v := reading.View(p)
	doc := v.Document(args, nil)
	if v.Stop != nil {
		o.say.Stop(p.Run, v.Stop)
		return cli.ExitCode(run.CannotFit)
	}
	q, err := sweep.QuoteOf(1, doc)
	if err != nil {
		return err
	}
	d.Verdict = doc.Verdict
	q.Ranks = int64(reading.Cards(o.reader.Room.GPUs, p.Command, p.Job)) // on one machine
	asked := o.engine.Options
	e := engine.Sized(o.engine, o.reader.Room, []sweep.Quote{q})
	n := slurm.Needs{Memory: e.Memory, GPUs: e.GPUs, Before: e.Before}
	if e.Memory > 0 {
		d.Memory = &q.Memory
	} else if !engine.OptionIn(asked, engine.MemoryOptions...) {
		d.lacks("the host memory that the job needs is not known", "--mem")
	}
	if e.GPUs > 0 {
		d.Cards = &e.GPUs
	}
	if !engine.OptionIn(asked, "--time", "-t") {
		seconds, why := lengthOf(o.reader, p, v.Plan)
		if d.Seconds = seconds; seconds == nil {
			d.lacks(why, "--time")
		} else {
			n.Time = time.Duration(*seconds*1.25*float64(time.Second)) + e.Before
			d.Notes = append(d.Notes, fmt.Sprintf("--time: by receipts the training takes %v; a quarter of that is for "+
				"validation, and %v for saving", time.Duration(*seconds*float64(time.Second)).Round(time.Second), e.Before))
		}
	}
	d.Options = optionLines(n, asked)
	return nil
}

// lengthOf is how long the training of a plan takes, by receipts; else why that is not known.
func lengthOf(r reading.Reader, p *intake.Reading, plan *run.Plan) (*float64, string) {
	steps, global := float64(p.Job.Steps), float64(plan.Batch.Global())
	switch {
	case steps <= 0:
		return nil, "the number of optimizer steps is not known"
	case global <= 0:
		return nil, "the global batch is not known"
	}
	speed := r.Speeds(p)
	at := slices.IndexFunc(plan.Choices, func(c run.Choice) bool { return c.Phase == ladder.Training })
	if speed == nil || at < 0 {
		return nil, "no receipt has the speed of this training here"
	}
	rate := speed(run.Configuration{Shared: plan.Shared.Rung, Rung: plan.Choices[at].Rung})
	seconds := steps * global / rate
	if rate <= 0 || seconds > math.MaxInt32 {
		return nil, "no receipt has the speed of this training here"
	}
	return &seconds, ""
}

// note adds what the user has to know beside the lines.
func (d *SbatchDocument) note(gpus int, p *intake.Reading, cluster slurm.Cluster) {
	if !cluster.Asked {
		d.Notes = append(d.Notes, fmt.Sprintf("Slurm did not answer here: launch takes its default KillWait, %v",
			cluster.Kill))
	}
	if cluster.Asked && !cluster.Again(run.TryLater) {
		d.Notes = append(d.Notes, fmt.Sprintf("RequeueExit of this cluster has no %d: after the time limit, submit this "+
			"again; it continues the run", run.TryLater))
	}
	prog, err := p.Command.Prog()
	if err != nil {
		return
	}
	for _, l := range prog.Launchers {
		if _, asks := l.PerNode(0); asks && gpus == 0 && d.Cards != nil {
			d.Notes = append(d.Notes, fmt.Sprintf("--gres: %s starts a process for each card that it finds; launch --gpus N "+
				"asks for N", l.Name))
		}
	}
}

// oneMachine refuses a job of several machines: its script has to start a launch on each.
func oneMachine(n settings.Nodes, c job.Command) error {
	const why = "sbatch-line prints scripts for one machine; docs/cards.md has a script that starts a launch on each"
	if n.At != "" {
		return fmt.Errorf("%s: %s", n.Names.Value("nodes-at", n.At), why)
	}
	prog, err := c.Prog()
	if err != nil {
		return nil //nolint:nilerr // the reading has reported it, or there is no program
	}
	for _, l := range prog.Launchers {
		if l.Nodes > 1 {
			return fmt.Errorf("%s runs on %d machines: %s", l.Name, l.Nodes, why)
		}
	}
	return nil
}

func (d *SbatchDocument) lacks(why string, options ...string) {
	for _, o := range options {
		d.Unknown = append(d.Unknown, sbatchUnknown{o, why})
	}
}

// print prints the script, or the document.
func (d *SbatchDocument) print(asJSON bool) error {
	script := slurm.Script{Options: d.Options, Command: d.Command}
	for at, u := range d.Unknown { // options with the same reason have one line
		first := slices.IndexFunc(d.Unknown, func(o sbatchUnknown) bool { return o.Why == u.Why })
		if first < at {
			continue
		}
		var names []string
		for _, o := range d.Unknown[at:] {
			if o.Why == u.Why {
				names = append(names, o.Option)
			}
		}
		script.Notes = append(script.Notes, "no "+strings.Join(names, ", ")+": "+u.Why)
	}
	script.Notes = append(script.Notes, d.Notes...)
	text, err := script.Text()
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = os.Stdout.WriteString(text)
		return err
	}
	d.Script, d.Unknown = text, append([]sbatchUnknown{}, d.Unknown...)
	return cli.PrintJSON(d)
}

// optionLines are the lines of a script: launch's options, then the user's, of which sbatch takes the last.
func optionLines(n slurm.Needs, asked []string) []string {
	lines := n.Options()
	if n.Before > 0 {
		lines = append([]string{"--requeue", "--open-mode=append"}, lines...)
	}
	var words []string
	for _, word := range asked {
		if quoted, err := slurm.Quote(word); err == nil {
			word = quoted
		}
		words = append(words, word)
	}
	if len(words) > 0 {
		lines = append(lines, strings.Join(words, " "))
	}
	return append([]string{}, lines...)
}

// ownName is how a job starts this launch: by its name if that finds it, else by its path.
func ownName() string {
	own, err := os.Executable()
	if err != nil {
		return "launch"
	}
	found, err := exec.LookPath("launch")
	if err != nil {
		return own
	}
	a, errA := os.Stat(own)
	b, errB := os.Stat(found)
	if errA == nil && errB == nil && os.SameFile(a, b) {
		return "launch"
	}
	return own
}

// flagsGiven lists launch's flags on the command line, without some. Other flags are those of the subcommand.
func flagsGiven(f *pflag.FlagSet, without []string) []string {
	return settings.Given(f, func(name string) bool {
		return (settings.IsSetting(name) || settings.IsSet(name)) && !slices.Contains(without, name)
	})
}
