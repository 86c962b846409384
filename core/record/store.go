package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// A Receipts is a file of receipts, with one line of JSON for each. New receipts are appended. Reading skips lines
// that are not valid, such as one that a full disk has truncated.
//
// The file is bounded: it keeps the newest five receipts of one phase of one program at the same settings on the same
// machine, and the newest 500 of all.
type Receipts struct{ Path string }

const (
	keptAlike = 5
	keptInAll = 500
	slackKept = 100       // lines beyond the bound before the file is rewritten
	longest   = 256 << 10 // line, in bytes
)

// Read returns the receipts in the order of the file, and the number of invalid lines. Without a file there are none.
func (s Receipts) Read() (rs []Receipt, bad int, err error) {
	f, err := private.Open(s.Path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the receipts: %w", err)
	}
	defer f.Close()
	err = eachLine(f, func(_ int, line []byte) {
		if r, err := parseReceipt(line); err == nil {
			rs = append(rs, r)
		} else {
			bad++
		}
	})
	if err != nil {
		return rs, bad, fmt.Errorf("reading the receipts: %w", err)
	}
	return rs, bad, nil
}

func parseReceipt(line []byte) (r Receipt, err error) {
	if len(line) > longest {
		return r, fmt.Errorf("a line of %d bytes is too long for a receipt", len(line))
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("it is not a receipt: %w", err)
	}
	return r, r.check()
}

// eachLine calls see with the number and text of each line that is not empty. It cuts lines that are longer than any receipt.
func eachLine(in io.Reader, see func(number int, line []byte)) error {
	b := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		var line []byte
		for {
			part, err := b.ReadSlice('\n')
			if len(line) <= longest {
				line = append(line, part...)
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil && err != io.EOF {
				return err
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				see(number, line)
			}
			if err == io.EOF {
				return nil
			}
			break
		}
	}
}

// ReceiptLines formats receipts as the file has them and [Receipts.Import] reads them: one line of JSON for each.
func ReceiptLines(rs []Receipt) (text []byte, err error) {
	for _, r := range rs {
		b, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("writing a receipt: %w", err)
		}
		text = append(append(text, b...), '\n')
	}
	return text, nil
}

// Append adds receipts at the end, and shortens the file if it has grown beyond its bound.
func (s Receipts) Append(rs ...Receipt) error {
	for _, r := range rs {
		if err := r.check(); err != nil {
			return fmt.Errorf("writing a receipt: %w", err)
		}
	}
	text, err := ReceiptLines(rs)
	if err != nil || len(text) == 0 {
		return err
	}
	if err := private.MkdirAll(filepath.Dir(s.Path)); err != nil {
		return fmt.Errorf("making the folder of receipts: %w", err)
	}
	unlock, alone := s.lock()
	defer unlock()
	f, err := private.Open(s.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the receipts: %w", err)
	}
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' { // truncated: the next receipt needs a line of its own
			text = append([]byte("\n"), text...)
		}
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the receipts: %w", err)
	}
	if alone {
		return s.shorten()
	}
	return nil
}

// lock keeps two launches from rewriting the file at the same time. It waits half a second at most, because the end of a
// training waits for it. Some network file systems have no locks: without one the file is appended to and never shortened.
func (s Receipts) lock() (unlock func(), held bool) {
	f, err := private.Open(s.Path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return func() {}, false
	}
	for range 20 {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, true
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	f.Close()
	return func() {}, false
}

// shorten rewrites the file if it is longer than its bound. Its caller holds the lock.
func (s Receipts) shorten() error {
	rs, bad, err := s.Read()
	if err != nil {
		return err
	}
	kept := keep(rs)
	if len(rs)+bad <= len(kept)+slackKept {
		return nil
	}
	return s.rewrite(kept)
}

// rewrite replaces the file's receipts. Its caller holds the lock.
func (s Receipts) rewrite(rs []Receipt) error {
	text, err := ReceiptLines(rs)
	if err != nil {
		return err
	}
	if err := private.WriteFile(s.Path, text, 0o600); err != nil {
		return fmt.Errorf("shortening the receipts: %w", err)
	}
	return nil
}

// Drop removes the receipts of a run and returns their number.
func (s Receipts) Drop(run string) (dropped int, err error) {
	unlock, alone := s.lock()
	defer unlock()
	if !alone {
		return 0, errors.New("removing receipts: another launch is writing them, or the file system has no locks")
	}
	rs, _, err := s.Read()
	if err != nil {
		return 0, err
	}
	kept := slices.DeleteFunc(slices.Clone(rs), func(r Receipt) bool { return r.Run == run })
	if dropped = len(rs) - len(kept); dropped == 0 {
		return 0, nil
	}
	return dropped, s.rewrite(kept)
}

// keep returns the receipts within the bound, the oldest first.
func keep(rs []Receipt) (kept []Receipt) {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b Receipt) int {
		if a.Imported != b.Imported { // this machine's own are dropped last
			if a.Imported {
				return 1
			}
			return -1
		}
		return b.Time.Compare(a.Time)
	})
	alike := map[string]int{}
	for _, r := range rs {
		k := fmt.Sprintf("%q %+v %q", []string{r.Job.Plugin, r.Job.Arch, r.Job.Generation, r.Job.Phase, r.Job.Program}, r.Machine, sorted(r.Job.Settings))
		if alike[k]++; alike[k] <= keptAlike && len(kept) < keptInAll {
			kept = append(kept, r)
		}
	}
	slices.SortStableFunc(kept, func(a, b Receipt) int { return a.Time.Compare(b.Time) })
	return kept
}

func sorted(m map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k, m[k])
	}
	return out
}

// Import adds the receipts of another file that are not in this one yet, marked as imported. It returns how many it added,
// how many it had already, and a problem with its line number for each line that is not valid or lies in the future.
func (s Receipts) Import(in io.Reader, now time.Time) (added, known int, problems []error, err error) {
	have, _, err := s.Read()
	if err != nil {
		return 0, 0, nil, err
	}
	ids := map[string]bool{}
	for _, r := range have {
		ids[r.id()] = true
	}
	var fresh []Receipt
	err = eachLine(in, func(number int, line []byte) {
		r, err := parseReceipt(line)
		if err == nil && r.Time.After(now.Add(24*time.Hour)) {
			err = fmt.Errorf("its time %s is in the future", r.Time.Format(time.RFC3339))
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("line %d: %w", number, err))
		case ids[r.id()]:
			known++
		default:
			ids[r.id()] = true
			r.Imported = true
			fresh = append(fresh, r)
		}
	})
	if err != nil {
		return 0, known, problems, fmt.Errorf("reading receipts: %w", err)
	}
	if err := s.Append(fresh...); err != nil {
		return 0, known, problems, err
	}
	return len(fresh), known, problems, nil
}

// Bound returns the number of receipts in the file, and how many of these the bound keeps.
func (s Receipts) Bound() (there, kept int, err error) {
	rs, _, err := s.Read()
	return len(rs), len(keep(rs)), err
}
