// Package trace runs a training command's own Python script with tensors that are not there, and tells what its card
// would hold: which storages are allocated and freed, in order, and in which phase.
//
// The script is the user's, unchanged; the tracer (trace.py) makes PyTorch answer for a card that is described. Nothing
// of the machine is changed: the process is the first one in namespaces of its own, without a network and without
// devices, over a file system whose writes go to memory and end with it (jail.go). Where the kernel gives no
// such jail, nothing is run. What was allocated is replayed in core/mem's caching allocator (replay.go), prices the
// ladders of a job (price.go), and is kept from one launch to the next (cache.go).
//
// Formulas (formula.go, count.py) are the smaller way: a plugin's own PyTorch module on the meta device.
package trace

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

//go:embed trace.py
var tracer []byte

//go:embed values.py
var values []byte

//go:embed kernels.py
var kernels []byte

const (
	// Deadline is how much CPU time a trace may take unless the user sets another. The machine's other work does not
	// count, up to a point.
	Deadline = 60 * time.Second
	patience = 4 // times the deadline, by the clock
	// wanted are the optimizer steps after which enough was seen of training: the states appear at the first, and the
	// pools settle after it.
	wanted = 3
	// disk is how much the script may write.
	disk = 1 * unit.GiB
	// mostEvents bounds what is read of the tracer. GPT-2 asks 6,000 times in a step.
	mostEvents = 20_000_000
	// mostText bounds what is kept of the script's output: the end, for the reason why it stopped.
	mostText = 64 << 10
	// mostLine bounds the line of its output that is told as a reason.
	mostLine = 300
	// grace is how long the jail may hold its pipes open after it was killed.
	grace = 2 * time.Second
)

// A Tracer traces commands for one card.
type Tracer struct {
	Interpreter string     // the command's Python
	Card        gpu.Device // what the trace is for
	Ranks       int64      // of the job: one is traced
	Env         []string   // of the program
	Deadline    time.Duration
	Memory      unit.Bytes // of host memory, for each process; 0: no limit
	Packages    []string   // that are installed for the interpreter, with their versions; none: not known
	Cache       string     // folder of the answers; "" keeps nothing
	// Serve lets the program read edited Python source in place of its files, by what it puts into a folder. It returns
	// the variables for that.
	Serve func(dir string, files []job.File, env []string) ([]string, error)

	session *session
}

// New returns a tracer that traces nothing twice.
func New(t Tracer) Tracer {
	t.session = &session{traces: map[string]*Trace{}}
	return t
}

// A Trace is what came of it.
type Trace struct {
	Events []Event
	End    End
	Read   []string // the paths of files and folders that the script has read
	Output string   // the end of what the script printed

	guessed bool // the card's capability
}

// An Event is one line of the tracer.
type Event struct {
	What  What
	ID    int32      // of a storage
	Bytes unit.Bytes // of Allocated
	Kind  string     // of Kind: parameter, gradient, state, buffer
	Mark  Mark       // of Marked
	Why   string     // of Unknown
}

// What an event is.
type What byte

// The events.
const (
	Allocated What = 'A'
	Freed     What = 'F'
	Kind      What = 'K'
	Marked    What = 'M'
	Unknown   What = 'U' // what its phase needs is not known
)

// A Mark is a moment in the script's course.
type Mark struct {
	Name     string // batch, forward, backward, step
	Grad     bool   // of forward: with gradients
	Training bool   // of forward: the module is in training mode
	Samples  int    // of forward: the first dimension of its first tensor; of batch: how many it has; -1: not known
	Used     []int  // of forward: the batches that it was called with, by their number from 1
	Shape    int    // of batch: those of one number have the same shapes
	Loader   int    // of batch: its data loader
	// Optimizer is the number of the one that has stepped.
	Optimizer int
}

// End is why a trace ended.
type End struct {
	Why      string `json:"why"`
	Failed   bool   `json:"failed,omitempty"` // before enough was seen
	Cut      bool   `json:"cut,omitempty"`    // before the script had ended, or enough was seen of it
	Whole    bool   `json:"whole,omitempty"`  // the script came to its own end
	Place    string `json:"place,omitempty"`  // FILE:LINE of the script, where it failed
	Torch    string `json:"torch,omitempty"`
	CUDA     string `json:"cuda,omitempty"`
	Python   string `json:"python,omitempty"`
	Steps    int    `json:"steps"`              // of every optimizer that has stepped
	Waiting  int    `json:"waiting,omitempty"`  // optimizers that have not stepped yet
	Compiled bool   `json:"compiled,omitempty"` // torch.compile was asked for; the trace is of the eager program
	// Assumed are operators whose results have a shape that depends on values, and which were taken as large as can be.
	Assumed []string `json:"assumed,omitempty"`
}

