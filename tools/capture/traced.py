#!/usr/bin/env python3
"""Holds traces against what timm's benchmark found to fit on an RTX 3090.

    traced.py TIMM_CSV OUT.csv [--models 100] [--first N] [--launch bin/launch] [--jobs 2]

TIMM_CSV is results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv of huggingface/pytorch-image-models: of each model
the largest batch that trained. benchmark.py (commit 0dbd9352) begins with the batch that it is told, and after each
failure takes the next smaller one of 1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1
(decay_batch_step): the one above that which trained is known to have failed, unless it was the first.

The models are drawn by SEED from the sorted names, before any result is looked at. One that the installed timm does not
know is left out, and the next drawn takes its place. Each is traced at both batches by `launch plan --trace`, with
train_timm.py and the Python that runs this file. A model that OUT.csv has is not traced again.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import random
import subprocess
import sys

SEED = 20261129
HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = [1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1]
HEAD = ["model", "size", "batch", "estimate", "verdict", "failed", "failed_estimate", "failed_verdict"]


def drawn(table, models):
    """The rows that are drawn, in order, and the names that timm no longer has."""
    from timm.models import is_model

    with open(table) as f:
        rows = {r["model"]: r for r in csv.DictReader(f)}
    out, gone = [], []
    for name in random.Random(SEED).sample(sorted(rows), len(rows)):
        if len(out) == models:
            break
        if is_model(name):
            out.append(rows[name])
        else:
            gone.append(name)
    return out, gone


def traced(launch, model, batch, size):
    """What launch says of a training: MiB, and the verdict; or nothing, and why."""
    script = [sys.executable, os.path.join(HERE, "train_timm.py"), model, str(batch), str(size)]
    argv = [launch, "plan", "--trace", "--json", "--vram", "RTX 3090", "--"] + script
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        plan = json.loads(done.stdout)
        training = [p for p in plan["phases"] if p["phase"] == "training"][0]["asked"]
        if training.get("unknown"):
            return "", " ".join([training["unknown"], *plan["warnings"]])[-300:]
        return round(training["total_bytes"] / 2**20), plan["verdict"]
    except (ValueError, KeyError, IndexError):
        return "", (done.stderr.decode() + done.stdout.decode()).strip().replace("\n", " ")[-300:]


def row(launch, r, first):
    """One row of the table. first is the batch with which the benchmark began."""
    model, size, batch = r["model"], int(r["train_img_size"]), int(r["train_batch_size"])
    estimate, verdict = traced(launch, model, batch, size)
    out = dict(model=model, size=size, batch=batch, estimate=estimate, verdict=verdict)
    if batch != first:
        failed = STEPS[STEPS.index(batch) - 1]
        estimate, verdict = traced(launch, model, failed, size)
        out.update(failed=failed, failed_estimate=estimate, failed_verdict=verdict)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("out")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--first", type=int, help="only so many of them")
    parser.add_argument("--launch", default=os.path.join(HERE, "..", "..", "bin", "launch"))
    parser.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args()
    rows, gone = drawn(a.table, a.models)
    print("not in this timm:", ", ".join(gone) or "none", file=sys.stderr)
    first = max(int(r["train_batch_size"]) for r in rows)
    print("the benchmark began with", first, file=sys.stderr)
    known = []
    if os.path.exists(a.out):
        with open(a.out) as f:
            known = list(csv.DictReader(f))
    have = {r["model"]: r for r in known}
    todo = [r for r in rows[:a.first] if r["model"] not in have]

    def write():
        with open(a.out, "w", newline="") as f:
            out = csv.DictWriter(f, HEAD, restval="", lineterminator="\n")
            out.writeheader()
            out.writerows(have[r["model"]] for r in rows if r["model"] in have)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(row, a.launch, r, first) for r in todo]):
            result = done.result()
            have[result["model"]] = result
            write()
            print(result, file=sys.stderr)


if __name__ == "__main__":
    main()
