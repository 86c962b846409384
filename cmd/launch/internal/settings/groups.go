// Package settings reads the settings of launch, from flags, environment and files, as groups of a few values. It is
// the one package that knows viper. A command reads the settings at its start, and hands on the groups that it needs.
package settings

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/report"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/run/nodes"
	"github.com/launch-ml/launch/core/unit"
)

// Values are launch's settings as groups. A flag outranks LAUNCH_*, which outranks the project's .launch.yaml, which
// outranks the user's file. A command reads them once, hands each part the group that it needs, and keeps none. The
// recipe of a job is never read or written this way.
type Values struct {
	Room    Room
	Limits  run.Limits
	Reading Reading
	Program Program
	Output  Output
	Notices Notices
	Nodes   Nodes
	Result  ResultFile
	State   string // folder of the runs
	Prune   bool   // remove old records after a run
	// Continue is whether the last run of the same command goes on, if it has not succeeded.
	Continue bool
	Row      Row
	Cards    []Card // of --vram, if it names several; then Room.VRAM is 0
	Expects  bool   // the user set something that has an effect only on a recognised job
	Names    Names
}

// Room is where a job runs, and how much memory it may take there.
type Room struct {
	room.Wish
	GPUs  int           // how many cards the command would see; 0: this machine's, or one with VRAM
	Wait  time.Duration // for room: 0 not at all, negative without a limit
	Names Names
}

// DeviceError adds the device's setting to an error.
func (r Room) DeviceError(err error) error {
	return fmt.Errorf("%s: %w", r.Names.Value("device", r.Device), err)
}

// MemoryCalled is how errors name the limit.
func (r Room) MemoryCalled() string { return r.Names.Value("memory", r.Memory.String()) }

// Forever is the wait without a limit.
const Forever time.Duration = -1

// A Card is one that need not be in this machine.
type Card struct {
	gpu.Card // the zero card if only the size is given
	Bytes    unit.Bytes
}

// Reading is how a command is read.
type Reading struct {
	Plugin string   // "auto", "none" or a name
	Set    []string // KEY=VALUE: settings of the job that the user asks for beside its recipe
	// FormulaTime is how long the formulas of a plugin may take; 0: none is run.
	FormulaTime time.Duration
	Trace       string        // TraceAuto, …
	TraceTime   time.Duration // of the CPU, for a trace
	Receipts    bool          // correct estimates by earlier receipts
	// Notes are warnings about the settings files, to be printed once.
	Notes []string
	// AsTyped is why launch changes nothing of the training: a settings file is not trusted, or cannot be read, and it
	// might hold "allow: none". "" if every file was taken.
	AsTyped string
}

// Program is how launch treats the program while it runs.
type Program struct {
	Inside bool // the program's Python processes report their memory
	// LastWords is how long a process may take to save its state when an out-of-memory ends it; 0: it does not.
	LastWords time.Duration
	// OnPressure is what launch does when memory runs short while it trains: "", attempt.Save or attempt.StepDown.
	OnPressure string
	TTY        bool
	Grace      time.Duration    // 0: no limit
	Leave      []attempt.Notice // signals on which the program saves its state and stops
	Yield      bool             // a sweep runs this trial again if it runs out of memory beside another launch
	Sample     time.Duration
}

// Output is what launch prints of a run.
type Output struct {
	Quiet   bool
	Verbose bool
	Shows   proc.Shows // what the terminal shows of the progress
	Bars    string     // of plans: "auto", "always" or "never"
}

// Notices are where a notice is sent when a run or a sweep ends or stops.
type Notices struct {
	To   []report.NoticePlace
	Host bool // notices have the name of this machine
}

// ResultFile is the file that gets a document of what happened.
type ResultFile struct {
	File  string // "": none
	Names Names
}

// Row is the mark of the start of a sweep's row that this launch is, and the variables that the row sets.
type Row struct {
	Mark string // "": it is none
	Env  []string
}

// Names knows how errors name settings.
type Names struct {
	from    map[string]string // of each setting that no flag set: its variable, or its line in a file
	project map[string]bool   // settings from a project's file
}

// Name is how errors name a setting: "--grace", "LAUNCH_GRACE", "grace in FILE".
func (n Names) Name(key string) string { return cmp.Or(n.from[key], "--"+key) }

// Value is Name with the setting's value.
func (n Names) Value(key, value string) string {
	if n.from[key] == "" {
		return "--" + key + " " + value
	}
	return fmt.Sprintf("%s (%s)", n.from[key], value)
}

// OfProject reports whether a project's file made a setting.
func (n Names) OfProject(key string) bool { return n.project[key] }

// Nodes are the machines of a run.
type Nodes struct {
	At    string // HOST:PORT, where the launches of several machines meet; "": there is one
	This  string // "I/N": which machine this is; "": by the command or the environment
	Names Names
}

// Place returns which node of a run this launch is; the zero place without --nodes-at.
func (n Nodes) Place(c job.Command) (at nodes.Place, err error) {
	if n.At == "" {
		return nodes.Place{}, nil
	}
	host, port, err := net.SplitHostPort(n.At)
	if err == nil && host == "" {
		host = lookup(c.Env, "MASTER_ADDR")
	}
	if err != nil || host == "" || port == "" {
		return at, fmt.Errorf("%s: give the address of node 0 as HOST:PORT", n.Names.Value("nodes-at", n.At))
	}
	node, count := n.This, ""
	if node != "" {
		node, count, _ = strings.Cut(node, "/")
	} else {
		node, count = nodeOf(c)
	}
	at.Address = net.JoinHostPort(host, port)
	at.Node, err = strconv.Atoi(node)
	if err == nil {
		at.Nodes, err = strconv.Atoi(count)
	}
	switch {
	case err != nil && n.This != "", err == nil && (at.Node < 0 || at.Node >= at.Nodes):
		return at, fmt.Errorf("%s: give this machine's number and how many there are, such as --this-node 0/2",
			n.Names.Value("this-node", cmp.Or(n.This, node+"/"+count)))
	case err != nil:
		return at, fmt.Errorf("%s: which node this is, and of how many, is neither in the command nor in the "+
			"environment: add --this-node I/N", n.Names.Value("nodes-at", n.At))
	}
	return at, nil
}

// nodeOf returns which node a command's launcher or Slurm takes this machine for, and how many there are.
func nodeOf(c job.Command) (node, count string) {
	if prog, err := c.Prog(); err == nil {
		node = prog.Node
		for _, l := range prog.Launchers {
			if l.Nodes > 0 {
				count = strconv.Itoa(l.Nodes)
			}
		}
	}
	node = cmp.Or(node, lookup(c.Env, "SLURM_NODEID"), lookup(c.Env, "NODE_RANK"), lookup(c.Env, "GROUP_RANK"))
	return node, cmp.Or(count, lookup(c.Env, "SLURM_NNODES"), lookup(c.Env, "NNODES"))
}

func lookup(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
