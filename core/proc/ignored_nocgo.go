//go:build !cgo

package proc

import (
	"os/signal"
	"sync"
	"syscall"
)

// ignoredAtStart are the signals that this process was started with ignored, as far as a build without cgo can know:
// SIGHUP (nohup) and SIGINT (a shell's background job), which the runtime leaves ignored. It has taken the others before
// any code of Go can look. Signal n is bit n-1.
var ignoredAtStart = sync.OnceValue(func() (mask uint64) {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			mask |= 1 << (s - 1)
		}
	}
	return mask
})
