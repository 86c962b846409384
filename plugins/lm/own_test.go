package lm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// ownScript is a script of one's own.
const ownScript = `import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

MODEL = "model"

def main():
    data = load_dataset("some/texts", split="train")
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    args = SFTConfig(
        output_dir="out",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        max_length=512,
        gradient_checkpointing=False,
        learning_rate=2 * 1e-4,
    )
    adapters = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = SFTTrainer(model=model, args=args, train_dataset=data, peft_config=adapters)
    trainer.train(resume_from_checkpoint=None)
    trainer.save_model(args.output_dir)

if __name__ == "__main__":
    main()
`

// preferences is one of DPO at the module's level.
const preferences = `from trl import DPOConfig, DPOTrainer
args = DPOConfig("out", per_device_train_batch_size=4, bf16=True, precompute_ref_log_probs=False, max_length=256)
trainer = DPOTrainer("model", ref_model=None, args=args, train_dataset=data)
trainer.train()
`

// ownTraining recognises a script of one's own, which launch reads for the plugin.
func ownTraining(t *testing.T, script string) (*recognized, error) {
	t.Helper()
	c := ownCommand(t, script)
	r, err := New().Recognize(t.Context(), c)
	if need := (&plugin.Need{}); errors.As(err, &need) {
		c.Sources = kit.Finder{Command: c, Cache: t.TempDir()}.Sources(t.Context(), need.Sources)
		r, err = New().Recognize(t.Context(), c)
	}
	if err != nil {
		return nil, err
	}
	return r.(*recognized), nil
}

func ownCommand(t *testing.T, script string) job.Command {
	t.Helper()
	return cmd(t, folder(t, map[string]string{"mine.py": script}), "mine.py")
}

func TestReadsOwn(t *testing.T) {
	r, err := ownTraining(t, ownScript)
	if err != nil {
		t.Fatal(err)
	}
	l := r.step.LoRA
	if r.unknown != "" || r.split != (ladder.Split{Micro: 8, Accumulation: 2}) || r.step.Length != 512 ||
		r.step.Checkpointing || r.step.Weights != nn.BF16 || r.step.Autocast != nn.BF16 || l == nil || l.Rank != 16 ||
		l.Dropout != 0 ||
		!slices.Equal(l.Targets, []string{"q_proj", "v_proj"}) || r.output != "out" {
		t.Errorf("unknown because %q; read as %+v, %+v with %+v", r.unknown, r.split, r.step, l)
	}
	j := r.Job()
	if len(j.Knobs) != 2 || len(j.Resume.Edits) != 1 ||
		!strings.Contains(j.Resume.Edits[0].At.Path, "resume_from_checkpoint") ||
		j.Rehearsal.Unordered == "" || len(j.Rehearsal.Edits) != 1 {
		t.Errorf("knobs %v, resume %+v, rehearsal %+v", j.Knobs, j.Resume, j.Rehearsal)
	}

	// what does not stand in the script is no rung
	r, err = ownTraining(t, strings.Replace(ownScript, "gradient_accumulation_steps=2,", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	set, err := r.Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	for _, rung := range set.Ladder(ladder.Training).Rungs {
		for _, e := range rung.Edits {
			if e.Add {
				t.Errorf("the rung %q adds %v", rung.Name, e.At)
			}
		}
	}

	r, err = ownTraining(t, strings.Replace(preferences, `"model", ref`, `model="model", ref`, 1))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.step.Preference; r.unknown != "" || p == nil || p.Precomputed || r.step.Weights != nn.F32 ||
		r.Job().Resume.None == "" ||
		r.Job().Rehearsal.None == "" {
		t.Errorf("unknown because %q; read as %+v, resume %+v", r.unknown, r.step, r.Job().Resume)
	}
}

// What is not understood is left to others.
func TestLeavesOwn(t *testing.T) {
	for name, change := range map[string][2]string{
		"a computed batch":      {"per_device_train_batch_size=8", "per_device_train_batch_size=8 * scale"},
		"an unknown field":      {"max_length=512", "max_length=512, max_seq=3"},
		"a dictionary of them":  {"max_length=512", "max_length=512, **more"},
		"changed afterwards":    {"    trainer = ", "    args.max_length = 4096\n    trainer = "},
		"passed on":             {"    trainer = ", "    tune(args)\n    trainer = "},
		"another model":         {"    args = ", "    model = shrink(model)\n    args = "},
		"a model that is moved": {"    args = ", "    model.half()\n    args = "},
		"a model made half":     {"torch_dtype=torch.bfloat16)", "torch_dtype=torch.bfloat16).half()"},
		"its weights' type":     {"torch.bfloat16", "torch.float8_e4m3fn"},
		"a computed name":       {`MODEL = "model"`, `MODEL = "model" + size`},
		"a name that changes":   {"def main():", "MODEL = \"other\"\ndef main():"},
		"a loop":                {"    args = SFTConfig(", "    for seed in seeds:\n      args = SFTConfig("},
		"a condition":           {"    trainer.train(", "    if ready: trainer.train("},
		"two trainings":         {"    trainer.save_model", "    trainer.train()\n    trainer.save_model"},
		"a collator":            {"train_dataset=data", "train_dataset=data, data_collator=mine"},
		"its own class":         {"def main():", "class Mine(SFTTrainer): pass\ndef main():"},
		"another loss":          {"def main():", "def compute_loss(): pass\ndef main():"},
		"another library":       {"from trl import SFTConfig, SFTTrainer", "from other import SFTConfig, SFTTrainer"},
		"another name":          {"import SFTConfig, SFTTrainer", "import SFTConfig as S, SFTTrainer\nSFTConfig = S"},
		"more adapters":         {"r=16", "r=16, use_dora=True"},
		"adapters by hand":      {"    args = ", "    model = get_peft_model(model, x)\n    args = "},
		"a callback":            {"    trainer.train(", "    trainer.add_callback(mine)\n    trainer.train("},
		"no output":             {`output_dir="out",`, ""},
		"its own arguments":     {"def main():", "parser = HfArgumentParser(SFTConfig)\ndef main():"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(ownScript, change[0], change[1], 1)
			if text == ownScript {
				t.Fatal("nothing is changed")
			}
			if _, err := ownTraining(t, text); !errors.Is(err, plugin.ErrNotMine) {
				t.Errorf("the error is %v, want it to be left to others", err)
			}
		})
	}
}

func TestOwnPromises(t *testing.T) {
	plugintest.Check(t, New(), ownCommand(t, ownScript), card)
	plugintest.Check(t, New(), ownCommand(t, strings.Replace(preferences, `"model", ref`, `model="model", ref`, 1)), card)
}
