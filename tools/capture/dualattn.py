#!/usr/bin/env python3
"""Records what PyTorch keeps for the backward of a dual cross-attention ViT, and needs at most, of the project's own class.

    dualattn.py OUT.json "CHECKOUT@COMMIT;height=448;width=448;batch=2;classes=200;top_k=0.1;layers=12" ...

Rows with and without CUDA's autocast, on the CPU (the rollout looks at values). The loss is the mean of the branches' logits: the project's
own adds numbers, not tensors. Of an evaluation the peak is that of the second batch, while the maps of the first live.
"""

import gc
import json
import os
import sys
import types

import torch

import measure


def load(checkout):
    """The model's class, without what the package's __init__ files import besides."""
    for k in [k for k in sys.modules if k.startswith("dual_cross_attention")]:
        del sys.modules[k]
    for name in ("", ".models", ".utils"):
        m = types.ModuleType("dual_cross_attention" + name)
        m.__path__ = [os.path.join(checkout, "dual_cross_attention", name[1:])]
        sys.modules[m.__name__] = m
    import dual_cross_attention.models.dual_vit as dual_vit

    return dual_vit.DualCrossAttentionViT


def fused_dropout(x, p=0.5, training=True, inplace=False):
    """Dropout as CUDA carries it out, which saves a mask of one byte an element (_dropout_impl in Dropout.cpp)."""
    return torch.native_dropout(x, p, training)[0] if training and p > 0 else x


def logits(out):
    return [v for k, v in out.items() if k.endswith("_logits")]


def train(model, xs, amp):
    model.train()
    gc.collect()
    gc.disable()
    live = measure.Live(measure.fixed(model) | {measure.key(x) for x in xs}, xs[0].device.type)

    def pack(t):  # detached: a result that its own node keeps would live for ever, in graphs that die before a backward
        t = t.detach()
        live.track(t, "saved")
        return t

    with live:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            with measure.Amp(amp) as mode:
                out = model(xs[0], x_pair=xs[1])
            if mode:
                mode.cache.clear()
            loss = sum(v.float().mean() for v in logits(out))
        held = sum({measure.key(v): measure.nbytes(v) for v in [*out.values(), loss] if isinstance(v, torch.Tensor)}.values())
        kept = live.now - held
        loss.backward()
    gc.enable()
    del out, loss
    for p in model.parameters():
        p.grad = None
    return kept, live.peak, live.op


def evaluate(model, xs):
    model.eval()
    gc.collect()
    with torch.no_grad(), measure.Live(measure.fixed(model) | {measure.key(x) for x in xs}, xs[0].device.type) as live:
        out = model(xs[0], x_pair=None)
        out = model(xs[0], x_pair=None)
    del out
    model.attention_maps = {}
    return live.peak


def main():
    out, *texts = sys.argv[1:]
    torch.nn.functional.dropout = fused_dropout
    measure.patch_checkpoint()
    rows = []
    for text in texts:
        where, *rest = text.split(";")
        checkout, commit = where.rsplit("@", 1)
        a = {k: json.loads(v) for k, _, v in (r.partition("=") for r in rest)}
        model = load(checkout)(
            img_size=(a["height"], a["width"]), num_classes=a["classes"], num_sa_layers=a["layers"], num_pwca_layers=a["layers"],
            dropout=a.get("dropout", 0.1), top_k_ratio=a["top_k"], **({"use_stochastic_depth": True, "stochastic_depth_prob": 0.1} if a.get("drop_path") else {}),
        ).to("cpu")
        xs = [torch.rand(a["batch"], 3, a["height"], a["width"], device="cpu") for _ in range(2)]
        for amp in (False, True):
            kept, peak, op = train(model, xs, amp)
            rows.append(dict(a, commit=commit, amp=amp, params=sum(p.numel() for p in model.parameters()), saved=kept,
                             peak=peak, peak_op=op, val_peak=evaluate(model, xs)))
            print(rows[-1], file=sys.stderr)
        with open(out, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "device": "cpu", "rows": rows}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
