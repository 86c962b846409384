// Command plugin is a hostile plugin for the trials: it answers what the JSON file beside it holds, and does what that says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// hostile is the JSON file.
type hostile struct {
	Manifest plugin.Manifest
	Job      job.Job
	Ladders  *ladder.Set // nil: as asked, and a smaller rung that sets SMALLER
	Needs    []string    // files that it asks for at first

	Start, Recognize, Price string // what it does then: see do

	Rungs, Signs, Warnings int    // that many more
	Tell                   string // the file into which it writes what it was told
}

func (h *hostile) do(what string) {
	verb, rest, _ := strings.Cut(what, " ")
	switch verb {
	case "hang":
		time.Sleep(time.Hour)
	case "panic":
		panic(rest)
	case "eat": // memory, until there is none
		var kept [][]byte
		for range 1 << 20 {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		fmt.Fprintln(os.Stderr, len(kept))
	case "spin":
		for n := 0; ; {
			n++
		}
	case "print":
		fmt.Fprintln(os.Stderr, rest)
	case "fork": // what outlives it, in its group and out of it
		for _, apart := range []bool{false, true} {
			c := exec.Command("sleep", "600")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
			if c.Start() == nil {
				f, _ := os.OpenFile(rest, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				fmt.Fprintln(f, c.Process.Pid)
				f.Close()
			}
		}
	}
}

func (h *hostile) tell(what string, v any) {
	if h.Tell == "" {
		return
	}
	b, _ := json.Marshal(map[string]any{"asked": what, "value": v, "environ": os.Environ(), "limits": limits()})
	f, err := os.OpenFile(h.Tell, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		fmt.Fprintln(f, string(b))
		f.Close()
	}
}

func limits() string {
	b, _ := os.ReadFile("/proc/self/limits")
	return string(b)
}

// answers is the plugin.
type answers struct{ *hostile }

func (a answers) Manifest() plugin.Manifest {
	a.tell("manifest", nil)
	return a.hostile.Manifest
}

func (a answers) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	a.tell("recognize", c)
	a.do(a.hostile.Recognize)
	if word, text, _ := strings.Cut(a.hostile.Recognize, " "); word == "refuse" {
		return nil, errors.New(text)
	}
	for _, path := range a.Needs {
		if c.Source(path) == nil {
			return nil, &plugin.Need{Sources: a.Needs}
		}
	}
	j := a.Job
	for i := range a.Signs {
		j.Signs.Lines = append(j.Signs.Lines, job.Sign{Kind: job.Progress, Pattern: fmt.Sprintf(`step%d.{1,900}x`, i)})
	}
	for i := range a.Warnings {
		j.Warnings = append(j.Warnings, fmt.Sprint("beware of ", i))
	}
	return recognized{a.hostile, c, &j}, nil
}

// recognized is a command that was recognised.
type recognized struct {
	*hostile
	command job.Command
	job     *job.Job
}

func (a recognized) Job() *job.Job { return a.job }

func (a recognized) Ladders(context.Context, gpu.Device) (*ladder.Set, error) {
	a.tell("ladders", a.command)
	a.do(a.Price)
	set := a.hostile.Ladders
	if set == nil {
		price := func(b unit.Bytes) []mem.Estimate {
			return []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: b, From: "the trial"}}}}
		}
		smaller := []config.Edit{{Knob: "k", At: config.Address{Doc: config.EnvDoc, Path: "SMALLER"}, To: "1", Add: true, Cost: "speed", Why: "to try it"}}
		set = &ladder.Set{
			Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
			Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{
				{Name: "as asked", Estimates: price(unit.GiB)}, {Name: "smaller", Cost: ladder.Speed, Edits: smaller, Estimates: price(unit.GiB / 2)},
			}}},
		}
	}
	for i := range a.Rungs {
		set.Phases[0].Rungs = append(set.Phases[0].Rungs, ladder.Rung{Name: fmt.Sprint(i), Cost: ladder.Speed, Estimates: []mem.Estimate{{Unknown: "x"}}})
	}
	return set, nil
}

func main() {
	exe := os.Args[0]
	text, err := os.ReadFile(exe + ".json")
	h := &hostile{}
	if err == nil {
		err = json.Unmarshal(text, h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if h.Manifest.Name == "" {
		h.Manifest.Name = strings.TrimPrefix(filepath.Base(exe), "launch-plugin-")
	}
	h.do(h.Start)
	plugin.Serve(answers{h})
}
