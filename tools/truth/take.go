package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/tools/truth/rows"
)

// A day is the folder that tools/capture/card.py leaves: what it ran, beside the rows of gpu.py.
type day struct {
	Device string          `json:"device"` // "cuda", or "cpu" of a rehearsal
	Steps  map[string]step `json:"steps"`
	rows   rows.Cards
}

// A step is one record of a day. Only what is taken is read.
type step struct {
	OK      bool           `json:"ok"`
	Took    float64        `json:"took_s"`
	Facts   rows.CardFacts `json:"facts"`
	Error   string         `json:"error"`
	Note    string         `json:"note"`
	Skipped string         `json:"skipped"`
	// Of an out-of-memory that was provoked.
	Kind   string         `json:"kind"`
	Exit   int            `json:"exit"`
	Expect map[string]any `json:"expect"`
	Said   map[string]any `json:"said"`
	Text   string         `json:"text"`
}

func readDay(folder string) (d day, err error) {
	data, err := os.ReadFile(filepath.Join(folder, "card.json"))
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read the records of a card day: %w", err)
	}
	if d.rows, err = rows.ReadCards(filepath.Join(folder, "gpu.json")); errors.Is(err, os.ErrNotExist) {
		return d, nil // a piece that came to no row
	}
	if err == nil && d.rows.Device != d.Device {
		err = fmt.Errorf("card.json is of the device %q, gpu.json of %q", d.Device, d.rows.Device)
	}
	return d, err
}

// usable are the rows that have figures.
func (d day) usable() []rows.CardRow {
	return slices.DeleteFunc(slices.Clone(d.rows.Rows), func(r rows.CardRow) bool {
		return r.Skipped != "" ||
			r.Error != ""
	})
}

// take turns the folder of a card day into files of the repository: rows and a summary for this tool, logs for
// core/oom, and priors for core/mem. Of a rehearsal on a CPU it writes nothing: a tracker measures no card. It prints
// what it did.
func take(folder, root string, w io.Writer) error {
	d, err := readDay(folder)
	if err != nil {
		return err
	}
	d.steps(w)
	if err := d.priced(w); err != nil {
		return err
	}
	if d.Device != "cuda" {
		_, _ = fmt.Fprintf(w, "a rehearsal on the device %q: nothing is written\n", d.Device)
		return nil
	}
	for name := range d.facts() {
		if err := d.takeRows(filepath.Join(root, "tools", "truth", "testdata"), name, w); err != nil {
			return err
		}
	}
	if err := d.takeLogs(filepath.Join(root, "core", "oom", "testdata", "card"), w); err != nil {
		return err
	}
	return d.takePriors(filepath.Join(root, "core", "mem", "priors.json"), w)
}

// steps prints what did not go as expected, and counts the rest.
func (d day) steps(w io.Writer) {
	ok := 0
	for _, name := range slices.Sorted(maps.Keys(d.Steps)) {
		s := d.Steps[name]
		switch {
		case s.OK:
			ok++
		case s.Kind != "":
			_, _ = fmt.Fprintf(w, "%s: the report has %v, want %v\n", name, s.Said, s.Expect)
		default:
			_, _ = fmt.Fprintf(w, "%s: %s\n", name, firstOf(s.Error, s.Note, fmt.Sprintf("exit %d", s.Exit)))
		}
	}
	_, _ = fmt.Fprintf(w, "%d of %d steps are as expected\n", ok, len(d.Steps))
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// priced prints how the rows compare with their estimates.
func (d day) priced(w io.Writer) error {
	var offs []float64
	for _, r := range d.usable() {
		e, err := r.Price()
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.Row.Net, r.Row, err)
		}
		tensors, allocated, _, _ := rows.Sums(e)
		if d.Device != "cuda" {
			allocated = tensors
		}
		if want := r.Peak().Allocated; want != nil && r.OOM == nil {
			offs = append(offs, off(allocated, *want))
		}
	}
	s := summarise(offs)
	_, err := fmt.Fprintf(w, "%d rows, allocated: median %.2f %%, worst %.2f %%\n", s.n, 100*s.median, 100*s.worst)
	return err
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug names a card and its torch in a file's name.
func slug(f rows.CardFacts) string {
	return strings.Trim(notSlug.ReplaceAllString(strings.ToLower(f.Device+" torch "+f.Torch), "_"), "_")
}

