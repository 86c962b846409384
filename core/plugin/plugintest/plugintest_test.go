package plugintest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// toy is a plugin of a family with four options: what it promises it keeps, but for what a test breaks.
type toy struct {
	broken string
	asked  int // so often
}

func (p *toy) is(how string) bool { return p.broken == how }

func (p *toy) Manifest() plugin.Manifest {
	m := plugin.Manifest{Name: "toy", Version: "1", About: "toys", Marks: []plugin.Mark{{Script: "train.py"}}}
	if p.is("marks") {
		m.Marks[0].Script = "main.py"
	}
	return m
}

var options = []config.Option{{Names: []string{"--batch"}}, {Names: []string{"--accumulate"}}, {Names: []string{"--half"}}, {Names: []string{"--workers"}}}

// settings are the options as the program would read them.
func settings(c job.Command) (map[string]int64, error) {
	prog, err := c.Prog()
	if err != nil || filepath.Base(prog.Script) != "train.py" {
		return nil, plugin.ErrNotMine
	}
	argv, err := config.ParseArgv(prog.Args, options)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{"--batch": 8, "--accumulate": 1, "--half": 0, "--workers": 4}
	for name := range out {
		if v, ok := argv.Get(name); ok {
			if out[name], err = strconv.ParseInt(v, 10, 64); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (p *toy) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	p.asked++
	s, err := settings(c)
	if err != nil {
		if p.is("others") {
			return &toys{job: &job.Job{}}, nil
		}
		return nil, err
	}
	if p.is("writes") {
		os.WriteFile(filepath.Join(c.Dir, fmt.Sprint("note", p.asked)), nil, 0o644)
	}
	j := &job.Job{Name: "toy", Options: options, Batch: job.Batch{Micro: s["--batch"], Accumulation: s["--accumulate"], Ranks: 1}}
	if p.is("forgetful") {
		j.Name = fmt.Sprint("toy ", p.asked)
	}
	j.Resume.None = "a toy saves nothing"
	j.Signs = job.Signs{
		Lines:  []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`}, {Kind: job.Phase, Phase: ladder.Validation, Pattern: "validating"}, {Kind: job.Setting, Knob: job.MicroBatch, Pattern: `batch (?P<value>\d+)`}},
		States: []string{"*.pt"}, StateIteration: `(?P<iteration>\d+)`,
	}
	j.Rehearsal = job.Rehearsal{Edits: []config.Edit{edit("state", config.ArgvDoc, "--batch", job.Scratch)}}
	switch p.broken {
	case "no pattern":
		j.Signs.Lines[0].Pattern = "step (?P<iteration"
	case "no group":
		j.Signs.Lines[0].Pattern = "step"
	case "no such phase":
		j.Signs.Lines[1].Phase = "validate"
	case "no such knob":
		j.Signs.Lines[2].Knob = "batch"
	case "no glob":
		j.Signs.States[0] = "[.pt"
	case "no order":
		j.Signs.StateIteration = `\d+`
	case "no resume":
		j.Resume.None = ""
	case "over the user's":
		j.Rehearsal.Edits[0].To = "1"
	case "relative":
		j.Exclusive = "runs"
	case "nil":
		return nil, nil
	}
	if p.is("resume") {
		j.Resume.Edits = []config.Edit{edit("state", "no.yaml", "from", "x")}
	}
	j.Knobs = []job.Knob{{Name: job.MicroBatch, At: config.Address{Doc: config.ArgvDoc, Path: "--batch"}, Value: fmt.Sprint(s["--batch"])}}
	if p.is("deaf") {
		j.Knobs[0].Value = "8"
	}
	return &toys{p, j, s}, nil
}

// toys are a command of the family, and its settings.
type toys struct {
	*toy
	job      *job.Job
	settings map[string]int64
}

func (p *toys) Job() *job.Job { return p.job }

func edit(knob, doc, path string, to any) config.Edit {
	return config.Edit{Knob: knob, At: config.Address{Doc: doc, Path: path}, To: fmt.Sprint(to), Add: true, Cost: "speed"}
}

func (p *toys) Ladders(context.Context, gpu.Device) (*ladder.Set, error) {
	s := maps.Clone(p.settings)
	bytes := func(batch, half int64) (e mem.Estimate) {
		if p.is("sourceless") && batch != s["--batch"] {
			e.Add(mem.Item{Kind: mem.Saved, What: "net", Bytes: 1})
		}
		e.Add(mem.Item{Kind: mem.Saved, What: "net", Bytes: unit.Bytes(batch) * (2 - unit.Bytes(half)) * 100 * unit.MiB, From: "counted"})
		return e
	}
	if p.is("other ladders") {
		p.asked++
		s["--batch"] += int64(p.asked)
	}
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: s["--batch"], job.Accumulation: s["--accumulate"]},
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
	}
	halves := []int64{s["--half"]}
	if s["--half"] == 0 {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "half precision", Cost: ladder.Numerics, Edits: []config.Edit{edit("half", config.ArgvDoc, "--half", 1)}})
		halves = append(halves, 1)
	}
	l := ladder.Ladder{Phase: ladder.Training}
	for batch := s["--batch"]; batch >= 1; batch /= 2 {
		r := ladder.Rung{Name: fmt.Sprint("batch ", batch), Cost: ladder.Speed, Slowdown: 1, Values: map[string]int64{job.MicroBatch: batch, job.Accumulation: s["--accumulate"] * s["--batch"] / batch}}
		if batch == s["--batch"] {
			r = ladder.Rung{Name: "as asked"}
		} else {
			r.Edits = []config.Edit{edit(job.MicroBatch, config.ArgvDoc, "--batch", batch), edit(job.Accumulation, config.ArgvDoc, "--accumulate", r.Values[job.Accumulation])}
			if p.is("too mild") {
				r.Edits[0].Cost = "recipe"
			}
			if p.is("half an edit") {
				r.Edits = r.Edits[:1]
			}
			if p.is("no such file") {
				r.Edits[1].At.Doc = "no.yaml"
			}
		}
		for _, half := range halves {
			if p.is("forgets half") && batch != s["--batch"] {
				half = 0
			}
			r.Estimates = append(r.Estimates, bytes(batch, half))
		}
		l.Rungs = append(l.Rungs, r)
		if p.is("unknown") && batch != s["--batch"] {
			r.Estimates[0].Unknown = "who knows"
		}
	}
	validation := ladder.Ladder{Phase: ladder.Validation, Rungs: []ladder.Rung{{Name: "as asked"}}}
	for range halves {
		e := bytes(1, 0)
		if p.is("coupled") {
			e = bytes(s["--batch"], 0)
		}
		validation.Rungs[0].Estimates = append(validation.Rungs[0].Estimates, e)
	}
	set.Phases = []ladder.Ladder{l, validation}
	if p.is("a phase less") && s["--batch"] < 8 {
		set.Phases = set.Phases[:1]
	}
	if p.is("no ladders") {
		set.Phases = nil
	}
	lines := func(workers int64) []mem.HostLine {
		return []mem.HostLine{{Item: mem.Item{Kind: mem.Loaders, What: "workers", Bytes: unit.Bytes(workers) * unit.GiB, From: "counted"}}}
	}
	set.Host = &ladder.HostLadder{Rungs: []ladder.HostRung{{Name: "as asked", Lines: lines(s["--workers"])}}}
	if w := s["--workers"]; w > 0 {
		r := ladder.HostRung{Name: "no workers", Edits: []config.Edit{edit("workers", config.ArgvDoc, "--workers", 0)}, Lines: lines(0)}
		r.Edits[0].Cost = "none"
		if p.is("idle workers") {
			r.Edits[0].To = "1"
		}
		set.Host.Rungs = append(set.Host.Rungs, r)
	}
	return set, nil
}

// heard is a test that writes down what is said of it.
type heard struct {
	testing.TB
	said []string
}

func (h *heard) Helper()                   {}
func (h *heard) Error(args ...any)         { h.said = append(h.said, fmt.Sprint(args...)) }
func (h *heard) Errorf(f string, a ...any) { h.said = append(h.said, fmt.Sprintf(f, a...)) }
func (h *heard) Fatal(args ...any)         { h.Error(args...); panic(h) }
func (h *heard) Fatalf(f string, a ...any) { h.Errorf(f, a...); panic(h) }

// Every way to break a promise is heard of, and nothing is said of a plugin that breaks none.
func TestCheck(t *testing.T) {
	for broken, want := range map[string]string{
		"":                "",
		"marks":           "bears none of its marks",
		"others":          "it takes [\"python3\" \"-c\" \"pass\"] for its own",
		"writes":          "it wrote into the command's folder",
		"forgetful":       "it recognises another job",
		"other ladders":   "it has other ladders",
		"no ladders":      "no phase has a ladder",
		"sourceless":      "training: batch 4: the saved tensors of net come from nowhere",
		"resume":          "the edits of a resume cannot be made: editing no.yaml",
		"deaf":            "batch 4: the edit sets micro-batch to \"4\", but the plugin then reads \"8\"",
		"no such file":    "shared, as asked; training, batch 4: its edits cannot be made: editing no.yaml",
		"half an edit":    "batch 4: the job of this rung has micro-batch 4 × accumulation 1, but the rung promises",
		"forgets half":    "shared, half precision; training, batch 1: training: 200 MiB as a rung, 100 MiB as typed\n\tsaved tensors of net: 200 MiB, 100 MiB",
		"coupled":         "batch 4: validation: 1.56 GiB as a rung, 800 MiB as typed",
		"a phase less":    "batch 4: validation: 200 MiB as a rung, and the job that it makes has no such phase",
		"unknown":         "batch 4: training: unknown as a rung \"who knows\", as typed \"\"",
		"no pattern":      "reading the progress sign",
		"no group":        `the progress sign "step" has no group "iteration"`,
		"no such phase":   `is of a phase "validate", which has no ladder`,
		"no such knob":    `names "batch", which is neither a knob`,
		"no glob":         `"[.pt" matches no file`,
		"no order":        "has no group \"iteration\"",
		"no resume":       "it says neither how a retry goes on",
		"over the user's": "its rehearsal leads nothing into a folder",
		"relative":        `is "runs", and no absolute path`,
		"nil":             "is not recognised",
		"too mild":        `rung "batch 4" costs speed, and its edit of "micro-batch" says "recipe"`,
		"idle workers":    "host, no workers, host memory: 0 B as a rung, 1.00 GiB as typed",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "train.py"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		h := &heard{TB: t}
		func() {
			defer func() {
				if r := recover(); r != nil && r != h {
					panic(r)
				}
			}()
			Check(h, &toy{broken: broken}, job.Command{Args: []string{"python3", filepath.Join(dir, "train.py")}, Dir: dir, Env: os.Environ()}, gpu.Device{Kind: gpu.CUDA})
		}()
		all := strings.Join(h.said, "\n")
		if want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("broken as %q, it says:\n%s\nand not %q", broken, all, want)
		}
	}
}
