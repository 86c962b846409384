package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/file"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func newExplain() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [FILE ... | FOLDER | RUN | last | -]",
		Short: "say what a log, or a run, died of, and what would have helped",
		Long: `explain reads what a program printed, or the record of a run, and says what ended it, who saw that, what would have
helped, the mildest cost first, and of a run how to go on.

It reads files, of several the first failing rank; gzip'd ones; notebooks (.ipynb); a folder's newest *.log, *.out or *.err; a
pipe; and runs by their name. Without an argument it reads what is piped to it, and on a terminal explains the last run.

Exit code: 0 if it could read, whatever it found; scripts ask the JSON: launch explain --json x.log | jq -e .oom`,
		Example: "  launch explain slurm-4711.out\n  launch explain rank*.log\n  launch explain train.ipynb\n  python train.py 2>&1 | tee log | launch explain\n  launch explain last --json",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"-"}
				if isTerminal(os.Stdin) {
					args = []string{"last"}
				}
			}
			x, err := explain(s, args)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(x)
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Explain(x)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// explain explains texts, or one run.
func explain(s settings, args []string) (ui.Explanation, error) {
	var files []string
	named := len(args) > 1 // evidence says of which file it is
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case arg == "-":
			files = append(files, arg)
		case err == nil && info.IsDir():
			found, err := newestLog(arg)
			if err != nil {
				return ui.Explanation{}, err
			}
			files, named = append(files, found...), true
		case err == nil:
			files = append(files, arg)
		case len(args) == 1 && !strings.ContainsAny(arg, `/\`):
			return explainRun(s, arg)
		default:
			return ui.Explanation{}, fmt.Errorf("reading what to explain: %w", err)
		}
	}
	return explainTexts(files, named)
}

// newestLog finds what was written last in a folder, and what is of the same name: slurm-7.out beside slurm-7.err.
func newestLog(dir string) ([]string, error) {
	var all []string
	for _, glob := range []string{"*.log", "*.out", "*.err"} {
		all = append(all, file.WrittenSince(file.Folder(dir), glob, time.Time{})...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is a folder without a *.log, *.out or *.err: name the file", dir)
	}
	at := map[string]time.Time{}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil {
			at[path] = info.ModTime()
		}
	}
	newest := slices.MaxFunc(all, func(a, b string) int { return at[a].Compare(at[b]) })
	stem := strings.TrimSuffix(newest, filepath.Ext(newest))
	return slices.DeleteFunc(all, func(path string) bool { return strings.TrimSuffix(path, filepath.Ext(path)) != stem }), nil
}

// explainTexts reports on files, "-" for standard input. Each is a stream of its own, so that the first that failed is found
// among ranks that each have a log.
func explainTexts(files []string, named bool) (ui.Explanation, error) {
	x := ui.Explanation{Source: ui.Source{Kind: "text", Files: files}}
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		return x, err
	}
	for _, path := range files {
		stream := oom.Terminal
		if named {
			stream = streamName(path)
		}
		kind, err := readInto(d, path, stream)
		var cut *cutOff
		switch {
		case errors.As(err, &cut):
			x.Source.Cut = cut.Error()
		case err != nil:
			return x, err
		}
		if kind == "notebook" {
			x.Source.Kind = kind
		}
	}
	x.Report, x.Clues = d.Report(oom.Exit{}), d.Clues()
	x.Clues.Notebook = x.Clues.Notebook || x.Source.Kind == "notebook"
	x.Advise(nil)
	return x, nil
}

// streamName is a file's name as evidence bears it; one that the detector has a meaning for is spelled otherwise.
func streamName(path string) string {
	switch path {
	case oom.Terminal, oom.Stdout, oom.Stderr, oom.Log:
		return "./" + path
	case "-":
		return "standard input"
	}
	return path
}

// A cutOff says that an input ended before its time. What was read of it counts.
type cutOff struct {
	path string
	err  error
}

func (c *cutOff) Error() string {
	return fmt.Sprintf("%s could not be read to its end: %v", c.path, c.err)
}
func (c *cutOff) Unwrap() error { return c.err }

// compressed are the magic numbers of what launch does not unpack, and what does.
var compressed = map[string]string{"\x28\xb5\x2f\xfd": "zstd -dc", "\xfd7zX": "xz -dc", "BZh": "bzip2 -dc", "PK\x03\x04": "unzip -p"}

// notebookHead is how a notebook begins (nbformat's schema): its keys are these four, in any order.
var notebookHead = regexp.MustCompile(`^\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor)"\s*:`)

// readInto reads a file, "-" for standard input, in pieces: gzip'd or not, a notebook or a text.
func readInto(d *oom.Detector, path, stream string) (kind string, err error) {
	in := io.ReadCloser(os.Stdin)
	if path != "-" {
		if filepath.Base(path) == record.OutputFile { // which a killed launch leaves in parts
			in, err = record.OpenOutput(path)
		} else {
			in, err = os.Open(path)
		}
		if err != nil {
			return "", fmt.Errorf("reading what to explain: %w", err)
		}
		defer in.Close()
	}
	b := bufio.NewReaderSize(in, 64<<10)
	if head, _ := b.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(b)
		if err != nil {
			return "", fmt.Errorf("unpacking %s: %w", path, err)
		}
		b = bufio.NewReaderSize(z, 64<<10)
	}
	head, err := b.Peek(512) // of a pipe: as soon as so much is there, or it ends
	if err != nil && !errors.Is(err, io.EOF) {
		return "", &cutOff{path, err}
	}
	for magic, with := range compressed {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "", fmt.Errorf("%s is compressed: %s %s | launch explain", path, with, path)
		}
	}
	if notebookHead.Match(head) {
		err = notebook(d, b, stream)
		kind = "notebook"
	} else {
		_, err = io.Copy(d.Stream(stream), b)
		kind = "text"
	}
	if err != nil {
		return kind, &cutOff{path, err}
	}
	return kind, nil
}

