package record

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// StateDir returns the state folder: in the XDG base directory for state or, without a home of this user's, a private
// folder among the temporary files.
func StateDir() string {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "launch")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" && filepath.IsAbs(home) {
		// sudo or a container may leave another user's folder in HOME, and that user could change the records. A volume
		// that is mounted as a home may belong to root and be writable.
		info, err := os.Stat(home)
		if err == nil && info.IsDir() && (private.Owner(info) == os.Geteuid() || private.Owner(info) == 0 && unix.Access(home, unix.W_OK) == nil) {
			return filepath.Join(home, ".local", "state", "launch")
		}
	}
	return filepath.Join(private.TempDir(), fmt.Sprintf("launch-%d", os.Getuid()))
}

// OwnState returns the state folder. If another account could change its files, it returns a new folder among the
// temporary files, and a warning. The folder is made when something is written to it.
func OwnState(dir string) (own, warning string) {
	why := private.Check(dir)
	if !errors.Is(why, private.ErrShared) { // a folder that cannot be written is reported at the first write
		return dir, ""
	}
	fresh := dir
	for _, base := range []string{private.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		var salt [8]byte
		rand.Read(salt[:])
		fresh = filepath.Join(base, fmt.Sprintf("launch-%d-%x", os.Getuid(), salt))
		if private.Check(fresh) == nil {
			break
		}
	}
	return fresh, fmt.Sprintf("launch does not use the state folder %s: %v. It writes records to %s; --state-dir "+
		"sets another folder", dir, why, fresh)
}
