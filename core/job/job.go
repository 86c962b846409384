// Package job is what the user asked for: a command, and what a plugin has read in it.
package job

import "github.com/launch-ml/launch/core/config"

// A Command is a training command as typed after "launch --".
type Command struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir"`           // absolute
	Env  []string `json:"env,omitempty"` // "NAME=value"
}

// A Job is a command that a plugin has recognised.
type Job struct {
	Command Command `json:"command"`
	Plugin  string  `json:"plugin"`
	Dialect string  `json:"dialect"` // which of the family's projects: "traiNNer-redux"
	Name    string  `json:"name"`    // of the experiment, by the recipe
	Arch    string  `json:"arch"`
	// Generation says which of several networks of that name this is, where there are several.
	Generation string `json:"generation,omitempty"`
	Knobs      []Knob `json:"knobs,omitempty"`
	// Options are those that the program declares, so that an edit of its arguments lands where the program reads it.
	Options []config.Option `json:"options,omitempty"`
	Files   []File          `json:"files,omitempty"`
	Batch   Batch           `json:"batch"`
	Signs   Signs           `json:"signs"`
	Resume  Resume          `json:"resume"`
	// Exclusive names what two runs must not share at the same time, such as the experiment's folder: absolute.
	Exclusive string   `json:"exclusive,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
}

// A Knob is a setting of the recipe that costs memory, under the field's name for it rather than the file's:
// "micro-batch", not "batch_size_per_gpu".
type Knob struct {
	Name    string         `json:"name"`
	At      config.Address `json:"at"`
	Value   string         `json:"value"`             // as the program reads it
	Default bool           `json:"default,omitempty"` // the recipe leaves it open
	Dead    string         `json:"dead,omitempty"`    // why the running code does not read it; it is never turned
}

// The knobs that make up the global batch have these names in every plugin.
const (
	MicroBatch   = "micro-batch"
	Accumulation = "accumulation"
)

// A File is a document of the recipe, as it was when the plugin read it. A retry works on the same text, whatever
// happened to the file since.
type File struct {
	Path   string `json:"path"`   // as the command names it
	Format string `json:"format"` // "yaml", "toml"
	Flag   string `json:"flag"`   // the option of the command that names it: "-opt"
	Text   []byte `json:"text"`
}

// Batch is how many samples go where. The guides' "effective batch" is the global batch.
type Batch struct {
	Micro        int64 `json:"micro"`        // samples in one forward pass of one rank
	Accumulation int64 `json:"accumulation"` // forward passes before an optimizer step
	Ranks        int64 `json:"ranks"`
}

// Global is the samples of one optimizer step; 0 where the batch is not known.
func (b Batch) Global() int64 { return b.Micro * b.Accumulation * b.Ranks }

// Resume is how the same command goes on from its newest saved state.
type Resume struct {
	// Edits make the command go on. They are made only on an attempt after one that left a state newer than itself.
	Edits []config.Edit `json:"edits,omitempty"`
	// None says why a retry of this job starts over; empty where it goes on.
	None string `json:"none,omitempty"`
}
