package proc

import (
	"cmp"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// KeeperMain is called first thing in main by every program that uses [Run] or [Prepare]. It returns at once, unless this
// process was started to be a keeper: then it does that, and does not return.
func KeeperMain() {
	if len(os.Args) != 4 || os.Args[1] != keeperArg {
		return
	}
	sock, err := strconv.Atoi(os.Args[2])
	if err == nil {
		_, err = unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	ignored, wrong := strconv.ParseUint(os.Args[3], 16, 64)
	err = cmp.Or(err, wrong)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s is started by launch itself, and does nothing for anybody else\n", os.Args[0], keeperArg)
		os.Exit(125)
	}
	keep(sock, ignored)
	os.Exit(0)
}

// patience is how long the keeper waits for a signal that launch got to arrive here too, counted from when it has heard
// of it. A signal to a group reaches all its members in one go, but they run when it is their turn.
const patience = 50 * time.Millisecond

// A warden is the keeper's own side: the state of its loop.
type warden struct {
	sock    int
	orders  chan message
	signals chan os.Signal
	deaths  chan death

	pid     int // of the program; 0 once it has ended
	tty     int // that the program controls, or -1
	group   int // the foreground process group of tty while we are not in the foreground ourselves
	user    int // the user's terminal, or -1, to be repaired if launch cannot
	before  unix.Termios
	raw     unix.Termios
	undo    string // written to it
	isRaw   bool
	arrived map[syscall.Signal][]time.Time // here, not yet matched
	awaited map[syscall.Signal][]passing   // passed to us, not yet matched
}

type passing struct {
	group bool
	until time.Time
}

type death struct {
	pid    int
	status unix.WaitStatus
	usage  unix.Rusage
	alone  bool // nobody is left
}

// keep is given the signals that launch was started with ignored.
func keep(sock int, ignored uint64) {
	unix.CloseOnExec(sock)
	w := &warden{
		sock: sock, tty: -1, user: -1,
		orders: make(chan message, 16), signals: make(chan os.Signal, 256), deaths: make(chan death, 16),
		arrived: map[syscall.Signal][]time.Time{}, awaited: map[syscall.Signal][]passing{},
	}
	// Caught rather than ignored: what is ignored stays ignored in the program.
	catch := append(passable(ignored), unix.SIGTTIN, unix.SIGTTOU)
	caught := make(chan struct{})
	go func() {
		defer close(caught)
		armour()
		signal.Notify(w.signals, catch...)
	}()
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	name := append([]byte("launch-keeper"), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	go receive(sock, w.orders)

	m, ok := <-w.orders
	for ok && m.kind == msgRaw {
		w.obey(m, nil)
		m, ok = <-w.orders
	}
	defer w.repair() // where launch is killed it cannot
	if !ok || m.kind != msgStart {
		return
	}
	<-caught // before there is a program: to die now of what is meant for it, or of launch's own end, would be its end
	started := false
	ignoring(ignored, w.signals, catch, func() { started = w.start(m) })
	if !started {
		for range w.orders { // until launch, which has been told, lets us go
		}
		return
	}
	w.loop()
}

// start starts the program, and reports whether there is one.
func (w *warden) start(m message) bool {
	o := m.body.startOrder()
	if o.control {
		w.tty = m.files[3]
	}
	attr := &syscall.ProcAttr{Dir: o.dir, Env: o.env, Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}}
	for _, fd := range m.files[:3] {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if o.control {
		// We lead the session of the program's terminal, as a shell does, and the program leads a group of its own in
		// it. So its group is no orphan: the suspend key, SIGTTIN and their like are the kernel's own.
		if _, err := unix.Setsid(); err != nil {
			return w.failed(err)
		}
		if err := unix.IoctlSetInt(w.tty, unix.TIOCSCTTY, 0); err != nil {
			return w.failed(err)
		}
		attr.Sys.Setpgid, attr.Sys.Foreground, attr.Sys.Ctty = true, o.foreground, w.tty
	}
	// The kernel kills the program when the *thread* that started it dies (go.dev/issue/27505): that one stays.
	type started struct {
		pid int
		err error
	}
	ch := make(chan started)
	go func() {
		runtime.LockOSThread()
		w.say(msgBegun, nil)
		pid, err := forkLimited(o, attr)
		ch <- started{pid, err}
		select {}
	}()
	got := <-ch
	pid, err := got.pid, got.err
	for _, fd := range m.files[:3] {
		unix.Close(fd)
	}
	if err != nil {
		return w.failed(err)
	}
	w.pid, w.group = pid, pid
	go w.reap()
	var b body
	b.putInt(int64(pid))
	w.say(msgStarted, b) // if launch has died meanwhile, the loop learns it, and ends the program
	return true
}

// forkLimited starts the program under its limit from its first instruction on: the limit is ours while we fork. It is then
// at least roomy, because the Go runtime dies where it cannot have a page; the rest is done right after.
func forkLimited(o startOrder, attr *syscall.ProcAttr) (int, error) {
	const roomy = 256 << 20
	var old unix.Rlimit
	want := uint64(o.limit)
	if o.limit > 0 {
		if err := unix.Getrlimit(unix.RLIMIT_DATA, &old); err != nil {
			return 0, err
		}
		want = min(want, old.Max)
		ours := unix.Rlimit{Cur: max(want, min(roomy, old.Max)), Max: old.Max}
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &ours); err != nil {
			return 0, err
		}
		defer unix.Setrlimit(unix.RLIMIT_DATA, &old)
	}
	pid, err := syscall.ForkExec(o.path, o.args, attr)
	if err == syscall.ENOEXEC { // a script without a first line, which shells and execvp give to sh
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", o.path}, o.args[1:]...), attr)
	}
	if err == nil && o.limit > 0 && want < roomy {
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: want, Max: old.Max}, nil) // it may have ended already
	}
	return pid, err
}

