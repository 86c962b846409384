package proc

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// An attempt is one running program, and the state of Run's loop.
type attempt struct {
	spec  Spec
	k     *keeper
	st    *streams
	in    *input // nil where the program reads the user's input itself
	sigs  chan os.Signal
	exit  Exit
	front bool // we are in the foreground of the user's terminal, as far as we know

	asked      bool // the program was asked to end
	grace      <-chan time.Time
	background chan struct{} // in reports that it found us in the background
	gone       chan struct{} // nobody reads the terminal's output any more
	place      *Terminal     // that Spec.Screen shares; nil: none
	again      chan struct{} // the screen asks for the terminal's size
	ignoreCont time.Time     // a SIGCONT before then has been handled
}

// run is Run, with the defaults filled in and the program found.
func run(ctx context.Context, s Spec, path string) (_ Exit, err error) {
	a := &attempt{spec: s, sigs: make(chan os.Signal, 256),
		background: make(chan struct{}, 1), gone: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	keep.Armour()
	defer catch(a.sigs)()
	release := adopt()
	defer release()

	if a.k, err = takeKeeper(); err != nil {
		return Exit{}, err
	}
	defer func() {
		if a.exit.Remains == nil {
			a.k.leave(nil) // unless it has left
		}
	}()
	defer sparing()()
	tap := newTap(s.Tap)
	defer tap.finish()
	if a.st, err = connect(s, tap); err != nil {
		return Exit{}, &MeansError{"connecting the program's outputs", err}
	}
	kills := newOOMCount()
	if err := a.start(path); err != nil {
		return a.unstarted(err)
	}
	began := time.Now()
	ended, counted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(counted)
		kills.follow(a.k.pid, ended)
	}()
	for _, c := range a.st.copies {
		c.gone = func() { a.gone <- struct{}{} }
		c.running = true
		go c.run()
	}
	if s.Started != nil {
		s.Started(a.exit.Pid)
	}
	err = a.loop(ctx)
	release() // children that it leaves behind are not ours, as without launch
	a.exit.Took = time.Since(began)
	pairs := a.finish()
	if s.Hold && a.exit.Left && !a.swept() {
		a.exit.Remains = &Remains{a, pairs}
	} else {
		a.release(pairs)
	}
	close(ended)
	<-counted
	a.exit.OOMKills, a.exit.Family = kills.since(), kills.family
	a.exit.Untapped = tap.finish()
	return a.exit, err
}

// start prepares the user's terminal for the program, and starts it.
func (a *attempt) start(path string) error {
	st := a.st
	order := keep.StartOrder{Path: path, Args: a.spec.Args, Env: a.spec.Env, Dir: a.spec.Dir, Limit: int64(a.spec.Limit),
		Control: st.ctl != nil, Foreground: true}
	files := st.files[:]
	if st.ctl != nil {
		files = append(files, st.ctl.slave)
		var err error
		if a.in, err = newInput(int(a.spec.Stdin.Fd()), st.ctl, a.behind); err != nil {
			return &MeansError{"connecting the program's input", err}
		}
	}
	a.share()
	if st.user != nil {
		a.enter()
		order.Foreground = a.front
	}
	pid, err := a.k.start(order, files)
	if err != nil {
		a.unshare()
		if st.user != nil {
			st.user.restore()
		}
		if a.in != nil {
			a.in.wake.close()
		}
		return err
	}
	st.started()
	a.exit.Pid = pid
	if a.in != nil {
		a.in.open = st.user == nil || a.front
		go a.in.run()
	}
	return nil
}

// unstarted ends an attempt whose program did not start.
func (a *attempt) unstarted(err error) (Exit, error) {
	a.st.close()
	if err == ErrKeeper {
		a.takeUp()
	}
	if err == ErrKeeper && len(a.sigs) > 0 {
		// The signal reached launch and the keeper before the program ran: report it as the program's end.
		sig := (<-a.sigs).(syscall.Signal)
		return Exit{Signal: sig, Interrupted: sig == unix.SIGINT, Signals: []syscall.Signal{sig}, OOMKills: -1}, nil
	}
	return Exit{}, err
}

