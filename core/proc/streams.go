package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// streams are the program's input and outputs, and how they reach the user's.
type streams struct {
	ctl  *ptyPair // the terminal that the program controls, or nil
	side *ptyPair // a terminal for output only, or nil
	user *userTerminal

	files  [3]int // the program's ends
	opened []int  // those of them that are ours to close once it has started
	copies []*copier
}

// connect decides what each of the program's files is, and opens it.
func connect(s Spec, t *tap) (st *streams, err error) {
	in, out, errs := int(s.Stdin.Fd()), int(s.Stdout.Fd()), int(s.Stderr.Fd())
	st = &streams{files: [3]int{in, -1, -1}}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	inTerm, outTerm, errTerm := isTerminal(in), isTerminal(out), isTerminal(errs)
	same := sameFile(out, errs)
	copyTo := func(src, dst int, from Stream, term bool) error {
		c := &copier{src: src, dst: dst, from: from, term: term, tap: t, done: make(chan struct{})}
		st.copies = append(st.copies, c)
		var err error
		c.wake, err = newWaker()
		return err
	}
	tried := false // to open a pseudo-terminal, in vain
	if s.TTY == Always || s.TTY == Auto && inTerm && outTerm {
		if st.ctl, err = openPty(); err != nil {
			tried = true
			s.without(err)
		}
	}
	if st.ctl != nil {
		switch { // its settings and size are the user's
		case inTerm:
			st.user = &userTerminal{fd: in}
			st.ctl.adopt(in)
		case outTerm:
			st.ctl.adopt(out)
		default:
			st.ctl.resize(st.screen(s))
		}
		if !inTerm {
			if t, err := st.ctl.settings(); err == nil {
				t.Lflag &^= unix.ECHO // nobody types: bare, nothing would be echoed
				st.ctl.apply(t)
			}
		}
		st.files[0], st.files[1] = st.ctl.slave, st.ctl.slave
		if err = copyTo(st.ctl.master, out, Output, true); err != nil {
			return st, err
		}
		if errTerm || same {
			st.files[2] = st.ctl.slave
			return st, nil
		}
		st.files[2], err = st.pipe(errs, Error, copyTo)
		return st, err
	}
	// Outputs that are terminals are so for the program too, though it does not control them: the user's terminal remains
	// the one of its session, and does all the processing.
	terminal := func() (int, error) {
		if st.side == nil && tried {
			return -1, nil
		}
		if st.side == nil {
			if st.side, err = openPty(); err != nil {
				tried = true
				s.without(err)
				return -1, nil
			}
			to, tag := out, Output
			if !outTerm {
				to, tag = errs, Error
			}
			st.side.adopt(to)
			if t, err := st.side.settings(); err == nil {
				t.Oflag &^= unix.OPOST
				st.side.apply(t)
			}
			st.opened = append(st.opened, st.side.slave)
			err = copyTo(st.side.master, to, tag, true)
		}
		return st.side.slave, err
	}
	output := func(to int, from Stream, isTerm bool) (fd int, err error) {
		if fd = -1; isTerm && s.TTY != Never {
			fd, err = terminal()
		}
		switch {
		case fd >= 0 || err != nil:
			return fd, err
		case isTerm && s.TTY != Never && s.Bare:
			return to, nil
		}
		return st.pipe(to, from, copyTo)
	}
	if st.files[1], err = output(out, Output, outTerm); err != nil {
		return st, err
	}
	if st.files[2] = st.files[1]; !same {
		st.files[2], err = output(errs, Error, errTerm)
	}
	return st, err
}

func (st *streams) pipe(dst int, from Stream, copyTo func(src, dst int, from Stream, term bool) error) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("opening a pipe: %w", err)
	}
	_ = unix.SetNonblock(p[0], true) // this end only: the program's end is as bare
	st.opened = append(st.opened, p[1])
	return p[1], copyTo(p[0], dst, from, false)
}

// without reports that there is no pseudo-terminal, and what comes in its place.
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

// screen is the user's terminal that has a size for the program, or -1.
func (st *streams) screen(s Spec) int {
	for _, f := range []*os.File{s.Stdin, s.Stdout, s.Stderr} {
		if isTerminal(int(f.Fd())) {
			return int(f.Fd())
		}
	}
	return -1
}

// started closes the program's ends here: what it closes is then closed.
func (st *streams) started() {
	for _, fd := range st.opened {
		unix.Close(fd)
	}
	st.opened = nil
	if st.side != nil {
		st.side.slave = -1 // was among them
	}
}

// close closes everything but what a copier that was given up still uses.
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
