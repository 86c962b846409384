package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/mem"
)

var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func aReceipt(n int, micro string) Receipt {
	return Receipt{
		Version: 1, Run: fmt.Sprintf("run-%d", n), Attempt: 1, Time: monday.Add(time.Duration(n) * time.Minute), Ending: "succeeded",
		Job: ReceiptKey{Plugin: "sisr", Arch: "net", Phase: "training",
			Settings: map[string]string{"micro-batch": micro}},
		Machine:   Machine{Kind: "cpu", Torch: "2.9"},
		Predicted: mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: 100}}},
		Measured:  []mem.Measurement{{Is: mem.Data, Bytes: 110, Bound: mem.Sampled}},
	}
}

func receiptRead(t *testing.T, s Receipts) []Receipt {
	t.Helper()
	rs, _, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// Receipts can be read again, also after a line that a full disk truncated.
func TestReceipts(t *testing.T) {
	s := Receipts{Path: filepath.Join(t.TempDir(), "state", "receipts.jsonl")}
	if rs := receiptRead(t, s); len(rs) != 0 {
		t.Fatalf("of no file: %v", rs)
	}
	if err := s.Append(aReceipt(1, "8"), aReceipt(2, "8")); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(s.Path)
	os.WriteFile(s.Path, text[:len(text)-10], 0o600)
	if err := s.Append(aReceipt(3, "8")); err != nil {
		t.Fatal(err)
	}
	rs, bad, err := s.Read()
	if err != nil || len(rs) != 2 || bad != 1 || rs[0].Run != "run-1" || rs[1].Run != "run-3" {
		t.Errorf("read %v, %d bad, %v", rs, bad, err)
	}
	if err := s.Append(Receipt{}); err == nil {
		t.Error("an invalid receipt was written")
	}
	if info, _ := os.Stat(s.Path); info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
}

// The file stays bounded: it keeps the newest five of a kind and the newest 500 of all.
func TestReceiptsAreBounded(t *testing.T) {
	s := Receipts{Path: filepath.Join(t.TempDir(), "receipts.jsonl")}
	var many []Receipt
	for i := range 700 {
		many = append(many, aReceipt(i, fmt.Sprint(i)))
	}
	for i := range 20 {
		many = append(many, aReceipt(1000+i, "alike"))
	}
	if err := s.Append(many...); err != nil {
		t.Fatal(err)
	}
	rs := receiptRead(t, s)
	alike := 0
	for _, r := range rs {
		if r.Job.Settings["micro-batch"] == "alike" {
			alike++
		}
	}
	if len(rs) != keptInAll || alike != keptAlike || rs[len(rs)-1].Run != "run-1019" || rs[0].Run != fmt.Sprintf("run-%d", 700-(keptInAll-keptAlike)) {
		t.Errorf("%d are kept, %d of them alike, from %s to %s", len(rs), alike, rs[0].Run, rs[len(rs)-1].Run)
	}
	for i := range 10 { // it is not rewritten for every receipt
		s.Append(aReceipt(2000+i, "more"))
	}
	if n := len(receiptRead(t, s)); n != keptInAll+10 {
		t.Errorf("%d after ten more", n)
	}
}

// Two launches that end at the same time lose nothing.
func TestReceiptsTogether(t *testing.T) {
	s := Receipts{Path: filepath.Join(t.TempDir(), "receipts.jsonl")}
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() { s.Append(aReceipt(i, fmt.Sprint(i))) })
	}
	wait.Wait()
	if rs, bad, _ := s.Read(); len(rs) != 40 || bad != 0 {
		t.Errorf("%d are there, %d bad", len(rs), bad)
	}
}

// An imported file is not trusted: an invalid line is skipped and reported with its number.
func TestImport(t *testing.T) {
	s := Receipts{Path: filepath.Join(t.TempDir(), "receipts.jsonl")}
	s.Append(aReceipt(1, "8"))
	line := func(r Receipt) string { b, _ := json.Marshal(r); return string(b) }
	late, wild := aReceipt(4, "8"), aReceipt(5, "8")
	late.Time, wild.Measured[0].Bytes = monday.Add(9000*time.Hour), 1<<60
	in := strings.Join([]string{line(aReceipt(1, "8")), line(aReceipt(2, "8")), "", "{\"v\":1", line(late), line(wild), line(aReceipt(2, "8")), strings.Repeat("x", longest+70000), line(aReceipt(3, "8"))}, "\n")
	added, known, problems, err := s.Import(strings.NewReader(in), monday.Add(24*time.Hour))
	if err != nil || added != 2 || known != 2 || len(problems) != 4 {
		t.Fatalf("%d added, %d known, %v, %v", added, known, problems, err)
	}
	for i, want := range []string{"line 4: it is not a receipt", "line 5: its time 2027", "line 6: 1152921504606846976 bytes data are out of range", "line 8: a line of"} {
		if !strings.HasPrefix(problems[i].Error(), want) {
			t.Errorf("problem %d: %v, want %q", i, problems[i], want)
		}
	}
	if rs := receiptRead(t, s); len(rs) != 3 || rs[2].Run != "run-3" {
		t.Errorf("there are %v", rs)
	}
	var none bytes.Buffer
	if added, _, _, err := s.Import(&none, monday); added != 0 || err != nil {
		t.Errorf("of an empty file: %d, %v", added, err)
	}
}

// Imported receipts are marked, and never displace this machine's own.
func TestImportLeavesOwn(t *testing.T) {
	s := Receipts{Path: filepath.Join(t.TempDir(), "receipts.jsonl")}
	s.Append(aReceipt(1, "8"), aReceipt(2, "16"))
	var strangers []Receipt
	for i := range 700 {
		strangers = append(strangers, aReceipt(100+i, fmt.Sprint(i)))
	}
	text, err := ReceiptLines(strangers)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, problems, err := s.Import(bytes.NewReader(text), monday.Add(9000*time.Hour)); err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	own, imported := 0, 0
	for _, r := range receiptRead(t, s) {
		if r.Imported {
			imported++
		} else {
			own++
		}
	}
	if own != 2 || imported != keptInAll-2 {
		t.Errorf("%d of this machine's and %d imported ones are kept", own, imported)
	}
	if there, kept, err := s.Bound(); err != nil || there != kept || kept != keptInAll {
		t.Errorf("%d are there and %d would be kept: %v", there, kept, err)
	}
}
