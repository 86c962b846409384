"""Records how many tokens LLaMA-Factory makes of conversations with its templates, for plugins/lm.

    python tools/capture/lengths_lm.py < plugins/lm/tokens/testdata/tokens.json > plugins/lm/testdata/lengths.json

The tokenizer is that of tokens_lm.py, with the pre-tokenizer of Qwen. Recorded with LLaMA-Factory 0.9.5 and
transformers 5.6.0.
"""

import json
import os
import sys
import tempfile

from transformers import AutoTokenizer

from llamafactory.data.converter import AlpacaDatasetConverter, SharegptDatasetConverter
from llamafactory.data.parser import DatasetAttr
from llamafactory.data.template import TEMPLATES

NAMES = ("default empty alpaca vicuna chatml qwen qwen3 qwen3_nothink llama2 llama3 mistral gemma phi phi4").split()
END = "<|endoftext|>"
ALPACA = [
    {"instruction": "Name three colours.", "input": "", "output": "Red, green and blue."},
    {"instruction": "Add the numbers.\n", "input": "12 + 345", "output": "357", "system": "You add."},
    {"instruction": "And now?", "input": "", "output": " \n\nIt is late.\n",
     "history": [["What time is it?", "It's 5 o'clock."], ["Really?", "Yes, 17:00 <|im_end|>"]]},
]
SHARED = [
    {"conversations": [{"from": "human", "value": "Hello 你好"}, {"from": "gpt", "value": "Hi! 🙂"}]},
    {"conversations": [{"from": "system", "value": "Be kind."}, {"from": "human", "value": "Why?"},
                       {"from": "gpt", "value": "<think>\nhm\n</think>\n\nSo."}, {"from": "human", "value": "  Oh\n"},
                       {"from": "gpt", "value": "Yes."}]},
]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, value in {"config.json": {"model_type": "qwen3"},
                            "tokenizer.json": json.load(sys.stdin)["files"]["qwen"],
                            "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "bos_token": END,
                                                      "eos_token": END}}.items():
            with open(os.path.join(folder, name), "w") as f:
                json.dump(value, f)
        alpaca = DatasetAttr("file", "a", history="history", system="system")
        rows = [AlpacaDatasetConverter(alpaca, None)({"history": None, "system": None} | r) for r in ALPACA]
        rows += [SharegptDatasetConverter(DatasetAttr("file", "s"), None)(r) for r in SHARED]
        counts = {}
        for name in NAMES:
            t, tokenizer = TEMPLATES[name], AutoTokenizer.from_pretrained(folder)
            counts[name] = [sum(len(a) + len(b) for a, b in t.encode_multiturn(
                tokenizer, r["_prompt"] + r["_response"], r["_system"], r["_tools"])) + t.efficient_eos for r in rows]
    json.dump({"alpaca": ALPACA, "sharegpt": SHARED, "counts": counts}, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
