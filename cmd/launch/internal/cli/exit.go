// Package cli has what every command of launch shares: exit codes, printers, signals, and this build.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/proc"
)

// ExitCode is an error whose message was printed already. launch only exits with the code.
type ExitCode int

func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// An OwnExit is an error of launch's own with an exit code other than 125.
type OwnExit struct {
	Err  error
	Code int
}

// NewExit gives an error of launch's own an exit code.
func NewExit(err error, code int) *OwnExit { return &OwnExit{err, code} }

func (e *OwnExit) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *OwnExit) Unwrap() error { return e.Err }

// Started gives the error of a program that could not be started its exit code, 126 or 127.
func Started(err error) error {
	var start *proc.StartError
	if errors.As(err, &start) {
		return &OwnExit{start, start.ExitCode()}
	}
	return err
}

// An ExitMeaning is what an exit code of launch means.
type ExitMeaning struct {
	Code    string `json:"code"` // a number, or 128+N for signal N
	Meaning string `json:"meaning"`
}

// Exit is the meaning of an exit code.
func Exit(code, meaning string) ExitMeaning { return ExitMeaning{code, meaning} }

// RunExits are launch's own codes where it runs a command; every other code is the program's.
var RunExits = []ExitMeaning{
	{"1", "the program exited 0, but its output reports a failure, never reports success, or was lost"},
	{"75", "not enough free memory now, preempted, in use by another launch, or another node was lost (--wait waits " +
		"for memory instead)"},
	{"78", "it cannot fit at the allowed cost; nothing was started"},
	{"125", "launch itself failed, or the program did not take the settings that launch changed"},
	{"126", "the command cannot be run"},
	{"127", "the command was not found"},
	{"128+N", "signal N stopped launch while no program was running"},
}

// UsualExits are those of a command that declares none.
var UsualExits = []ExitMeaning{{"0", "it did what was asked"}, {"125", "launch itself failed"}}

// helpWidth is the width of the help's text.
const helpWidth = 104

// ExitTable is the list of codes in the help of launch.
func ExitTable(all []ExitMeaning) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "  %-6s %s\n", e.Code, Filled(e.Meaning, helpWidth-10, "\n         "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Filled breaks a text between words into lines of at most width bytes.
func Filled(text string, width int, newline string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		switch {
		case n > 0 && n+1+len(word) > width:
			b.WriteString(newline)
			n = 0
		case n > 0:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

// exitKey begins the keys under which the annotations of a command have its exit codes.
const exitKey = "exit "

// Exits declares the exit codes of a command, and appends them to its help.
func Exits(c *cobra.Command, all ...ExitMeaning) *cobra.Command {
	var parts []string
	for _, e := range all {
		parts = append(parts, e.Code+" if "+e.Meaning)
	}
	text := Filled("Exit code: "+strings.Join(parts, "; ")+".", helpWidth, "\n")
	c.Long = strings.TrimPrefix(c.Long+"\n\n"+text, "\n\n")
	return SameExits(c, all)
}

// SameExits declares the exit codes of a command whose help has them already, or refers to those of another.
func SameExits(c *cobra.Command, all []ExitMeaning) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	for _, e := range all {
		c.Annotations[exitKey+e.Code] = e.Meaning
	}
	return c
}

// ExitsOf returns the exit codes of a command in their order.
func ExitsOf(c *cobra.Command) (all []ExitMeaning) {
	if !c.HasParent() {
		return RunExits
	}
	for key, meaning := range c.Annotations {
		if code, is := strings.CutPrefix(key, exitKey); is {
			all = append(all, ExitMeaning{code, meaning})
		}
	}
	slices.SortFunc(all, func(a, b ExitMeaning) int {
		return cmp.Or(len(a.Code)-len(b.Code), strings.Compare(a.Code, b.Code))
	})
	if all == nil {
		return UsualExits
	}
	return all
}

// Takes checks the number of arguments. Its error names what the command takes, which cobra's own does not.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}
