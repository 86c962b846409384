package proc

import (
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A tap tells Spec.Tap what was printed, from a goroutine of its own.
type tap struct {
	f    func(Stream, []byte)
	less chan struct{} // something was taken
	done chan struct{} // no more calls
	told atomic.Int64  // bytes

	backlog int           // how far f may fall behind before it is waited for
	hung    time.Duration // how long f may take for one call before it is given up

	mu    sync.Mutex
	more  sync.Cond // something was put, or it is over
	bytes []byte    // put, and not yet taken
	parts []part    // of bytes
	total int64     // bytes put, ever
	over  bool
	dead  bool // it hangs
}

type part struct {
	from Stream
	n    int
}

// In a flood a pseudo-terminal is read 4 KiB at a time, and to be woken for each costs more than what is then done. So a
// little is gathered first, for a time that nobody notices: what is told is not what the user sees.
const (
	gather     = 256 << 10
	gatherTime = time.Millisecond
)

// spare is the memory from which on the collector works harder. It is no bound: launch holds less while a program runs,
// but in a flood each buffer is soon garbage, and the program needs the memory.
const spare = 96 << 20

// sparing has this process take little memory until restore is called, unless its user has set GOMEMLIMIT.
func sparing() (restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	was := debug.SetMemoryLimit(spare)
	return func() { debug.SetMemoryLimit(was) }
}

func newTap(f func(Stream, []byte)) *tap {
	t := &tap{f: f, less: make(chan struct{}, 1), done: make(chan struct{}), backlog: 8 << 20, hung: 5 * time.Second}
	t.more.L = &t.mu
	if f != nil {
		go t.run()
	}
	return t
}

func (t *tap) put(from Stream, p []byte) {
	if t.f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.bytes) >= t.backlog && !t.dead {
		told := t.told.Load()
		t.mu.Unlock()
		hangs := false
		select {
		case <-t.less:
		case <-time.After(t.hung):
			hangs = t.told.Load() == told
		}
		t.mu.Lock()
		t.dead = t.dead || hangs
	}
	t.total += int64(len(p))
	if t.dead {
		return
	}
	t.bytes = append(t.bytes, p...)
	if i := len(t.parts) - 1; i >= 0 && t.parts[i].from == from && t.parts[i].n+len(p) <= chunk {
		t.parts[i].n += len(p)
	} else {
		t.parts = append(t.parts, part{from, len(p)})
	}
	t.more.Signal()
}

func (t *tap) run() {
	defer close(t.done)
	var bytes []byte
	var parts []part
	for {
		t.mu.Lock()
		for len(t.parts) == 0 && !t.over {
			t.more.Wait()
		}
		if len(t.parts) == 0 || t.dead {
			t.mu.Unlock()
			return
		}
		if len(t.bytes) < gather && !t.over {
			t.mu.Unlock()
			time.Sleep(gatherTime)
			t.mu.Lock()
		}
		if cap(bytes) > 4<<20 {
			bytes = nil // a burst is not worth its memory for ever
		}
		bytes, t.bytes = t.bytes, bytes[:0]
		parts, t.parts = t.parts, parts[:0]
		t.mu.Unlock()
		select {
		case t.less <- struct{}{}:
		default:
		}
		rest := bytes
		for _, p := range parts {
			t.f(p.from, rest[:p.n:p.n])
			t.told.Add(int64(p.n))
			rest = rest[p.n:]
		}
	}
}

// finish waits until the tap was told everything, or hangs, and returns how many bytes it was not told.
func (t *tap) finish() int64 {
	if t.f == nil {
		return 0
	}
	t.mu.Lock()
	t.over = true
	t.more.Signal()
	total, dead := t.total, t.dead
	t.mu.Unlock()
	for !dead {
		told := t.told.Load()
		select {
		case <-t.done:
			return total - t.told.Load()
		case <-time.After(t.hung):
			dead = t.told.Load() == told
		}
	}
	t.mu.Lock()
	t.dead = true
	t.mu.Unlock()
	return total - t.told.Load()
}
