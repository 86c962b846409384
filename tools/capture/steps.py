#!/usr/bin/env python3
"""Records whole training steps: what the graph holds, and the peak of live bytes with all model states.

    steps.py FAMILY OUT.json [NAME=DIR@COMMIT ...] [--only TEXT] [--fake]

Families: torchvision, moco, sisr, basicsr, neosr, stablesr, dualattn, lm, lm_trainer, lm_dpo, lm_factory, lm_forms, lm_axolotl, lm_sft, lm_moe, lm_moe_trainer, lm_whole, lm_cut, lm_half, lm_decoders. Those that do not
begin with lm, but torchvision, want checkouts of the projects whose classes they build, by the names that the family's module lists
(step_FAMILY.py); none of their code is kept. Needs PyTorch 2.1 or later (track.py). Everything but lm_trainer, lm_moe_trainer, lm_dpo, lm_factory,
lm_forms, lm_axolotl, lm_sft, lm_whole and lm_cut runs on the "meta" device, so a step of a
large model takes seconds and no memory.

OUT.json is written after every row. Rows that it has already are kept and not measured again, so that a run that was
stopped goes on; take the file away to record anew.

A row has the arguments that the Go side prices it by, the parameters, the bytes that the graph holds when the (last)
backward begins, and the peak of each step: the first without optimizer states, the others with them. "fake" is the sum
that a user of FakeTensor adds up, where it can be had (track.fake_sum); --fake adds it to rows that lack it.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import sys
import time

import torch

import track


def elements(p):
    """How many numbers a parameter has: bitsandbytes packs two of 4 bits into a byte."""
    return p.numel() * 2 * p.element_size() if type(p).__name__ == "Params4bit" else p.numel()


def row(case, args, device):
    """One case, measured. case(args, rec) is a training loop over rec.steps; it returns what it trained."""
    rec = track.Recorder(device)
    model = case(args, rec)
    params = [p for m in model for p in m.parameters()]
    buffers = [b for m in model for b in m.buffers()]
    peak, moment, parts = max(rec.peaks[1:], key=lambda p: p[0])
    out = {
        "name": args["name"], "args": {k: v for k, v in args.items() if k != "name"},
        "params": sum(elements(p) for p in params), "trainable": sum(p.numel() for p in params if p.requires_grad),
        "bytes": sum(t.numel() * t.element_size() for t in params + buffers),
        "saved": rec.saved, "first": rec.peaks[0][0], "peak": peak, "moment": moment, "parts": parts,
    }
    if args.get("checkpointing") or args.get("evaluation") or args.get("recompute") or args.get("dead") or args.get("quant", {}).get("bits") == 8:
        # Non-reentrant checkpoints and MatMul8bitFp keep what they keep in closures and attributes, which no hook sees; what a graph without a loss holds
        # is seen, and the tape does not call it saved.
        del out["saved"]
    return out


def add_fake(family, args, got):
    if "fake" in got or not hasattr(family, "fake"):
        return
    try:
        got["fake"] = family.fake(args)
        got.pop("fake_error", None)
    except Exception as e:  # noqa: BLE001
        got["fake_error"] = f"{type(e).__name__}: {e}".split("\n")[0][:120]
    print(args["name"], got.get("fake"), got.get("fake_error"), file=sys.stderr)


def identity(args):
    return json.dumps(args, sort_keys=True)


def save(path, family, device, commits, rows):
    versions = {"torch": torch.__version__}
    for name in ("torchvision", "timm", "transformers", "peft", "accelerate", "trl", "bitsandbytes", "llamafactory"):
        if m := sys.modules.get(name):
            versions[name] = getattr(m, "__version__", None) or importlib.metadata.version(name)
    out = {"family": family, **versions, "device": device, "recorded": time.strftime("%Y-%m-%d"), "commits": commits, "rows": rows}
    with open(path + ".part", "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")
    os.replace(path + ".part", path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("family", choices=["torchvision", "moco", "sisr", "basicsr", "neosr", "stablesr", "dualattn", "lm", "lm_trainer", "lm_dpo", "lm_factory", "lm_forms", "lm_axolotl", "lm_sft", "lm_moe", "lm_moe_trainer", "lm_whole", "lm_cut", "lm_half", "lm_decoders"])
    p.add_argument("out")
    p.add_argument("checkouts", nargs="*", help="NAME=DIR@COMMIT")
    p.add_argument("--only", default="", help="only cases whose arguments contain this text")
    p.add_argument("--fake", action="store_true", help="add FakeTensor's sum to the rows that are there, and measure none")
    a = p.parse_args()

    if not hasattr(torch.Tensor, "untyped_storage"):
        raise SystemExit(f"steps.py wants PyTorch 2.1 or later, and this is {torch.__version__}")
    checkouts, commits = {}, {}
    for text in a.checkouts:
        name, _, rest = text.partition("=")
        checkouts[name], _, commits[name] = rest.rpartition("@")
    torch.set_num_threads(1)
    family = importlib.import_module("step_" + a.family)
    device = getattr(family, "DEVICE", "meta")
    if device == "meta":
        track.as_cuda()
    have = {}
    if os.path.exists(a.out):
        with open(a.out, encoding="utf-8") as f:
            have = {identity({"name": r["name"], **r["args"]}): r for r in json.load(f)["rows"]}
    all_cases = list(family.cases(checkouts))
    for case, args in all_cases:
        if a.only not in json.dumps(args):
            continue
        if a.fake and identity(args) in have:
            add_fake(family, args, have[identity(args)])
            save(a.out, a.family, device, commits, [have[identity(x)] for _, x in all_cases if identity(x) in have])
        if a.fake or identity(args) in have:
            continue
        start = time.time()
        try:
            got = row(case, args, device)
        except Exception as e:  # noqa: BLE001
            print(f"{args}: {type(e).__name__}: {e}", file=sys.stderr)
            if a.only:
                raise
            continue
        have[identity(args)] = got
        save(a.out, a.family, device, commits, [have[identity(x)] for _, x in all_cases if identity(x) in have])
        print(json.dumps(got), f"{time.time() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
