package keep

import (
	"syscall"
	"unsafe"
)

// The calls that package syscall lacks. x/sys/unix has them, and with it a keeper would be prepared for a millisecond
// longer: its init waits for that of all it imports, and of all that the linker puts in between.

const (
	prSetName           = 15
	prSetChildSubreaper = 36
	sigBlock            = 0
	sigSetMask          = 2
	pollOut             = 4
)

// setName names this thread.
func setName(name string) {
	var text [16]byte
	copy(text[:len(text)-1], name)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&text)), 0, 0, 0, 0)
}

// adoptOrphans makes this process the next parent of what its descendants leave behind.
func adoptOrphans() {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
}

func ioctl(fd, request int, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// limitData sets the RLIMIT_DATA of another process.
func limitData(pid int, limit syscall.Rlimit) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_DATA,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
}

// signalMask sets which signals this thread does not take, and returns which it did not.
func signalMask(how int, mask uint64) (was uint64) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, uintptr(how), uintptr(unsafe.Pointer(&mask)),
		uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was
}

// writable waits until fd can be written to, for so many milliseconds, -1 for ever, and reports whether it can.
func writable(fd, ms int) bool {
	poll := struct {
		fd             int32
		events, reveal int16
	}{int32(fd), pollOut, 0}
	var limit *syscall.Timespec
	if ms >= 0 {
		t := syscall.NsecToTimespec(int64(ms) * 1e6)
		limit = &t
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
		uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	return errno == 0 && n > 0
}
