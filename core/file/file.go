// Package file reads files of the user's that may be anything: none of them makes a reader wait, and none is without end.
package file

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// An Unread is the error about what launch cannot read, though the program may: a pipe, a text of another encoding or far too
// long. It is no mistake of the user's, so the command runs as typed.
type Unread struct{ Why string }

func (e *Unread) Error() string { return e.Why }

// Open opens an ordinary file. What is none is not even opened, as to open a FIFO lets its writer go on, and what it then writes
// is the program's; the error is an [*Unread].
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &Unread{path + " is not an ordinary file"}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO meanwhile
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

// Read reads an ordinary file of at most that many bytes; of a longer one the error is an [*Unread].
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
