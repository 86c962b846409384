package lazy

import (
	"math/bits"
	"strings"
)

// A Finder finds words of at least three letters in one pass, ASCII case ignored.
type Finder struct {
	begins [3][1 << 8]uint64 // the words that have this byte first, second, third: a bit for each, or for two
	words  [64][]sought
	count  int
}

type sought struct {
	word string
	mark uint64
}

// NewFinder makes a finder of words, which have a mark each.
func NewFinder(of map[uint64][]string) *Finder {
	f := &Finder{}
	for mark, words := range of {
		for _, w := range words {
			f.add(w, mark)
		}
	}
	return f
}

func (f *Finder) add(word string, mark uint64) {
	bit := f.count % 64
	f.count++
	f.words[bit] = append(f.words[bit], sought{word, mark})
	for i := range f.begins {
		f.begins[i][word[i]] |= 1 << bit
		if 'a' <= word[i] && word[i] <= 'z' {
			f.begins[i][word[i]-'a'+'A'] |= 1 << bit
		}
	}
}

// In returns the marks of the words that stand in a text.
func (f *Finder) In(text string) (marks uint64) {
	for i := 0; i+2 < len(text); i++ {
		may := f.begins[0][text[i]] & f.begins[1][text[i+1]] & f.begins[2][text[i+2]]
		for ; may != 0; may &= may - 1 {
			for _, w := range f.words[bits.TrailingZeros64(may)] {
				if marks&w.mark == 0 && len(text)-i >= len(w.word) && strings.EqualFold(text[i:i+len(w.word)], w.word) {
					marks |= w.mark
				}
			}
		}
	}
	return marks
}
