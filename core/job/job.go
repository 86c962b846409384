// Package job describes what the user asked for: a command, and the job that a plugin has recognised in it,
// with the checks of what its training should have reached.
package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
)

// A Command is a training command as typed after "launch --".
type Command struct {
	Args []string `json:"args"`
	Dir  string   `json:"dir"`           // absolute
	Env  []string `json:"env,omitempty"` // "NAME=value"
	// Devices is how many GPUs the command would see. It is 0 if neither the user has set it nor a plugin has asked for
	// it (plugin.Need), and -1 if launch does not know.
	Devices int `json:"devices,omitempty"`
	// Sources are the Python files that a plugin asked for (plugin.Need), as launch has read them.
	Sources []config.PythonSource `json:"sources,omitempty"`
	// Formulas are the answers to the formulas that a plugin asked for (plugin.Need).
	Formulas []Counted `json:"formulas,omitempty"`
	// Program is what launch has understood of Args, for a plugin that is another program; nil where it was not
	// understood.
	Program *Program `json:"program,omitempty"`
	// Texts are the shell scripts that the command names, as launch has first read them.
	Texts []command.Text `json:"texts,omitempty"`
}

// Prog reads what the command runs. A shell script that it names is taken as it was first read.
func (c Command) Prog() (command.Prog, error) {
	return command.Program(c.Args, c.Env, c.Dir, c.Texts...)
}

// Counted returns the answer to a formula, or nil if it was not asked for yet.
func (c Command) Counted(f Formula) *Counted {
	for i := range c.Formulas {
		if c.Formulas[i].Formula.Same(f) {
			return &c.Formulas[i]
		}
	}
	return nil
}

