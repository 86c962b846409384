package proc

/*
#include <signal.h>

static unsigned long long ignored;

// The Go runtime takes most signals before any of its code can look, so that what was ignored is known only before it runs.
__attribute__((constructor)) static void look(void) {
	struct sigaction sa;
	for (int s = 1; s < 32; s++)
		if (sigaction(s, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			ignored |= 1ull << (s - 1);
}

static unsigned long long ignored_at_start(void) { return ignored; }
*/
import "C"

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ignoredAtStart are the signals that this process was started with ignored. Signal n is bit n-1.
var ignoredAtStart = sync.OnceValue(func() uint64 { return uint64(C.ignored_at_start()) })

func ignores(mask uint64, s syscall.Signal) bool { return mask>>(s-1)&1 != 0 }

// covered are the signals that the runtime takes though they were ignored: the program is to find them ignored, as bare.
var covered = []syscall.Signal{unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGTTIN, unix.SIGTTOU,
	unix.SIGWINCH, unix.SIGXCPU, unix.SIGXFSZ}

// ignoring calls f, which starts a program or becomes it, while what of covered is in the mask is ignored, as what is started inherits it.
// Those of again are sent to ch afterwards, as before; others stay ignored.
func ignoring(mask uint64, ch chan<- os.Signal, again []os.Signal, f func()) {
	was := map[os.Signal]bool{}
	for _, s := range covered {
		if ignores(mask, s) {
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
