package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBusy is wrapped by the error of [Store.Lock] when another launch holds the lock.
var ErrBusy = errors.New("another launch is at it")

// Lock keeps two launches out of one experiment, whose saved states they would mix. The kernel lets go of it when
// this process ends, however it ends. what names the experiment: its folder.
func (s Store) Lock(what, holder string) (unlock func(), err error) {
	dir := filepath.Join(filepath.Dir(s.Dir), "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of locks: %w", err)
	}
	sum := sha256.Sum256([]byte(what))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", what, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b, _ := os.ReadFile(f.Name())
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s holds %s", ErrBusy, strings.TrimSpace(string(b)), what)
		}
		return nil, fmt.Errorf("locking %s: %w", what, err) // some network file systems cannot
	}
	f.Truncate(0)
	f.WriteString(holder)
	return func() { f.Close() }, nil
}