// Source returns the Python file at an absolute path, or nil if it was not read yet.
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
	Dialect string  `json:"dialect"` // the project of the family: "traiNNer-redux"
	Name    string  `json:"name"`    // the experiment's name, from the recipe
	Arch    string  `json:"arch"`
	// Generation distinguishes networks that have the same name.
	Generation string `json:"generation,omitempty"`
	Knobs      []Knob `json:"knobs,omitempty"`
	// Options are those that the program declares. With them an edit of an argument goes where the program reads it.
	Options []config.Option `json:"options,omitempty"`
	Files   []File          `json:"files,omitempty"`
	Batch   Batch           `json:"batch"`
	// Asked are settings that the user has set for this job beside its recipe, with --set. They are part of the job as
	// asked: Rewrite makes them first. Those of arguments are in Command already. The plugin host sets them.
	Asked []config.Edit `json:"asked,omitempty"`
	// Merged are the settings of the whole recipe, as YAML or JSON, where the program merges several files and takes
	// arguments KEY=VALUE that outrank all of them. A setting that the user asks for becomes such an argument. It is nil
	// for other programs; launch does not keep it in records.
	Merged []byte `json:"merged,omitempty"`
	// Steps is the number of optimizer steps of the whole training, if its progress signs count them from the
	// beginning, even after a resume; 0 if unknown.
	Steps  int64  `json:"steps,omitempty"`
	Signs  Signs  `json:"signs"`
	Resume Resume `json:"resume"`
	// Fixed is why launch cannot change settings for which there are rungs. The plugin host sets it.
	Fixed     string    `json:"fixed,omitempty"`
	Rehearsal Rehearsal `json:"rehearsal"`
	// Save is the program's own way to save its state when it is asked to; the zero value: it has none.
	Save Save `json:"save"`
	// Exclusive is the absolute path of a folder that two runs must not use at the same time, such as the experiment's.
	Exclusive string   `json:"exclusive,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	// Faults are those of Warnings at which the program will stop. launch check reports them as problems.
	Faults []string `json:"faults,omitempty"`
	// Data are the files and folders that the program reads its data from. launch check looks whether they are there.
	Data []Data `json:"data,omitempty"`
	// States is how many saved states the whole training leaves on the disk; 0 if unknown.
	States int64 `json:"states,omitempty"`
	// Truths are statements of the project's guides, comments or flags that its code contradicts, each with its
	// evidence. launch prints each once, and only those that matter to the job.
	Truths []string `json:"truths,omitempty"`
	// Preferred: this plugin is to be used even if another one knows the command, because the user has said so.
	Preferred bool `json:"preferred,omitempty"`
	// Ignore are the paths of settings, as in the addresses of knobs ("--lr", "lr", "train.lr"), that do not change the
	// memory: what runs that differ only there have measured holds for this job, too.
	Ignore []string `json:"ignore,omitempty"`
	// Inside asks for a hook in the program's Python processes. It reports requests that the card's allocator refused
	// and the code that made them, the peaks, and the exception that ended a process. A plugin asks for it if the
	// program hides its failures or does not print its peaks. The hook comes through PYTHONPATH; a program that ignores
	// it runs unchanged.
	Inside bool `json:"inside,omitempty"`
	// LastWords names how a process of the program saves its state when an out-of-memory ends it: the library whose
	// function for that is called, one of [Savers]. A launch that does not know the name has the
	// program end as it is. Empty: no such way is known.
	LastWords string `json:"last_words,omitempty"`
}

// Savers are the values that [Job.LastWords] may have.
var Savers = []string{"accelerate", "basicsr", WholeEpochs, "lightning", "nanogpt", "timm", "trainner", "transformers"}

// WholeEpochs is the value of [Job.LastWords] of a program that has no last words: its states are of whole epochs,
// and a resume begins with the next one, so a state of the middle of one would leave out the rest.
const WholeEpochs = "epochs"

// Data is a file or a folder of data.
type Data struct {
	At   config.Address `json:"at"`   // the setting that names it
	Path string         `json:"path"` // relative to the command's folder, or absolute
	What string         `json:"what"` // "training images"
}

// A Knob is a setting of the recipe that costs memory, under the field's name for it rather than the file's:
// "micro-batch", not "batch_size_per_gpu".
type Knob struct {
	Name    string         `json:"name"`
	At      config.Address `json:"at"`
	Value   string         `json:"value"`             // as the program reads it
	Default bool           `json:"default,omitempty"` // the recipe does not set it
	Dead    string         `json:"dead,omitempty"`    // why the running code does not read it; launch never turns it
}

// The knobs that make up the global batch have these names in every plugin. GlobalBatch is their product as a program
// prints it, in samples or in a multiple of them.
const (
	MicroBatch   = "micro-batch"
	Accumulation = "accumulation"
	GlobalBatch  = "global batch"
)

// A File is a document of the recipe, as it was when the plugin read it. A retry uses the same text, even if the file
// has changed.
type File struct {
	Path   string `json:"path"`   // as the command names it; absolute for Python source
	Format string `json:"format"` // "yaml", "toml", Python
	// Flag is the option of the command that names the file, or the key of a KEY=VALUE argument: "-opt", "config". It
	// is empty for a file that a positional argument names, and for Python source that is [File.Served].
	Flag string `json:"flag,omitempty"`
	// Argument: a positional argument of the command names the file, as in Path.
	Argument bool   `json:"argument,omitempty"`
	Text     []byte `json:"text,omitempty"` // empty for Python source
	// Outdated: the file is no longer as the plugin read it, and the command gets a copy of it as it was.
	Outdated bool `json:"-"`
	// Added: the user has no such file. If there are edits, launch writes one and adds it after the option's other
	// values. Its text is "{}", and Path is only a name for it.
	Added bool `json:"added,omitempty"`
	// Source is Python source, with its literals.
	Source *config.PythonSource `json:"source,omitempty"`
	// Patches are prepared edits of a binary file. Its text is not read; the copy is made when the attempt starts.
	Patches []Patch `json:"patches,omitempty"`
	From    string  `json:"from,omitempty"` // for an edited copy: the path of the original, as the command names it
}

// Served reports whether the file is Python source that no argument names: launch serves an edited copy in its place
// while the program runs. The copy of any other file replaces the argument that names the file.
func (f File) Served() bool { return f.Format == Python && f.Flag == "" && !f.Argument }

// A Patch replaces one value in a binary file by another one of the same number of bytes.
type Patch struct {
	Path  string  `json:"path"` // the path of an edit's address: "queue_ptr"
	From  string  `json:"from"` // From and To as in the edit
	To    string  `json:"to"`
	Bytes []Bytes `json:"bytes"` // written for To
}

// Bytes are written at an offset.
type Bytes struct {
	At  int64  `json:"at"`
	New []byte `json:"new"`
}

// Binary is the format of files that are copied and patched.
const Binary = "binary"

// Python is the format of files that are settings in Python.
const Python = "python"

// Batch is the division of the global batch, which guides call "effective batch".
type Batch struct {
	Micro        int64 `json:"micro"`        // samples in one forward pass of one rank
	Accumulation int64 `json:"accumulation"` // forward passes for each optimizer step; 0 if unknown
	Ranks        int64 `json:"ranks"`        // processes that share a step, each with a micro-batch
	// Replicas: the ranks are not processes, but the cards of one process that uses torch.nn.DataParallel.
	Replicas bool `json:"replicas,omitempty"`
}

// Global is the number of samples in one optimizer step; 0 if unknown.
func (b Batch) Global() int64 { return b.Micro * b.Accumulation * b.Ranks }

// A Rehearsal describes how to shorten the command so that it goes through every phase once, writes into a folder of
// launch's, and leaves nothing behind. --rehearse uses it, and so do the trials that measure the speed of a rung.
type Rehearsal struct {
	// Edits shorten the training, and direct everything that it writes into the folder [Scratch].
	Edits []config.Edit `json:"edits,omitempty"`
	// Largest, in a rehearsal but in no trial of speed, puts the largest batch first, where the shapes of batches vary:
	// the longest sequences, the largest images. If the rehearsal with them fails for another reason than memory, launch
	// rehearses without them. They are never part of the run itself.
	Largest []config.Edit `json:"largest,omitempty"`
	// Unordered is why no setting puts the largest batch first, though shapes vary or may vary; launch prints it. Empty:
	// Largest does it, or there is nothing to order.
	Unordered string `json:"unordered,omitempty"`
	// Steps is the number of iterations (of its Progress signs) after which launch ends the program; 0 if it ends by
	// itself.
	Steps int64 `json:"steps,omitempty"`
	// Leaves are paths that contain [ScratchName], and that the program writes in the project because it can write
	// nowhere else. launch removes them.
	Leaves []string `json:"leaves,omitempty"`
	// Puts are files that launch writes into the folder [Scratch] first, such as a shortened data set.
	Puts []Put `json:"puts,omitempty"`
	// Away starts the program in the folder [Scratch], for a program that writes to its current folder. Paths are the
	// indices of arguments that launch then makes absolute, so that the program still reads the same files.
	Away  bool  `json:"away,omitempty"`
	Paths []int `json:"paths,omitempty"`
	// Partial is the reason why it does not reach some phase. Then only trials of speed can use it.
	Partial string `json:"partial,omitempty"`
	// None is why the program cannot be shortened; empty if it can.
	None string `json:"none,omitempty"`
}

// A Put is a file with that text, or a link with an absolute target, at a path below the folder [Scratch].
type Put struct {
	Path string `json:"path"`
	Link string `json:"link,omitempty"`
	Text []byte `json:"text,omitempty"`
}

// Placeholders in the values of a rehearsal's edits: Scratch for the path of a folder of launch's, ScratchName for a
// name that is not in use.
const (
	Scratch     = "{scratch}"
	ScratchName = "{scratch name}"
)

// Resume describes how the command resumes from its newest saved state.
type Resume struct {
	// Edits make the command resume. They are made only if an earlier attempt has left a state. In their values,
	// [SavedPath] is the placeholder for the path of that state.
	Edits []config.Edit `json:"edits,omitempty"`
	// Aside are globs, relative to the command's folder, of saved states that a retry from the start would overwrite.
	// launch moves them aside first.
	Aside []string `json:"aside,omitempty"`
	// InTheWay are globs, relative to the command's folder, of files that a failed attempt leaves and that make the
	// next one stop, such as the settings that Lightning saves once. launch moves them aside before the next attempt,
	// but only those of this run.
	InTheWay []string `json:"in_the_way,omitempty"`
	// Always are edits of every attempt after the first, even if it does not resume. In their values, [FreePort] is the
	// placeholder for a free TCP port of this machine.
	Always []config.Edit `json:"always,omitempty"`
	// Automatic: the program finds its newest state by itself, so that no edit is needed.
	Automatic bool `json:"automatic,omitempty"`
	// OnCard: the program keeps the loaded state on the card while it trains.
	OnCard bool `json:"on_card,omitempty"`
	// None is why a retry of this job starts over; empty if it can resume.
	None string `json:"none,omitempty"`
}

// A Save is a program's own way to save its state when it is asked to, at a moment that it does not choose.
type Save struct {
	// Signal asks for it: "SIGINT" or "SIGUSR1". launch sends it to the program's main process alone, and only after a
	// step was reported: before that, the program may have no handler, and the signal would end it.
	Signal string `json:"signal,omitempty"`
	// Stops: the program ends after it has saved. Otherwise the training goes on.
	Stops bool `json:"stops,omitempty"`
}

// saveSignals are the signals that a program can be asked by.
var saveSignals = map[string]syscall.Signal{
	"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP, "SIGUSR1": syscall.SIGUSR1,
	"SIGUSR2": syscall.SIGUSR2,
}

// Number returns the signal; 0 if the program has none.
func (s Save) Number() syscall.Signal { return saveSignals[s.Signal] }

func (s Save) check() error {
	if s.Signal != "" && s.Number() == 0 {
		names := slices.Sorted(maps.Keys(saveSignals))
		return fmt.Errorf("it saves its state on %.100q, which is not one of %s", s.Signal, strings.Join(names, ", "))
	}
	return nil
}

// FreePort is the placeholder, in the values of Resume's edits, for a free port: a process of an earlier attempt may
// still use the old port.
const FreePort = "{free port}"

// SavedPath is the placeholder, in the values of Resume's edits, for the path of the saved state from which the attempt
// resumes.
const SavedPath = "{saved state}"
