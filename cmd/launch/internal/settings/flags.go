package settings

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/trace"
)

// AddFlags declares the settings and their defaults.
func AddFlags(f *pflag.FlagSet) {
	f.String("allow", "metrics", "highest cost of a change: "+strings.Join(ladder.Costs(), ", "))
	f.String("vram", "", "plan for a card of this size, such as 12GiB (12GB is the same), or of this name, such as "+
		"\"RTX 3060\"; it does not have to be in this machine")
	f.String("device", "auto", "auto, cpu, a GPU by index or UUID; any, or a list such as 0,2: launch chooses a card "+
		"with room")
	f.String("wait", "", "wait for room on the card, or for --memory, instead of exit 75; --wait=30m: at most so long")
	f.Lookup("wait").NoOptDefVal = "true"
	f.String("memory", "", "with --device cpu: memory limit for each process of the job, enforced by the kernel "+
		"(RLIMIT_DATA)")
	f.String("reserve", "0", "how much of the card to leave free")
	f.String("plugin", "auto", "auto, none, or the name of a plugin")
	f.Bool("as-asked", false, "ignore estimates: change a phase only after it has run out of memory")
	f.String("fill", "", "use more of the card, mostly by a larger micro-batch, as far as it fits; --fill=fast: as far as it is faster, found by short runs")
	f.Lookup("fill").NoOptDefVal = "most"
	f.Bool("rehearse", false, "go through every phase once before the run, in a short run that leaves nothing behind")
	f.Bool("inside", false, "let the program's Python processes report their memory, through a hook in PYTHONPATH; "+
		"what they print stays the same")
	f.String("last-words", "60s", "after an out-of-memory, how long the program may take to save the last finished step, "+
		"where launch knows how it saves; 0: it does not")
	f.String("on-pressure", "off", "what to do when memory runs short while the program trains: off: nothing; save: "+
		"have it save its state; step-down: save, stop it, and go on one rung lower")
	f.Int("gpus", 0, "number of cards that the command would see, for a machine that launch cannot inspect (default "+
		"with --vram: one for each process that its launcher starts, else 1)")
	f.String("nodes-at", "",
		"HOST:PORT of node 0: the job runs on several machines, one launch on each, and that of node 0 decides for all")
	f.String("this-node", "", "I/N: this machine is node I of N (default: from the command's launcher or from Slurm)")
	f.Bool("anyway", false, "run even if it is certain not to fit (otherwise exit 78)")
	f.Bool("continue", false, "continue the last run of this command, if its recipe is the same and it has not "+
		"succeeded; otherwise start one")
	f.Bool("tty", false, "run in a pseudo-terminal even if the output is not a terminal")
	f.BoolP("quiet", "q", false, "print nothing unless something goes wrong")
	f.Bool("verbose", false, "print every line of the estimates and every rung, and the whole checklist at the end of a "+
		"run")
	f.String("json-file", "", "write what happened to this file, as JSON")
	f.String("notify", "", "when the run ends or stops, send a notice: bell, desktop, an address such as "+
		"https://HOST/PATH, or a list of these; none")
	f.String("notify-command", "", "when the run ends or stops, let /bin/sh run this command, with the notice as its "+
		"input")
	f.Bool("notify-host", false, "notices have the name of this machine")
	f.String("status", "", "show the progress: line (in the last row of the terminal), title, taskbar, or a list of these")
	f.Lookup("status").NoOptDefVal = "line"
	f.String("bars", "auto", "bars in plans: auto (on a terminal), always, never; the text has the same figures")
	f.String("state-dir", "", "folder for records and receipts (default $XDG_STATE_HOME/launch)")
	f.Bool("receipts", true, "correct estimates by what earlier runs measured; receipts are written in any case")
	f.Bool("prune", true, "after a run, remove records older than 90 days and the oldest beyond 4 GiB, but none "+
		"that can be resumed")
	f.Duration("grace", 0, "how long a program may take to stop after a signal before it is killed (default: no "+
		"limit; 30s if launch itself stops it)")
	f.String("save-on", "", "on these signals, let the program save its state, then stop it and exit with 75: "+
		"USR2=100s,TERM gives it 100 s after SIGUSR2 and "+attempt.NoticeTime.String()+" after SIGTERM")
	f.Bool("yield", false, "after an out-of-memory while others held a part of the card, exit with 75 instead of "+
		"running with other settings")
	f.Lookup("yield").Hidden = true // for the trials of a sweep
	f.Duration("sample", time.Second, "time between two readings of the GPU")
	f.Duration("formula-time", trace.FormulaDeadline, "how long a plugin may run its own PyTorch module in the command's "+
		"Python, to count its memory; 0: not at all")
	f.String("trace", "auto", "run the script with tensors that are not there, for what no formula knows: auto (after an "+
		"out-of-memory, for --fill and for sweep plan), never, always; --trace alone: always. It leaves no mark")
	f.Lookup("trace").NoOptDefVal = "always"
	f.Duration("trace-time", trace.Deadline, "how much time of the CPU a trace may take")
}