// enter takes the user's terminal if we are in its foreground, and gives the program's terminal its size and settings.
func (a *attempt) enter() {
	u := a.st.user
	a.front = u.foreground()
	if !a.front {
		return
	}
	if !u.isRaw && a.st.ctl.untouched() {
		a.st.ctl.adopt(u.fd) // what was copied in the background were another program's settings
	} else {
		a.st.ctl.resize(u.fd)
	}
	_ = u.makeRaw(func(before, now *unix.Termios) { a.k.raw(u.fd, before, now, a.spec.Undo) })
}

// behind is asked before each read of the user's terminal: are we in its background?
func (a *attempt) behind() bool {
	if a.st.user == nil || a.st.user.foreground() {
		return false
	}
	select {
	case a.background <- struct{}{}:
	default:
	}
	return true
}

// loop attends to the program until it has ended.
func (a *attempt) loop(ctx context.Context) error {
	cancelled := ctx.Done()
	for {
		// A background job that its shell puts into the foreground (`fg`) gets a signal only if it was stopped. So in
		// the background, and only there, we poll.
		var look <-chan time.Time
		if a.st.user != nil && !a.front {
			look = time.After(300 * time.Millisecond)
		}
		select {
		case m, ok := <-a.k.from:
			if !ok {
				a.takeUp() // the kernel has killed the program only
				return ErrKeeper
			}
			switch m.Kind {
			case keep.MsgStopped:
				a.stopped(syscall.Signal(m.Body.Int()))
			case keep.MsgEnded:
				a.ended(&m.Body)
				return nil
			}
		case sig := <-a.sigs:
			a.signal(sig.(syscall.Signal))
		case <-cancelled:
			cancelled = nil
			a.exit.Cancelled = true
			a.k.signal(unix.SIGTERM, false, false)
			a.k.signal(unix.SIGCONT, true, false) // a stopped program cannot end
			a.ask(a.spec.Stop)
		case <-a.grace:
			a.grace = nil
			a.exit.Killed = true
			a.k.kill()
		case <-a.background:
			a.front = false
			a.st.user.isRaw = false // the foreground program has set the terminal
			a.k.foreground(false)
		case <-a.again:
			if a.front {
				a.st.ctl.resize(a.st.user.fd)
			}
		case <-a.gone:
			a.k.signal(unix.SIGHUP, true, false) // its terminal is gone
		case <-look:
			if a.st.user.foreground() {
				a.resume()
			}
		}
	}
}

// ask starts the clock of a program that was asked to end; no limit means that it may take as long as it needs. A second
// request does not extend the time.
func (a *attempt) ask(limit time.Duration) {
	a.asked = true
	if limit > 0 && a.grace == nil && !a.exit.Killed {
		a.grace = time.After(limit)
	}
}

// signal passes a received signal on to the program.
func (a *attempt) signal(sig syscall.Signal) {
	st := a.st
	switch sig {
	case unix.SIGWINCH:
		switch {
		case st.ctl != nil:
			if screen := st.screen(); screen >= 0 && (st.user == nil || a.front) {
				st.ctl.resize(screen) // the kernel sends the program a SIGWINCH
			}
			return
		case st.side != nil:
			// The program got its own SIGWINCH, and may have read the size before we set it here.
			st.side.resize(st.screen())
			a.k.signal(sig, false, false)
			return
		}
	case unix.SIGCONT:
		if st.ctl != nil {
			if time.Now().After(a.ignoreCont) {
				a.resume()
			}
			return
		}
	default:
		if a.spec.Divert != nil && a.spec.Divert(sig) {
			return
		}
		a.exit.Signals = append(a.exit.Signals, sig)
	}
	if sig == unix.SIGINT {
		a.exit.Interrupted = true
	}
	if sig == unix.SIGTERM {
		a.ask(a.spec.Grace)
	}
	// A terminal that hangs up signals the whole group. Other signals come from kill(1) and go to one process: the program
	// itself ends its children, and workers that die before it cause errors.
	a.k.signal(sig, sig == unix.SIGHUP, true)
	if sig == unix.SIGHUP && st.ctl != nil {
		a.k.signal(unix.SIGCONT, true, false) // a stopped process would not receive it; the kernel does the same
	}
}

