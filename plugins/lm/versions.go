package lm

import (
	"fmt"
	"slices"
)

// recorded are the newest versions whose steps were recorded. A command whose Python is not on this machine is planned
// with them, unless its program allows older ones alone: a plan for another machine, or before anything is installed.
var recorded = map[string][]int{"transformers": {5, 23}, "trl": {1, 16}, "torch": {2, 15}, "axolotl": {0, 19},
	"deepspeed": {0, 19}, "liger_kernel": {0, 8}, "accelerate": {1, 15}}

// newest is the release of a distribution that the program is taken to have, where none is found.
func (k programKind) newest(distribution string) []int {
	if v := k.beside[distribution]; v != nil {
		return v
	}
	return recorded[distribution]
}

// assume is the release of a distribution that the command's Python has, or otherwise one that it can have.
func assume(s *settings, t *training, distribution string) []int {
	if v := s.release(distribution); len(v) > 0 {
		return v
	}
	if !slices.Contains(t.assumed, distribution) {
		t.assumed = append(t.assumed, distribution)
	}
	return s.kind.newest(distribution)
}

// released says why the installed versions have no formula.
func released(s *settings, t *training) string {
	if v := assume(s, t, "transformers"); v[0] != 5 && !older(s) {
		return fmt.Sprintf("the formula is of transformers 4.57 and 5, and the command's Python has %s",
			s.env.Version("transformers"))
	}
	return ""
}

// older reports whether transformers is 4.57. Its Trainer makes the same steps, but for what its defaults are.
func older(s *settings) bool {
	v := s.release("transformers")
	return len(v) > 1 && v[0] == 4 && v[1] == 57
}

// dated says what has no formula in transformers 4.57: GPT-2 keeps keys and values in a cache, also in a training
// (modeling_gpt2.py, DynamicCache).
func dated(s *settings, t *training) string {
	if older(s) && t.model.Type == "gpt2" {
		return "GPT-2 has a formula with transformers 5, and the command's Python has " + s.env.Version("transformers")
	}
	return ""
}

func orNone(version string) string {
	if version == "" {
		return "none that is known"
	}
	return version
}
