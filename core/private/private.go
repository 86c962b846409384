// Package private keeps launch's own files where no other account can change or swap them, on a machine that is shared.
//
// A path is private where every folder on the way to it belongs to this user or to root, and nobody else can put another
// thing in its place: a folder that others can write is only passed where it is sticky, and what lies in it belongs to
// this user or to root. A link of this user's or of root's own is followed (~/.local -> /big/me), and its way is checked
// as any other. What launch runs (the Python hook, edited recipes) and what it believes (records, receipts) lies there.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/renameio/v2"
)

// ErrShared is wrapped by the errors that say that another account could change what lies there.
var ErrShared = errors.New("another account could change it")

// Check reports why path is no folder of this user's own that nobody else can change. A path of which the end is not
// there yet is private if it would be, made by [MkdirAll].
func Check(path string) error {
	info, err := walk(path)
	switch {
	case err != nil:
		return err
	case info == nil:
		return nil // the way to it is private, and it is made as this user's own
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to uid %d", ErrShared, path, owner(info))
	case othersWrite(info):
		return fmt.Errorf("%w: others can write to %s (chmod go-w mends that)", ErrShared, path)
	}
	return nil
}

// MkdirAll makes a folder with those above it, each for this user alone, and checks that it is private.
func MkdirAll(path string) error {
	if err := Check(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return Check(path) // somebody may have been faster
}

// Temp makes a private folder among the temporary files: in the first of the usual places that is one for this user.
func Temp(pattern string) (string, error) {
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		dir, err := tempIn(base, pattern)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errs[0]
}

func tempIn(base, pattern string) (string, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, pattern)
	if err != nil {
		return "", err
	}
	if err := Check(dir); err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, nil
}

// Open opens a file of this user's own: no link is followed, and what is no regular file, or belongs to another, is refused.
// Nothing is truncated: a caller that wants that does it after it has locked the file.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	// Without O_NONBLOCK a FIFO that lies there would hang launch.
	f, err := os.OpenFile(path, flag&^os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("opening %s: %w: it is a link", path, ErrShared)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("opening %s: it is no regular file", path)
	case owner(info) != os.Geteuid():
		err = fmt.Errorf("opening %s: %w: it belongs to uid %d", path, ErrShared, owner(info))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file as [Open] opens it.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile replaces a file in one step. What it is written as first lies beside it, not in TMPDIR, where renameio would
// put it and another account might exchange it.
func WriteFile(path string, text []byte, perm fs.FileMode) error {
	return renameio.WriteFile(path, text, perm, renameio.WithTempDir(filepath.Dir(path)))
}

// links is how many links a path may have: the kernel's own limit (path_resolution(7)).
const links = 40

// walk follows a path as the kernel does, and reports the first step of it that another account could change. It returns
// what the path leads to, nil where that is not there.
func walk(path string) (fs.FileInfo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at := "/"
	here, err := os.Lstat(at)
	if err != nil {
		return nil, err
	}
	todo := split(path)
	for followed := 0; len(todo) > 0; {
		if !trusted(owner(here)) {
			return nil, fmt.Errorf("%w: %s belongs to uid %d", ErrShared, at, owner(here))
		}
		name := todo[0]
		todo = todo[1:]
		if name == ".." { // of a link: at holds no link any more
			at = filepath.Dir(at)
			if here, err = os.Lstat(at); err != nil {
				return nil, err
			}
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		shared := othersWrite(here)
		switch {
		case shared && here.Mode()&fs.ModeSticky == 0:
			return nil, fmt.Errorf("%w: others can write to %s, which is not sticky", ErrShared, at)
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		case (shared || info.Mode()&fs.ModeSymlink != 0) && !trusted(owner(info)):
			return nil, fmt.Errorf("%w: %s belongs to uid %d", ErrShared, next, owner(info))
		case info.Mode()&fs.ModeSymlink != 0:
			if followed++; followed > links {
				return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
			}
			to, err := os.Readlink(next)
			if err != nil {
				return nil, err
			}
			if filepath.IsAbs(to) {
				at = "/"
				if here, err = os.Lstat(at); err != nil {
					return nil, err
				}
			}
			todo = append(split(to), todo...)
			continue
		case len(todo) > 0 && !info.IsDir():
			return nil, &fs.PathError{Op: "open", Path: next, Err: syscall.ENOTDIR}
		}
		at, here = next, info
	}
	return here, nil
}

func split(path string) (names []string) {
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// Owner is the uid that a file belongs to.
func Owner(info fs.FileInfo) int { return owner(info) }

func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// trusted reports whether what belongs to uid is this user's or the machine's.
func trusted(uid int) bool {
	return uid == 0 || uid == os.Geteuid() || uid == unmapped()
}

// unmapped is the uid that stands for every owner that this user namespace does not know; -1 where it knows all. In a container
// without privileges it is how the machine's own folders look, and root's are among them.
var unmapped = sync.OnceValue(func() int {
	maps, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(maps)), " ") == "0 0 4294967295" {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
})

// othersWrite reports whether another account can write to a folder.
func othersWrite(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return mode&0o020 != 0 && (!ok || !ownGroup(int(s.Gid)))
}

// ownGroup reports whether a group is root's, or this user's alone: many systems give every user a group of the same number,
// and a umask by which it may write.
func ownGroup(gid int) bool {
	switch {
	case gid == 0:
		return true
	case gid != os.Getegid():
		return false
	case gid == os.Geteuid():
		return true
	}
	return alone(os.DirFS("/etc"), gid, os.Geteuid())
}

// alone reports whether an account is the only one of a group, where the files of /etc are all that knows accounts: as in most
// containers, whose volumes are often writable for a group.
func alone(etc fs.FS, gid, uid int) bool {
	const sources = "files compat systemd" // and none of a directory service's (nsswitch.conf(5))
	sole := true
	each := func(name, separator string, see func(f []string)) {
		text, err := fs.ReadFile(etc, name)
		if err != nil {
			sole = sole && errors.Is(err, fs.ErrNotExist)
			return
		}
		for line := range strings.Lines(string(text)) {
			see(strings.Split(strings.TrimSpace(line), separator))
		}
	}
	each("nsswitch.conf", ":", func(f []string) {
		if f[0] == "passwd" || f[0] == "group" || f[0] == "initgroups" {
			for _, source := range strings.Fields(strings.Join(f[1:], " ")) {
				sole = sole && slices.Contains(strings.Fields(sources), source)
			}
		}
	})
	name := ""
	each("passwd", ":", func(f []string) {
		if len(f) > 3 && f[2] == strconv.Itoa(uid) {
			name = f[0]
		} else if len(f) > 3 && f[3] == strconv.Itoa(gid) {
			sole = false
		}
	})
	each("group", ":", func(f []string) {
		if len(f) > 3 && f[2] == strconv.Itoa(gid) {
			for member := range strings.SplitSeq(f[3], ",") {
				sole = sole && (member == "" || member == name)
			}
		}
	})
	return sole
}
