package plugin_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// options are those of the parser of train_small.py.
var options = []config.Option{{Names: []string{"--batch", "-b"}}, {Names: []string{"--accumulate"}}}

// small is a plugin in full, but for what the program prints.
type small struct{}

// Manifest implements [plugin.Plugin].
func (small) Manifest() plugin.Manifest {
	return plugin.Manifest{Name: "small", Version: "1", About: "small trainings",
		Marks: []plugin.Mark{{Script: "train_small.py"}}}
}

// Recognize implements [plugin.Plugin].
func (small) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	prog, err := c.Prog()
	if err != nil || filepath.Base(prog.Path()) != "train_small.py" {
		return nil, plugin.ErrNotMine
	}
	argv, err := config.ParseArgv(prog.Args, options)
	if err != nil {
		return nil, &plugin.Caution{Why: err.Error()}
	}
	batch := int64(16)
	if text, ok := argv.Get("--batch"); ok {
		if batch, err = strconv.ParseInt(text, 10, 32); err != nil || batch < 1 {
			return nil, fmt.Errorf("--batch is %q: it is a whole number of at least 1", text)
		}
	}
	return &training{argv, ladder.Split{Micro: batch, Accumulation: 1}}, nil
}

// training is a command that was recognised.
type training struct {
	argv  *config.Argv
	split ladder.Split
}

// Job implements [plugin.Recognized].
func (t *training) Job() *job.Job {
	return &job.Job{Name: "small", Options: options, Resume: job.Resume{None: "it saves nothing"},
		Batch: job.Batch{Micro: t.split.Micro, Accumulation: t.split.Accumulation, Ranks: 1}}
}

// Ladders implements [plugin.Recognized].
func (t *training) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	return plugin.Divisions{
		Asked: t.split, Cost: ladder.Speed,
		Edits: func(to ladder.Split) []config.Edit {
			micro := config.Proposed(t.argv, config.ArgvDoc, "--batch", fmt.Sprint(to.Micro))
			micro.Knob = job.MicroBatch
			passes := config.Proposed(t.argv, config.ArgvDoc, "--accumulate", fmt.Sprint(to.Accumulation))
			passes.Knob = job.Accumulation
			return []config.Edit{micro, passes}
		},
		Price: func(at ladder.Split) (e mem.Estimate) {
			e.Add(mem.Item{Kind: mem.Saved, What: "net", Bytes: unit.Bytes(at.Micro) * 100 * unit.MiB, From: "100 MiB a sample"})
			e.Add(mem.CUDAContext(d.Name, d.Total))
			return e
		},
	}.Set(), nil
}

// A plugin's main is plugin.Serve(small{}); launch then asks as here.
func Example() {
	var p plugin.Plugin = small{}
	fmt.Println("plugin", p.Manifest().Name)
	ask := func(args ...string) {
		c := job.Command{Args: args, Dir: "/project"}
		r, err := p.Recognize(context.Background(), c)
		if err != nil {
			fmt.Println(err)
			return
		}
		set, err := r.Ladders(context.Background(), gpu.Device{Kind: gpu.CUDA, Total: 8 * unit.GiB})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, rung := range set.Phases[0].Rungs {
			fmt.Printf("%v: %v, cost %v\n", rung.Name, rung.At(0).Total(), rung.Cost)
		}
	}
	ask("python3", "train_small.py", "-b", "8")
	ask("python3", "train_small.py", "-b", "none")
	ask("python3", "another.py")
	// Output:
	// plugin small
	// as asked: 1.07 GiB, cost none
	// micro-batch 4 × accumulation 2: 700 MiB, cost speed
	// micro-batch 2 × accumulation 4: 500 MiB, cost speed
	// micro-batch 1 × accumulation 8: 400 MiB, cost speed
	// --batch is "none": it is a whole number of at least 1
	// not a command of this plugin
}

// A mark decides, without starting the plugin, which commands it is asked about. All fields have to hold.
func ExampleMark() {
	m := plugin.Mark{Script: "train*.py", Flags: []string{"--config"}}
	for _, c := range []job.Command{
		{Args: []string{"python3", "train_net.py", "--config=a.yaml"}, Dir: "/project"},
		{Args: []string{"torchrun", "--nproc-per-node", "2", "train.py", "--config", "a.yaml"}, Dir: "/project"},
		{Args: []string{"python3", "train.py"}, Dir: "/project"},
	} {
		prog, err := c.Prog()
		fmt.Println(err, m.Matches(plugin.See(prog, nil)))
	}
	// Output:
	// <nil> true
	// <nil> true
	// <nil> false
}

// What a plugin cannot know without a process it asks launch for, and is then asked again.
func ExampleNeed() {
	var err error = &plugin.Need{Sources: []string{"/project/config.py"}, Devices: true}
	fmt.Println(err)
	// Output: needs to know how many GPUs it would see and what stands in /project/config.py
}

// A mark that fits every command is refused: the plugin would be asked about all of them.
func ExampleManifest_Check() {
	fmt.Println(plugin.Manifest{Name: "greedy", Marks: []plugin.Mark{{Script: "*.py"}}}.Check())
	// Output: a mark with the script "*.py" fits every command: name the scripts, their flags or files beside them
}
