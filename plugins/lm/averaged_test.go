package lm

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// Where a step's loss depends on how its global batch is divided, the rung says so.
func TestAveraged(t *testing.T) {
	of := func(args ...string) []string {
		all := []string{"sft.py", "--model_name_or_path", "model", "--per_device_train_batch_size", "8"}
		return append(all, args...)
	}
	pairs := []string{"--model_name_or_path", "model", "--dataset_name", "x"}
	older := func(args ...string) job.Command {
		c := cmd(t, folder(t, nil), args...)
		c.Args[0] = interpreter(t, "4.45.2")
		return c
	}
	several := func(args ...string) job.Command {
		c := cmd(t, folder(t, nil), args...)
		c.Args, c.Devices = append([]string{"torchrun", "--nproc_per_node", "2"}, c.Args[1:]...), 2
		return c
	}
	const split, off = "micro-batch 1 ×", "--average_tokens_across_devices"
	for name, tt := range map[string]struct {
		c    job.Command
		cost ladder.Cost
		why  string
	}{
		"blocks of one length":    {older(asked...), ladder.Speed, ""},
		"trl":                     {cmd(t, folder(t, nil), of()...), ladder.Speed, ""},
		"before 4.46":             {older(of()...), ladder.Numerics, "before 4.46"},
		"cards that share tokens": {several(of()...), ladder.Speed, ""},
		"cards that do not":       {several(of(off, "False")...), ladder.Numerics, "each card"},
		"one card that does not":  {cmd(t, folder(t, nil), of(off, "False")...), ladder.Speed, ""},
		"blocks on several cards": {several(append(asked[:len(asked):len(asked)], off, "False")...), ladder.Speed, ""},
		"pairs":                   {dpoCommand(t, tiny, pairs...), ladder.Speed, ""},
		"pairs that are sorted": {dpoCommand(t, tiny, append(pairs[:4:4], "--loss_type", "sigmoid", "aot")...),
			ladder.Recipe, "sorts"},
		"pairs with tokens": {dpoCommand(t, tiny, append(pairs[:4:4], "--loss_type", "sft")...),
			ladder.Numerics, "sft"},
		"axolotl": {axolotlAt(t, map[string]string{"val_set_size": "0"}, "train", "a.yaml"),
			ladder.Numerics, "axolotl"},
		"LLaMA-Factory": {factory(t, "a.yaml"), ladder.Speed, ""},
		"its pairs":     {factory(t, "a.yaml", "stage=dpo"), ladder.Speed, ""},
		"its BCO":       {factory(t, "a.yaml", "stage=dpo", "pref_bco_weight=0.5"), ladder.Numerics, "BCO"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := recognised(t, tt.c).Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, r := range append(set.Shared.Rungs, set.Ladder(ladder.Training).Rungs...) {
				if !strings.HasPrefix(r.Name, split) || strings.Contains(r.Name, "tokens") {
					continue
				}
				seen++
				e := r.Edits[0]
				if r.Cost != tt.cost || e.Cost != tt.cost.String() || !strings.Contains(e.Why, tt.why) {
					t.Errorf("%s costs %v, want %v: %+v", r.Name, r.Cost, tt.cost, e)
				}
			}
			if seen == 0 {
				t.Error("no rung divides the batch")
			}
		})
	}
}

// Transformers before 5.2 resumes with the micro-batch of the saved state, so that a rung with another one starts over.
func TestRestoresMicroBatch(t *testing.T) {
	for version, restores := range map[string]bool{"4.57.1": true, "5.1.0": true, "5.2.0": false, "5.23.0": false} {
		c := cmd(t, folder(t, nil), asked...)
		c.Args[0] = interpreter(t, version)
		r := recognised(t, c)
		if j := r.Job(); j.Resume.None != "" || len(j.Resume.Edits) == 0 {
			t.Errorf("%s: it resumes by %+v", version, j.Resume)
		}
		set, err := r.Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		if b := (&builder{s: r.settings, t: r.training}); b.rung(variant{r.split, true}, nil).NewState {
			t.Errorf("%s: activation checkpointing alone has a state of its own", version)
		}
		other := 0
		for _, rung := range set.Ladder(ladder.Training).Rungs {
			changes := rung.Values[job.MicroBatch] != 0 && rung.Values[job.MicroBatch] != r.split.Micro
			if rung.NewState != (changes && restores) {
				t.Errorf("%s: %s has a state of its own: %v", version, rung.Name, rung.NewState)
			}
			if changes {
				other++
			}
		}
		if other < 2 {
			t.Errorf("%s: %d rungs with another micro-batch", version, other)
		}
	}
}
