package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mayRun says why a file may not be run as a plugin, or nil. It is the only place that decides this: a file runs where it, and
// every folder and link on the way to it, belongs to the user or to root and nobody else can write there.
func mayRun(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("it was found by a relative entry of PATH")
	}
	done, todo := "/", names(path)
	for links := 0; ; {
		if len(todo) == 0 {
			return fmt.Errorf("%s is no file", path)
		}
		next := filepath.Join(done, todo[0])
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case todo[0] == "..":
			done, todo = filepath.Dir(done), todo[1:]
		case st.Uid != 0 && int(st.Uid) != os.Geteuid():
			return fmt.Errorf("%s belongs to another account (uid %d)", next, st.Uid)
		case kind == unix.S_IFLNK:
			// A link has no mode of its own; whoever can write its folder can replace it.
			if err := folderOfAFile(done); err != nil {
				return err
			}
			if links++; links > 40 {
				return fmt.Errorf("%s has too many links", path)
			}
			to, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(to) {
				done = "/"
			}
			todo = append(names(to), todo[1:]...)
		case kind == unix.S_IFDIR:
			// In a sticky folder, such as the one for temporary files, nobody replaces what is another's.
			if othersWrite(st) && st.Mode&unix.S_ISVTX == 0 {
				return fmt.Errorf("others can write to %s", next)
			}
			done, todo = next, todo[1:]
		case kind != unix.S_IFREG || len(todo) > 1:
			return fmt.Errorf("%s is no file", path)
		case othersWrite(st):
			return fmt.Errorf("others can write to %s", next)
		default:
			return folderOfAFile(done)
		}
	}
}

// folderOfAFile says whether others can put files into the folder.
func folderOfAFile(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if othersWrite(st) {
		return fmt.Errorf("others can write to %s", dir)
	}
	return nil
}

// othersWrite reports whether an account that is neither the user nor root can write. A group that is the user's alone by
// the custom of most distributions (its number is the user's) and root's group are no others.
func othersWrite(st unix.Stat_t) bool {
	own := st.Gid == 0 || int(st.Gid) == os.Getegid() && os.Getegid() == os.Geteuid()
	return st.Mode&unix.S_IWOTH != 0 || st.Mode&unix.S_IWGRP != 0 && !own
}

func names(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}
