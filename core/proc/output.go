package proc

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

const (
	chunk = 64 << 10
	// idle is how long an output stays silent, once the program has ended, before what holds it open is taken to be
	// something that it left behind. All that the program itself printed can be read by then: a pipe holds it, and a
	// pseudo-terminal passes on what is under way before it says that there is nothing.
	idle = 50 * time.Millisecond
	// most is how much a pipe or a pseudo-terminal can hold of a program that has ended: a daemon that goes on
	// printing is not waited for beyond it. (A pipe is at most 1 MiB without privileges.)
	most = 1 << 20
	// longest is how long, together, such a daemon is waited for: what the program itself printed needs no waiting.
	longest = 10 * idle
)

// A copier passes on one output of the program: to the user, then to the tap. It makes its own system calls: with the
// runtime's poller, a pseudo-terminal, which gives 4 KiB at a time, passed a third less than script(1) does.
type copier struct {
	src  int // does not block
	dst  int
	from Stream
	tap  *tap
	term bool   // src is a pseudo-terminal: it ends with EIO, and stays open when the user is gone
	gone func() // called once if dst no longer takes anything and term is set
	wake waker
	// screen writes to dst in place of the copier; may be nil.
	screen Screen

	running bool // run was called
	deaf    bool // dst takes nothing more

	mu    sync.Mutex
	ended bool          // the program has
	at    int64         // progress: chunks passed on
	flush chan struct{} // somebody waits for what there is to have been passed on, by closing it

	// Results, valid when done is closed.
	done chan struct{}
	left bool  // somebody still holds it open
	err  error // the first failure to write
}

func (c *copier) run() {
	defer close(c.done)
	buf := make([]byte, chunk)
	after := 0               // bytes read since the program ended
	var waited time.Duration // since then, for more
	var flush chan struct{}
	for {
		n, err := unix.Read(c.src, buf)
		switch {
		case n > 0:
			if !c.pass(buf[:n]) {
				return
			}
			if c.advance() {
				after += n
			}
			if after > most {
				c.left = true
				return
			}
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if flush != nil {
				close(flush) // there was nothing, after it was asked for
			}
			var ended bool
			if flush, ended = c.asked(); flush != nil {
				continue
			}
			wait := -1
			if ended {
				wait = int(idle.Milliseconds())
			}
			began := time.Now()
			c.left = !c.wake.wait(c.src, unix.POLLIN, wait)
			if ended {
				waited += time.Since(began)
				c.left = c.left || waited > longest
			}
			if c.left {
				return
			}
		case err == nil || err == unix.EIO: // the end, of a pipe or of a pseudo-terminal
			return
		default:
			if c.err == nil {
				c.err = err
			}
			return
		}
	}
}

// pass passes p on. It returns false when that is over, and the program is to meet it: its next write fails.
func (c *copier) pass(p []byte) bool {
	if c.deaf {
		c.tap.put(c.from, p)
		return true
	}
	var err error
	if c.screen != nil {
		_, err = c.screen.Write(p)
	} else {
		err = keep.WriteAll(c.dst, p)
	}
	c.deaf = err != nil
	hungUp := errors.Is(err, unix.EIO) && isTerminal(c.dst)
	if err != nil && !errors.Is(err, unix.EPIPE) && !hungUp {
		c.err = err // where nobody reads it any more, that is the reader's doing
	}
	c.tap.put(c.from, p) // whatever became of it: the verdict and the record can have it
	switch {
	case err == nil || hungUp: // the kernel reports a hangup to whom it concerns, and the others go on
	case c.term:
		c.gone()
	default:
		unix.Close(c.src)
		c.src = -1
		return false
	}
	return true
}

// advance counts a chunk, and reports whether the program has ended.
func (c *copier) advance() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at++
	return c.ended
}

func (c *copier) asked() (flush chan struct{}, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	flush, c.flush = c.flush, nil
	return flush, c.ended
}

// settle waits until everything that the program has printed so far has been passed on, but not for ever.
func (c *copier) settle() {
	flush := make(chan struct{})
	c.mu.Lock()
	c.flush = flush
	c.mu.Unlock()
	c.wake.up()
	select {
	case <-flush:
	case <-c.done:
	case <-time.After(time.Second): // nobody reads it
	}
}

// end says that the program has ended.
func (c *copier) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.wake.up()
}

func (c *copier) progress() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// A waker is an eventfd that ends a wait for a file.
type waker int

func newWaker() (waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return waker(fd), err
}

func (w waker) up() { _, _ = unix.Write(int(w), []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (w waker) close() { unix.Close(int(w)) }

// wait waits for fd (if it is not negative) or up, for so many milliseconds, -1 for ever. It returns false if neither came.
func (w waker) wait(fd int, events int16, ms int) bool {
	fds := [2]unix.PollFd{{Fd: int32(w), Events: unix.POLLIN}, {Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds[:], ms)
	if fds[0].Revents != 0 {
		var drop [8]byte
		_, _ = unix.Read(int(w), drop[:])
	}
	return n != 0 || err != nil
}
