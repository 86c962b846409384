package lm

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// groupScript joins rows and cuts them into blocks, as transformers' guide to language modeling does.
const groupScript = `from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments)

tokenizer = AutoTokenizer.from_pretrained("model")
tokenizer.pad_token = tokenizer.eos_token
data = load_dataset("some/texts", split="train[:5000]").train_test_split(test_size=0.2).flatten()

def preprocess_function(examples):
    return tokenizer([" ".join(x) for x in examples["text"]])

tokenized = data.map(preprocess_function, batched=True, num_proc=4, remove_columns=data["train"].column_names)
block_size = 128

def group_texts(examples):
    # Concatenate all texts.
    concatenated_examples = {k: sum(examples[k], []) for k in examples.keys()}
    total_length = len(concatenated_examples[list(examples.keys())[0]])
    if total_length >= block_size:
        total_length = (total_length // block_size) * block_size
    # Split by chunks of block_size.
    result = {
        k: [t[i : i + block_size] for i in range(0, total_length, block_size)]
        for k, t in concatenated_examples.items()
    }
    result["labels"] = result["input_ids"].copy()
    return result

lm_dataset = tokenized.map(group_texts, batched=True, num_proc=4)
data_collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)
model = AutoModelForCausalLM.from_pretrained("model")
training_args = TrainingArguments(output_dir="out", eval_strategy="epoch", per_device_train_batch_size=8,
                                  gradient_accumulation_steps=1, gradient_checkpointing=False)
trainer = Trainer(model=model, args=training_args, train_dataset=lm_dataset["train"], eval_dataset=lm_dataset["test"],
                  data_collator=data_collator, tokenizer=tokenizer)
trainer.train()
`

// The length of a block is that of every row, where it can be read, in the forms that are known.
func TestGroupTexts(t *testing.T) {
	const guard = "    if total_length >= block_size:\n        total_length = (total_length // block_size) * block_size\n"
	const cut = "    total_length = total_length // block_size * block_size\n"
	const labels = "    result[\"labels\"] = result[\"input_ids\"].copy()\n"
	const joined, chained = "sum(examples[k], [])", "list(chain(*examples[k]))"
	const maps, collator = "lm_dataset = tokenized.map(group_texts", "data_collator=data_collator, "
	const set, imports = "block_size = 128", "from datasets"
	for what, tt := range map[string]struct {
		change  []string // pairs, of the text and of what is in its place
		length  int64
		short   bool
		unknown string
	}{
		"the guide's": {nil, 128, true, ""},
		"run_clm's": {[]string{guard, cut, joined, chained, "in examples.keys()}", "in examples}"}, 128, false,
			""},
		"itertools": {[]string{joined, "list(itertools.chain(*examples[k]))", imports, "import itertools\n" + imports},
			128, true, ""},
		"a number":       {[]string{set + "\n", "", "block_size", "2_048"}, 2048, true, ""},
		"without labels": {[]string{labels, ""}, 128, true, ""},
		"other names": {[]string{"concatenated_examples", "c", "total_length", "n", "group_texts", "chunk", "(examples)",
			"(rows)", "examples[k]", "rows[k]", "examples.keys", "rows.keys"}, 128, true, ""},
		"a docstring":    {[]string{"    # Concatenate all texts.", "    \"\"\"Joins and cuts.\"\"\""}, 128, true, ""},
		"no collator":    {[]string{collator, ""}, 128, true, ""},
		"computed":       {[]string{set, "block_size = min(128, n)"}, 0, false, "block_size of group_texts is no literal"},
		"assigned twice": {[]string{set, "block_size = 64\n" + set}, 0, false, "is no literal number"},
		"padded": {[]string{"    return result", "    result = pad(result)\n    return result"}, 0, false,
			"not known"},
		"another step":   {[]string{"i + block_size]", "i + 2 * block_size]"}, 0, false, "not known"},
		"not in batches": {[]string{maps + ", batched=True", maps}, 0, false, "not known"},
		"joined again": {[]string{"data_collator = D", "lm_dataset = lm_dataset.map(join)\ndata_collator = D"}, 0, false,
			"not known"},
		"defined twice": {[]string{maps, "def group_texts(x): pass\n" + maps}, 0, false, "not known"},
		"decorated":     {[]string{"def group_texts", "@padded\ndef group_texts"}, 0, false, "not known"},
		"another list":  {[]string{set, set + "\ndef list(x): pass"}, 0, false, "another thing"},
		"another chain": {[]string{joined, chained, imports, "from mine import chain\n" + imports}, 0, false,
			"another thing"},
		"another eval set": {[]string{`eval_dataset=lm_dataset["test"]`, `eval_dataset=tokenized["test"]`}, 0, false,
			"eval_dataset is not understood"},
		"no labels at all": {[]string{labels, "", collator, ""}, 0, false, "have no labels"},
	} {
		t.Run(what, func(t *testing.T) {
			text := groupScript
			for i := 0; i < len(tt.change); i += 2 {
				before := text
				if text = strings.ReplaceAll(text, tt.change[i], tt.change[i+1]); text == before {
					t.Fatalf("%q is not in the script", tt.change[i])
				}
			}
			r, err := ownTraining(t, text)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.unknown, tt.unknown) || (r.unknown == "") != (tt.unknown == "") {
				t.Fatalf("unknown because %q, want %q", r.unknown, tt.unknown)
			}
			if tt.unknown != "" {
				return
			}
			if r.step.Length != tt.length || r.pads || r.multiple || uniform(r.settings, r.training) == tt.short {
				t.Errorf("rows of %d tokens, padded: %v", r.step.Length, r.pads)
			}
			if said := strings.Contains(strings.Join(r.warnings, "\n"), "a shorter block"); said != tt.short {
				t.Errorf("warned of a shorter block: %v, %q", said, r.warnings)
			}
		})
	}
}

func TestGroupTextsPromises(t *testing.T) {
	plugintest.Check(t, New(), ownCommand(t, groupScript), card)
}
