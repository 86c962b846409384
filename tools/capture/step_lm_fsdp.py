"""What one process holds of a model under FSDP: sizes of its parts, as transformers' Trainer and accelerate make them.
Rows with "lora" have peft's adapters on a frozen model, and the units that FSDP makes of it.

Runs on a CPU, in processes of gloo; the first writes the rows as JSON:

    python -m torch.distributed.run --nproc_per_node 2 tools/capture/step_lm_fsdp.py plugins/lm/arch/testdata/fsdp_lm.json

accelerate takes a CPU for DistributedDataParallel, so its state is told that it is FSDP. Its FSDP1 is made here, line by
line as Accelerator.prepare_model has it (accelerator.py:1919 of 1.15.0): the Trainer's needs a card.
"""

import copy
import functools
import json
import sys
import tempfile

import accelerate
import peft
import torch
import torch.distributed
import transformers
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor

LORA = {"rank": 8, "targets": ["q_proj", "v_proj", "down_proj"]}
WIDTH = {"vocab_size": 301, "num_hidden_layers": 3, "max_position_embeddings": 64}
LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 150, "num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    "llama": LLAMA | {"tie_word_embeddings": False},
    "llama tied": LLAMA | {"tie_word_embeddings": True},
    "qwen2": LLAMA | {"model_type": "qwen2", "tie_word_embeddings": False},
    "gpt2": {"model_type": "gpt2", "vocab_size": 301, "n_embd": 60, "n_layer": 3, "n_head": 4, "n_positions": 63,
             "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0},
    "mixtral": LLAMA | {"model_type": "mixtral", "intermediate_size": 152, "num_local_experts": 3, "num_experts_per_tok": 2,
                        "tie_word_embeddings": False},
    "qwen3_moe": LLAMA | {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
                          "head_dim": 16, "decoder_sparse_step": 2, "tie_word_embeddings": True},
}


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(32) + i
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def local(t):
    return t.to_local() if isinstance(t, DTensor) else t


def held(tensors):
    """Bytes of their storages, each once: with its padding."""
    return sum({s.data_ptr(): s.nbytes() for s in (local(t).untyped_storage() for t in tensors) if s.nbytes()}.values())


def states(optimizer):
    optimizer = getattr(optimizer, "optimizer", optimizer)
    return sum(local(v).numel() * v.element_size() for s in optimizer.state.values() for v in s.values() if v.dim())


def build(name, lora=None):
    fields = dict(WIDTH) | MODELS[name] if name != "gpt2" else dict(MODELS[name])
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    if lora:
        model = peft.get_peft_model(model, peft.LoraConfig(r=lora["rank"], target_modules=lora["targets"], task_type="CAUSAL_LM"))
    return model


class Sizes(transformers.TrainerCallback):
    row = None

    def on_substep_end(self, args, state, control, model=None, **_):
        self.row["whole"] = sum(p.grad.numel() * p.grad.element_size() for g in groups(model) for p in g if p.grad is not None)

    def on_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
        params = list(model.parameters())
        trained = [p for p in params if p.requires_grad]
        self.row |= {"params": held(trained), "grads": sum(local(p.grad).numel() * p.grad.element_size() for p in trained),
                     "states": states(optimizer)}
        if len(trained) < len(params):
            self.row |= {"frozen": held(p for p in params if not p.requires_grad), "units": sorted(
                [sum(p.sharded_param.numel() for p in g if p.sharded_param.requires_grad == trains) for trains in (True, False)]
                for g in param_groups(model))}


def param_groups(model):
    """The parameters of each group of version 2, whose modules share it."""
    seen = {}
    for m in model.modules():
        if hasattr(m, "_get_fsdp_state"):
            seen |= {id(g): g for g in m._get_fsdp_state()._fsdp_param_groups}
    return [g.fsdp_params for g in seen.values()]


def groups(model):
    return [[p.unsharded_param for p in g if hasattr(p, "_unsharded_param")] for g in param_groups(model)]


def words(n):
    import tokenizers

    model = tokenizers.models.WordLevel({f"w{i}": i for i in range(n)}, unk_token="w0")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), pad_token="w0", eos_token="w1", unk_token="w0")


