// Package sweep turns one command into many trials, and decides which of them run.
//
// A [Space] lists assignments. A [Searcher] turns the history so far into trials: history in, trials out, nothing else.
// A [History] is replayed from an append-only journal, so a sweep can be continued after its process was killed.
// [Sweep.Drive] is the loop: it asks an [Admission] which trials may run, has an [Executor] start them, and records
// each event before it acts on it. A trial is one launch of the command.
package sweep

import (
	"errors"
	"fmt"
	"strings"
)

// A Setting gives a key a value. The key is an option ("--lr"), an address in the recipe ("train.optim_g.lr"), a
// setting in Python, or "env:NAME". The value is text as the user wrote it.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (s Setting) String() string { return s.Key + "=" + s.Value }

// An Assignment gives each key of a space one value, in the order of the space.
type Assignment []Setting

// Get returns the value of a key.
func (a Assignment) Get(key string) (value string, ok bool) {
	for _, s := range a {
		if s.Key == key {
			return s.Value, true
		}
	}
	return "", false
}

func (a Assignment) String() string {
	texts := make([]string, len(a))
	for i, s := range a {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

// id distinguishes assignments, whatever characters their values have.
func (a Assignment) id() string {
	var b strings.Builder
	for _, s := range a {
		fmt.Fprintf(&b, "%q=%q ", s.Key, s.Value)
	}
	return b.String()
}

// A Trial is one row of a sweep.
type Trial struct {
	Number     int        `json:"trial"` // counted from 1
	Assignment Assignment `json:"assignment,omitempty"`
	// Command is the trial's own command, for rows that were given as whole commands.
	Command []string `json:"command,omitempty"`
	// Rung is the rung of successive halving, from 0, and First the trial of rung 0 that this one continues; 0: none.
	Rung  int `json:"rung,omitempty"`
	First int `json:"first,omitempty"`
}

// mostValues is the largest number of values in one list, and of trials in a space: a typing error such as 1..1e9 must
// not fill the disk.
const mostValues = 100_000

// CheckName returns an error if a text cannot name a sweep: it is the name of a folder, and part of names that programs
// write.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a sweep needs a name")
	case name == "last":
		return errors.New(`"last" means the last sweep: choose another name`)
	case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-"):
		return fmt.Errorf("%q cannot name a sweep: it begins with %q", name, name[:1])
	case len(name) > 100:
		return errors.New("the name of a sweep has at most 100 characters")
	}
	for _, r := range name {
		if !strings.ContainsRune("_.-+=@", r) && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') {
			return fmt.Errorf("%q cannot name a sweep: use letters, digits and _ . - + = @", name)
		}
	}
	return nil
}
