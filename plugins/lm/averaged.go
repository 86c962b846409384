package lm

import (
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// averaged is what another micro-batch costs with the same global batch, and why, where that is more than time.
//
// The Trainer divides the sum of the tokens' losses by the number of tokens of all micro-batches of a step, where the
// model's forward takes that number: then the division changes nothing (get_batch_samples and compute_loss in
// transformers/trainer.py:2281 and 2159 of 5.23.0, 5644 and 4105 of 4.57.6). All models that have a formula take it,
// with adapters, too. Otherwise a step has the mean of the micro-batches' means, and a token weighs more in a
// micro-batch with fewer of them.
func averaged(s *settings, t *training) (cost ladder.Cost, why string) {
	v := s.release("transformers")
	losses := append(s.list("loss_type"), s.text("loss_type", ""))
	bco, _ := strconv.ParseFloat(s.text("pref_bco_weight", "0"), 64)
	pairs := s.is(trlDPO)
	switch {
	case pairs && (slices.Contains(losses, "aot") || slices.Contains(losses, "aot_unpaired")):
		return ladder.Recipe, "its loss sorts the pairs of a micro-batch (trl/trainer/dpo_trainer.py:1447)"
	case pairs && slices.Contains(losses, "sft"):
		return ladder.Numerics, "its sft loss is the mean of a micro-batch's tokens (trl/trainer/dpo_trainer.py:1498)"
	case pairs: // the mean over pairs, of which each micro-batch has as many
		return ladder.Speed, ""
	case stage(s) == "dpo" && bco > 0:
		return ladder.Numerics, "its BCO loss has the mean of each micro-batch's rewards (train/dpo/trainer.py:179)"
	case stage(s) == "dpo" || uniform(s, t):
		return ladder.Speed, ""
	case s.is(axolotl): // which sets model_accepts_loss_kwargs to False: no forward has the number by its own name
		return ladder.Numerics, "axolotl takes the mean of the micro-batches' means, so that tokens weigh otherwise " +
			"(core/trainers/base.py:131 of 0.19.0)"
	case len(v) > 1 && (v[0] < 4 || v[0] == 4 && (v[1] < 46 || t.model.OwnLoss(arch.Release(v[1])))):
		return ladder.Numerics, "transformers before 4.46, and mistral before 4.48, takes the mean of the micro-batches' " +
			"means, so that tokens weigh otherwise (training_step in trainer.py:3485 of 4.45.2)"
	case t.ranks > 1 && off(s, "average_tokens_across_devices"):
		return ladder.Numerics, "without average_tokens_across_devices each card divides by its own tokens, of which " +
			"it has others then (_get_num_items_in_batch in trainer.py:2340)"
	}
	return ladder.Speed, ""
}

// uniform reports whether every sequence has as many tokens that are trained on: blocks of one length.
func uniform(s *settings, t *training) bool {
	joined := s.script != nil && s.script.rows.joined && !s.script.rows.short
	return joined || s.is(runCLM) || stage(s) == "pt" && t.unknown == "" && !t.pads
}
