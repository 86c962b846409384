package lm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// plainScript is a script of one's own with a plain Trainer.
const plainScript = `import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments)

MODEL = "model"

def main():
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.pad_token = tokenizer.eos_token
    data = load_dataset("some/texts", split="train")
    data = data.map(clean)

    def tokenize(batch):
        return tokenizer([t + tokenizer.eos_token for t in batch["text"]], truncation=True, max_length=512)

    data = data.map(tokenize, batched=True, remove_columns=["text"]).train_test_split(0.1)
    model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    model.config.use_cache = False
    model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    model.print_trainable_parameters()
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        bf16=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=data["train"],
                      data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
    trainer.train(resume_from_checkpoint=None)
    trainer.save_model(args.output_dir)

if __name__ == "__main__":
    main()
`

// wholeScript pads each row to the longest, and names nothing twice.
const wholeScript = `from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from transformers import default_data_collator
block_size = 256
tok = AutoTokenizer.from_pretrained("model")
def rows(batch):
    out = tok(batch["text"], truncation=True, padding="max_length", max_length=block_size)
    out["labels"] = out["input_ids"].copy()
    return out
train = texts.map(rows, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=1, gradient_checkpointing=True)
model = AutoModelForCausalLM.from_pretrained("model")
trainer = Trainer(model, args, default_data_collator, train_dataset=train.shuffle())
trainer.train()
trainer.evaluate(train)
`

func TestReadsTrainer(t *testing.T) {
	r, err := ownTraining(t, plainScript)
	if err != nil {
		t.Fatal(err)
	}
	l := r.step.LoRA
	if r.unknown != "" || r.split != (ladder.Split{Micro: 8, Accumulation: 2}) || r.step.Length != 512 ||
		r.step.Checkpointing || r.step.Weights != nn.BF16 || r.step.Autocast != nn.BF16 || l == nil || l.Rank != 16 ||
		l.Type != nn.F32 || !slices.Equal(l.Targets, []string{"q_proj", "v_proj"}) || !r.pads || r.multiple ||
		r.evals != 0 {
		t.Errorf("unknown because %q; read as %+v, %+v with %+v", r.unknown, r.split, r.step, l)
	}
	if j := r.Job(); j.Dialect != "transformers Trainer" || len(j.Resume.Edits) != 1 || j.Rehearsal.Unordered == "" {
		t.Errorf("dialect %q, resume %+v, rehearsal %+v", j.Dialect, j.Resume, j.Rehearsal)
	}

	r, err = ownTraining(t, wholeScript)
	if err != nil {
		t.Fatal(err)
	}
	// without do_eval nothing is gathered: the Trainer has no metrics to compute
	if r.unknown != "" || r.step.Length != 256 || !r.step.Checkpointing || r.step.LoRA != nil || !r.multiple ||
		r.step.Autocast != nn.F32 || r.evals != 8 || r.predicted || r.Job().Rehearsal.Unordered != "" {
		t.Errorf("unknown because %q; read as %+v, padded %v, evaluations of %d",
			r.unknown, r.step, r.multiple, r.evals)
	}
}

// An edit changes the length where it stands: in the tokenizer's call.
func TestTrainerLength(t *testing.T) {
	script := strings.Replace(wholeScript, "max_length=block_size", "max_length=2048", 1)
	r, err := ownTraining(t, script)
	if err != nil {
		t.Fatal(err)
	}
	set, err := r.Ladders(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, rung := range set.Shared.Rungs {
		for _, e := range rung.Edits {
			found = found || e.Knob == knobLength && e.At.Path == "rows().tok().max_length" && e.To == "1024" && !e.Add
		}
	}
	if !found {
		t.Errorf("no rung has shorter sequences: %+v", set.Shared.Rungs)
	}
}

// What is not understood is left to others.
func TestLeavesTrainer(t *testing.T) {
	for name, change := range map[string][2]string{
		"a subclass":   {"def main():", "class Mine(Trainer): pass\ndef main():"},
		"another loss": {"def main():", "def compute_loss(): pass\ndef main():"},
		"callbacks":    {"args=args,", "args=args, callbacks=[mine],"},
		"metrics":      {"args=args,", "args=args, compute_metrics=mine,"},
		"optimizers":   {"args=args,", "args=args, optimizers=(a, b),"},
		"a dictionary": {"bf16=True,", "bf16=True, **more"},
		"a loop": {"    args = TrainingArguments(",
			"    for seed in seeds:\n      args = TrainingArguments("},
		"all columns":         {"bf16=True,", "bf16=True, remove_unused_columns=False,"},
		"a masked model":      {"mlm=False", "mlm=True"},
		"by default masked":   {"(tokenizer, mlm=False)", "(tokenizer)"},
		"a collator":          {"DataCollatorForLanguageModeling(tokenizer, mlm=False)", "mine"},
		"a multiple":          {"mlm=False", "mlm=False, pad_to_multiple_of=64"},
		"a model that is cut": {"torch_dtype=torch.bfloat16)", "torch_dtype=torch.bfloat16).half()"},
		"a model changed":     {"    model.print", "    model.half()\n    model.print"},
		"a cache":             {"use_cache = False", "use_cache = True"},
		"another adapter":     {"    model.print", "    model.add_adapter(x)\n    model.print"},
		"two adapters":        {"    model.print", "    model = get_peft_model(model, x)\n    model.print"},
		"another kind":        {"task_type=\"CAUSAL_LM\"", "use_dora=True"},
		"a new vocabulary":    {"    model.print", "    model.resize_token_embeddings(9)\n    model.print"},
		"patched":             {"import torch\n", "import torch\nfrom liger_kernel.transformers import x\n"},
		"another trainer":     {"import torch\n", "import torch\nfrom trl import SFTTrainer\nSFTTrainer(x)\n"},
		"adapters elsewhere":  {"import LoraConfig, get_peft_model", "import LoraConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(plainScript, change[0], change[1], 1)
			if text == plainScript {
				t.Fatal("nothing is changed")
			}
			if _, err := ownTraining(t, text); !errors.Is(err, plugin.ErrNotMine) {
				t.Errorf("the error is %v, want it to be left to others", err)
			}
		})
	}
}

