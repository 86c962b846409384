package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Follow returns what a path of the user's leads to, its links resolved, and an error where the kernel would follow none
// of them, or open no such file, were it hardened: in a sticky folder that everybody can write to, a link or a file is
// only taken where it belongs to this user or to the folder's owner (fs.protected_symlinks, protected_fifos and
// protected_regular, proc(5)). What is not there yet is returned as it is. Many machines, containers among them, run without those.
func Follow(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	at, todo := "/", split(abs)
	for followed := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return filepath.Join(append([]string{next}, todo...)...), nil // opening it gives the reason
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if link || len(todo) == 0 && !info.IsDir() {
			if err := followable(at, next, info); err != nil {
				return path, err
			}
		}
		if !link {
			at = next
			continue
		}
		if followed++; followed > links {
			return path, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		to, err := os.Readlink(next)
		if err != nil {
			return path, err
		}
		if _, err := os.Lstat(resolved(at, to)); err != nil && len(todo) == 0 { // /proc/self/fd/3 is no path: "pipe:[4711]"
			return next, nil
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		todo = append(split(to), todo...)
	}
	return at, nil
}

// CheckOpen follows a path as the kernel does, and returns an error for the first file, link or folder of it that
// everybody can write to or put something in the place of. It is for what comes with the system, such as an
// interpreter: unlike [CheckFile], it lets another account own that. A path that leads to nothing is no error.
func CheckOpen(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, todo := "/", split(abs)
	for followed := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		folder, err := os.Lstat(at)
		if err != nil {
			return err
		}
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case writable(folder) && (folder.Mode()&fs.ModeSticky == 0 || !info.IsDir()):
			return fmt.Errorf("%w: others can write to %s", ErrShared, at)
		case !isLink(info) && len(todo) == 0 && writable(info):
			return fmt.Errorf("%w: others can write to %s", ErrShared, next)
		case !isLink(info):
			at = next
			continue
		}
		if followed++; followed > links {
			return &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		to, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		todo = append(split(to), todo...)
	}
	return nil
}

func writable(info fs.FileInfo) bool {
	const everybody = 0o002
	return info.Mode().Perm()&everybody != 0
}

func resolved(dir, to string) string {
	if filepath.IsAbs(to) {
		return to
	}
	return filepath.Join(dir, to)
}

// followable is the kernel's rule (may_follow_link and may_create_in_sticky in fs/namei.c). Two owners that this user namespace does
// not know are not taken for one.
func followable(dir, path string, info fs.FileInfo) error {
	in, err := os.Stat(dir)
	if err != nil {
		return err
	}
	const everybody = 0o002
	if in.Mode()&fs.ModeSticky == 0 || in.Mode().Perm()&everybody == 0 {
		return nil
	}
	if o := owner(info); o != os.Geteuid() && (o != owner(in) || o == unmapped()) && (info.Mode()&fs.ModeSymlink != 0 || info.Mode().IsRegular() || info.Mode()&fs.ModeNamedPipe != 0) {
		what := "file"
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			what = "link"
		case info.Mode()&fs.ModeNamedPipe != 0:
			what = "pipe"
		}
		return fmt.Errorf("%w: %s is a %s of uid %d in a folder that everybody can write to", ErrShared, path, what, o)
	}
	return nil
}
