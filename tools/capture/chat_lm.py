"""Records what known chat templates make of conversations, for plugins/lm.

    python tools/capture/chat_lm.py > plugins/lm/testdata/chats.json

The templates are those that trl has of the models (trl/chat_templates), named here by their SHA-256. Recorded with
trl 1.16.0 and transformers 5.23.0. The token that begins a text is left out.
"""

import hashlib
import json
import os
import sys

import trl
from transformers.utils.chat_template_utils import render_jinja_template

NAMES = ["qwen2_5", "qwen3", "qwen3_instruct_2507", "llama3", "gemma"]
CHATS = [
    [("user", "Hello"), ("assistant", "Hi!")],
    [("user", "  Why? \n"), ("assistant", "\n\nSo.\n"), ("user", "你好"), ("assistant", "Yes 🙂 ")],
    [("system", "Be kind."), ("user", "Oh"), ("assistant", "")],
    [("user", "a"), ("assistant", "b"), ("user", "c")],
    [("assistant", "\nb")],
    [("user", "q"), ("assistant", "\n\nSo.")],
    [("user", "x"), ("assistant", "<think>\nhm\n</think>\n\ny")],
]


def main():
    folder = os.path.join(os.path.dirname(trl.__file__), "chat_templates")
    out = {"chats": [[{"role": r, "content": c} for r, c in chat] for chat in CHATS], "templates": {}}
    for name in NAMES:
        with open(os.path.join(folder, name + ".jinja")) as f:
            template = f.read()
        texts = []
        for chat in out["chats"]:
            try:
                rendered, _ = render_jinja_template(conversations=[chat], chat_template=template, bos_token="")
                texts.append(rendered[0])
            except Exception:  # a template that refuses it
                texts.append(None)
        out["templates"][name] = {"sha256": hashlib.sha256(template.rstrip("\n").encode()).hexdigest(), "texts": texts}
    json.dump(out, sys.stdout, ensure_ascii=False, indent=1)
    print()


main()
