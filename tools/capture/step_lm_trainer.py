"""transformers' Trainer itself, on the CPU, with small models: what step_lm.py writes out of it is held against this."""

import tempfile

import torch
import transformers

import step_lm

DEVICE = "cpu"


class Recorded(transformers.Trainer):
    """Says to the recorder where it is."""

    rec = None

    def compute_loss(self, *args, **kwargs):
        if self.model.training:
            self.rec.at("forward")
        out = super().compute_loss(*args, **kwargs)
        if self.model.training:
            self.rec.at("backward")
        return out


class Steps(transformers.TrainerCallback):
    def __init__(self, rec, steps):
        self.rec, self.turns = rec, rec.steps(steps)

    def on_step_begin(self, *_, **__):
        next(self.turns)
        self.rec.at("batch")

    def on_pre_optimizer_step(self, *_, **__):
        self.rec.at("optimizer")

    def on_step_end(self, args, state, control, **_):
        if state.global_step == state.max_steps:
            next(self.turns, None)


class Tokens(torch.utils.data.Dataset):
    def __init__(self, n, length, vocab):
        self.n, self.length, self.vocab = n, length, vocab

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        ids = torch.randint(self.vocab, (self.length,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def case(a, rec):
    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=a["attention"], dtype=step_lm.TYPES[a["weights"]])
        if a.get("lora"):
            import peft

            model = peft.get_peft_model(model, peft.LoraConfig(
                r=a["lora"]["rank"], target_modules=a["lora"]["targets"], task_type="CAUSAL_LM"))
        steps = 3
        Recorded.rec = rec
        args = transformers.TrainingArguments(
            out, use_cpu=True, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_accumulation_steps=a.get("accumulate", 1), activation_checkpointing=bool(a.get("recompute")),
            save_strategy="no", logging_strategy="no", disable_tqdm=True)
        rec.roots(model)
        data = Tokens(a["batch"] * a.get("accumulate", 1) * steps, a["length"], config.vocab_size)
        Recorded(model, args, train_dataset=data, callbacks=[Steps(rec, steps)]).train()
    return [model]


def cases(_):
    for name, config in step_lm.SMALL.items():
        if name == "gpt2":
            config = {**config, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        for more in ({}, {"attention": "eager"}, {"optim": "adamw_torch", "accumulate": 2}, {"recompute": "plain"},
                     {"lora": {"rank": 8, "targets": ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]}}):
            _, a = step_lm.row(name, config, 4, 96, **more)
            yield case, a
