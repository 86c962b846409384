package local

import (
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
)

// Options are what an executor needs to start trials.
type Options struct {
	Launch string                 // the program launch; "": this process's own, whatever has its name now
	Dir    string                 // where the trials run
	Flags  []string               // launch's flags, the same for every trial
	Folder func(trial int) string // a trial's folder; it is made when the trial starts
	Runs   record.Store           // in which the trials record their runs
	// Mark is what the record of the run of a trial's start has as its row; nil: the sweep is older than marks.
	Mark func(trial, start int) string
	// OnCard returns the flags of a trial on a card; nil: a trial finds its own.
	OnCard  func(*sweep.Card) []string
	SaveOn  syscall.Signal // asks a trial to save its state and to stop; 0: it is interrupted
	Pricing []string       // flags with which trials are priced, beside Flags
}

// Result is the file of the result of a trial's start.
func (x *Options) Result(trial, start int) string {
	if start == 1 {
		return filepath.Join(x.Folder(trial), "result.json")
	}
	return filepath.Join(x.Folder(trial), fmt.Sprintf("result-%d.json", start))
}

// Output is the file of what a trial prints: all starts, one after the other.
func Output(folder string) string { return filepath.Join(folder, "output.log") }
