package lm

import (
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// A small model of the shape of mixtral, one of qwen3_moe, one with a shared expert, and olmo2, which has none.
const (
	mixture = `{"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 512, "intermediate_size": 1024,
	"num_hidden_layers": 4, "num_attention_heads": 8, "num_local_experts": 4, "max_position_embeddings": 2048,
	"dtype": "bfloat16"}`
	normsAfter  = `{"model_type": "olmo2", "vocab_size": 1000, "hidden_size": 64, "num_attention_heads": 4}`
	manyExperts = `{"model_type": "qwen3_moe", "vocab_size": 32000, "hidden_size": 512, "moe_intermediate_size": 256,
	"num_hidden_layers": 4, "num_attention_heads": 8, "num_experts": 16, "max_position_embeddings": 2048,
	"dtype": "bfloat16"}`
	sharedExpert = `{"model_type": "qwen2_moe", "vocab_size": 32000, "hidden_size": 512, "num_hidden_layers": 4,
	"num_experts": 8, "moe_intermediate_size": 256, "dtype": "bfloat16"}`
)

// experts is a command of run_clm.py, or of another script, with a model of that configuration.
func experts(t *testing.T, model string, args ...string) job.Command {
	t.Helper()
	return cmd(t, folder(t, map[string]string{"model/config.json": model, "dpo.py": dpoScript}), args...)
}

// What the programs make of a mixture of experts, or why that has no formula.
func TestReadsExperts(t *testing.T) {
	with := func(args ...string) []string { return append(asked[:len(asked):len(asked)], args...) }
	sft := func(args ...string) []string {
		return append([]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "x"}, args...)
	}
	const off = "--router_aux_loss_coef"
	release := func(c job.Command, transformers string) job.Command {
		c.Args[0] = interpreter(t, transformers)
		return c
	}
	factoryOf := func(model string, args ...string) job.Command {
		c := factory(t, append([]string{"a.yaml"}, args...)...)
		write(t, c.Dir, map[string]string{"model/config.json": model})
		return c
	}
	axolotl := axolotlAt(t, map[string]string{}, "train", "a.yaml")
	write(t, axolotl.Dir, map[string]string{"model/config.json": mixture})
	axolotlWith := func(lines map[string]string) job.Command {
		c := axolotlAt(t, lines, "train", "a.yaml")
		write(t, c.Dir, map[string]string{"model/config.json": mixture})
		return c
	}
	olderTorch := experts(t, mixture, asked...)
	olderTorch.Args[0] = plugintest.Torch(t, "2.9.1")
	logits := strings.Replace(mixture, "{", `{"output_router_logits": true, `, 1)
	eager := strings.Replace(mixture, "{", `{"experts_implementation": "eager", `, 1)
	jitter := strings.Replace(mixture, "{", `{"router_jitter_noise": 0.1, `, 1)
	impossible := strings.Replace(mixture, "{", `{"num_experts_per_tok": 5, `, 1)
	for name, tt := range map[string]struct {
		command job.Command
		unknown string
	}{
		"run_clm":           {experts(t, mixture, asked...), ""},
		"a shared one":      {experts(t, sharedExpert, with("--block_size", "512")...), ""},
		"transformers 5.6":  {release(experts(t, manyExperts, asked...), "5.6.0"), ""},
		"transformers 5.5":  {release(experts(t, manyExperts, asked...), "5.5.4"), "from transformers 5.6 on"},
		"transformers 4.57": {release(experts(t, mixture, asked...), "4.57.6"), "from transformers 5.6 on"},
		"torch 2.9":         {olderTorch, "from torch 2.10 on"},
		"axolotl":           {axolotl, ""},
		"axolotl's own choice": {axolotlWith(map[string]string{"experts_implementation": "grouped_mm",
			"lora_target_linear": "true"}), ""},
		"axolotl, another": {axolotlWith(map[string]string{"experts_implementation": "scattermoe"}), "scattermoe"},
		"axolotl, quantised": {axolotlWith(map[string]string{"quantize_moe_experts": "true"}),
			"quantize_moe_experts has no formula"},
		"Liger's kernels": {withLiger(t, experts(t, mixture, with("--use_liger_kernel")...), "0.8.5"),
			"Liger's kernels have no formula for experts"},
		"their loss":      {experts(t, logits, asked...), "output_router_logits"},
		"a loop":          {experts(t, eager, asked...), "experts_implementation eager"},
		"noise":           {experts(t, jitter, asked...), "router_jitter_noise"},
		"too few of them": {experts(t, impossible, asked...), "4 experts of 1024 channels, 5 for each token"},
		"trl":             {experts(t, mixture, sft()...), ""},
		"trl, joined": {release(experts(t, mixture, sft()...), "5.10.0"),
			"--router_aux_loss_coef 0 leaves it out"},
		"trl, neither":       {release(experts(t, mixture, sft(off, "0")...), "5.10.0"), ""},
		"trl without it":     {experts(t, mixture, sft(off, "0", "--use_peft")...), ""},
		"trl with more":      {experts(t, mixture, sft(off, "0.01")...), ""},
		"trl, not an expert": {experts(t, tiny, sft(off, "0.01")...), "no formula for llama"},
		"peft's own choice": {experts(t, manyExperts, sft(off, "0", "--use_peft")...),
			"lora_target_modules names them"},
		"peft's choice for olmo2": {experts(t, normsAfter, sft(off, "0", "--use_peft")...), "no layers of olmo2"},
		"LLaMA-Factory":           {factoryOf(mixture), ""},
		"all of a shared one":     {factoryOf(sharedExpert), "all linear layers of qwen2_moe"},
		"its loss":                {factoryOf(mixture, "moe_aux_loss_coef=0.001"), "moe_aux_loss_coef"},
		"no such loss":            {factoryOf(mixture, "moe_aux_loss_coef=0.0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, tt.command)
			if (r.unknown == "") != (tt.unknown == "") || !strings.Contains(r.unknown, tt.unknown) {
				t.Fatalf("the estimate is unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if r.step.Router != (r.unknown == "" && r.kind.dialect == "axolotl") {
				t.Errorf("the router is float32: %t", r.step.Router)
			}
			if r.unknown == "" && !slices.Contains(r.unseen, "experts") {
				t.Errorf("no warning that no card has measured it: %q", r.warnings)
			}
		})
	}
	r := recognised(t, factoryOf(mixture))
	if want := []string{"q_proj", "k_proj", "v_proj", "o_proj"}; !slices.Equal(r.step.LoRA.Targets, want) {
		t.Errorf("lora_target: all is %q, want %q", r.step.LoRA.Targets, want)
	}
	for value, want := range map[string]bool{"0": false, "0.0": false, "0.01": true} {
		r := recognised(t, experts(t, mixture, sft(off, value)...))
		if r.step.Balanced != want {
			t.Errorf("with --router_aux_loss_coef %s the loss that balances the experts is added: %t, want %t", value,
				r.step.Balanced, want)
		}
	}
	r = recognised(t, experts(t, mixture, with("--dtype", "float32", "--bf16")...))
	if !strings.Contains(strings.Join(r.warnings, "\n"), "experts compute in float32") {
		t.Errorf("no warning that mixed precision leaves experts alone: %q", r.warnings)
	}
}

// bitsandbytes quantises linear layers, and experts are none: a warning has what they take.
func TestExpertsQuantised(t *testing.T) {
	for dtype, want := range map[string]string{"bfloat16": "its experts stay in bfloat16, and take ",
		"float32": "its experts stay in float32, and take "} {
		r := recognised(t, experts(t, mixture, "sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--use_peft", "--load_in_4bit", "--dtype", dtype, "--router_aux_loss_coef", "0"))
		set, err := r.Ladders(t.Context(), card)
		if err != nil {
			t.Fatal(err)
		}
		e := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0]
		kept := want + (unit.Bytes(r.model.ExpertParams()) * r.step.Weights.Size()).String()
		if all := strings.Join(r.warnings, "\n"); e.Unknown != "" || !strings.Contains(all, kept) {
			t.Errorf("unknown because %q, and the warnings are %q, want %q", e.Unknown, all, kept)
		}
	}
}