// facts are the machines that the rows were measured on, by their slugs.
func (d day) facts() map[string]rows.CardFacts {
	out := map[string]rows.CardFacts{}
	for _, r := range d.usable() {
		out[slug(r.Facts)] = r.Facts
	}
	return out
}

// takeRows writes the rows of one machine. A row that was measured before is replaced.
func (d day) takeRows(dir, name string, w io.Writer) error {
	path := filepath.Join(dir, "gpu_"+name+".json")
	book := map[string]any{"schema": 1, "device": d.Device}
	byRow := map[string]json.RawMessage{}
	var order []string
	add := func(raw []json.RawMessage, keep func(rows.CardRow) bool) error {
		for _, m := range raw {
			var r rows.CardRow
			if err := json.Unmarshal(m, &r); err != nil {
				return err
			}
			if !keep(r) {
				continue
			}
			k := r.Row.Source + " " + r.Row.Net + ", " + r.Row.String()
			if byRow[k] == nil {
				order = append(order, k)
			}
			byRow[k] = m
		}
		return nil
	}
	if old, err := rows.ReadCards(path); err == nil {
		if err := add(old.Raw, func(rows.CardRow) bool { return true }); err != nil {
			return err
		}
	}
	err := add(d.rows.Raw, func(r rows.CardRow) bool { return r.Skipped == "" && r.Error == "" && slug(r.Facts) == name })
	if err != nil {
		return err
	}
	var all []json.RawMessage
	for _, k := range order {
		all = append(all, byRow[k])
	}
	book["rows"] = all
	_, _ = fmt.Fprintf(w, "%d rows in %s\n", len(all), path)
	return writeJSON(path, book)
}

// takeLogs writes each out-of-memory log with what its report must have, as core/oom's tests read them.
func (d day) takeLogs(dir string, w io.Writer) error {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(d.Steps)) {
		s := d.Steps[name]
		if s.Kind == "" || s.Text == "" || s.Skipped != "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		path := filepath.Join(dir, s.Kind+"_"+slug(s.Facts))
		made := fmt.Sprintf("tools/capture/provoke.py %s, exit %d: %s", s.Kind, s.Exit, s.Facts)
		if err := os.WriteFile(path+".log", []byte(s.Text), 0o644); err != nil {
			return err
		}
		if err := writeJSON(path+".json", map[string]any{"made": made, "expect": s.Expect}); err != nil {
			return err
		}
		n++
	}
	_, err := fmt.Fprintf(w, "%d logs in %s\n", n, dir)
	return err
}

// takePriors writes what the rows' processes held on their card beside what the allocator had reserved, and what
// cuBLAS took through it. A machine that was measured before is replaced.
func (d day) takePriors(path string, w io.Writer) error {
	old, err := mem.ReadPriors(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.facts())) {
		f := d.facts()[name]
		p := mem.Prior{Card: f.Device, Capability: f.Capability, Total: f.Total, Driver: f.Driver, Torch: f.Torch,
			Date: f.Date}
		var contexts, blas []unit.Bytes
		for _, r := range d.usable() {
			if slug(r.Facts) != name {
				continue
			}
			if b, ok := r.Context(); ok {
				contexts = append(contexts, b)
			}
			if b := r.Overheads.CuBLASAllocated; b != nil {
				blas = append(blas, *b)
			}
		}
		if len(contexts) == 0 {
			_, _ = fmt.Fprintf(w, "%s: the driver reported no process's share, so no context is taken\n", name)
			continue
		}
		p.Rows, p.ContextLeast, p.Context = len(contexts), slices.Min(contexts), slices.Max(contexts)
		if len(blas) > 0 {
			p.BLAS = slices.Max(blas)
		}
		old = append(slices.DeleteFunc(old, func(o mem.Prior) bool { return o.Card == p.Card && o.Torch == p.Torch }), p)
		_, _ = fmt.Fprintf(w, "%s: context %v to %v, cuBLAS %v\n", name, p.ContextLeast, p.Context, p.BLAS)
	}
	return writeJSON(path, old)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
