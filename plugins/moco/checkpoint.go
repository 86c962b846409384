package moco

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// A checkpoint is what is known of the saved state that a command goes on from, without its tensors.
type checkpoint struct {
	path   string // as the command names it
	size   unit.Bytes
	epoch  int64
	arch   string
	k      int64 // length of its queue; 0 where it has none
	ptr    int64 // queue_ptr
	hasPtr bool
	keys   dict // what it holds, by its names
	place  pointer
	to     []int64 // the values that a copy's pointer may be given
}

// A pointer is where queue_ptr's eight bytes stand in the file, and the checksums that cover them.
type pointer struct {
	at   int64
	crcs []int64
}

// readCheckpoint reads the saved state that the command names.
func (p *project) readCheckpoint() {
	c := checkpoint{path: p.resume.value}
	path := file.In(p.prog.Dir, c.path)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		p.warn("there is no saved state %s: the trainer would only print \"=> no checkpoint found\" and start at epoch 0, over the states of the epochs before", c.path)
		return
	}
	c.size = unit.Bytes(info.Size())
	if err := c.read(path); err != nil {
		if p.usesQueue {
			p.warn("what %s holds could not be read (%v): whether its queue goes on well with this batch is not known", c.path, err)
		}
		p.checkpoint = c
		return
	}
	p.checkpoint = c
	for _, key := range p.stateKeys() {
		if _, ok := c.keys[key]; !ok {
			p.warn("%s has no %q, as states have that were released with a paper: the trainer would stop at a KeyError", c.path, key)
		}
	}
	if k := p.queue.int(); c.k != 0 && k != 0 && c.k != k {
		p.warn("the queue in %s has %d keys and the job's has %d: loading it would stop at a size mismatch; keep %s at %d", c.path, c.k, k, p.queue.at.Path, c.k)
	}
	if c.arch != "" && p.named != "" && c.arch != p.named {
		p.warn("%s is a state of %s, and the job trains %s: loading it would stop at missing keys", c.path, c.arch, p.named)
	}
	if g := p.micro * p.world; c.hasPtr && g > 0 && p.asserts && c.ptr%g != 0 {
		p.warn("the queue of %s stands at %d, which is no multiple of the %d keys of a step: the run would go well until the queue wraps, "+
			"and then stop at \"The expanded size of the tensor\"; a batch that divides %d goes on well", c.path, c.ptr, g, c.ptr)
	}
}

// stateKeys are what the trainer reads of a saved state (main_moco.py:299-317 at 7397dfe, :236-252 at c349e6e; moco-v3#29).
func (p *project) stateKeys() []string {
	switch {
	case p.solar != nil: // load_checkpoint asks for the weights alone
		return []string{"state_dict"}
	case p.step == arch.V3:
		return []string{"epoch", "state_dict", "optimizer", "scaler"}
	}
	return []string{"epoch", "state_dict", "optimizer"}
}

// read reads the file's directory and its pickle, and of its storages the pointer's eight bytes.
func (c *checkpoint) read(path string) error {
	f, err := file.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.readFrom(f, int64(c.size))
}

func (c *checkpoint) readFrom(f io.ReaderAt, size int64) error {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(z.File, func(e *zip.File) bool { return strings.HasSuffix(e.Name, "/data.pkl") })
	if i < 0 {
		return errors.New("it is no archive of torch.save")
	}
	folder := strings.TrimSuffix(z.File[i].Name, "data.pkl")
	b, err := contents(z.File[i], maxPickle)
	if err != nil {
		return err
	}
	v, err := unpickle(b)
	if err != nil {
		return err
	}
	top := entries(v)
	c.keys = top
	c.epoch, _ = top["epoch"].(int64)
	c.arch, _ = top["arch"].(string)
	state := entries(top["state_dict"])
	for _, prefix := range []string{"module.", ""} {
		if q, ok := asTensor(state[prefix+"queue"]); ok && len(q.shape) == 2 {
			c.k = q.shape[1]
		}
		t, ok := asTensor(state[prefix+"queue_ptr"])
		if !ok {
			continue
		}
		for _, e := range z.File {
			if e.Name == folder+"data/"+t.key {
				return c.readPointer(f, size, z, e, t)
			}
		}
	}
	return nil
}

// maxPointer bounds the storage that holds the pointer: it has one element.
const maxPointer = 4096

func (c *checkpoint) readPointer(f io.ReaderAt, size int64, z *zip.Reader, e *zip.File, t tensor) error {
	if order := slices.IndexFunc(z.File, func(e *zip.File) bool { return strings.HasSuffix(e.Name, "/byteorder") }); order >= 0 {
		if b, err := contents(z.File[order], 16); err != nil || string(b) != "little" {
			return fmt.Errorf("its byte order is %q", b)
		}
	}
	b, err := contents(e, maxPointer)
	if err != nil {
		return err
	}
	if t.class != "torch.LongStorage" || t.offset < 0 || t.offset != 0 || len(b) != 8 || e.Method != zip.Store {
		return fmt.Errorf("its queue_ptr is no single int64")
	}
	c.ptr, c.hasPtr = int64(binary.LittleEndian.Uint64(b)), true
	if c.ptr < 0 || c.k != 0 && c.ptr >= c.k {
		return fmt.Errorf("its queue_ptr is %d", c.ptr)
	}
	c.place, err = locate(f, size, e, b)
	return err
}

