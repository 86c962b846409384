package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// project is a folder with a script, what it reads, and a Python that reports a recorded trace instead of running it.
type project struct {
	t   *testing.T
	dir string
	Tracer
	job *job.Job
	set *ladder.Set
	c   mem.Caching
}

// a traced command with a micro-batch of 8, and a rung of 4.
func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir()}
	python := p.path("venv/bin/python")
	p.write("venv/bin/python", `#!/bin/sh
cat >/dev/null
cat "$RECORDED" >&3
`)
	if err := os.Chmod(python, 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("train.py", "import net")
	p.write("net.py", "layers = 3")
	p.write("data/a.png", "a")
	p.records(8, "")
	p.Tracer = Tracer{Interpreter: python, Card: rtx3090, Ranks: 1, Deadline: time.Minute, Cache: p.path("answers"),
		Packages: []string{"torch 2.15.0"}}
	args := []string{python, "train.py", "--batch", "8"}
	p.job = &job.Job{Command: job.Command{Args: args, Dir: p.dir,
		Env: []string{"PATH=/usr/bin:/bin", "RECORDED=" + p.path("recorded")}}}
	p.set = &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: ladder.Training,
			Rungs: []ladder.Rung{ladder.AsAsked(mem.Estimate{Unknown: "no formula"})}}}}
	return p
}

func (p *project) path(name string) string { return filepath.Join(p.dir, name) }

// write writes a file that is older than any trace.
func (p *project) write(name, text string) {
	p.t.Helper()
	path := p.path(name)
	write(p.t, path, text)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, past, past); err != nil {
		p.t.Fatal(err)
	}
}

// records makes the next trace another one. end replaces the tracer's last line.
func (p *project) records(micro int, end string) {
	p.t.Helper()
	text := recorded(micro, 1)
	if end != "" {
		text = text[:strings.Index(text, "E {")] + end + "\n"
	}
	read := ""
	for _, name := range []string{"train.py", "net.py", "data", "absent.yml"} {
		read += fmt.Sprintf("R %q\n", p.path(name))
	}
	p.write("recorded", read+text)
}

// price returns what the training saves, by a trace in a launch of its own.
func (p *project) price() unit.Bytes {
	p.t.Helper()
	set := *p.set
	set.Phases = []ladder.Ladder{{Phase: ladder.Training,
		Rungs: []ladder.Rung{ladder.AsAsked(mem.Estimate{Unknown: "no formula"})}}}
	_, err := New(p.Tracer).Price(p.t.Context(), p.job, &set, p.c)
	if refused(err) {
		p.t.Skip(err)
	}
	if err != nil {
		return -1
	}
	return set.Phases[0].Rungs[0].Estimates[0].Of(mem.Saved)
}

// refused reports whether this machine's kernel gives no jail.
func refused(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "namespaces") || strings.Contains(err.Error(), "no jail"))
}

// An answer is kept while all that it was made from is the same, and whatever changes of that, the script is traced
// again.
func TestTraceAgain(t *testing.T) {
	variable := func(kv string) func(*project) {
		return func(p *project) { p.job.Command.Env = append(p.job.Command.Env, kv) }
	}
	const kept, again = 8 * 5 * mib, 4 * 5 * mib // of the first trace, and of another one
	for name, tt := range map[string]struct {
		change func(p *project)
		want   unit.Bytes
	}{
		"nothing":                   {func(*project) {}, kept},
		"a terminal's variable":     {variable("TERM_PROGRAM=x"), kept},
		"the memory of the machine": {func(p *project) { p.Memory = 8 * unit.GiB }, kept},
		"a file that is not read":   {func(p *project) { p.write("notes.txt", "x") }, kept},
		"the script":                {func(p *project) { p.write("train.py", "import net, sys") }, again},
		"what it imports":           {func(p *project) { p.write("net.py", "layers = 4") }, again},
		"data that are more":        {func(p *project) { p.write("data/b.png", "b") }, again},
		"a file that is there now":  {func(p *project) { p.write("absent.yml", "layers: 4") }, again},
		"an argument":               {func(p *project) { p.job.Command.Args[3] = "4" }, again},
		"a variable":                {variable("WIDTH=4"), again},
		"the folder": {func(p *project) {
			p.job.Command.Args[1], p.job.Command.Dir = p.path("train.py"), filepath.Join(p.dir, "data")
		}, again},
		"the interpreter": {func(p *project) {
			text, _ := os.ReadFile(p.Interpreter)
			p.write("venv/bin/python", string(text)+"# another\n")
		}, again},
		"a package":            {func(p *project) { p.Packages = []string{"torch 2.15.1"} }, again},
		"packages are unknown": {func(p *project) { p.Packages = nil }, again},
		"the card's name":      {func(p *project) { p.Card.Name = "NVIDIA A10" }, again},
		"the card's memory":    {func(p *project) { p.Card.Total = 8 * unit.GiB }, again},
		"its capability":       {func(p *project) { p.Card.Capability = "9.0" }, again},
		"the ranks":            {func(p *project) { p.Ranks = 2 }, again},
		"the deadline":         {func(p *project) { p.Deadline = 2 * time.Minute }, again},
		"the allocator":        {func(p *project) { p.c = mem.CachingOf("expandable_segments:True", 2) }, again},
		"a recipe": {func(p *project) {
			p.job.Files = []job.File{{Path: p.path("x.yml"), Text: []byte("layers: 4")}}
		}, again},
		"the ladders":              {func(p *project) { p.set.Values = map[string]int64{job.MicroBatch: 8} }, again},
		"the state folder is gone": {func(p *project) { os.RemoveAll(p.Cache) }, again},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			if got := p.price(); got != kept {
				t.Fatalf("the first trace has %v of saved tensors", got)
			}
			p.records(4, "")
			tt.change(p)
			if got := p.price(); got != tt.want {
				t.Errorf("then it has %v of saved tensors, and not %v", got, tt.want)
			}
		})
	}
}

