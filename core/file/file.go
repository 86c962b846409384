// Package file reads files of unknown kind: a reader never waits for a FIFO, and never reads without end.
package file

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// An Unread is the error about a file that launch cannot read, but that the program perhaps can: a pipe, another
// encoding, a very long text. It is not a mistake of the user, so the command runs as typed.
type Unread struct{ Why string }

func (e *Unread) Error() string { return e.Why }

// Open opens an ordinary file. For anything else the error is an [*Unread], and the file is not opened at all: opening
// a FIFO would let its writer continue, and take data that are meant for the program.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &Unread{path + " is not an ordinary file"}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a FIFO by now
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &Unread{path + " is not an ordinary file"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads an ordinary file of at most that many bytes. For a longer one the error is an [*Unread].
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, &Unread{fmt.Sprintf("%s has more than %d bytes", path, most)}
	}
	return text, err
}

// In is a path as seen from a folder.
func In(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
