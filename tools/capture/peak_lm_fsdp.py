"""Peaks of a training step under FSDP version 2, as PyTorch's own FSDPMemTracker counts them.

One process on a CPU, beside others that a fake process group pretends to be:

    python tools/capture/peak_lm_fsdp.py plugins/lm/arch/testdata/fsdp_peak.json
"""

import json
import sys
import types

import accelerate
import peft
import torch
import torch.distributed
import transformers
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

PROCESSES, LENGTH = 4, 256
WIDE = {"model_type": "llama", "vocab_size": 8000, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 12,
        "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 512, "tie_word_embeddings": False}
FLAT = WIDE | {"hidden_size": 256, "intermediate_size": 700, "num_hidden_layers": 6, "num_attention_heads": 4,
               "num_key_value_heads": 4}
LOADED = {"bf16": torch.bfloat16, "fp32": torch.float32}
HEAVY = WIDE | {"vocab_size": 4000, "hidden_size": 1024, "num_hidden_layers": 3}  # in its last layer
EXPERTS = WIDE | {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512, "head_dim": 64,
                  "num_hidden_layers": 6}
QV = {"rank": 8, "targets": ["q_proj", "v_proj"]}
ALL = {"rank": 64, "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
FUSED = {"fused": True}
TIED = FLAT | {"tie_word_embeddings": True}


def shard(model, carved):
    """The units of accelerate.utils.fsdp_utils.fsdp2_prepare_model: of 1.15.0 where carved, else of 1.13.0."""
    half = torch.bfloat16
    with_ = {"mesh": torch.distributed.device_mesh.init_device_mesh("cpu", (PROCESSES,)),
             "mp_policy": MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half, output_dtype=half)}
    for layer in model.model.layers:
        fully_shard(layer, reshard_after_forward=True, **with_)
    if not carved:
        fully_shard(model, reshard_after_forward=True, **with_)
        return
    tail = [model.model.norm, model.lm_head]
    if model.config.tie_word_embeddings:
        tail.insert(1, model.model.embed_tokens)
    else:
        fully_shard(model.model.embed_tokens, reshard_after_forward=True, **with_)
    fully_shard(tail, reshard_after_forward=False, **with_)
    fully_shard(model, **with_)


def adapted(config, lora):
    """A model with adapters, as accelerate itself shards it: its weights stay in bfloat16."""
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=LOADED[lora.get("loaded", "bf16")])
    if lora.get("fused"):
        from trl.trainer.utils import add_fused_lm_head

        add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))
    model = peft.get_peft_model(model, peft.LoraConfig(r=lora["rank"], target_modules=lora["targets"], task_type="CAUSAL_LM"))
    plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="TRANSFORMER_BASED_WRAP",
                                                       reshard_after_forward=not lora.get("keeps", False))
    plugin.set_mixed_precision("bf16")
    fsdp2_prepare_model(types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin), mixed_precision="bf16", is_main_process=False,
        torch_device_mesh=None, device=torch.device("cpu")), model)
    return model


class Tracker(FSDPMemTracker):
    """It fails for a unit that nothing calls, as the last layer is with trl's fused head."""

    uncalled = None

    def _fsdp_param_group_post_backward(self, fsdp_mod, original):
        counted = super()._fsdp_param_group_post_backward(fsdp_mod, original)
        return lambda *args: original(*args) if fsdp_mod is self.uncalled else counted(*args)


def peak(fields, carved, batch, accumulate, lora=None):
    fields = dict(fields)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    if lora:
        model = adapted(config, lora)
    else:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        shard(model, carved)
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    tracker = Tracker(model, optimizer)
    ids = torch.zeros(batch, LENGTH, dtype=torch.long)
    tracker.track_inputs((ids,))
    head = {"fused_lm_head": True} if lora and lora.get("fused") else {}
    if head:
        tracker.uncalled = model.get_output_embeddings()
    with tracker:
        for _ in range(2):  # the optimizer has its states from the first on
            for k in range(accumulate):
                model.set_requires_gradient_sync(k == accumulate - 1)
                model(input_ids=ids, labels=ids, use_cache=False, **head).loss.backward()
                tracker.reset_mod_stats()
            optimizer.step()
            optimizer.zero_grad()
    return next(iter(tracker.get_tracker_snapshot("peak").values()))


def main():
    torch.distributed.init_process_group("fake", rank=0, world_size=PROCESSES, store=FakeStore())
    rows = []
    for fields, carved, batch, accumulate, lora in (
            (FLAT, True, 1, 1, {}), (FLAT, False, 1, 1, {}), (TIED, True, 1, 2, {}), (WIDE, True, 4, 1, {}), (WIDE, False, 4, 2, {}),
            (WIDE, True, 1, 1, {}), (FLAT, True, 1, 1, QV), (TIED, True, 1, 2, QV), (WIDE, True, 4, 1, QV), (WIDE, True, 1, 1, ALL),
            (WIDE, True, 2, 2, ALL), (WIDE, True, 1, 1, ALL | {"keeps": True}),
            (HEAVY, True, 1, 1, QV | FUSED), (HEAVY, True, 1, 1, QV | FUSED | {"loaded": "fp32"}),
            (HEAVY | {"tie_word_embeddings": True}, True, 1, 2, QV | FUSED),
            (EXPERTS, True, 1, 1, {}), (EXPERTS, True, 1, 1, QV)):
        parts = {str(getattr(k, "value", k)): v for k, v in peak(fields, carved, batch, accumulate, lora).items()}
        rows.append({"config": fields, "carved": carved, "batch": batch, "accumulate": accumulate, "peak": parts.pop("Total"),
                     "parts": parts} | ({"lora": lora} if lora else {}))
        print(carved, batch, accumulate, lora, rows[-1]["peak"], file=sys.stderr)
    with open(sys.argv[1], "w") as f:
        f.write(json.dumps({"family": "lm_fsdp_peak", "torch": torch.__version__, "transformers": transformers.__version__,
                            "device": "cpu", "processes": PROCESSES, "length": LENGTH, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
