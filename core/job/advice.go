package job

// A Weight is what ignoring an advice costs.
type Weight string

// The weights, the heaviest first.
const (
	Fails Weight = "fails" // the training fails, or its result is worth nothing
	Slow  Weight = "slow"  // it takes longer than it has to
	Tidy  Weight = "tidy"  // it works today
)

// An Advice is one thing to change.
type Advice struct {
	Name     string   `json:"name"`
	Weight   Weight   `json:"weight"`
	What     string   `json:"what"`     // what was seen, and what it means
	Evidence []string `json:"evidence"` // lines of the program, or figures
	Change   string   `json:"change"`   // the setting or the command
	// Told: it was printed while the program ran.
	Told bool `json:"told,omitempty"`
}

// NotFinite is the name of the advice that training goes on without a result.
const NotFinite = "not-finite"
