package lm

// readTrainer reads a training of a script of one's own with a plain Trainer.
func readTrainer(s *settings) (training, error) {
	own := []fills{released, replicated, foreignTrainer, modelTrainer}
	return reader{divideTrainer, checkpointsTrainer, own, nil}.read(s)
}

// modelTrainer reads the model, the adapters and the rows.
func modelTrainer(s *settings, t *training) string {
	p, why := loadNamed(s, t)
	if why != "" {
		return why
	}
	var ok bool
	if t.step.Weights, ok = weights(s, t, p); !ok {
		return "the type in which the model is loaded is not known: dtype sets it"
	}
	if why := attends(t, s.text("attn_implementation", "")); why != "" {
		return why
	}
	quantisedOwn(s, t)
	if older(s) && s.on("use_peft") && !t.step.InputGrad {
		// nothing that a checkpoint gets asks for a gradient: 4.57 sets that for adapters of its own alone
		// (modeling_utils.py:3709 of 4.57.6), and peft where checkpointing was on before it (peft_model.py:184)
		delete(s.script.literal, checkpointField(s))
		switch {
		case t.step.Checkpointing && t.step.Reentrant:
			return "adapters by get_peft_model with reentrant activation checkpointing have no gradient in " +
				"transformers " + s.version("transformers")
		case t.step.Checkpointing:
			return "adapters by get_peft_model with activation checkpointing have a formula from transformers 5 on"
		}
	}
	rows := s.script.rows
	if rows.unknown != "" {
		return rows.unknown
	}
	t.step.Length, t.pads, t.multiple = rows.length, !rows.joined, rows.alone
	if rows.short {
		warn(t, "where the texts of a map's batch have less than %d tokens together, they are a shorter block, and a "+
			"batch with it is padded: that is not counted", rows.length)
	}
	return readLoRA(s, t)
}
