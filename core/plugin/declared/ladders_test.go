package declared

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/ladder"
)

// ladders spells all ladders of a set: "training: as asked; micro-batch 4 × accumulation 2 (speed): -b 4 -a 2".
func laddersOf(t *testing.T, declaration, args string) (spelled string, warnings []string) {
	t.Helper()
	j, set := planned(t, try{map[string]string{"size.yaml": "size: 3\n"}, "python train.py " + args, 0}.in(t,
		"script: train.py\n"+declaration))
	var lines []string
	for _, l := range append([]ladder.Ladder{set.Shared}, set.Phases...) {
		if l.Phase == ladder.Shared && len(l.Rungs) == 1 {
			continue
		}
		var rungs []string
		for _, r := range l.Rungs[1:] {
			state := ""
			if r.NewState {
				state = ", new state"
			}
			rungs = append(rungs, sprint(r.Name, " (", r.Cost, state, "): ", made(t, j, r.Edits)))
		}
		lines = append(lines, strings.TrimSpace(l.Phase+": "+strings.Join(rungs, "; ")))
	}
	return strings.Join(lines, "\n"), j.Warnings
}

// Phases and rungs become ladders: each setting on the ladder of the phase that it is for.
func TestLadders(t *testing.T) {
	const b = "micro-batch: -b\naccumulation: -a\n"
	for name, tt := range map[string]struct{ declaration, args, want, warns string }{
		"a validation with its own batch": {b + "phases: {validation: {micro-batch: --eval}}\n", "-b 2 -a 1 --eval 4",
			"training: micro-batch 1 × accumulation 2 (speed): -b 1 -a 2 --eval 4\n" +
				"validation: validation batch 2 (speed): -b 2 -a 1 --eval 2; validation batch 1 (speed): -b 2 -a 1 --eval 1", ""},
		"by default twice the training's": {b + "phases: {validation: {micro-batch: --eval, times: 2}}\n", "-b 2 -a 1",
			"training: micro-batch 1 × accumulation 2 (speed): -b 1 -a 2\n" +
				"validation: validation batch 2 (speed): -b 2 -a 1 --eval 2; validation batch 1 (speed): -b 2 -a 1 --eval 1", ""},
		"coupled": {b + "phases: {validation: {times: 2}}\n", "-b 4 -a 1",
			"shared: micro-batch 2 × accumulation 2 (speed): -b 2 -a 2; micro-batch 1 × accumulation 4 (speed): -b 1 -a " +
				"4\ntraining:\nvalidation:", ""},
		"batch normalisation": {b + "batch-norm: true\n", "-b 2 -a 1",
			"training: micro-batch 1 × accumulation 2 (numerics): -b 1 -a 2", ""},
		"its author says that it is another training": {b + "split: {cost: recipe, why: the batch is compared}\n",
			"-b 2 -a 1",
			"training: micro-batch 1 × accumulation 2 (recipe): -b 1 -a 2", ""},
		"of some commands": {b + "split: [{cost: recipe, why: x, arguments: [kto]}, {cost: numerics, why: y, arguments: " +
			"[sft]}]\n",
			"sft -b 2 -a 1", "training: micro-batch 1 × accumulation 2 (numerics): sft -b 1 -a 2", ""},
		"what grows with the accumulation": {b + "scaled: [--steps]\n", "-b 4 -a 1 --steps 3",
			"training: micro-batch 2 × accumulation 2 (speed): -b 2 -a 2 --steps 6; micro-batch 1 × accumulation 4 (speed): " +
				"-b 1 -a 4 --steps 12", ""},
		"what follows the accumulation by itself": {b + "scaled: [--steps]\n", "-b 2 -a 1",
			"training: micro-batch 1 × accumulation 2 (speed): -b 1 -a 2", ""},
		"what would be no whole number": {b + "scaled: [--steps]\n", "-b 2 -a 2 --steps 3",
			"training: micro-batch 1 × accumulation 4 (speed): -b 1 -a 4 --steps 6", ""},
		"a validation of whole groups": {b + "phases: {validation: {micro-batch: --eval, multiple-of: {at: --group, " +
			"default: 4}}}\n",
			"-b 1 -a 1 --eval 16", "training:\nvalidation: validation batch 8 (speed): -b 1 -a 1 --eval 8; validation batch 4 " +
				"(speed): -b 1 -a 1 --eval 4", ""},
		"a batch of frames": {"micro-batch: --frames\naccumulation: -a\n", "--frames 2 -a 1",
			"training: micro-batch 1 × accumulation 2 (recipe): --frames 1 -a 2", ""},
		"a batch of frames, by the setting beside it": {b, "-b 2 -a 1 --batch_size_type frame",
			"training: micro-batch 1 × accumulation 2 (recipe): -b 1 -a 2 --batch_size_type frame", ""},
		"a rung of a phase": {b + "phases: {validation: {times: 1}, test: {}}\nrungs: [{name: tiles, at: --tile, to: " +
			"64, cost: metrics, phase: test}]\n", "-b 1 -a 1",
			"training:\nvalidation:\ntest: tiles (metrics): -b 1 -a 1 --tile 64", ""},
		"a shared rung": {b + "rungs: [{name: bf16, at: --amp, to: bf16, cost: numerics, phase: shared}]\n", "-b 1 -a 1",
			"shared: bf16 (numerics): -b 1 -a 1 --amp bf16\ntraining:", ""},
		"several settings": {b + "rungs: [{name: 8-bit optimizer, set: {--optim: adamw_8bit, --bits: 8}, cost: " +
			"numerics, new-state: true}]\n", "-b 1 -a 1 --optim adamw",
			"training: 8-bit optimizer (numerics, new state): -b 1 -a 1 --optim adamw_8bit --bits 8", ""},
		"it is so already": {b + "rungs: [{name: remat, at: --remat, to: true, cost: speed}, {name: two, set: {--x: 1, " +
			"--y: 2}, cost: model}]\n", "-b 1 -a 1 --remat True --x 1 --y 2",
			"training:", ""},
		"unless and when": {b + "rungs: [{name: adafactor, at: --optim, to: adafactor, cost: recipe, unless: {--optim: " +
			"[sgd, lion]}}, " +
			"{name: fused, at: --fused, to: 0, cost: speed, when: {--optim: [sgd, x]}}]\n", "-b 1 -a 1 --optim sgd",
			"training: fused (speed): -b 1 -a 1 --optim sgd --fused 0", ""},
		"a flag": {b + "rungs: [{name: remat, at: {at: --remat, takes: nothing}, to: true, cost: speed}, {name: no " +
			"cache, at: {at: --cache, takes: nothing}, to: false, cost: speed}]\n", "-b 1 -a 1 --cache",
			"training: remat (speed): -b 1 -a 1 --cache --remat; no cache (speed): -b 1 -a 1", ""},
		"by slowdown": {b + "rungs: [{name: slow, at: --s, to: 1, cost: speed, slowdown: 3}, {name: fast, at: --f, to: " +
			"1, cost: speed, slowdown: 1.1}]\n", "-b 2 -a 1",
			"training: fast (speed): -b 2 -a 1 --f 1; micro-batch 1 × accumulation 2 (speed): -b 1 -a 2; slow (speed): -b " +
				"2 -a 1 --s 1", ""},
		"as its author spells it": {b + "rungs: [{name: a, at: --a, to: True, cost: speed}, {name: b, at: --c, to: " +
			"1e-4, cost: speed}]\n", "-b 1 -a 1",
			"training: a (speed): -b 1 -a 1 --a True; b (speed): -b 1 -a 1 --c 1e-4", ""},
		"what cannot be changed": {b + "rungs: [{name: small, at: {size.yaml: size}, to: 1, cost: recipe}, {name: " +
			"absent, at: {--config: size}, to: 1, cost: recipe}]\n", "-b 1 -a 1",
			"training:", "rung \"small\" is left out"},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := laddersOf(t, tt.declaration, tt.args)
			if got != tt.want {
				t.Errorf("ladders\n%s\nwant\n%s", got, tt.want)
			}
			if w := strings.Join(warnings, "\n"); !strings.Contains(w, tt.warns) || (w == "") != (tt.warns == "") {
				t.Errorf("warnings %q, want %q", w, tt.warns)
			}
		})
	}
}

// A rung by an option that the program's own parser does not have is none: the program would end with an error.
func TestRungsOfOptions(t *testing.T) {
	const parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', type=int)\n"
	const offered = "training: saves memory (speed): --size 4 --remat"
	for name, tt := range map[string]struct{ script, want string }{
		"not its own":     {parser + "p.parse_args()\n", "training:"},
		"its own":         {parser + "p.add_argument('--remat', action='store_true')\np.parse_args()\n", offered},
		"a library's":     {parser + "lib.add_args(p)\np.parse_args()\n", offered},
		"of the rest":     {parser + "a, rest = p.parse_known_args()\n", offered},
		"nothing is read": {"train(sys.argv)\n", offered},
	} {
		j, set := planned(t, try{map[string]string{"train.py": tt.script}, "python train.py --size 4", 0}.in(t,
			"script: train.py\nmicro-batch: --size\n"+
				"rungs: [{name: saves memory, at: {at: --remat, takes: nothing}, to: true, cost: speed}]\n"))
		got := ""
		for _, l := range set.Phases {
			got = l.Phase + ":"
			for _, r := range l.Rungs {
				if r.Name == "saves memory" {
					got += sprint(" ", r.Name, " (", r.Cost, "): ", made(t, j, r.Edits))
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