// A length that cannot be read is unknown, with the reason.
func TestTrainerUnknown(t *testing.T) {
	for name, c := range map[string]struct{ script, from, to, want string }{
		"not cut":        {plainScript, "truncation=True, ", "", "no truncation=True"},
		"no length":      {plainScript, ", max_length=512", "", "no max_length"},
		"a computed one": {plainScript, "max_length=512", "max_length=2 * n", "no literal"},
		"joined": {plainScript, `.train_test_split(0.1)`, `.map(join, batched=True)`,
			"train_dataset is not understood"},
		"made on the fly": {plainScript, `.train_test_split(0.1)`, `.with_transform(f)`,
			"train_dataset is not understood"},
		"joined later": {plainScript, "    model.config", "    data = data.map(join)\n    model.config",
			"train_dataset"},
		"concatenated": {plainScript, `data = data.map(tokenize`, `data = more + data.map(tokenize`,
			"train_dataset"},
		"in a branch": {plainScript, "    model.config", "    if x:\n        data = other\n    model.config",
			"train_dataset"},
		"in place": {plainScript, "    model.config", "    data.set_transform(x)\n    model.config",
			"train_dataset"},
		"other rows": {plainScript, `train_dataset=data["train"]`, "train_dataset=saved", "train_dataset"},
		"a longer set": {plainScript, `train_dataset=data["train"]`, `train_dataset=data["train"], eval_dataset=x`,
			"eval_dataset"},
		"called twice": {plainScript, "    model.config", "    tokenizer(text)\n    model.config", "2 times"},
		"used otherwise": {plainScript, "    model.config", "    other = tokenizer\n    model.config",
			"otherwise in line"},
		"changed rows": {wholeScript, `out["labels"] = out["input_ids"].copy()`,
			`out["input_ids"] = out["input_ids"] * 2`, "returns"},
		"joined at once":  {wholeScript, "return out", "return join(out)", "returns"},
		"a loop of them":  {wholeScript, "    return out", "    for i in out: join(i)\n    return out", "returns"},
		"returned before": {wholeScript, "    out = tok", "    if long: return more\n    out = tok", "returns"},
		"nothing pads":    {wholeScript, `padding="max_length", `, "", "pads nothing"},
		"labels unpadded": {wholeScript, `args, default_data_collator, train`, "args, tokenizer=tok, train", ""},
		"of a class":      {wholeScript, "def rows(batch):", "def __getitem__(batch):", "stands in no function"},
		"decorated":       {wholeScript, "def rows(batch):", "@joined\ndef rows(batch):", "stands in no function"},
		"redefined":       {wholeScript, "train = texts", "def rows(x): pass\ntrain = texts", "returns"},
		"two tokenizers":  {wholeScript, "block_size = 256", "x = AutoTokenizer.from_pretrained(1)", "2 calls"},
		"several for each": {wholeScript, "truncation=True, ", "truncation=True, text_target=x, ",
			"x of the tokenizer's call"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(c.script, c.from, c.to, 1)
			if text == c.script {
				t.Fatal("nothing is changed")
			}
			r, err := ownTraining(t, text)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" { // rows of max_length, which need no other padding
				if r.unknown != "" {
					t.Errorf("unknown because %q", r.unknown)
				}
			} else if !strings.Contains(r.unknown, c.want) {
				t.Errorf("unknown because %q, want %q", r.unknown, c.want)
			}
		})
	}
}

