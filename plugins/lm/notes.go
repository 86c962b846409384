package lm

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// warnGathered reports what of an evaluation is not counted.
func warnGathered(s *settings, t *training) {
	if !t.predicted {
		return
	}
	step := t.step
	step.Batch = t.evals
	if _, ok := gathered(s, step); !ok {
		warn(t, "an evaluation gathers %d bytes for each token of its set, on the card: that is not counted, since the size "+
			"of the set is not known; --eval_accumulation_steps or --max_eval_samples bounds it", tokenBytes)
	}
}

// warnExperts notes what quantisation leaves as it was loaded, and what mixed precision leaves alone: grouped_mm is on
// none of autocast's lists (torch 2.15), and the experts' input is cast to the type of their weights
// (integrations/moe.py:379).
func warnExperts(t *training) {
	if q := t.step.Quant; t.model.Experts != nil && q != nil {
		kept := unit.Bytes(t.model.ExpertParams()) * t.step.Weights.Size()
		warn(t, "its experts stay in %v, and take %v: bitsandbytes quantises linear layers, and since transformers 5 "+
			"the experts of a layer are one tensor (replace_with_bnb_linear in integrations/bitsandbytes.py:160)",
			t.step.Weights, kept)
	}
	if t.model.Experts != nil && t.step.Weights == nn.F32 && t.step.Autocast != nn.F32 {
		warn(t, "experts compute in float32, the type of their weights: mixed precision leaves grouped_mm alone")
	}
}

// warnAssumed reports what the estimate takes for granted.
func warnAssumed(s *settings, t *training) {
	if v := s.pinned("transformers"); v != "" && !s.env.Known() {
		warn(t, "the command's Python is not on this machine: the estimate is of transformers %s, which requirements.txt "+
			"asks for", v)
	}
	if len(t.assumed) == 0 {
		return
	}
	var names []string
	for _, name := range t.assumed {
		v := s.kind.newest(name)
		names = append(names, fmt.Sprintf("%s %d.%d", name, v[0], v[1]))
	}
	taken := strings.Join(names, ", ")
	switch {
	case s.env.Missing():
		warn(t, "the command's Python is not on this machine: the estimate assumes %s", taken)
		return
	case !s.env.Known():
		warn(t, "the packages of the command's Python are not known: the estimate assumes %s, and refuses nothing", taken)
		return
	}
	warn(t, "packages were not found in the command's Python: the estimate assumes %s, and refuses nothing", taken)
}

// warnUnseen makes a warning of what no card has measured.
func warnUnseen(t *training) {
	if t.packs && usesVarlen(t, t.step) {
		unmeasured(t, "torch's varlen_attn")
	}
	if len(t.unseen) > 0 {
		warn(t, "the estimate is by the libraries' source, and no card has measured this yet: %s",
			strings.Join(t.unseen, ", "))
	}
}
