package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// How much of a program's output is kept: its beginning and its end. While the program runs, the end is in several
// files: the oldest can be removed, and a kill loses nothing of the newest.
var (
	headKept    int64 = 8 << 20
	segment     int64 = 8 << 20
	segmentKept       = 3 // complete files, besides the one being written
)

// An Output keeps what a program prints in a file of bounded size. If the output is longer, the part between head and
// tail is left out, and a line in its place gives its size.
//
// Until Close, the tail is in files of its own beside the head's, named by their offset in the output. [OpenOutput]
// joins the files of an output that was never closed.
type Output struct {
	path  string
	file  *os.File // the one being written
	n     int64    // bytes of the whole output so far
	began int64    // offset of the file in the output
	tails []string // the older files of the tail
}

// CreateOutput begins a file of output.
func CreateOutput(path string) (*Output, error) {
	f, err := private.Open(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Output{path: path, file: f}, nil
}

// Write implements [io.Writer].
func (o *Output) Write(p []byte) (wrote int, err error) {
	for len(p) > 0 {
		end := o.began + segment
		if o.began == 0 {
			end = headKept
		}
		if o.n >= end {
			if err := o.next(); err != nil {
				return wrote, err
			}
			continue
		}
		n, err := o.file.Write(p[:min(int64(len(p)), end-o.n)])
		o.n += int64(n)
		wrote += n
		if err != nil {
			return wrote, err
		}
		p = p[n:]
	}
	return wrote, nil
}

const tailMark = ".tail-"

// next continues in a new file, and removes the oldest file of the tail.
func (o *Output) next() error {
	path := fmt.Sprintf("%s%s%015d", o.path, tailMark, o.n)
	f, err := private.Open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if o.began > 0 {
		o.tails = append(o.tails, o.file.Name())
	}
	o.file.Close()
	o.file, o.began = f, o.n
	for len(o.tails) > segmentKept {
		os.Remove(o.tails[0])
		o.tails = o.tails[1:]
	}
	return nil
}

// Close joins head and tail in one file.
func (o *Output) Close() error {
	err := o.file.Close()
	if o.began == 0 || err != nil {
		return err
	}
	in, err := OpenOutput(o.path)
	if err != nil {
		return err
	}
	defer in.Close()
	// The joined file replaces the head in one step: after a kill one or the other exists.
	joined, err := private.Open(o.path+".joined", os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.Copy(joined, in)
		err = errors.Join(err, joined.Close())
	}
	if err == nil {
		err = os.Rename(o.path+".joined", o.path)
	}
	if err != nil { // a full disk: head and tail stay as they are, and can be read
		os.Remove(o.path + ".joined")
		return err
	}
	for _, t := range tails(o.path) {
		os.Remove(t.path)
	}
	return nil
}

// note replaces the part of an output that was left out.
const note = "\n[launch: %d bytes of the output were left out here]\n"

var noted = lazy.MustCompile(`^\n\[launch: (\d+) bytes of the output were left out here\]\n`)

type tailFile struct {
	path  string
	began int64
}

// tails lists the files of an output's tail, in order.
func tails(path string) (out []tailFile) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if at, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+tailMark); ok {
			if began, err := strconv.ParseInt(at, 10, 64); err == nil {
				out = append(out, tailFile{filepath.Join(filepath.Dir(path), e.Name()), began})
			}
		}
	}
	slices.SortFunc(out, func(a, b tailFile) int { return int(a.began - b.began) })
	return out
}

// apart lists the tail files of an output that was never joined; none if the output is in one file.
func apart(path string) []tailFile {
	info, err := os.Stat(path)
	if err != nil || info.Size() > headKept { // it was joined, but launch was killed before it removed these
		return nil
	}
	return tails(path)
}

// OpenOutput opens a program's output: the file, or head, note and tail if they were never joined.
func OpenOutput(path string) (io.ReadCloser, error) {
	rest := apart(path)
	if len(rest) == 0 {
		return os.Open(path)
	}
	return openAll(append([]tailFile{{path: path}}, rest...))
}

// openAll joins files of an output, with a note where a part between two is missing.
func openAll(files []tailFile) (io.ReadCloser, error) {
	out := &joined{}
	var parts []io.Reader
	end := int64(-1)
	for _, t := range files {
		f, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile: the program is still running
			continue
		}
		if err != nil {
			out.Close()
			return nil, err
		}
		if end >= 0 && t.began > end {
			parts = append(parts, strings.NewReader(fmt.Sprintf(note, t.began-end)))
		}
		parts, out.closers = append(parts, f), append(out.closers, f)
		if info, err := f.Stat(); err == nil {
			end = t.began + info.Size()
		}
	}
	out.Reader = io.MultiReader(parts...)
	return out, nil
}

type joined struct {
	io.Reader
	closers []io.Closer
}

func (j *joined) Close() error {
	var errs []error
	for _, c := range j.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// LeftOut returns how much of a program's output was left out of its file, in bytes.
func LeftOut(path string) unit.Bytes {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	if rest := apart(path); len(rest) > 0 {
		return unit.Bytes(rest[0].began - headKept)
	}
	at := make([]byte, 100)
	n, _ := f.ReadAt(at, headKept)
	if m := noted.FindStringSubmatch(string(at[:n])); m != nil {
		left, _ := strconv.ParseInt(m[1], 10, 64)
		return unit.Bytes(left)
	}
	return 0
}

// OutputTime returns the time of a program's last kept output; zero if there is none.
func OutputTime(path string) (last time.Time) {
	for _, t := range append(tails(path), tailFile{path: path}) {
		if info, err := os.Stat(t.path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// OutputFile is the name of the file with a program's output, in its attempt's folder.
const OutputFile = "output.log"

// CurveFile is the name of the file with the memory that a program held over time, in its attempt's folder.
const CurveFile = "memory.json"

// AttemptDirs returns the folder of each attempt of the run, in the order of [History.Tried]. An attempt whose number
// was planned before, by a launch that died, has a folder of its own ([Record.Attempt]).
func (h *History) AttemptDirs() (dirs []string) {
	again := map[int]int{}
	for _, a := range h.Tried() {
		n := a.Plan.Attempt
		again[n]++
		name := fmt.Sprintf("attempt-%d", n)
		if again[n] > 1 {
			name += fmt.Sprintf(".%d", again[n])
		}
		dirs = append(dirs, filepath.Join(h.Dir, name))
	}
	if len(dirs) == 0 { // no plugin recognised its command
		dirs = append(dirs, filepath.Join(h.Dir, "attempt-1"))
	}
	return dirs
}

// Outputs lists the output files of the run's attempts.
func (h *History) Outputs() []string {
	paths, _ := filepath.Glob(filepath.Join(h.Dir, "attempt-*", OutputFile))
	return paths
}
