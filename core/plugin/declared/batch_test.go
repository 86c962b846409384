package declared

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
)

// An option whose name begins another one's is no abbreviation of that where the program has both.
func TestOptionThatBeginsAnother(t *testing.T) {
	both := "p.add_argument('--batch', type=int)\np.add_argument('--batch-size', type=int, default=16)\n"
	for name, tt := range map[string]struct {
		script  string
		micro   int64
		changed string
	}{
		"both":            {both, 16, "python train.py --batch 4 --batch-size 8"},
		"an abbreviation": {"p.add_argument('--batch-size', type=int, default=16)\n", 4, "python train.py --batch 2"},
	} {
		j, set := planned(t, try{command: "python train.py --batch 4", files: map[string]string{"train.py": tt.script}}.in(t,
			"script: train.py\nmicro-batch: --batch-size\n"))
		l := set.Phases[0]
		out, err := j.Rewrite(l.Rungs[l.Asked+1].Edits, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(out.Command.Args, " "); j.Batch.Micro != tt.micro || got != tt.changed {
			t.Errorf("%s: micro-batch %d, then %s", name, j.Batch.Micro, got)
		}
	}
}

// A batch is divided as the program divides it, and a rung keeps the global batch.
func TestBatch(t *testing.T) {
	for name, tt := range map[string]struct {
		places, command string
		devices         int
		want            job.Batch
		changed         string // by the first rung, with its name
	}{
		"each rank": {"micro-batch: -b\naccumulation: -a", "torchrun --nproc_per_node=2 train.py -b 8 -a 1", 0,
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 2}, "micro-batch 4 × accumulation 2: -b 4 -a 2"},
		"all ranks": {"micro-batch: -b\naccumulation: -a\nper: {micro-batch: all-ranks}",
			"torchrun --nproc_per_node=4 train.py -b 32 -a 1", 0,
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 4}, "micro-batch 4 × accumulation 2: -b 16 -a 2"},
		"a number that the ranks do not divide": {"micro-batch: -b\naccumulation: -a\nper: {micro-batch: all-ranks}",
			"torchrun --nproc_per_node=3 train.py -b 32 -a 1", 0,
			job.Batch{Accumulation: 1, Ranks: 3}, ""},
		"all divisors": {"micro-batch: -b\naccumulation: -a", "python train.py -b 6 -a 1", 0,
			job.Batch{Micro: 6, Accumulation: 1, Ranks: 1}, "micro-batch 3 × accumulation 2: -b 3 -a 2; micro-batch 2 × " +
				"accumulation 3: -b 2 -a 3; micro-batch 1 × accumulation 6: -b 1 -a 6"},
		"a number of ranks": {"micro-batch: -b\nranks: 2", "python train.py -b 8", 0,
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 2}, "micro-batch 4: -b 4"},
		"ranks of an option": {"micro-batch: -b\nranks: --gpus", "python train.py -b 8 --gpus 4", 0,
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 4}, "micro-batch 4: -b 4"},
		"cards": {"micro-batch: -b\nranks: cards\nper: {micro-batch: all-ranks}", "python train.py -b 32", 4,
			job.Batch{Micro: 8, Accumulation: 1, Ranks: 4, Replicas: true}, "micro-batch 4: -b 16"},
		"no cards": {"micro-batch: -b\nranks: cards", "python train.py -b 32", -1,
			job.Batch{Micro: 32, Accumulation: 1, Ranks: 1}, "micro-batch 16: -b 16"},
		"the launcher knows better": {"micro-batch: -b\nranks: cards", "torchrun --nproc_per_node=2 train.py -b 32", 8,
			job.Batch{Micro: 32, Accumulation: 1, Ranks: 2}, "micro-batch 16: -b 16"},
		"the accumulation is derived": {"micro-batch: -b\nglobal-batch: --global",
			"torchrun --nproc_per_node=2 train.py -b 8 --global 64", 0,
			job.Batch{Micro: 8, Accumulation: 4, Ranks: 2}, "micro-batch 4 × accumulation 8: -b 4 --global 64"},
		"from a number": {"micro-batch: -b\nglobal-batch: 24", "python train.py -b 8", 0,
			job.Batch{Micro: 8, Accumulation: 3, Ranks: 1}, "micro-batch 6 × accumulation 4: -b 6"},
		"a global batch in tokens": {"micro-batch: -b\nglobal-batch: --global\nsample-tokens: --length",
			"torchrun --nproc_per_node=2 train.py -b 8 --global 4096 --length 64", 0,
			job.Batch{Micro: 8, Accumulation: 4, Ranks: 2},
			"micro-batch 4 × accumulation 8: -b 4 --global 4096 --length 64"},
		"tokens that are no whole samples": {"micro-batch: -b\nglobal-batch: --global\nsample-tokens: 60",
			"python train.py -b 8 --global 4096", 0, job.Batch{Micro: 8, Ranks: 1}, "micro-batch 4: -b 4"},
		"a length that is not known": {"micro-batch: -b\nglobal-batch: --global\nsample-tokens: --length",
			"python train.py -b 8 --global 4096", 0, job.Batch{Micro: 8, Ranks: 1}, "micro-batch 4: -b 4"},
		"the micro-batch is derived": {"accumulation: -a\nglobal-batch: --global", "python train.py -a 2 --global 64", 0,
			job.Batch{Micro: 32, Accumulation: 2, Ranks: 1}, "micro-batch 16 × accumulation 4: -a 4 --global 64"},
		"a global batch that is not known": {"micro-batch: -b\nglobal-batch: --global", "python train.py -b 8", 0,
			job.Batch{Micro: 8, Ranks: 1}, "micro-batch 4: -b 4"},
		"one that the micro-batch does not divide": {"micro-batch: -b\nglobal-batch: 64", "python train.py -b 24", 0,
			job.Batch{Micro: 24, Ranks: 1}, "micro-batch 12: -b 12"},
		"a global batch that it checks": {"micro-batch: -b\naccumulation: -a\nglobal-batch: 64",
			"python train.py -b 8 -a 8", 0,
			job.Batch{Micro: 8, Accumulation: 8, Ranks: 1}, "micro-batch 4 × accumulation 16: -b 4 -a 16"},
	} {
		t.Run(name, func(t *testing.T) {
			j, set := planned(t, try{command: tt.command, devices: tt.devices}.in(t, "script: train.py\n"+tt.places+"\n"))
			if j.Batch != tt.want {
				t.Errorf("batch %+v, want %+v", j.Batch, tt.want)
			}
			var got []string
			l := set.Phases[0]
			for _, r := range l.Rungs[l.Asked+1:] {
				got = append(got, r.Name+": "+strings.TrimPrefix(made(t, j, r.Edits), "train.py "))
			}
			if !strings.HasPrefix(strings.Join(got, "; "), tt.changed) || len(got) > 0 && tt.changed == "" {
				t.Errorf("rungs\n%s\nwant\n%s", strings.Join(got, "\n"), tt.changed)
			}
			if keeps := strings.Contains(tt.changed, "×"); keeps != (len(set.Invariants) > 0 &&
				l.Rungs[l.Asked+1].Cost < set.Invariants[0].Until) {
				t.Errorf("invariants %+v", set.Invariants)
			}
		})
	}
	for places, want := range map[string]string{
		"":                 "speed -b 12 -a 1, speed -b 6 -a 2; asked 2",
		"batch-norm: true": "numerics -b 12 -a 1, numerics -b 6 -a 2; asked 2",
		"phases: {validation: {times: 2, started: x, ended: y}}": "speed -b 12 -a 1, speed -b 6 -a 2; asked 2",
	} { // larger ones, for --fill
		text := "script: train.py\nmicro-batch: -b\naccumulation: -a\n" + places + "\n"
		j, set := planned(t, try{command: "python train.py -b 4 -a 3"}.in(t, text))
		l := set.Phases[0]
		if strings.Contains(places, "phases") {
			l = set.Shared
		}
		var got []string
		for _, r := range l.Rungs[:l.Asked] {
			got = append(got, r.Cost.String()+" "+strings.TrimPrefix(made(t, j, r.Edits), "train.py "))
			if r.Slowdown >= 1 {
				t.Errorf("%s is expected to be slower: %v", r.Name, r.Slowdown)
			}
		}
		if text := fmt.Sprintf("%s; asked %d", strings.Join(got, ", "), l.Asked); text != want || set.Check() != nil {
			t.Errorf("%s: %s, want %s; %v", places, text, want, set.Check())
		}
	}
	_, err := New().Recognize(t.Context(), try{command: "python train.py -b 8"}.in(t,
		"script: train.py\nmicro-batch: -b\nranks: cards\n"))
	if need := (*plugin.Need)(nil); !errors.As(err, &need) || !need.Devices {
		t.Errorf("it does not ask for the number of cards: %v", err)
	}
	j, _ := planned(t, try{command: "python train.py -b 8 -a 4"}.in(t,
		"script: train.py\nmicro-batch: -b\naccumulation: -a\nglobal-batch: 64\n"))
	if len(j.Warnings) != 1 || !strings.Contains(j.Warnings[0], "32 = 8 × 4 × 1") {
		t.Errorf("a global batch other than the declared one: %q", j.Warnings)
	}
}
