package job

import "slices"

// A SignKind says what a line of a program's output means. Readers ignore kinds that they do not know, so that a newer
// plugin works with an older launch.
type SignKind string

const (
	Started     SignKind = "started"     // the training loop has begun
	Progress    SignKind = "progress"    // group "iteration": optimizer steps done; group "total", if there is one: of how many
	SavedState  SignKind = "saved"       // group "iteration", group "path": something a resume can read was written
	Resumed     SignKind = "resumed"     // group "iteration": training goes on from a saved state
	Phase       SignKind = "phase"       // the phase named by the sign has begun
	PhaseEnd    SignKind = "phase-end"   // the phase named by the sign is over
	Memory      SignKind = "memory"      // group "bytes" with group "unit": peak memory by the program's own account
	OutOfMemory SignKind = "oom"         // out of memory, though the original message was replaced
	Survived    SignKind = "survived"    // the program met an out-of-memory, or another failure, and goes on
	Interrupted SignKind = "interrupted" // the user asked it to stop, and it obeyed
	Succeeded   SignKind = "succeeded"   // it did what it was asked to do
	Failed      SignKind = "failed"      // it did not, whatever its exit code says
	Setting     SignKind = "setting"     // group "value": the value of the knob named by the sign, as the program sees it
)

// A Sign is one pattern over the lines that a program prints, or writes to its log.
type Sign struct {
	Kind SignKind `json:"kind"`
	// Pattern is an RE2 expression, matched anywhere in a line that was stripped of escape sequences. Digits in its
	// groups may be grouped by commas. A pattern without a literal of three characters is tried on every line.
	Pattern string `json:"pattern"`
	Phase   string `json:"phase,omitempty"` // of Phase and PhaseEnd, and of OutOfMemory where the words imply one
	Knob    string `json:"knob,omitempty"`  // of Setting
}

// Signs are what a plugin knows of its program's words and deeds: plain data, no callbacks.
type Signs struct {
	Lines []Sign `json:"lines,omitempty"`
	// Log globs, relative to the command's folder, name the program's own log files, which may be cleaner than what
	// it prints. Only a file written after the attempt began counts, and of those the newest.
	Log []string `json:"log,omitempty"`
	// Recipes globs, relative to the command's folder, name the copies that the program itself makes of the recipe it
	// was given, perhaps behind lines of its own: where one holds the recipe of the attempt, its settings are confirmed.
	// A copy in words of its own, such as the sum of several recipes, confirms what stands in it at an edit's path.
	Recipes []string `json:"recipes,omitempty"`
	// States globs, relative to the command's folder, name the files, or folders, that a resume reads. StateIteration, if not
	// empty, is an RE2 expression over the base name whose group "iteration" orders them.
	States         []string `json:"states,omitempty"`
	StateIteration string   `json:"state_iteration,omitempty"`
	// StateAfter is how many iterations must have been reported before a state counts: some programs write one even when
	// they die before anything was trained.
	StateAfter int64 `json:"state_after,omitempty"`
	// CountsMicro says that the iterations of Progress are forward passes, of which accumulation makes an optimizer step.
	CountsMicro bool `json:"counts_micro,omitempty"`
	// Every says that the program reports progress every so many iterations; 0 where that is not known.
	Every int64 `json:"every,omitempty"`
	// TakesArgv says that the program takes the options that are edited from its arguments and from nowhere else, so that
	// what stands there is what it runs with. A plugin that has not read the program's code does not say so.
	TakesArgv bool `json:"takes_argv,omitempty"`
	// Codes says what exit codes mean where it is not what they seem. "succeeded" and "interrupted" are taken by their
	// word; any other text is the cause that a person is shown.
	Codes map[int]string `json:"codes,omitempty"`
	// MustSucceed says that a run that exits 0 without a Succeeded sign has failed.
	MustSucceed bool `json:"must_succeed,omitempty"`
}

// Has reports whether there is a sign of that kind.
func (s Signs) Has(kind SignKind) bool {
	return slices.ContainsFunc(s.Lines, func(l Sign) bool { return l.Kind == kind })
}