func contents(e *zip.File, limit uint64) ([]byte, error) {
	if e.UncompressedSize64 > limit {
		return nil, fmt.Errorf("%s has %d bytes", e.Name, e.UncompressedSize64)
	}
	r, err := e.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, int64(limit)))
}

// Signatures and sizes of a zip archive's records (APPNOTE.TXT 4.3).
const (
	localHeader, localSize     = 0x04034b50, 30
	centralHeader, centralSize = 0x02014b50, 46
	descriptor                 = 0x08074b50
)

// locate finds the bytes of a stored entry and every checksum of them: in its local header or the descriptor behind it,
// and in the archive's directory.
func locate(f io.ReaderAt, size int64, e *zip.File, content []byte) (p pointer, err error) {
	if p.at, err = e.DataOffset(); err != nil {
		return p, err
	}
	sum := crc32.ChecksumIEEE(content)
	name := []byte(e.Name)
	head := make([]byte, localSize)
	local, central := int64(-1), int64(-1)
	// A local header ends where its entry's data begins, but for a name and padding of at most 64 KiB each.
	for at := p.at - localSize - int64(len(name)); at >= 0 && at > p.at-localSize-int64(len(name))-1<<16; at-- {
		if _, err := f.ReadAt(head, at); err != nil {
			return p, err
		}
		n, extra := int64(binary.LittleEndian.Uint16(head[26:])), int64(binary.LittleEndian.Uint16(head[28:]))
		if binary.LittleEndian.Uint32(head) == localHeader && at+localSize+n+extra == p.at {
			local = at
			break
		}
	}
	if local < 0 {
		return p, errors.New("its local header was not found")
	}
	if binary.LittleEndian.Uint16(head[6:])&8 == 0 { // no descriptor
		p.crcs = append(p.crcs, local+14)
	} else {
		after := make([]byte, 8)
		if _, err := f.ReadAt(after, p.at+int64(len(content))); err != nil {
			return p, err
		}
		switch {
		case binary.LittleEndian.Uint32(after) == descriptor && binary.LittleEndian.Uint32(after[4:]) == sum:
			p.crcs = append(p.crcs, p.at+int64(len(content))+4)
		case binary.LittleEndian.Uint32(after) == sum:
			p.crcs = append(p.crcs, p.at+int64(len(content)))
		default:
			return p, errors.New("its checksum was not found")
		}
		if binary.LittleEndian.Uint32(head[14:]) == sum { // miniz writes it in both places
			p.crcs = append(p.crcs, local+14)
		}
	}
	if central, err = inDirectory(f, size, name, sum); err != nil {
		return p, err
	}
	p.crcs = append(p.crcs, central+16)
	return p, nil
}

// maxDirectory bounds the archive's directory: some thousand tensors of some hundred bytes each.
const maxDirectory = 16 << 20

// inDirectory finds an entry's record in the archive's directory, which lies at the file's end.
func inDirectory(f io.ReaderAt, size int64, name []byte, sum uint32) (int64, error) {
	n := min(size, maxDirectory)
	tail := make([]byte, n)
	if _, err := f.ReadAt(tail, size-n); err != nil && err != io.EOF {
		return 0, err
	}
	found := int64(-1)
	for i := 0; i+centralSize+len(name) <= len(tail); i++ {
		if tail[i] != 'P' || binary.LittleEndian.Uint32(tail[i:]) != centralHeader || binary.LittleEndian.Uint32(tail[i+16:]) != sum ||
			int(binary.LittleEndian.Uint16(tail[i+28:])) != len(name) || string(tail[i+centralSize:i+centralSize+len(name)]) != string(name) {
			continue
		}
		if found >= 0 {
			return 0, errors.New("its directory names the entry twice")
		}
		found = size - n + int64(i)
	}
	if found < 0 {
		return 0, errors.New("its directory does not name the entry")
	}
	return found, nil
}

// patch is what a copy's bytes are with another pointer.
func (c *checkpoint) patch(to int64) job.Patch {
	b := binary.LittleEndian.AppendUint64(nil, uint64(to))
	p := job.Patch{Path: "queue_ptr", From: strconv.FormatInt(c.ptr, 10), To: strconv.FormatInt(to, 10), Bytes: []job.Bytes{{At: c.place.at, New: b}}}
	for _, at := range c.place.crcs {
		p.Bytes = append(p.Bytes, job.Bytes{At: at, New: binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))})
	}
	return p
}

// refit is the pointer to go on from when a step enqueues g keys: the last multiple of g that the queue has come to.
func (c *checkpoint) refit(g int64) int64 { return c.ptr / g * g }

// fits reports whether the queue goes on well when a step enqueues g keys.
func (c *checkpoint) fits(g int64) bool { return !c.hasPtr || g <= 0 || c.ptr%g == 0 }

// file is the saved state as a document whose pointer can be set.
func (c *checkpoint) file() (job.File, bool) {
	if !c.hasPtr || len(c.to) == 0 {
		return job.File{}, false
	}
	f := job.File{Path: c.path, Format: job.Binary, Flag: "--resume"}
	for _, to := range c.to {
		f.Patches = append(f.Patches, c.patch(to))
	}
	return f, true
}
