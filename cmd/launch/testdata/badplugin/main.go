// Command badplugin is a plugin that misbehaves in the way that its file name says: launch-plugin-crash, -hang, -lie,
// -wrong, -paths, -good; -sized is a good one, whose estimate is its program's last argument in MiB, and so is -saves, whose program
// saves and resumes.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

type bad struct{ how string }

func (b bad) Manifest() plugin.Manifest {
	return plugin.Manifest{Name: b.how, Version: "1", About: "does it wrong: " + b.how, Marks: []plugin.Mark{{Script: b.how + ".py"}}}
}

func (b bad) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	switch b.how {
	case "crash":
		panic("the plugin fell over")
	case "hang":
		time.Sleep(time.Hour)
	case "wrong":
		return nil, errors.New("x.yml:3: batch is ten, where a number is read")
	}
	j := &job.Job{Dialect: "test", Arch: "net", Name: "n"}
	if b.how == "paths" {
		home := os.Getenv("HOME")
		j.Rehearsal.Leaves = []string{job.ScratchName + "/../thesis"}
		j.Rehearsal.Puts = []job.Put{{Path: "x", Link: home}, {Path: "x/evil.txt", Text: []byte("evil")}}
		j.Resume = job.Resume{None: "there is no way", Aside: []string{home + "/*.txt", "*/../../*/home/*.txt"}}
	}
	size := unit.Bytes(unit.GiB)
	switch b.how {
	case "lie":
		size = -unit.GiB
	case "saves":
		saves(j, c.Args[len(c.Args)-2]+".json")
		fallthrough
	case "sized":
		mib, err := strconv.Atoi(c.Args[len(c.Args)-1])
		if err != nil {
			return nil, err
		}
		size = unit.Bytes(mib) * unit.MiB
	}
	return recognized{b, j, size}, nil
}

// saves describes a program that saves its state and stops when it is asked to, and resumes.
func saves(j *job.Job, state string) {
	j.Steps = 6
	j.Save = job.Save{Signal: "SIGUSR1", Stops: true}
	j.Signs.Lines = []job.Sign{
		{Kind: job.Progress, Pattern: `^step (?P<iteration>\d+)`},
		{Kind: job.SavedState, Pattern: `^saved (?P<path>\S+)`},
		{Kind: job.Succeeded, Pattern: `^training is over`},
	}
	j.Signs.States = []string{state}
	j.Resume.Edits = []config.Edit{{Knob: "resume", At: config.Address{Doc: config.EnvDoc, Path: "RESUME"},
		To: job.SavedPath, Add: true, Cost: "none"}}
}

// recognized is a command that was recognised.
type recognized struct {
	bad
	job  *job.Job
	size unit.Bytes
}

func (b recognized) Job() *job.Job { return b.job }

func (b recognized) Ladders(context.Context, gpu.Device) (*ladder.Set, error) {
	size := b.size
	e := mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: size, From: "said so"}}}
	env := []config.Edit{{Knob: "k", At: config.Address{Doc: config.EnvDoc, Path: "SMALLER"}, To: "1", Add: true, Cost: "speed", Why: "to try it"}}
	half := mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: size / 2, From: "said so"}}}
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{
			{Name: "as asked", Estimates: []mem.Estimate{e}},
			{Name: "smaller", Cost: ladder.Speed, Edits: env, Estimates: []mem.Estimate{half}},
		}}},
	}, nil
}

func main() {
	plugin.Serve(bad{strings.TrimPrefix(filepath.Base(os.Args[0]), "launch-plugin-")})
}
