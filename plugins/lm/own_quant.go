package lm

import (
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// The calls of a script of one's own with quantised weights.
const (
	quantConfig = "BitsAndBytesConfig"
	kbit        = "prepare_model_for_kbit_training"
)

// quantisation reads what from_pretrained is given for quantised weights: transformers' BitsAndBytesConfig, by its own
// defaults (utils/quantization_config.py), or a truth value.
func (r *ownReader) quantisation(name string, value python.Range) error {
	text, ok := r.value(value)
	switch {
	case r.kind.framework != plainTrainer:
		return errOwn("%s of a trainer of trl is not understood", name)
	case name != "quantization_config" && ok && (text == "true" || text == "false"):
		r.values[name] = text
		return nil
	case name != "quantization_config":
		return errOwn("%s of %s is not understood", r.Of(value), name)
	case r.Of(value) == "None":
		return nil
	}
	made, err := r.only(quantConfig, "transformers")
	if err != nil {
		return err
	}
	if err := r.passed(value, made); err != nil {
		return err
	}
	for _, a := range r.Args(made.Open) {
		text, ok := r.value(a.Range)
		switch a.Name {
		case "load_in_4bit", "load_in_8bit", "bnb_4bit_use_double_quant":
			ok = ok && (text == "true" || text == "false")
		case "bnb_4bit_compute_dtype":
			if text, ok = r.dtype(a.Range); text == "auto" {
				ok = false
			}
		case "bnb_4bit_quant_type": // of one size
			ok = ok && (text == "nf4" || text == "fp4")
		default:
			ok = false
		}
		if !ok {
			return errOwn("%s of %s is not understood", r.Of(a.Range), quantConfig)
		}
		r.values[a.Name] = text
	}
	return nil
}

// dtype is a type of torch, by its name or as torch.NAME.
func (r *ownReader) dtype(at python.Range) (string, bool) {
	text, ok := r.text(at)
	dotted, _ := r.Dotted(at)
	if name, torch := strings.CutPrefix(dotted, "torch."); torch {
		return name, weightTypes[name] != 0 || name == "float32"
	}
	return text, ok
}

// prepared reads peft's prepare_model_for_kbit_training, which turns activation checkpointing on unless it is told
// otherwise (peft/utils/other.py:150).
func (r *ownReader) prepared() (made python.Call, model python.Range, err error) {
	if made, err = r.only(kbit, "peft"); err != nil {
		return made, model, err
	}
	r.values["kbit"], r.values["kbit_checkpointing"] = "true", "true"
	for i, a := range r.Args(made.Open) {
		text, ok := r.value(a.Range)
		switch {
		case a.Stars == 0 && (a.Name == "model" || a.Name == "" && i == 0):
			model = a.Range
		case a.Name == "use_gradient_checkpointing" && ok && (text == "true" || text == "false"):
			r.values["kbit_checkpointing"] = text
		default:
			return made, model, errOwn("%s of %s is not understood", r.Of(a.Range), kbit)
		}
	}
	return made, model, nil
}

// quantisedOwn is a model as BitsAndBytesConfig loads it, and as peft prepares it: all that is not quantised is
// float32, and the embedding's result asks for a gradient.
func quantisedOwn(s *settings, t *training) {
	_, typed := s.get("dtype")
	four := s.on("load_in_4bit")
	if !four && !s.on("load_in_8bit") {
		return
	}
	if older(s) && !typed { // quantizers/quantizer_bnb_4bit.py:175 of 4.44.2
		t.step.Weights = nn.F16
	}
	q := arch.Quant{Bits: 8}
	if four {
		q = arch.Quant{Bits: 4, Nested: s.on("bnb_4bit_use_double_quant"),
			Compute: weightTypes[s.text("bnb_4bit_compute_dtype", "float32")]}
	}
	quantised(t, q)
	if !s.on("kbit") {
		return
	}
	t.step.Weights, t.step.InputGrad = nn.F32, true
	if s.on("kbit_checkpointing") {
		t.step.Checkpointing = true
		delete(s.script.literal, checkpointField(s)) // which would change nothing
	}
}
