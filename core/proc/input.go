package proc

import (
	"bytes"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// An input passes what is typed on to the program's terminal. It reads only while it is let: in the background of a
// terminal a read would stop us, and what is typed there is not for the program.
type input struct {
	src  int
	to   *ptyPair
	user bool // src is a terminal, which may turn from foreground to background
	wake waker

	mu      sync.Mutex // held over each read, so that pause is at once true
	open    bool       // reading is allowed
	over    bool
	noFront func() bool // reports whether we are in the background; asked before each read

	wrote       atomic.Bool // anything at all
	interrupted atomic.Bool // the interrupt key was pressed, and meant that
	rest        []byte      // read, and not written; valid when done is closed
	done        chan struct{}
}

func newInput(src int, to *ptyPair, noFront func() bool) (*input, error) {
	wake, err := newWaker()
	if err != nil {
		return nil, err
	}
	return &input{src: src, to: to, user: isTerminal(src), wake: wake, noFront: noFront, done: make(chan struct{})}, nil
}

func (in *input) let(open bool) {
	in.mu.Lock()
	in.open = open
	in.mu.Unlock()
	in.wake.up()
}

// stop ends the copying, whatever it waits for, and returns what was read and has not reached the terminal.
func (in *input) stop() []byte {
	in.mu.Lock()
	in.over = true
	in.mu.Unlock()
	in.wake.up() // from a write as well: the program need not have read what was typed
	<-in.done
	in.wake.close()
	return in.rest
}

func (in *input) run() {
	defer close(in.done)
	if p := takeTyped(); !in.write(p) {
		return
	}
	buf := make([]byte, 4096)
	last := byte('\n')
	for {
		n, ok := in.read(buf)
		if !ok {
			return
		}
		if n <= 0 {
			in.end(last)
			return
		}
		last = buf[n-1]
		if !in.write(buf[:n]) {
			return
		}
	}
}

// read returns what was typed, 0 for its end, or false when it was stopped.
func (in *input) read(buf []byte) (int, bool) {
	for {
		in.mu.Lock()
		open, over := in.open, in.over
		in.mu.Unlock()
		if over {
			return 0, false
		}
		src := in.src
		if !open {
			src = -1
		}
		in.wake.wait(src, unix.POLLIN, -1)
		fds := []unix.PollFd{{Fd: int32(src), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds, 0); n <= 0 {
			continue
		}
		in.mu.Lock()
		if !in.open || in.over || in.user && in.noFront() {
			in.open = false // the loop is told by noFront, and will let us again
			in.mu.Unlock()
			continue
		}
		n, err := unix.Read(in.src, buf)
		in.mu.Unlock()
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		return n, true
	}
}

// write passes p on. It returns false when it was stopped first.
func (in *input) write(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	in.wrote.Store(true)
	if t, err := in.to.settings(); err == nil && t.Lflag&unix.ISIG != 0 && t.Cc[unix.VINTR] != 0 &&
		bytes.IndexByte(p, t.Cc[unix.VINTR]) >= 0 {
		in.interrupted.Store(true)
	}
	return in.put(p)
}

// put writes p to the terminal, however long that has no room. It returns false when it was stopped first.
func (in *input) put(p []byte) bool {
	for len(p) > 0 {
		n, err := unix.Write(in.to.master, p)
		switch {
		case n > 0:
			p = p[n:]
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			in.wake.wait(in.to.master, unix.POLLOUT, -1)
		default: // the terminal is gone
			return false
		}
		in.mu.Lock()
		over := in.over
		in.mu.Unlock()
		if over {
			in.rest = append(in.rest, p...)
			return len(p) == 0
		}
	}
	return true
}

// end tells the program of the end of its input, as the key for it would: that key ends a line that has begun, too.
func (in *input) end(last byte) {
	t, err := in.to.settings()
	if err != nil || t.Lflag&unix.ICANON == 0 || t.Cc[unix.VEOF] == 0 {
		return
	}
	eof := []byte{t.Cc[unix.VEOF]}
	if last != '\n' {
		eof = append(eof, eof[0])
	}
	in.put(eof)
}
