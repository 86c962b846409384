package lm

import (
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/plugin"
)

// A script in which a name may have got another value has no estimate: neither that of the value that it had first nor
// that of a class or function of its own. Each change of a script makes it unknown.
func TestOwnNamesBoundAgain(t *testing.T) {
	const block, maps = "block_size = 128\n", "lm_dataset = tokenized.map("
	const loads = "from datasets import load_dataset\n"
	const collates, trains, args = "data_collator = D", "trainer.train()\n", "training_args = T"
	for script, changes := range map[string][][2]string{
		groupScript: {
			{block, block + "z = block_size = 4096\n"}, {block, block + "z, block_size = 1, 4096\n"},
			{block, block + "if z: block_size = 4096\n"}, {block, block + "from cfg import block_size\n"},
			{block, block + "from cfg import *\n"}, {block, block + "import cfg as block_size\n"},
			{block, block + "print(block_size := 4096)\n"}, {block, block + "def block_size(): pass\n"},
			{maps, "group_texts = other\n" + maps}, {maps, "z = group_texts = other\n" + maps},
			{maps, "from mine import group_texts\n" + maps}, {maps, "z = list = other\n" + maps},
			{maps, "from mine import range\n" + maps}, {collates, "z = lm_dataset = other\n" + collates},
			{collates, "z, lm_dataset = 1, other\n" + collates}, {collates, "from mine import lm_dataset\n" + collates},
			{collates, "import datasets\ndatasets.Dataset.map = other\n" + collates},
			{loads, loads + "import transformers\ntransformers.Trainer = other\n"},
			{loads, loads + "import builtins\nbuiltins.range = other\n"},
			{args, "from mine import Trainer\n" + args}, {args, "from mine import AutoModelForCausalLM\n" + args},
			{trains, trains + "trainer.evaluate(tokenized[\"test\"])\n"}, {trains, trains + "trainer.predict(other)\n"},
			{trains, trains + "trainer.evaluate(eval_dataset=tokenized[\"test\"])\n"},
			{trains, trains + "trainer.evaluate(*other)\n"}, {trains, trains + "f = trainer.evaluate\nf(tokenized)\n"},
			{trains, "lm_dataset = tokenized\n" + trains + "trainer.evaluate(lm_dataset[\"train\"])\n"},
		},
		wholeScript: {
			{"block_size = 256\n", "block_size = 256\nz = block_size = 4096\n"},
			{"train = texts", "z = rows = other\ntrain = texts"}, {"model = Auto", "z = train = other\nmodel = Auto"},
			{"from transformers import default_data_collator", "from mine import default_data_collator"},
			{"tok = Auto", "from mine import AutoTokenizer\ntok = Auto"},
		},
		ownScript: {
			{"\ndef main", "z = MODEL = \"other\"\n\ndef main"}, {"\ndef main", "from mine import *\n\ndef main"},
			{"\ndef main", "from mine import SFTTrainer\n\ndef main"},
			{"\ndef main", "from mine import MODEL\n\ndef main"},
			{"trainer.save_model", "trainer.evaluate(data)\n    trainer.save_model"},
		},
	} {
		if r, err := ownTraining(t, script); err != nil || r.unknown != "" {
			t.Fatal(r, err)
		}
		for _, change := range changes {
			t.Run(change[1], func(t *testing.T) {
				text := strings.Replace(script, change[0], change[1], 1)
				if text == script {
					t.Fatalf("%q is not in the script", change[0])
				}
				switch r, err := ownTraining(t, text); {
				case err != nil && !errors.Is(err, plugin.ErrNotMine):
					t.Fatal(err)
				case err == nil && r.unknown == "":
					t.Errorf("known, with rows of %d tokens", r.step.Length)
				}
			})
		}
	}
}

// What changes no name leaves an estimate.
func TestOwnNamesLeftAlone(t *testing.T) {
	const block, trains = "block_size = 128\n", "trainer.train()\n"
	for _, change := range [][2]string{
		{block, "from transformers import *\n" + block}, {block, block + "import cfg\n"},
		{block, block + "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n"},
		{trains, trains + "trainer.evaluate()\n"}, {trains, trains + "trainer.evaluate(lm_dataset[\"test\"])\n"},
		{trains, trains + "trainer.evaluate(metric_key_prefix=\"end\")\n"},
	} {
		r, err := ownTraining(t, strings.Replace(groupScript, change[0], change[1], 1))
		if err != nil || r.unknown != "" || r.step.Length != 128 {
			t.Errorf("%q: %v", change[1], err)
		}
	}
}

// The data of a script of one's own is not read.
func TestOwnDataIsNotRead(t *testing.T) {
	r, err := ownTraining(t, ownScript)
	if err != nil {
		t.Fatal(err)
	}
	const why = "the data was not read, since a script of one's own may do anything with it"
	if says := strings.Join(r.warnings, "\n"); !strings.Contains(says, why) || r.step.Length != 512 {
		t.Errorf("a batch has %d tokens, and %q says no %q", r.step.Length, says, why)
	}
}
