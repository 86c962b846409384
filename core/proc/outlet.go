package proc

import (
	"io"
	"sync"
	"time"
)

// An outlet writes to a place that may stop taking anything, such as the terminal of a connection that hangs. What is
// put into it is written in that order. Only who calls flush waits.
type outlet struct {
	mu           sync.Mutex
	more         sync.Cond // something was written
	to           io.Writer
	bytes, spare []byte // to be written; spare is the memory of the bytes before
	put, written int64
	busy         bool // a goroutine writes
	err          error
}

func newOutlet() *outlet {
	o := &outlet{}
	o.more.L = &o.mu
	return o
}

// add puts bytes into the outlet.
func (o *outlet) add(to io.Writer, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to, o.bytes, o.put = to, append(o.bytes, p...), o.put+int64(len(p))
}

// mark is how much was put.
func (o *outlet) mark() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put
}

// wrote reports whether all that was put before a mark has been written.
func (o *outlet) wrote(mark int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written >= mark
}

// flush waits until all that was put before it has been written.
func (o *outlet) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for until := o.put; o.written < until; {
		if o.busy {
			o.more.Wait()
			continue
		}
		p, to := o.bytes, o.to
		o.busy, o.bytes = true, o.spare[:0]
		o.mu.Unlock()
		_, err := to.Write(p)
		o.mu.Lock()
		o.busy, o.spare, o.written = false, p, o.written+int64(len(p))
		if o.err == nil {
			o.err = err
		}
		o.more.Broadcast()
	}
}

// failed returns the first error since the last call.
func (o *outlet) failed() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err, o.err = o.err, nil
	return err
}

// always is closed.
var always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// within is flush, but it does not wait longer than that. Then the rest is written later, or never.
func (o *outlet) within(limit time.Duration) { o.unless(always, limit) }

// unless is flush, but once stop is closed it does not wait longer than that.
func (o *outlet) unless(stop <-chan struct{}, limit time.Duration) {
	if o.wrote(o.mark()) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.flush()
	}()
	select {
	case <-done:
		return
	case <-stop:
	}
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// Patient is a place for launch's own lines. It waits for a reader that takes nothing, as a program does, until launch
// is asked to end: then what is left is given up after a short time. It is in the record of the run, too.
type Patient struct {
	to   io.Writer
	out  *outlet
	end  chan struct{}
	once sync.Once
}

// NewPatient returns a place before w.
func NewPatient(w io.Writer) *Patient {
	return &Patient{to: w, out: newOutlet(), end: make(chan struct{})}
}

// Leave says that launch was asked to end.
func (p *Patient) Leave() { p.once.Do(func() { close(p.end) }) }

// Write implements io.Writer.
func (p *Patient) Write(b []byte) (int, error) {
	p.out.add(p.to, b)
	p.out.unless(p.end, stall)
	if err := p.out.failed(); err != nil {
		return 0, err
	}
	return len(b), nil
}
