package keep

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Passable are the signals that are passed on to the program: those that would end, stop or inform it, had they been
// sent to it, except those that this process was started with ignored (nohup, `trap "" INT`): they stay ignored in
// all of us. The runtime keeps real-time signals and the like from ending us, and to catch them all would take a
// millisecond.
//
// The runtime leaves SIGHUP and SIGINT ignored, and takes SIGQUIT, which shells without job control ignore with
// SIGINT in what they put in the background. What else was ignored is passed on: the program may take it, and has it
// ignored if it does not (see Ignoring).
func Passable(ignored uint64) (out []os.Signal) {
	ignored &^= 1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGUSR2-1) | 1<<(syscall.SIGALRM-1) |
		1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGWINCH-1)
	if Ignores(ignored, syscall.SIGQUIT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH} {
		if !Ignores(ignored, s) {
			out = append(out, s)
		}
	}
	return out
}

// Armour has the signals that our own writes can raise (a pipe that nobody reads, RLIMIT_FSIZE) come as errors of
// these writes. By default they end us, and with us the program, which may not print at all. They are caught, because
// what is ignored stays ignored in the program.
var Armour = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ) })

func Ignores(mask uint64, s syscall.Signal) bool { return mask>>(s-1)&1 != 0 }

// covered are the signals that the runtime takes though they were ignored: the program is to find them ignored, as
// bare.
var covered = []syscall.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM,
	syscall.SIGTERM, syscall.SIGTTIN, syscall.SIGTTOU,
	syscall.SIGWINCH, syscall.SIGXCPU, syscall.SIGXFSZ}

// Ignoring calls f, which starts a program or becomes it, while what of covered is in the mask is ignored, as what is
// started inherits it. Those of again are sent to ch afterwards, as before; others stay ignored.
func Ignoring(mask uint64, ch chan<- os.Signal, again []os.Signal, f func()) {
	was := map[os.Signal]bool{}
	for _, s := range covered {
		if Ignores(mask, s) {
			signal.Ignore(s)
			was[s] = true
		}
	}
	f()
	for _, s := range again {
		if was[s] {
			signal.Notify(ch, s)
		}
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
	w.awaited[sig] = append(w.awaited[sig], passing{group, time.Now().Add(Patience)})
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
		_ = syscall.Kill(-w.pid, sig)
	default: // without a terminal of its own its group is launch's too
		_ = syscall.Kill(w.pid, sig)
	}
}
