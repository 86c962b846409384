package states

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// wholeHDF reads the address of the end of an HDF5 file, which its superblock holds (HDF5 File Format Specification,
// II.A: versions 0 and 1 with eight-byte addresses, 2 and 3).
func wholeHDF(s *saved) error {
	if len(s.head) < 64 {
		return errTorn
	}
	at := 0
	switch version := s.head[8]; {
	case version < 2 && s.head[13] == 8:
		at = 40
		if version == 1 {
			at += 4
		}
	case (version == 2 || version == 3) && s.head[9] == 8:
		at = 28
	default:
		return nil
	}
	if end := binary.LittleEndian.Uint64(s.head[at:]); end > uint64(s.size) {
		return errTorn
	}
	return nil
}

var (
	arrayType  = lazy.MustCompile(`'descr': '[<>|=]?[a-zA-Z](\d+)'`)
	arrayShape = lazy.MustCompile(`'shape': \(([\d, ]*)\)`)
)

// wholeArray compares the size of a file of numpy with the type and the shape in its header (numpy.lib.format). A file
// may hold several arrays.
func wholeArray(s *saved) error {
	if len(s.head) < 12 {
		return errTorn
	}
	at, n := int64(10), int64(binary.LittleEndian.Uint16(s.head[8:]))
	if s.head[6] > 1 {
		at, n = 12, int64(binary.LittleEndian.Uint32(s.head[8:]))
	}
	if at+n > s.size {
		return errTorn
	}
	if n > longestText {
		return errUnlike
	}
	header := make([]byte, n)
	if _, err := s.ReadAt(header, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	kind, shape := arrayType.FindSubmatch(header), arrayShape.FindSubmatch(header)
	if kind == nil || shape == nil {
		return nil
	}
	each, _ := strconv.ParseInt(string(kind[1]), 10, 64)
	if bytes.Contains(kind[0], []byte("U")) { // characters
		each *= 4
	}
	for _, side := range strings.Split(string(shape[1]), ",") {
		if side = strings.TrimSpace(side); side != "" {
			k, err := strconv.ParseInt(side, 10, 64)
			if err != nil || each > 0 && k > s.size { // more than it can hold; 0 times anything is 0
				return errTorn
			}
			each *= k
		}
	}
	if at+n+each > s.size {
		return errTorn
	}
	return nil
}

// wholeGzip unpacks a small file: its last bytes are a checksum.
func wholeGzip(s *saved) error {
	if s.size > longestText {
		return nil
	}
	in, err := gzip.NewReader(io.NewSectionReader(s, 0, s.size))
	if err != nil {
		return errTorn
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(in, 16*longestText)); err != nil {
		return errTorn
	}
	return nil
}

func isTar(s *saved) bool { return len(s.head) > 262 && string(s.head[257:262]) == "ustar" }

// wholeTar goes from one member's header to the next.
func wholeTar(s *saved) error {
	in := tar.NewReader(io.NewSectionReader(s, 0, s.size))
	for range most {
		switch _, err := in.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errTorn
		}
	}
	return nil
}

// isPack knows msgpack by its name, or by a map whose first key is text, as flax writes it. The name of such a file has
// no ending.
func isPack(s *saved) bool {
	if s.ext == ".msgpack" {
		return true
	}
	if len(s.head) < 8 {
		return false
	}
	key := 1
	switch c := s.head[0]; {
	case c > 0x80 && c <= 0x8f:
	case c == 0xde:
		key = 3
	case c == 0xdf:
		key = 5
	default:
		return false
	}
	return s.head[key] >= 0xa1 && s.head[key] <= 0xbf || s.head[key] == 0xd9
}

// wholePack reads one value of msgpack (its specification, "Formats"), without the contents of its texts and arrays.
func wholePack(s *saved) error {
	in := &walker{s: s}
	left := int64(1) // values that are to come
	for left > 0 && in.steps < mostSteps {
		left--
		c := in.byte()
		skip, more := int64(0), int64(0)
		switch {
		case c <= 0x7f || c >= 0xe0: // a small number
		case c <= 0x8f:
			more = 2 * int64(c&0x0f)
		case c <= 0x9f:
			more = int64(c & 0x0f)
		case c <= 0xbf:
			skip = int64(c & 0x1f)
		case c == 0xc1: // never used
			return errUnlike
		case c <= 0xc3: // nil, false, true
		case c <= 0xc6: // bin 8, 16, 32
			skip = in.big(1 << (c - 0xc4))
		case c <= 0xc9: // ext 8, 16, 32
			skip = in.big(1<<(c-0xc7)) + 1
		case c <= 0xcb: // float 32, 64
			skip = 4 << (c - 0xca)
		case c <= 0xcf: // uint
			skip = 1 << (c - 0xcc)
		case c <= 0xd3: // int
			skip = 1 << (c - 0xd0)
		case c <= 0xd8: // fixext 1 to 16
			skip = 1<<(c-0xd4) + 1
		case c <= 0xdb: // str 8, 16, 32
			skip = in.big(1 << (c - 0xd9))
		case c <= 0xdd: // array 16, 32
			more = in.big(2 << (c - 0xdc))
		default: // map 16, 32
			more = 2 * in.big(2<<(c-0xde))
		}
		if in.skip(skip); in.short || more > s.size {
			return errTorn
		}
		left += more
	}
	return nil
}

