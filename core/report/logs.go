package report

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
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
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
)

// newest finds the newest *.log, *.out or *.err in a folder, and the files with the same stem: slurm-7.out and
// slurm-7.err.
func newest(dir string) ([]string, error) {
	var all []string
	for _, glob := range []string{"*.log", "*.out", "*.err"} {
		all = append(all, file.WrittenSince(file.Folder(dir), glob, time.Time{})...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the folder %s has no *.log, *.out or *.err: name the file", dir)
	}
	at := map[string]time.Time{}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil {
			at[path] = info.ModTime()
		}
	}
	last := slices.MaxFunc(all, func(a, b string) int { return at[a].Compare(at[b]) })
	stem := strings.TrimSuffix(last, filepath.Ext(last))
	return slices.DeleteFunc(all, func(path string) bool { return strings.TrimSuffix(path, filepath.Ext(path)) != stem }), nil
}

// streamOf returns a file's name for the evidence. It changes names that have a meaning for the detector.
func streamOf(path string) string {
	switch path {
	case oom.Terminal, oom.Stdout, oom.Stderr, oom.Log:
		return "./" + path
	case "-":
		return "standard input"
	}
	return path
}

// cutOff is the error of an input that ended too early. The part before counts.
type cutOff struct {
	path string
	err  error
}

func (c *cutOff) Error() string {
	return fmt.Sprintf("launch could not read the end of %s: %v", c.path, c.err)
}
func (c *cutOff) Unwrap() error { return c.err }

// compressed maps the first bytes of a format that launch does not unpack to the command that unpacks it.
var compressed = map[string]string{"\x28\xb5\x2f\xfd": "zstd -dc", "\xfd7zX": "xz -dc", "BZh": "bzip2 -dc", "PK\x03\x04": "unzip -p"}

// notebookHead matches the beginning of a notebook: one of its four keys (nbformat's schema).
var notebookHead = lazy.MustCompile(`^\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor)"\s*:`)

// Kinds of input.
const (
	textInput     = "text"
	notebookInput = "notebook"
)

// read reads a file into a detector, in pieces; "-" is standard input. It returns the kind of input. The error is a
// [*cutOff] if a part was read.
func read(d *oom.Detector, path, stream string) (kind string, err error) {
	in := io.ReadCloser(os.Stdin)
	if path != "-" {
		if filepath.Base(path) == record.OutputFile { // a killed launch leaves it in parts
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
	head, err := b.Peek(512) // on a pipe this waits for 512 bytes or the end
	if err != nil && !errors.Is(err, io.EOF) {
		return "", &cutOff{path, err}
	}
	for magic, with := range compressed {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "", fmt.Errorf("%s is compressed; run: %s %s | launch explain", path, with, path)
		}
	}
	if notebookHead.Match(head) {
		err = notebook(d, b, stream)
		kind = notebookInput
	} else {
		_, err = io.Copy(d.Stream(stream), b)
		kind = textInput
	}
	if err != nil {
		return kind, &cutOff{path, err}
	}
	return kind, nil
}

// A cell holds the text of a notebook's cell, without pictures (nbformat 4, section "Cell types").
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

// notebook reads the outputs of a notebook's cells, one cell at a time. Each is a stream, with the name that the
// notebook shows.
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

// write passes a cell's outputs to the detector, as a person sees them.
func (c *cell) write(d *oom.Detector, name string) {
	for _, o := range c.Outputs {
		text := string(o.Text)
		if o.Type == "error" {
			text = cmp.Or(strings.Join(o.Traceback, "\n"), o.Name+": "+o.Value)
		}
		if text == "" {
			continue
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, _ = io.WriteString(d.Stream(name), text)
	}
}
