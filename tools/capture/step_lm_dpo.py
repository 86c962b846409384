"""trl's DPOTrainer itself, on the CPU, with small models and pairs that have been tokenised."""

import tempfile

import torch
import transformers
import trl
import trl.trainer.utils

import step_lm
import step_lm_trainer

DEVICE = "cpu"

# Columns of a tile of the fused head. trl has 32,768, which is more than these small models have words: the buffer of a tile
# is then most of the peak. Rows with a smaller one show the rest.
TILE = trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE


def pairs(n, length, vocab, padded):
    """Prompts with a better and a worse answer; the answers of one length, unless they are padded."""
    prompt = length // 4
    rows = []
    for i in range(n):
        ids = [2 + (i * 7 + j) % (vocab - 2) for j in range(2 * length)]
        short = 3 if padded and i % 2 == 0 else 0
        rows.append({"prompt_ids": ids[:prompt], "chosen_ids": ids[prompt:length], "rejected_ids": ids[length:2 * length - prompt - short]})
    return rows


def built(a, folder):
    """The folder of a model with random weights, from which the trainer loads the reference too."""
    transformers.set_seed(0)
    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    transformers.AutoModelForCausalLM.from_config(config, dtype=step_lm.TYPES[a["weights"]]).save_pretrained(folder)
    return config


def made(a, rec, folder, steps):
    import datasets
    import peft

    class Trainer(trl.DPOTrainer):
        rec = None
        compute_loss = step_lm_trainer.recorded(trl.DPOTrainer.compute_loss)

        def _prepare_dataset(self, dataset, *_):
            return dataset

    Trainer.rec = rec
    trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE = a.get("tile", TILE)
    config = built(a, folder)
    each = a["batch"] * a.get("accumulate", 1)
    rows = datasets.Dataset.from_list(pairs(each * steps, a["length"], config.vocab_size, a.get("padded")))
    args = trl.DPOConfig(
        folder, use_cpu=True, bf16=False, max_steps=steps, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
        per_device_eval_batch_size=a["batch"], gradient_accumulation_steps=a.get("accumulate", 1), max_length=a["length"],
        gradient_checkpointing=bool(a.get("recompute")), gradient_checkpointing_kwargs={"use_reentrant": a.get("recompute") == "reentrant"},
        save_strategy="no", logging_strategy="no", disable_tqdm=True, precompute_ref_log_probs=bool(a.get("precomputed")),
        loss_type=a.get("loss", ["sigmoid"]),
        model_init_kwargs={"dtype": step_lm.TYPES[a["weights"]], "attn_implementation": a["attention"]})
    lora = a.get("lora") and peft.LoraConfig(
        r=a["lora"]["rank"], target_modules="all-linear" if a["lora"]["targets"] == ["all-linear"] else a["lora"]["targets"], lora_dropout=0.0, task_type="CAUSAL_LM",
        modules_to_save=a["lora"].get("whole"))
    trainer = Trainer(folder, args=args, train_dataset=rows, eval_dataset=rows, peft_config=lora or None,
                      processing_class=step_lm_trainer.tokenizer(config.vocab_size))
    models = [trainer.model] + ([trainer.ref_model] if trainer.ref_model is not None else [])
    rec.roots(*models)
    return trainer, models


def case(a, rec):
    steps = 3
    with tempfile.TemporaryDirectory() as folder:
        trainer, models = made(a, rec, folder, steps)
        trainer.add_callback(step_lm_trainer.Steps(rec, steps))
        trainer.train()
    return models


def evaluation(a, rec):
    """An evaluation after a step of training, when the optimizer's states are there."""
    with tempfile.TemporaryDirectory() as folder:
        trainer, models = made(a, rec, folder, 2)
        trainer.args.max_steps = 1
        turns, step = rec.steps(3), trainer.prediction_step

        def prediction_step(*args, **kwargs):
            next(turns)
            rec.at("forward")
            return step(*args, **kwargs)

        trainer.prediction_step = prediction_step
        next(turns)
        trainer.train()
        trainer.evaluate()
        next(turns, None)
    return models


LORA = {"rank": 8, "targets": ["q_proj", "v_proj"]}
WIDE = {"rank": 8, "targets": ["all-linear"]}


def cases(_):
    def row(name, batch=3, length=96, **more):
        config = step_lm.SMALL[name]
        if name == "gpt2":  # without the dropout that the trainer switches off
            config = {**config, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
        return step_lm.row(name, config, batch, length, preference=True, **more)[1]

    for name in step_lm.SMALL:
        lora = {**LORA, "targets": ["c_attn"]} if name == "gpt2" else LORA
        yield case, row(name)
        for more in ({}, {"recompute": "plain"}, {"lora": lora}, {"lora": WIDE, "recompute": "plain"}):
            yield case, row(name, tile=128, **more)
    for name in ("llama grouped", "qwen2"):
        for more in ({"precomputed": True}, {"optim": "adamw_torch", "accumulate": 2}, {"accumulate": 2, "lora": WIDE}, {"lora": WIDE},
                     {"attention": "eager"}, {"recompute": "reentrant"}, {"lora": LORA, "recompute": "reentrant"}, {"padded": True},
                     {"lora": LORA, "padded": True}, {"loss": ["ipo"]}, {"loss": ["sigmoid", "sft"]},
                     {"weights": "bf16", "lora": LORA}):
            yield case, row(name, tile=128, **more)
        for batch, length in ((1, 384), (8, 64)):
            yield case, row(name, batch, length, tile=128)
            yield case, row(name, batch, length, tile=128, lora=LORA)
    for name in ("llama", "qwen2"):
        for more in ({}, {"tile": 128}, {"tile": 128, "lora": LORA}, {"tile": 128, "precomputed": True}):
            yield evaluation, row(name, evaluation="loss", **more)
