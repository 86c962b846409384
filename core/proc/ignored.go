package proc

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

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