// A cell is what matters of a notebook's (nbformat 4, section "Cell types"): pictures are passed over.
type cell struct {
	Count   *int `json:"execution_count"`
	Outputs []struct {
		Type      string    `json:"output_type"`
		Text      multiline `json:"text"`
		Name      string    `json:"ename"`
		Value     string    `json:"evalue"`
		Traceback []string  `json:"traceback"`
	} `json:"outputs"`
}

// A multiline is a text, as one string or as a list of lines.
type multiline string

func (m *multiline) UnmarshalJSON(b []byte) error {
	var lines []string
	if err := json.Unmarshal(b, &lines); err != nil {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		lines = []string{one}
	}
	*m = multiline(strings.Join(lines, ""))
	return nil
}

// notebook reads the outputs of a notebook's cells, one cell at a time, each as a stream of its own, named as the notebook
// shows it.
func notebook(d *oom.Detector, in io.Reader, stream string) error {
	dec := json.NewDecoder(in)
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if key != "cells" {
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				return err
			}
			continue
		}
		if _, err := dec.Token(); err != nil {
			return err
		}
		for n := 1; dec.More(); n++ {
			var c cell
			if err := dec.Decode(&c); err != nil {
				return err
			}
			name := fmt.Sprintf("cell %d", n)
			if c.Count != nil {
				name = fmt.Sprintf("cell [%d]", *c.Count)
			}
			if stream != oom.Terminal {
				name = stream + ", " + name
			}
			c.write(d, name)
		}
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// write hands a cell's outputs on as its reader sees them.
func (c *cell) write(d *oom.Detector, name string) {
	for _, o := range c.Outputs {
		text := string(o.Text)
		if o.Type == "error" {
			text = strings.Join(o.Traceback, "\n")
			if text == "" {
				text = o.Name + ": " + o.Value
			}
		}
		if text == "" {
			continue
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		io.WriteString(d.Stream(name), text)
	}
}

// lastLines is how many of a program's last lines are shown where nothing else says why it failed.
const lastLines = 8

// explainRun explains the last attempt of a run.
func explainRun(s settings, name string) (ui.Explanation, error) {
	store := record.In(s.State)
	id, err := store.Find(name)
	if err != nil {
		return ui.Explanation{}, fmt.Errorf("%s is no file here and no run: %w", name, err)
	}
	h, err := store.Read(id)
	if err != nil {
		return ui.Explanation{}, err
	}
	row := ui.RowOf(h, h.Life())
	d := &ui.RunDoc{ID: id, Command: row.Command, State: row.State, Attempts: []ui.AttemptDoc{}}
	x := ui.Explanation{Source: ui.Source{Kind: "run", Files: []string{}}, Run: d}
	r, stop := h.Run(), h.Stop()
	out := last(h, r)
	x.Report = oom.Report{Kind: oom.NoMemory, Phase: oom.Unknown, Stage: string(oom.Unknown)}
	var options []run.Option
	if out != nil {
		tell(d, out)
		x.Report = out.Report
		if out.Ending == run.Succeeded || out.Ending == run.Interrupted { // what it met on the way ended nothing
			x.Report.OOM, x.Report.Fatal = false, false
		} else if x.Report.Cause == "" || out.Ending == run.Failed && x.Report.OOM {
			x.Report.Cause = out.Cause
		}
	}
	if path := output(h); path != "" {
		d.Output = path
		x.Source.Files = []string{path}
		x.Clues = clues(path)
		if d.State == string(run.Failed) && len(x.Report.Evidence) == 0 || d.State == "cut off" {
			d.LastLines, _ = record.Tail(path, lastLines)
		}
	}
	if r != nil {
		d.Job = ui.Title(r.Job)
		for _, a := range r.Attempts {
			d.Attempts = append(d.Attempts, ui.AttemptDoc{Number: a.Plan.Attempt, Changes: a.Plan.Changes(), Trial: a.Plan.Trial, Ending: a.Outcome.Ending,
				Cause: a.Outcome.Cause, Phase: a.Outcome.Phase})
		}
		if l := r.Last(); l != nil && l.Plan.Room > 0 {
			d.RoomBytes = &l.Plan.Room
		}
		d.SavedState = r.Saved()
		if f := attempt.CutShort(h, r.Job, store.Locks(), h.Life().Over()); f.State != nil && r.Job.Resume.None == "" { // its record says nothing of what it left
			d.SavedState = f.State
		}
		options = r.Options()
	} else if out != nil {
		d.Attempts = append(d.Attempts, ui.AttemptDoc{Number: 1, Changes: "as asked", Ending: out.Ending, Cause: out.Cause, Phase: out.Phase})
	}
	d.LimitBytes = h.Limit()
	x.Clues.Limit = d.LimitBytes
	goOn(d, r, stop, out)
	x.Advise(options)
	return x, nil
}

// last is the outcome of the last attempt that ended; nil where none did.
func last(h *record.History, r *run.Run) *run.Outcome {
	if r != nil {
		if a := r.Last(); a != nil {
			return &a.Outcome
		}
		return nil
	}
	for _, e := range slices.Backward(h.Events) {
		if e.Outcome != nil {
			return e.Outcome
		}
	}
	return nil
}

// tell takes over what an outcome says of a run.
func tell(d *ui.RunDoc, out *run.Outcome) {
	d.Cause, d.ExitCode, d.Signal, d.Lied, d.Iteration, d.Took = out.Cause, out.Code, out.Signal, out.Lied, out.Iteration, out.Took
	if out.Peak > 0 {
		d.PeakBytes, d.PeakIs = &out.Peak, out.PeakIs
	}
}

// output is the newest file of what the run's program printed; "" where none is kept.
func output(h *record.History) string {
	for _, path := range file.WrittenSince(file.Folder(h.Dir), filepath.Join("attempt-*", record.OutputFile), time.Time{}) {
		return path
	}
	return ""
}

// clues reads those of a file that has been judged before. What cannot be read gives none.
func clues(path string) oom.Clues {
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		return oom.Clues{Uses: []string{}}
	}
	readInto(d, path, oom.Terminal)
	return d.Clues()
}

