package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
)

// recorded are the newest versions whose steps were recorded. A command whose Python is not on this machine is planned
// with them, unless its program allows older ones alone: a plan for another machine, or before anything is installed.
var recorded = map[string][]int{"transformers": {5, 23}, "trl": {1, 16}, "torch": {2, 15}, "axolotl": {0, 19},
	"deepspeed": {0, 19}, "liger_kernel": {0, 8}, "accelerate": {1, 15}}

// The newest releases that a program can have beside it, where the recorded ones are newer: of LLaMA-Factory 0.9.5
// (its pyproject.toml, and requirements/deepspeed.txt) and of axolotl 0.19.0 (its METADATA). trl 1.16.0 allows the
// recorded ones.
var (
	besideFactory = map[string][]int{"transformers": {5, 6}, "accelerate": {1, 11}, "deepspeed": {0, 18}}
	besideAxolotl = map[string][]int{"transformers": {5, 16}, "torch": {2, 13}, "accelerate": {1, 13},
		"deepspeed": {0, 18}, "liger_kernel": {0, 8, 1}}
)

// newest is the release of a distribution that the program is taken to have, where none is found.
func (k kind) newest(distribution string) []int {
	if v := k.beside[distribution]; v != nil {
		return v
	}
	return recorded[distribution]
}

// assume is the release of a distribution that the command's Python has, or otherwise one that it can have.
func (t *training) assume(distribution string) []int {
	v := t.release(distribution)
	if distribution == "torch" {
		v = nil
		if major, minor, ok := t.env.Torch(); ok {
			v = []int{major, minor}
		}
	}
	if len(v) > 0 {
		return v
	}
	if !slices.Contains(t.assumed, distribution) {
		t.assumed = append(t.assumed, distribution)
	}
	return t.kind.newest(distribution)
}

// warnAssumed reports what the estimate takes for granted.
func (t *training) warnAssumed() {
	if len(t.assumed) == 0 || t.unknown != "" {
		return
	}
	var names []string
	for _, name := range t.assumed {
		v := t.kind.newest(name)
		names = append(names, fmt.Sprintf("%s %d.%d", name, v[0], v[1]))
	}
	taken := strings.Join(names, ", ")
	switch {
	case t.env.Missing():
		t.warn("the command's Python is not on this machine: the estimate assumes %s", taken)
		return
	case !t.env.Known():
		t.warn("the packages of the command's Python are not known: the estimate assumes %s, and refuses nothing", taken)
		return
	}
	t.warn("packages were not found in the command's Python: the estimate assumes %s, and refuses nothing", taken)
}

// assumes is why the estimate is for the largest case; "" if it is for this one.
func (t *training) assumes() string {
	if !t.atMost {
		return ""
	}
	return "the rows may be shorter than is assumed"
}

// doubted marks an estimate that takes a version for granted, or the length of the rows: these lines refuse nothing.
// Where the command's Python is not on
// this machine it cannot run here, and nothing can be refused that would.
func (t *training) doubted(e mem.Tensors) mem.Tensors {
	versions := len(t.assumed) > 0 && !t.env.Missing()
	if !versions && !t.atMost {
		return e
	}
	e.Items = slices.Clone(e.Items)
	for i := range e.Items {
		if versions || e.Items[i].Kind.Grows() {
			e.Items[i].Guess = true
		}
	}
	return e
}
