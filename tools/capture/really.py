#!/usr/bin/env python3
"""Runs a script on the CPU and prints the most bytes of tensors that lived at once, to be held against a trace of it.

    really.py OUT.csv [--launch bin/launch] [KIND ...]

Each KIND of train_small.py is really run on the CPU, with every storage followed (track.py), and traced by
`launch plan --trace` as for a card. Optimizers work on lists of tensors in both, as they do on a card.
"""
import argparse
import csv
import gc
import json
import os
import runpy
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "train_small.py")
HEAD = ["kind", "really", "traced"]


def really(kind):
    """Runs one in this process."""
    import torch
    import torch.optim.optimizer as optimizer
    import torch.utils._foreach_utils as foreach

    import track

    for module in (optimizer, foreach):
        module._get_foreach_kernels_supported_devices = lambda: ["cpu"]
    live = track.Storages("cpu")
    sys.argv = [SCRIPT, kind]
    gc.collect()
    with live:
        runpy.run_path(SCRIPT, run_name="__main__")
    print("\n%d %s" % (live.peak, live.moment))


def traced(launch, kind):
    """The tensors of the fullest phase of a trace, in bytes."""
    argv = [launch, "plan", "--trace", "--json", "--vram", "24GiB", "--", sys.executable, SCRIPT, kind]
    done = subprocess.run(argv, stdout=subprocess.PIPE)
    beside = ("allocator slack", "workspace", "CUDA context")
    sums = [sum(i["bytes"] for i in p["asked"]["items"] if i["kind"] not in beside)
            for p in json.loads(done.stdout)["phases"]]
    return max(sums, default=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--launch", default=os.path.join(HERE, "..", "..", "bin", "launch"))
    if sys.argv[1:2] == ["--one"]:
        return really(sys.argv[2])
    a = parser.parse_args()
    import train_small
    have = {}
    if os.path.exists(a.out):
        with open(a.out) as f:
            have = {r["kind"]: r for r in csv.DictReader(f)}
    for kind in a.kinds or sorted(train_small.KINDS):
        out = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", kind], stdout=subprocess.PIPE)
        peak = int(out.stdout.decode().splitlines()[-1].split()[0])
        have[kind] = dict(kind=kind, really=peak, traced=traced(a.launch, kind))
        print(have[kind], have[kind]["traced"] / peak, out.stdout.decode().splitlines()[-1], file=sys.stderr)
        with open(a.out, "w", newline="") as f:
            table = csv.DictWriter(f, HEAD, lineterminator="\n")
            table.writeheader()
            table.writerows(have[k] for k in sorted(have))


if __name__ == "__main__":
    main()
