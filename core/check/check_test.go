package check

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// usual are facts about a job without a problem: its training takes 10 GiB, and a saved state 2 GiB.
func usual() Facts {
	at := config.Address{Doc: "x.yml", Path: "data.root"}
	return Facts{
		Title: "project", Room: 12 * unit.GiB,
		Job: &job.Job{Plugin: "p", States: 4, Data: []job.Data{{At: at, Path: "images", What: "training images"}}},
		Plan: &run.Plan{Shared: run.Choice{Name: run.AsAsked}, Choices: []run.Choice{{Phase: ladder.Training,
			Name: run.AsAsked,
			Estimate: mem.Estimate{Items: []mem.Item{
				{Kind: mem.Parameters, Bytes: unit.GiB}, {Kind: mem.Optimizer, Bytes: unit.GiB}, {Kind: mem.Saved,
					Bytes: 8 * unit.GiB},
			}}}}},
		Read: Answers{Data: []Data{{At: at, Path: "images", What: "training images", State: There}},
			Disk: Disk{At: "/d", Free: 9 * unit.GiB, Writable: true}},
		Machine: []Finding{{Check: "python", State: Right, Found: "Python 3.11"},
			{Check: "cards", State: Remark, Found: "a card"}},
	}
}

// Each check has facts that meet it, and near misses.
func TestExamine(t *testing.T) {
	refused := &run.Stop{Why: "it cannot fit", Code: run.CannotFit, Beyond: &run.Beyond{Name: "crop 32",
		Cost: ladder.Recipe, Flag: "--allow recipe"}}
	data := func(f *Facts, p Place, err error) { f.Read.Data[0].State, f.Read.Data[0].Err = p, err }
	saved := &run.State{Iteration: 400}
	for name, tt := range map[string]struct {
		change func(*Facts)
		check  string
		state  State
		has    string // in what was found and in what mends it
	}{
		"a command": {func(*Facts) {}, "command", OK, "project"},
		"no such command": {func(f *Facts) { f.Missing = errors.New("command not found: x") }, "command", Problem,
			"not found: x"},
		"no plugin knows it": {func(f *Facts) { f.Job, f.Why, f.Declare = nil, "no plugin knows it", "launch init -- x" },
			"command", Unknown, "launch init"},
		"settings": {func(*Facts) {}, "settings", OK, "none at which the program would stop"},
		"a mistake": {func(f *Facts) { f.Job, f.Mistake = nil, errors.New("x.yml:3: batch is 0") }, "settings",
			Problem, "x.yml:3"},
		"a fault": {func(f *Facts) {
			f.Job.Warnings, f.Job.Faults = []string{"it will stop"},
				[]string{"it will stop"}
		}, "settings", Problem, "it will stop"},
		"a warning": {func(f *Facts) { f.Job.Warnings = []string{"it is slow"} }, "settings", Note, "it is slow"},
		"a setting that is dead": {func(f *Facts) {
			f.Job.Knobs = []job.Knob{{At: config.Address{Doc: "x.yml", Path: "a"}, Dead: "no code does"}}
		}, "settings", Note, "remove x.yml: a"},
		"a setting that is not": {func(f *Facts) {
			f.Job.Knobs = []job.Knob{{At: config.Address{Doc: "x.yml",
				Path: "a"}}}
		}, "settings", OK, ""},
		"data": {func(*Facts) {}, "data", OK, "(1)"},
		"no such folder": {func(f *Facts) { data(f, Missing, nil) }, "data", Problem,
			"x.yml: data.root is images, which does not exist"},
		"an empty folder":           {func(f *Facts) { data(f, Empty, nil) }, "data", Problem, "which is empty"},
		"a folder of somebody else": {func(f *Facts) { data(f, Forbidden, nil) }, "data", Problem, "chmod"},
		"a disk that hangs":         {func(f *Facts) { data(f, "", errors.New("no answer")) }, "data", Unknown, "no answer"},
		"no data are named":         {func(f *Facts) { f.Job.Data = nil }, "data", Unknown, "no setting"},
		"it fits":                   {func(*Facts) {}, "memory", OK, "10.0 GiB of 12.0 GiB"},
		"it fits with a change": {func(f *Facts) { f.Plan.Choices[0].Name, f.Plan.Cost = "micro-batch 2", ladder.Speed },
			"memory", OK, "with micro-batch 2 (cost: speed)"},
		"it may not fit": {func(f *Facts) { f.Plan.Choices[0].Verdict = ladder.May }, "memory", Unknown,
			"may not fit"},
		"it cannot fit": {func(f *Facts) { f.Plan, f.Stop = nil, refused }, "memory", Problem,
			"--allow recipe: crop 32"},
		"no card": {func(f *Facts) { f.Room = 0 }, "memory", Unknown, "--vram"},
		"no estimate": {func(f *Facts) { f.Plan.Choices[0].Estimate.Unknown = "no formula" }, "memory",
			Unknown, "the memory of training is not known: no formula"},
		"disk": {func(*Facts) {}, "disk", OK, "9.00 GiB are free in /d, and 4 saved states take about " +
			"8.00 GiB"},
		"disk for three": {func(f *Facts) { f.Read.Disk.Free = 8*unit.GiB - 1 }, "disk", Problem,
			"4 saved states take about 2.00 GiB each"},
		"disk for four": {func(f *Facts) { f.Read.Disk.Free = 8 * unit.GiB }, "disk", OK, "8.00 GiB"},
		"disk for none": {func(f *Facts) { f.Read.Disk.Free, f.Job.States = unit.GiB, 0 }, "disk", Problem,
			"one saved state takes about 2.00 GiB"},
		"how many is not known": {func(f *Facts) { f.Job.States = 0 }, "disk", Unknown,
			"how many there will be is not known"},
		"how large is not known": {func(f *Facts) { f.Plan.Choices[0].Estimate.Unknown = "no formula" }, "disk", Unknown,
			"the size of a saved state"},
		"nobody may write": {func(f *Facts) { f.Read.Disk.Writable = false }, "disk", Problem,
			"may not write to /d"},
		"a disk without an answer": {func(f *Facts) { f.Read.Disk.Err = errors.New("no answer") }, "disk", Unknown,
			"no answer"},
		"resume": {func(*Facts) {}, "resume", OK, "from the beginning"},
		"it cannot resume": {func(f *Facts) { f.Job.Resume.None = "it has no --resume" }, "resume", Note,
			"it has no --resume"},
		"a run that failed": {func(f *Facts) { f.Earlier = &Earlier{Run: "r1", Saved: saved} }, "resume", Note,
			"iteration 400"},
		"a run that succeeded": {func(f *Facts) { f.Earlier = &Earlier{Run: "r1", Saved: saved, Succeeded: true} },
			"resume", OK, "r1 of the same command has succeeded"},
		"another recipe": {func(f *Facts) { f.Earlier = &Earlier{Run: "r1", Saved: saved, Changed: true} },
			"resume", Note, "launch resume r1"},
		"a run that saved nothing": {func(f *Facts) { f.Earlier = &Earlier{Run: "r1"} }, "resume", OK, "newest saved state"},
		"a run that runs": {func(f *Facts) { f.Earlier = &Earlier{Run: "r1", Running: true} }, "resume", Note,
			"is running"},
		"Python": {func(*Facts) {}, "python", OK, "Python 3.11"},
		"no torch": {func(f *Facts) {
			f.Machine = []Finding{{Check: "torch", State: Wrong, Found: "no torch",
				Mend: []string{"pip install torch"}}}
		}, "python", Problem, "pip install torch"},
		"a broken driver": {func(f *Facts) {
			f.Machine = []Finding{{Check: "driver", State: Wrong, Found: "no driver"}}
		}, "machine", Problem, "no driver"},
		"it does not use the card": {func(f *Facts) {
			f.Host = true
			f.Machine = []Finding{{Check: "driver",
				State: Wrong}}
		}, "machine", "", ""},
		"what is right there": {func(*Facts) {}, "machine", "", ""},
	} {
		f := usual()
		tt.change(&f)
		var found Line
		for _, l := range Examine(f) {
			if l.Check == tt.check && (found.Check == "" || l.State != OK) {
				found = l
			}
		}
		if found.State != tt.state || !strings.Contains(found.Found+" "+found.Mend, tt.has) {
			t.Errorf("%s: %+v", name, found)
		}
		if n := Problems(Examine(f)); (n > 0) != (tt.state == Problem) {
			t.Errorf("%s: %d problems", name, n)
		}
	}
}

