// Package keep is the keeper's own side: the process that stands between launch and the program. It is a package of
// its own, of few imports, so that a process that was started to be a keeper is one before the rest of its program is
// prepared.
package keep

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// Word stands first in a keeper's arguments; behind it stand those of Args.
const Word = "__keeper"

// Args are the arguments of a process that is to be a keeper: it is told what to do on the socket, and which signals
// launch was started with ignored.
func Args(name string, sock int, ignored uint64) []string {
	return []string{name, Word, strconv.Itoa(sock), strconv.FormatUint(ignored, 16)}
}

// A keeper needs nothing of what the rest of its program prepares before main (gRPC, protobuf), and a user waits for
// it. In every other process this does nothing.
func init() {
	if len(os.Args) != 4 || os.Args[1] != Word {
		return
	}
	sock, err := strconv.Atoi(os.Args[2])
	if err == nil {
		_, err = syscall.GetsockoptInt(sock, syscall.SOL_SOCKET, syscall.SO_TYPE)
	}
	ignored, wrong := strconv.ParseUint(os.Args[3], 16, 64)
	if err != nil || wrong != nil {
		_, _ = os.Stderr.WriteString(os.Args[0] + " " + Word +
			" is started by launch itself, and does nothing for anybody else\n")
		os.Exit(125)
	}
	setName("launch-keeper") // of the main thread, which is the process's
	// An init is bound to the main thread, so that each of its waits would switch threads: another goroutine's do not.
	go func() {
		keep(sock, ignored)
		os.Exit(0)
	}()
	select {}
}

// Patience is how long the keeper waits for a signal that launch got to arrive here too, counted from when it has heard
// of it. A signal to a group reaches all its members in one go, but they run when it is their turn.
const Patience = 50 * time.Millisecond

// A warden is the keeper's own side: the state of its loop.
type warden struct {
	sock    int
	orders  chan Message
	signals chan os.Signal
	deaths  chan death

	pid     int // of the program; 0 once it has ended
	tty     int // that the program controls, or -1
	group   int // the foreground process group of tty while we are not in the foreground ourselves
	user    int // the user's terminal, or -1, to be repaired if launch cannot
	before  syscall.Termios
	raw     syscall.Termios
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
	status syscall.WaitStatus
	usage  syscall.Rusage
	alone  bool // nobody is left
}

// keep is given the signals that launch was started with ignored.
func keep(sock int, ignored uint64) {
	syscall.CloseOnExec(sock)
	w := &warden{
		sock: sock, tty: -1, user: -1,
		orders: make(chan Message, 16), signals: make(chan os.Signal, 256), deaths: make(chan death, 16),
		arrived: map[syscall.Signal][]time.Time{}, awaited: map[syscall.Signal][]passing{},
	}
	// Caught rather than ignored: what is ignored stays ignored in the program.
	catch := append(Passable(ignored), syscall.SIGTTIN, syscall.SIGTTOU)
	caught := make(chan struct{})
	go func() {
		defer close(caught)
		Armour()
		signal.Notify(w.signals, catch...)
	}()
	adoptOrphans()
	go Receive(sock, w.orders)

	m, ok := <-w.orders
	for ok && m.Kind == MsgRaw {
		w.obey(m, nil)
		m, ok = <-w.orders
	}
	defer w.repair() // where launch is killed it cannot
	if !ok || m.Kind != MsgStart {
		return
	}
	<-caught // before there is a program: to die now of what is meant for it, or of launch's own end, would be its end
	started := false
	Ignoring(ignored, w.signals, catch, func() { started = w.start(m) })
	if !started {
		for range w.orders { // until launch, which has been told, lets us go
		}
		return
	}
	w.loop()
}

// start starts the program, and reports whether there is one.
func (w *warden) start(m Message) bool {
	o := m.Body.StartOrder()
	if o.Control {
		w.tty = m.Files[3]
	}
	attr := &syscall.ProcAttr{Dir: o.Dir, Env: o.Env, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	for _, fd := range m.Files[:3] {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if o.Control {
		// We lead the session of the program's terminal, as a shell does, and the program leads a group of its own in
		// it. So its group is no orphan: the suspend key, SIGTTIN and their like are the kernel's own.
		if _, err := syscall.Setsid(); err != nil {
			return w.failed(err)
		}
		if err := ioctl(w.tty, syscall.TIOCSCTTY, nil); err != nil {
			return w.failed(err)
		}
		attr.Sys.Setpgid, attr.Sys.Foreground, attr.Sys.Ctty = true, o.Foreground, w.tty
	}
	// The kernel kills the program when the *thread* that started it dies (go.dev/issue/27505): that one stays.
	type started struct {
		pid int
		err error
	}
	ch := make(chan started)
	go func() {
		runtime.LockOSThread()
		w.say(MsgBegun, nil)
		pid, err := forkLimited(o, attr)
		ch <- started{pid, err}
		select {}
	}()
	got := <-ch
	pid, err := got.pid, got.err
	for _, fd := range m.Files[:3] {
		syscall.Close(fd)
	}
	if err != nil {
		return w.failed(err)
	}
	w.pid, w.group = pid, pid
	go w.reap()
	var b Body
	b.PutInt(int64(pid))
	w.say(MsgStarted, b) // if launch has died meanwhile, the loop learns it, and ends the program
	return true
}

// forkLimited starts the program under its limit from its first instruction on: the limit is ours while we fork. It is then
// at least roomy, because the Go runtime dies where it cannot have a page; the rest is done right after.
func forkLimited(o StartOrder, attr *syscall.ProcAttr) (int, error) {
	const roomy = 256 << 20
	var old syscall.Rlimit
	want := uint64(o.Limit)
	if o.Limit > 0 {
		if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &old); err != nil {
			return 0, err
		}
		want = min(want, old.Max)
		ours := syscall.Rlimit{Cur: max(want, min(roomy, old.Max)), Max: old.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &ours); err != nil {
			return 0, err
		}
		defer syscall.Setrlimit(syscall.RLIMIT_DATA, &old)
	}
	pid, err := syscall.ForkExec(o.Path, o.Args, attr)
	if err == syscall.ENOEXEC { // a script without a first line, which shells and execvp give to sh
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", o.Path}, o.Args[1:]...), attr)
	}
	if err == nil && o.Limit > 0 && want < roomy {
		limitData(pid, syscall.Rlimit{Cur: want, Max: old.Max}) // it may have ended already
	}
	return pid, err
}

// failed tells launch that there is no program.
func (w *warden) failed(err error) bool {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EIO
	}
	var b Body
	b.PutInt(int64(errno))
	w.say(MsgFailed, b)
	return false
}

