"""Forms of a training on the CPU beside those of step_lm_trainer.py, by transformers' Trainer: weights of 4 and 8 bits by
bitsandbytes with peft's adapters, other optimizers, packed sequences.

Of 4 bits a CPU makes each weight anew in forward and backward, as a card does for more than 1536 tokens. Of 8 bits it has
another forward than a card (MatMul8bitFp).
"""

import tempfile

import torch
import transformers

import step_lm
import step_lm_trainer as trainer

DEVICE = "cpu"
SMALL = step_lm.SMALL


def quantised(a, out):
    """A model of random weights, saved and loaded again as from_pretrained quantises it."""
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    dtype = step_lm.TYPES[a["weights"]]
    transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).save_pretrained(out)
    q = a["quant"]
    if q["bits"] == 8:
        how = transformers.BitsAndBytesConfig(load_in_8bit=True)
    else:
        how = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_compute_dtype=step_lm.TYPES[q["compute"]], bnb_4bit_use_double_quant=bool(q.get("nested")),
            bnb_4bit_quant_type=q.get("type", "nf4"))
    return transformers.AutoModelForCausalLM.from_pretrained(
        out, quantization_config=how, attn_implementation=a["attention"], dtype=dtype, device_map={"": "cpu"})


def constants(model):
    """What the quantised weights have beside them: no parameters, no buffers."""
    for m in model.modules():
        w = getattr(m, "weight", None)
        for q in (getattr(w, "quant_state", None), getattr(getattr(w, "quant_state", None), "state2", None)):
            if q is not None:
                yield from (t for t in (q.absmax, q.code, q.offset) if t is not None)
        if getattr(w, "SCB", None) is not None:
            yield w.SCB


def adapted(a, model):
    import peft

    if a["quant"].get("prepared"):
        model = peft.prepare_model_for_kbit_training(
            model, use_gradient_checkpointing=bool(a.get("recompute")),
            gradient_checkpointing_kwargs={"use_reentrant": a.get("recompute") == "reentrant"})
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=a["lora"]["rank"], target_modules=a["lora"]["targets"], lora_dropout=0.0, task_type="CAUSAL_LM",
        modules_to_save=a["lora"].get("whole")))
    if a["lora"].get("type"):
        for p in model.parameters():
            if p.requires_grad:
                p.data = p.data.to(step_lm.TYPES[a["lora"]["type"]])
    return model


def case(a, rec):
    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        model = adapted(a, quantised(a, out))
        kwargs = {"use_reentrant": a["recompute"] == "reentrant"} if a.get("recompute") else None
        if a.get("recompute"):
            model.enable_input_require_grads()
        return trained(a, rec, model, kwargs, out)


def trained(a, rec, model, kwargs, out):
    steps = 3
    trainer.Recorded.rec = rec
    args = transformers.TrainingArguments(
        out, use_cpu=True, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
        gradient_accumulation_steps=a.get("accumulate", 1), gradient_checkpointing=bool(a.get("recompute")),
        gradient_checkpointing_kwargs=kwargs, save_strategy="no", logging_strategy="no", disable_tqdm=True,
        weight_decay=a.get("decay", 0.0))
    rec.roots(model, *constants(model))
    data = trainer.Tokens(a["batch"] * a.get("accumulate", 1) * steps, a["length"], model.config.vocab_size, a.get("padded"))
    trainer.Recorded(model, args, train_dataset=data, callbacks=[trainer.Steps(rec, steps)]).train()
    return [model]


def whole(a, rec):
    """Full fine-tuning by another optimizer."""
    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=a["attention"], dtype=step_lm.TYPES[a["weights"]])
        return trained(a, rec, model, None, out)


# Those that a CPU has. Of paged ones it has the states in its own memory.
OPTIMIZERS = ["sgd", "rmsprop", "adagrad", "adafactor", "adamw_bnb_8bit", "paged_adamw_32bit", "lion_8bit", "lion_32bit", "rmsprop_bnb",
              "rmsprop_bnb_8bit"]


