package lm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// targets are the layers that peft adapts where nothing names them (peft/utils/constants.py,
// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING).
var targets = map[string][]string{"gpt2": {"c_attn"}, "phi": {"q_proj", "v_proj", "fc1", "fc2"}, "llama": pair,
	"mistral": pair, "mixtral": pair, "qwen2": pair, "qwen3": pair, "gemma": pair, "gemma2": pair, "gemma3_text": pair}

var pair = []string{"q_proj", "v_proj"}

// readLoRA is get_peft_config (trl/trainer/utils.py:280). Adapters are float32, whatever the model's type is
// (autocast_adapter_dtype of get_peft_model).
func readLoRA(s *settings, t *training) string {
	if !s.on("use_peft") {
		return ""
	}
	rank, err := s.count("lora_r", 16)
	if err != nil {
		return err.Error()
	}
	l := &arch.LoRA{Rank: rank, Targets: targets[t.model.Type], Dropout: 0.05, Type: nn.F32}
	l.Whole = arch.Whole{Names: s.names("lora_modules_to_save"), Type: t.step.Weights}
	if t.step.Quant != nil && s.trl() { // of all that is trained (sft_trainer.py:908, dpo_trainer.py:724)
		l.Type, l.Whole.Type = nn.BF16, nn.BF16
	}
	if v := s.release("peft"); t.step.Quant == nil && len(v) > 1 && v[0] == 0 && 6 <= v[1] && v[1] < 12 {
		l.Type = t.step.Weights // of the layer's (update_layer in peft/tuners/lora/layer.py:99 of 0.7.1)
	}
	if why := dropout(s, l); why != "" {
		return why
	}
	switch named := s.has("lora_target_modules") || len(s.list("lora_target_modules")) > 0; {
	case named:
		l.Targets = s.list("lora_target_modules")
	case l.Targets == nil:
		return "peft chooses no layers of " + t.model.Type + " for adapters: lora_target_modules names them"
	}
	return adapt(t, l)
}

// dropout reads that of adapters, where it is set.
func dropout(s *settings, l *arch.LoRA) string {
	v, ok := s.get("lora_dropout")
	if !ok {
		return ""
	}
	var err error
	if l.Dropout, err = strconv.ParseFloat(v, 64); err != nil || !(l.Dropout >= 0 && l.Dropout < 1) {
		return fmt.Sprintf("lora_dropout is %q: it is a number from 0 to 1", v)
	}
	return ""
}

// adapt adds adapters to the step, if every layer that they are for has a formula.
func adapt(t *training, l *arch.LoRA) string {
	found := false
	for _, name := range l.Targets {
		switch there, elsewhere := t.model.HasLinear(name); {
		case name == arch.AllLinear, there:
			found = true
		case !elsewhere:
			return fmt.Sprintf("adapters in %q have no formula", name)
		}
	}
	if !found && len(l.Targets) > 0 {
		return fmt.Sprintf("peft stops: %s has no layers %s", t.model.Type, strings.Join(l.Targets, ", "))
	}
	t.step.LoRA = l
	return ""
}

// quantised makes the step's weights those of bitsandbytes, loaded in the type of its weights.
func quantised(t *training, q arch.Quant) {
	q.Loaded = t.step.Weights
	t.step.Quant = &q
	if q.Bits == 8 {
		unmeasured(t, "weights of 8 bits (columns of outliers, which the data decides, are not counted)")
		return
	}
	unmeasured(t, "weights of 4 bits")
}

// withoutDropout switches off each torch.nn.Dropout (disable_dropout_in_model, trl/trainer/utils.py:194).
func withoutDropout(t *training) {
	if !t.model.DropsByFunction {
		t.model.Embed, t.model.Residual = 0, 0
	}
	if t.model.Type == "gpt2" { // in others the attention's is no module
		t.model.Attention = 0
	}
	if t.step.LoRA != nil {
		t.step.LoRA.Dropout = 0
	}
}