// SetFlag is the name of the flag that [AddSet] declares.
const SetFlag = "set"

// rowFlag is the name of the flag that [AddSet] declares for the rows of sweeps.
const rowFlag = "sweep-row"

// AddSet declares --set, for the commands that read a job. It is no setting of launch: it is part of one job, as its
// command is. So neither the environment nor a settings file has it; there it would change every training without being
// seen. launch resume keeps what its run has.
func AddSet(f *pflag.FlagSet) {
	f.StringArray(SetFlag, nil, "run the job as if its recipe had this value: KEY=VALUE, where KEY is an address in the "+
		"recipe (train.optim_g.lr), a knob (micro-batch) or an option of the program (--set=--lr=0.1); may be repeated")
	f.String(rowFlag, "", "a sweep starts this launch for the row with this mark, and looks for the variables after it")
	f.Lookup(rowFlag).Hidden = true
}

// AcceptFlag is the name of the flag that [AddAccept] declares.
const AcceptFlag = "accept"

// AddAccept declares --accept. It is no setting of launch: in a variable or a file it would mix experiments unseen.
func AddAccept(f *pflag.FlagSet) {
	f.Bool(AcceptFlag, false, "go on although code, data, environment or the like have changed since the run began; the "+
		"run is then marked as mixed")
}

// ownFlags returns launch's settings as flags, without those of a single subcommand, such as --json.
func ownFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(f)
	return f
}

// Known are the settings, to look them up by name.
var Known = sync.OnceValue(ownFlags)

// Variable returns the name of a setting's environment variable.
func Variable(key string) string {
	return "LAUNCH_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// A Group is some settings that the same commands use. Every command takes every setting, so that `launch -q plan` and
// a script that was written for another command go on working; its help has those that it uses.
type Group []string

// The groups of settings.
var (
	RoomFlags    = Group{"vram", "device", "memory", "reserve", "gpus"}
	LimitFlags   = Group{"allow", "as-asked", "fill", "rehearse", "anyway"}
	TraceFlags   = Group{"trace", "trace-time"}
	ReadingFlags = groups(Group{"plugin", "receipts", "formula-time"}, TraceFlags)
	StateFlags   = Group{"state-dir"}
	ResultFlags  = Group{"json-file"}
	PlanFlags    = Group{"bars"}
	// AgainFlags are what a run that goes on does not have from its record, of the limits.
	AgainFlags = Group{"allow", "anyway"}
	// ProgramFlags are about the program while it runs, and about what is printed of it.
	ProgramFlags = Group{"wait", "inside", "last-words", "on-pressure", "nodes-at", "this-node", "tty", "quiet",
		"verbose", "notify", "notify-command", "notify-host", "status", "prune", "grace", "save-on", "yield", "sample"}
	// All are all settings.
	All = groups(RoomFlags, LimitFlags, ReadingFlags, StateFlags, ResultFlags, PlanFlags, ProgramFlags,
		Group{"continue"})
)

// HelpGroups are the flags that commands share, by what they are for, as help shows them.
var HelpGroups = []struct {
	Title string
	Flags Group
}{
	{"What may change", Group{"allow", SetFlag, "as-asked", "fill", "rehearse", "anyway"}},
	{"How it is foreseen", Group{"plugin", "formula-time", "trace", "trace-time"}},
	{"Which card", Group{"vram", "device", "memory", "reserve", "gpus", "wait", "yield", "nodes-at", "this-node"}},
	{"While it runs", Group{"inside", "last-words", "on-pressure", "tty", "save-on", "grace", "sample"}},
	{"What is printed", Group{"quiet", "verbose", "status", "bars", "json-file", "notify", "notify-command",
		"notify-host"}},
	{"Records", Group{"continue", AcceptFlag, "state-dir", "receipts", "prune"}},
}

func groups(all ...Group) Group { return slices.Concat(all...) }

// usesKey is the annotation of a command that has the settings that it uses.
const usesKey = "settings"

// Use declares which settings a command uses.
func Use(c *cobra.Command, groups ...Group) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[usesKey] = strings.Join(slices.Concat(groups...), ",")
	return c
}

// Used returns the settings that a command uses, as flags.
func Used(c *cobra.Command) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	Known().VisitAll(func(g *pflag.Flag) {
		if slices.Contains(strings.Split(c.Annotations[usesKey], ","), g.Name) {
			f.AddFlag(g)
		}
	})
	return f
}
