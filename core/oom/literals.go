package oom

// A literals searches a line for many words in one pass, ASCII case ignored: the automaton of Aho and Corasick (1975),
// flattened over byte classes. It costs one or two nanoseconds a byte, so that regexps run only on lines that may matter.
type literals struct {
	class [256]uint8
	width int
	next  []uint16 // state*width + class
	out   []uint64 // state: the marks of the words that end there

	// The same automaton for scanning: states are their offsets in jump, and those where words end come last.
	jump  []uint32
	first uint32   // the first state where a word ends
	marks []uint64 // of the states from first on
}

// newLiterals builds the automaton of words, each with its marks.
func newLiterals(words map[string]uint64) *literals {
	l := &literals{width: 1}
	for w := range words {
		for i := range len(w) {
			b := lower(w[i])
			if l.class[b] == 0 {
				l.class[b] = uint8(l.width)
				l.width++
			}
		}
	}
	for b := 'A'; b <= 'Z'; b++ {
		l.class[b] = l.class[b+'a'-'A']
	}
	state := func() uint16 {
		l.next = append(l.next, make([]uint16, l.width)...)
		l.out = append(l.out, 0)
		return uint16(len(l.out) - 1)
	}
	state() // the root, to which a missing edge leads
	for w, marks := range words {
		s := uint16(0)
		for i := range len(w) {
			at := int(s)*l.width + int(l.class[lower(w[i])])
			if l.next[at] == 0 {
				n := state()
				l.next[at] = n
			}
			s = l.next[at]
		}
		l.out[s] |= marks
	}
	l.link()
	l.pack()
	return l
}

// pack renumbers the states for scan: one load and one comparison a byte.
func (l *literals) pack() {
	place := make([]uint32, len(l.out))
	n := uint32(0)
	put := func(ends bool) {
		for s, marks := range l.out {
			if (marks != 0) == ends {
				place[s] = n * uint32(l.width)
				n++
			}
		}
	}
	put(false) // the root, where no word ends, stays the first
	l.first = n * uint32(l.width)
	put(true)
	l.jump = make([]uint32, len(l.next))
	l.marks = make([]uint64, (uint32(len(l.next))-l.first)/uint32(l.width))
	for s, marks := range l.out {
		for c := range l.width {
			l.jump[place[s]+uint32(c)] = place[l.next[s*l.width+c]]
		}
		if marks != 0 {
			l.marks[(place[s]-l.first)/uint32(l.width)] = marks
		}
	}
	l.next, l.out = nil, nil
}

// link follows the tree level by level: what fails in a state goes on as the longest proper suffix of what was read.
func (l *literals) link() {
	fail := make([]uint16, len(l.out))
	var queue []uint16
	for _, s := range l.next[:l.width] {
		if s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		l.out[s] |= l.out[fail[s]]
		for c := range l.width {
			at, other := int(s)*l.width+c, l.next[int(fail[s])*l.width+c]
			if child := l.next[at]; child != 0 {
				fail[child] = other
				queue = append(queue, child)
			} else {
				l.next[at] = other
			}
		}
	}
}

// scan returns the marks of all words in p.
func (l *literals) scan(p []byte) (marks uint64) {
	s, jump, first := uint32(0), l.jump, l.first
	for _, b := range p {
		s = jump[s+uint32(l.class[b])]
		if s >= first {
			marks |= l.marks[(s-first)/uint32(l.width)]
		}
	}
	return marks
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
