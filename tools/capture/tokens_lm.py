"""Records how many tokens Hugging Face's tokenizers make of texts, for plugins/lm/tokens.

    python tools/capture/tokens_lm.py docs/*.md > plugins/lm/tokens/testdata/tokens.json

It trains small tokenizers on the files that it is given, with the pre-tokenizers of GPT-2, Qwen and Llama 3, and one of
SentencePiece's kind with tokens for bytes. Recorded with tokenizers 0.23.3.
"""

import json
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
import tokenizers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA = QWEN.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
BYTES = pre_tokenizers.ByteLevel.alphabet()
ADDED = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
OTHERS = ("Grüße, it's WE'LL don't I'M 12345 1,000.5   two\t\ttabs \n\n  lines\r\n  end  \n 你好，世界。これは日本語です。 "
          "한국어 텍스트 Привет, мир! Ελληνικά العربية עברית ไทย हिन्दी e\u0301 \u1e9b\u0323 \u0344 \u0958 ﬁ ½ Ⅷ ²  "
          "🙂 👩‍👩‍👧 ☃️ <|im_start|>user\nhello<|im_end|>\n ſ'S K'T \u3000全角 a_b==c !!!\n\n\n??? ''s 're").split(" ")


def trained(files, split, normalizer=None, fallback=False):
    t = Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>" if fallback else None))
    t.normalizer, t.pre_tokenizer = normalizer, split
    first = ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)] if fallback else []
    t.train(files, trainers.BpeTrainer(vocab_size=1200 if fallback else 900, initial_alphabet=[] if fallback else BYTES,
                                       limit_alphabet=200 if fallback else 256, special_tokens=first,
                                       show_progress=False))
    t.add_special_tokens([AddedToken(a, special=True) for a in ADDED])
    return t


def level(regex):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def main(files):
    rng = random.Random(1)
    words = [w for f in files for w in open(f).read().split(" ")] + OTHERS * 40
    texts = ["", " ", "\n", "  x", "x  ", " \n x", "a" * 300, "12" * 40, "'", "\u3000\u3000x"]
    for n in [1, 2, 3, 5, 8, 13, 40] * 12:
        texts.append(" ".join(rng.choice(words) for _ in range(n)))
    for _ in range(60):  # of the rarest
        texts.append(rng.choice(["", " ", "\n"]).join(rng.choice(OTHERS) for _ in range(rng.randint(1, 9))))
    spaced = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    all = {
        "gpt2": trained(files, pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "qwen": trained(files, level(QWEN), normalizers.NFC()),
        "llama3": trained(files, level(LLAMA)),
        "sentencepiece": trained(files, None, spaced, True),
    }
    all["sentencepiece"].pre_tokenizer = None
    out = {"tokenizers": tokenizers.__version__, "texts": texts, "files": {}, "counts": {}}
    for name, t in all.items():
        out["files"][name] = json.loads(t.to_str())
        out["counts"][name] = [len(t.encode(text, add_special_tokens=False).ids) for text in texts]
    json.dump(out, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()


main(sys.argv[1:])
