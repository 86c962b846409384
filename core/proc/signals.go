package proc

import (
	"bufio"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

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

// caught is the runtime's handler of SIGTSTP. What a signal does is the whole process's: catching is held while it
// changes.
var (
	caught   sigaction
	catching sync.Mutex
)

// catch sends the signals that are meant for the program to ch, until the returned function is called.
func catch(ch chan os.Signal) (release func()) {
	catching.Lock()
	defer catching.Unlock()
	stop := action(unix.SIGTSTP, nil)
	signal.Notify(ch, keep.Passable(ignoredAtStart())...)
	if now := action(unix.SIGTSTP, nil); now[0] > 1 {
		caught = now
	} else if now[0] == 0 && caught[0] != 0 {
		action(unix.SIGTSTP, &caught) // the runtime believes that it is still there
	}
	return func() {
		catching.Lock()
		defer catching.Unlock()
		signal.Stop(ch)
		action(unix.SIGTSTP, &stop)
	}
}
