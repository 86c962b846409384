"""LLaMA-Factory's own DPO and pretraining, on the CPU, with small models: its run_dpo and run_pt, of data that have been
tokenised. Wants a Python with llamafactory, and the transformers, peft and trl that it pins."""

import os
import tempfile

import datasets
import torch
import transformers

import step_lm
import step_lm_trainer

import llamafactory.train.dpo.trainer as dpo_trainer
import llamafactory.train.dpo.workflow as dpo_workflow
import llamafactory.train.pt.trainer as pt_trainer
import llamafactory.train.pt.workflow as pt_workflow
from llamafactory.hparams import get_train_args

DEVICE = "cpu"


def built(a, folder):
    transformers.set_seed(0)
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    step_lm_trainer.tokenizer(config.vocab_size).save_pretrained(folder)
    return config.vocab_size


def pairs(n, length, vocab, padded):
    rows = []
    for i in range(n):
        ids = [2 + (i * 7 + j) % (vocab - 2) for j in range(2 * length)]
        row = {"images": None, "videos": None, "audios": None}
        for name, at, size in (("chosen", 0, length), ("rejected", length, length - (3 if padded else 0))):
            row |= {f"{name}_input_ids": ids[at:at + size], f"{name}_attention_mask": [1] * size, f"{name}_labels": ids[at:at + size]}
        rows.append(row)
    return rows


def texts(n, length, vocab, padded):
    ids = [[2 + (i * 7 + j) % (vocab - 2) for j in range(length - (3 if padded and i % 2 else 0))] for i in range(n)]
    return [{"input_ids": x, "attention_mask": [1] * len(x)} for x in ids]


def settings(a, folder, steps):
    out = {
        "model_name_or_path": folder, "stage": a["factory"], "do_train": True, "finetuning_type": "lora" if a.get("lora") else "full",
        "dataset": "none", "template": "default", "output_dir": os.path.join(folder, "out"), "cutoff_len": a["length"], "use_cpu": True,
        "per_device_train_batch_size": a["batch"], "gradient_accumulation_steps": a.get("accumulate", 1), "max_steps": steps,
        "optim": a["optimizer"], "report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
        "disable_gradient_checkpointing": not a.get("recompute"), "use_reentrant_gc": a.get("recompute") == "reentrant",
        "flash_attn": {"sdpa": "sdpa", "eager": "disabled"}[a["attention"]], "overwrite_output_dir": True, "remove_unused_columns": False,
    }
    if a.get("lora"):
        out |= {"lora_rank": a["lora"]["rank"], "lora_target": "all"}
        if a["lora"].get("whole"):
            out["additional_target"] = ",".join(a["lora"]["whole"])
    if a.get("evaluation"):
        out |= {"do_eval": True, "eval_dataset": "none", "per_device_eval_batch_size": a["batch"]}
    if a["factory"] == "dpo":
        out["pref_loss"] = a.get("loss", "sigmoid")
    return out


def evaluation(a, rec):
    """An evaluation of two batches after a step of training, when the optimizer's states are there."""
    return run(a, rec, 1, rec.steps(3))


def case(a, rec):
    return run(a, rec, 3)


def run(a, rec, steps, turns=None):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        vocab = built(a, folder)
        trainers, workflow, program, made = {
            "dpo": (dpo_trainer, dpo_workflow, "run_dpo", pairs), "pt": (pt_trainer, pt_workflow, "run_pt", texts)}[a["factory"]]
        rows = made(a["batch"] * a.get("accumulate", 1) * (2 if turns else steps), a["length"], vocab, a.get("padded"))
        name = "CustomDPOTrainer" if a["factory"] == "dpo" else "CustomTrainer"
        base = getattr(trainers, name)

        class Trainer(base):
            compute_loss = step_lm_trainer.recorded(base.compute_loss)

            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.rec = rec
                found.append(self.model)
                if getattr(self, "ref_model", None) is not None:
                    found.append(self.ref_model)
                rec.roots(*found)
                if turns:
                    next(turns)

            def prediction_step(self, *args, **kwargs):
                next(turns)
                rec.at("forward")
                return super().prediction_step(*args, **kwargs)

        model_args, data_args, training_args, finetuning_args, _ = get_train_args(settings(a, folder, steps))
        kept = workflow.get_dataset
        target = trainers if a["factory"] == "dpo" else workflow  # where the workflow looks its trainer up
        setattr(target, name, Trainer)
        data = datasets.Dataset.from_list(rows)
        workflow.get_dataset = lambda *_, **__: {"train_dataset": data, **({"eval_dataset": data} if turns else {})}
        try:
            getattr(workflow, program)(model_args, data_args, training_args, finetuning_args, callbacks=[] if turns else [step_lm_trainer.Steps(rec, steps)])
            if turns:
                next(turns, None)
        finally:
            setattr(target, name, base)
            workflow.get_dataset = kept
    return found


LORA = {"rank": 8, "targets": ["all-linear"]}


def cases(_):
    def row(name, batch=3, length=96, **more):
        config = step_lm.SMALL[name]
        if name == "gpt2":
            config = {**config, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        return step_lm.row(name, config, batch, length, **more)[1]

    for name in ("llama", "llama grouped", "qwen2", "qwen3", "mistral", "gemma"):
        for more in ({}, {"lora": LORA}, {"recompute": "reentrant"}, {"lora": LORA, "recompute": "reentrant"}):
            yield case, row(name, factory="dpo", **more)
        for more in ({}, {"lora": LORA, "recompute": "reentrant"}):
            yield case, row(name, factory="pt", **more)
    for name in ("llama grouped", "qwen3"):
        for more in ({"loss": "orpo"}, {"loss": "simpo", "lora": LORA}, {"loss": "ipo"}, {"padded": True}, {"lora": LORA, "padded": True},
                     {"accumulate": 2, "optim": "adamw_torch"}, {"lora": LORA, "accumulate": 2}, {"recompute": "plain"},
                     {"attention": "eager", "lora": LORA}):
            yield case, row(name, factory="dpo", **more)
        yield case, row(name, 1, 256, factory="dpo", lora=LORA)
        for more in ({"padded": True}, {"lora": LORA}, {"recompute": "reentrant"}):
            yield case, row(name, factory="pt", **more)
        for more in ({}, {"lora": LORA}, {"loss": "orpo"}):
            yield evaluation, row(name, factory="dpo", evaluation="loss", **more)
        yield evaluation, row(name, factory="pt", evaluation="loss")
    for name in ("llama", "qwen3"):
        for whole in (["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"]):
            yield case, row(name, factory="dpo", lora={**LORA, "whole": whole})
