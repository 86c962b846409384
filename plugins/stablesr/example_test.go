package stablesr

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

const example = "../../examples/stablesr"

// measure has PyTorch itself count the example's model: parameters, and what a forward keeps for its backward, each storage
// once and parameters not at all.
const measure = `
import json, sys, torch
from tinysr import config
from tinysr.data import DataModuleFromConfig
c = config.load("configs/demo.yaml")
c["data"]["params"]["batch_size"] = 2
m = config.build(c["model"]); m.configs = c
batch = next(iter(DataModuleFromConfig(**c["data"]["params"]).loader("train")))
seen, own = {}, {p.storage().data_ptr() for p in m.parameters()}
def pack(t):
    s = t.storage()
    if s.data_ptr() not in own:
        seen[s.data_ptr()] = (s.nbytes(), s)
    return t
with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
    loss = m.loss(batch)
json.dump({"saved": sum(n for n, _ in seen.values()), "params": sum(p.numel() for p in m.parameters()),
    "trained": sum(p.numel() for p in m.parameters() if p.requires_grad)}, sys.stderr)
`

// The example is recognised by the features of the real thing, and priced by the same formulas: they are held against
// PyTorch here, end to end.
func TestExample(t *testing.T) {
	dir, err := filepath.Abs(example)
	if err != nil {
		t.Fatal(err)
	}
	j := mine(t, dir, "main.py", "--train", "--base", "configs/demo.yaml", "--gpus", "0,", "--name", "x")
	if j.Batch != (job.Batch{Micro: 8, Accumulation: 2, Ranks: 1}) || j.Dialect != "StableSR" {
		t.Fatalf("read as %+v", j)
	}
	set := laddersOf(t, j, gpu.Device{Kind: gpu.CPU, Total: unit.GiB})
	if e := set.Ladder(ladder.Training).Rungs[0].At(set.Shared.Asked); !e.Known() {
		t.Fatal(e.Unknown)
	}
	find(t, set.Shared, "micro-batch 4 × accumulation 4")

	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	cmd := exec.Command(python, "-c", measure)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("the test needs a Python with torch and PyYAML (LAUNCH_TEST_PYTHON): %v", err)
	}
	var torch struct{ Saved, Params, Trained int64 }
	decoded := json.NewDecoder(pipe).Decode(&torch)
	if err := cmd.Wait(); err != nil || decoded != nil {
		t.Fatalf("the test needs a Python with torch and PyYAML (LAUNCH_TEST_PYTHON): %v, %v", err, decoded)
	}
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	var params, adam int64
	for _, it := range (arch.Step{Model: r.model, Batch: 2, Size: r.size, Queue: r.queue}).Training().Items {
		switch it.Kind {
		case mem.Parameters:
			params += it.Count
		case mem.Optimizer:
			adam += int64(it.Bytes)
		}
	}
	if params != torch.Params || adam != 8*torch.Trained {
		t.Errorf("%d parameters, %d bytes of Adam; PyTorch has %d and %d", params, adam, torch.Params, 8*torch.Trained)
	}
	saved := int64(arch.Step{Model: r.model, Batch: 2, Size: r.size, Queue: r.queue}.Saved())
	if off := float64(saved-torch.Saved) / float64(torch.Saved); off < -0.02 || off > 0.02 {
		t.Errorf("%d bytes are saved, and PyTorch saves %d (%+.1f %%)", saved, torch.Saved, 100*off)
	}
}
