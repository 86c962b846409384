"""Modules that peft trains whole beside adapters (modules_to_save): by the Trainer, trl's SFTTrainer and DPOTrainer, and with
quantised weights, on the CPU with small models."""

import step_lm
import step_lm_dpo
import step_lm_forms
import step_lm_trainer

DEVICE = "cpu"
BOTH = ["embed_tokens", "lm_head"]


def cases(_):
    def row(name, whole, batch=4, length=96, targets=("q_proj", "v_proj"), lora=None, **more):
        lora = {"rank": 8, "targets": list(targets), "whole": whole, **(lora or {})}
        return step_lm.row(name, step_lm.SMALL[name], batch, length, lora=lora, **more)[1]

    for name in ("llama", "llama grouped", "mistral", "qwen3", "gemma"):
        for whole in (["embed_tokens"], ["lm_head"], BOTH):
            yield step_lm_trainer.case, row(name, whole)
            yield step_lm_trainer.case, row(name, whole, trl=True, recompute="plain")
        for more in ({"weights": "bf16"}, {"accumulate": 2, "optim": "adamw_torch"}, {"padded": True}, {"trl": True, "weights": "bf16"}):
            yield step_lm_trainer.case, row(name, BOTH, **more)
        every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        for quant, weights, lora, more in (
                ({"bits": 4, "compute": "fp32"}, "fp32", None, {}),
                ({"bits": 4, "compute": "bf16", "nested": True, "prepared": True}, "bf16", {"whole_type": "fp32"}, {"recompute": "plain"}),
                ({"bits": 4, "compute": "bf16"}, "bf16", {"type": "bf16"}, {"recompute": "reentrant"}),
                ({"bits": 8}, "bf16", None, {}), ({"bits": 8}, "bf16", None, {"optim": "adamw_bnb_8bit"})):
            yield step_lm_forms.case, row(name, BOTH, targets=every, weights=weights, quant=quant, lora=lora, **more)
    for name in ("llama", "llama grouped", "mistral", "qwen3", "gemma"):  # last: its rows set trl's own tile
        for whole in (["embed_tokens"], ["lm_head"], BOTH):
            yield step_lm_dpo.case, row(name, whole, 3, preference=True, tile=128)