// mostSteps bounds how many values of one file are read.
const mostSteps = 20_000_000

// A walker reads a file from its beginning to its end, and reads nothing of what it skips.
type walker struct {
	s     *saved
	at    int64
	buf   []byte
	from  int64 // the offset of buf
	short bool  // the file ended too early
	steps int
}

// bytes returns the next n bytes, which are valid until the next call; nil if the file ends before.
func (w *walker) bytes(n int64) []byte {
	if w.short || n < 0 || w.at+n > w.s.size {
		w.short = true
		return nil
	}
	if w.at < w.from || w.at+n > w.from+int64(len(w.buf)) {
		w.buf = make([]byte, min(max(n, block), w.s.size-w.at))
		if got, err := w.s.ReadAt(w.buf, w.at); err != nil && got < len(w.buf) {
			w.short = true
			return nil
		}
		w.from = w.at
	}
	b := w.buf[w.at-w.from:][:n]
	w.at += n
	return b
}

func (w *walker) byte() byte {
	w.steps++
	if b := w.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (w *walker) skip(n int64) {
	if n < 0 || w.at+n > w.s.size {
		w.short = true
		return
	}
	w.at += n
}

// big reads a number of n bytes, the highest first; little, the lowest first.
func (w *walker) big(n int) (v int64) {
	for _, c := range w.bytes(int64(n)) {
		v = v<<8 | int64(c)
	}
	return v
}

func (w *walker) little(n int) (v int64) {
	b := w.bytes(int64(n))
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	return v
}

// line reads up to the next line break.
func (w *walker) line() string {
	var b []byte
	for !w.short && len(b) < block {
		c := w.byte()
		if c == '\n' {
			break
		}
		b = append(b, c)
	}
	return string(b)
}

// wholeIndex checks that every file exists in which an index of a sharded model says that tensors are, and that a
// file of safetensors has them (transformers, modeling_utils.py: model.safetensors.index.json beside its shards).
func wholeIndex(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) > longestText {
		return err
	}
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if json.Unmarshal(text, &index) != nil {
		return nil // it is something else
	}
	tensors := map[string]map[string]json.RawMessage{}
	for name, file := range index.Files {
		if !filepath.IsLocal(file) {
			continue
		}
		has, known := tensors[file]
		if !known {
			shard, done, err := openSaved(filepath.Join(filepath.Dir(path), file))
			if err != nil {
				return fmt.Errorf("%s is missing", file)
			}
			if shard.ext == ".safetensors" {
				has, _, _ = tensorsOf(shard)
			}
			done()
			tensors[file] = has
		}
		if _, ok := has[name]; has != nil && !ok {
			return fmt.Errorf("%s lacks %s", file, name)
		}
	}
	return nil
}

// wholeTorch checks that an archive of torch.save has every storage that its pickle names.
func wholeTorch(z *zip.Reader) error {
	for _, f := range z.File {
		folder, ok := strings.CutSuffix(f.Name, "/data.pkl")
		if !ok || int64(f.UncompressedSize64) > longestText {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(in, longestText))
		in.Close()
		if err != nil {
			return nil // the checksums tell of it
		}
		p := pickle{storages: map[string]int64{},
			w: &walker{s: &saved{ReaderAt: bytes.NewReader(text), size: int64(len(text))}}}
		if p.run(); p.w.short {
			return fmt.Errorf("%s in it is damaged", f.Name)
		}
		has := make(map[string]bool, len(z.File))
		for _, m := range z.File {
			has[m.Name] = true
		}
		for key := range p.storages {
			if !has[folder+"/data/"+key] {
				return fmt.Errorf("%s/data/%s in it is missing", folder, key)
			}
		}
	}
	return nil
}
