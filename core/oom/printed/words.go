package printed

import (
	"slices"
	"strings"
	"sync"
)

// Marks of words, by what they may mean. The plugin's signs share the bits above these.
const (
	MarkMemory uint64 = 1 << iota
	MarkFailure
	MarkFrame
	MarkBar   // of a progress bar
	MarkStat  // what a line of progress states beside its counter
	MarkCount // the counter's name
	FirstSign = iota
)

// words finds many words in a line in one pass, ASCII case ignored: the automaton of Aho and Corasick (1975),
// flattened over byte classes. A regular expression costs a hundred times as much a byte, so they run only on lines
// that may matter.
type Words struct {
	list  map[string]uint64 // each with its marks
	once  sync.Once         // lays the rest out when the first line comes: a program's start does not wait for it
	class [256]uint8
	width int
	next  []uint16 // state*width + class
	marks []uint64 // state: the marks of the words that end there
}

// newWords returns the automaton of words, each with its marks.
func NewWords(list map[string]uint64) *Words { return &Words{list: list} }

func (w *Words) build() {
	w.width = 1
	most := 1 // states
	for word := range w.list {
		most += len(word)
		for i := range len(word) {
			if b := lower(word[i]); w.class[b] == 0 {
				w.class[b] = uint8(w.width)
				w.width++
			}
		}
	}
	for b := 'A'; b <= 'Z'; b++ {
		w.class[b] = w.class[b+'a'-'A']
	}
	w.next = make([]uint16, 0, most*w.width)
	w.newState() // the root, to which a missing edge leads
	for word, marks := range w.list {
		s := uint16(0)
		for i := range len(word) {
			at := int(s)*w.width + int(w.class[lower(word[i])])
			if w.next[at] == 0 {
				w.next[at] = w.newState()
			}
			s = w.next[at]
		}
		w.marks[s] |= marks
	}
	w.link()
	w.list = nil
}

// newState adds a state without edges.
func (w *Words) newState() uint16 {
	w.next = append(w.next, make([]uint16, w.width)...)
	w.marks = append(w.marks, 0)
	return uint16(len(w.marks) - 1)
}

// link follows the tree level by level: what fails in a state goes on as the longest proper suffix of what was read.
func (w *Words) link() {
	fail := make([]uint16, len(w.marks))
	queue := []uint16{0}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		w.marks[s] |= w.marks[fail[s]]
		for c := range w.width {
			at, suffix := int(s)*w.width+c, w.next[int(fail[s])*w.width+c]
			child := w.next[at]
			switch {
			case child == 0 || child == suffix: // the root's own edges lead to themselves
				w.next[at] = suffix
			default:
				fail[child] = suffix
			}
			if child != 0 {
				queue = append(queue, child)
			}
		}
	}
}

// scan returns the marks of all words in a line.
func (w *Words) Scan(line []byte) (marks uint64) {
	w.once.Do(w.build)
	s := 0
	for _, b := range line {
		s = int(w.next[s*w.width+int(w.class[b])])
		marks |= w.marks[s]
	}
	return marks
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// OpenBrackets is how many brackets a line of source opens and does not close.
func OpenBrackets(line string) (open int) {
	for _, c := range line {
		switch c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
	}
	return open
}

// MemoryError reports whether an exception's type may be an out-of-memory's. Until torch 1.12 it was a RuntimeError,
// and programs wrap it.
func MemoryError(name string) bool {
	name = name[strings.LastIndexByte(name, '.')+1:]
	own := []string{"OutOfMemoryError", "MemoryError", "RuntimeError", "AcceleratorError"}
	return slices.Contains(own, name) || Relayed(name)
}

// Relayed reports whether an exception is the parent's report of a child's death (torch/multiprocessing/spawn.py).
func Relayed(name string) bool { return strings.HasSuffix(name, "ProcessRaisedException") }
