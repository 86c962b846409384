package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
)

// recorded are the versions whose steps were recorded. A command whose Python is not on this machine is planned with
// them: a plan for another machine, or before anything is installed.
var recorded = map[string][]int{"transformers": {5, 23}, "trl": {1, 16}, "torch": {2, 15}, "axolotl": {0, 19},
	"deepspeed": {0, 19}, "liger_kernel": {0, 8}, "accelerate": {1, 15}}

// assume is the release of a distribution that the command's Python has, or otherwise the recorded one.
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
	return t.recorded(distribution)
}

// recorded is the release that is taken for granted. LLaMA-Factory 0.9.5 asks for accelerate up to 1.11.
func (t *training) recorded(distribution string) []int {
	if distribution == "accelerate" && t.kind.pairs {
		return []int{1, 11}
	}
	return recorded[distribution]
}

// warnAssumed reports what the estimate takes for granted.
func (t *training) warnAssumed() {
	if len(t.assumed) == 0 || t.unknown != "" {
		return
	}
	var names []string
	for _, name := range t.assumed {
		names = append(names, fmt.Sprintf("%s %d.%d", name, t.recorded(name)[0], t.recorded(name)[1]))
	}
	taken := strings.Join(names, ", ")
	if !t.env.Known() {
		t.warn("the command's Python is not on this machine: the estimate assumes %s", taken)
		return
	}
	t.warn("packages were not found in the command's Python: the estimate assumes %s, and refuses nothing", taken)
}

// doubted marks an estimate that takes a version for granted: it refuses nothing. Where the command has no Python at
// all it cannot run, and nothing can be refused that would.
func (t *training) doubted(e mem.Tensors) mem.Tensors {
	if len(t.assumed) == 0 || !t.env.Known() {
		return e
	}
	e.Items = slices.Clone(e.Items)
	for i := range e.Items {
		e.Items[i].Guess = true
	}
	return e
}
