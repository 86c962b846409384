package lm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/plugins/lm/tokens"
)

// readLengths makes batches as short as the longest row of the data set, where that is known to be shorter than the
// length to which rows are cut. What it tells is one line of the plan.
func readLengths(s *settings, t *training, rows rowsOf) {
	if !t.pads || t.packs || t.evalPacks || t.step.Packed || s.on("packing") ||
		s.on("neat_packing") || s.on("sample_packing") {
		return
	}
	if s.script != nil && s.script.rows.whole { // each row is padded to its length
		return
	}
	data := newTable(time.Now().Add(maxTime))
	longest, how, err := longest(s, t, rows, data)
	at := fmt.Sprintf("%s (%d tokens)", s.address(s.kind.length).Path, t.step.Length)
	whole := "the longest batch is assumed to reach " + at
	if t.whole {
		whole = "each batch is padded to " + at
	}
	of := strings.Join(data.files, ", ")
	if len(data.files) > 2 {
		of = fmt.Sprintf("%s and %d other files", data.files[0], len(data.files)-1)
	}
	if fold := fold(s, t); fold > 1 {
		longest = (longest + fold - 1) / fold * fold
	}
	// the bound of a row by its bytes is no length of a row: it refuses nothing
	t.atMost = !t.whole && (err != nil || how == inBytes)
	switch {
	case err != nil && t.atMost:
		warn(t, "%s: the data was not read, since %v; it may be shorter, so that nothing is refused for it", whole, err)
	case err != nil:
		warn(t, "%s: the data was not read, since %v", whole, err)
	case longest >= t.step.Length:
		warn(t, "%s: rows of %s may be as long", whole, of)
	case t.whole:
		t.row = longest
		if cut, err := s.count(s.kind.length, longest); err == nil {
			t.row = min(longest, cut)
		}
		warn(t, "%s, and the longest row has at most %d tokens (%s, %s)", whole, longest, of, how)
	default:
		warn(t, "the longest batch has at most %d tokens (%s, %s), fewer than %s", longest, of, how, at)
		t.step.Length = longest
	}
}

// fold is of what number of tokens a padded batch is a multiple (LLaMA-Factory's train/sft/workflow.py:63 and
// train/dpo/workflow.py:50; axolotl's core/builders/causal.py:386); 1 for any.
func fold(s *settings, t *training) int64 {
	switch {
	case t.whole:
		return 1
	case s.is(llamaFactory) && t.multiple:
		return 8
	}
	return max(1, t.folds)
}

// How the longest row was found.
const (
	inBytes  = "by its bytes"
	inTokens = "counted with its tokenizer"
	ofTokens = "of its input_ids"
)

// rowsOf reads the rows of a data set, as a program makes them.
type rowsOf func(s *settings, data *table) error

// longest is a number of tokens that no row of the data set exceeds, and how it was found.
func longest(s *settings, t *training, rows rowsOf, data *table) (n int64, how string, err error) {
	for _, field := range []string{"eval_packing", "eval_sample_packing"} {
		if s.on(field) {
			return 0, "", unread("%s packs rows", s.address(field).Path)
		}
	}
	if rows == nil {
		return 0, "", unread("launch reads only that of LLaMA-Factory, axolotl and trl's SFT")
	}
	if err := rows(s, data); err != nil {
		return 0, "", err
	}
	if len(data.rows) == 0 {
		return 0, "", unread("it has no rows")
	}
	if !slices.ContainsFunc(data.rows, func(r tokenRow) bool { return len(r.texts) > 0 }) {
		longest := slices.MaxFunc(data.rows, func(x, y tokenRow) int { return cmp.Compare(x.more, y.more) })
		return int64(longest.more), ofTokens, nil
	}
	tok, err := tokenizerOf(s, t)
	if err != nil {
		return 0, "", err
	}
	data.until = data.until.Add(maxTime) // the tokenizer's file takes some of it
	longest, counted := data.longest(tok, int(t.step.Length))
	if how = inBytes; counted {
		how = inTokens
	}
	return int64(longest), how, nil
}

// longest is a number of tokens that no row exceeds; a number from most on stands for any above it. The rows with the
// highest bounds are counted first, until the next one's bound is no more than what was found.
func (d *table) longest(tok *tokens.Tokenizer, most int) (longest int, counted bool) {
	type bounded struct {
		tokenRow
		bound int
	}
	var rows []bounded
	for _, r := range d.rows {
		b := bounded{r, r.more}
		for _, text := range r.texts {
			if d.late() {
				return most, false
			}
			b.bound += tok.Most(text)
		}
		rows = append(rows, b)
	}
	slices.SortFunc(rows, func(x, y bounded) int { return cmp.Compare(y.bound, x.bound) })
	if rows[0].bound < most && !tok.Counts() {
		return rows[0].bound, false
	}
	left := maxCounted
	for _, r := range rows {
		switch {
		case r.bound <= longest || longest >= most:
			return longest, true
		case left <= 0 || !tok.Counts() || d.late():
			return max(longest, r.bound), false
		}
		n := r.more
		for _, text := range r.texts {
			if left -= len(text); left < 0 || d.late() {
				return max(longest, r.bound), false
			}
			n += tok.Count(text)
		}
		longest = max(longest, n)
	}
	return longest, true
}
