package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

func TestLearnOnLadders(t *testing.T) {
	b := someSubject()
	a := attemptOn(1, run.Outcome{Ending: run.Succeeded, Passed: []string{"training", "validation"},
		Measured: map[string][]mem.Measurement{ladder.Training: looked(250), ladder.Validation: looked(195)}})
	rs := b.Receipts("a-run", &run.Run{Ladders: aSet()}, a)
	set, learned := b.Learn(aSet(), rs)
	if !learned || set.Check() != nil {
		t.Fatalf("learned %v, %v", learned, set.Check())
	}
	at := func(s *ladder.Set, phase string, rung int) unit.Bytes {
		return s.Ladder(phase).Rungs[rung].At(0).Total()
	}
	if at(set, ladder.Training, 1) != 250*mib || at(set, ladder.Validation, 0) != 195*mib {
		t.Errorf("training %v, validation %v", at(set, ladder.Training, 1), at(set, ladder.Validation, 0))
	}
	for rung, priced := range map[int]unit.Bytes{0: 360 * mib, 2: 240 * mib} {
		if got := at(set, ladder.Training, rung); got >= priced || got < priced-40*mib {
			t.Errorf("rung %d: %v, priced %v", rung, got, priced)
		}
	}
	if raw := aSet(); at(raw, ladder.Training, 1) != 280*mib {
		t.Error("what was priced was changed")
	}
	if again, learned := b.Learn(aSet(), nil); learned || again.Check() != nil {
		t.Error("learned from nothing")
	}
	other := b
	other.machine.Torch = "1.13"
	if _, learned := other.Learn(aSet(), rs); learned {
		t.Error("learned from another torch")
	}
}

// Without a formula every rung has its own measurement, also where that contradicts the ladder's order: a micro-batch
// of a
// half may need less than a rung below it.
func TestLearnWithoutFormula(t *testing.T) {
	b := someSubject()
	unknown := []mem.Estimate{{Unknown: "no formula"}}
	set := aSet()
	set.Phases = set.Phases[:1]
	l := &set.Phases[0]
	l.Rungs = []ladder.Rung{{Name: "as asked", Slowdown: 1, Estimates: unknown},
		{Name: "checkpointing", Cost: ladder.Speed, Slowdown: 1.3, Estimates: unknown, Edits: []config.Edit{{Knob: "checkpointing", To: "on"}}}}
	var rs []Receipt
	for rung, took := range []unit.Bytes{300, 400} {
		rs = append(rs, b.Receipts(fmt.Sprint("run-", rung), &run.Run{Ladders: set}, &run.Attempt{
			Plan:    run.Plan{Attempt: 1, Choices: []run.Choice{{Phase: ladder.Training, Rung: rung, Estimate: unknown[0]}}},
			Outcome: run.Outcome{Ending: run.Succeeded, Passed: []string{"training"}, Measured: map[string][]mem.Measurement{ladder.Training: looked(took)}, Began: time.Now()},
		})...)
	}
	if len(rs) != 2 {
		t.Fatal(rs)
	}
	for _, took := range []unit.Bytes{200, 400} {
		rs[1].Measured = looked(took)
		got, learned := b.Learn(set, rs)
		if l := got.Phases[0]; !learned || l.Rungs[0].At(0).Total() != 300*mib || l.Rungs[1].At(0).Total() != took*mib {
			t.Errorf("did not learn that checkpointing takes %d: %+v", took, got.Phases[0].Rungs)
		}
	}
}
