package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// ErrBusy is wrapped by the errors of [Store.Lock] and [Store.Append] when another launch holds the lock.
var ErrBusy = errors.New("in use by another launch")

// Lock keeps a second launch out of an experiment, because the two would mix their saved states. The kernel releases
// the lock when this process ends. what is the experiment's folder.
//
// No single place reaches every launch that shares an experiment, so Lock locks three: a file in the state folder, for
// machines that share a home; a file in this user's folder on this machine, for other state folders; and the
// experiment's folder itself once it exists, for containers and other users. It writes nothing there.
func (s Store) Lock(what, holder string) (unlock func(), err error) {
	return lock([]string{s.Locks(), machineLocks()}, what, holder)
}

var machineDir = private.MachineDir

// machineLocks is the folder of this user's locks on this machine.
func machineLocks() string {
	return filepath.Join(machineDir(), fmt.Sprintf("launch-locks-%d", os.Geteuid()))
}

func lock(dirs []string, what, holder string) (unlock func(), err error) {
	var held []*os.File
	release := func() {
		for _, f := range held {
			f.Close()
		}
	}
	var errs []error
	sum := sha256.Sum256([]byte(located(what)))
	for _, dir := range dirs {
		f, err := lockFile(filepath.Join(dir, hex.EncodeToString(sum[:8])), holder)
		if errors.Is(err, ErrBusy) {
			release()
			return nil, fmt.Errorf("%w holds %s", err, what)
		}
		if err != nil { // some network file systems have no locks
			errs = append(errs, fmt.Errorf("locking %s: %w", what, err))
			continue
		}
		held = append(held, f)
	}
	folder := &folderLock{path: what}
	if err := folder.take(); errors.Is(err, ErrBusy) {
		release()
		return nil, fmt.Errorf("%w holds %s", err, what)
	}
	if len(held) == 0 {
		folder.release()
		return nil, errors.Join(errs...)
	}
	folder.follow()
	return func() { folder.release(); release() }, nil
}

// lockFile locks a file of launch's own, and writes the holder into it.
func lockFile(path, holder string) (*os.File, error) {
	if err := private.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := private.Open(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		by, _ := io.ReadAll(io.LimitReader(f, 1<<10))
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrBusy, strings.TrimSpace(string(by)))
		}
		return nil, err
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(holder), 0) // it only names the holder
	return f, nil
}

// flock takes a lock. It waits only as long as another launch needs to test the lock.
func flock(f *os.File, how int) (err error) {
	for range 10 {
		if err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// located returns a path with its links resolved, as far as the path exists. So an experiment has one name, even
// through a link or before its folder is made.
func located(path string) string {
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

// A folderLock is a lock on a folder itself, from the moment the folder exists. If the program renames the folder, it
// also locks the new one of that name.
type folderLock struct {
	path string
	mu   sync.Mutex
	held *os.File
	is   os.FileInfo
	done chan struct{}
	over bool // it is released, and nothing is locked any more
}

// take locks the folder, if it exists and this process has not locked it yet. The error is [ErrBusy] or nil; a file
// system without locks is no error.
func (l *folderLock) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	if err != nil || l.over || !info.IsDir() || l.is != nil && os.SameFile(info, l.is) {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return busy(info)
		}
		return nil
	}
	if l.held != nil {
		l.held.Close()
	}
	l.held = f
	l.is, _ = f.Stat()
	return nil
}

// follow looks for the folder from time to time, because most programs make it only after their start.
func (l *folderLock) follow() {
	done := make(chan struct{})
	l.done = done
	go func() {
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			select {
			case <-done:
				return
			case <-time.After(wait):
				_ = l.take()
			}
		}
	}()
}

func (l *folderLock) release() {
	if l.done != nil {
		close(l.done)
		l.done = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true // follow may be about to look once more
	if l.held != nil {
		l.held.Close()
		l.held = nil
	}
}

// busy returns an error that names the holder of the lock on a folder. It returns nil if only other accounts hold it:
// anyone who can read the folder could lock it, and must not stop a training. The kernel lists the holders that this
// process can see (proc_locks(5)).
func busy(folder os.FileInfo) error {
	st, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w; its process is not visible from here", ErrBusy)
	}
	text, _ := os.ReadFile("/proc/locks")
	others := false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 4711 fd:01:131090 0 EOF
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", st.Ino)) {
			continue
		}
		info, err := os.Stat("/proc/" + f[4]) // even with hidepid, this account sees its own processes
		if err == nil && (private.Owner(info) == os.Geteuid() || private.Owner(info) == 0) {
			return fmt.Errorf("%w: process %s", ErrBusy, f[4])
		}
		others = true
	}
	if others {
		return nil
	}
	return fmt.Errorf("%w; its process is not visible from here", ErrBusy)
}