def second(name, mixed, accumulate, lora=None, program=""):
    """Version 2, by the Trainer, or by trl's SFTTrainer or DPOTrainer."""
    row = {}
    sizes = Sizes()
    sizes.row = row
    with tempfile.TemporaryDirectory() as out:
        kwargs = dict(
            use_cpu=True, max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=accumulate, bf16=mixed,
            fsdp=True, fsdp_config={"version": 2}, save_strategy="no", report_to="none", disable_tqdm=True, optim="adamw_torch")
        if program:
            import datasets
            import trl

            config, kind = {"sft": (trl.SFTConfig, trl.SFTTrainer), "dpo": (trl.DPOConfig, trl.DPOTrainer)}[program]
            args = config(out, max_length=32, gradient_checkpointing=False, dataset_kwargs={"skip_prepare_dataset": True},
                          **kwargs) if program == "sft" else config(out, max_length=32, gradient_checkpointing=False, **kwargs)
            text = " ".join(f"w{i}" for i in range(2, 40))
            rows = [{"input_ids": list(range(i, i + 32))} for i in range(64)] if program == "sft" else [
                {"prompt": "w3 w4", "chosen": text, "rejected": text}] * 64
            adapters = lora and peft.LoraConfig(r=lora["rank"], target_modules=lora["targets"], task_type="CAUSAL_LM")
            args.model_init_kwargs = {"dtype": torch.bfloat16}
            shared = [out]
            torch.distributed.broadcast_object_list(shared)
            build(name).save_pretrained(shared[0])  # which the first process alone does
            torch.distributed.barrier()
            trainer = kind(shared[0], peft_config=adapters or None, args=args, callbacks=[sizes],
                           train_dataset=datasets.Dataset.from_list(rows), processing_class=words(301))
        else:
            args = transformers.TrainingArguments(out, **kwargs)
            trainer = transformers.Trainer(build(name, lora), args, train_dataset=Tokens(), callbacks=[sizes])
        plugin = accelerate.FullyShardedDataParallelPlugin(**args.fsdp_plugin_args)
        if mixed:
            plugin.set_mixed_precision("bf16")
        shared = trainer.accelerator.state
        shared.distributed_type, shared.fsdp_plugin = accelerate.DistributedType.FSDP, plugin
        type(shared).is_fsdp2 = property(lambda _: True)  # which a later PartialState would forget
        trainer.is_fsdp_enabled, trainer.place_model_on_device = True, False
        if getattr(trainer, "ref_model", None) is not None:  # as DPOTrainer has it before (dpo_trainer.py:988)
            from trl.models import prepare_fsdp

            reference = prepare_fsdp(copy.deepcopy(getattr(trainer.ref_model, "module", trainer.ref_model)), trainer.accelerator)
            row["reference"] = held(reference.parameters())
            trainer.ref_model = reference
        trainer.train()
    return row


def first(name, mixed, accumulate, lora=None):
    """Version 1, with the policy that the Trainer has of peft for adapters (update_fsdp_plugin_peft)."""
    model = build(name, lora)
    layers = {type(m) for m in model.modules() if type(m).__name__ in model._no_split_modules}
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=layers)
    if lora:
        policy = peft.utils.other.fsdp_auto_wrap_policy(model)
    half = MixedPrecision(*3 * [torch.bfloat16]) if mixed else None
    model = FullyShardedDataParallel(
        model, auto_wrap_policy=policy, mixed_precision=half, use_orig_params=not lora, device_id=torch.device("cpu"))
    every = [m for m in FullyShardedDataParallel.fsdp_modules(model) if m._has_params]
    units = [m for m in every if m._flat_param.requires_grad]
    for unit in units if mixed else []:
        unit._flat_param.data = unit._flat_param.data.to(torch.float32)
        unit._handle._orig_param_dtype = torch.float32
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.arange(64).view(2, 32)
    row = {}

    def forward():  # under autocast, as accelerate has it beside version 1 (prepare_model in accelerator.py:1824)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            return model(input_ids=ids, labels=ids).loss

    for _ in range(accumulate - 1):
        with model.no_sync():
            forward().backward()
        flat = [u._flat_param.grad for u in units]
        row["whole"] = sum(g.numel() * g.element_size() for g in flat)
    forward().backward()
    optimizer.step()
    flat = [u._flat_param for u in units]
    row |= {"params": sum(p.numel() * p.element_size() for p in flat), "grads": sum(p.grad.numel() * p.element_size() for p in flat),
            "states": states(optimizer)}
    if lora:
        frozen = [u._flat_param for u in every if not u._flat_param.requires_grad]
        row |= {"frozen": sum(p.numel() * p.element_size() for p in frozen), "units": sorted(
            [p._unpadded_unsharded_size.numel() * trains for trains in (p.requires_grad, not p.requires_grad)]
            for p in (u._flat_param for u in every))}
    return row


def recorded(name, version, mixed, accumulate, lora, program, case):
    print(name, version, mixed, accumulate, lora, program, file=sys.stderr)
    row = {"name": name, "config": (WIDTH if name != "gpt2" else {}) | MODELS[name], "version": version, "mixed": mixed,
           "accumulate": accumulate} | {k: v for k, v in (("lora", lora), ("program", program)) if v}
    return row | case(name, mixed, accumulate, lora)


def main():
    torch.distributed.init_process_group("gloo")
    rows = []
    for adapters in ({}, LORA):
        for name in MODELS:
            lora = adapters and adapters | ({"targets": ["q_proj", "v_proj"]} if MODELS[name].keys() & {"num_experts_per_tok"} else {})
            for version, case in (1, first), (2, second):
                for mixed, accumulate in (True, 1), (True, 2), (False, 2):
                    if not lora or name != "gpt2":
                        rows.append(recorded(name, version, mixed, accumulate, lora, "", case))
    for program in "sft", "dpo":
        for lora in ({}, LORA):
            for name in "llama", "llama tied":
                rows.append(recorded(name, 2, True, 2, lora, program, functools.partial(second, program=program)))
    if torch.distributed.get_rank() == 0:
        facts = {"family": "lm_fsdp", "torch": torch.__version__, "transformers": transformers.__version__,
                 "accelerate": accelerate.__version__, "device": "cpu", "backend": "gloo",
                 "processes": torch.distributed.get_world_size(), "rows": rows}
        with open(sys.argv[1], "w") as f:
            f.write(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
