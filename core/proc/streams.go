package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// streams are the program's input and outputs, and how they reach the user's.
type streams struct {
	spec Spec
	tap  *tap

	ctl   *ptyPair // the terminal that the program controls, or nil
	side  *ptyPair // a terminal for output only, or nil
	noPty bool     // opening a pseudo-terminal failed
	user  *userTerminal

	files  [3]int // the program's ends
	opened []int  // those of them that we close once the program has started
	copies []*copier
}

// connect decides what the program gets as each of its three files, and opens it.
func connect(s Spec, t *tap) (st *streams, err error) {
	in, out, errs := int(s.Stdin.Fd()), int(s.Stdout.Fd()), int(s.Stderr.Fd())
	st = &streams{spec: s, tap: t, files: [3]int{in, -1, -1}}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	same := sameFile(out, errs)
	if s.TTY == Always || s.TTY == Auto && isTerminal(in) && isTerminal(out) {
		st.ctl = st.openPty()
	}
	if st.ctl != nil {
		return st, st.control(in, out, errs, same)
	}
	if st.files[1], err = st.output(out, Output); err != nil {
		return st, err
	}
	if st.files[2] = st.files[1]; !same {
		st.files[2], err = st.output(errs, Error)
	}
	return st, err
}

// openPty opens a pseudo-terminal. Where there is none it reports that once, and returns nil.
func (st *streams) openPty() *ptyPair {
	if st.noPty {
		return nil
	}
	p, err := openPty()
	if err != nil {
		st.noPty = true
		st.spec.without(err)
		return nil
	}
	return p
}

// control connects the program to the terminal that it controls, whose settings and size are the user's. Standard error is
// a pipe where the user's goes elsewhere.
func (st *streams) control(in, out, errs int, same bool) (err error) {
	inTerm := isTerminal(in)
	switch {
	case inTerm:
		st.user = &userTerminal{fd: in}
		st.ctl.adopt(in)
	case isTerminal(out):
		st.ctl.adopt(out)
	default:
		st.ctl.resize(st.screen())
	}
	if !inTerm {
		if t, err := st.ctl.settings(); err == nil {
			t.Lflag &^= unix.ECHO // the input is no keyboard: without launch nothing would be echoed
			st.ctl.apply(t)
		}
	}
	st.files[0], st.files[1] = st.ctl.slave, st.ctl.slave
	if err = st.copyTo(st.ctl.master, out, Output, true); err != nil {
		return err
	}
	if isTerminal(errs) || same {
		st.files[2] = st.ctl.slave
		return nil
	}
	st.files[2], err = st.pipe(errs, Error)
	return err
}

// output connects an output of a program that controls no terminal: a terminal where the user's is one, else a pipe.
func (st *streams) output(to int, from Stream) (fd int, err error) {
	fd = -1
	term := isTerminal(to) && st.spec.TTY != Never
	if term {
		fd, err = st.terminal()
	}
	switch {
	case fd >= 0 || err != nil:
		return fd, err
	case term && st.spec.Bare:
		return to, nil
	}
	return st.pipe(to, from)
}

// terminal returns the terminal of outputs that are terminals: they are so for the program too, though it does not control
// them. The user's terminal remains the one of its session, and does all the processing. It is -1 where there is none.
func (st *streams) terminal() (int, error) {
	if st.side != nil {
		return st.side.slave, nil
	}
	if st.side = st.openPty(); st.side == nil {
		return -1, nil
	}
	to, tag := int(st.spec.Stdout.Fd()), Output
	if !isTerminal(to) {
		to, tag = int(st.spec.Stderr.Fd()), Error
	}
	st.side.adopt(to)
	if t, err := st.side.settings(); err == nil {
		t.Oflag &^= unix.OPOST
		st.side.apply(t)
	}
	st.opened = append(st.opened, st.side.slave)
	return st.side.slave, st.copyTo(st.side.master, to, tag, true)
}

func (st *streams) pipe(dst int, from Stream) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("opening a pipe: %w", err)
	}
	_ = unix.SetNonblock(p[0], true) // this end only: the program's end blocks, as without launch
	st.opened = append(st.opened, p[1])
	return p[1], st.copyTo(p[0], dst, from, false)
}

// copyTo adds a copier, which starts when the program does.
func (st *streams) copyTo(src, dst int, from Stream, term bool) (err error) {
	c := &copier{src: src, dst: dst, from: from, term: term, tap: st.tap, done: make(chan struct{})}
	st.copies = append(st.copies, c)
	c.wake, err = newWaker()
	return err
}

// without reports that no pseudo-terminal can be opened, and what the program gets instead.
func (s Spec) without(err error) {
	if s.Warn == nil {
		return
	}
	if s.Bare && (isTerminal(int(s.Stdout.Fd())) || isTerminal(int(s.Stderr.Fd()))) {
		s.Warn(fmt.Sprintf("%v: the program has this terminal itself, and launch does not see what it prints", err))
	} else {
		s.Warn(fmt.Sprintf("%v: the program prints to a pipe instead", err))
	}
}

// sameFile reports whether what is written to a and to b goes to one place: a terminal, a pipe, or a file (2>&1).
func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino && x.Rdev == y.Rdev
}

// screen returns the user's terminal whose size the program gets, or -1.
func (st *streams) screen() int {
	for _, f := range []*os.File{st.spec.Stdin, st.spec.Stdout, st.spec.Stderr} {
		if isTerminal(int(f.Fd())) {
			return int(f.Fd())
		}
	}
	return -1
}

// started closes our copies of the program's ends, so that a file closes when the program closes it.
func (st *streams) started() {
	for _, fd := range st.opened {
		unix.Close(fd)
	}
	st.opened = nil
	if st.side != nil {
		st.side.slave = -1 // was among them
	}
}

// close closes everything except what a copier that we stopped waiting for still uses.
func (st *streams) close() {
	st.started()
	if st.ctl != nil {
		st.ctl.closeSlave()
	}
	for _, c := range st.copies {
		if c.running {
			select {
			case <-c.done:
			default:
				continue
			}
		}
		c.wake.close()
		if c.src >= 0 {
			unix.Close(c.src) // the master of a pseudo-terminal, too
		}
	}
}
