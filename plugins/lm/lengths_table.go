package lm

import (
	"bufio"
	"bytes"
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
)

// What is read of a data set, and of that how much is tokenised, each within a time: launch waits 5 s for a plugin, and
// without an answer the command runs as typed.
const (
	maxData      = 64 << 20
	maxRow       = 1 << 20
	maxCounted   = 8 << 20
	maxTokenizer = 40 << 20
	maxTime      = 1500 * time.Millisecond
)

func (e errUnread) Error() string { return string(e) }

// A tokenRow is what the program makes of one row of a data set: texts, each tokenised for itself, and tokens
// beside them.
type tokenRow struct {
	texts []string
	more  int
}

// A table is the rows of a data set, and the files that they are of.
type table struct {
	rows  []tokenRow
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

func unread(format string, a ...any) error { return errUnread(fmt.Sprintf(format, a...)) }

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

// records are the rows of files, and the columns that any of them has.
type records struct {
	rows []record
	has  map[string]bool
}

func (all *records) add(r record) error {
	for column := range r {
		all.has[column] = true
	}
	all.rows = append(all.rows, r)
	return nil
}

// tokenised are rows that have their tokens.
func (d *table) tokenised(rows []record) error {
	for _, r := range rows {
		if err := d.inTime(); err != nil {
			return err
		}
		var ids []json.Number
		if json.Unmarshal(r["input_ids"], &ids) != nil {
			return unread("input_ids of a row are no numbers")
		}
		d.rows = append(d.rows, tokenRow{more: len(ids)})
	}
	return nil
}
