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

// Lock keeps two launches out of one experiment, whose saved states they would mix. The kernel releases it when this
// process ends, however it ends. what names the experiment: its folder.
//
// No single place for the lock reaches every launch that shares an experiment, so it is taken in three: in the state folder,
// which a home shared by machines shares; in a folder of this user on this machine, whatever the state folder is; and on
// the experiment's folder itself once that is there, which containers and other users see. Nothing is written to that.
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
		if err != nil { // some network file systems cannot
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

// lockFile locks a file of launch's own, and writes down who holds it.
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
	f.Truncate(0)
	f.WriteAt([]byte(holder), 0)
	return f, nil
}

// flock takes a lock without waiting for longer than a look at it by another launch may take.
func flock(f *os.File, how int) (err error) {
	for range 10 {
		if err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// located is a path with the links of what is there of it resolved: an experiment has the same name through a link, and before
// its folder is made.
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

// A folderLock is a lock on a folder itself, as soon as it is there, and on the folder that takes its name where the program
// renames it.
type folderLock struct {
	path string
	mu   sync.Mutex
	held *os.File
	is   os.FileInfo
	done chan struct{}
}

// take locks the folder where there is one that is not locked by this process yet. The error is [ErrBusy], or nil: what has
// no locks has none.
func (l *folderLock) take() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	if err != nil || !info.IsDir() || l.is != nil && os.SameFile(info, l.is) {
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

// follow looks for the folder from time to time: most programs make it only once they run.
func (l *folderLock) follow() {
	l.done = make(chan struct{})
	go func() {
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			select {
			case <-l.done:
				return
			case <-time.After(wait):
				l.take()
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
	if l.held != nil {
		l.held.Close()
		l.held = nil
	}
}

// busy says who holds the lock on a folder: nil where that is another account, which everybody who can read the folder
// could be, and by which nobody's training is stopped. The kernel lists the holders that this process can see (proc_locks(5)).
func busy(folder os.FileInfo) error {
	st, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%w: a process that this one cannot see", ErrBusy)
	}
	text, _ := os.ReadFile("/proc/locks")
	others := false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 4711 fd:01:131090 0 EOF
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", st.Ino)) {
			continue
		}
		info, err := os.Stat("/proc/" + f[4]) // where accounts do not see each other's (hidepid), this one's own are there
		if err == nil && (private.Owner(info) == os.Geteuid() || private.Owner(info) == 0) {
			return fmt.Errorf("%w: process %s", ErrBusy, f[4])
		}
		others = true
	}
	if others {
		return nil
	}
	return fmt.Errorf("%w: a process that this one cannot see", ErrBusy)
}
