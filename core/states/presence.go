package states

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// A Presence is this run's mark on a folder into which several runs may write states. It keeps no run out, but each run
// knows whether it was alone. The kernel removes the mark when this process ends.
type Presence struct {
	file  *os.File
	line  string
	alone bool
}

// Join marks a folder as used by this run, which is named who. The marks are files in dir, a folder of launch's own.
func Join(dir, folder, who string) (*Presence, error) {
	if err := private.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("making the folder of locks: %w", err)
	}
	f, err := private.Open(markOf(dir, folder), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("marking %s: %w", folder, err)
	}
	p := &Presence{file: f, line: oneLine(who)}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil { // earlier runs have ended
		p.alone = true
		err = f.Truncate(0)
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	if err == nil {
		_, err = f.WriteString(p.line)
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
	if err != nil { // some network file systems have no locks
		f.Close()
		return nil, fmt.Errorf("marking %s: %w", folder, err)
	}
	return p, nil
}

// Alone reports whether no other run has marked the folder since this one has.
func (p *Presence) Alone() bool {
	if p == nil || !p.alone {
		return false
	}
	text, err := io.ReadAll(io.NewSectionReader(p.file, 0, 1<<20))
	return err == nil && string(text) == p.line
}

// Undisturbed reports whether the ended run named who left the last mark on the folder, and was alone. Then no other
// run has used the folder since.
func Undisturbed(dir, folder, who string) bool {
	f, err := private.Open(markOf(dir, folder), os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return err == nil && string(text) == oneLine(who)
}

func markOf(dir, folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return filepath.Join(dir, "folder-"+hex.EncodeToString(sum[:8]))
}

func oneLine(who string) string { return strings.ReplaceAll(who, "\n", " ") + "\n" }

// Leave removes the mark.
func (p *Presence) Leave() {
	if p != nil {
		p.file.Close()
	}
}

// Folders lists the folders, absolute and with links resolved, of the globs whose folder has no pattern: every run of
// the project uses them.
func Folders(dir string, globs []string) (out []string) {
	for _, g := range globs {
		if !filepath.IsAbs(g) {
			g = filepath.Join(dir, g)
		}
		if folder := filepath.Dir(strings.TrimSuffix(g, "/")); !strings.ContainsAny(folder, `*?[\`) {
			out = append(out, resolved(folder))
		}
	}
	return out
}

// resolved returns a path with links resolved, as far as the path exists: two projects may link to one folder.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(resolved(up), filepath.Base(path))
	}
	return path
}
