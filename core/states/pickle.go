package states

import (
	"bytes"
	"slices"
	"strings"
)

// isPickle knows the protocols from 2 on by their first bytes, and those before by the name.
func isPickle(s *saved) bool {
	if len(s.head) >= 2 && s.head[0] == 0x80 && s.head[1] >= 2 && s.head[1] <= 5 {
		return true
	}
	return slices.Contains([]string{".pkl", ".pickle", ".p"}, s.ext) && len(s.head) > 0 &&
		bytes.IndexByte([]byte("(]}clJK"), s.head[0]) >= 0
}

// legacy is the number that begins a file of torch.save before version 1.6, as pickle writes it
// (torch/serialization.py, MAGIC_NUMBER).
const legacy = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

// wholePickle follows the operations of one pickle after another: each ends with STOP. Where it meets something else,
// it looks only at the last byte, as with the files of joblib, which have arrays in between.
func wholePickle(s *saved) error {
	if len(s.head) > 2 && strings.HasPrefix(string(s.head[2:]), legacy) {
		return wholeLegacy(s)
	}
	last := make([]byte, 1)
	if _, err := s.ReadAt(last, s.size-1); err != nil {
		return err
	}
	if s.head[0] != 0x80 || bytes.Contains(s.head, []byte("joblib")) {
		if last[0] == '.' {
			return nil
		}
		return errTorn
	}
	w := &walker{s: s}
	for first := true; w.at < s.size; first = false {
		p := pickle{w: w}
		switch end := p.run(); {
		case w.short:
			return errTorn
		case end:
		case !first || last[0] == '.' || w.steps > mostSteps:
			return nil
		default:
			return errTorn
		}
		if w.at < s.size {
			if w.byte() != 0x80 { // other data follow
				return nil
			}
			w.at--
		}
	}
	return nil
}

// wholeLegacy checks a file of torch.save before version 1.6: five pickles, of which the fourth is the object and the
// fifth the list of the keys of its storages, and then each storage with its length in front.
func wholeLegacy(s *saved) error {
	w := &walker{s: s}
	bytesOf, keys := map[string]int64{}, []string(nil)
	for i := range 5 {
		p := pickle{w: w, storages: bytesOf}
		if !p.run() {
			return errTorn
		}
		if i == 4 {
			keys = p.texts
		}
	}
	for _, key := range keys {
		each, known := bytesOf[key]
		count := w.little(8)
		if w.short {
			return errTorn
		}
		if !known {
			return nil // nothing is known of what follows
		}
		if w.skip(count * each); w.short {
			return errTorn
		}
	}
	return nil
}

// A pickle follows the operations of one pickle (Lib/pickletools.py). It keeps only what is needed to know the storages
// of torch: texts, the names of classes, and numbers.
type pickle struct {
	w        *walker
	storages map[string]int64 // bytes of an element, by the storage's key; may be nil
	texts    []string         // in their order, while there are few
	recent   []any            // the last values that were put on the stack
	memo     map[int64]any
}

// elements are the sizes of the elements of torch's storages, in bytes.
var elements = map[string]int64{"DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2,
	"LongStorage": 8, "IntStorage": 4, "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1,
	"ComplexDoubleStorage": 16, "ComplexFloatStorage": 8}

// run reads up to STOP. false: it met an operation that it does not know, or the end of the file.
func (p *pickle) run() bool {
	p.memo = map[int64]any{}
	for !p.w.short && p.w.steps <= mostSteps {
		op := p.w.byte()
		switch {
		case p.w.short:
			return false
		case op == '.':
			return true
		case !p.step(op):
			return false
		}
	}
	return false
}

// sized are the operations with an argument of a fixed length, in bytes.
var sized = map[byte]int64{0x80: 1, 0x82: 1, 0x83: 2, 0x84: 4, 0x95: 8, 'G': 8}

// counted are the operations whose argument has its length in front, in so many bytes; the others' sign shows text.
var counted = map[byte]int{'U': 1, 'T': 4, 'B': 4, 'C': 1, 0x8e: 8, 0x96: 8, 0x8a: 1, 0x8b: 4}

// plain are the operations without an argument.
const plain = "(0122NQ)](}aesetbdoRu^\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98l"

// lines are the operations of protocols 0 and 1 whose argument ends with a line break.
const lines = "FILSVPgp"

func (p *pickle) step(op byte) bool {
	w := p.w
	if n, ok := sized[op]; ok {
		w.skip(n)
		return true
	}
	if n, ok := counted[op]; ok {
		w.skip(w.little(n))
		p.push(nil)
		return true
	}
	switch op {
	case 'X', 0x8c, 0x8d: // text of four, one, eight bytes of length
		p.text(w.little(map[byte]int{'X': 4, 0x8c: 1, 0x8d: 8}[op]))
	case 'K', 'M', 'J':
		p.push(w.little(map[byte]int{'K': 1, 'M': 2, 'J': 4}[op]))
	case 'c', 'i':
		w.line()
		p.push(class(w.line()))
	case 'q', 'r':
		p.keep(w.little(map[byte]int{'q': 1, 'r': 4}[op]))
	case 0x94:
		p.keep(int64(len(p.memo)))
	case 'h', 'j':
		p.push(p.memo[w.little(map[byte]int{'h': 1, 'j': 4}[op])])
	case 'Q':
		p.persistent()
		p.push(nil)
	default:
		if strings.IndexByte(lines, op) >= 0 {
			w.line()
			p.push(nil)
			return true
		}
		if op != '(' {
			p.push(nil)
		}
		return strings.IndexByte(plain, op) >= 0
	}
	return true
}

// class is the name of a class, without its module.
type class string

const mostTexts = 1 << 20

func (p *pickle) text(n int64) {
	if n > 1<<12 {
		p.w.skip(n)
		p.push(nil)
		return
	}
	s := string(p.w.bytes(n))
	if p.storages != nil && len(p.texts) < mostTexts {
		p.texts = append(p.texts, s)
	}
	p.push(s)
}

func (p *pickle) push(v any) {
	if len(p.recent) >= 16 {
		p.recent = append(p.recent[:0], p.recent[8:]...)
	}
	p.recent = append(p.recent, v)
}

// keep gives the last value a number, by which the pickle may repeat it.
func (p *pickle) keep(number int64) {
	if p.storages != nil && len(p.recent) > 0 && len(p.memo) < mostTexts {
		p.memo[number] = p.recent[len(p.recent)-1]
	}
}

// persistent takes the storage that was just described: ('storage', class, key, device, elements, view).
func (p *pickle) persistent() {
	if p.storages == nil {
		return
	}
	for i, v := range slices.Backward(p.recent) {
		if v == "storage" && i+2 < len(p.recent) {
			c, _ := p.recent[i+1].(class)
			key, _ := p.recent[i+2].(string)
			if each, ok := elements[string(c)]; ok && key != "" {
				p.storages[key] = each
			}
			return
		}
	}
}
