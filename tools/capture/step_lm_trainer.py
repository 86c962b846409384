"""transformers' Trainer itself, on the CPU, with small models: what step_lm.py writes out of it is held against this."""

import contextlib
import json
import os
import runpy
import sys
import tempfile

import torch
import transformers

import step_lm

DEVICE = "cpu"
NEW = int(transformers.__version__.split(".")[0]) >= 5
CHOOSES = tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 36)  # attn_implementation; before, all is eager
EAGER = {} if CHOOSES else {"attention": "eager"}
CPU = "use_cpu" if "use_cpu" in transformers.TrainingArguments.__dataclass_fields__ else "no_cuda"
CHECKPOINTING = "activation_checkpointing"
if CHECKPOINTING not in transformers.TrainingArguments.__dataclass_fields__:
    CHECKPOINTING = "gradient_checkpointing"


def recorded(compute_loss):
    """compute_loss that says to the recorder where it is."""

    def around(self, *args, **kwargs):
        if self.model.training:
            self.rec.at("forward")
        out = compute_loss(self, *args, **kwargs)
        if self.model.training:
            self.rec.at("backward")
        return out

    return around


class Recorded(transformers.Trainer):
    rec = None
    compute_loss = recorded(transformers.Trainer.compute_loss)


class Steps(transformers.TrainerCallback):
    def __init__(self, rec, steps):
        self.rec, self.turns, self.hooked = rec, rec.steps(steps), None

    def on_step_begin(self, *_, optimizer=None, **__):
        next(self.turns)
        self.rec.at("batch")
        if not hasattr(transformers.TrainerCallback, "on_pre_optimizer_step") and not self.hooked:  # before 4.46
            self.hooked = optimizer.optimizer.register_step_pre_hook(lambda *_: self.rec.at("optimizer"))

    def on_pre_optimizer_step(self, *_, **__):
        self.rec.at("optimizer")

    def on_step_end(self, args, state, control, **_):
        if state.global_step == state.max_steps:
            next(self.turns, None)


class Tokens(torch.utils.data.Dataset):
    def __init__(self, n, length, vocab, padded):
        self.n, self.length, self.vocab, self.padded = n, length, vocab, padded

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        ids = torch.randint(self.vocab, (self.length,), generator=torch.Generator().manual_seed(i))
        mask = torch.ones_like(ids)
        if self.padded and i % 2:
            mask[-1] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def tokenizer(vocab):
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(vocab)}, unk_token="w0"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1", unk_token="w0")


def sft(a, rec):
    """trl's SFTTrainer, of sequences that have been tokenised."""
    import datasets
    import peft
    import trl

    class Trainer(trl.SFTTrainer):
        rec = None
        compute_loss = recorded(trl.SFTTrainer.compute_loss)

    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=a["attention"], **{step_lm.DTYPE: step_lm.TYPES[a["weights"]]})
        steps, n, length = 3, a["batch"] * a.get("accumulate", 1), a["length"]
        args = trl.SFTConfig(
            out, use_cpu=True, bf16=False, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_accumulation_steps=a.get("accumulate", 1), gradient_checkpointing=bool(a.get("recompute")), max_length=length,
            save_strategy="no", logging_strategy="no", disable_tqdm=True, dataset_kwargs={"skip_prepare_dataset": True},
            **({"router_aux_loss_coef": 0.0} if hasattr(config, "output_router_logits") and not a.get("balanced") else {}))
        lora = a.get("lora") and peft.LoraConfig(
            r=a["lora"]["rank"], target_modules=a["lora"]["targets"], lora_dropout=0.0, task_type="CAUSAL_LM",
            modules_to_save=a["lora"].get("whole"))
        rows = [{"input_ids": [2 + (i * 7 + j) % 300 for j in range(length)]} for i in range(n * steps)]
        Trainer.rec = rec
        trainer = Trainer(model, args, train_dataset=datasets.Dataset.from_list(rows), processing_class=tokenizer(config.vocab_size),
                          peft_config=lora or None, callbacks=[Steps(rec, steps)])
        rec.roots(trainer.model)
        trainer.train()
    return [trainer.model]


