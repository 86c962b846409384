package lm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// Where the command's Python is not on this machine, the estimate is of the recorded versions, and the plan names them.
// Where it is, and a package was not found in it, every figure is a guess, which refuses nothing.
func TestAssumed(t *testing.T) {
	nowhere := factory(t, "a.yaml")
	nowhere.Args = []string{"llamafactory-cli", "train", "a.yaml"}
	bare := cmd(t, folder(t, nil), asked...)
	bare.Args[0] = plugintest.Torch(t, "2.15.0")
	behind := cmd(t, folder(t, nil), asked...)
	behind.Args[0] = filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(behind.Args[0], []byte("#!/bin/sh\nexec other/python \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	here := cmd(t, folder(t, nil), asked...)
	old := cmd(t, folder(t, nil), asked...)
	old.Args[0] = interpreter(t, "4.29.2")
	for name, tt := range map[string]struct {
		r       *recognized
		warned  string
		guessed bool
		unknown string
	}{
		"not here": {r: recognised(t, nowhere),
			warned: "not on this machine: the estimate assumes transformers 5.6, torch 2.15"},
		"behind a wrapper": {r: recognised(t, behind),
			warned: "are not known: the estimate assumes transformers 5.23", guessed: true},
		"no transformers": {r: recognised(t, bare), warned: "assumes transformers 5.23, and refuses nothing", guessed: true},
		"all known":       {r: recognised(t, here)},
		"an old one":      {r: recognised(t, old), unknown: "has 4.29.2"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(tt.r.unknown, tt.unknown) || (tt.r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown: %q", tt.r.unknown)
			}
			said := strings.Join(tt.r.warnings, "\n")
			if !strings.Contains(said, tt.warned) || tt.warned == "" && strings.Contains(said, "estimate") {
				t.Errorf("warned: %q", said)
			}
			set, err := tt.r.Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			if tt.unknown != "" {
				return
			}
			var sure bool
			for _, i := range set.Phases[0].Rungs[0].Estimates[0].Items {
				sure = sure || i.Kind == mem.Parameters && !i.Guess
			}
			if sure == tt.guessed {
				t.Errorf("the weights are no guess: %v, want %v", sure, !tt.guessed)
			}
			four := slices.ContainsFunc(set.Shared.Rungs, func(r ladder.Rung) bool { return r.Name == "weights in 4 bits" })
			if four != (name == "not here") {
				t.Errorf("weights in 4 bits are offered: %v", four)
			}
		})
	}
}

// The versions that are assumed can be installed together: those that the program allows beside it.
func TestAssumesWhatTheProgramAllows(t *testing.T) {
	bare := func(c job.Command, args ...string) job.Command {
		c.Args = args
		return c
	}
	axolotl := func(lines map[string]string) job.Command {
		return bare(axolotlAt(t, lines), "axolotl", "train", "a.yaml")
	}
	mixed := factory(t, "a.yaml")
	write(t, mixed.Dir, map[string]string{"model/config.json": manyExperts})
	sharded := factory(t, "a.yaml")
	sharded.Devices = 2
	write(t, sharded.Dir, map[string]string{"ds.json": with2(`"stage": 2`)})
	for name, tt := range map[string]struct {
		command job.Command
		warned  string
		unknown string
	}{
		"LLaMA-Factory's experts": {bare(mixed, "llamafactory-cli", "train", "a.yaml", "lora_target=q_proj"),
			"assumes transformers 5.6, torch 2.15", ""},
		"LLaMA-Factory's DeepSpeed": {bare(sharded, "llamafactory-cli", "train", "a.yaml", "deepspeed=ds.json"),
			"assumes transformers 5.6, torch 2.15, deepspeed 0.18", ""},
		"axolotl": {axolotl(nil), "assumes transformers 5.16, axolotl 0.19, torch 2.13", ""},
		"axolotl's kernels": {axolotl(map[string]string{"plugins": "[" + ligerPlugin + "]", "liger_rms_norm": "true"}),
			"assumes transformers 5.16, axolotl 0.19, liger_kernel 0.8, torch 2.13", ""},
		// with torch 2.15 it would have one
		"axolotl in float32": {axolotl(map[string]string{"bf16": ""}), "", "from torch 2.15 on, and this is 2.13"},
		"trl": {bare(cmd(t, folder(t, nil)), "trl", "sft", "--model_name_or_path", "model"),
			"assumes transformers 5.23, trl 1.16, torch 2.15", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, tt.command)
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if said := strings.Join(r.warnings, "\n"); !strings.Contains(said, tt.warned) {
				t.Errorf("warned: %q, want %q", said, tt.warned)
			}
		})
	}
}