// What may be another time otherwise is not kept: a failure, a trace that was cut short, and one of files that change.
func TestTraceIsNotKept(t *testing.T) {
	for name, spoil := range map[string]func(p *project){
		"failed":    func(p *project) { p.records(8, `E {"why": "a mistake", "failed": true, "steps": 0}`) },
		"cut short": func(p *project) { p.records(8, `E {"why": "the time was over", "torch": "2.15.0", "steps": 2}`) },
		"it changes": func(p *project) {
			later := time.Now().Add(time.Hour)
			if err := os.Chtimes(p.path("net.py"), later, later); err != nil {
				p.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			spoil(p)
			p.price()
			p.records(4, "")
			if got := p.price(); got != 4*5*mib {
				t.Errorf("the next trace has %v of saved tensors", got)
			}
		})
	}
}

// A rung is traced with its edits, once in a launch and once for all launches.
func TestTraceAt(t *testing.T) {
	p := newProject(t)
	edits := func(to string) []config.Edit {
		return []config.Edit{{At: config.Address{Doc: config.ArgvDoc, Path: "--batch"}, From: "8", To: to}}
	}
	p.job.Options = []config.Option{{Names: []string{"--batch"}}}
	at := func(tracer Tracer, to string) (saved unit.Bytes, took time.Duration) {
		t.Helper()
		phases, took, err := tracer.At(t.Context(), p.job, edits(to), p.c)
		if refused(err) {
			t.Skip(err)
		}
		if err != nil || phases[0].Name != Training {
			t.Fatalf("%+v: %v", phases, err)
		}
		return phases[0].Estimate.Of(mem.Saved), took
	}
	one := New(p.Tracer)
	if saved, took := at(one, "4"); saved != 8*5*mib || took == 0 {
		t.Errorf("the first trace has %v in %v", saved, took)
	}
	p.records(2, "")
	one.Cache = ""
	if saved, _ := at(one, "4"); saved != 8*5*mib {
		t.Errorf("the same launch has traced again: %v", saved)
	}
	if saved, took := at(New(p.Tracer), "4"); saved != 8*5*mib || took != 0 {
		t.Errorf("another launch has %v in %v", saved, took)
	}
	if saved, took := at(New(p.Tracer), "2"); saved != 2*5*mib || took == 0 {
		t.Errorf("another rung has %v in %v", saved, took)
	}
}

// The folder of the answers is bounded in their number and in bytes.
func TestAnswersAreBounded(t *testing.T) {
	a := answers(t.TempDir())
	file := filepath.Join(t.TempDir(), "made-from")
	write(t, file, "x")
	text := strings.Repeat("x", 1<<20)
	for i := range int(mostKept>>20) + 5 {
		a.put(a.path(i), []string{file}, text)
	}
	entries, err := os.ReadDir(string(a))
	if err != nil || len(entries) > int(mostKept>>20) || len(entries) < int(mostKept>>22) {
		t.Errorf("%d answers of 1 MiB are kept (%v)", len(entries), err)
	}
	var last string
	if !a.get(a.path(int(mostKept>>20)+4), &last) || last != text {
		t.Error("the newest is not there")
	}
}