// ended reads how the program ended.
func (a *attempt) ended(b *keep.Body) {
	status := syscall.WaitStatus(b.Int())
	a.exit.MaxRSS = bytes64(b.Int())
	a.exit.Left = b.Bool()
	if status.Signaled() {
		a.exit.Signal = status.Signal()
	} else {
		a.exit.Code = status.ExitStatus()
	}
}

// finish passes on the rest of the output and restores the user's terminal. It returns pairs of files for the keeper to
// copy, if children that the program left behind still hold any.
func (a *attempt) finish() (pairs []int) {
	st := a.st
	if a.exit.Left && a.swept() {
		a.sweep()
	}
	if a.in != nil {
		rest := a.in.stop()
		if a.in.interrupted.Load() {
			a.exit.Interrupted = true
		}
		if a.in.wrote.Load() && st.user != nil {
			keepTyped(st.ctl.unread())
		}
		if st.user != nil {
			keepTyped(rest)
		}
	}
	if st.ctl != nil {
		st.ctl.closeSlave()
	}
	for _, c := range st.copies {
		c.end()
		if !a.wait(c) {
			a.lost(c.from, os.ErrDeadlineExceeded)
			continue
		}
		if c.err != nil {
			a.lost(c.from, c.err)
		}
		if c.left {
			pairs = append(pairs, c.src, c.dst)
		}
	}
	a.unshare()
	if st.user != nil {
		st.user.restore()
	}
	return pairs
}

// lost notes that output could not be passed on; the first failure is the one to report.
func (a *attempt) lost(from Stream, err error) {
	if a.exit.Output == nil {
		a.exit.Output = &OutputError{from, err}
	}
}

// swept reports whether to end the children that the program left behind: yes if we ended the program.
func (a *attempt) swept() bool { return a.exit.Cancelled || a.exit.Killed }

// release leaves the children that the program left behind to run on, and closes the outputs.
func (a *attempt) release(pairs []int) {
	a.k.leave(pairs)
	a.st.close()
}

// Remains are processes that a program has left running. The caller has to call Leave or End; on nil they do nothing.
type Remains struct {
	a     *attempt
	pairs []int
}

// Leave lets them run on, as they would have without launch.
func (r *Remains) Leave() {
	if r != nil {
		r.a.release(r.pairs)
	}
}

// End kills them, sessions of their own or not.
func (r *Remains) End() {
	if r != nil {
		r.a.sweep()
		r.a.release(nil)
	}
}

// sweep kills all that a program has left running, if we ended the program: the next attempt needs the memory.
func (a *attempt) sweep() {
	a.k.kill()
	limit := time.After(5 * time.Second) // a process stuck in the kernel may never end
	for {
		select {
		case m, ok := <-a.k.from:
			if !ok || m.Kind == keep.MsgKilled {
				return
			}
		case <-limit:
			return
		}
	}
}

// wait waits until c has passed on everything. Its reader may be slow, and we wait for it, as the program would have; but
// not for ever after the program was asked to end.
func (a *attempt) wait(c *copier) bool {
	const stuck = 5 * time.Second
	for {
		at := c.progress()
		select {
		case <-c.done:
			return true
		case <-time.After(stuck):
			if c.progress() == at && (a.asked || a.exit.Interrupted) {
				return false
			}
		case sig := <-a.sigs:
			if sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGHUP {
				a.asked = true
				a.exit.Signals = append(a.exit.Signals, sig.(syscall.Signal))
			}
		}
	}
}
