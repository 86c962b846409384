#!/usr/bin/env python3
"""Records what PyTorch keeps for the backward of the encoders of momentum contrast, and needs at most, for the Go tests.

    moco.py OUT.json [--vits MOCO_V3 --timm TIMM049] "torchvision:resnet50;image=224;batch=2" "vits:vit_small;batch=2" ...

TIMM049 is a folder with timm 0.4.9, which moco-v3's vits.py asks for. Everything is on the "meta" device, as the key
encoder's forward without gradients is.
"""

import argparse
import collections.abc
import importlib.util
import json
import os
import sys
import types

import torch

import measure


def build(where, name, a):
    if where == "torchvision":
        import torchvision

        return torchvision.models.__dict__[name](num_classes=128)
    sys.path.insert(0, a.timm)
    sys.modules.setdefault("torch._six", types.ModuleType("torch._six")).container_abcs = collections.abc
    spec = importlib.util.spec_from_file_location("vits", os.path.join(a.vits, "vits.py"))
    vits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vits)
    model = getattr(vits, name)(stop_grad_conv1=True)
    model.head = torch.nn.Identity()
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("rows", nargs="+")
    p.add_argument("--vits", default="")
    p.add_argument("--timm", default="")
    a = p.parse_intermixed_args()
    rows = []
    for text in a.rows:
        name, *rest = text.split(";")
        where, name = name.split(":")
        kw = {k: json.loads(v) for k, _, v in (r.partition("=") for r in rest)}
        batch, image = kw.get("batch", 2), kw.get("image", 224)
        model = build(where, name, a).to("meta")
        x = torch.rand(batch, 3, image, image, device="meta")
        for amp in (False, True):
            params, buffers = measure.count(model)
            kept, casts, _ = measure.saved(model, [x], amp)
            peak, op = measure.train_peak(model, [x], amp)
            model.train()
            frozen = [q for q in model.parameters() if q.requires_grad]
            for q in frozen:
                q.requires_grad_(False)
            with torch.no_grad(), measure.Live(measure.fixed(model) | {measure.key(x)}, x.device.type) as live, measure.Amp(amp):
                model(x)
            for q in frozen:
                q.requires_grad_(True)
            rows.append({"library": where, "name": name, "image": image, "batch": batch, "amp": amp, "params": params, "buffers": buffers,
                         "trainable": sum(q.numel() for q in frozen), "saved": kept, "casts": casts, "peak": peak, "peak_op": op,
                         "key_peak": live.peak})
            print(rows[-1], file=sys.stderr)
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "device": "meta", "rows": rows}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
