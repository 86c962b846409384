package lm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// Without bitsandbytes the ladders have what they would be with it, for a card that the job as asked is too large for;
// with it, or on a larger card, they have not.
func TestAbsentBitsandbytes(t *testing.T) {
	args := append(asked[:len(asked):len(asked)], "--dtype", "bfloat16", "--per_device_train_batch_size", "1")
	small := card
	small.Total = unit.GiB / 4
	for name, tt := range map[string]struct {
		command job.Command
		device  gpu.Device
		want    bool
	}{
		"too large":    {cmd(t, folder(t, nil), args...), small, true},
		"large enough": {cmd(t, folder(t, nil), args...), card, false},
		"installed":    {installed(t, cmd(t, folder(t, nil), args...), "bitsandbytes"), small, false},
		"a CPU":        {cmd(t, folder(t, nil), args...), gpu.Device{Kind: gpu.CPU, Total: unit.GiB / 4}, false},
	} {
		set, err := recognised(t, tt.command).Ladders(t.Context(), tt.device)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Absent != nil; got != tt.want {
			t.Fatalf("%s: there are ladders with bitsandbytes: %v, want %v", name, got, tt.want)
		}
		if err := set.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		paged := func(s *ladder.Set) bool {
			return slices.ContainsFunc(s.Shared.Rungs, func(r ladder.Rung) bool { return r.Name == "paged AdamW" })
		}
		if tt.want && (paged(set) || !paged(set.Absent.Set)) {
			t.Errorf("%s: paged AdamW is offered: %v, and with bitsandbytes: %v", name, paged(set),
				paged(set.Absent.Set))
		}
	}
}

// installed makes a package of a command's Python.
func installed(t *testing.T, c job.Command, module string) job.Command {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(filepath.Dir(c.Args[0]), "../lib/python3.11/site-packages", module),
		0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

// With bitsandbytes, the shared ladder has its optimizers, smaller adapters and 4-bit weights, in the order of
// their cost. Paged states save nothing where no adapter has 100,000 elements. A state that was saved before cannot
// be read with them, and each is priced as the job that it makes.
func TestSharedRungs(t *testing.T) {
	args := []string{"sft.py", "--config", "sft.yaml", "--max_length", "256", "--no_gradient_checkpointing"}
	for name, tt := range map[string]struct {
		command job.Command
		want    []string
	}{
		"adapters": {installed(t, cmd(t, folder(t, nil), args...), "bitsandbytes"), []string{"as asked",
			"expandable segments", "8-bit AdamW", "sequences of 128 tokens", "LoRA rank 8", "LoRA rank 4",
			"weights in 4 bits", "weights in 4 bits, sequences of 128 tokens"}},
		"whole, in bfloat16": {installed(t, cmd(t, folder(t, nil), append(asked[:len(asked):len(asked)], "--dtype",
			"bfloat16", "--block_size", "128")...), "bitsandbytes"),
			[]string{"as asked", "expandable segments", "paged AdamW", "8-bit AdamW"}},
		"without it": {cmd(t, folder(t, nil), args...), []string{"as asked", "expandable segments",
			"sequences of 128 tokens", "LoRA rank 8", "LoRA rank 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugintest.Check(t, New(), tt.command, card)
			set, err := recognised(t, tt.command).Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range set.Shared.Rungs {
				got = append(got, r.Name)
				starts := slices.ContainsFunc(r.Edits, func(e config.Edit) bool {
					return slices.Contains([]string{knobOptimizer, knobRank, knobQuant}, e.Knob)
				})
				if r.NewState != starts {
					t.Errorf("%s starts over: %v, want %v", r.Name, r.NewState, starts)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("rungs %q, want %q", got, tt.want)
			}
		})
	}
}

// A paged optimizer's states are at most in host memory, and the estimate is a lower bound.
func TestPagedHost(t *testing.T) {
	c := cmd(t, folder(t, nil), append(asked[:len(asked):len(asked)], "--optim", "paged_adamw_32bit")...)
	set, err := recognised(t, c).Ladders(t.Context(), card)
	if err != nil || set.Host == nil || set.Host.Unknown == "" {
		t.Fatalf("%v, host %+v", err, set.Host)
	}
	// All matrices of the model have 100,000 elements and more but k_proj and v_proj of 512 × 128; norms have 512.
	const paged = 2*32000*512 + 4*(2*512*512+3*512*1376)
	if got := set.Host.At(0, ladder.HostMemory, 1).Of(mem.Optimizer); got != unit.Bytes(8*paged) {
		t.Errorf("%d bytes of paged states, want %d", got, 8*paged)
	}
	e := set.Ladder(ladder.Training).Rungs[0].At(0)
	if got, want := e.Of(mem.Optimizer), unit.Bytes(8*4*(2*512*128+2*512)+8*512); got != want {
		t.Errorf("%d bytes of states on the card, want %d", got, want)
	}
}

// What torch copies on a card while these optimizers step has a formula, and no measurement: the plan says so.
func TestListsAreUnmeasured(t *testing.T) {
	for args, want := range map[string]bool{
		"--optim adamw_torch": false, "--optim adamw_torch_fused": false, "--optim sgd": false, "--optim adagrad": true,
		"--optim sgd --weight_decay 0.1": true, "--optim rmsprop": true,
	} {
		c := cmd(t, folder(t, nil), append(asked[:len(asked):len(asked)], strings.Fields(args)...)...)
		warnings := strings.Join(recognised(t, c).warnings, "\n")
		if got := strings.Contains(warnings, "the copies of lists"); got != want {
			t.Errorf("%s: the warning that no card has measured the copies: %t, want %t", args, got, want)
		}
	}
}
