package lm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// What each program makes of the modules that are trained whole beside its adapters, or why that has no formula.
func TestReadsWholeModules(t *testing.T) {
	sft := func(args ...string) job.Command {
		return cmd(t, folder(t, nil), append([]string{"sft.py", "--model_name_or_path", "model", "--dataset_name", "x",
			"--use_peft", "--lora_modules_to_save", "embed_tokens", "lm_head"}, args...)...)
	}
	axolotl := func(lines map[string]string) job.Command { return axolotlAt(t, lines, "train", "a.yaml") }
	both := []string{"embed_tokens", "lm_head"}
	own := func(modules string) job.Command {
		const adapters = "LoraConfig(r=16, "
		c := ownCommand(t, strings.Replace(ownScript, adapters, adapters+"modules_to_save="+modules+", ", 1))
		_, err := New().Recognize(t.Context(), c)
		var need *plugin.Need
		if !errors.As(err, &need) {
			t.Fatal(err)
		}
		c.Sources = kit.Finder{Command: c, Cache: t.TempDir()}.Sources(t.Context(), need.Sources)
		return c
	}
	for name, tt := range map[string]struct {
		command job.Command
		want    arch.Whole
		unknown string
	}{
		"trl":             {sft(), arch.Whole{Names: both, Type: nn.F32}, ""},
		"trl in bfloat16": {sft("--dtype", "bfloat16"), arch.Whole{Names: both, Type: nn.BF16}, ""},
		"trl with 4 bits": {sft("--load_in_4bit"), arch.Whole{Names: both, Type: nn.BF16}, ""},
		"trl without adapters": {cmd(t, folder(t, nil), "sft.py", "--model_name_or_path", "model",
			"--lora_modules_to_save", "x"), arch.Whole{}, ""},
		"LLaMA-Factory": {factory(t, "a.yaml", "additional_target=embed_tokens, lm_head"),
			arch.Whole{Names: both, Type: nn.F32}, ""},
		"LLaMA-Factory in bfloat16": {factory(t, "a.yaml", "additional_target=lm_head", "pure_bf16=true", "bf16=false"),
			arch.Whole{Names: []string{"lm_head"}, Type: nn.BF16}, ""},
		"LLaMA-Factory, norms": {factory(t, "a.yaml", "additional_target=norm"), arch.Whole{}, "the module norm"},
		"axolotl": {axolotl(map[string]string{"lora_modules_to_save": "[embed_tokens, lm_head]"}),
			arch.Whole{Names: both, Type: nn.BF16}, ""},
		"axolotl, none": {axolotl(map[string]string{"lora_modules_to_save": ""}), arch.Whole{Type: nn.BF16}, ""},
		"axolotl, tied": {axolotl(map[string]string{"lora_modules_to_save": "[embed_tokens]",
			"peft_ensure_weight_tying": "true"}), arch.Whole{}, "peft_ensure_weight_tying"},
		"one's own":         {own(`["embed_tokens"]`), arch.Whole{Names: []string{"embed_tokens"}, Type: nn.BF16}, ""},
		"one's own, others": {own(`["embed_tokens", "score"]`), arch.Whole{}, "the module score"},
		"one's own, none":   {own(`None`), arch.Whole{Type: nn.BF16}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, tt.command)
			set, err := r.Ladders(t.Context(), card)
			if err != nil {
				t.Fatal(err)
			}
			why := set.Phases[0].Rungs[set.Phases[0].Asked].Estimates[0].Unknown
			if !strings.Contains(why, tt.unknown) || (why == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", why, tt.unknown)
			}
			if tt.unknown != "" {
				return
			}
			var got arch.Whole
			if r.step.LoRA != nil {
				got = r.step.LoRA.Whole
			}
			if !slices.Equal(got.Names, tt.want.Names) || got.Type != tt.want.Type {
				t.Errorf("trained whole: %v, want %v", got, tt.want)
			}
		})
	}
}

// Weights in 4 bits leave the copies of trl half, as they make its adapters.
func TestWholeModulesOf4Bits(t *testing.T) {
	r := recognised(t, cmd(t, folder(t, nil), "sft.py", "--model_name_or_path", "model", "--use_peft",
		"--lora_modules_to_save", "lm_head"))
	b := &builder{s: r.settings, t: r.training, device: card}
	s := way{quant: true, rank: 16}.in(b, r.step)
	if s.LoRA.Whole.Type != nn.BF16 || r.step.LoRA.Whole.Type != nn.F32 {
		t.Errorf("the copies are %v, and %v as asked", s.LoRA.Whole.Type, r.step.LoRA.Whole.Type)
	}
}
