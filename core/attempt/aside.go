package attempt

import (
	"io"
	"sync"
)

// mostAside bounds, in bytes, what waits to be read aside.
const mostAside = 16 << 20

// An aside passes output to a slow reader in a goroutine of its own, so that neither the program nor the verdict waits
// for it. What comes faster than it is read is left out, as whole writes, and a line break takes its place.
type aside struct {
	to   io.Writer
	done chan struct{}

	mu    sync.Mutex
	more  sync.Cond // something was written, or it is over
	bytes []byte    // written, and not yet taken
	over  bool
	gap   bool // something was left out
}

func newAside(to io.Writer) *aside {
	a := &aside{to: to, done: make(chan struct{})}
	a.more.L = &a.mu
	go a.run()
	return a
}

func (a *aside) write(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bytes)+len(p) >= mostAside {
		a.gap = true
		return
	}
	if a.gap {
		a.bytes, a.gap = append(a.bytes, '\n'), false
	}
	a.bytes = append(a.bytes, p...)
	a.more.Signal()
}

func (a *aside) run() {
	defer close(a.done)
	var bytes []byte
	for {
		a.mu.Lock()
		for len(a.bytes) == 0 && !a.over {
			a.more.Wait()
		}
		if len(a.bytes) == 0 {
			a.mu.Unlock()
			return
		}
		bytes, a.bytes = a.bytes, bytes[:0]
		a.mu.Unlock()
		_, _ = a.to.Write(bytes) // the reader for advice fails on nothing
		if cap(bytes) > 1<<20 {
			bytes = nil // a burst is not worth its memory for ever
		}
	}
}

// close waits until all was read. A second call does nothing.
func (a *aside) close() {
	a.mu.Lock()
	a.over = true
	a.more.Signal()
	a.mu.Unlock()
	<-a.done
}