// goOn says how to go on with a run, or why it cannot be gone on with.
func goOn(d *ui.RunDoc, r *run.Run, stop *run.Stop, out *run.Outcome) {
	again := func(when string, flags ...string) {
		d.GoOn, d.When = append([]string{"launch", "resume", d.ID}, flags...), when
		if d.SavedState == nil {
			d.GoOn = append(d.GoOn, "--from-start")
		}
	}
	defer func() { withCommand(d, r) }()
	if stop != nil && out != nil && stop.Why != string(out.Ending) {
		d.Why = stop.Why
	}
	switch {
	case d.State == "running" || d.State == string(run.Succeeded):
	case r == nil:
		d.Not = "by hand: no plugin knows this command, so launch knows no way to resume it"
	case d.State == "cut off":
		again("")
	case out == nil || stop == nil:
	case out.Untaken != "", stop.Code == run.OwnTrouble:
		d.Not = "once the settings reach the program"
	case stop.Beyond != nil:
		again(cmp.Or(stop.Beyond.Name, ""), strings.Fields(stop.Beyond.Flag)...)
	case stop.Code == run.TryLater:
		again("once there is room")
	case out.Ending == run.Interrupted:
		again("")
	case out.Ending == run.Failed && (out.Report.NotMemory == "time_limit" || out.Report.NotMemory == "preempted"):
		again("with more time")
	case out.Ending == run.Failed:
		again("once what stopped it is mended")
	default:
		d.Not = "with no rung of this job's ladders"
	}
}
