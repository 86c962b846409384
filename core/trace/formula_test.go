package trace

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

// interpreter is a Python with torch: `make deps` installs it.
func interpreter(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LAUNCH_TEST_PYTHON")
	if path == "" {
		path = "/usr/bin/python3"
	}
	const find = "import importlib.util as u; exit(not u.find_spec('torch'))"
	if out, err := exec.Command(path, "-c", find).CombinedOutput(); err != nil {
		t.Fatalf("%s lacks torch; `make deps` installs it: %v\n%s", path, err, out)
	}
	return path
}

// network is two linear layers with a ReLU between them, a buffer, and a frozen bias.
const network = `
import torch
from torch import nn
import sizes

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 8)
        self.down.bias.requires_grad_(False)
        self.register_buffer("scale", torch.ones(width))
    def forward(self, x):
        return self.down(self.act(self.up(x * self.scale)))

def build(config):
    print("this is no answer")
    return Net(sizes.WIDTH), torch.empty(config["batch"], sizes.WIDTH)

def forward_only(config):
    return {"module": Net(sizes.WIDTH), "inputs": {"x": torch.empty(config["batch"], sizes.WIDTH)}, "train": False}

def convolution(config):
    return nn.Conv2d(3, 8, 3), torch.empty(config["batch"], 3, 16, 16)

def scores(config):
    class Scores(nn.Module):
        def forward(self, x):
            return (x * 2).softmax(-1)
    return Scores(), torch.empty(config["n"], config["n"], requires_grad=True)

def wrong(config):
    return 3

def asks(config):
    return Net(sizes.WIDTH), torch.empty(1, sizes.WIDTH + 1)

def exits(config):
    raise SystemExit(3)

def dies(config):
    import os
    os.kill(os.getpid(), 9)

def hungry(config):
    return bytearray(8 << 30)

def slow(config):
    import subprocess, time
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)

def cards(config):
    import os, subprocess
    subprocess.Popen(["sleep", "600"])
    return nn.Linear(1, 1), torch.empty(1 + len(os.environ["CUDA_VISIBLE_DEVICES"]), 1)
`