def optimizers():
    for name in ("llama", "qwen3"):
        for optim in OPTIMIZERS:
            for weights in ("fp32", "bf16"):
                yield whole, step_lm.row(name, SMALL[name], 1, 32, weights=weights, optim=optim)[1]
    for optim in ("sgd", "rmsprop", "adagrad", "adamw_8bit"):
        yield whole, step_lm.row("qwen3", SMALL["qwen3"], 1, 32, optim=optim, decay=0.1)[1]


def packed(a, rec):
    """trl's SFTTrainer, whose collator lays the sequences of a micro-batch into one row."""
    import datasets
    import trl

    class Trainer(trl.SFTTrainer):
        compute_loss = trainer.recorded(trl.SFTTrainer.compute_loss)

    with tempfile.TemporaryDirectory() as out:
        transformers.set_seed(0)
        fields = dict(a["config"])
        config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=a["attention"], dtype=step_lm.TYPES[a["weights"]])
        steps, length = 3, a["length"]
        args = trl.SFTConfig(
            out, use_cpu=True, bf16=False, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_checkpointing=bool(a.get("recompute")), max_length=length, packing=True, save_strategy="no",
            logging_strategy="no", disable_tqdm=True, dataset_kwargs={"skip_prepare_dataset": True})
        rows = [{"input_ids": [2 + (i * 7 + j) % 300 for j in range(length)]} for i in range(a["batch"] * steps)]
        Trainer.rec = rec
        t = Trainer(model, args, train_dataset=datasets.Dataset.from_list(rows),
                    processing_class=trainer.tokenizer(config.vocab_size), callbacks=[trainer.Steps(rec, steps)])
        rec.roots(t.model)
        t.train()
    return [t.model]


def packing():
    for name in ("llama", "llama grouped", "qwen3", "gemma"):
        for more in ({}, {"attention": "eager"}, {"recompute": "plain"}):
            yield packed, step_lm.row(name, SMALL[name], 3, 64, trl=True, one_row=True, **more)[1]


def mixtures():
    """Mixtures of experts, whose experts and routers are no linear layers, and so stay as they were loaded."""
    import step_lm_moe

    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    for name, config in step_lm_moe.SMALL.items():
        for quant, weights, lora, more in (
                ({"bits": 4, "compute": "fp32"}, "fp32", {"rank": 8, "targets": attention[::2]}, {}),
                ({"bits": 4, "compute": "bf16", "nested": True}, "bf16", {"rank": 8, "targets": attention}, {}),
                ({"bits": 4, "compute": "bf16"}, "bf16", {"rank": 8, "targets": attention, "type": "bf16"}, {"recompute": "plain"}),
                ({"bits": 8}, "bf16", {"rank": 8, "targets": attention}, {})):
            yield case, step_lm.row(name, config, 2, 64, weights=weights, lora=lora, quant=quant, **more)[1]


def cases(_):
    yield from mixtures()
    yield from packing()
    yield from optimizers()
    for name in ("llama", "llama grouped", "qwen3", "gemma"):
        targets = ["q_proj", "v_proj"]
        every = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        lora = {"rank": 8, "targets": targets}

        def row(quant, weights="fp32", lora=lora, **more):
            return case, step_lm.row(name, SMALL[name], 4, 96, weights=weights, lora=lora, quant=quant, **more)[1]

        nf4 = {"bits": 4, "compute": "fp32"}
        yield row(nf4)
        yield row({**nf4, "nested": True})
        yield row({**nf4, "compute": "bf16", "nested": True}, "bf16", {"rank": 8, "targets": every})
        yield row({**nf4, "compute": "bf16"}, "bf16", {"rank": 8, "targets": every, "type": "bf16"})
        yield row({**nf4, "compute": "bf16", "nested": True, "prepared": True}, "bf16", {"rank": 16, "targets": every}, recompute="plain")
        yield row({**nf4, "compute": "fp32"}, "bf16", {"rank": 16, "targets": every}, recompute="reentrant")
        yield row({**nf4, "type": "fp4"}, "fp32", accumulate=2)
        yield row({"bits": 8})
        yield row({"bits": 8}, "bf16", {"rank": 8, "targets": every})
        yield row({"bits": 8}, "bf16", {"rank": 8, "targets": every, "type": "bf16"}, recompute="reentrant")
