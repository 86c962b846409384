package intake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// family is a plugin that does what its command's last argument says. It is asked in this process.
type family struct{}

func (family) Manifest() plugin.Manifest {
	return plugin.Manifest{Name: "family", Version: "1", Marks: []plugin.Mark{{Script: "train.py"}}}
}

func (family) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	j := &job.Job{Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: max(1, int64(c.Devices))}, Resume: job.Resume{None: "no"}}
	switch how := c.Args[len(c.Args)-1]; how {
	case "foreign":
		return nil, fmt.Errorf("%w: no recipe", plugin.ErrNotMine)
	case "wrong":
		return nil, errors.New("micro-batch is ten")
	case "caution":
		return nil, &plugin.Caution{Why: "the declaration is not believed"}
	case "panic":
		panic("no such layer")
	case "devices":
		if c.Devices == 0 {
			return nil, &plugin.Need{Devices: true}
		}
	case "greedy":
		return nil, &plugin.Need{Sources: []string{fmt.Sprintf("/nowhere/%d.py", len(c.Sources))}}
	case "outside":
		j.Exclusive = "/etc"
	}
	return priced{j}, nil
}

type priced struct{ job *job.Job }

func (p priced) Job() *job.Job { return p.job }

func (p priced) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	if d.Total == 13*unit.GiB {
		return nil, errors.New("no formula for 13")
	}
	rung := ladder.Rung{Name: "as asked", Slowdown: 1, Estimates: []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.GiB}}}}}
	return &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{rung}}},
	}, nil
}

type called struct{}

func (called) Name(key string) string         { return "--" + key }
func (called) Value(key, value string) string { return "--" + key + " " + value }

// nothing teaches nothing.
func nothing() Learner {
	return func(_ *job.Job, _ room.Room, set *ladder.Set) (*ladder.Set, bool, error) { return set, false, nil }
}

func options(t *testing.T) Options {
	ps := Plugins{Builtin: []func() plugin.Plugin{func() plugin.Plugin { return family{} }}, State: t.TempDir()}
	return Options{
		Plugins: ps, Ask: ps.Here, Plugin: "auto", Wish: room.Wish{Device: "auto", VRAM: 8 * unit.GiB}, Called: called{}, Learner: nothing,
		Limits: run.Limits{Allow: ladder.Metrics},
	}
}

// What becomes of a command: it is recognised, runs as typed with a reason, or its user has something to mend.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", "/bin")
	if err := os.WriteFile("train.py", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args   string
		change func(*Options)
		want   string // "recognised", or what is said instead
	}{
		"recognised":               {"python train.py", nil, "recognised"},
		"of no plugin":             {"python other.py", nil, "as typed: no plugin knows it"},
		"no Python":                {"ls train.py", nil, "as typed: command not understood"},
		"no plugin wanted":         {"python train.py", func(o *Options) { o.Plugin = "none" }, "as typed: no plugin knows it"},
		"settings not believed":    {"python train.py", func(o *Options) { o.AsTyped = "not believed" }, "as typed: not believed, explained"},
		"only its usage":           {"python train.py --help", nil, "as typed: no plugin knows it, asks for help"},
		"no text":                  {"python train.py \xff", nil, "as typed: \"\\xff\" is not valid UTF-8"},
		"another family's":         {"python train.py foreign", nil, "as typed: no plugin knows it"},
		"another than was named":   {"python train.py foreign", func(o *Options) { o.Plugin = "family" }, "error: plugin family does not know this command"},
		"an unknown plugin":        {"python train.py", func(o *Options) { o.Plugin = "nobody" }, "settings: no plugin \"nobody\""},
		"wrong":                    {"python train.py wrong", nil, "error: micro-batch is ten\n(--plugin none"},
		"not to be believed":       {"python train.py caution", nil, "as typed: the declaration is not believed, explained"},
		"a plugin that falls over": {"python train.py panic", nil, "as typed: its plugin failed, explained"},
		"a plugin that asks on":    {"python train.py greedy", nil, "as typed: its plugin failed, explained"},
		"a card without a price":   {"python train.py", func(o *Options) { o.Wish.VRAM = 13 * unit.GiB }, "error: no formula for 13"},
		"all of it reserved":       {"python train.py", func(o *Options) { o.Wish.Reserve = 8 * unit.GiB }, "error: --reserve 8.00 GiB leaves no memory"},
	} {
		o := options(t)
		if tt.change != nil {
			tt.change(&o)
		}
		r, err := Read(t.Context(), o, strings.Split(tt.args, " "))
		got := "recognised"
		switch {
		case err != nil:
			got = "settings: " + err.Error()
		case r.Err != nil:
			got = "error: " + r.Err.Error()
		case r.Job == nil:
			got = "as typed: " + r.Why()
			if r.Explained {
				got += ", explained"
			}
			if r.AsksForHelp {
				got += ", asks for help"
			}
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if r != nil {
			r.Close()
			if (r.Job == nil) != (r.Run == nil) {
				t.Errorf("%s: a job %v, a run %v", name, r.Job != nil, r.Run != nil)
			}
		}
	}
}

