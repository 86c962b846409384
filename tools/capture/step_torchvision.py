"""torchvision's classifiers: cross entropy, one optimizer, as any training of them."""

import torch
import torchvision

import track

NETS = ("resnet18", "resnet50", "resnet101", "vit_b_16")


def optimizer(name, params):
    """As on CUDA, where torch's own take lists of parameters at once."""
    if name == "sgd":
        return torch.optim.SGD(params, 0.1, momentum=0.9, weight_decay=1e-4, foreach=True)
    return torch.optim.AdamW(params, 1e-3, foreach=True)


def case(a, rec):
    with torch.device("meta"):
        model = getattr(torchvision.models, a["net"])().train()
    opt = optimizer(a["optimizer"], model.parameters())
    criterion = torch.nn.CrossEntropyLoss()
    rec.roots(model)
    for _ in rec.steps(3):
        rec.at("batch")
        images = torch.empty(a["batch"], 3, a["size"], a["size"], device="meta")
        labels = torch.empty(a["batch"], dtype=torch.long, device="meta")
        rec.at("forward")
        with track.autocast(a["precision"]):
            loss = criterion(model(images), labels)
        rec.at("backward")
        opt.zero_grad()
        loss.backward()
        rec.at("optimizer")
        opt.step()
    return [model]


def fake(a):
    return track.fake_sum(
        lambda: getattr(torchvision.models, a["net"])(), lambda m: m(torch.empty(a["batch"], 3, a["size"], a["size"])),
        1 if a["optimizer"] == "sgd" else 2)


def cases(_):
    for net in NETS:
        for precision in ("fp32", "fp16"):
            for batch, optim in ((2, "sgd"), (8, "adamw"), (32, "sgd")):
                yield case, {"name": net, "net": net, "batch": batch, "size": 224, "precision": precision, "optimizer": optim}
