package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/identity"
)

// A stdin is the standard input that a run's attempts read, one after the other.
type stdin struct {
	file *os.File
	from int64 // of a file: where the first attempt begins to read
	held int   // of a pipe: how many bytes it held before the first attempt
}

// begin notes what the first attempt finds.
func (i *stdin) begin(f *os.File) {
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
		i.file, i.held = f, holds(f)
	}
}

// again gives the next attempt what the first one found: a file from there on. Of a pipe that was read it returns what
// differs.
func (i *stdin) again() []identity.Difference {
	switch {
	case i.file == nil:
	case i.held == 0:
		i.file.Seek(i.from, io.SeekStart) // of a pipe it fails, and does nothing
	case holds(i.file) == 0:
		was := "a pipe"
		return []identity.Difference{{Kind: identity.Data, Name: "what stood in standard input", Was: &was}}
	}
	return nil
}

// holds is how many bytes a pipe holds.
func holds(f *os.File) int {
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
