package private

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Save writes a whole document or nothing, where the user wants it: into a file of its own that then takes the name.
// What is no ordinary file (a device, a pipe) is written to, and a link is followed. A descriptor (/dev/stdout,
// /dev/fd/3) is written to where it stands: what the program has printed there is not written over.
//
// In a folder that everybody can write to it follows no link of another account's, as the kernel does where it is hardened.
func Save(path string, b []byte) error {
	if fd, ok := descriptor(path); ok {
		return writeTo(fd, b)
	}
	path, err := Follow(path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		return WriteFile(path, b, 0o644)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// descriptor is the descriptor of this process that a path names.
func descriptor(path string) (fd int, ok bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, below := strings.CutPrefix(path, folder); below {
			n, err := strconv.ParseUint(number, 10, 16)
			return int(n), err == nil
		}
	}
	return 0, false
}

func writeTo(fd int, b []byte) error {
	syscall.ForkLock.RLock()
	own, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(own)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/fd/" + strconv.Itoa(fd), Err: err}
	}
	f := os.NewFile(uintptr(own), "/dev/fd/"+strconv.Itoa(fd))
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