# A script of one's own, as plugins/lm reads it: texts of different lengths, one call of a tokenizer that cuts them.
SCRIPT = """
import datasets
import torch
from peft import LoraConfig, get_peft_model
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments,
                          default_data_collator)

tokenizer = AutoTokenizer.from_pretrained("model")

def tokenize(batch):
    rows = tokenizer(batch["text"], truncation=True, max_length=LENGTH, padding=PADDING)
    LABELS
    return rows

data = datasets.Dataset.from_dict({"text": [" ".join(f"w{2 + (i * 7 + j) % 300}" for j in range(2 * LENGTH if i % 2 <= LONG else LENGTH // 2))
                                            for i in range(ROWS)]})
data = data.map(tokenize, batched=True, remove_columns=["text"])
model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.WEIGHTS, attn_implementation="sdpa")
ADAPTERS
args = TrainingArguments(
    output_dir="out", use_cpu=True, max_steps=3, per_device_train_batch_size=BATCH, gradient_accumulation_steps=ACCUMULATE,
    gradient_checkpointing=RECOMPUTE, optim="OPTIM", bf16=False, report_to="none", save_strategy="no", logging_strategy="no",
    disable_tqdm=True)
trainer = Trainer(model=model, args=args, train_dataset=data, data_collator=COLLATOR)
trainer.train()
"""


def own(a, rec):
    """A script of one's own, run as it stands with a Trainer that records: "own" is how it pads, by the collator ("longest") or
    by the tokenizer ("max_length"). The first row of each batch is the longest, or, of a batch of one row, none is."""
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    lora = a.get("lora")
    whole, n = a["own"] == "max_length", a["batch"] * a.get("accumulate", 1) * 3
    script = SCRIPT
    for mark, text in {
        "LENGTH": a["length"], "PADDING": repr("max_length" if whole else False), "ROWS": n, "BATCH": a["batch"],
        "LONG": 0 if n > 3 else -1 if whole else 1, "ACCUMULATE": a.get("accumulate", 1), "RECOMPUTE": bool(a.get("recompute")),
        "WEIGHTS": str(step_lm.TYPES[a["weights"]])[6:], "OPTIM": a["optimizer"],
        "LABELS": 'rows["labels"] = [list(row) for row in rows["input_ids"]]' if whole else "",
        "COLLATOR": "default_data_collator" if whole else "DataCollatorForLanguageModeling(tokenizer, mlm=False)",
        "ADAPTERS": f'model = get_peft_model(model, LoraConfig(r={lora["rank"]}, target_modules={json.dumps(lora["targets"])}, '
                    'task_type="CAUSAL_LM"))' if lora else "",
    }.items():
        script = script.replace(mark, str(text))
    made = []

    class Trainer(Recorded):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, callbacks=[Steps(rec, 3)], **kwargs)
            self.rec = rec
            rec.roots(self.model)
            made.append(self.model)

    library = sys.modules["transformers"]  # which a script imports from: the module above is another object
    before, plain = os.getcwd(), library.Trainer
    transformers.set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            transformers.AutoModelForCausalLM.from_config(config).save_pretrained("model")
            tokenizer(config.vocab_size).save_pretrained("model")
            with open("mine.py", "w", encoding="utf-8") as f:
                f.write(script)
            library.Trainer = Trainer
            runpy.run_path("mine.py", run_name="__main__")
        finally:
            library.Trainer = plain
            os.chdir(before)
    return made


