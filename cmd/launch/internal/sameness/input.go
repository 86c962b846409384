package sameness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
)

// A Stdin is the standard input that a run's attempts read, one after the other.
type Stdin struct {
	file *os.File
	from int64 // of a file: where the first attempt begins to read
	held int   // of a pipe: how many bytes it held before the first attempt
}

// Begin notes what the first attempt finds.
func (i *Stdin) Begin(f *os.File) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if from, err := f.Seek(0, io.SeekCurrent); err == nil {
			i.file, i.from = f, from
		}
	case mode&os.ModeNamedPipe != 0:
		i.file, i.held = f, holds(int(f.Fd()))
	}
}

// Again gives the next attempt what the first one found: a file from there on. Of a pipe that was read it returns what
// differs.
func (i *Stdin) Again() []identity.Difference {
	switch {
	case i.file == nil:
	case i.held == 0:
		i.file.Seek(i.from, io.SeekStart) // of a pipe it fails, and does nothing
	case holds(int(i.file.Fd())) == 0:
		return []identity.Difference{wasPipe("standard input")}
	}
	return nil
}

// wasPipe tells that what stood in a pipe is gone.
func wasPipe(name string) identity.Difference {
	was := "a pipe"
	return identity.Difference{Kind: identity.Data, Name: "what stood in " + name, Was: &was}
}

// A Pipe is one that an argument names, such as the /dev/fd/63 of a shell's <(...): its first reader alone gets what
// stands in it.
type Pipe struct {
	name string
	fd   int // -1: it is named by a path
	held int // how many bytes it held when it was found
}

var descriptor = lazy.MustCompile(`^/(?:dev|proc/self)/fd/([0-9]{1,9})$`)

// descriptorOf is the descriptor that a path names; -1: none.
func descriptorOf(path string) int {
	if i := slices.Index([]string{"/dev/stdin", "/dev/stdout", "/dev/stderr"}, path); i >= 0 {
		return i
	}
	fd := -1
	if m := descriptor.FindStringSubmatch(path); m != nil {
		fd, _ = strconv.Atoi(m[1])
	}
	return fd
}

// PipesOf lists the pipes that the arguments of a command name. One that can only be written to is none.
func PipesOf(c job.Command) (found []Pipe) {
	for _, a := range c.Args {
		_, value, joined := strings.Cut(a, "=")
		if !joined {
			value = a
		}
		path := value
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Dir, path)
		}
		info, err := os.Stat(path)
		if value == "" || err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			continue
		}
		p := Pipe{name: value, fd: descriptorOf(path)}
		if p.fd == 1 || p.fd == 2 { // outputs
			continue
		}
		if p.fd >= 0 {
			if how, err := unix.FcntlInt(uintptr(p.fd), unix.F_GETFL, 0); err == nil && how&unix.O_ACCMODE == unix.O_WRONLY {
				continue
			}
			p.held = holds(p.fd)
		}
		found = append(found, p)
	}
	return found
}

// Again tells whether what stood in a pipe is gone. Who opened one by its path is not known: it counts as read.
func (p Pipe) Again() []identity.Difference {
	if p.held > 0 && holds(p.fd) >= p.held {
		return nil
	}
	return []identity.Difference{wasPipe(p.name)}
}

// NoPipes refuses a command of which a row would read what an earlier row has read, or a standard input that rows lack.
func NoPipes(c job.Command) error {
	for _, a := range c.Args {
		if descriptorOf(a[strings.Index(a, "=")+1:]) == 0 {
			return fmt.Errorf("the rows of a sweep have no standard input, and the command names it (%s): put it into a file", a)
		}
	}
	if found := PipesOf(c); len(found) > 0 {
		return errors.New(found[0].name + " is a pipe, of which one row would read what the others lack: put it into a file")
	}
	return nil
}

// holds is how many bytes a pipe holds.
func holds(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
