package stablesr

import (
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// NCCL's buffers are a line of two cards' trainings, and not of one's.
func TestCollectives(t *testing.T) {
	dir := checkoutDir(t, "checkout", map[string]func(string) string{"r.yaml": nil})
	for gpus, want := range map[string]bool{"0,": false, "0,1,": true} {
		set := laddersOf(t, mine(t, dir, "main.py", "--train", "--base", "r.yaml", "--gpus", gpus, "--scale_lr", "False"), card(48*unit.GiB))
		l := set.Ladder(ladder.Training)
		items := l.Rungs[l.Asked].At(set.Shared.Asked).Items
		if has := slices.ContainsFunc(items, func(it mem.Item) bool { return it.What == "NCCL" }); has != want {
			t.Errorf("--gpus %s: NCCL is a line: %v", gpus, has)
		}
	}
}
