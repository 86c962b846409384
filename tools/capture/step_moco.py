"""MoCo v2, v3 and solar-ssl: their own builders, and the lines of their training loops that touch the card.

Checkouts: v2 (facebookresearch/moco), v3 (facebookresearch/moco-v3, on timm 0.4.9, which the checkout's Python finds
on its path), solar (solar-ssl/moco-v3, main), solark2 (its state of 2026-02-05), solarexp (its branch
experiment--large-batch-size, on timm 1.0: a recording of its own). One process: its gathers are copies.
"""

import functools
import importlib.util
import os
import sys
import types

import torch
import torchvision

import track

DIRS = {}


def plain(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def alone():
    """torch.distributed of one process."""
    d = torch.distributed
    d.get_world_size, d.get_rank, d.is_initialized = lambda *_: 1, lambda *_: 0, lambda: True
    d.all_gather = lambda out, x, **_: out[0].copy_(x)
    d.broadcast = lambda *_, **__: None


def on_host(model):
    """The queue's pointer, whose value Python reads."""
    if "queue_ptr" in model._buffers:
        model.queue_ptr = torch.zeros(1, dtype=torch.long)
    return model.train()


def sgd(params):
    return torch.optim.SGD(params, 0.03, momentum=0.9, weight_decay=1e-4, foreach=True)


def optimizer(a, model):
    if a["optimizer"] == "lars":
        lars = plain(os.path.join(DIRS["v3"], "moco", "optimizer.py"), "moco_v3_optimizer").LARS
        return lars(model.parameters(), 0.6, weight_decay=1e-6)
    if a["optimizer"] == "adamw":
        return torch.optim.AdamW(model.parameters(), 1.5e-4, weight_decay=0.1, foreach=True)
    return sgd(model.parameters())


def images(a):
    return [torch.empty(a["batch"], 3, 224, 224, device="meta") for _ in range(2)]


def v2(a, rec):
    builder = plain(os.path.join(DIRS["v2"], "moco", "builder.py"), "moco_v2_builder")
    with torch.device("meta"):
        model = builder.MoCo(torchvision.models.__dict__[a["net"]], 128, a["k"], 0.999, 0.07, a["mlp"])
    on_host(model)
    criterion, opt = torch.nn.CrossEntropyLoss(), optimizer(a, model)
    rec.roots(model)
    for _ in rec.steps(3):
        rec.at("batch")
        x = images(a)
        rec.at("forward")
        output, target = model(im_q=x[0], im_k=x[1])
        loss = criterion(output, target)
        rec.at("backward")
        opt.zero_grad()
        loss.backward()
        rec.at("optimizer")
        opt.step()
    return [model]


def old_timm():
    """moco-v3's vits.py imports what newer releases of timm have elsewhere; it asks for 0.4.9, which wants torch._six."""
    six = types.ModuleType("torch._six")
    six.container_abcs, six.string_classes, six.int_classes, six.inf = __import__("collections.abc").abc, (str, bytes), int, float("inf")
    sys.modules.setdefault("torch._six", six)
    import timm

    if timm.__version__ != "0.4.9":
        raise SystemExit(f"moco-v3's transformers are timm 0.4.9's, and this is {timm.__version__}")


def v3(a, rec):
    builder = plain(os.path.join(DIRS["v3"], "moco", "builder.py"), "moco_v3_builder")
    if a["net"].startswith("vit"):
        old_timm()
        net = getattr(plain(os.path.join(DIRS["v3"], "vits.py"), "moco_v3_vits"), a["net"])
        kind, net = builder.MoCo_ViT, functools.partial(net, stop_grad_conv1=True)
    else:
        kind, net = builder.MoCo_ResNet, functools.partial(torchvision.models.__dict__[a["net"]], zero_init_residual=True)
    with torch.device("meta"):
        model = kind(net, 256, 4096, 0.2).train()
    opt = optimizer(a, model)
    scale = torch.empty((), device="meta")
    rec.roots(model, scale)
    for _ in rec.steps(3):
        rec.at("batch")
        x = images(a)
        rec.at("forward")
        with track.autocast(a["precision"]):
            loss = model(x[0], x[1], 0.99)
        rec.at("backward")
        opt.zero_grad()
        (loss * scale).backward()
        rec.at("optimizer")
        opt.step()
    return [model]


def solar(a, rec):
    """Its main, with accumulation, and the state of before; zero_grad stands behind the step."""
    root = DIRS[a["project"]]
    mod = plain(os.path.join(root, "src", "models", "moco_v3.py"), a["project"] + "_moco_v3")
    backbones = plain(os.path.join(root, "src", "models", "backbones.py"), a["project"] + "_backbones")
    old = a["project"] == "solark2"
    more = {"use_queue": a["queue"], "queue_size": a["k"]} if old else {"K": a["k"]}
    with torch.device("meta"):
        model = mod.MoCoV3(functools.partial(backbones.get_backbone, a["net"]), 256, 4096, 0.2, 0.99, **more)
    on_host(model)
    opt = optimizer(a, model)
    scale = torch.empty((), device="meta")
    rec.roots(model, scale)
    n = a["accumulate"]
    for i in rec.steps(2 * n if n > 1 else 3):
        rec.at("batch")
        x = images(a)
        rec.at("forward")
        with track.autocast(a["precision"]):
            loss = model(x[0], x[1], 0.99) if old else model(x[0], x[1], 0.99, use_queue=a["queue"])
            if not old:
                loss = loss / n
        rec.at("backward")
        if old:
            opt.zero_grad()
        (loss * scale).backward()
        rec.at("optimizer")
        if (i + 1) % n == 0:
            opt.step()
            if not old:
                opt.zero_grad()
    return [model]


def solarexp(a, rec):
    root = DIRS["solarexp"]
    import timm

    if timm.__version__.startswith("0."):
        raise SystemExit(f"the branch's transformers are timm 1.0's, and this is {timm.__version__}")
    mod = plain(os.path.join(root, "src", "models", "moco_v3.py"), "solarexp_moco_v3")
    backbones = plain(os.path.join(root, "src", "models", "backbones.py"), "solarexp_backbones")
    torch.distributed.is_initialized = lambda: False
    with torch.device("meta"):
        model = mod.MoCoV3(functools.partial(backbones.get_backbone, a["net"]), 256, 4096, 0.2, 0.99).train()
    opt = optimizer(a, model)
    rec.roots(model)
    for _ in rec.steps(3):
        rec.at("batch")
        x = images(a)
        rec.at("forward")
        loss = model(x[0], x[1], 0.99)
        rec.at("backward")
        opt.zero_grad()
        loss.backward()
        rec.at("optimizer")
        opt.step()
    return [model]


def cases(checkouts):
    DIRS.update(checkouts)
    alone()
    if "v2" in DIRS:
        for net, mlp, k, batches in (("resnet18", False, 65536, (8, 32)), ("resnet50", False, 65536, (8,)), ("resnet50", True, 65536, (8, 32, 64)),
                                     ("resnet50", True, 4096, (8,)), ("resnet101", True, 65536, (8,))):
            for batch in batches:
                yield v2, {"name": "moco v2 " + net, "project": "v2", "net": net, "mlp": mlp, "k": k, "batch": batch,
                           "precision": "fp32", "optimizer": "sgd"}
    if "v3" in DIRS:
        for net, optim, batches in (("resnet50", "lars", (8, 32)), ("vit_small", "adamw", (8, 32)), ("vit_base", "adamw", (2, 8, 32)),
                                    ("vit_conv_small", "adamw", (8,)), ("vit_conv_base", "adamw", (8,))):
            for batch in batches:
                for precision in ("fp32", "fp16"):
                    yield v3, {"name": "moco v3 " + net, "project": "v3", "net": net, "batch": batch, "precision": precision, "optimizer": optim}
    for project in ("solar", "solark2"):
        if project not in DIRS:
            continue
        for net, optim, batch, queue, accumulate in (
                ("resnet50", "sgd", 8, True, 1), ("resnet50", "sgd", 8, True, 4), ("resnet50", "sgd", 32, True, 4), ("resnet50", "adamw", 16, False, 2),
                ("vit_small", "adamw", 8, True, 1)):
            if project == "solark2":
                if accumulate > 1:
                    continue
            for precision in ("fp32", "fp16"):
                yield solar, {"name": "solar-ssl " + net, "project": project, "net": net, "batch": batch, "precision": precision, "optimizer": optim,
                              "queue": queue, "k": 65536, "accumulate": accumulate}
    if "solarexp" in DIRS:
        for net, optim, batch in (("resnet50", "sgd", 8), ("vit_small", "sgd", 2), ("vit_small", "adamw", 8), ("vit_base", "adamw", 8)):
            yield solarexp, {"name": "solar-ssl exp " + net, "project": "solarexp", "net": net, "batch": batch, "precision": "fp32", "optimizer": optim}