// runner runs formulas of a folder that has network.py and what that imports.
func runner(t *testing.T) (Formulas, func(function, config string) job.Formula) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "network.py"), network)
	write(t, filepath.Join(dir, "sizes.py"), "WIDTH = 16\n")
	r := Formulas{Interpreter: interpreter(t), Env: os.Environ(), Dir: dir, Roots: []string{dir}, Deadline: time.Minute}
	return r, func(function, config string) job.Formula {
		return job.Formula{File: filepath.Join(dir, "network.py"), Function: function, Config: json.RawMessage(config)}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is counted of a network of two layers is what can be counted by hand; and it is kept.
func TestCounts(t *testing.T) {
	r, f := runner(t)
	r.Cache = filepath.Join(t.TempDir(), "formulas")
	const batch, width, float = 32, 16, 4
	got := r.Run(t.Context(), []job.Formula{f("build", `{"batch": 32, "x": 1}`), f("forward_only", `{"batch": 32}`),
		f("build", `{"batch": 64}`)})
	for _, c := range got {
		if c.Problem != "" {
			t.Fatal(c.Problem)
		}
	}
	// x * scale, which the first layer saves; its result after the ReLU, which the ReLU and the second layer save once.
	saved := unit.Bytes(batch*width+batch*4*width) * float
	c := got[0]
	for what, is := range map[string][2]unit.Bytes{
		"input":  {c.Input, batch * width * float},
		"output": {c.Output, batch * 8 * float},
		"saved":  {c.Saved, saved},
		// At the forward's peak the ReLU's input is there, too.
		"forward peak": {c.ForwardPeak, saved + batch*4*width*float},
	} {
		if is[0] != is[1] {
			t.Errorf("%s: %d bytes, want %d", what, is[0], is[1])
		}
	}
	if c.Peak < c.ForwardPeak || c.PeakSaved > c.Peak || c.PeakGradients > c.Peak || c.NoBackward != "" {
		t.Errorf("forward and backward: %+v", c)
	}
	parts := map[string]job.CountedPart{}
	for _, p := range c.Parts {
		parts[p.Name] = p
	}
	up, down, own := parts["up"], parts["down"], parts[""]
	if up.Parameters != 4*width*(width+1) || up.Trainable != up.Parameters ||
		up.ParameterBytes != unit.Bytes(up.Parameters)*float {
		t.Errorf("up: %+v", up)
	}
	if down.Parameters != 8*(4*width+1) || down.Trainable != 8*4*width {
		t.Errorf("down, with a frozen bias: %+v", down)
	}
	if own.Buffers != width || own.BufferBytes != width*float || own.Parameters != 0 {
		t.Errorf("the buffer: %+v", own)
	}
	if e := got[1]; e.Saved != 0 || e.Peak != 0 || e.ForwardPeak == 0 || e.NoBackward == "" {
		t.Errorf("without gradients: %+v", e)
	}
	if got[2].Saved != 2*c.Saved {
		t.Errorf("twice the batch saves %d bytes, want twice %d", got[2].Saved, c.Saved)
	}
	// In backward the softmax, its gradient, their product, which a card's kernel makes, and its input's gradient.
	if s := r.Run(t.Context(), []job.Formula{f("scores", `{"n": 256}`)})[0]; s.Peak/1024 != 4*256*256*float/1024 {
		t.Errorf("a softmax: a peak of %d bytes, want %d: %+v", s.Peak, 4*256*256*float, s)
	}
	mine := []job.Formula{f("build", `{"x": 1,  "batch": 32}`)} // its answer is kept, of a text that is spelled otherwise
	if r.Run(t.Context(), mine); string(mine[0].Config) != `{"x": 1,  "batch": 32}` {
		t.Errorf("an answer that was kept has changed the question: %s", mine[0].Config)
	}
	t.Run("cache", func(t *testing.T) { cached(t, r, c) })
}

// What cannot be counted is a problem, and no zero; and it costs no other formula its answer.
func TestProblems(t *testing.T) {
	r, f := runner(t)
	formulas := []job.Formula{f("wrong", ""), f("none", ""), f("asks", ""), f("exits", ""), f("hungry", ""),
		f("build", `{"batch": 1}`), f("dies", ""), f("build", `{"batch": 2}`)}
	says := []string{"returns a pair", "no attribute 'none'", "RuntimeError", "SystemExit: 3", "host memory", "",
		"signal: killed", "signal: killed"}
	for i, c := range r.Run(t.Context(), formulas) {
		if (c.Problem == "") != (says[i] == "") || !strings.Contains(c.Problem, says[i]) {
			t.Errorf("%s: %q, want %q", c.Formula.Function, c.Problem, says[i])
		}
		if c.Problem != "" && (len(c.Parts) > 0 || c.Saved > 0) {
			t.Errorf("%s: a problem and numbers: %+v", c.Formula.Function, c)
		}
	}
	other := r
	other.Interpreter = filepath.Join(t.TempDir(), "python")
	write(t, other.Interpreter, "#!/bin/sh\necho no such thing >&2\nexit 1\n")
	if err := os.Chmod(other.Interpreter, 0o755); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]Formulas{
		"no such thing":    other,
		"not known which":  {Roots: r.Roots, Deadline: time.Minute},
		"are switched off": {Interpreter: r.Interpreter, Roots: r.Roots},
		"it lies neither":  {Interpreter: r.Interpreter, Deadline: time.Minute},
		"no such file":     {Interpreter: "/nothing", Roots: r.Roots, Dir: r.Dir, Deadline: time.Minute},
	} {
		if c := r.Run(t.Context(), formulas[5:6])[0]; !strings.Contains(c.Problem, want) {
			t.Errorf("%q, want %q", c.Problem, want)
		}
	}
}

