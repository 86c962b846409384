"""Language models: transformers' own classes, peft's adapters, and the lines of Trainer that touch the card.

No checkouts: transformers, peft, accelerate and trl are those of the Python that runs this (trainer.py:2043, training_step;
trainer.py:2122, compute_loss; trainer.py:1928, the optimizer's step; of transformers 5.23.0). Whether a mask has ones alone is
said to masking_utils.py (fast_all), which would read its values, and there are none on the meta device.
"""

import contextlib
import json
import sys

import measure
import torch
import torch.nn.functional as F
import track
import transformers
from accelerate.utils import convert_outputs_to_fp32

try:
    from transformers import masking_utils
except ImportError:  # before 4.53
    masking_utils = None
try:
    from transformers import modeling_attn_mask_utils
except ImportError:
    modeling_attn_mask_utils = None

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

NEW = int(transformers.__version__.split(".")[0]) >= 5
# What from_config calls the type of the weights: torch_dtype before 4.56.
DTYPE = "dtype" if tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 56) else "torch_dtype"

COUNTS = hasattr(transformers.Trainer, "get_batch_samples")  # since 4.46 losses are sums over the number of tokens


class Attention(torch.autograd.Function):
    """What the fused kernels save: q, k, v, the mask, the result, and the log-sum-exp in float32. Keys and values may have
    fewer heads. FlashAttention, of half types without a mask, lays out its result as q (mha_fwd in
    native/transformers/cuda/flash_attn/flash_api.cpp)."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        b, h, n, _ = q.shape
        if mask is None and q.dtype != torch.float32:
            out = torch.empty_like(q)
        else:
            out = torch.empty(b, n, h, v.shape[-1], dtype=q.dtype, device=q.device).transpose(1, 2)
        lse = torch.empty(b, h, n, dtype=torch.float32, device=q.device)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, _mask, _out, _lse = ctx.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), None


def sdpa(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    for mode in reversed(measure.ACTIVE):
        if mode.on:
            q, k, v = mode.cast((q, k, v), mode.low)
    groups = enable_gqa and k.shape[1] < q.shape[1]  # asked for with as many heads it is nothing (sdp_utils_cpp.h)
    if groups and q.dtype == torch.float32:  # no fused kernel takes groups of heads: see GroupedMathSDPA in core/nn
        return torch.ops.aten._scaled_dot_product_attention_math(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True)[0]
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:  # convert_boolean_attn_mask in native/transformers/attention.cpp
            made = torch.zeros_like(attn_mask, dtype=q.dtype)
            made.masked_fill_(attn_mask.logical_not(), float("-inf"))
            attn_mask = made
        attn_mask = attn_mask.expand(*q.shape[:-1], k.shape[-2])
    return Attention.apply(q, k, v, attn_mask)


def fused_on_meta():
    """Lets torch take its fused optimizers on the meta device."""
    names = [*torch.utils._foreach_utils._get_fused_kernels_supported_devices(), "meta"]
    for name in ("torch.optim.adam", "torch.optim.adamw", "torch.optim.optimizer", "torch.utils._foreach_utils"):
        module = sys.modules.get(name)
        if hasattr(module, "_get_fused_kernels_supported_devices"):
            module._get_fused_kernels_supported_devices = lambda: names


def optimizer(a, model):
    """Trainer.create_optimizer: those that require a gradient, in two groups of weight decay."""
    params = [p for p in model.parameters() if p.requires_grad]
    if a["optimizer"] == "adamw_torch_fused":
        fused_on_meta()
        return torch.optim.AdamW(params, 1e-3, fused=True)
    return torch.optim.AdamW(params, 1e-3, foreach=True)


def build(a):
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    if not NEW and config.model_type == "phi" and a.get("lora") and a.get("recompute"):
        raise NotImplementedError("it has no formula")
    if NEW:
        config.use_cache = False  # trainer.py:646
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=a["attention"], **{DTYPE: TYPES[a["weights"]]})
    for name, module in model.named_modules():  # _convert_embedding_modules_dtype (loaders/model.py:1153 of axolotl 0.19.0)
        gate = a.get("router") and name.endswith(".gate")
        if gate or a.get("upcast") and ("norm" in name or "embed_tokens" in name or "lm_head" in name):
            module.to(torch.float32)
    if a.get("recompute"):
        model.gradient_checkpointing_enable({"use_reentrant": a["recompute"] == "reentrant"})
    if a.get("lora"):
        import peft

        lora = a["lora"]
        targets = lora["targets"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=lora["rank"], target_modules=targets[0] if len(targets) == 1 and targets[0] == "all-linear" else targets,
            lora_dropout=lora.get("dropout", 0.0), task_type="CAUSAL_LM", modules_to_save=lora.get("whole")))
        model.to("meta")
    return model.train()


def prepared(a):
    """The model, its forward as accelerate prepares it, and the optimizer."""
    F.scaled_dot_product_attention = sdpa
    if NEW:
        masking_utils.fast_all = lambda _mask: not a.get("padded")
    else:
        torch.autocast = lambda *_, **__: contextlib.nullcontext()  # that of the rotary embedding knows no meta device

        def whole(*args, sliding_window=None, **_):
            window = args[4] if len(args) > 4 else sliding_window
            return not a.get("padded") and (window is None or a["length"] < window)

        modeling_attn_mask_utils.AttentionMaskConverter._ignore_causal_mask_sdpa = staticmethod(whole)
        if masking_utils:
            masking_utils._ignore_causal_mask_sdpa = whole
    model = build(a)
    inner = model.forward

    def forward(*args, **kwargs):
        with track.autocast(a["precision"]):
            return inner(*args, **kwargs)

    if a["precision"] != "fp32":  # accelerator.prepare_model
        forward = convert_outputs_to_fp32(forward)
    return model, forward, optimizer(a, model)


def batch(a, n=None):
    return {k: torch.empty(n or a["batch"], a["length"], dtype=torch.long, device="meta")
            for k in ("input_ids", "attention_mask", "labels")}


def case(a, rec):
    model, forward, opt = prepared(a)
    rec.roots(model)
    count = {"num_items_in_batch": torch.empty((), dtype=torch.long, device="meta")} if COUNTS else {}

    def compute_loss(inputs):
        outputs = forward(**inputs, **count)
        return outputs["loss"]

    def training_step():
        rec.at("batch")
        inputs = batch(a)
        rec.at("forward")
        loss = compute_loss(inputs)
        del inputs
        rec.at("backward")
        loss.backward()
        return loss.detach()

    for _ in rec.steps(3):
        for _ in range(a.get("accumulate", 1)):
            training_step()
        rec.at("optimizer")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        model.zero_grad()
    return [model]


def evaluation(a, rec):
    """Trainer.prediction_step (trainer.py:3185) after a step of training with one sequence."""
    model, forward, opt = prepared(a)
    rec.roots(model)

    def prediction_step(inputs):
        with torch.no_grad():
            outputs = forward(**inputs)
            loss = outputs["loss"].detach().mean()
            logits = outputs["logits"] if a["evaluation"] == "predicted" else None
        return loss, logits

    for i in rec.steps(3):
        rec.at("batch")
        if i == 0:
            forward(**batch(a, 1))["loss"].backward()
            opt.step()
            model.zero_grad()
            model.eval()
            continue
        inputs = batch(a)
        rec.at("forward")
        loss, logits = prediction_step(inputs)
        if logits is not None:
            logits = logits.argmax(dim=-1)
        loss.repeat(a["batch"])
        del loss, logits, inputs
    return [model]


SMALL = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 1000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "llama": {"model_type": "llama", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512},
    "llama grouped": {"model_type": "llama", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
                      "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 448, "num_hidden_layers": 2,
                "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": 64},
    "qwen2": {"model_type": "qwen2", "vocab_size": 3000, "hidden_size": 112, "intermediate_size": 304, "num_hidden_layers": 3,
              "num_attention_heads": 7, "num_key_value_heads": 1, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "vocab_size": 3000, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": True},
    "gemma": {"model_type": "gemma", "vocab_size": 4000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64},
    "phi": {"model_type": "phi", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3,
            "num_attention_heads": 4},
}

# The shapes of public models, from their config.json on huggingface.co.
LARGE = {
    "gpt2": {"model_type": "gpt2"},
    "gpt2-xl": {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25},
    "Llama-3.2-1B": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True},
    "TinyLlama-1.1B": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
                       "num_attention_heads": 32, "num_key_value_heads": 4},
    "Llama-2-7b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "num_key_value_heads": 32},
    "Mistral-7B-v0.1": {"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
                        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096},
    "Qwen2.5-0.5B": {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
                     "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "Qwen3-0.6B": {"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True},
    "gemma-2b": {"model_type": "gemma", "vocab_size": 256000, "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
                 "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256},
    "phi-2": {"model_type": "phi", "vocab_size": 51200, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
              "num_attention_heads": 32, "partial_rotary_factor": 0.4},
}


def row(name, config, batch, length, precision="fp32", weights="fp32", attention="sdpa", optim="adamw_torch_fused", **more):
    return case, {"name": name, "config": config, "batch": batch, "length": length, "precision": precision, "weights": weights,
                  "attention": attention, "optimizer": optim, **more}


def cases(_):
    for name, config in SMALL.items():
        yield row(name, config, 4, 96)
        yield row(name, config, 2, 128, "bf16", optim="adamw_torch")
        yield row(name, config, 4, 96, weights="bf16")
        yield row(name, config, 4, 96, attention="eager")
        yield row(name, config, 2, 128, "bf16", attention="eager")
        yield row(name, config, 4, 128, "bf16", recompute="plain", accumulate=2)
        if name != "gpt2":
            yield row(name, config, 4, 96, "bf16", padded=True)
        targets = ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj"]
        yield row(name, config, 4, 96, lora={"rank": 8, "targets": targets})
        yield row(name, config, 4, 96, "bf16", weights="bf16", lora={"rank": 16, "targets": ["all-linear"], "dropout": 0.05})
    for name in ("gpt2", "llama grouped"):
        yield row(name, SMALL[name], 4, 128, "fp16")
        yield row(name, SMALL[name], 4, 128, "fp16", attention="eager")
    for name in ("gpt2", "llama", "qwen3"):
        yield row(name, SMALL[name], 4, 128, recompute="reentrant")
        yield row(name, SMALL[name], 4, 128, "bf16", recompute="plain", attention="eager")
        yield row(name, SMALL[name], 4, 128, optim="adamw_torch", accumulate=4)
    for name in ("llama", "llama grouped", "qwen3", "phi"):
        lora = {"rank": 8, "targets": ["all-linear"]}
        for padded in (False, True):
            yield row(name, SMALL[name], 4, 128, "bf16", "bf16", recompute="reentrant", lora=lora, padded=padded)
    for name in ("gpt2", "llama grouped", "qwen3", "gemma"):
        for kind in ("loss", "predicted"):
            for precision in ("fp32", "bf16"):
                a = row(name, SMALL[name], 8, 96, precision, evaluation=kind)[1]
                yield evaluation, a
        yield evaluation, row(name, SMALL[name], 8, 96, attention="eager", evaluation="loss")[1]
    for name in ("llama", "llama grouped", "qwen3", "gemma"):  # modules that are trained whole beside adapters
        for whole in (["embed_tokens"], ["embed_tokens", "lm_head"]):
            lora = {"rank": 8, "targets": ["all-linear"], "whole": whole}
            yield row(name, SMALL[name], 4, 96, "bf16", lora=lora)
            yield row(name, SMALL[name], 4, 96, "bf16", "bf16", recompute="reentrant", lora=lora, accumulate=2)
    for name, config in LARGE.items():
        yield row(name, config, 2, 1024, "bf16")
        yield row(name, config, 1, 1024, weights="bf16", recompute="plain")
        if "7" in name:
            yield row(name, config, 4, 2048, "bf16", weights="bf16", recompute="plain", lora={"rank": 16, "targets": ["all-linear"]})


if __name__ == "__main__":
    print(json.dumps([a for _, a in cases(None)], indent=1))
