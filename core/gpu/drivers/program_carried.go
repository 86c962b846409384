//go:build carried

package drivers

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// carried is the program in the folder child, linked to glibc. This program, which is static, starts where there is no glibc.
// `make dist` builds both. It is not compressed: to unpack it would take longer than to start it.
//
//go:embed carried.bin
var carried []byte

// program is the carried program in memory or, where the kernel lacks that or does not run it, as a file of this account's.
func program() (path string, started func(), err error) {
	if path, err := inMemory(); err == nil {
		return path, func() {}, nil
	}
	return inFile()
}

// inMemory writes the program once. Its descriptor is open until this process ends.
var inMemory = sync.OnceValues(func() (path string, err error) {
	fd, err := unix.MemfdCreate("launch-nvml", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // MFD_EXEC came with Linux 6.3, and may be refused
		fd, err = unix.MemfdCreate("launch-nvml", unix.MFD_CLOEXEC)
	}
	if err != nil { // Linux 3.17 and later have it
		return "", err
	}
	f := os.NewFile(uintptr(fd), "launch-nvml")
	path = fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err = f.Write(carried); err == nil {
		err = unix.Access(path, unix.X_OK)
	}
	if err != nil {
		f.Close()
		return "", err
	}
	inMemoryFile = f
	return path, nil
})

var inMemoryFile *os.File // keeps the descriptor from being closed

// inFile writes the program anew each time. Once it was started nobody needs its name.
func inFile() (path string, started func(), err error) {
	dirs := []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		path, failed := writeTo(dir)
		if failed == nil {
			return path, func() { os.Remove(path) }, nil
		}
		err = errors.Join(err, failed)
	}
	return "", nil, fmt.Errorf("no folder takes the program that loads NVIDIA's library: %w", err)
}

func writeTo(dir string) (path string, err error) {
	// A process that is started while the file is open for writing inherits it for a moment, and the kernel runs no program
	// that is open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.CreateTemp(dir, "launch-nvml-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(carried)
	err = errors.Join(err, f.Chmod(0o700), f.Close())
	if err == nil {
		err = unix.Access(f.Name(), unix.X_OK) // EACCES where the folder is mounted noexec
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
