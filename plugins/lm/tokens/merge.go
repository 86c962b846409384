package tokens

import "container/heap"

// A pair of neighbours that a merge makes one of. The left one is at a place of the word.
type pair struct {
	merge
	at          int
	left, right int32 // as they were when the pair was found
}

type queue []pair

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].at < q[j].at
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(pair)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// merged is the number of tokens of a piece: the merge of the lowest rank first, and of several the first one
// (models/bpe/word.rs, merge_all).
func (t *Tokenizer) merged(piece string) int {
	word := make([]int32, len(piece))
	var whole []byte
	for i := range len(piece) {
		c := level[piece[i]]
		word[i] = t.ids[c]
		whole = append(whole, c...)
	}
	if t.whole {
		if _, ok := t.ids[string(whole)]; ok {
			return 1
		}
	}
	next, before := make([]int, len(word)), make([]int, len(word))
	for i := range word {
		next[i], before[i] = i+1, i-1
	}
	var q queue
	found := func(at int) {
		if at < 0 || next[at] >= len(word) {
			return
		}
		left, right := word[at], word[next[at]]
		if m, ok := t.merges[[2]int32{left, right}]; ok {
			heap.Push(&q, pair{m, at, left, right})
		}
	}
	for i := range word {
		found(i)
	}
	n := len(word)
	for len(q) > 0 {
		p := heap.Pop(&q).(pair)
		right := next[p.at]
		if word[p.at] != p.left || right >= len(word) || word[right] != p.right {
			continue
		}
		word[p.at], word[right] = p.id, -1
		next[p.at] = next[right]
		if next[right] < len(word) {
			before[next[right]] = p.at
		}
		n--
		found(before[p.at])
		found(p.at)
	}
	return n
}
