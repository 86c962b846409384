package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// A keeper is our end of a keeper process. Each serves one program. It can be had before there is anything to keep.
type keeper struct {
	sock int
	pid  int
	from chan keep.Message // what it says; closed when it is gone

	mu     sync.Mutex // of sends, and of closed
	closed bool
}

var ready struct {
	sync.Mutex
	ch chan prepared
}

type prepared struct {
	k   *keeper
	err error
}

// Prepare starts a keeper for the next Run, in the background, so that the time it takes is not added. It may be called
// at any time; if there is no next Run, it costs nothing but that.
func Prepare() {
	keep.Armour()
	for _, s := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM} {
		if keep.Ignores(ignoredAtStart(), s) { // until there is a program, for which they may be
			signal.Ignore(s)
		}
	}
	ready.Lock()
	defer ready.Unlock()
	if ready.ch != nil {
		return
	}
	ch := make(chan prepared, 1)
	ready.ch = ch
	go func() {
		k, err := newKeeper()
		ch <- prepared{k, err}
	}()
}

func takeKeeper() (*keeper, error) {
	ready.Lock()
	ch := ready.ch
	ready.ch = nil
	ready.Unlock()
	if ch != nil {
		if p := <-ch; p.err == nil && p.k.idle() {
			return p.k, nil
		} else if p.err == nil {
			p.k.leave(nil) // somebody killed it meanwhile
		}
	}
	return newKeeper()
}

// idle reports whether k still lives, before it was asked for anything.
func (k *keeper) idle() bool {
	select {
	case <-k.from:
		return false
	default:
		return true
	}
}

func newKeeper() (*keeper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &MeansError{"starting its keeper", err}
	}
	defer unix.Close(pair[1])
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, &MeansError{"starting its keeper", fmt.Errorf("opening /dev/null: %w", err)}
	}
	defer unix.Close(null)
	// The socket keeps its number, which was free here, so that no descriptor is covered that the user's shell has
	// opened for the program (`3<file`, or /dev/fd/63 of a process substitution): those pass through the keeper.
	files := make([]uintptr, pair[1]+1)
	for fd := range files {
		files[fd] = ^uintptr(0)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			files[fd] = uintptr(fd)
		}
	}
	files[0], files[1], files[2], files[pair[1]] = uintptr(null), uintptr(null), uintptr(null), uintptr(pair[1])
	pid, err := syscall.ForkExec("/proc/self/exe", keep.Args(os.Args[0], pair[1], ignoredAtStart()),
		&syscall.ProcAttr{Env: os.Environ(), Files: files})
	if err != nil {
		unix.Close(pair[0])
		return nil, &MeansError{"starting its keeper", fmt.Errorf("executing /proc/self/exe: %w", err)}
	}
	k := &keeper{sock: pair[0], pid: pid, from: make(chan keep.Message, 64)}
	go keep.Receive(k.sock, k.from)
	return k, nil
}

func (k *keeper) send(kind keep.Kind, b keep.Body, files ...int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return os.ErrClosed
	}
	return keep.Send(k.sock, keep.Message{Kind: kind, Body: b, Files: files})
}

// start has the keeper start the program and returns its pid.
func (k *keeper) start(o keep.StartOrder, files []int) (int, error) {
	_ = k.send(keep.MsgStart, o.Encode(), files...)
	begun := false
	for m := range k.from {
		switch m.Kind {
		case keep.MsgBegun:
			begun = true
		case keep.MsgFailed:
			switch errno := syscall.Errno(m.Body.Int()); errno {
			case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE: // there is one process and one file too many: ours
				return 0, &MeansError{"starting " + o.Args[0], errno}
			default:
				return 0, &StartError{o.Args[0], errno}
			}
		default:
			return int(m.Body.Int()), nil
		}
	}
	if !begun { // its own runtime could not start
		return 0, &MeansError{"starting its keeper", errors.New("it died at once")}
	}
	return 0, ErrKeeper
}

// ErrKeeper is the error of [Run] where the keeper was killed: then how the program would have ended is not known, as it was killed
// too, with all that it started.
var ErrKeeper = errors.New("launch's keeper was killed, and the program with it")

// signal passes on that sig came. With matched, the keeper passes it to the program only if it did not get it itself: a
// signal that both got was sent to a whole process group or tree, and the program has got it too.
func (k *keeper) signal(sig syscall.Signal, group, matched bool) {
	var b keep.Body
	b.PutInt(int64(sig))
	b.PutBool(group)
	b.PutBool(matched)
	_ = k.send(keep.MsgSignal, b) // if the keeper is gone, k.from says so
}

func (k *keeper) foreground(yes bool) {
	var b keep.Body
	b.PutBool(yes)
	_ = k.send(keep.MsgForeground, b)
}

func (k *keeper) raw(user int, before, now *unix.Termios, undo string) {
	var b keep.Body
	b.PutTermios(keepers(before))
	b.PutTermios(keepers(now))
	b.PutText(undo)
	_ = k.send(keep.MsgRaw, b, user)
}

// keepers is the keeper's form of a terminal's settings: syscall has room for more control characters than unix has, of
// which the kernel knows 19.
func keepers(t *unix.Termios) *syscall.Termios {
	out := &syscall.Termios{Iflag: t.Iflag, Oflag: t.Oflag, Cflag: t.Cflag, Lflag: t.Lflag, Line: t.Line,
		Ispeed: t.Ispeed, Ospeed: t.Ospeed}
	copy(out.Cc[:], t.Cc[:])
	return out
}

func (k *keeper) kill() { _ = k.send(keep.MsgKill, nil) }

// leave lets the keeper go, once, and hands it pairs of files to copy for those that the program left behind.
func (k *keeper) leave(pairs []int) {
	if k.send(keep.MsgLeave, nil, pairs...) == os.ErrClosed {
		return
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	done := make(chan struct{})
	go func() {
		for range k.from { // until its end of the socket is closed, so that nobody reads a number that is another file's
		}
		unix.Close(k.sock)
		for {
			if _, err := unix.Wait4(k.pid, nil, 0, nil); err != unix.EINTR {
				break
			}
		}
		close(done)
	}()
	if len(pairs) == 0 {
		select { // usually at once; its end is not worth a wait
		case <-done:
		case <-time.After(100 * time.Millisecond):
		}
	}
}
