"""LLaMA-Factory's own supervised fine-tuning on the CPU: its parser, its loader, its collator and its trainer, as `llamafactory-cli
train` runs them (train/tuner.py, run_exp), with a small model and a data set made here.

Without an accelerator it computes in float32, whatever the configuration names (extras/misc.py, infer_optim_dtype).
"""

import json
import os
import tempfile

import transformers
from llamafactory.train.sft import trainer as factory
from llamafactory.train.tuner import run_exp
from tokenizers import pre_tokenizers

import step_lm
import step_lm_trainer

DEVICE = "cpu"
STEPS = 3

factory.CustomSeq2SeqTrainer.rec = None
factory.CustomSeq2SeqTrainer.compute_loss = step_lm_trainer.recorded(factory.CustomSeq2SeqTrainer.compute_loss)


class Steps(step_lm_trainer.Steps):
    def on_train_begin(self, *_, model=None, **__):
        self.model = model
        self.rec.roots(model)


def model(a, folder):
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    words = step_lm_trainer.tokenizer(config.vocab_size)
    words.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save_pretrained(folder)
    config.pad_token_id, config.eos_token_id = 0, 1
    transformers.set_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def data(a, folder):
    """Rows of the length; where some are padded, every second is shorter. No word begins as a special token, which would divide it."""
    text = lambda n, i: " ".join(f"w{200 + (i * 7 + j) % 300}" for j in range(n))  # noqa: E731
    rows = [{"instruction": text(20, i), "input": "", "output": text(a["length"] - (48 if a.get("padded") and i % 2 else 20), i)}
            for i in range(a["batch"] * a.get("accumulate", 1) * STEPS)]
    os.makedirs(folder)
    with open(os.path.join(folder, "dataset_info.json"), "w", encoding="utf-8") as f:
        json.dump({"rows": {"file_name": "rows.json"}}, f)
    with open(os.path.join(folder, "rows.json"), "w", encoding="utf-8") as f:
        json.dump(rows, f)


def case(a, rec):
    with tempfile.TemporaryDirectory() as root:
        model(a, os.path.join(root, "model"))
        data(a, os.path.join(root, "data"))
        settings = {
            "model_name_or_path": os.path.join(root, "model"), "dataset_dir": os.path.join(root, "data"), "dataset": "rows",
            "stage": "sft", "do_train": True, "template": "empty", "cutoff_len": a["length"], "output_dir": os.path.join(root, "out"),
            "finetuning_type": "lora" if a.get("lora") else "full", "use_cpu": True, "max_steps": STEPS,
            "per_device_train_batch_size": a["batch"], "gradient_accumulation_steps": a.get("accumulate", 1),
            "optim": a["optimizer"], "disable_gradient_checkpointing": not a.get("recompute"),
            "use_reentrant_gc": a.get("recompute") != "plain", "flash_attn": "disabled" if a["attention"] == "eager" else "auto",
            "disable_shuffling": True, "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "report_to": "none"}
        if a.get("lora"):
            settings.update(lora_rank=a["lora"]["rank"], lora_target=",".join(a["lora"]["targets"]).replace("all-linear", "all"))
            if a["lora"].get("whole"):
                settings["additional_target"] = ",".join(a["lora"]["whole"])
        factory.CustomSeq2SeqTrainer.rec = rec
        steps = Steps(rec, STEPS)
        run_exp(settings, callbacks=[steps])
    return [steps.model]


def cases(_):
    every = {"rank": 8, "targets": ["all-linear"]}
    for name in ("llama", "llama grouped", "qwen2", "qwen3"):
        for more in ({}, {"recompute": "reentrant"}, {"lora": every}, {"lora": every, "recompute": "reentrant"},
                     {"recompute": "reentrant", "padded": True}):
            _, a = step_lm.row(name, step_lm.SMALL[name], 4, 96, **more)
            yield case, a
    for more in ({"attention": "eager"}, {"accumulate": 2, "recompute": "reentrant"}, {"optim": "adamw_torch", "recompute": "plain"},
                 {"lora": {"rank": 16, "targets": ["q_proj", "v_proj"]}, "padded": True}):
        _, a = step_lm.row("llama grouped", step_lm.SMALL["llama grouped"], 4, 96, **more)
        yield case, a
    for name in ("llama", "qwen3"):
        for whole in (["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"]):
            _, a = step_lm.row(name, step_lm.SMALL[name], 4, 96, lora={**every, "whole": whole}, recompute="reentrant")
            yield case, a
