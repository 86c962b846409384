package states

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// whole returns the reason why a state is certainly incomplete, or nil. In a folder it checks every file. A state that
// has not changed since is not read again.
func whole(path string) error {
	m, ok := look(path)
	if !ok {
		return wholeNow(path)
	}
	key := checkedState{path: path, id: m.ID, bytes: m.Bytes, files: m.Files, modified: m.Modified, changed: m.Changed}
	checkedBefore.Lock()
	err, known := checkedBefore.of[key]
	checkedBefore.Unlock()
	if known {
		return err
	}
	err = wholeNow(path)
	checkedBefore.Lock()
	defer checkedBefore.Unlock()
	if checkedBefore.of == nil || len(checkedBefore.of) > most {
		checkedBefore.of = map[checkedState]error{}
	}
	checkedBefore.of[key] = err
	return err
}

// checkedState identifies a state at one time.
type checkedState struct {
	path              string
	id                ID
	bytes             int64
	files             int
	modified, changed int64
}

// checkedBefore are the states that were checked: while launch waits for a state, it looks several times a second.
var checkedBefore struct {
	sync.Mutex
	of map[checkedState]error
}

func wholeNow(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return wholeFile(path)
	}
	seen := 0
	return filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case seen >= most:
			return fs.SkipAll
		case !e.Type().IsRegular():
			return nil
		case unfinished(e.Name()) && !strings.HasPrefix(e.Name(), "."):
			return fmt.Errorf("%s is not finished", e.Name())
		case e.Name() == sentinel:
			return fmt.Errorf("%s says that it is not finished", e.Name())
		}
		seen++
		if info, err := e.Info(); err == nil && info.Size() == 0 {
			if filepath.Ext(at) == ".json" {
				return fmt.Errorf("%s: %w", e.Name(), errTorn)
			}
			return nil // some programs write empty markers
		}
		err = wholeFile(at)
		if err == nil && strings.HasSuffix(at, ".index.json") {
			err = wholeIndex(at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		return nil
	})
}

// sentinel is a file that the Trainer of transformers has in a checkpoint while it saves it on SIGTERM, and takes away
// when it is whole (trainer_jit_checkpoint.py:58). The checkpoint may have been there before, complete.
const sentinel = "checkpoint-is-incomplete.txt"

var (
	errTorn  = errors.New("it is truncated")
	errZeros = errors.New("it holds only zeros")
)

// A saved is a state's file that is checked.
type saved struct {
	io.ReaderAt
	size int64
	ext  string // of its name, in lower case
	head []byte // its first bytes
}

// block is how many bytes are read at once where a file is only sampled: a multiple of every page.
const block = 64 << 10

// A format knows a kind of file by its first bytes or its name, and whether one is complete. check returns errUnlike
// if the file is of another kind after all.
type format struct {
	is    func(s *saved) bool
	check func(s *saved) error
}

// errUnlike is the error of a check that finds a file of another format.
var errUnlike = errors.New("it has another format")

// formats are the files in which programs keep states. Nothing is known of any other.
var formats = []format{
	{func(s *saved) bool { return s.ext == ".safetensors" }, wholeTensors},
	{isZip, wholeZip},
	{isPickle, wholePickle},
	{func(s *saved) bool { return s.begins("\x89HDF\r\n\x1a\n") }, wholeHDF},
	{func(s *saved) bool { return s.begins("\x93NUMPY") }, wholeArray},
	{func(s *saved) bool { return s.begins("\x1f\x8b") }, wholeGzip},
	{isTar, wholeTar},
	{isJSON, wholeJSON},
	{isPack, wholePack},
}

// knownFormat reports whether a file has a format whose end can be checked.
func knownFormat(path string) bool {
	s, done, err := openSaved(path)
	if err != nil {
		return false
	}
	defer done()
	return slices.ContainsFunc(formats, func(f format) bool { return f.is(s) })
}

