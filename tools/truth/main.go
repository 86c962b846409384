// Truth compares what launch foresees with what PyTorch was recorded to need, row by row, beside what a user could run
// instead. It exits with 1 where a limit is broken.
//
//	go run ./tools/truth [-root .] [-markdown] [-write docs/accuracy.md]
//	go run ./tools/truth -take FOLDER      rows, logs and priors of a card day (tools/capture/card.py)
//
// The rows are whole training steps: tools/capture/steps.py records them. With -write, the part of a document between
// the lines "<!-- truth -->" and "<!-- /truth -->" is replaced by the summaries and the misses. All rows are written as
// CSV into the folder beside the document that has its name.
package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
)

func main() {
	root := flag.String("root", ".", "the repository")
	markdown := flag.Bool("markdown", false, "print for a document")
	write := flag.String("write", "", "a document to write the tables into")
	taken := flag.String("take", "", "the folder of a card day, to be made into rows, logs and priors")
	flag.Parse()
	if *taken != "" {
		if err := take(*taken, *root, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "truth:", err)
			os.Exit(1)
		}
		return
	}
	var out bytes.Buffer
	data, broken, err := report(*root, &out, *markdown || *write != "")
	if err == nil && *write != "" {
		err = errors.Join(replace(*write, out.String()), writeData(strings.TrimSuffix(*write, ".md"), data))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
	if *write == "" {
		_, _ = io.Copy(os.Stdout, &out)
	}
	for _, b := range broken {
		fmt.Fprintln(os.Stderr, "truth: limit broken:", b)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

// report writes all tables and lists the limits that are broken. data are the rows of the long tables, by their names:
// for a document, the tables have the misses only.
func report(root string, w io.Writer, markdown bool) (data map[string]string, broken []string, err error) {
	c, err := compare(root)
	if err != nil {
		return nil, nil, err
	}
	facts, err := readFacts(filepath.Join(root, "tools", "truth", "testdata", "facts_sisr.json"))
	if err != nil {
		return nil, nil, err
	}
	cards, err := readCards(filepath.Join(root, "tools", "truth", "testdata"))
	if err != nil {
		return nil, nil, err
	}
	priors, err := mem.ReadPriors(filepath.Join(root, "core", "mem", "priors.json"))
	if err != nil {
		return nil, nil, err
	}
	public, err := readReal(filepath.Join(root, "tools", "truth", "testdata"))
	if err != nil {
		return nil, nil, err
	}
	language, err := readLM(filepath.Join(root, "tools", "truth", "testdata"))
	if err != nil {
		return nil, nil, err
	}
	traces, err := readTraced(root)
	if err != nil {
		return nil, nil, err
	}
	ran, err := readReally(root)
	if err != nil {
		return nil, nil, err
	}
	scripted, err := readScripted(root)
	if err != nil {
		return nil, nil, err
	}
	rec, err := readRecord(root)
	if err != nil {
		return nil, nil, err
	}
	studied := checkAll(facts, rec)
	p := printer{w: w, markdown: markdown, data: map[string]string{}}
	c.sources(&p)
	c.table(&p)
	c.summary(&p)
	cards.table(&p)
	priorsTable(&p, priors)
	public.table(&p)
	language.table(&p)
	tracedTable(&p, traces)
	reallyTable(&p, ran)
	scriptedTable(&p, scripted)
	published(&p)
	factsTable(&p, studied)
	broken = slices.Concat(c.broken(), public.broken(), language.broken(), tracedBroken(traces), reallyBroken(ran),
		scriptedBroken(scripted), factsBroken(studied))
	return p.data, broken, nil
}

const begin, end = "<!-- truth -->", "<!-- /truth -->"

// replace puts text between the two marks of a document.
func replace(path, text string) error {
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(doc), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s to write between", path, begin, end)
	}
	return os.WriteFile(path, []byte(head+begin+"\n\n"+text+"\n"+end+tail), 0o644)
}

// writeData writes the rows of the long tables into a folder.
func writeData(dir string, data map[string]string) error {
	err := os.MkdirAll(dir, 0o755)
	for name, text := range data {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name+".csv"), []byte(text), 0o644))
	}
	return err
}

// A printer prints tables, for a terminal or for a document.
type printer struct {
	w        io.Writer
	markdown bool
	data     map[string]string // CSV, by its name
}

func (p *printer) heading(text string) {
	if p.markdown {
		fmt.Fprintf(p.w, "### %s\n\n", text)
		return
	}
	fmt.Fprintf(p.w, "%s\n\n", strings.ToUpper(text))
}

func (p *printer) text(format string, v ...any) {
	fmt.Fprintf(p.w, format+"\n\n", v...)
}

// long prints a table whose rows are data beside a document. The document itself has the misses: what names them.
func (p *printer) long(name string, head []string, left int, rows [][]string, what string, miss func([]string) bool) {
	if !p.markdown {
		p.table(head, left, rows)
		return
	}
	var text strings.Builder
	out := csv.NewWriter(&text)
	cell := strings.NewReplacer("–", "", " %", "")
	var misses [][]string
	for i, r := range slices.Insert(slices.Clone(rows), 0, head) {
		plain := slices.Clone(r)
		for k := range plain {
			if len([]rune(plain[k])) < 12 { // a figure, and no text
				plain[k] = cell.Replace(plain[k])
			}
		}
		_ = out.Write(plain) // to memory
		if i > 0 && miss(r) {
			misses = append(misses, r)
		}
	}
	out.Flush()
	p.data[name] = text.String()
	p.text("All %d rows are in [%s.csv](accuracy/%s.csv). %s: %d.", len(rows), name, name, what, len(misses))
	if len(misses) > 0 {
		p.table(head, left, misses)
	}
}

// table prints rows under a head; columns from left on are flush right.
func (p *printer) table(head []string, left int, rows [][]string) {
	if p.markdown {
		line := func(cells []string) { fmt.Fprintf(p.w, "| %s |\n", strings.Join(cells, " | ")) }
		line(head)
		marks := make([]string, len(head))
		for i := range marks {
			marks[i] = "---"
			if i >= left {
				marks[i] = "--:"
			}
		}
		line(marks)
		for _, r := range rows {
			line(r)
		}
		fmt.Fprintln(p.w)
		return
	}
	width := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i, c := range r {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for _, r := range append([][]string{head}, rows...) {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if i < left {
				b.WriteString(c + pad + "  ")
			} else {
				b.WriteString(pad + c + "  ")
			}
		}
		fmt.Fprintln(p.w, strings.TrimRight(b.String(), " "))
	}
	fmt.Fprintln(p.w)
}
