package wire_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
	"github.com/launch-ml/launch/core/unit"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// What a plugin answers is read, checked, and then planned with as any other: nothing of it may panic, or take long.

func doc(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func soon(t *testing.T, began time.Time) {
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(doc(f, plugin.Manifest{Name: "x", Marks: []plugin.Mark{{Script: "train*.py", Flags: []string{"-opt"},
		Beside: []string{"a/b.py"}, Contains: []string{"torch", "a|b"}}}, Env: []string{"PATH", "A_*"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer soon(t, time.Now())
		var m plugin.Manifest
		if wire.Read(b, &m) != nil || m.Check() != nil {
			return
		}
		for _, k := range m.Marks {
			k.Matches(plugin.Seen{Script: "train.py", Args: []string{"-opt", "x.yml"},
				Exists: func(path string) bool { return strings.HasSuffix(path, ".py") },
				Source: func() string { return "import torch" }})
		}
		m.Environ([]string{"PATH=/bin", "A_TOKEN=1"}, []string{"sh", "-c", "echo $A_TOKEN ${B}"})
	})
}

func edit(document, path, to string) config.Edit {
	return config.Edit{Knob: path, At: config.Address{Doc: document, Path: path}, From: "1", To: to, Cost: "speed"}
}

func FuzzJob(f *testing.F) {
	f.Add(doc(f, plugin.Recognition{Job: &job.Job{
		Dialect: "d", Name: "n", Arch: "a", Batch: job.Batch{Micro: 8, Accumulation: 2, Ranks: 1},
		Options: []config.Option{{Names: []string{"-opt"}}, {Names: []string{"--resume"}}},
		Files: []job.File{{Path: "x.yml", Format: "yaml", Flag: "-opt", Text: []byte("a: 1\n")}, {Path: "/w/s.py", Format: job.Python, Source: &config.PythonSource{Path: "/w/s.py", Text: []byte("X = 1\n"),
			Items: []config.PythonItem{{Path: "X", Value: json.RawMessage("1"), Literal: true, Start: 4, End: 5, Line: 1}}}},
			{Path: "x.pt", Format: job.Binary, Flag: "--resume", Patches: []job.Patch{{Path: "p", From: "1", To: "2", Bytes: []job.Bytes{{At: 3, New: []byte("x")}}}}}},
		Knobs:     []job.Knob{{Name: job.MicroBatch, At: config.Address{Doc: "x.yml", Path: "a"}, Value: "1"}},
		Signs:     job.Signs{Lines: []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`}}, States: []string{"runs/*/*.pt", "/big/*"}, StateIteration: `(?P<iteration>\d+)`, Codes: map[int]string{3: "succeeded"}},
		Resume:    job.Resume{Edits: []config.Edit{edit("x.yml", "a", "2")}, Aside: []string{"*.pt"}, Always: []config.Edit{edit(config.EnvDoc, "PORT", "1")}},
		Rehearsal: job.Rehearsal{Edits: []config.Edit{edit("/w/s.py", "X", "2")}, Leaves: []string{"e/{scratch name}"}, Puts: []job.Put{{Path: "a/b", Text: []byte("x")}}, Away: true, Paths: []int{1, 7}},
		Exclusive: "/w/runs",
	}}))
	f.Add(doc(f, plugin.Recognition{Need: &plugin.Need{Sources: []string{"/w/a.py"}, Devices: true}}))
	dir := f.TempDir()
	os.WriteFile(dir+"/train.py", []byte("x = 1\n"), 0o644)
	f.Fuzz(func(t *testing.T, b []byte) {
		defer soon(t, time.Now())
		var r plugin.Recognition
		if wire.Read(b, &r) != nil || r.Need != nil && r.Need.Check() != nil || r.Job == nil || r.Job.Check() != nil {
			return
		}
		j := r.Job
		j.Command = job.Command{Args: []string{"python", "train.py", "-opt", "x.yml", "--resume", "x.pt"}, Dir: dir, Env: []string{"PATH=/bin", "HOME=/h"}}
		for _, edits := range [][]config.Edit{j.Resume.Edits, j.Resume.Always, j.Rehearsal.Edits} {
			if made, err := j.Rewrite(edits, "/run/attempt-1"); err == nil {
				for _, file := range made.Files {
					if file.Format != job.Python && !strings.HasPrefix(file.Path, "/run/attempt-1/") {
						t.Errorf("a copy would be %q", file.Path)
					}
				}
			}
		}
		j.Away("/scratch")
		if _, err := oom.NewDetector(j.Signs); err != nil {
			t.Errorf("what was checked cannot be read: %v", err)
		}
		roots := states.NewRoots(j)
		roots.Warning()
		roots.Covers(j.Exclusive)
		for _, g := range j.Signs.States {
			for _, path := range roots.Glob(g) {
				if !strings.HasPrefix(path, dir) {
					t.Errorf("found %q", path)
				}
			}
		}
		roots.Leaves("name")()
		if states.CheckPuts(j.Rehearsal.Puts) == nil && len(j.Rehearsal.Puts) > 0 {
			states.Stage(t.TempDir()+"/s", j.Rehearsal.Puts)
		}
	})
}

func FuzzLadders(f *testing.F) {
	line := func(n unit.Bytes) []mem.Estimate {
		return []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: n, From: "counted"}}, Allocs: []mem.Alloc{{Bytes: n / 2, What: "conv"}}}}
	}
	f.Add(doc(f, &ladder.Set{
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Asked: 1, Rungs: []ladder.Rung{
			{Name: "more", Cost: ladder.Speed, Slowdown: 0.9, Estimates: line(2 << 30), Edits: []config.Edit{edit(config.ArgvDoc, "-b", "8")}},
			{Name: "as asked", Slowdown: 1, Estimates: line(1 << 30)},
			{Name: "less", Cost: ladder.Speed, Slowdown: 2, Estimates: line(1 << 29), Edits: []config.Edit{edit(config.ArgvDoc, "-b", "2")}, Values: map[string]int64{job.MicroBatch: 2, job.Accumulation: 2}},
		}}},
		Values:     map[string]int64{job.MicroBatch: 4, job.Accumulation: 1},
		Invariants: []ladder.Invariant{{Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation}, Equals: 4, Until: ladder.Recipe}, {Name: "queue", Factors: []string{job.MicroBatch}, Divides: "queue"}},
		Host: ladder.Feeds(ladder.Feed{Workers: 4, Prefetch: 2, Pinned: true}, func(ladder.Feed) ([]config.Edit, bool) { return nil, true },
			func(f ladder.Feed) []mem.HostLine {
				return []mem.HostLine{{Item: mem.Item{Kind: mem.Loaders, What: "training", Bytes: unit.Bytes(f.Workers+1) << 20, From: "counted"}, PerSample: 1 << 20, Shm: true}}
			}),
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer soon(t, time.Now())
		var s ladder.Set
		if wire.Read(b, &s) != nil || s.Check() != nil {
			return
		}
		for _, room := range []unit.Bytes{0, 1, 600 << 20, 12 << 30} {
			r := &run.Run{Job: &job.Job{Batch: job.Batch{Micro: 4, Accumulation: 1, Ranks: 1}}, Ladders: &s, Room: room, Empty: room, Limits: run.Limits{Allow: ladder.Model, Fill: true}}
			r.Rooms = ladder.HostRooms{Memory: &ladder.HostRoom{Free: 1 << 30}, Shm: &ladder.HostRoom{Free: 1 << 20}}
			for range 20 {
				p, stop := r.Next()
				if stop != nil {
					break
				}
				r.Attempts = append(r.Attempts, run.Attempt{Plan: *p, Outcome: run.Outcome{Ending: run.OutOfMemory, Report: oom.Report{Fatal: true}}})
			}
		}
	})
}

func FuzzEstimate(f *testing.F) {
	f.Add(doc(f, []plugin.Phase{{Phase: "training", Estimate: mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "x", Bytes: 1, From: "y"}}}}}))
	f.Add(doc(f, plugin.LaddersQuestion{Job: &job.Job{}, Device: gpu.Device{Kind: gpu.CUDA}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer soon(t, time.Now())
		var phases []plugin.Phase
		if wire.Read(b, &phases) == nil {
			for _, p := range phases {
				p.Estimate.Total()
			}
		}
		var q plugin.LaddersQuestion
		var c job.Command
		wire.Read(b, &q)
		wire.Read(b, &c)
	})
}