// say tells launch something. That it cannot hear it any more, w.orders says.
func (w *warden) say(k Kind, b Body) { _ = Send(w.sock, Message{Kind: k, Body: b}) }

// reap collects the program and all that is orphaned to us, for as long as there is anything.
func (w *warden) reap() {
	defer close(w.deaths)
	for {
		var d death
		pid, err := syscall.Wait4(-1, &d.status, syscall.WUNTRACED, &d.usage)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD
			return
		}
		d.pid = pid
		if pid == w.pid && !d.status.Stopped() {
			// Its children have become ours before it could be collected.
			for {
				other, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if other <= 0 && err != syscall.EINTR {
					d.alone = err == syscall.ECHILD
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
			if m.Kind == MsgLeave {
				w.isRaw = false // launch has seen to it
				w.linger(m.Files)
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
	var b Body
	if d.status.Stopped() {
		b.PutInt(int64(d.status.StopSignal()))
		w.say(MsgStopped, b)
		return
	}
	w.pid = 0
	if w.tty >= 0 {
		// Who leads a session takes the foreground group along with SIGHUP when it ends: that is to be ours, not what
		// the program left. And nobody but those is to hold the terminal, so that launch sees the end of its output.
		_ = w.setGroup(syscall.Getpgrp())
		syscall.Close(w.tty)
		w.tty = -1
	}
	b.PutInt(int64(d.status), d.usage.Maxrss*1024)
	b.PutBool(!d.alone)
	w.say(MsgEnded, b)
}

func (w *warden) obey(m Message, deaths <-chan death) {
	switch m.Kind {
	case MsgSignal:
		sig, group, matched := syscall.Signal(m.Body.Int()), m.Body.Bool(), m.Body.Bool()
		if matched {
			w.await(sig, group)
		} else {
			w.deliver(sig, group)
		}
	case MsgForeground:
		if w.tty < 0 {
			return
		}
		// In the background of the user's terminal the program is in the background of its own as well, so that
		// reading from it stops it as it would have stopped.
		yes, own, now := m.Body.Bool(), syscall.Getpgrp(), w.getGroup()
		if yes && now == own {
			if w.setGroup(w.group) != nil && w.pid != 0 { // that group is gone
				_ = w.setGroup(w.pid)
			}
		} else if !yes && now > 0 && now != own {
			w.group = now
			_ = w.setGroup(own)
		}
	case MsgRaw:
		if w.user >= 0 {
			syscall.Close(w.user)
		}
		w.user = m.Files[0]
		w.before, w.raw, w.isRaw = m.Body.Termios(), m.Body.Termios(), true
		w.undo = m.Body.Text()
	case MsgKill:
		w.sweep(deaths)
		w.say(MsgKilled, nil)
	}
}

func (w *warden) getGroup() int {
	var group int32
	if ioctl(w.tty, syscall.TIOCGPGRP, unsafe.Pointer(&group)) != nil {
		return -1
	}
	return int(group)
}

// setGroup may be called from the background: SIGTTOU is caught here, hence blocked for the call.
func (w *warden) setGroup(group int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer signalMask(sigSetMask, signalMask(sigBlock, 1<<(syscall.SIGTTOU-1)))
	to := int32(group)
	return ioctl(w.tty, syscall.TIOCSPGRP, unsafe.Pointer(&to))
}

// repair puts the user's terminal in order for a launch that was killed, unless somebody (a shell, usually) already has.
func (w *warden) repair() {
	if !w.isRaw || w.user < 0 {
		return
	}
	var now syscall.Termios
	if err := ioctl(w.user, syscall.TCGETS, unsafe.Pointer(&now)); err == nil && now == w.raw {
		if w.undo != "" && writable(w.user, 100) {
			_, _ = syscall.Write(w.user, []byte(w.undo))
		}
		_ = ioctl(w.user, syscall.TCSETS, unsafe.Pointer(&w.before))
	}
}

// linger copies what those that the program left behind print to where it would have gone, until they are done.
func (w *warden) linger(files []int) {
	syscall.Close(w.sock)
	if len(files) == 0 {
		return
	}
	_ = os.Chdir("/") // hold no file system
	done := make(chan struct{})
	for ; len(files) >= 2; files = files[2:] {
		go func(from, to int) {
			defer func() { done <- struct{}{} }()
			defer syscall.Close(from) // an error there is one for them too, as it would have been bare
			_ = syscall.SetNonblock(from, false)
			buf := make([]byte, 32<<10)
			for {
				n, err := syscall.Read(from, buf)
				if err == syscall.EINTR {
					continue
				}
				if n <= 0 || err != nil || WriteAll(to, buf[:n]) != nil {
					return
				}
			}
		}(files[0], files[1])
		defer func() { <-done }()
	}
}
