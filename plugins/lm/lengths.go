package lm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/plugins/lm/tokens"
)

// A row is what the program makes of one row of a data set: texts, each tokenised for itself, and tokens beside them.
type row struct {
	texts []string
	more  int
}

// What is read of a data set, and of that how much is tokenised, each within a time: launch waits 5 s for a plugin, and
// without an answer the command runs as typed.
const (
	maxData      = 64 << 20
	maxRow       = 1 << 20
	maxCounted   = 8 << 20
	maxTokenizer = 40 << 20
	maxTime      = 1500 * time.Millisecond
)

// A table is the rows of a data set, and the files that they are of.
type table struct {
	rows  []row
	files []string
	left  int64 // bytes that may still be read
	until time.Time
}

func newTable(until time.Time) *table { return &table{left: maxData, until: until} }

// late reports whether the time is up.
func (d *table) late() bool { return time.Now().After(d.until) }

func (d *table) inTime() error {
	if d.late() {
		return unread("that takes more than %v", maxTime)
	}
	return nil
}

// errUnread is why a data set was not read.
type errUnread string

func (e errUnread) Error() string { return string(e) }

func unread(format string, a ...any) error { return errUnread(fmt.Sprintf(format, a...)) }

// readLengths makes batches as short as the longest row of the data set, where that is known to be shorter than the
// length to which rows are cut. What it tells is one line of the plan.
func readLengths(s *settings, t *training) {
	if t.unknown != "" || !t.pads || t.packs || t.evalPacks || t.step.Packed || s.on("packing") ||
		s.on("neat_packing") || s.on("sample_packing") {
		return
	}
	if s.script != nil && s.script.rows.whole { // each row is padded to its length
		return
	}
	data := newTable(time.Now().Add(maxTime))
	longest, how, err := longest(s, t, data)
	at := fmt.Sprintf("%s (%d tokens)", s.address(s.kind.length).Path, t.step.Length)
	whole := "the longest batch is assumed to reach " + at
	if padsWhole(s) {
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
	t.atMost = !padsWhole(s) && (err != nil || how == inBytes)
	switch {
	case err != nil && t.atMost:
		warn(t, "%s: the data was not read, since %v; it may be shorter, so that nothing is refused for it", whole, err)
	case err != nil:
		warn(t, "%s: the data was not read, since %v", whole, err)
	case longest >= t.step.Length:
		warn(t, "%s: rows of %s may be as long", whole, of)
	case padsWhole(s):
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
	case padsWhole(s):
		return 1
	case s.is(llamaFactory) && t.multiple:
		return 8
	}
	return folds(s, t)
}

// How the longest row was found.
const (
	inBytes   = "by its bytes"
	inTokens  = "counted with its tokenizer"
	tokenised = "of its input_ids"
)

// longest is a number of tokens that no row of the data set exceeds, and how it was found.
func longest(s *settings, t *training, data *table) (n int64, how string, err error) {
	for _, field := range []string{"eval_packing", "eval_sample_packing"} {
		if s.on(field) {
			return 0, "", unread("%s packs rows", s.address(field).Path)
		}
	}
	if err := rowsOf(s, data); err != nil {
		return 0, "", err
	}
	if len(data.rows) == 0 {
		return 0, "", unread("it has no rows")
	}
	if !slices.ContainsFunc(data.rows, func(r row) bool { return len(r.texts) > 0 }) {
		longest := slices.MaxFunc(data.rows, func(x, y row) int { return cmp.Compare(x.more, y.more) })
		return int64(longest.more), tokenised, nil
	}
	tok, err := tokenizer(s, t)
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
		row
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

// A record is one row of a file as it stands there.
type record map[string]json.RawMessage

// text is a column that is a text; "" for none or null.
func (r record) text(column string) (string, error) {
	raw, ok := r[column]
	if column == "" || !ok || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", unread("%q of a row is no text", column)
	}
	return s, nil
}

// empty reports whether a row has nothing in a column.
func (r record) empty(column string) bool {
	raw := bytes.TrimSpace(r[column])
	return column == "" || len(raw) == 0 || slices.Contains([]string{"null", `""`, "[]", `"[]"`}, string(raw))
}

// read reads a file of JSON, an array or lines, row for row. The error is an errUnread for what launch does not read.
func (d *table) read(path, name string, each func(record) error) error {
	if ext := filepath.Ext(path); ext != ".json" && ext != ".jsonl" {
		return unread("%s is no JSON", name)
	}
	if strings.ContainsAny(name, "*?[") { // the module datasets takes it for a pattern
		return unread("%s is a pattern of other names", name)
	}
	f, err := file.Open(path)
	if err != nil {
		return unread("%s is not on this machine", name)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if d.left -= info.Size(); d.left < 0 {
		return unread("it has more than %d MiB", maxData>>20)
	}
	d.files = append(d.files, name)
	in := bufio.NewReaderSize(io.LimitReader(f, info.Size()), 1<<20)
	first, err := firstByte(in)
	if err != nil {
		return unread("%s is empty", name)
	}
	dec := json.NewDecoder(in)
	if first == '[' {
		if _, err := dec.Token(); err != nil {
			return unread("%s could not be read (%v)", name, err)
		}
	}
	before := dec.InputOffset()
	for first != '[' || dec.More() {
		var r record
		if err := dec.Decode(&r); errors.Is(err, io.EOF) && first != '[' {
			return nil
		} else if err != nil {
			return unread("%s could not be read (%v)", name, err)
		}
		size := dec.InputOffset() - before
		if before += size; size > maxRow {
			return unread("a row of %s has more than %d MiB", name, maxRow>>20)
		}
		if err := d.inTime(); err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return unread("%s could not be read (%v)", name, err)
	}
	return nil
}

// firstByte is the first one that is no white space, and stays unread.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// jsonFiles are the files of a folder that has no others. Hidden ones are left out where the program does so (the
// module datasets of a folder's name), and otherwise none of them may be there.
func jsonFiles(folder string, hides bool) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		switch {
		case hides && strings.HasPrefix(e.Name(), "."):
		case strings.HasPrefix(e.Name(), "."), e.IsDir(),
			ext != ".json" && ext != ".jsonl" || e.Name() == "dataset_infos.json":
			return nil, unread("its folder has %s", e.Name())
		default:
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// rowsOf are the rows of the data set, as the program makes them.
func rowsOf(s *settings, data *table) error {
	switch s.kind.framework {
	case llamaFactory:
		return rowsFactory(s, data)
	case axolotl:
		return rowsAxolotl(s, data)
	case trlSFT:
		return rowsSFT(s, data)
	}
	return unread("launch reads only that of LLaMA-Factory, axolotl and trl's SFT")
}