// wholeFile checks one file. It accepts a format that it does not know.
func wholeFile(path string) error {
	s, done, err := openSaved(path)
	if err != nil {
		return err
	}
	defer done()
	if s.size == 0 {
		return errTorn
	}
	if s.zeros() {
		return errZeros
	}
	for _, f := range formats {
		if !f.is(s) {
			continue
		}
		if err := f.check(s); !errors.Is(err, errUnlike) {
			return err
		}
	}
	return nil
}

func openSaved(path string) (s *saved, done func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	s = &saved{ReaderAt: f, size: info.Size(), ext: strings.ToLower(filepath.Ext(path)), head: make([]byte, 512)}
	n, err := f.ReadAt(s.head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, nil, err
	}
	s.head = s.head[:n]
	return s, func() { f.Close() }, nil
}

func (s *saved) begins(magic string) bool { return bytes.HasPrefix(s.head, []byte(magic)) }

// zeros reports whether a file holds nothing but zeros, as one whose blocks were never written. Of a large file it
// reads blocks between its beginning and its end.
func (s *saved) zeros() bool {
	for _, at := range samples(s.size) {
		if !s.zeroAt(at, block) {
			return false
		}
	}
	return s.size >= 64 // so few bytes may be a number
}

// zeroAt reports whether n bytes at an offset are zeros; those beyond the end count as such.
func (s *saved) zeroAt(at int64, n int) bool {
	b := make([]byte, n)
	got, err := s.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return len(bytes.Trim(b[:got], "\x00")) == 0
}

// sampled is the number of blocks of a large file that are read.
const sampled = 32

// samples are the offsets of the blocks that are read of a file: all of a small one; of a large one the first, the last
// and some between, at multiples of a block.
func samples(size int64) (at []int64) {
	n := (size + block - 1) / block
	count := min(n, max(sampled, wholeHash/block))
	if n > wholeHash/block {
		count = sampled
	}
	for i := range count {
		k := i
		if count < n {
			k = i * (n - 1) / (count - 1)
		}
		at = append(at, k*block)
	}
	return at
}

// isZip knows an archive by its beginning or, where that is damaged, by its end.
func isZip(s *saved) bool {
	if s.begins("PK\x03\x04") || s.begins("PK\x05\x06") {
		return true
	}
	switch s.ext {
	case ".pt", ".pth", ".ckpt", ".bin", ".npz", ".zip", ".keras":
		tail := make([]byte, min(s.size, 1<<10))
		_, _ = s.ReadAt(tail, s.size-int64(len(tail)))
		return bytes.Contains(tail, []byte("PK\x05\x06")) && !s.begins("\x80")
	}
	return false
}

// How much of an archive is read: all of it, if that takes no longer than a moment. Each bound ends the reading; what
// was not read counts as complete.
const (
	smallMember = 1 << 20
	allMembers  = 64 << 20
	longest     = 2 * time.Second
)

// wholeZip checks an archive, as torch.save and numpy.savez write it: its directory, which comes last, the header of
// each member and the checksums of the small ones. A large member is read only if one of its blocks holds only zeros.
func wholeZip(s *saved) error {
	z, err := zip.NewReader(s, s.size)
	if err != nil {
		return errTorn
	}
	if len(z.File) == 0 {
		return nil
	}
	small, large := 0, int64(0)
	var bad []string
	members := slices.Clone(z.File)
	slices.SortStableFunc(members, func(a, b *zip.File) int {
		return int(min(1, max(-1, int64(a.UncompressedSize64)-int64(b.UncompressedSize64))))
	})
	end := time.Now().Add(longest)
	for _, f := range members {
		at, err := f.DataOffset()
		if err != nil || at+int64(f.CompressedSize64) > s.size {
			return fmt.Errorf("%s in it is damaged", f.Name)
		}
		n := int64(f.UncompressedSize64)
		switch {
		case time.Now().After(end):
			continue
		case n <= smallMember && large+n <= allMembers:
			large += n
		case !s.gap(at, int64(f.CompressedSize64)):
			continue
		}
		small++
		if !wholeMember(f, end) {
			bad = append(bad, f.Name)
		}
	}
	if len(bad) == 0 {
		return wholeTorch(z)
	}
	if len(bad) == small && small > 1 && torchArchive(z) {
		return nil // torch writes no checksums if it is told so (torch.serialization.set_crc32_options, since 2.6)
	}
	return fmt.Errorf("%s in it is damaged", bad[0])
}