// With transformers 4.57 nothing that a reentrant checkpoint gets asks for a gradient, so that training fails.
func TestTrainerWithoutGradient(t *testing.T) {
	of := func(version, checkpointing string) *recognized {
		t.Helper()
		c := ownCommand(t, strings.Replace(plainScript, "gradient_checkpointing=False", checkpointing, 1))
		c.Args[0] = interpreter(t, version)
		_, err := New().Recognize(t.Context(), c)
		need := &plugin.Need{}
		if !errors.As(err, &need) {
			t.Fatal(err)
		}
		c.Sources = kit.Finder{Command: c, Cache: t.TempDir()}.Sources(t.Context(), need.Sources)
		return recognised(t, c)
	}
	if r := of("4.57.1", "gradient_checkpointing=True"); !strings.Contains(r.unknown, "no gradient") {
		t.Errorf("unknown because %q", r.unknown)
	}
	more := `gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False}`
	if r := of("4.57.1", more); !strings.Contains(r.unknown, "from transformers 5 on") {
		t.Errorf("without reentrance: unknown because %q", r.unknown)
	}
	for version, offered := range map[string]bool{"4.57.1": false, "5.23.0": true} {
		r := of(version, "gradient_checkpointing=False")
		if r.unknown != "" || r.turns("gradient_checkpointing") != offered {
			t.Errorf("%s: activation checkpointing can be switched on: %v; unknown because %q",
				version, !offered, r.unknown)
		}
	}
}

func TestTrainerPromises(t *testing.T) {
	plugintest.Check(t, New(), ownCommand(t, plainScript), card)
	plugintest.Check(t, New(), ownCommand(t, wholeScript), card)
}

// A model that bitsandbytes quantises, as peft prepares it: by BitsAndBytesConfig, or by a keyword of older releases.
func TestReadsQuantisedTrainer(t *testing.T) {
	const loads = "AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)"
	config := func(fields string) string {
		return "AutoModelForCausalLM.from_pretrained(MODEL, device_map={\"\": 0}, torch_dtype=torch.float16, " +
			"quantization_config=BitsAndBytesConfig(" + fields + "))"
	}
	four := config("load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True, " +
		"bnb_4bit_compute_dtype=torch.float16")
	script := func(loaded, prepares string) string {
		text := strings.Replace(plainScript, loads, loaded, 1)
		text = strings.Replace(text, "import LoraConfig", "import prepare_model_for_kbit_training, LoraConfig", 1)
		text = strings.Replace(text, "AutoTokenizer,", "AutoTokenizer, BitsAndBytesConfig,", 1)
		return strings.Replace(text, "    model.config.use_cache", prepares+"    model.config.use_cache", 1)
	}
	const plainly = "    model = prepare_model_for_kbit_training(model)\n"
	const without = "    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)\n"
	const keyword = "AutoModelForCausalLM.from_pretrained(MODEL, load_in_8bit=True, torch_dtype=torch.float16)"
	nested := arch.Quant{Bits: 4, Nested: true, Compute: nn.F16, Loaded: nn.F16}
	eight := arch.Quant{Bits: 8, Loaded: nn.F16}
	for name, tt := range map[string]struct {
		script        string
		quant         arch.Quant
		weights       nn.DType
		checkpointing bool
	}{
		"prepared": {script(four, plainly), nested, nn.F32, true},
		"without checkpointing": {script(four, without),
			nested, nn.F32, false},
		"with checkpointing of its own": {script(four, without+
			"    model.gradient_checkpointing_enable()\n    model.enable_input_require_grads()\n"), nested, nn.F32, true},
		"as it was loaded": {script(four, ""), nested, nn.F16, false},
		"of 8 bits":        {script(config("load_in_8bit=True"), plainly), eight, nn.F32, true},
		"by a keyword":     {script(keyword, plainly), eight, nn.F32, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ownTraining(t, tt.script)
			if err != nil {
				t.Fatal(err)
			}
			if r.unknown != "" || r.step.Quant == nil || *r.step.Quant != tt.quant || r.step.Weights != tt.weights ||
				r.step.LoRA.Type != nn.F32 || r.step.Checkpointing != tt.checkpointing ||
				r.step.InputGrad != (tt.weights == nn.F32) {
				t.Errorf("unknown because %q; read as %+v of %+v", r.unknown, r.step, r.step.Quant)
			}
		})
	}
	for name, text := range map[string]string{
		"another setting":  script(config("load_in_8bit=True, llm_int8_threshold=5.0"), plainly),
		"prepared twice":   script(four, plainly+plainly),
		"not prepared":     script(four, "    model.gradient_checkpointing_enable()\n"),
		"prepared, unused": script(four, "    other = prepare_model_for_kbit_training(model)\n"),
		"computed":         script(config("load_in_4bit=True, bnb_4bit_compute_dtype=compute()"), plainly),
	} {
		if _, err := ownTraining(t, text); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}
