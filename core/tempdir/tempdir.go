// Package tempdir makes folders of launch's own for a while: nobody else can look into them, and the path of a socket in one is
// not too long, wherever TMPDIR leads.
package tempdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLen is how long the path of a folder may be. A socket's name has 108 bytes (sun_path, unix(7)) with the zero at its end,
// and go-plugin takes at most "/plugin-dir" and "/plugin" with ten digits each beyond the folder.
const maxLen = 108 - 1 - len("/plugin-dir0123456789/plugin0123456789")

// New makes a folder, of mode 0700, in the first place where that can be done and where nobody can put another in its place:
// TMPDIR, the system's temporary folders, the user's runtime folder, or one of further. The caller removes it. A path with a
// colon is avoided: it cannot be put into a list of paths.
func New(further ...string) (string, error) {
	return in(append([]string{os.Getenv("TMPDIR"), "/tmp", "/var/tmp", os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"}, further...))
}

// safe reports whether nobody but the user and root can replace a folder that the user makes there.
func safe(place string) error {
	var info unix.Stat_t
	if err := unix.Stat(place, &info); err != nil {
		return &os.PathError{Op: "stat", Path: place, Err: err}
	}
	if info.Uid != 0 && info.Uid != uint32(os.Getuid()) || info.Mode&0o022 != 0 && info.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("others can replace what lies in %s", place)
	}
	return nil
}

func in(places []string) (string, error) {
	var errs []error
	for _, place := range places {
		if !filepath.IsAbs(place) || strings.ContainsRune(place, filepath.ListSeparator) {
			continue
		}
		err := safe(place)
		dir := ""
		if err == nil {
			dir, err = os.MkdirTemp(place, "launch-")
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(dir) > maxLen:
			os.Remove(dir)
			errs = append(errs, fmt.Errorf("%s is too long for a socket's name", place))
		default:
			return dir, nil
		}
	}
	return "", fmt.Errorf("making a temporary folder: %w", errors.Join(errs...))
}