// What is at a path is read from the file system: folders by one name, files by their size.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"full", "empty", "saves"} {
		if err := os.Mkdir(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"full/a.png": "", "file": "x", "nothing": ""} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]Place{"full": There, "empty": Empty, "file": There, "nothing": Empty, "none": Missing,
		"file/below":               Missing,
		filepath.Join(dir, "full"): There, "/dev/null": ""}
	j := &job.Job{Command: job.Command{Dir: dir}, Signs: job.Signs{States: []string{"saves/new/*/last.pt"}}}
	for path := range want {
		j.Data = append(j.Data, job.Data{Path: path})
	}
	got := Look(t.Context(), j)
	for _, d := range got.Data {
		if d.State != want[d.Path] || (d.Err != nil) != (want[d.Path] == "") {
			t.Errorf("%s: %q, %v", d.Path, d.State, d.Err)
		}
	}
	if d := got.Disk; d.At != filepath.Join(dir, "saves") || d.Free <= 0 || d.Err != nil {
		t.Errorf("the disk is %+v", d)
	}
	for states, want := range map[string]string{"/a/b*/c": "/a", "/*/c": "/", "a/c.pt": filepath.Join(dir, "a"),
		"*.pt": dir, "": dir} {
		j := &job.Job{Command: job.Command{Dir: dir}}
		if states != "" {
			j.Signs.States = []string{states}
		}
		if got := savesIn(j); got != want {
			t.Errorf("%q saves in %s, want %s", states, got, want)
		}
	}
}