// gap reports whether a block within a stretch of a file holds only zeros.
func (s *saved) gap(at, n int64) bool {
	const page = 4 << 10
	first, last := (at+page-1)/page, (at+n)/page-1
	if last < first {
		return true // too short to tell
	}
	count := min(last-first+1, 64)
	for i := range count {
		k := first
		if count > 1 {
			k += i * (last - first) / (count - 1)
		}
		if s.zeroAt(k*page, page) {
			return true
		}
	}
	return false
}

// torchArchive reports whether an archive has the members that torch.save writes beside the data.
func torchArchive(z *zip.Reader) bool {
	return slices.ContainsFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/data.pkl") })
}

// wholeMember reports whether the content of a member has its length and its checksum. What was not read at the end
// counts as complete.
func wholeMember(f *zip.File, end time.Time) bool {
	in, err := f.Open()
	if err != nil {
		return errors.Is(err, zip.ErrAlgorithm) // nothing is known of it
	}
	defer in.Close()
	sum, size := crc32.NewIEEE(), int64(0)
	for {
		n, err := io.CopyN(sum, in, 16<<20)
		switch size += n; {
		case errors.Is(err, io.EOF):
			return uint64(size) == f.UncompressedSize64 && sum.Sum32() == f.CRC32
		case err != nil:
			return false
		case time.Now().After(end):
			return true
		}
	}
}

// wholeTensors compares the size of a safetensors file with the end of its tensors.
func wholeTensors(s *saved) error {
	_, end, err := tensorsOf(s)
	if err == nil && end > s.size {
		err = errTorn
	}
	return err
}

// tensorsOf reads the header of a safetensors file (the format's README): eight bytes of length, then JSON, which
// has the place of each tensor. end is where the last one ends.
func tensorsOf(s *saved) (header map[string]json.RawMessage, end int64, err error) {
	var n uint64
	in := io.NewSectionReader(s, 0, s.size)
	if err := binary.Read(in, binary.LittleEndian, &n); err != nil || n > uint64(s.size) {
		return nil, 0, errTorn
	}
	if err := json.NewDecoder(io.LimitReader(in, int64(n))).Decode(&header); err != nil {
		return nil, 0, errTorn
	}
	for _, entry := range header {
		var t struct {
			Offsets [2]int64 `json:"data_offsets"`
		}
		if json.Unmarshal(entry, &t) == nil {
			end = max(end, t.Offsets[1])
		}
	}
	return header, 8 + int64(n) + end, nil
}

// longestText bounds what is read of a document, in bytes.
const longestText = int64(64 * unit.MiB)

// isJSON knows a document by its name, or by what it begins with: other formats begin with a bracket, too.
func isJSON(s *saved) bool {
	if s.ext == ".json" {
		return true
	}
	text := bytes.TrimLeft(s.head, " \t\r\n")
	if len(text) < 2 || text[0] != '{' && text[0] != '[' {
		return false
	}
	switch next := bytes.TrimLeft(text[1:], " \t\r\n"); {
	case len(next) == 0:
		return false
	case text[0] == '{':
		return next[0] == '"' || next[0] == '}'
	default:
		return bytes.IndexByte([]byte(`{["]-0123456789`), next[0]) >= 0
	}
}

// wholeJSON checks that every bracket and every string of a document is closed. A decoder would refuse what Python
// writes: NaN and Infinity.
func wholeJSON(s *saved) error {
	if s.size > longestText {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(s, 0, s.size))
	if err != nil {
		return err
	}
	depth, quoted, escaped, any := 0, false, false, false
	for _, c := range text {
		switch {
		case c == 0:
			return errTorn
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted, any = true, true
		case c == '{' || c == '[':
			depth, any = depth+1, true
		case c == '}' || c == ']':
			depth--
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			any = true
		}
		if depth < 0 {
			return errUnlike
		}
	}
	if depth > 0 || quoted || !any {
		return errTorn
	}
	return nil
}