// The process sees no GPU, and ends with everything that it has started.
func TestEnd(t *testing.T) {
	r, f := runner(t)
	r.Env = append(r.Env, "CUDA_VISIBLE_DEVICES=0", "LAUNCH_FORMULA_TEST="+r.Dir)
	gone := func() {
		t.Helper()
		for end := time.Now().Add(time.Minute); processes(r.Dir) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of its processes are still there", processes(r.Dir))
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // until each formula has started a process
		for ctx.Err() == nil && processes(r.Dir) < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	got := r.Run(ctx, []job.Formula{f("cards", ""), f("slow", "")})
	if c := got[0]; c.Input != 4 {
		t.Errorf("it sees a card: %+v", c)
	}
	if c := got[1]; !strings.Contains(c.Problem, "canceled") {
		t.Errorf("a slow one: %q", c.Problem)
	}
	gone()
	r.Deadline = time.Millisecond
	if c := r.Run(t.Context(), []job.Formula{f("slow", "")})[0]; !strings.Contains(c.Problem, "longer than 1ms") {
		t.Errorf("at its deadline: %q", c.Problem)
	}
}

// processes counts those whose environment names the folder.
func processes(dir string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		env, err := os.ReadFile(path)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err == nil && !strings.Contains(string(stat), ") Z ") &&
			strings.Contains(string(env), "LAUNCH_FORMULA_TEST="+dir) {
			n++
		}
	}
	return n
}

// cached asks again for what was counted first. The answer is kept until a file changes that it was made from: also
// one that the formula's file imports.
func cached(t *testing.T, r Formulas, first job.Counted) {
	ask := func() job.Counted {
		t.Helper()
		return r.Run(t.Context(), []job.Formula{first.Formula})[0]
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	alone := filepath.Join(r.Dir, "sizes.py")
	again := first.Formula
	again.Config = json.RawMessage(`{"x":1,"batch":32}`)
	if c := r.Run(ended, []job.Formula{again})[0]; c.Saved != first.Saved || !c.Formula.Same(again) {
		t.Errorf("again, where nothing can be started: %+v", c)
	}
	write(t, alone, "WIDTH = 32\n")
	if c := ask(); c.Saved != 2*first.Saved {
		t.Errorf("after what it imports has changed: %+v", c)
	}
	write(t, alone, "WIDTH =\n")
	if c := ask(); !strings.Contains(c.Problem, "SyntaxError") {
		t.Errorf("after a mistake: %+v", c)
	}
	write(t, alone, "WIDTH = 32\n")
	if c := ask(); c.Problem != "" {
		t.Errorf("a problem is remembered: %q", c.Problem)
	}
}

// Only files beside the plugin and in the command's folders are imported, and only those that nobody else can write.
func TestAllowed(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string {
		p := filepath.Join(dir, name)
		write(t, p, "")
		return p
	}
	link := func(to, name string) string {
		p := filepath.Join(dir, name)
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	open := path("project/open.py")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	path("elsewhere/x.py")
	path("venv/bin/launch-plugin-x")
	roots := Roots(filepath.Join(dir, "project"), filepath.Join(dir, "scripts/train.py"),
		link(filepath.Join(dir, "venv/bin/launch-plugin-x"), "launch-plugin-x"))
	r := Formulas{Roots: roots}
	for file, says := range map[string]string{
		path("project/deep/network.py"):                               "",
		path("scripts/network.py"):                                    "",
		path("venv/lib/python3.11/site-packages/x/network.py"):        "",
		filepath.Join(dir, "elsewhere/x.py"):                          "it lies neither",
		filepath.Join(dir, "project/../elsewhere/x.py"):               "it lies neither",
		link(filepath.Join(dir, "elsewhere/x.py"), "project/link.py"): "it lies neither",
		open:                                "others can write",
		filepath.Join(dir, "project/no.py"): "no such file",
		"project/network.py":                "no absolute path",
		path("project/network.txt"):         "no absolute path",
	} {
		err := r.allowed(job.Formula{File: file, Function: "build"})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
}
