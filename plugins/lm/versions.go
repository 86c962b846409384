package lm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/plugins/lm/arch"
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

// The releases of transformers 4 whose steps have a formula.
const oldest, newest4 = 30, 57

// released reads which release of transformers the steps are of, and says why it has no formula.
func released(s *settings, t *training) string {
	switch v := assume(s, t, "transformers"); {
	case v[0] == 5:
		return ""
	case v[0] == 4 && len(v) > 1 && oldest <= v[1] && v[1] <= newest4:
		t.step.Release = arch.Release(v[1])
		return ""
	}
	return fmt.Sprintf("the formula is of transformers 4.%d to 4.%d and 5, and the command's Python has %s", oldest,
		newest4, s.version("transformers"))
}

// pins are the lines of a file of requirements that allow one release alone (PEP 508).
var pins = lazy.MustCompile(`(?m)^[ \t]*([\w.-]+)(?:\[[^\]]*\])?[ \t]*===?[ \t]*(\d[\w.+]*)`)

// pinned is the release of a distribution that requirements.txt in the command's folder asks for; "" for none.
func (s *settings) pinned(distribution string) string {
	text, err := file.Read(file.In(s.prog.Dir, "requirements.txt"), maxFile)
	if err != nil {
		return ""
	}
	for _, line := range pins.FindAllStringSubmatch(string(text), -1) {
		if strings.EqualFold(strings.ReplaceAll(line[1], "-", "_"), distribution) {
			return line[2]
		}
	}
	return ""
}

// version is a distribution's in the command's Python; where no Python is found, that which is pinned.
func (s *settings) version(distribution string) string {
	if s.env.Known() {
		return s.env.Version(distribution)
	}
	return s.pinned(distribution)
}

// older reports whether transformers is of the releases 4. What its defaults are is not what they are in 5.
func older(s *settings) bool {
	v := s.release("transformers")
	return len(v) > 1 && v[0] == 4
}

// dated says why the model has no formula in a release of transformers 4. Where a model has no attention by SDPA its
// own is eager, unless another is asked for.
func dated(s *settings, t *training) string {
	without := t.model.EagerBefore(t.step.Release) ||
		t.model.Bounds() && slices.Compare(assume(s, t, "transformers"), []int{5, 21}) >= 0
	t.step.Eager = t.step.Eager || !t.step.Flash && without
	step := t.step
	step.Model = t.model
	return step.Dated()
}

// factoryBefore reports whether LLaMA-Factory is known to be older than that release.
func factoryBefore(s *settings, release ...int) bool {
	v := s.release("llamafactory")
	return len(v) > 0 && slices.Compare(v, release) < 0
}

func orNone(version string) string {
	return cmp.Or(version, "none that is known")
}