// What a plugin needs to know is found out, what it must not touch is left out, and what was learned is in the run.
func TestReadJob(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "/bin")
	if err := os.WriteFile("train.py", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(how string, change func(*Options)) *Reading {
		t.Helper()
		o := options(t)
		if change != nil {
			change(&o)
		}
		r, err := Read(t.Context(), o, []string{"python", "train.py", how})
		if err != nil || r.Job == nil {
			t.Fatalf("%s: %v, %+v", how, err, r)
		}
		r.Close()
		return r
	}
	if r := read("devices", nil); r.Job.Batch.Ranks != 1 {
		t.Errorf("on one planned card it has %d ranks", r.Job.Batch.Ranks)
	}
	if r := read("devices", func(o *Options) { o.GPUs = 3 }); r.Job.Batch.Ranks != 3 {
		t.Errorf("with --gpus 3 it has %d ranks", r.Job.Batch.Ranks)
	}
	if r := read("outside", nil); r.Job.Exclusive != "" || !strings.Contains(strings.Join(r.Warnings, ";"), "outside the folders") {
		t.Errorf("it locks %q; %q", r.Job.Exclusive, r.Warnings)
	}
	better := &ladder.Set{}
	r := read("x", func(o *Options) {
		o.Learner = func() Learner {
			return func(*job.Job, room.Room, *ladder.Set) (*ladder.Set, bool, error) {
				return better, true, errors.New("half a file")
			}
		}
	})
	if r.Run.Ladders != better || r.Run.Priced == nil || r.Run.Priced == better {
		t.Errorf("learned ladders %v, priced %v", r.Run.Ladders == better, r.Run.Priced)
	}
	if !strings.Contains(strings.Join(r.Warnings, ";"), "half a file: estimates do not use earlier runs") {
		t.Errorf("warnings %q", r.Warnings)
	}
	if r := read("x", nil); r.Run.Room != 8*unit.GiB || r.Run.Host || r.Run.Rooms.Memory != nil {
		t.Errorf("the room of a planned card is %v, and its host's %v", r.Run.Room, r.Run.Rooms.Memory)
	}
}

// Rungs that edit Python source go where the program takes none, on every ladder, and prices go with them.
func TestWithoutSource(t *testing.T) {
	inSource := []config.Edit{{Knob: "crop", At: config.Address{Doc: "conf.py", Path: "C.crop"}, To: "64"}}
	inArgs := []config.Edit{{Knob: "amp", At: config.Address{Doc: config.ArgvDoc, Path: "--amp"}, To: "bf16"}}
	e := func(n unit.Bytes) mem.Estimate { return mem.Estimate{Items: []mem.Item{{What: "net", Bytes: n}}} }
	set := &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Asked: 1, Rungs: []ladder.Rung{{Name: "larger", Edits: inSource}, {Name: "as asked"}, {Name: "amp", Edits: inArgs}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Asked: 1, Rungs: []ladder.Rung{
			{Name: "more", Edits: inSource, Estimates: []mem.Estimate{e(9), e(8), e(7)}},
			{Name: "as asked", Estimates: []mem.Estimate{e(6), e(5), e(4)}},
			{Name: "less", Edits: inSource, Estimates: []mem.Estimate{e(3), e(2), e(1)}},
		}}},
	}
	j := &job.Job{Files: []job.File{{Path: "conf.py", Format: job.Python}}, Rehearsal: job.Rehearsal{Edits: inSource}}
	withoutSource(j, set)
	training := set.Phases[0]
	if len(training.Rungs) != 1 || training.Asked != 0 || training.Rungs[0].Name != "as asked" {
		t.Errorf("of training are left %+v", training)
	}
	if len(set.Shared.Rungs) != 2 || set.Shared.Asked != 0 || set.Shared.Rungs[1].Name != "amp" {
		t.Errorf("of the shared ladder are left %+v", set.Shared)
	}
	if es := training.Rungs[0].Estimates; len(es) != 2 || es[0].Total() != 5 || es[1].Total() != 4 {
		t.Errorf("prices %v", es)
	}
	if j.Rehearsal.None == "" {
		t.Error("a rehearsal by edits that cannot be made is made")
	}
}

// The words of a command tell whether its user may expect more than to have it run.
func TestNamesRecipe(t *testing.T) {
	for args, want := range map[string]bool{"python train.py": true, "bash -c python\ttrain_net.py": true, "make -f x.yaml": true, "ls": false, "cat train.txt": false} {
		r := &Reading{Command: job.Command{Args: strings.Split(args, " "), Dir: filepath.Dir("x")}}
		if got := r.NamesRecipe(); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
}
