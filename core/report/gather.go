package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// Gather reads what the report of a run needs. learned are all receipts; those of the run name its torch.
func Gather(store record.Store, id string, learned []record.Receipt) (Input, error) {
	h, err := store.Read(id)
	if err != nil {
		return Input{}, err
	}
	in := Input{History: h, Life: h.Life(), Now: time.Now()}
	for _, e := range h.Events {
		if e.Device != nil {
			in.Device = deviceOf(e.Device)
		}
	}
	for _, dir := range h.AttemptDirs() {
		c, note := curveIn(dir)
		in.Curves = append(in.Curves, c)
		if note != "" {
			in.LeftOut = append(in.LeftOut, note)
		}
	}
	for _, path := range h.Outputs() {
		if left := record.LeftOut(path); left > 0 {
			in.LeftOut = append(in.LeftOut, fmt.Sprintf("the record lacks %v of what the program printed", left))
		}
	}
	for _, r := range learned {
		if r.Run == id && r.Machine.Torch != "" {
			in.Torch = r.Machine.Torch
		}
	}
	if r := h.Run(); r != nil {
		for _, a := range h.Tried() {
			in.Diffs = append(in.Diffs, recipeDiff(r.Job, &a.Plan))
		}
	}
	x, err := ExplainRun(store, id)
	if err != nil {
		return in, err
	}
	var b bytes.Buffer
	ui.Printer{W: &b}.Explain(x)
	in.Explained = strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return in, nil
}

// deviceOf reads the device of an event; nil if it is none.
func deviceOf(v any) *gpu.Device {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var d gpu.Device
	if json.Unmarshal(text, &d) != nil || d.Name == "" {
		return nil
	}
	return &d
}

// curveIn reads the memory over time of an attempt. note is why there is none although its file exists.
func curveIn(dir string) (c *observe.Curve, note string) {
	text, err := private.ReadFile(filepath.Join(dir, record.CurveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ""
	}
	if err == nil {
		c, err = observe.ParseCurve(text)
	}
	if err == nil && len(c.Spans) == 0 {
		return nil, ""
	}
	if err != nil {
		return nil, fmt.Sprintf("%s: %v", filepath.Base(dir), err)
	}
	return c, ""
}

// recipeDiff compares the files of the recipe with the copies that a plan makes of them; "" if there is no copy.
func recipeDiff(j *job.Job, p *run.Plan) string {
	made, err := j.Rewrite(p.Edits, fmt.Sprintf("attempt-%d", p.Attempt))
	if err != nil { // the record has no secrets, so its command may not be one that can be rewritten
		return ""
	}
	var out strings.Builder
	for _, f := range made.Files {
		for _, before := range j.Files {
			if before.Path == f.From && len(before.Text) > 0 && len(f.Text) > 0 {
				out.Write(diff.Diff(f.From, before.Text, f.Path, f.Text))
			}
		}
	}
	return out.String()
}
