// Package job is what the user asked for: a command, and what a plugin has read in it.
package job

import "github.com/launch-ml/launch/core/config"

// A Command is a training command as typed after "launch --".
type Command struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir"`           // absolute
	Env  []string `json:"env,omitempty"` // "NAME=value"
	// Devices is how many GPUs the command would see, where the user has said it or a plugin has asked (plugin.Need): 0 where
	// neither has, and -1 where launch does not know.
	Devices int `json:"devices,omitempty"`
	// Sources are the Python files that a plugin asked for (plugin.Need), as launch has read them.
	Sources []config.PythonSource `json:"sources,omitempty"`
}

// Source returns the Python file of that absolute path, or nil if it was not read yet.
func (c Command) Source(path string) *config.PythonSource {
	for i := range c.Sources {
		if c.Sources[i].Path == path {
			return &c.Sources[i]
		}
	}
	return nil
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
	// Steps is how many optimizer steps the whole training has, where its signs of progress count them from its beginning, also
	// after a resume; 0 where that is not known.
	Steps  int64  `json:"steps,omitempty"`
	Signs  Signs  `json:"signs"`
	Resume Resume `json:"resume"`
	// Fixed says why settings of the job cannot be changed by launch, where there would be rungs that do; the host sets it.
	Fixed     string    `json:"fixed,omitempty"`
	Rehearsal Rehearsal `json:"rehearsal"`
	// Exclusive names what two runs must not share at the same time, such as the experiment's folder: absolute.
	Exclusive string   `json:"exclusive,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	// Truths are what the project's guides, comments or flags say and the code does not do, each with its evidence. They
	// are said once, and only where the job is concerned.
	Truths []string `json:"truths,omitempty"`
	// Inside asks that the program's own Python processes say what they know of their memory: what the card's allocator
	// refused and from where it was asked, its peaks, the exception that ended a process. A plugin asks for it where the
	// program hides its failures, or does not print its peaks. It comes by the environment (PYTHONPATH), and a program that
	// does not take it runs all the same.
	Inside bool `json:"inside,omitempty"`
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

// The knobs that make up the global batch have these names in every plugin. GlobalBatch is what a program prints of their product,
// in samples or in a multiple of them.
const (
	MicroBatch   = "micro-batch"
	Accumulation = "accumulation"
	GlobalBatch  = "global batch"
)

// A File is a document of the recipe, as it was when the plugin read it. A retry works on the same text, whatever
// happened to the file since.
type File struct {
	Path   string `json:"path"`   // as the command names it; of Python source, absolute
	Format string `json:"format"` // "yaml", "toml", Python
	// Flag is the option of the command that names it: "-opt". Of Python source it is empty: nothing names that, and an
	// edited copy is served in its place while the program runs.
	Flag string `json:"flag,omitempty"`
	Text []byte `json:"text,omitempty"` // empty for Python source
	// Added says that the user has no such file: with edits one is written, and stands behind the option's other values.
	// Its text is "{}" and Path a mere name for it.
	Added bool `json:"added,omitempty"`
	// Source is Python source, with its literals.
	Source *config.PythonSource `json:"source,omitempty"`
	// Patches are the edits that a binary file knows, prepared: its text is not read, and its copy is made as the attempt
	// starts.
	Patches []Patch `json:"patches,omitempty"`
	From    string  `json:"from,omitempty"` // of an edited copy: the path of what it is a copy of, as the command names it
}

// A Patch is one value in a binary file and what another value would be in its place: the same number of bytes.
type Patch struct {
	Path  string  `json:"path"` // "queue_ptr", as it stands in an edit's address
	From  string  `json:"from"` // both as they stand in an edit
	To    string  `json:"to"`
	Bytes []Bytes `json:"bytes"` // to be written for To
}

// Bytes stand at an offset.
type Bytes struct {
	At  int64  `json:"at"`
	New []byte `json:"new"`
}

// Binary is the format of files that are copied and patched.
const Binary = "binary"

// Python is the format of files that are settings in Python.
const Python = "python"

// Batch is how many samples go where. The guides' "effective batch" is the global batch.
type Batch struct {
	Micro        int64 `json:"micro"`        // samples in one forward pass of one rank
	Accumulation int64 `json:"accumulation"` // forward passes before an optimizer step
	Ranks        int64 `json:"ranks"`        // that share a step, with a micro-batch each
	// Replicas says that those are no processes but the cards of one, to which torch.nn.DataParallel deals its batch.
	Replicas bool `json:"replicas,omitempty"`
}

// Global is the samples of one optimizer step; 0 where the batch is not known.
func (b Batch) Global() int64 { return b.Micro * b.Accumulation * b.Ranks }

// A Rehearsal is how the same command is shortened to pass through every phase once, in a folder of launch's own, and
// leaves nothing behind. It serves --rehearse, and the trials that measure how fast a rung is.
type Rehearsal struct {
	// Edits shorten it and lead all that it writes into the folder [Scratch].
	Edits []config.Edit `json:"edits,omitempty"`
	// Steps is after how many iterations (of its Progress signs) launch ends a program that would not end by itself;
	// 0 where it ends by itself.
	Steps int64 `json:"steps,omitempty"`
	// Leaves are paths, with [ScratchName] in them, that it leaves in the project because its experiments cannot lie
	// elsewhere: launch removes them.
	Leaves []string `json:"leaves,omitempty"`
	// Puts are what launch lays into the folder [Scratch] before it, such as a data set that is cut short.
	Puts []Put `json:"puts,omitempty"`
	// Away starts it in the folder [Scratch], for a program that writes where it is started. Paths are the places of those
	// arguments of the command that launch then makes absolute, so that what it reads is what it was.
	Away  bool  `json:"away,omitempty"`
	Paths []int `json:"paths,omitempty"`
	// Partial says which phase it does not reach: it then serves trials of speed only.
	Partial string `json:"partial,omitempty"`
	// None says why it cannot be shortened; empty where it can.
	None string `json:"none,omitempty"`
}

// A Put is a file of that text, or a link to something by its absolute path, at a path below the folder [Scratch].
type Put struct {
	Path string `json:"path"`
	Link string `json:"link,omitempty"`
	Text []byte `json:"text,omitempty"`
}

// In the values of a rehearsal's edits Scratch stands for the path of a folder of launch's own, and ScratchName for a
// name that nothing has.
const (
	Scratch     = "{scratch}"
	ScratchName = "{scratch name}"
)

// Resume is how the same command goes on from its newest saved state.
type Resume struct {
	// Edits make the command go on. They are made only on an attempt after one that left a state newer than itself.
	// In their values [SavedPath] stands for the path of that state.
	Edits []config.Edit `json:"edits,omitempty"`
	// Aside globs, relative to the command's folder, name saved states that a retry which starts over would overwrite:
	// launch puts them aside before it.
	Aside []string `json:"aside,omitempty"`
	// InTheWay globs, relative to the command's folder, name files that a failed attempt leaves and at which the next one stops
	// because they are there, such as the settings that Lightning saves once. Those that an attempt of this run has made are
	// put aside before the next; no other.
	InTheWay []string `json:"in_the_way,omitempty"`
	// Always are edits of every attempt after the first, whether or not it goes on from a state. In their values [FreePort]
	// stands for a TCP port of this machine that nobody listens on.
	Always []config.Edit `json:"always,omitempty"`
	// OnCard says that the program keeps what it has read of the state on the card for as long as it trains.
	OnCard bool `json:"on_card,omitempty"`
	// None says why a retry of this job starts over; empty where it goes on.
	None string `json:"none,omitempty"`
}

// FreePort stands in the values of Resume's edits for a port of this machine: what an attempt before has left behind may
// still listen on the old one.
const FreePort = "{free port}"

// SavedPath stands in the values of Resume's edits for the path of the saved state that the attempt goes on from.
const SavedPath = "{saved state}"
