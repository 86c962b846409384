package proc

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopped: the program was stopped, so we stop in the same way, and the shell has a job that is stopped.
func (a *attempt) stopped(sig syscall.Signal) {
	if !isStopped(a.exit.Pid) {
		return // we were stopped along with it, and both go on already
	}
	st := a.st
	if (sig == unix.SIGTTIN || sig == unix.SIGTTOU) && st.user != nil && st.user.foreground() {
		a.resume() // it was stopped for being in the background, where we were and no longer are
		return
	}
	if a.in != nil {
		a.in.let(false)
	}
	for _, c := range st.copies {
		c.settle() // what it printed comes before what the shell says about it
	}
	a.unshare()
	if st.user != nil {
		st.user.restore()
	}
	// The key stops the whole job: a script that runs us, what we are piped to. Without a terminal of the program's own
	// it has done so already.
	told := a.stopSelf(sig, st.ctl != nil && sig != unix.SIGSTOP)
	// Here we go on, or the kernel has dropped it, because we are no shell's job: then the program has to go on.
	if st.ctl != nil {
		a.ignoreCont = time.Now().Add(100 * time.Millisecond)
		a.resume()
	} else if told {
		a.k.signal(unix.SIGCONT, false, true)
	}
}

// stopSelf stops this process, or its whole process group, and returns when it goes on. It reports whether SIGCONT came.
// We stop by the same signal as the group: if we came after it, a quick `fg` could come in between, and we would stop
// then, for good.
func (a *attempt) stopSelf(sig syscall.Signal, group bool) (told bool) {
	was := action(sig, &sigaction{})
	target := unix.Getpid()
	if group {
		target = 0
	}
	_ = unix.Kill(target, sig)
	for signalMask("ShdPnd")>>(sig-1)&1 != 0 { // another thread takes it
		time.Sleep(time.Millisecond)
	}
	var others []os.Signal
	soon := time.After(50 * time.Millisecond) // it has stopped us by then, or was dropped
	for waiting := true; waiting; {
		select {
		case s := <-a.sigs:
			if told = s == unix.SIGCONT; told {
				waiting = false
			} else {
				others = append(others, s)
			}
		case <-soon:
			waiting = false
		}
	}
	action(sig, &was)
	for _, s := range others {
		a.signal(s.(syscall.Signal))
	}
	return told
}

// resume: we go on, or have changed between foreground and background. The program goes on, if it was stopped.
func (a *attempt) resume() {
	st := a.st
	if a.place != nil {
		a.spec.Screen.Fit(*a.place)
	}
	if st.user != nil {
		if st.user.isRaw { // somebody may have set it while we were stopped
			now, err := unix.IoctlGetTermios(st.user.fd, unix.TCGETS)
			st.user.isRaw = err == nil && *now == st.user.now
		}
		a.enter()
		a.k.foreground(a.front)
	}
	a.k.signal(unix.SIGCONT, true, false)
	if a.in != nil {
		a.in.let(st.user == nil || a.front)
	}
}
