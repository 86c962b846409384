// Package private keeps to what no other account can have changed, on a machine that is shared: launch's own files,
// which it keeps so; the settings files of others, which it believes only then (trust.go); and the programs of the
// system, which it starts from no folder that may have been cloned (programs.go).
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
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/google/renameio/v2"
)

// ErrShared is wrapped by the errors for what another account could change.
var ErrShared = errors.New("another account could change it")

// Check returns an error unless path is a folder of this user that no other account can change. A path whose last folders
// do not exist yet is private if [MkdirAll] would make it so.
func Check(path string) error {
	info, err := walk(path, false)
	switch {
	case err != nil:
		return err
	case info == nil:
		return nil // the way to it is private, and it is made as this user's own
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to uid %d", ErrShared, path, owner(info))
	case othersWrite(path, info):
		return fmt.Errorf("%w: others can write to %s (chmod go-w mends that)", ErrShared, path)
	}
	return nil
}

// CheckFile returns an error unless only this user or root can have put the file there: it is for what is run together with
// the files beside it. It is stricter than [Check]: a sticky folder may be on the way, but neither the file nor a link to it
// may lie in one, because others can put files beside it.
func CheckFile(path string) error {
	info, err := walk(path, true)
	switch {
	case err != nil:
		return err
	case info == nil:
		return &fs.PathError{Op: "lstat", Path: path, Err: syscall.ENOENT}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	}
	return nil
}

// CheckInfo returns an error if a file or folder, which is no link, belongs to another account or others can write to
// it. It is for what lies below a folder that was checked.
func CheckInfo(path string, info fs.FileInfo) error {
	switch {
	case !mine(owner(info)):
		return belongs(path, info)
	case othersWrite(path, info):
		return fmt.Errorf("%w: others can write to %s (chmod go-w mends that)", ErrShared, path)
	}
	return nil
}

// MkdirAll makes a folder with those above it, each for this user alone, and checks that it is private.
func MkdirAll(path string) error {
	if err := Check(path); err != nil {
		return err
	}
	above := filepath.Dir(path)
	if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) && above != path {
		if err := MkdirAll(above); err != nil {
			return err
		}
	}
	// The folder above is looked at where it is open: another account may have put its own there since the check, and
	// then nothing is made in it.
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer root.Close()
	switch info, err := root.Stat("."); {
	case err != nil:
		return err
	case !trusted(owner(info)):
		return belongs(above, info)
	}
	if err := root.Mkdir(filepath.Base(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Check(path) // another process may have made it first
}

// Temp makes a private folder whose name begins with prefix, in the first place that allows it and has room: TMPDIR, the
// system's temporary folders, the user's runtime folder, or one of further. The caller removes it. Its path is short enough
// for a socket in it, and has no colon, so that it can be part of a list of paths.
func Temp(prefix string, further ...string) (string, error) {
	return tempIn(prefix, append([]string{os.Getenv("TMPDIR"), "/tmp", "/var/tmp", os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"}, further...))
}

// HasRoom reports whether files can be written to a folder of launch's own: its disk is not full, and no quota is used up.
func HasRoom(dir string) bool {
	path := filepath.Join(dir, "room")
	defer os.Remove(path)
	return os.WriteFile(path, make([]byte, 64<<10), 0o600) == nil
}

// longest is how long the path of a folder for a socket may be. A socket's name has 108 bytes (sun_path, unix(7)) with the zero at
// its end, and go-plugin takes at most "/plugin-dir" and "/plugin" with ten digits each beyond the folder.
const longest = 108 - 1 - len("/plugin-dir0123456789/plugin0123456789")

func tempIn(prefix string, places []string) (string, error) {
	var errs []error
	for _, place := range places {
		if !filepath.IsAbs(place) || strings.ContainsRune(place, filepath.ListSeparator) {
			continue
		}
		err := Check(filepath.Join(place, prefix)) // before anything is made there
		dir := ""
		if err == nil || !errors.Is(err, ErrShared) {
			dir, err = os.MkdirTemp(place, prefix)
		}
		if err == nil {
			if err = Check(dir); err == nil && len(dir) > longest {
				err = fmt.Errorf("%s is too long for a socket's name", place)
			} else if err == nil && !HasRoom(dir) {
				err = fmt.Errorf("%s: %w", place, syscall.ENOSPC)
			}
			if err == nil {
				return dir, nil
			}
			os.Remove(dir)
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("making a temporary folder: %w", errors.Join(errs...))
}

// Open opens a file of this user. It follows no link, and refuses what is no regular file or belongs to another account. It
// does not truncate: a caller that wants that does it after it has locked the file.
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

// WriteFile replaces a file in one step. The temporary file lies beside it, not in TMPDIR, where renameio would put it and
// another account might exchange it.
func WriteFile(path string, text []byte, perm fs.FileMode) error {
	return renameio.WriteFile(path, text, perm, renameio.WithTempDir(filepath.Dir(path)))
}

// links is how many links a path may have: the kernel's own limit (path_resolution(7)).
const links = 40

// walk follows a path as the kernel does, and refuses the first step of it that another account could change. It returns
// what the path leads to, nil if that does not exist. file: it has to be a file, as [CheckFile] demands.
func walk(path string, file bool) (fs.FileInfo, error) {
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
			return nil, belongs(at, here)
		}
		name := todo[0]
		todo = todo[1:]
		if name == ".." { // from a link's text: the links in at were followed already
			at = filepath.Dir(at)
			if here, err = os.Lstat(at); err != nil {
				return nil, err
			}
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		shared := othersWrite(at, here)
		switch {
		case shared && here.Mode()&fs.ModeSticky == 0:
			return nil, fmt.Errorf("%w: others can write to %s, which is not sticky", ErrShared, at)
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		if err := (step{at, here, shared, next, info}).check(file); err != nil {
			return nil, err
		}
		switch {
		case isLink(info):
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

// A step of a path leads from a folder to an entry of it.
type step struct {
	from   string
	folder fs.FileInfo
	shared bool // others can write to the folder
	to     string
	info   fs.FileInfo // of to
}

// check refuses a step to what another account could have put there or could change. file: the path has to lead to a file, so
// its last step is the one to something that is no folder.
func (s step) check(file bool) error {
	link := isLink(s.info)
	end := file && (link || !s.info.IsDir())
	switch {
	case end && !mine(owner(s.info)), s.shared && !mine(owner(s.info)), link && !trusted(owner(s.info)):
		return belongs(s.to, s.info)
	case end && s.shared:
		return fmt.Errorf("%w: others can write to %s", ErrShared, s.from)
	case end && !link && !mine(owner(s.folder)): // the folder's owner may put files beside it
		return belongs(s.from, s.folder)
	case end && !link && othersWrite(s.to, s.info):
		return fmt.Errorf("%w: others can write to %s", ErrShared, s.to)
	}
	return nil
}

func isLink(info fs.FileInfo) bool { return info.Mode()&fs.ModeSymlink != 0 }

func belongs(path string, info fs.FileInfo) error {
	return fmt.Errorf("%w: %s belongs to uid %d", ErrShared, path, owner(info))
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

// mine reports whether what belongs to uid is this user's or root's.
func mine(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// trusted reports whether a folder on the way, or a link in a folder that no other account can write, belongs to this user or
// to the machine.
func trusted(uid int) bool { return mine(uid) || uid == unmapped() }

// unmapped is the uid that stands for every owner that this user namespace does not map; -1 if it maps all. In a container
// without privileges the machine's own folders, root's among them, appear under it. So do those of other accounts: in a
// folder that everybody can write to, it is not trusted.
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
