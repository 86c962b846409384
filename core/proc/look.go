package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var errNotFound = errors.New("not found")

// Find finds the file that a shell would execute for a command in a folder with an environment. Its error is a [*StartError].
func Find(args []string, dir string, env []string) (string, error) {
	return look(Spec{Args: args, Dir: dir, Env: env})
}

// look finds the file that a shell would execute for s. A relative path is relative to s.Dir, where it is executed.
func look(s Spec) (string, error) {
	name := s.Args[0]
	if s.Dir != "" {
		if fi, err := os.Stat(s.Dir); err != nil {
			return "", &StartError{name, err}
		} else if !fi.IsDir() {
			return "", &StartError{name, &os.PathError{Op: "chdir", Path: s.Dir, Err: syscall.ENOTDIR}}
		}
	}
	if strings.Contains(name, "/") {
		if err := executable(s.Dir, name); err != nil {
			return "", &StartError{name, err}
		}
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(getenv(s.Env, "PATH", "/usr/local/bin:/usr/bin:/bin")) {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name // not Join: "./x" has to keep its slash
		switch err := executable(s.Dir, path); {
		case err == nil:
			return path, nil
		case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EISDIR):
			if fi, e := os.Stat(abs(s.Dir, path)); denied == nil && e == nil && !fi.IsDir() {
				denied = err
			}
		}
	}
	if denied != nil {
		return "", &StartError{name, denied}
	}
	return "", &StartError{name, errNotFound}
}

func abs(dir, path string) string {
	if dir == "" || strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

func executable(dir, path string) error {
	path = abs(dir, path)
	fi, err := os.Stat(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			return pe.Err
		}
		return err
	}
	if fi.IsDir() {
		return syscall.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// getenv is the last value of key in env, as execvp's caller would see it, or def.
func getenv(env []string, key, def string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return def
}
