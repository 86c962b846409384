package oom

import (
	"encoding/binary"
	"strings"
)

// A sieve says of a line whether one of the words stands in it, several times sooner than the automaton of literals.go,
// which looks at every byte and waits for each before it can take the next. It exists for floods: a program that prints
// as fast as it can must not wait for launch, and hardly any of its lines matters. It decides nothing: what it lets
// through, the automaton reads.
//
// It samples three bytes at every fourth place of the line, and asks a set of hashes whether any word has these three
// where it would have to. A word of six letters has three of its own at four places in a row, so one of them is always
// sampled; for a shorter word, a sample takes a byte from beside it, whatever that is. A hit is compared with the words
// in question.
type sieve struct {
	set    [1 << 10]uint64
	places [1 << 8][]place // by the upper half of the hash
	beside []place         // of samples that have a byte from beside the word
}

// A place is where in a word a sample is taken; -1 is before it.
type place struct {
	word   string
	offset int
}

const (
	sampled = 3
	stride  = 4
	blanks  = 0x2020202020202020 // makes eight letters small; the other bytes that it makes equal are told apart by stands
)

// newSieve returns the sieve of those words, all in lower case, that have a mark beyond idle; nil if one is too short.
func newSieve(words map[string]uint64, idle uint64) *sieve {
	s := &sieve{}
	for w, marks := range words {
		if marks&^idle == 0 {
			continue
		}
		if len(w) < stride {
			return nil
		}
		from := rarest(w)
		for offset := from; offset < from+stride; offset++ {
			s.put(place{w, offset})
		}
	}
	return s
}

// rarest returns the first of the places to sample in a word: of a long one where samples are the least likely to be
// found in other text.
func rarest(w string) int {
	const common = "1g0.:hpumcdlrsnioate " // of English and of logs, the commonest last
	often := func(b byte) int { return 2 + strings.IndexByte(common, b) }
	best, least := -1, 1<<30
	for from := 0; from+stride+sampled-1 <= len(w); from++ {
		sum := 0
		for i := from; i < from+stride; i++ {
			sum += often(w[i]) * often(w[i+1]) * often(w[i+2])
		}
		if sum < least {
			best, least = from, sum
		}
	}
	return best
}

// put enters the samples that a place may give.
func (s *sieve) put(p place) {
	var gram [sampled]byte
	free := -1
	for i := range gram {
		if at := p.offset + i; at >= 0 && at < len(p.word) {
			gram[i] = p.word[at] | 0x20
		} else {
			free = i
		}
	}
	enter := func() uint32 {
		h := hash(uint32(gram[0]) | uint32(gram[1])<<8 | uint32(gram[2])<<16)
		s.set[h>>6] |= 1 << (h & 63)
		return h
	}
	if free < 0 {
		h := enter()
		s.places[h>>8] = append(s.places[h>>8], p)
		return
	}
	s.beside = append(s.beside, p)
	for b := range 256 {
		gram[free] = byte(b) | 0x20
		enter()
	}
}

// hash takes the lower three bytes to 16 bits (Knuth, The Art of Computer Programming 3, 6.4: by multiplication).
func hash(gram uint32) uint32 { return gram << 8 * 2654435769 >> 16 }

// holds reports whether a word stands in the line.
func (s *sieve) holds(line []byte) bool {
	i := 0
	for ; i <= len(line)-8; i += 8 {
		if a, b := hashes(binary.LittleEndian.Uint64(line[i:])); s.has(a) || s.has(b) {
			if s.compare(line, i, a, b) {
				return true
			}
		}
	}
	var last uint64 // the rest, and nothing after it
	if len(line) >= 8 {
		last = binary.LittleEndian.Uint64(line[len(line)-8:]) >> (8 * (8 + i - len(line)))
	} else {
		for k, b := range line {
			last |= uint64(b) << (8 * k)
		}
	}
	a, b := hashes(last)
	return (s.has(a) || s.has(b)) && s.compare(line, i, a, b)
}

func (s *sieve) has(h uint32) bool { return s.set[h>>6]&(1<<(h&63)) != 0 }

// hashes returns those of the two samples in eight bytes.
func hashes(v uint64) (a, b uint32) {
	v |= blanks
	return hash(uint32(v)), hash(uint32(v >> 32))
}

// compare reports whether a word stands where the samples a at i and b after it say.
func (s *sieve) compare(line []byte, i int, a, b uint32) bool {
	for _, p := range s.places[a>>8] {
		if p.stands(line, i) {
			return true
		}
	}
	for _, p := range s.places[b>>8] {
		if p.stands(line, i+stride) {
			return true
		}
	}
	for _, p := range s.beside {
		if p.stands(line, i) || p.stands(line, i+stride) {
			return true
		}
	}
	return false
}

func (p place) stands(line []byte, i int) bool {
	from := i - p.offset
	if from < 0 || from+len(p.word) > len(line) {
		return false
	}
	for k, b := range line[from : from+len(p.word)] {
		if lower(b) != p.word[k] {
			return false
		}
	}
	return true
}
