"""The dual cross-attention ViT: the project's own model and loss, in the loop of its trainer (train.py:433-590 at 6a4e6b6).

Checkouts of clau_duaL_cross_attention_learning: three (9b6147a: three streams), last (6a4e6b6: the last block's pairs),
again (227722e: activation checkpointing). The loss's metrics are numbers that Python reads, and need no memory that
counts. Only the classification task: the triplets of Re-ID are chosen by the values of distances.
"""

import importlib
import os
import sys

import torch

import track

DIRS = {}
ROW = {"dim": 768, "heads": 12, "hidden": 3072, "layers": 12, "local": 1, "dropout": 0.1, "classes": 200, "optimizer": "adam"}


def load(version):
    for k in [k for k in sys.modules if k.split(".")[0] == "dual_cross_attention"]:
        del sys.modules[k]
    root = os.path.join(DIRS[version], "dual_cross_attention")
    for name in ("dual_cross_attention", "dual_cross_attention.models", "dual_cross_attention.utils"):
        m = type(sys)(name)
        m.__path__ = [os.path.join(root, *name.split(".")[1:])]
        sys.modules[name] = m
    model = importlib.import_module("dual_cross_attention.models.dual_vit").DualCrossAttentionViT
    return model, importlib.import_module("dual_cross_attention.utils.loss_functions").DualCrossAttentionLoss


def build(a):
    kind, loss = load(a["version"])
    more = {"use_gradient_checkpointing": True} if a.get("checkpointing") else {}
    if a.get("drop_path"):
        more |= {"use_stochastic_depth": True, "stochastic_depth_prob": 0.1}
    torch.nn.init.trunc_normal_ = lambda t, **_: t  # values cost time and nothing else
    model = kind((a["height"], a["width"]), 16, a["classes"], a["dim"], a["layers"], a["local"], a["layers"], a["heads"],
                 a["hidden"], a["dropout"], a["topk"], **more)
    return model.to("meta").train(), loss("fgvc", a["classes"]).to("meta")


def case(a, rec):
    model, criterion = build(a)
    params = [*model.parameters(), *criterion.parameters()]
    if a["optimizer"] == "sgd":
        opt = torch.optim.SGD(params, 0.01, momentum=0.9, foreach=True)
    else:
        opt = torch.optim.Adam(params, 1e-4, foreach=True)
    scale = torch.empty((), device="meta")
    rec.roots(model, criterion, scale)
    n = a["accumulate"]
    for i in rec.steps(2 * n if n > 1 else 3):
        rec.at("batch")
        images = torch.empty(a["batch"], 3, a["height"], a["width"], device="meta")
        labels = torch.empty(a["batch"], dtype=torch.long, device="meta")
        paired = images[torch.empty(a["batch"], dtype=torch.long, device="meta")]
        if i % n == 0:
            opt.zero_grad()
        rec.at("forward")
        with track.autocast(a["precision"]):
            outputs = model(images, x_pair=paired)
            total, losses, metrics = criterion(outputs, {"labels": labels})
            total = total / n
        rec.at("backward")
        (total * scale).backward()
        rec.at("optimizer")
        if (i + 1) % n == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            torch.nn.utils.clip_grad_norm_(criterion.parameters(), 1.0)
            opt.step()
    del losses, metrics
    return [model, criterion]


def fake(a):
    """Of the model with its pair."""
    kind, _ = load(a["version"])
    x = (a["batch"], 3, a["height"], a["width"])
    return track.fake_sum(
        lambda: kind((a["height"], a["width"]), 16, a["classes"], a["dim"], a["layers"], a["local"], a["layers"], a["heads"],
                     a["hidden"], a["dropout"], a["topk"]).train(),
        lambda m: m(torch.empty(x), x_pair=torch.empty(x)), 1 if a["optimizer"] == "sgd" else 2)


def cases(checkouts):
    DIRS.update(checkouts)
    for version, accumulate in (("three", 1), ("three", 2), ("last", 2), ("again", 2)):
        if version not in DIRS:
            continue
        for size, topk, batch in (((448, 448), 0.1, 2), ((448, 448), 0.1, 4), ((256, 128), 0.3, 8)):
            for precision in ("fp16",) if batch == 4 else ("fp32", "fp16"):
                yield case, {"name": f"dcal {version}", "version": version, "height": size[0], "width": size[1], "topk": topk,
                             "batch": batch, "accumulate": accumulate, "precision": precision, "checkpointing": version == "again", **ROW}
        if version == "three" and accumulate == 1:
            for change in ({"dropout": 0.0}, {"drop_path": True}, {"local": 0}, {"optimizer": "sgd"}, {"dim": 384, "heads": 6, "hidden": 1536}):
                yield case, {"name": f"dcal {version}", "version": version, "height": 384, "width": 384, "topk": 0.1, "batch": 2,
                             "accumulate": 1, "precision": "fp16", "checkpointing": False, **ROW, **change}