// request is what the tracer reads.
type request struct {
	Kind   string   `json:"kind"` // script, module or code
	Target string   `json:"target"`
	Args   []string `json:"args"`
	NoCard string   `json:"nocard"` // the library that answers for the driver
	Card   card     `json:"card"`
	World  int64    `json:"world"`
	Steps  int      `json:"steps"`
}

type card struct {
	Name       string     `json:"name"`
	Memory     unit.Bytes `json:"memory"`
	Capability [2]int     `json:"capability"`
}

// Supported is why this machine can trace nothing, as far as that is known before; nil if it may.
func Supported() error {
	if _, ok := libraries[runtime.GOARCH]; !ok {
		return fmt.Errorf("a trace needs a library that launch has for amd64 and arm64, not for %s", runtime.GOARCH)
	}
	return nil
}

// Run traces a command, with files of a recipe that lie on the jail's [shelf], by their paths there. The error says why
// nothing could be traced; a script that fails is no error, but an End.
func (t Tracer) Run(ctx context.Context, p *command.Prog, files map[string][]byte) (*Trace, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	if t.Interpreter == "" {
		return nil, errors.New("it is not known which Python the command uses")
	}
	ask, err := t.request(p)
	if err != nil {
		return nil, err
	}
	input, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	c := cell{
		Argv: []string{t.Interpreter, "-B", "-W", "ignore", shelf + "/trace.py"}, Env: t.environ(), Dir: p.Dir,
		Disk: int64(disk), Data: uint64(t.Memory), Seconds: uint64(t.Deadline / time.Second), Input: input,
		Files: map[string][]byte{
			"trace.py": tracer, "launch_values.py": values, "launch_kernels.py": kernels, "nocard.so": libraries[runtime.GOARCH],
		},
	}
	maps.Copy(c.Files, files)
	bounded, cancel := context.WithTimeout(ctx, patience*t.Deadline)
	defer cancel()
	out, err := c.run(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = nil
	}
	if out != nil {
		out.guessed = t.Card.Capability == ""
	}
	return out, err
}

// request is what the tracer is asked for a command.
func (t Tracer) request(p *command.Prog) (ask request, err error) {
	ask = request{Target: p.Script, Args: p.Args, NoCard: shelf + "/nocard.so", World: max(1, t.Ranks), Steps: wanted}
	if ask.Args == nil {
		ask.Args = []string{}
	}
	switch p.Kind {
	case command.Module:
		ask.Kind = "module"
	case command.Code:
		ask.Kind = "code"
	case command.Installed:
		if ask.Kind, ask.Target = "script", p.File; p.File == "" {
			return ask, fmt.Errorf("%s was not found", p.Script)
		}
	default:
		ask.Kind = "script"
		if !filepath.IsAbs(ask.Target) {
			ask.Target = filepath.Join(p.Dir, ask.Target)
		}
	}
	major, minor := capability(t.Card.Capability)
	ask.Card = card{t.Card.Name, t.Card.Total, [2]int{major, minor}}
	return ask, nil
}

// capability is that of a card; 8.6 where it is not known, as most cards since 2020 have the kernels of it.
func capability(s string) (major, minor int) {
	before, after, _ := strings.Cut(s, ".")
	major, err := strconv.Atoi(before)
	if err != nil {
		return 8, 6
	}
	minor, _ = strconv.Atoi(after)
	return major, minor
}

// environ is the program's environment as one rank has it, without a card and without whoever it would report to.
func (t Tracer) environ() []string {
	env := slices.DeleteFunc(slices.Clone(t.Env), func(kv string) bool { return strings.HasPrefix(kv, "PYTHONINSPECT=") })
	return append(env, "CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=", "OMP_NUM_THREADS=1",
		"MKL_NUM_THREADS=1", "TOKENIZERS_PARALLELISM=false", "WANDB_MODE=disabled", "HF_HUB_OFFLINE=1",
		"HF_DATASETS_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "COMET_MODE=disabled",
		"MLFLOW_TRACKING_URI=file:///dev/shm/mlruns",
		"RANK=0", "LOCAL_RANK=0", fmt.Sprintf("WORLD_SIZE=%d", max(1, t.Ranks)), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",
		"XDG_RUNTIME_DIR=")
}

