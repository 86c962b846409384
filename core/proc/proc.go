// Package proc runs a program as if it had been started without launch, in a pseudo-terminal or on copied pipes, to its
// last byte, and shares its terminal with launch's own lines ([Shared]).
//
// Between this process and the program stands a keeper: this same executable, started again. It is the leader of the
// pseudo-terminal's session, as a shell would be, so that job control inside is the kernel's own; it collects what
// the program orphans, and when this process dies, for whatever reason, it kills all of it. A process of this
// executable that is started as a keeper never comes to main: package keep, which this one imports, sees to it.
//
// The user and [Spec.Tap] both receive exactly the bytes that the program prints.
//
// What differs from a start without launch: the program's parent is the keeper; its terminal is another of the same size and settings;
// settings that it changes there and leaves changed (`stty -echo`) do not outlive it; standard output that is a file is
// a pipe to it, so it cannot seek in it, and meets a full disk as a pipe that nobody reads (see [Exit.Output]); of the signals that the
// caller of this process ignores, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM and SIGPIPE are not ignored in the program, because
// the Go runtime takes them before anyone can look.
package proc

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A Mode is when the program gets a pseudo-terminal of its own to control.
type Mode int

const (
	Auto   Mode = iota // where standard input and standard output are terminals
	Always             // in any case: --tty
	Never              // in no case: the input is inherited, outputs are pipes
)

// A Stream is where the program printed something.
type Stream uint8

const (
	Output Stream = 1 // standard output, or a terminal (or file) that is both outputs
	Error  Stream = 2 // standard error, where it is not the same as standard output
)

func (s Stream) String() string {
	if s == Error {
		return "stderr"
	}
	return "stdout"
}

// DefaultGrace is how long a program that we ask to end may take, where Spec.Stop is 0.
const DefaultGrace = 30 * time.Second

// A Spec is a program and how to run it. Only Args is required.
type Spec struct {
	Args []string // Args[0] is looked for as a shell does, in the PATH of Env
	Dir  string   // its folder; "" is this process's own
	Env  []string // all of its environment; nil is this process's own. Nothing is added

	// The user's, nil for this process's own. A terminal is passed on as a terminal: both ways where Mode says so,
	// else for output only. Anything else is inherited (input) or copied through a pipe (outputs). Outputs that are
	// one file share a pipe, so that their order is kept.
	Stdin, Stdout, Stderr *os.File
	TTY                   Mode

	// Tap receives every byte that the program prints, in order, after the user. p is only valid during the call.
	// Calls do not overlap. Run waits for a slow Tap only when it is far behind, and stops calling one that hangs, see
	// Exit.Untapped: what the user sees does not depend on it.
	Tap func(from Stream, p []byte)

	// Grace is how long the program may take to end after a SIGTERM from outside before it and all it started is killed.
	// 0 is as long as it takes: without launch nothing would kill it, and it may be saving.
	Grace time.Duration

	// Stop is how long it may take after our own SIGTERM, when ctx is done. 0 is DefaultGrace; negative is for ever.
	Stop time.Duration

	// Limit is the RLIMIT_DATA (`ulimit -S -d`) of the program and what it starts; 0 is none. It does not bind us.
	Limit unit.Bytes

	// Hold lets the caller decide about processes that the program leaves running, see Exit.Remains.
	Hold bool

	// Bare gives the program the user's own terminal for its output where no pseudo-terminal can be opened; Tap does not
	// see that output. Without Bare the program gets pipes.
	Bare bool

	// Divert, if not nil, is called with each signal that arrives for the program, except those about its terminal. If it
	// returns true, the program does not receive that signal. It must not block.
	Divert func(sig syscall.Signal) bool

	// Warn, if not nil, is called before the program starts with each thing of this that it has to do without.
	Warn func(what string)

	// Screen, if not nil, shares the place with the program to which it prints: the user's terminal, or else where
	// Stderr leads. Undo is written to that terminal should this process be killed.
	Screen Screen
	Undo   string

	// Started, if not nil, is called once, when the program runs.
	Started func(pid int)
}

// A Screen shares the place with a program to which the program prints. Its methods may be called from several
// goroutines.
type Screen interface {
	// Fit says what the place is, at first and whenever its size may have changed. It returns how many of its rows the
	// program's terminal has.
	Fit(Terminal) (rows int)
	// Write passes on what the program prints.
	Write(p []byte) (int, error)
	// Close gives the place back: the program has ended, or is suspended. After that, Fit begins anew.
	Close()
}

// A Terminal is the place to which a program prints.
type Terminal struct {
	To         io.Writer
	Rows, Cols int    // 0: it is no terminal that is given to the program, or it is in the background
	Raw        bool   // a terminal whose lines end with "\r\n"
	Ours       bool   // what this process prints to Stderr goes there, too
	Again      func() // asks for another Fit; nil: it has no size. It does not block
}

// Run runs a program to its end and returns how it ended; the error is about running it, never about how it ended, and is
// a [*StartError] where the program could not be started at all. When ctx is done the program is asked to end, and
// after Spec.Stop it is killed with all that it started.
//
// When Run returns, all output of the program has been written and passed to Tap, and the user's terminal is as it was
// before. Unless the program had to be killed, children that it leaves behind keep running, and their output still arrives
// where it would have without launch. Input that was typed but not read by the program is kept for the next Run or, after
// [Exit.Become], for the shell, where the kernel lets us hand it back.
//
// Signals that arrive while it runs are passed on to the program, unless they were sent to it as well; the caller must
// not end on them. Only one Run at a time may have the user's terminal.
func Run(ctx context.Context, s Spec) (Exit, error) {
	if len(s.Args) == 0 || s.Args[0] == "" {
		return Exit{}, fmt.Errorf("running a program: no command given")
	}
	if s.Stdin == nil {
		s.Stdin = os.Stdin
	}
	if s.Stdout == nil {
		s.Stdout = os.Stdout
	}
	if s.Stderr == nil {
		s.Stderr = os.Stderr
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	if s.Stop == 0 {
		s.Stop = DefaultGrace
	}
	if err := ctx.Err(); err != nil {
		return Exit{}, fmt.Errorf("running %s: %w", s.Args[0], err)
	}
	path, err := look(s)
	if err != nil {
		return Exit{}, err
	}
	return run(ctx, s, path)
}