def case(a, rec):
    if a.get("trl"):
        return sft(a, rec)
    if a.get("own"):
        return own(a, rec)
    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        how = {"attn_implementation": a["attention"]} if CHOOSES else {}
        model = transformers.AutoModelForCausalLM.from_config(config, **how, **{step_lm.DTYPE: step_lm.TYPES[a["weights"]]})
        if a.get("lora"):
            import peft

            model = peft.get_peft_model(model, peft.LoraConfig(
                r=a["lora"]["rank"], target_modules=a["lora"]["targets"], task_type="CAUSAL_LM",
                modules_to_save=a["lora"].get("whole")))
        steps = 3
        Recorded.rec = rec
        args = transformers.TrainingArguments(
            out, **{CPU: True}, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_accumulation_steps=a.get("accumulate", 1), **{CHECKPOINTING: bool(a.get("recompute"))},
            save_strategy="no", logging_strategy="no", disable_tqdm=True)
        rec.roots(model)
        data = Tokens(a["batch"] * a.get("accumulate", 1) * steps, a["length"], config.vocab_size, a.get("padded"))
        # "math": what a card does that has no fused kernel for groups of heads
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH) if a.get("math") else contextlib.nullcontext():
            Recorded(model, args, train_dataset=data, callbacks=[Steps(rec, steps)]).train()
    return [model]


def cases(_):
    for name, config in step_lm.SMALL.items():
        if name == "phi" and transformers.__version__ < "4.37" or name == "llama grouped" and transformers.__version__ < "4.31":
            continue  # of other modules, or not grouped
        if name == "gpt2":
            config = {**config, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        for more in ({}, {"attention": "eager"}, {"optim": "adamw_torch", "accumulate": 2},
                     {"recompute": "plain" if NEW else "reentrant"},  # the default
                     {"lora": {"rank": 8, "targets": ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]}}, {"padded": True}):
            if "padded" in more and name == "phi":
                continue
            if CHOOSES or more:
                _, a = step_lm.row(name, config, 4, 96, **{**more, **EAGER})
                yield case, a
        for more in (not NEW) * ({}, *[{"attention": "eager"}] * CHOOSES, {"lora": {"rank": 8, "targets": ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]}}):
            if transformers.__version__ < "4.31":
                continue  # norms of another kind
            _, a = step_lm.row(name, config, 4, 96, weights="bf16", **{**more, **EAGER})  # logits that the loss wants in float32
            yield case, a
        for more in NEW * ({}, {"recompute": "plain"}, {"lora": {"rank": 8, "targets": ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]}},
                     {"recompute": "plain", "lora": {"rank": 8, "targets": ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]}}):
            _, a = step_lm.row(name, config, 4, 96, trl=True, **more)
            yield case, a
    for name in NEW * ("llama grouped", "qwen3"):
        config, lora = step_lm.SMALL[name], {"rank": 8, "targets": ["q_proj", "v_proj"]}
        recompute = {"recompute": "plain", "own": "longest", "padded": True}
        for batch, more in ((4, {}), (4, {"accumulate": 2, "optim": "adamw_torch"}), (4, {"weights": "bf16"}), (4, {"lora": lora}),
                            (4, {"lora": lora, "weights": "bf16"}), (4, recompute), (4, {**recompute, "lora": lora}),
                            (4, {"own": "max_length"}), (1, {"own": "max_length"}), (1, {"padded": False})):
            _, a = step_lm.row(name, config, batch, 96, **{"own": "longest", "padded": True, **more})
            yield case, a
    for name in NEW * ("llama grouped", "qwen2", "qwen3", "gemma"):
        lora = {"rank": 8, "targets": ["q_proj", "v_proj"]}
        for more in ({}, {"weights": "bf16"}, {"recompute": "plain"}, {"recompute": "plain", "weights": "bf16"}, {"lora": lora},
                     {"lora": lora, "weights": "bf16"}, {"lora": lora, "weights": "bf16", "recompute": "plain"},
                     {"optim": "adamw_torch", "accumulate": 2}):
            _, a = step_lm.row(name, step_lm.SMALL[name], 4, 96, math=True, **more)
            yield case, a
