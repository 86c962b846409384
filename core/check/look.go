package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// Deadline bounds one look at the file system: a network disk may hang.
const Deadline = 3 * time.Second

// A Place is what is at a path.
type Place string

// What is at a path.
const (
	There     Place = "there"
	Missing   Place = "missing"
	Forbidden Place = "forbidden"
	Empty     Place = "empty"
)

// Data is a file or folder of data, and what is there.
type Data struct {
	At    config.Address
	Path  string
	What  string
	State Place
	Err   error // why it is not known
}

// Disk is the file system that a job saves to.
type Disk struct {
	At       string // the folder, or the nearest one above it that exists
	Free     unit.Bytes
	Writable bool
	Err      error
}

// Answers are what Look has read.
type Answers struct {
	Data []Data
	Disk Disk
}

// Look reads whether the data of a job are there, and how much space there is for what it saves. It reads names only,
// and at most one of each folder.
func Look(ctx context.Context, j *job.Job) (out Answers) {
	for _, d := range j.Data {
		path := file.In(j.Command.Dir, d.Path)
		state, err := within(ctx, func() (Place, error) { return placeOf(path) })
		out.Data = append(out.Data, Data{At: d.At, Path: d.Path, What: d.What, State: state, Err: err})
	}
	folder := savesIn(j)
	disk, err := within(ctx, func() (Disk, error) { return diskOf(folder) })
	if err != nil {
		disk = Disk{At: folder, Err: err}
	}
	out.Disk = disk
	return out
}

// within waits for an answer of the file system, and no longer than Deadline. A read that hangs in the kernel is left
// behind: it ends with this process.
func within[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := ask()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("no answer within %v: %w", Deadline, ctx.Err())
	}
}

// placeOf reads what is at a path. A folder with a name in it is not empty, and so is a file with a byte.
func placeOf(path string) (Place, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return Missing, nil
	case errors.Is(err, fs.ErrPermission):
		return Forbidden, nil
	case err != nil:
		return "", err
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", fmt.Errorf("it is %v, and not read", info.Mode().Type())
	case unix.Access(path, unix.R_OK) != nil:
		return Forbidden, nil
	case !info.IsDir() && info.Size() == 0:
		return Empty, nil
	case !info.IsDir():
		return There, nil
	}
	d, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer d.Close()
	switch _, err = d.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return Empty, nil
	case err != nil:
		return "", err
	}
	return There, nil
}

// savesIn is the folder that a job saves its states to: that of the first glob, up to its first pattern.
func savesIn(j *job.Job) string {
	folder := j.Command.Dir
	switch {
	case len(j.Signs.States) > 0:
		parts := strings.Split(filepath.Dir(j.Signs.States[0]), string(filepath.Separator))
		for i, part := range parts {
			if strings.ContainsAny(part, `*?[\`) {
				parts = parts[:i]
				break
			}
		}
		folder = strings.Join(parts, string(filepath.Separator))
		if folder == "" && strings.HasPrefix(j.Signs.States[0], "/") {
			folder = "/"
		}
	case j.Exclusive != "":
		folder = j.Exclusive
	}
	return file.In(j.Command.Dir, folder)
}

// diskOf reads the free space for a folder, which need not exist yet.
func diskOf(folder string) (Disk, error) {
	for {
		info, err := os.Stat(folder)
		if err == nil && info.IsDir() {
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) || folder == filepath.Dir(folder) {
			return Disk{}, fmt.Errorf("reading %s: %w", folder, err)
		}
		folder = filepath.Dir(folder)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return Disk{}, fmt.Errorf("reading the file system of %s: %w", folder, err)
	}
	// #nosec G115 -- a file system has fewer than 2^63 bytes
	return Disk{At: folder, Free: unit.Bytes(int64(s.Bavail) * int64(s.Bsize)), Writable: unix.Access(folder,
		unix.W_OK) == nil}, nil
}
