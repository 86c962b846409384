package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Blocks of content that are read of data too large to be read.
const (
	blocks    = 128
	blockSize = 32 << 10
)

// sample notes what stays the same where the same data are laid there again.
func (s Subject) sample(t *Tree, path string, files []listedFile) {
	shape := sha256.New()
	t.Oldest = math.MaxInt64
	for _, f := range files {
		fmt.Fprintf(shape, "%d %s %d\n", len(f.path), f.path, f.size)
		t.Oldest = min(t.Oldest, f.modified)
	}
	t.Shape = hex.EncodeToString(shape.Sum(nil)[:16])
	large := t.Bytes > smallTree || slices.ContainsFunc(files, func(f listedFile) bool { return f.size > smallFile })
	if len(files) == 0 || !large {
		return
	}
	t.First = inodeOf(filepath.Join(path, files[0].path))
	content, block := sha256.New(), make([]byte, blockSize)
	i, before := 0, int64(0) // the file at an offset of all, and the bytes before it
	for n := range int64(blocks) {
		for offset := t.Bytes / blocks * n; i < len(files)-1 && before+files[i].size <= offset; i++ {
			before += files[i].size
		}
		if !s.Deadline.IsZero() && time.Now().After(s.Deadline) {
			return
		}
		at := min(max(0, t.Bytes/blocks*n-before), max(0, files[i].size-blockSize))
		got, err := readAt(filepath.Join(path, files[i].path), block, at)
		if err != nil {
			return
		}
		content.Write(got)
	}
	t.Sample = hex.EncodeToString(content.Sum(nil)[:16])
}

// inodeOf tells a file from another one that bears its name. A file system gives the number of a removed file again, so
// the time when it was made is part of it, where that is known.
func inodeOf(path string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st) != nil {
		return ""
	}
	return fmt.Sprint(st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// readAt reads a block of a file; at its end less.
func readAt(path string, block []byte, at int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.ReadAt(block, at)
	if n == 0 && err != nil && at > 0 {
		return nil, err
	}
	return block[:n], nil
}

// again reports whether the same data were laid there once more: every file was written since, the names, the sizes and
// the sampled content are the same, and the files are others. One that was written in place may have changed anywhere.
func (t Tree) again(now Tree) bool {
	newest := int64(0)
	for _, p := range t.Parts {
		newest = max(newest, p.Modified)
	}
	return t.Sample != "" && t.Sample == now.Sample && t.Shape == now.Shape && now.Oldest > newest && t.First != "" &&
		now.First != "" && now.First != t.First
}

// moved reports whether the same data lie elsewhere now.
func (t Tree) moved(now Tree) bool {
	if t.Name == "" || t.Name != now.Name || t.Shape == "" || t.Shape != now.Shape || t.Sample != now.Sample {
		return false
	}
	return t.Sample != "" || slices.EqualFunc(t.Parts, now.Parts, func(a, b Entry) bool {
		return a.Path == b.Path && a.Mark == b.Mark
	})
}

// elsewhere are the paths of data that lie elsewhere now, by those where they lay. Where both are there, they are two.
func elsewhere(was, now *Identity) map[string]string {
	out := map[string]string{}
	for _, t := range was.Data {
		if _, err := os.Stat(t.Path); err == nil || !filepath.IsAbs(t.Path) {
			continue
		}
		if i := slices.IndexFunc(now.Data, t.moved); i >= 0 {
			out[t.Path] = now.Data[i].Path
		}
	}
	return out
}
