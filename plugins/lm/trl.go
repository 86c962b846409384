package lm

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/plugins/lm/arch"
)

// unmadeTRL are those that its trainers share.
var unmadeTRL = []unmade{
	{"activation_offloading", "false"},
	{"model_init_kwargs", ""}, {"use_dora", "false"},
	{"lora_target_parameters", ""}, {"pad_to_multiple_of", "auto"}, {"chat_template_path", ""}, {"torch_dtype",
		""},
	{"quantization_config", ""},
}

// readSFT reads a training of trl's sft.py and SFTTrainer (trl 1.16.0), or of a script of one's own with that.
func readSFT(s *settings) (training, error) {
	return readerTRL(rowsSFT, lossSFT, modelTRL(nil), packsSFT).read(s)
}

// readDPO reads a training of trl's dpo.py and DPOTrainer (trl 1.16.0), or of a script of one's own with that.
func readDPO(s *settings) (training, error) {
	return readerTRL(nil, cutsDPO, modelTRL(unmadeDPO), preferenceDPO).read(s)
}

func readerTRL(rows rowsOf, own ...fills) reader {
	parts := append([]fills{released, modernTRL, replicated, foreignTrainer}, own...)
	return reader{divideTrainer, checkpointsTrainer, parts, rows}
}

// modernTRL says why the installed version of transformers is none of trl's steps.
func modernTRL(s *settings, _ *training) string {
	if older(s) {
		return "the steps of trl are known with transformers 5, and the command's Python has " +
			s.version("transformers")
	}
	return ""
}

// lossSFT reads the kind of loss.
func lossSFT(s *settings, t *training) string {
	switch loss := s.text("loss_type", "nll"); loss { // sft_trainer.py:1042; chunked_nll is made nll (sft_config.py:314)
	case "nll", "chunked_nll", "None":
	case "dft":
		t.step.Weighted = true
	default:
		return "trl refuses the loss_type " + loss
	}
	return ""
}

// modelTRL reads the model, the adapters and the length, as trl's scripts and trainers have them.
func modelTRL(more []unmade) fills {
	return func(s *settings, t *training) string { return readTRL(s, t, append(more, unmadeTRL...)) }
}

func readTRL(s *settings, t *training, fields []unmade) string {
	if v := assume(s, t, "trl"); len(v) < 2 || v[0] != 1 || v[1] < 16 {
		return "the formula is of trl from 1.16 on, and the command's Python has " + orNone(s.version("trl"))
	}
	if s.prog.Path() == "" && t.ranks > 1 {
		return "how trl starts a process for each card has no formula"
	}
	if passed := passedOn(s); passed != "" {
		return passed + ", which trl passes on to accelerate launch, has no formula"
	}
	for _, f := range fields {
		if v, ok := s.get(f.field); ok && v != f.harmless && v != "None" && !(f.harmless == "false" && !s.on(f.field)) {
			return s.address(f.field).Path + " has no formula"
		}
	}
	p, why := loadNamed(s, t)
	if why != "" {
		return why
	}
	switch name := s.text("dtype", "float32"); name { // trl/trainer/model_config.py:89
	case "auto", "None":
		var ok bool
		if t.step.Weights, ok = weights(s, t, p); !ok {
			return "the type in which the model is loaded is not known: --dtype sets it"
		}
	default:
		t.step.Weights = weightTypes[name]
	}
	if why := readQuantSFT(s, t); why != "" {
		return why
	}
	if why := attends(t, s.text("attn_implementation", "")); why != "" {
		return why
	}
	if untruncated(s, "max_length") {
		return "sequences are not cut (max_length is null), and how long they get is not known"
	}
	var err error
	if t.step.Length, err = s.count("max_length", 1024); err != nil { // sft_config.py:202, dpo_config.py:202
		return err.Error()
	}
	t.step.Fused, t.pads = true, true
	return readLoRA(s, t)
}

