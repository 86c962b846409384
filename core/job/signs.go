package job

import (
	"slices"

	"github.com/launch-ml/launch/core/metric"
)

// A SignKind is the meaning of a line of a program's output. Readers ignore kinds that they do not know, so that a
// newer plugin works with an older launch.
type SignKind string

const (
	// the training loop has begun; group "total", if there is one: of how many optimizer steps. Progress with another
	// total is then that of something else, such as a validation's bar
	Started SignKind = "started"
	// group "iteration": optimizer steps done; group "total", if there is one: of how many
	Progress   SignKind = "progress"
	SavedState SignKind = "saved"     // group "iteration", group "path": something a resume can read was written
	Resumed    SignKind = "resumed"   // group "iteration": training continues from a saved state
	Phase      SignKind = "phase"     // the phase named by the sign has begun
	PhaseEnd   SignKind = "phase-end" // the phase named by the sign is over
	// Memory has the groups "bytes" and "unit": peak memory as the program reports it; and "reserved", in the same
	// unit, if the line also has what torch's allocator holds at that moment.
	Memory      SignKind = "memory"
	OutOfMemory SignKind = "oom"         // out of memory, though the original message was replaced
	Survived    SignKind = "survived"    // an out-of-memory, or another failure, after which the program continues
	Interrupted SignKind = "interrupted" // the program stopped because the user asked it to
	Succeeded   SignKind = "succeeded"   // the program has done its work
	Failed      SignKind = "failed"      // the program has failed, even if its exit code is 0
	Setting     SignKind = "setting"     // group "value": the value of the knob named by the sign, as the program sees it
	// Metric has the group "value": a value of the metric that the sign names; and "step", its step, if the line has that.
	// Without that group it is the last iteration of Progress.
	Metric SignKind = "metric"
	Rate   SignKind = "rate" // group "value": the learning rate; launch's own ([OwnSigns])
	// group "value": how many optimizer steps the training has, reported before it begins; launch's own
	Updates SignKind = "updates"
)

// OwnSigns find the learning rate and the number of optimizer steps as programs print them, so that two attempts can be
// compared. Each has a literal of four characters, so that most lines are not searched.
func OwnSigns() (signs []Sign) {
	const value = `\s*[:=]?\s*\[?(?P<value>\d*\.?\d+(?:[eE][-+]?\d+)?)`
	for _, name := range []string{`(?i)\blearning[ _-]?rate\b["']?`, `(?i) lr=`, `(?i) lr `, `(?i)\blr: `,
		`(?i)\blr:\(`, `(?i)'lr'`, `(?i)"lr"`} {
		signs = append(signs, Sign{Kind: Rate, Pattern: name + value})
	}
	const count = `\W{1,4}(?P<value>\d[\d,]*)\b`
	for _, name := range []string{`(?i)optimi[sz]ation steps`, `(?i)\boptimizer (?:steps|updates)`,
		`(?i)\btotal (?:train(?:ing)? )?(?:steps|updates)`} {
		signs = append(signs, Sign{Kind: Updates, Pattern: name + count})
	}
	return signs
}

// A Sign is one pattern over the lines that a program prints, or writes to its log.
type Sign struct {
	Kind SignKind `json:"kind"`
	// Pattern is an RE2 expression, matched anywhere in a line that was stripped of escape sequences. Digits in its
	// groups may be grouped by commas. A pattern without a literal of three characters is tried on every line.
	Pattern string `json:"pattern"`
	Phase   string `json:"phase,omitempty"` // for Phase and PhaseEnd, and for OutOfMemory if the line implies a phase
	Knob    string `json:"knob,omitempty"`  // for Setting
	// Name and Direction are for Metric.
	Name      string           `json:"name,omitempty"`
	Direction metric.Direction `json:"direction,omitempty"`
}

// Signs describe the output, the files and the exit codes of a plugin's program: plain data, no callbacks.
type Signs struct {
	Lines []Sign `json:"lines,omitempty"`
	// Log are globs, relative to the command's folder, of the program's own log files, which may be cleaner than its
	// output. The newest file counts that was written after the attempt began.
	Log []string `json:"log,omitempty"`
	// Recipes are globs, relative to the command's folder, of the copies that the program itself saves of its recipe,
	// perhaps after lines of its own. If a copy contains the attempt's recipe, the settings are confirmed. If the
	// program writes the copy in another form, such as several recipes joined, the copy confirms the values at the
	// paths of the edits.
	Recipes []string `json:"recipes,omitempty"`
	// States are globs, relative to the command's folder, of the files or folders that a resume reads. StateIteration,
	// if not empty, is an RE2 expression over the base name; its group "iteration" orders them.
	States         []string `json:"states,omitempty"`
	StateIteration string   `json:"state_iteration,omitempty"`
	// StateAfter is the number of iterations that must be reported before a state counts: some programs write a state
	// even if they fail before the first step.
	StateAfter int64 `json:"state_after,omitempty"`
	// CountsMicro: the iterations of Progress are forward passes, not optimizer steps.
	CountsMicro bool `json:"counts_micro,omitempty"`
	// MayCountMicro: they may be either. The program groups forward passes into optimizer steps by its accumulation, so
	// with more of it a count of passes grows, and nothing else is trained.
	MayCountMicro bool `json:"may_count_micro,omitempty"`
	// Benchmark: the program sets torch.backends.cudnn.benchmark, so the peaks that it prints hold the workspaces of
	// cuDNN's trials.
	Benchmark bool `json:"benchmark,omitempty"`
	// Every is the number of iterations between two reports of progress; 0 if unknown.
	Every int64 `json:"every,omitempty"`
	// TakesArgv: the program takes the edited options only from its arguments, so it runs with the values there. A
	// plugin sets this only if it has read the program's code.
	TakesArgv bool `json:"takes_argv,omitempty"`
	// Codes gives the meaning of unusual exit codes: "succeeded", "interrupted", or any other text, which is printed as
	// the cause of a failure.
	Codes map[int]string `json:"codes,omitempty"`
	// MustSucceed: a program that exits 0 without a Succeeded sign has failed.
	MustSucceed bool `json:"must_succeed,omitempty"`
	// Checks are the list that launch goes through at the end of a run.
	Checks []Check `json:"checks,omitempty"`
}

// Has reports whether there is a sign of that kind.
func (s Signs) Has(kind SignKind) bool {
	return slices.ContainsFunc(s.Lines, func(l Sign) bool { return l.Kind == kind })
}
