package states

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/lazy"
)

// blocks match the last lines of programs that stop because a file exists: Lightning's (SaveConfigCallback, since 1.3)
// and Python's.
var blocks = []*lazy.Regexp{
	lazy.MustCompile(`expected ([^\s'"]+) to NOT exist`),
	lazy.MustCompile(`FileExistsError: \[Errno 17\] File exists: ['"]([^'"]+)['"]`),
}

// A Span is the time from an attempt's beginning to its end.
type Span struct{ Began, Ended time.Time }

// Blocked returns the existing file because of which a program stopped, if its last lines name it and an earlier
// attempt of this run has made it: the file was born within one of the spans, belongs to this user, and lies below dir,
// the command's folder, with links resolved. On a file system without times of birth it finds nothing.
func Blocked(output, dir string, attempts []Span) (path string, ok bool) {
	text := tail(output, 16<<10)
	for _, re := range blocks {
		// a traceback first quotes the source line with the same words
		for _, m := range slices.Backward(re.FindAllSubmatch(text, -1)) {
			if path = string(m[1]); !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if made(path, dir, attempts) {
				return path, true
			}
		}
	}
	return "", false
}

// made reports whether an attempt has made the file, and it lies below dir.
func made(path, dir string, attempts []Span) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_UID|unix.STATX_TYPE, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 || int(st.Uid) != os.Getuid() || st.Mode&unix.S_IFMT == unix.S_IFLNK || !below(dir, path) {
		return false
	}
	born := time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	return slices.ContainsFunc(attempts, func(a Span) bool {
		return born.After(a.Began.Add(-20*time.Millisecond)) && born.Before(a.Ended) // the kernel's clock for files lags by a tick
	})
}

// below reports whether a path lies in a folder, with links resolved.
func below(dir, path string) bool {
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	top, wrong := filepath.EvalSymlinks(dir)
	if err != nil || wrong != nil {
		return false
	}
	rel, err := filepath.Rel(top, filepath.Join(folder, filepath.Base(path)))
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func tail(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		f.Seek(-n, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(f, n))
	return text
}
