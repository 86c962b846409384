package private

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// launch takes settings from files that nobody but the user can have written: files that the user or root owns and
// nobody else can write (compare git's safe.directory and sshd's StrictModes). It also keeps the list of files that
// the user has approved.
//
// It checks a file and its folder, but not the folders above. An attacker who can move a folder of the user's can only
// replace it by another folder of the user's, because a folder of the attacker's has the wrong owner.

// maxSize bounds the size of a settings file, in bytes; a real one has a few hundred.
const maxSize = 1 << 20

// A Settings is a settings file that was read.
type Settings struct {
	Path string // absolute, with links in the folder's path resolved
	Text []byte
	// Foreign is why somebody other than the user and root may have written it; nil if nobody can have.
	Foreign error
}

// Sum is the SHA-256 of its content.
func (f *Settings) Sum() string {
	sum := sha256.Sum256(f.Text)
	return hex.EncodeToString(sum[:])
}

// ReadSettings reads a settings file. The content is of the file that was checked, even if another one takes its name
// meanwhile. The error wraps fs.ErrNotExist if there is no file. Read opens regular files only, so a FIFO cannot hang
// it.
func ReadSettings(path string) (*Settings, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	f := &Settings{Path: path}
	target, err := f.read(path)
	if target != "" { // a link, for example into a repository of settings
		_, err = f.read(target)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// read reads the file at path. If that is a symbolic link, it returns the link's target instead.
func (f *Settings) read(path string) (target string, err error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	var folder, before, info unix.Stat_t
	if err := unix.Fstat(dir, &folder); err != nil {
		return "", &fs.PathError{Op: "stat", Path: filepath.Dir(path), Err: err}
	}
	if err := unix.Fstatat(dir, filepath.Base(path), &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	me := self()
	f.foreign(me.folder(filepath.Dir(path), &folder))
	switch kind := before.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK && f.Path == path:
		if why := me.owner(&before); why != "" {
			f.foreign(fmt.Errorf("the link %s %s", path, why))
		}
		return filepath.EvalSymlinks(path)
	case kind != unix.S_IFREG:
		return "", fmt.Errorf("%s is %s, not a regular file", path, kindOf(kind))
	}
	fd, err := unix.Openat(dir, filepath.Base(path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := unix.Fstat(fd, &info); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fmt.Errorf("%s was replaced while it was opened", path)
	}
	f.foreign(me.file(path, &info, fd))
	f.Text, err = io.ReadAll(io.LimitReader(file, maxSize+1))
	switch {
	case err != nil:
		return "", err
	case len(f.Text) > maxSize:
		return "", fmt.Errorf("%s is larger than %d KiB", path, maxSize>>10)
	}
	return "", nil
}

// foreign keeps the first reason.
func (f *Settings) foreign(why error) {
	if f.Foreign == nil {
		f.Foreign = why
	}
}

func kindOf(kind uint32) string {
	switch kind {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

// A judge decides for one reader whether somebody else could have written a file.
type judge struct {
	uid    uint32
	others func(mode uint32, gid int, list []byte) bool // see [Others]
}

func self() judge { return judge{uint32(os.Geteuid()), Others} }

// owner returns the owner of a file if it is neither the reader nor root, or "".
func (j judge) owner(info *unix.Stat_t) string {
	if info.Uid == j.uid || info.Uid == 0 {
		return ""
	}
	return fmt.Sprintf("belongs to user %d", info.Uid)
}

// writable returns who else can write a file, by its mode and access list, or "".
func (j judge) writable(info *unix.Stat_t, list []byte) string {
	switch {
	case !j.others(info.Mode, int(info.Gid), list):
		return ""
	case info.Mode&0o002 != 0:
		return "can be written by every user"
	case len(list) > 0:
		return "can be written by others (its access list)"
	}
	return fmt.Sprintf("can be written by group %d", info.Gid)
}

// folder checks the folder of a settings file. In a sticky folder only its owner and the file's owner can replace the
// file, so a sticky folder of the user's own is safe; the shared temporary folder is not.
func (j judge) folder(path string, info *unix.Stat_t) error {
	why := j.owner(info)
	if why == "" && !(info.Uid == j.uid && info.Mode&unix.S_ISVTX != 0) {
		why = j.writable(info, list(func(to []byte) (int, error) { return unix.Getxattr(path, AccessList, to) }))
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("its folder %s %s", path, why)
}

// file checks an open file.
func (j judge) file(path string, info *unix.Stat_t, fd int) error {
	why := j.owner(info)
	if why == "" {
		why = j.writable(info, list(func(to []byte) (int, error) { return unix.Fgetxattr(fd, AccessList, to) }))
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s %s", filepath.Base(path), why)
}

// list returns an access list, nil if there is none.
func list(get func(to []byte) (int, error)) []byte {
	to := make([]byte, 64<<10) // the kernel's limit
	n, err := get(to)
	if err != nil {
		return nil
	}
	return to[:n]
}

// Nearest returns the path of the file of that name that counts in a folder: the nearest one from there up to the
// repository's root or the home folder, both included. Outside of both only the folder's own file counts, because the
// folders above may be anybody's. It returns "" if there is no such file.
//
// A .git of another user does not end the search: in a shared folder its owner could then choose where the search ends.
func Nearest(dir, name, home string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	folders := []string{dir}
	last := 0 // the index of the folder in which the search ends
	me := self()
	for d := dir; ; d = filepath.Dir(d) {
		if d != dir {
			folders = append(folders, d)
		}
		var info unix.Stat_t
		if unix.Lstat(filepath.Join(d, ".git"), &info) == nil && me.owner(&info) == "" || d == home && home != "/" {
			last = len(folders) - 1
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	for _, d := range folders[:last+1] {
		path := filepath.Join(d, name)
		// there may be a file: [ReadSettings] reports it
		if _, err := os.Lstat(path); err == nil || errors.Is(err, fs.ErrPermission) {
			return path
		}
	}
	return ""
}
