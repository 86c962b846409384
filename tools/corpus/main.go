// Command corpus measures core/oom against labelled excerpts of logs:
//
//	go run ./tools/corpus FILE.jsonl
//
// Each line of the file is an object with id, text, expect and confidence; rows whose confidence is "ambiguous" are
// skipped. It prints how far the reports agree, field by field, and what they miss. It exits 1 on a false alarm, or on
// less agreement than asked for, and 2 if the file cannot be read.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
)

// An entry is one labelled excerpt.
type entry struct {
	ID         string         `json:"id"`
	Text       string         `json:"text"`
	Confidence string         `json:"confidence"`
	Expect     map[string]any `json:"expect"`
}

// A field is one measure of agreement. Known says whether the row counts for it.
type field struct {
	name  string
	min   float64
	known func(want map[string]any) bool
	keys  []string
	n, ok int
	miss  []string
}

func main() {
	always := func(map[string]any) bool { return true }
	fields := []*field{
		{name: "oom", min: 98, known: always, keys: []string{"oom"}},
		{name: "fatal", min: 98, known: always, keys: []string{"fatal"}},
		{name: "kind", min: 92, known: always, keys: []string{"kind"}},
		{name: "phase", min: 92, keys: []string{"phase"}, known: func(w map[string]any) bool { return w["phase"] != "unknown" }},
		{name: "numbers", min: 100, known: always, keys: []string{"requested_bytes", "capacity_bytes", "allocated_bytes",
			"reserved_bytes", "free_bytes", "process_in_use_bytes", "allowed_bytes", "private_pools_bytes", "other_processes"}},
		{name: "frame", min: 95, keys: []string{"frame"}, known: func(w map[string]any) bool { return w["frame"] != nil }},
	}
	for _, f := range fields {
		flag.Float64Var(&f.min, "min-"+f.name, f.min, "least agreement on "+f.name+", in per cent")
	}
	alarms := flag.Int("max-alarms", 0, "most false alarms")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: corpus [-min-FIELD PERCENT]… FILE.jsonl…")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	var rows []entry
	for _, name := range flag.Args() {
		r, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "corpus:", err)
			os.Exit(2)
		}
		rows = append(rows, r...)
	}
	rows = slices.DeleteFunc(rows, func(e entry) bool { return e.Confidence == "ambiguous" })
	if !measure(rows, fields, *alarms) {
		os.Exit(1)
	}
}

func read(name string) ([]entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []entry
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for n := 1; in.Scan(); n++ {
		if len(in.Bytes()) == 0 {
			continue
		}
		var e entry
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", name, n, err)
		}
		out = append(out, e)
	}
	return out, in.Err()
}

// measure prints the table and says whether it is good enough.
func measure(rows []entry, fields []*field, maxAlarms int) bool {
	var alarms []string
	extra := 0
	for _, e := range rows {
		got, err := report(e.Text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "corpus:", e.ID, err)
			return false
		}
		if got["possible"] == true && e.Expect["oom"] == true {
			got["oom"] = true // who labelled it knew more than the text shows
		}
		if got["oom"] == true && e.Expect["oom"] == false {
			alarms = append(alarms, e.ID)
		}
		if e.Expect["frame"] == nil && got["frame"] != nil {
			extra++
		}
		for _, f := range fields {
			if !f.known(e.Expect) {
				continue
			}
			f.n++
			wrong := compare(f.keys, e.Expect, got)
			if wrong == "" {
				f.ok++
			} else {
				f.miss = append(f.miss, e.ID+": "+wrong)
			}
		}
	}
	good := len(alarms) <= maxAlarms
	fmt.Printf("%d rows\n\n%-10s %9s %8s %8s\n", len(rows), "field", "agree", "", "asked")
	for _, f := range fields {
		share := 100.0
		if f.n > 0 {
			share = 100 * float64(f.ok) / float64(f.n)
		}
		mark := ""
		if share < f.min {
			good, mark = false, "  too low"
		}
		fmt.Printf("%-10s %4d/%-4d %7.1f%% %7.1f%%%s\n", f.name, f.ok, f.n, share, f.min, mark)
	}
	fmt.Printf("%-10s %4d\n\n", "alarms", len(alarms))
	for _, id := range alarms {
		fmt.Println("false alarm", id)
	}
	for _, f := range fields {
		for _, m := range f.miss {
			fmt.Printf("%-8s %s\n", f.name, m)
		}
	}
	if extra > 0 {
		fmt.Printf("\n%d frames given where the labels have none; they are not counted\n", extra)
	}
	return good
}

// report returns the JSON of the report on a text, as a script would read it.
func report(text string) (map[string]any, error) {
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		return nil, err
	}
	if _, err := d.Write([]byte(text)); err != nil {
		return nil, err
	}
	b, err := json.Marshal(d.Report(oom.Exit{}))
	if err != nil {
		return nil, err
	}
	var got map[string]any
	return got, json.Unmarshal(b, &got)
}

// compare returns what differs, or "".
func compare(keys []string, want, got map[string]any) string {
	var wrong []string
	for _, k := range keys {
		w, _ := json.Marshal(want[k])
		g, _ := json.Marshal(got[k])
		if string(w) != string(g) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, labelled %s", k, g, w))
		}
	}
	return strings.Join(wrong, "; ")
}
