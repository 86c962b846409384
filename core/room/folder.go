package room

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/private"
)

const prefix = "launch-claims-"

// bases lists the folders in which a folder of claims may be: first the temporary files that all launches of this
// machine see, then, if another account has taken the name there, the next.
var bases = private.Shared

// place returns this account's folder of claims, which may not exist yet.
func place() (string, error) {
	var first error
	for _, base := range bases() {
		dir := filepath.Join(base, prefix+strconv.Itoa(os.Geteuid()))
		err := private.Check(dir)
		if err == nil {
			_, err = os.Stat(base)
		}
		if _, there := os.Lstat(dir); err == nil && there != nil { // in a container the first base may be read-only
			err = unix.Access(base, unix.W_OK|unix.X_OK)
		}
		if err == nil {
			return dir, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", fmt.Errorf("finding a folder for claims: %w", first)
}

// own makes this account's folder of claims, which others may read.
func own() (string, error) {
	dir, err := place()
	if err != nil {
		return "", err
	}
	if err = os.Mkdir(dir, 0o755); err == nil {
		err = os.Chmod(dir, 0o755) // independent of the umask
	} else if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err == nil {
		err = private.Check(dir) // another account may have been faster
	}
	if err != nil {
		return "", fmt.Errorf("making the folder of claims: %w", err)
	}
	return dir, nil
}

// alone waits until no other launch of this account uses the claims. Its lock is private to this account, so that no
// other account can hold it.
func alone(dir string) (unlock func(), err error) {
	f, err := private.Open(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the claims: %w", err)
	}
	for range 500 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Close()
	return nil, fmt.Errorf("%w: %w", ErrClaims, err)
}

// ErrClaims is wrapped by the error of a decision that other launches did not let begin.
var ErrClaims = errors.New("locking the claims")

// ClaimsWithin makes base the only folder in which the folders of claims are looked for and made. It is for tests,
// whose launches must not meet the claims of the machine.
func ClaimsWithin(base string) { bases = func() []string { return []string{base} } }

// SharedPath is the place of a file that launches of this account share beside their claims, such as what one of
// them has seen of the cards.
func SharedPath(name string) (string, error) {
	dir, err := own()
	return filepath.Join(dir, name), err
}

// ClaimStamp changes when a claim of this account is made, changed or released. A change within a few milliseconds
// of an earlier one may leave it as it was, and so does the death of a launch: see [BuryClaims].
func ClaimStamp() time.Time {
	dir, err := place()
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// BuryClaims removes the claims of this account's launches that were killed, so that Stamp changes. They count no
// more even if nobody does. It does nothing if another launch did so less than a time ago.
func BuryClaims(ago time.Duration) {
	dir, err := place()
	if err != nil {
		return
	}
	done, now := filepath.Join(dir, ".buried"), time.Now()
	if info, err := os.Stat(done); err == nil && now.Sub(info.ModTime()).Abs() < ago {
		return
	}
	if os.Chtimes(done, now, now) != nil {
		if f, err := private.Open(done, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			f.Close()
		}
	}
	locks, _ := filepath.Glob(filepath.Join(dir, "*.lock"))
	if !slices.ContainsFunc(locks, func(path string) bool { return filepath.Base(path) != ".lock" && !locked(path) }) {
		return
	}
	if unlock, err := alone(dir); err == nil {
		defer unlock()
		tidy(dir)
	}
}

// tidy removes this account's claims whose launch has ended.
func tidy(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*.lock"))
	for _, path := range locks {
		if filepath.Base(path) != ".lock" && !locked(path) {
			os.Remove(strings.TrimSuffix(path, ".lock") + ".next")
			os.Remove(strings.TrimSuffix(path, ".lock") + ".json")
			os.Remove(path)
		}
	}
}

func locked(path string) bool {
	f, err := private.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Bounds of what is read from other accounts.
const (
	mostFolders = 100
	mostFiles   = 200
	mostText    = 4 << 10
	mostBytes   = 1 << 50
)

// Claims returns the claims that are held on this machine, those of other accounts included.
func Claims() (held []Held) {
	mine, _ := place()
	if mine != "" {
		held = in(mine)
	}
	for _, base := range bases() {
		dirs, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
		for _, dir := range dirs[:min(len(dirs), mostFolders)] {
			if filepath.Base(dir) != prefix+strconv.Itoa(os.Geteuid()) {
				held = append(held, in(dir)...)
			}
		}
	}
	return held
}

// in lists the claims in one folder, of any account.
func in(dir string) (held []Held) {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil || filepath.Base(dir) != prefix+strconv.Itoa(private.Owner(info)) {
		return nil
	}
	uid := private.Owner(info)
	most := 2 * mostFiles
	if uid == os.Geteuid() { // one that is left out would be memory that is promised twice
		most = -1
	}
	names, _ := d.Readdirnames(most)
	for _, name := range names {
		if stem, ok := strings.CutSuffix(name, ".json"); ok {
			if h, ok := read(d, name, uid); ok && alive(h, filepath.Join(dir, stem+".lock")) {
				held = append(held, h)
			}
		}
	}
	slices.SortFunc(held, func(a, b Held) int { return a.Since.Compare(b.Since) })
	return held
}

// read reads one claim, relative to its folder.
func read(dir *os.File, name string, uid int) (h Held, ok bool) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || private.Owner(info) != uid || info.Size() > mostText {
		return h, false
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil || json.Unmarshal(text, &h) != nil || h.Bytes <= 0 || h.Bytes > mostBytes || h.PID <= 0 {
		return h, false
	}
	if h.UID = uid; uid != os.Geteuid() && uid != 0 { // no text of another account is shown
		h.Resource, h.Among = known(h.Resource), nil
		h.Start = ""
	}
	return h, true
}

// uuid is what a card's UUID looks like.
var uuid = lazy.MustCompile(`^(?:GPU|MIG)-[0-9a-fA-F/-]{1,80}$`)

// known is a resource without what could be a text of another account's.
func known(r Resource) Resource {
	switch {
	case r.Kind == HostMemory.Kind:
		return HostMemory
	case r.Kind == Card("").Kind && uuid.MatchString(r.ID):
		return r
	}
	return Resource{Kind: "another resource"}
}

// alive reports whether a claim is still held. For this account the lock decides. For other accounts, whose locks this
// process cannot open, the process decides.
func alive(h Held, lock string) bool {
	if h.UID == os.Geteuid() {
		return locked(lock)
	}
	info, err := os.Stat("/proc/" + strconv.Itoa(h.PID))
	return err == nil && private.Owner(info) == h.UID && (h.Start == "" || h.Start == start(h.PID))
}

var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// start identifies the start of a process: the boot ID, and field 22 of /proc/PID/stat (proc_pid_stat(5)).
func start(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return ""
	}
	return boot() + ":" + f[19]
}
