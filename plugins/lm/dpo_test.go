package lm

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/unit"
)

// dpoScript declares the options of trl's dpo.py, and has the texts by which it is known.
const dpoScript = `
from trl import DPOConfig, DPOTrainer, ModelConfig, ScriptArguments, TrlParser, get_peft_config, get_quantization_config

def main(script_args, training_args, model_args):
    trainer = DPOTrainer(model=model_args.model_name_or_path, peft_config=get_peft_config(model_args))
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, DPOConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    main(script_args, training_args, model_args)
`

// dpoCommand is dpo.py of a model of the shape of gpt2 or llama, with other arguments.
func dpoCommand(t *testing.T, model string, args ...string) job.Command {
	t.Helper()
	dir := folder(t, map[string]string{"dpo.py": dpoScript, "model/config.json": model,
		"dpo.yaml": "model_name_or_path: model\nprecompute_ref_log_probs: true\nper_device_train_batch_size: 2\n"})
	return cmd(t, dir, append([]string{"dpo.py"}, args...)...)
}

// What trl's dpo.py makes of a command, or why that has no formula.
func TestReadsDPO(t *testing.T) {
	const gpt2 = `{"model_type": "gpt2", "n_layer": 2}`
	of := []string{"--model_name_or_path", "model", "--dataset_name", "x"}
	with := func(args ...string) []string { return append(of[:len(of):len(of)], args...) }
	for name, tt := range map[string]struct {
		model   string
		args    []string
		read    func(r *recognized) bool
		unknown string
	}{
		"as it is": {tiny, of, func(r *recognized) bool {
			return r.step.Preference != nil && !r.step.Preference.Precomputed && r.step.Fused && r.step.Checkpointing &&
				r.step.Weights == nn.F32 && r.step.Autocast == nn.BF16 && r.step.Length == 1024 && r.split.Micro == 8
		}, ""},
		"of its file": {tiny, []string{"--config", "dpo.yaml"}, func(r *recognized) bool {
			return r.step.Preference.Precomputed && r.split.Micro == 2
		}, ""},
		"no dropout": {gpt2, with("--use_peft", "--lora_target_modules", "c_attn"), func(r *recognized) bool {
			return r.model.Residual+r.model.Attention+r.model.Embed+r.step.LoRA.Dropout == 0
		}, ""},
		"dropout": {gpt2, with("--use_peft", "--no_disable_dropout", "--attn_implementation", "eager"),
			func(r *recognized) bool { return r.model.Residual == 0.1 && r.step.LoRA.Dropout == 0.05 }, ""},
		"another loss": {tiny, with("--loss_type", "sigmoid", "sft"), nil, ""},
		"padding-free": {tiny, with("--padding_free"), func(r *recognized) bool {
			return strings.Contains(strings.Join(r.warnings, "\n"), "saves nothing")
		}, ""},
		"no length":      {tiny, with("--max_length", "None"), nil, "longest"},
		"weighting":      {tiny, with("--use_weighting"), nil, "--use_weighting"},
		"a moving one":   {tiny, with("--sync_ref_model"), nil, "--sync_ref_model"},
		"a larger batch": {tiny, with("--precompute_ref_log_probs", "--precompute_ref_batch_size", "16"), nil, "batch_size"},
	} {
		t.Run(name, func(t *testing.T) {
			r := recognised(t, dpoCommand(t, tt.model, tt.args...))
			if (r.unknown == "") != (tt.unknown == "") || !strings.Contains(r.unknown, tt.unknown) {
				t.Fatalf("the estimate is unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.read != nil && !tt.read(r) {
				t.Errorf("read as %+v", r.step)
			}
		})
	}
}

// A reference that answers before the training is a rung of its own, and gives back the second copy of the weights.
func TestPrecomputes(t *testing.T) {
	c := dpoCommand(t, tiny, "--model_name_or_path", "model", "--dataset_name", "x", "--eval_strategy", "steps")
	r := recognised(t, c)
	set, err := r.Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []string{ladder.Training, ladder.Validation} {
		l := set.Ladder(phase)
		found := false
		for i, shared := range set.Shared.Rungs {
			if shared.Name != knobPrecompute {
				continue
			}
			found = true
			asked := l.Rungs[l.Asked]
			both, alone := asked.At(0), asked.At(i)
			if copied := both.Of(mem.Parameters) / 2; alone.Of(mem.Parameters) != copied || both.Total()-alone.Total() < copied {
				t.Errorf("%s needs %v, and %v with the rung: want at least the weights' %v less", phase, both.Total(),
					alone.Total(), copied)
			}
		}
		if !found {
			t.Errorf("no rung of %s lets the reference answer first", phase)
		}
	}
	for _, args := range [][]string{{"--use_peft"}, {"--precompute_ref_log_probs"}, {"--dataset_streaming"}} {
		plugintest.Check(t, New(), dpoCommand(t, tiny, append([]string{"--model_name_or_path", "model"}, args...)...), card)
	}
	plugintest.Check(t, New(), c, card)
	plugintest.Check(t, New(), dpoCommand(t, tiny, "--config", "dpo.yaml", "--bf16", "false"),
		gpu.Device{Kind: gpu.CPU, Total: 8 * unit.GiB})
}
