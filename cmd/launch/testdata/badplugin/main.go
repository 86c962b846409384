// Command badplugin is a plugin that misbehaves in the way that its file name says: launch-plugin-crash, -hang, -lie,
// -wrong, -paths, -good; -wide takes every command, -newer speaks another protocol; -noisy, -silent and -gone misbehave before their
// handshake once $HOME/misbehave exists; -prints, -eats, -forks, -floods and -huge while they read the command, and -slow while it
// prices; -sized is a good one, whose estimate is its program's last argument in MiB, and so is -saves, whose program
// saves and resumes.
package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
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
	m := plugin.Manifest{Name: b.how, Version: "1", About: "does it wrong: " + b.how, Marks: []plugin.Mark{{Script: b.how + ".py"}}}
	if b.how == "wide" {
		m.Marks[0].Script = "*"
	}
	return m
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
	if err := b.hostile(j); err != nil {
		return nil, err
	}
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

// hostile does what harms a host that does not expect it.
func (b bad) hostile(j *job.Job) error {
	switch b.how {
	case "prints":
		_, err := os.Stdout.WriteString(strings.Repeat("1|1|tcp|127.0.0.1:1|grpc\n", 10000))
		return err
	case "eats":
		for all := [][]byte{}; ; all = append(all, bytes.Repeat([]byte{1}, 16<<20)) {
			time.Sleep(time.Millisecond)
		}
	case "forks":
		pids := ""
		for _, line := range [][]string{{"sleep", "600"}, {"setsid", "sleep", "600"}, {"env", "-i", "setsid", "sleep", "600"}} {
			c := exec.Command(line[0], line[1:]...)
			if err := c.Start(); err != nil {
				return err
			}
			pids += strconv.Itoa(c.Process.Pid) + "\n"
		}
		return os.WriteFile(os.Getenv("HOME")+"/pids", []byte(pids), 0o600)
	case "floods":
		for {
			os.Stderr.WriteString(strings.Repeat("flood ", 10000))
		}
	case "huge":
		j.Name = strings.Repeat("x", 20<<20)
	}
	return nil
}

// misbehave does what a plugin should not before its handshake.
func (b bad) misbehave() {
	if b.how == "newer" {
		os.Stdout.WriteString("1|99|unix|" + os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/s|grpc\n")
		time.Sleep(time.Hour)
	}
	if _, err := os.Stat(os.Getenv("HOME") + "/misbehave"); err != nil {
		return
	}
	switch b.how {
	case "noisy":
		os.Stdout.WriteString("loading the model zoo\n")
	case "silent":
		time.Sleep(time.Hour)
	case "gone":
		os.Exit(3)
	}
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
	if b.how == "slow" {
		time.Sleep(time.Hour)
	}
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
	b := bad{strings.TrimPrefix(filepath.Base(os.Args[0]), "launch-plugin-")}
	b.misbehave()
	plugin.Serve(b)
}
