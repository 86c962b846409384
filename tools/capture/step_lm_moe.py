"""Mixtures of experts, as step_lm.py has the other models: transformers' own classes on the meta device, with the experts that
transformers takes unless it is told otherwise (grouped_mm in integrations/moe.py, transformers 5.23.0).

Tokens are sorted by their expert, and the products are of all of them at once: no size depends on which expert a token goes to.
grouped_mm is on none of autocast's lists (torch 2.15), so that experts compute in the type of their weights.
"""

import torch

import measure
import step_lm

# Autocast passes dtype=float32 to a sum of a half tensor, which a card's kernel reads as it is (fp32_set_opt_dtype in
# autocast_mode.h, make_reduction_from_out_ty in native/ReduceOpsUtils.h): no copy is made.
REAL_SUM = torch.Tensor.sum


def sum_as_autocast(x, *args, **kwargs):
    if any(mode.on for mode in measure.ACTIVE) and x.dtype in (torch.float16, torch.bfloat16):
        kwargs.setdefault("dtype", torch.float32)
    return REAL_SUM(x, *args, **kwargs)


torch.Tensor.sum = sum_as_autocast

SMALL = {
    "mixtral": {"model_type": "mixtral", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 224, "num_hidden_layers": 3,
                "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "mixtral window": {"model_type": "mixtral", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 320, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "num_key_value_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 1,
                       "sliding_window": 64},
    "qwen3_moe": {"model_type": "qwen3_moe", "vocab_size": 3000, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 4,
                  "moe_intermediate_size": 96, "norm_topk_prob": True},
    "qwen3_moe mixed": {"model_type": "qwen3_moe", "vocab_size": 2000, "hidden_size": 64, "intermediate_size": 320, "num_hidden_layers": 4,
                        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2,
                        "moe_intermediate_size": 160, "decoder_sparse_step": 2, "mlp_only_layers": [3], "tie_word_embeddings": True},
    "qwen3_moe many": {"model_type": "qwen3_moe", "vocab_size": 200, "hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 16, "num_experts_per_tok": 8,
                       "moe_intermediate_size": 32},
    "qwen2_moe": {"model_type": "qwen2_moe", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3,
                  "num_attention_heads": 4, "num_key_value_heads": 4, "num_experts": 6, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 96, "shared_expert_intermediate_size": 256},
    "olmoe": {"model_type": "olmoe", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_experts": 8, "num_experts_per_tok": 4},
}

# The shapes of public models, from their config.json on huggingface.co.
LARGE = {
    "Mixtral-8x7B-v0.1": {"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
                          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
                          "num_experts_per_tok": 2},
    "Qwen3-30B-A3B": {"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
                      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
                      "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True},
}

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def cases(_):
    row = step_lm.row
    for name, config in SMALL.items():
        yield row(name, config, 4, 96)
        yield row(name, config, 2, 128, "bf16", optim="adamw_torch")
        yield row(name, config, 4, 96, weights="bf16")
        yield row(name, config, 4, 96, "bf16", weights="bf16")
        yield row(name, config, 4, 96, attention="eager")
        yield row(name, config, 4, 128, "bf16", recompute="plain", accumulate=2)
        yield row(name, config, 4, 128, weights="bf16", recompute="reentrant")
        yield row(name, config, 4, 96, "bf16", padded=True)
        yield row(name, config, 4, 96, lora={"rank": 8, "targets": ["q_proj", "v_proj"]})
        yield row(name, config, 4, 96, "bf16", weights="bf16", lora={"rank": 16, "targets": ATTENTION, "dropout": 0.05})
        for how in ("plain", "reentrant"):
            yield row(name, config, 4, 128, "bf16", "bf16", recompute=how, lora={"rank": 8, "targets": ATTENTION}, padded=how == "plain")
        for kind in ("loss", "predicted"):
            for precision in ("fp32", "bf16"):
                yield step_lm.evaluation, row(name, config, 8, 96, precision, evaluation=kind)[1]
        yield step_lm.evaluation, row(name, config, 8, 96, "bf16", "bf16", evaluation="loss")[1]
    for name in ("mixtral", "qwen3_moe", "qwen2_moe"):  # as axolotl loads them: the router is float32
        config = SMALL[name]
        for more in ({}, {"recompute": "reentrant"}, {"recompute": "plain", "accumulate": 2}, {"optim": "adamw_torch", "padded": True},
                     {"lora": {"rank": 8, "targets": ["q_proj", "v_proj"]}}, {"lora": {"rank": 8, "targets": ATTENTION}, "recompute": "reentrant"},
                     {"upcast": True}, {"upcast": True, "recompute": "reentrant"}, {"upcast": True, "recompute": "plain", "accumulate": 2}):
            yield row(name, config, 4, 96, "bf16", "bf16", router=True, **more)
    for name, config in LARGE.items():
        yield row(name, config, 1, 1024, "bf16")
        yield row(name, config, 1, 1024, weights="bf16", recompute="plain")
        yield row(name, config, 2, 2048, "bf16", weights="bf16", recompute="plain", lora={"rank": 16, "targets": ATTENTION})
        yield row(name, config, 2, 1024, "bf16", weights="bf16", lora={"rank": 8, "targets": ["q_proj", "v_proj"]})