// failed tells launch that there is no program.
func (w *warden) failed(err error) bool {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EIO
	}
	var b body
	b.putInt(int64(errno))
	w.say(msgFailed, b)
	return false
}

// say tells launch something. That it cannot hear it any more, w.orders says.
func (w *warden) say(k kind, b body) { _ = send(w.sock, message{kind: k, body: b}) }

// reap collects the program and all that is orphaned to us, for as long as there is anything.
func (w *warden) reap() {
	defer close(w.deaths)
	for {
		var d death
		pid, err := unix.Wait4(-1, &d.status, unix.WUNTRACED, &d.usage)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD
			return
		}
		d.pid = pid
		if pid == w.pid && !d.status.Stopped() {
			// Its children have become ours before it could be collected.
			for {
				other, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
				if other <= 0 && err != unix.EINTR {
					d.alone = err == unix.ECHILD
					break
				}
			}
			w.deaths <- d
			continue
		}
		if pid == w.pid {
			w.deaths <- d
		}
	}
}

func (w *warden) loop() {
	program := w.pid
	deaths := w.deaths
	for {
		select {
		case m, ok := <-w.orders:
			if !ok { // launch has died
				w.sweep(deaths)
				return
			}
			if m.kind == msgLeave {
				w.isRaw = false // launch has seen to it
				w.linger(m.files)
				return
			}
			w.obey(m, deaths)
		case d, ok := <-deaths:
			if !ok {
				deaths = nil
				continue
			}
			if d.pid == program {
				w.died(d)
			}
		case sig := <-w.signals:
			w.here(sig.(syscall.Signal))
		case <-w.timer():
			w.pass()
		}
	}
}

func (w *warden) died(d death) {
	var b body
	if d.status.Stopped() {
		b.putInt(int64(d.status.StopSignal()))
		w.say(msgStopped, b)
		return
	}
	w.pid = 0
	if w.tty >= 0 {
		// Who leads a session takes the foreground group along with SIGHUP when it ends: that is to be ours, not what
		// the program left. And nobody but those is to hold the terminal, so that launch sees the end of its output.
		w.setGroup(unix.Getpgrp())
		unix.Close(w.tty)
		w.tty = -1
	}
	b.putInt(int64(d.status), d.usage.Maxrss*1024)
	b.putBool(!d.alone)
	w.say(msgEnded, b)
}

func (w *warden) obey(m message, deaths <-chan death) {
	switch m.kind {
	case msgSignal:
		sig, group, matched := syscall.Signal(m.body.int()), m.body.bool(), m.body.bool()
		if matched {
			w.await(sig, group)
		} else {
			w.deliver(sig, group)
		}
	case msgForeground:
		if w.tty < 0 {
			return
		}
		// In the background of the user's terminal the program is in the background of its own as well, so that
		// reading from it stops it as it would have stopped.
		yes, own, now := m.body.bool(), unix.Getpgrp(), w.getGroup()
		if yes && now == own {
			if w.setGroup(w.group) != nil && w.pid != 0 { // that group is gone
				w.setGroup(w.pid)
			}
		} else if !yes && now > 0 && now != own {
			w.group = now
			w.setGroup(own)
		}
	case msgRaw:
		if w.user >= 0 {
			unix.Close(w.user)
		}
		w.user = m.files[0]
		w.before, w.raw, w.isRaw = termiosOf(m.body.string()), termiosOf(m.body.string()), true
		w.undo = m.body.string()
	case msgKill:
		w.sweep(deaths)
		w.say(msgKilled, nil)
	}
}

func (w *warden) getGroup() int {
	g, err := unix.IoctlGetInt(w.tty, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return g
}

// setGroup may be called from the background: SIGTTOU is caught here, hence blocked for the call.
func (w *warden) setGroup(group int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[(unix.SIGTTOU-1)/64] |= 1 << ((unix.SIGTTOU - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old)
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return unix.IoctlSetPointerInt(w.tty, unix.TIOCSPGRP, group)
}

// repair puts the user's terminal in order for a launch that was killed, unless somebody (a shell, usually) already has.
func (w *warden) repair() {
	if !w.isRaw || w.user < 0 {
		return
	}
	if now, err := unix.IoctlGetTermios(w.user, unix.TCGETS); err == nil && *now == w.raw {
		if ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(w.user), Events: unix.POLLOUT}}, 100); ready > 0 && w.undo != "" {
			_, _ = unix.Write(w.user, []byte(w.undo))
		}
		_ = unix.IoctlSetTermios(w.user, unix.TCSETS, &w.before)
	}
}

// linger copies what those that the program left behind print to where it would have gone, until they are done.
func (w *warden) linger(files []int) {
	unix.Close(w.sock)
	if len(files) == 0 {
		return
	}
	_ = os.Chdir("/") // hold no file system
	done := make(chan struct{})
	for ; len(files) >= 2; files = files[2:] {
		go func(from, to int) {
			defer func() { done <- struct{}{} }()
			defer unix.Close(from) // an error there is one for them too, as it would have been bare
			_ = unix.SetNonblock(from, false)
			buf := make([]byte, 32<<10)
			for {
				n, err := unix.Read(from, buf)
				if err == unix.EINTR {
					continue
				}
				if n <= 0 || err != nil || writeAll(to, buf[:n]) != nil {
					return
				}
			}
		}(files[0], files[1])
		defer func() { <-done }()
	}
}
