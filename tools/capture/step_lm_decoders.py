"""Decoders that differ from llama's in a norm, an MLP, a rotation or a factor: step_lm.py's steps of their own classes."""

import step_lm

# The families whose steps these are, small. What is not named is the configuration class's own.
SMALL = {
    "arcee": {"model_type": "arcee", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3,
              "num_attention_heads": 8, "num_key_value_heads": 2},
    "seed_oss": {"model_type": "seed_oss", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 48, "attention_dropout": 0.0, "residual_dropout": 0.1},
    "smollm3": {"model_type": "smollm3", "vocab_size": 2000, "pad_token_id": 0, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4,
                "num_attention_heads": 8, "num_key_value_heads": 2},
    "granite": {"model_type": "granite", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
                "num_attention_heads": 8, "num_key_value_heads": 2, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
                "residual_multiplier": 0.22, "attention_multiplier": 0.015, "tie_word_embeddings": True},
    "olmo2": {"model_type": "olmo2", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
              "num_attention_heads": 4},
    "olmo3": {"model_type": "olmo3", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4,
              "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": 64},
    "phi3": {"model_type": "phi3", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
             "num_attention_heads": 8, "num_key_value_heads": 2, "pad_token_id": 0},
    "gemma2": {"model_type": "gemma2", "vocab_size": 4000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4,
               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 64},
    "gemma3_text": {"model_type": "gemma3_text", "vocab_size": 4000, "hidden_size": 128, "intermediate_size": 512,
                    "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "sliding_window": 64},
    "glm": {"model_type": "glm", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "pad_token_id": 0},
    "glm4": {"model_type": "glm4", "vocab_size": 1000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
             "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "pad_token_id": 0},
    "hunyuan_v1_dense": {"model_type": "hunyuan_v1_dense", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352,
                         "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "pad_token_id": 0},
    "exaone4": {"model_type": "exaone4", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4,
                "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": 64, "pad_token_id": 0},
    "ernie4_5": {"model_type": "ernie4_5", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 3,
                 "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32},
    "starcoder2": {"model_type": "starcoder2", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3,
                   "num_attention_heads": 8, "num_key_value_heads": 2, "residual_dropout": 0.1, "sliding_window": 64},
    "ministral": {"model_type": "ministral", "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4,
                  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 64,
                  "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]},
}

# Public models, by their config.json on huggingface.co.
LARGE = {
    "AFM-4.5B": {"model_type": "arcee", "vocab_size": 128004, "hidden_size": 2560, "intermediate_size": 18432, "num_hidden_layers": 36,
                 "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128},
    "Seed-OSS-36B": {"model_type": "seed_oss", "vocab_size": 155136, "hidden_size": 5120, "intermediate_size": 27648,
                     "num_hidden_layers": 64, "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128},
    "SmolLM3-3B": {"model_type": "smollm3"},
    "granite-3.1-2b": {"model_type": "granite", "vocab_size": 49155, "hidden_size": 2048, "intermediate_size": 8192,
                       "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True,
                       "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625},
    "OLMo-2-7B": {"model_type": "olmo2", "vocab_size": 100352, "num_hidden_layers": 32, "num_attention_heads": 32},
    "Olmo-3-7B": {"model_type": "olmo3", "vocab_size": 100278},
    "Phi-3-mini-4k": {"model_type": "phi3", "sliding_window": 2047},
    "phi-4": {"model_type": "phi3", "vocab_size": 100352, "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40,
              "num_attention_heads": 40, "num_key_value_heads": 10, "pad_token_id": 0},
    "gemma-2-2b": {"model_type": "gemma2"},
    "gemma-3-1b": {"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152, "intermediate_size": 6912,
                   "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512},
}

NO_SDPA = ("gemma2",)  # _supports_sdpa is False


def cases(_):
    every = {"rank": 8, "targets": ["all-linear"]}
    for name, config in SMALL.items():
        kind = config["model_type"]
        usual = "eager" if kind in NO_SDPA else "sdpa"

        def row(batch, length, *rest, name=name, config=config, usual=usual, **more):
            more.setdefault("attention", usual)
            return step_lm.row(name, config, batch, length, *rest, **more)

        yield row(4, 96)
        yield row(2, 128, "bf16", optim="adamw_torch")
        yield row(4, 48, weights="bf16")
        yield row(4, 128, "bf16", recompute="plain", accumulate=2)
        yield row(4, 96, "bf16", padded=True)
        yield row(4, 128, "fp16")
        pair = ["qkv_proj"] if kind == "phi3" else ["q_proj", "v_proj"]
        yield row(4, 96, lora={"rank": 8, "targets": pair})
        yield row(4, 96, "bf16", weights="bf16", lora={"rank": 16, "targets": ["all-linear"], "dropout": 0.05})
        yield row(4, 128, "bf16", weights="bf16", recompute="reentrant", lora=every)
        yield row(4, 128, "bf16", weights="bf16", recompute="plain", lora=every)
        yield row(4, 96, "bf16", weights="bf16", lora={**every, "whole": ["embed_tokens", "lm_head"]})
        if usual != "eager":
            yield row(4, 96, attention="eager")
            yield row(2, 128, "bf16", attention="eager")
        yield step_lm.evaluation, row(8, 96, "bf16", evaluation="loss")[1]
        yield step_lm.evaluation, row(8, 96, evaluation="predicted")[1]
    for name, config in LARGE.items():
        attention = "eager" if config["model_type"] in NO_SDPA else "sdpa"
        yield step_lm.row(name, config, 1, 1024, weights="bf16", recompute="plain", attention=attention)
        yield step_lm.row(name, config, 4, 2048, "bf16", weights="bf16", recompute="plain", lora={"rank": 16, "targets": ["all-linear"]},
                          attention=attention)