// A step that has no formula is unknown on every rung, and so it is on a card without grouped products.
func TestExpertsWithoutFormula(t *testing.T) {
	sft := func(model string, args ...string) job.Command {
		return experts(t, model, append([]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--router_aux_loss_coef", "0"}, args...)...)
	}
	old := card
	old.Capability = "7.5"
	axolotl := func(model string, lines map[string]string) job.Command {
		c := axolotlAt(t, lines, "train", "a.yaml")
		write(t, c.Dir, map[string]string{"model/config.json": model})
		return c
	}
	olmoe := strings.Replace(mixture, `"mixtral"`, `"olmoe", "num_experts_per_tok": 2`, 1)
	linear := map[string]string{"lora_target_linear": "true"}
	for name, tt := range map[string]struct {
		command job.Command
		device  gpu.Device
		want    string
	}{
		"all linear layers": {sft(mixture, "--use_peft", "--lora_target_modules", "all-linear"), card,
			"attention alone"},
		"an MLP's": {sft(mixture, "--use_peft", "--lora_target_modules", "gate_proj"), card,
			"attention alone"},
		"4 bits below an MLP's": {sft(mixture, "--use_peft", "--load_in_4bit", "--dtype", "bfloat16",
			"--lora_target_modules", "all-linear"), card, "attention alone"},
		"pairs": {experts(t, mixture, "dpo.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--router_aux_loss_coef", "0"), card, "preference optimisation"},
		"axolotl's adapters":         {axolotl(mixture, nil), card, ""},
		"axolotl, all linear layers": {axolotl(manyExperts, linear), card, ""},
		"axolotl, shared experts":    {axolotl(sharedExpert, linear), card, "lora_target_linear of qwen2_moe"},
		"axolotl, whole":             {axolotl(mixture, map[string]string{"adapter": "-"}), card, ""},
		"axolotl, olmoe":             {axolotl(olmoe, nil), card, "kernels for adapters stop at olmoe"},
		"axolotl, 4 bits": {axolotl(mixture, map[string]string{"adapter": "qlora", "load_in_4bit": "true"}), card,
			"quantised weights"},
		"an older card": {experts(t, mixture, append(asked[:len(asked):len(asked)], "--dtype", "float32")...), old,
			"compute capability 7.5"},
	} {
		set, err := recognised(t, tt.command).Ladders(t.Context(), tt.device)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown; !strings.Contains(got, tt.want) ||
			(got == "") != (tt.want == "") {
			t.Errorf("%s: unknown because %q, want %q", name, got, tt.want)
		}
	}
}

// Every rung is priced as the job that it makes would be; weights in 4 bits are none.
func TestExpertsPromises(t *testing.T) {
	adapted := installed(t, experts(t, mixture, "sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
		"--use_peft", "--router_aux_loss_coef", "0", "--dtype", "bfloat16"), "bitsandbytes")
	plugintest.Check(t, New(), experts(t, manyExperts, asked...), card)
	plugintest.Check(t, New(), adapted, card)
	whole := axolotlAt(t, map[string]string{"adapter": "-"}, "train", "a.yaml")
	write(t, whole.Dir, map[string]string{"model/config.json": mixture})
	plugintest.Check(t, New(), whole, card)
	set, err := recognised(t, adapted).Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range set.Shared.Rungs {
		if strings.Contains(r.Name, "4 bits") {
			t.Errorf("the rung %q is offered", r.Name)
		}
	}
}