// passedOn is the first setting that the command trl does not know itself, and so passes on
// (trl/cli/commands/training.py, trl/cli/accelerate_config.py): of its arguments, or of its file. "" for none.
func passedOn(s *settings) string {
	if s.prog.Path() != "" {
		return ""
	}
	for _, arg := range s.argv.Unknown() {
		if strings.HasPrefix(arg, "--") {
			return arg
		}
	}
	for _, key := range strings.Fields("accelerate_config config_file num_processes num_machines mixed_precision " +
		"use_fsdp use_deepspeed multi_gpu dynamo_backend") {
		if s.tree != nil && s.tree.Root().Get(key).Exists() {
			return key
		}
	}
	return ""
}

// unmadeDPO are fields of DPOConfig that change what a step keeps. The kinds of loss do not: their tensors have one
// number for each pair.
var unmadeDPO = []unmade{{"use_weighting", "false"}, {"sync_ref_model", "false"}, {"ld_alpha", ""}}

// cutsDPO says why the longest pair is not known.
func cutsDPO(s *settings, _ *training) string {
	if v, ok := s.get("max_length"); ok && (v == "None" || v == "") {
		return "without max_length no pair is cut, and the longest is not known"
	}
	return ""
}

// preferenceDPO reads what the reference is.
func preferenceDPO(s *settings, t *training) string {
	batch, err := s.count("precompute_ref_batch_size", t.split.Micro)
	if err != nil {
		return err.Error()
	}
	p := &arch.Preference{Precomputed: s.on("precompute_ref_log_probs")}
	if p.Precomputed && batch > t.split.Micro {
		return s.address("precompute_ref_batch_size").Path + " of more than a micro-batch has no formula"
	}
	if s.on("disable_dropout") {
		withoutDropout(t)
	}
	if s.on("padding_free") {
		warn(t, "%s saves nothing, though trl's guide to memory recommends it for DPO: DPOTrainer pads the batch all "+
			"the same "+
			"(trl/trainer/dpo_trainer.py:732 of 1.16)", s.address("padding_free").Path)
	}
	t.step.Preference = p
	return ""
}

// packsSFT reads how SFTTrainer lays sequences into a batch (trl/trainer/sft_trainer.py:916, trl 1.16.0): packed by
// "bfd" all of a micro-batch lie in one row; by "wrapped" each row has max_length tokens, and none is padded.
func packsSFT(s *settings, t *training) string {
	packing, strategy := s.on("packing"), s.text("packing_strategy", "bfd")
	switch free := s.on("padding_free"); {
	case free && !packing:
		return s.address("padding_free").Path + " without packing leaves sequences as long as they are, which is not known"
	case !packing:
		return ""
	case !free && strategy == "wrapped":
		t.pads = false
		return ""
	case !slices.Contains(strings.Fields("bfd bfd_split bfd-requeue wrapped"), strategy):
		return "packing_strategy " + strategy + " has no formula"
	}
	t.step.Packed, t.pads = true, false
	if !t.step.Flash {
		warn(t, "without FlashAttention packed sequences need a mask of all pairs of tokens of the micro-batch, "+
			"in one row: its size grows with the square of micro-batch × length, and each layer keeps it")
	}
	return ""
}

// readQuantSFT is get_quantization_config (trl/trainer/utils.py:261, trl 1.16.0). bitsandbytes computes in the type of
// --dtype, and nf4 and fp4 are of one size.
func readQuantSFT(s *settings, t *training) string {
	switch {
	case s.on("load_in_4bit"):
		name := s.text("dtype", "float32")
		if _, ok := weightTypes[name]; !ok {
			return s.address("load_in_4bit").Path + " with --dtype " + name + " fails: bitsandbytes has no such type to " +
				"compute in"
		}
		quantised(t, arch.Quant{Bits: 4, Nested: s.on("use_bnb_nested_quant"), Compute: t.step.Weights})
	case s.on("load_in_8bit"):
		quantised(t, arch.Quant{Bits: 8})
	}
	return ""
}