// run carries out a cell and reads its events.
func (c cell) run(ctx context.Context) (*Trace, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	events, toEvents, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer events.Close()
	refusal, toRefusal, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toEvents.Close())
	}
	defer refusal.Close()
	printed := &tail{most: mostText}
	cmd := jailed(self)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(string(text)), printed, printed, grace
	cmd.ExtraFiles, cmd.Env = []*os.File{toEvents, toRefusal}, []string{}
	runtime.LockOSThread() // Pdeathsig is of the thread
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	toEvents.Close()
	toRefusal.Close()
	if err != nil {
		return nil, fmt.Errorf("this machine's kernel gives no namespaces to this user, and without them a script could "+
			"leave marks: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	out := &Trace{}
	read := make(chan error, 1)
	go func() { read <- out.read(events) }()
	why, _ := io.ReadAll(io.LimitReader(refusal, 4096))
	wrong := <-read
	if wrong != nil {
		cmd.Process.Kill()
	}
	cmd.Wait() // how it exited is told by the events
	out.Output = printed.String()
	switch {
	case len(why) > 0:
		return nil, fmt.Errorf("no jail could be built in which the script can leave no mark: %s", why)
	case wrong != nil:
		return out, wrong
	case out.End.Why == "" && ctx.Err() != nil:
		out.killed("the time was over")
		return out, ctx.Err()
	case out.End.Why == "" && cmd.ProcessState.ExitCode() == bySignal+int(syscall.SIGXCPU):
		out.killed(fmt.Sprintf("its %d s%s", c.Seconds, timeOver))
	case out.End.Why == "":
		out.killed("the script's process ended: " + lastLine(out.Output))
	}
	return out, nil
}

// killed notes the end of a trace whose tracer could not tell of it.
func (t *Trace) killed(why string) {
	t.End.Why, t.End.Cut, t.End.Steps = why, true, t.steps()
	t.End.Failed = t.End.Steps == 0
}

// timeOver is what a trace is told to have ended by, after its seconds.
const timeOver = " of CPU time were over"

// steps counts the steps that every optimizer has made that was seen to step.
func (t *Trace) steps() (n int) {
	of := map[int]int{}
	for _, e := range t.Events {
		if e.What == Marked && e.Mark.Name == "step" {
			of[e.Mark.Optimizer]++
		}
	}
	for _, k := range of {
		if n == 0 || k < n {
			n = k
		}
	}
	return n
}

// read reads the tracer's lines until its end.
func (t *Trace) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<20)
	for lines.Scan() {
		if len(t.Events) == mostEvents {
			return fmt.Errorf("the script allocates more than %d times before it has trained", mostEvents)
		}
		if err := t.line(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// line reads one line of the tracer.
func (t *Trace) line(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	fields := strings.Fields(rest)
	number := func(i int) int64 {
		if i >= len(fields) {
			return -1
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	e := Event{ID: int32(number(0))}
	switch word {
	case "A":
		e.What, e.Bytes = Allocated, unit.Bytes(number(1))
	case "F":
		e.What = Freed
	case "K":
		if e.What = Kind; len(fields) > 1 {
			e.Kind = strings.Clone(fields[1])
		}
	case "M":
		if e.What, e.ID = Marked, 0; len(fields) > 0 {
			e.Mark = marked(strings.Clone(fields[0]), number, len(fields))
		}
	case "U":
		e.What, e.Why, e.ID = Unknown, strings.Clone(rest), 0
	case "R":
		var path string
		if err := json.Unmarshal([]byte(rest), &path); err != nil {
			return err
		}
		t.Read = append(t.Read, path)
		return nil
	case "Z":
		t.Events = t.Events[:0]
		return nil
	case "E":
		return json.Unmarshal([]byte(rest), &t.End)
	default:
		return fmt.Errorf("the tracer printed %.80q", text)
	}
	if e.What != Marked && e.What != Unknown && (e.ID < 1 || e.Bytes < 0) {
		return fmt.Errorf("the tracer printed %.80q", text)
	}
	t.Events = append(t.Events, e)
	return nil
}

// marked reads the numbers of a mark, from the first on.
func marked(name string, number func(int) int64, fields int) Mark {
	m := Mark{Name: name, Samples: -1}
	switch name {
	case "batch":
		m.Samples, m.Shape, m.Loader = int(number(1)), int(number(2)), int(number(3))
	case "step":
		m.Optimizer = max(0, int(number(1)))
	case "forward":
		m.Grad, m.Training, m.Samples = number(1) == 1, number(2) == 1, int(number(3))
		for i := 4; i < fields; i++ {
			m.Used = append(m.Used, int(number(i)))
		}
	}
	return m
}

// tail keeps the end of what is written.
type tail struct {
	text []byte
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-t.most):]...)
	t.text = t.text[max(0, len(t.text)-t.most):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }

// lastLine is the last line of a text as a terminal shows it: a progress bar writes over itself.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexAny(s, "\n\r")+1:]
	return s[max(0, len(s)-mostLine):]
}
