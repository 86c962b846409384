package declared

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
)

// A formula prices each rung with that rung's own settings.
func TestMemory(t *testing.T) {
	for name, tt := range map[string]struct{ declaration, args, want string }{
		"micro-batch and sequence": {"memory: [{what: a, bytes: micro_batch * sequence * 3}, {what: b, bytes: " +
			"100}]\nvalues: {sequence: --seq}\n", "-b 4 -a 1 --seq 10",
			"training: 220 160 130"},
		"a number": {"memory: [{what: a, bytes: 'ceil(micro_batch * width / 3) * ranks'}]\nvalues: {width: 10}\n",
			"-b 2 -a 1", "training: 7 4"},
		"large": {"memory: [{what: a, bytes: '4096 * 4096 * 4096 * 64 * 4096 * 4096 / 2 ** 34'}]\n",
			"-b 1 -a 1", "training: 4294967296"},
		"a choice": {"memory: [{what: a, bytes: 'micro_batch * (amp == \"bf16\" ? 2 : 4)'}]\nvalues: {amp: " +
			"--amp}\n", "-b 1 -a 1 --amp bf16", "training: 2"},
		"what is not known": {"memory: [{what: a, bytes: micro_batch * sequence}]\nvalues: {sequence: --seq}\n",
			"-b 1 -a 1", "training: sequence is not known"},
		"an unknown batch": {"memory: [{what: a, bytes: micro_batch}]\n", "-a 1", "training: micro_batch is not known"},
		"of another phase": {"memory: [{what: a, phase: validation, bytes: micro_batch * 3}]\nphases: {validation: " +
			"{micro-batch: --eval}}\n", "-b 1 -a 1 --eval 4", "training: " + noFormula + "\nvalidation: 12 6 3"},
		"a coupled phase": {"memory: [{what: a, bytes: micro_batch}, {what: v, phase: validation, bytes: " +
			"micro_batch}]\nphases: {validation: {times: 2}}\n", "-b 2 -a 1", "training: 2/1\nvalidation: 4/2"},
		"a rung that it knows": {"memory: [{what: a, bytes: 'micro_batch * (remat ? 1 : 5)'}]\nvalues: {remat: {at: " +
			"--remat, takes: nothing}}\n" +
			"rungs: [{name: remat, at: {at: --remat, takes: nothing}, to: true, cost: speed, slowdown: 1.01}]\n", "-b 2 " +
			"-a 1", "training: 10 2"},
		"a rung that it does not know": {"memory: [{what: a, bytes: micro_batch}]\nrungs: [{name: remat, at: --remat, " +
			"to: 1, cost: speed, slowdown: 1.01}]\n", "-b 2 -a 1",
			"training: 2 the formula does not depend on remat 1"},
		"a shared rung": {"memory: [{what: a, bytes: 'micro_batch * (amp == \"bf16\" ? 2 : 4)'}]\nvalues: {amp: {at: " +
			"--amp, default: fp32}}\n" +
			"rungs: [{name: bf16, at: --amp, to: bf16, cost: numerics, phase: shared}]\n", "-b 2 -a 1", "training: 8/4 4/2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, set := planned(t, try{command: "python train.py " + tt.args}.in(t,
				"script: train.py\nmicro-batch: -b\naccumulation: -a\n"+tt.declaration))
			var lines []string
			for _, l := range set.Phases {
				var rungs []string
				for _, r := range l.Rungs {
					var at []string
					for _, e := range r.Estimates {
						if e.Unknown != "" {
							at = append(at, e.Unknown)
							continue
						}
						at = append(at, fmt.Sprint(int64(e.Total())))
						for _, it := range e.Items {
							if !it.Guess || !strings.HasPrefix(it.From, "declared: ") {
								t.Errorf("a line that is not marked as its author's: %+v", it)
							}
						}
					}
					rungs = append(rungs, strings.Join(at, "/"))
				}
				lines = append(lines, l.Phase+": "+strings.Join(rungs, " "))
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A formula that cannot be right is an error with its line, at the latest when it is evaluated.
func TestMemoryMistakes(t *testing.T) {
	for bytes, want := range map[string]string{
		"'micro_batch * sequnce'": "line 5: memory[0].bytes: there is no value sequnce; did you mean " +
			"sequence?",
		"'micro_batch * xyz'": "line 5: memory[0].bytes: unknown name xyz (1:15); there are " +
			"accumulation, micro_batch, ranks, sequence",
		"'micro_batch *'":                        "line 5: memory[0].bytes: unexpected token",
		"'len([1,2])'":                           "line 5: memory[0].bytes: unknown name len",
		"'reduce(1..1000000000, #acc + #)'":      "line 5: memory[0].bytes: ",
		"'sum(map(1..100000000, # * 2))'":        "line 5: memory[0].bytes: ",
		"'1..1000000000'":                        "line 5: memory[0].bytes: ",
		"'" + strings.Repeat("1 + ", 600) + "1'": "line 5: memory[0].bytes: ",
		"'-micro_batch'":                         "line 5: memory: -micro_batch gives -2 bytes",
		"'micro_batch / 0'":                      "line 5: memory: micro_batch / 0 gives +Inf bytes",
		"'(micro_batch - 2) / (sequence - 10)'":  "line 5: memory: (micro_batch - 2) / (sequence - 10) gives NaN bytes",
		"'micro_batch * 2 ** 60'":                "line 5: memory: micro_batch * 2 ** 60 gives 2.3",
		"'micro_batch > 3'":                      "line 5: memory: micro_batch > 3 gives false, not a number",
		"'micro_batch + \"a\"'":                  "line 5: memory[0].bytes: ",
	} {
		c := try{command: "python train.py -b 4 --seq 10"}.in(t, "script: train.py\nmicro-batch: -b\nvalues: "+
			"{sequence: --seq}\nmemory:\n  - {what: a, bytes: "+bytes+"}\n")
		r, err := recognized(t, c)
		if err == nil {
			_, err = r.Ladders(t.Context(), gpu.Device{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", bytes, err, want)
		}
	}
}
