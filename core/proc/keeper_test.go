package proc

import (
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The keeper compares a terminal's settings with those that it was told: all that the kernel fills, and nothing
// beside.
func TestKeepersTermios(t *testing.T) {
	all := [2]unix.Termios{{Iflag: 1, Oflag: 2, Cflag: 3, Lflag: 4, Line: 5, Ispeed: 6, Ospeed: 7}}
	for i := range all[0].Cc {
		all[0].Cc[i] = byte(20 + i)
	}
	beside := unsafe.Slice((*byte)(unsafe.Pointer(&all[1])), unsafe.Sizeof(all[1]))
	for i := range beside { // what lies beside it in memory
		beside[i] = 0xee
	}
	want := syscall.Termios{Iflag: 1, Oflag: 2, Cflag: 3, Lflag: 4, Line: 5, Ispeed: 6, Ospeed: 7}
	copy(want.Cc[:], all[0].Cc[:])
	if got := keepers(&all[0]); *got != want {
		t.Errorf("the keeper is told %+v, and not %+v", *got, want)
	}
}
