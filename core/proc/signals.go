package proc

import (
	"bufio"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// passable are the signals that are passed on to the program: those that would end, stop or inform it, had they been sent to
// it, except those that this process was started with ignored (nohup, `trap "" INT`): they stay ignored in all of us. The
// runtime keeps real-time signals and the like from ending us, and to catch them all would take a millisecond.
//
// The runtime leaves SIGHUP and SIGINT ignored, and takes SIGQUIT, which shells without job control ignore with SIGINT in what they put in
// the background. What else was ignored is passed on: the program may take it, and has it ignored if it does not (see ignoring).
func passable(ignored uint64) (out []os.Signal) {
	ignored &^= 1<<(unix.SIGUSR1-1) | 1<<(unix.SIGUSR2-1) | 1<<(unix.SIGALRM-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGWINCH-1)
	if ignores(ignored, unix.SIGQUIT) {
		signal.Ignore(unix.SIGQUIT)
	}
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
		unix.SIGTERM, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH} {
		if !ignores(ignored, s) {
			out = append(out, s)
		}
	}
	return out
}

// armour has the signals that our own writes can raise (a pipe that nobody reads, RLIMIT_FSIZE) come as errors of these writes. By
// default they end us, and with us the program, which may not print at all. They are caught, because what is ignored stays
// ignored in the program.
var armour = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGXFSZ) })

// signalMask is a mask of /proc/self/status, as ShdPnd, what this process has yet to take. Signal n is
// bit n-1.
func signalMask(name string) uint64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			mask, _ := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return mask
		}
	}
	return 0
}

// A sigaction is what rt_sigaction(2) takes and gives. Its first word is the handler, 0 the default and 1 to ignore, on every
// Linux; the rest is only kept.
type sigaction [8]uint64

// action sets what sig does, unless to is nil, and returns what it did. os/signal cannot do it: where the runtime has once
// installed its handler, Stop and Reset leave that there, and SIGTSTP would stop nothing ever after.
func action(sig syscall.Signal, to *sigaction) (was sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}

// caught is the runtime's handler of SIGTSTP.
var caught sigaction

// catch sends the signals that are meant for the program to ch, until the returned function is called.
func catch(ch chan os.Signal) (release func()) {
	stop := action(unix.SIGTSTP, nil)
	signal.Notify(ch, passable(ignoredAtStart())...)
	if now := action(unix.SIGTSTP, nil); now[0] > 1 {
		caught = now
	} else if now[0] == 0 && caught[0] != 0 {
		action(unix.SIGTSTP, &caught) // the runtime believes that it is still there
	}
	return func() {
		signal.Stop(ch)
		action(unix.SIGTSTP, &stop)
	}
}

// here: a signal has come to the keeper itself.
func (w *warden) here(sig syscall.Signal) {
	if wait := w.awaited[sig]; len(wait) > 0 {
		w.awaited[sig] = wait[1:]
		return
	}
	now := time.Now()
	list := w.arrived[sig]
	for len(list) > 0 && now.Sub(list[0]) > stale {
		list = list[1:]
	}
	w.arrived[sig] = append(list, now)
}

// stale is the age at which a signal that came to the keeper is taken to have been sent to it alone.
const stale = time.Second

// await: sig has come to launch; if it does not come here too, the program is given it.
func (w *warden) await(sig syscall.Signal, group bool) {
	for len(w.arrived[sig]) > 0 {
		at := w.arrived[sig][0]
		w.arrived[sig] = w.arrived[sig][1:]
		if time.Since(at) < stale {
			return
		}
	}
	w.awaited[sig] = append(w.awaited[sig], passing{group, time.Now().Add(patience)})
}

// timer is when the first awaited signal is due; nil, which is never, if none is.
func (w *warden) timer() <-chan time.Time {
	var first time.Time
	for _, list := range w.awaited {
		if len(list) > 0 && (first.IsZero() || list[0].until.Before(first)) {
			first = list[0].until
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

// pass gives the program the signals that are due.
func (w *warden) pass() {
	now := time.Now()
	for sig, list := range w.awaited {
		for len(list) > 0 && !list[0].until.After(now) {
			w.deliver(sig, list[0].group)
			list = list[1:]
		}
		w.awaited[sig] = list
	}
}

// deliver gives the program sig: itself, as kill(1) would, or its process group, as a terminal would.
func (w *warden) deliver(sig syscall.Signal, group bool) {
	switch {
	case w.pid == 0:
	case group && w.tty >= 0:
		_ = unix.Kill(-w.pid, sig)
	default: // without a terminal of its own its group is launch's too
		_ = unix.Kill(w.pid, sig)
	}
}
