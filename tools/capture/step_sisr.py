"""traiNNer-redux's step (SRModel.optimize_parameters, traiNNer/models/sr_model.py:547-790 at 68629319): the generator
with its losses, the discriminator's two forwards, two optimizers, accumulation and EMA, with the project's own classes.

Checkout: redux. Weights are not loaded; a loss's network has its sizes and no values. Networks with mish are left out
(realplksr, mosr, dunet): on the meta device its derivative is put together from several operations, where a real device has one.
"""

import copy

import torch
import torch.nn.functional as F

import capture
import measure
import track

DIRS = {}
PLAIN = F.normalize


def normalize(*args, **kwargs):
    """F.normalize, whose norm is told float32 under autocast and makes no copy: see measure.normalize."""
    return (measure.normalize if measure.ACTIVE and measure.ACTIVE[-1].on else PLAIN)(*args, **kwargs)


F.normalize = normalize


def make(kind, spec):
    return capture.find(DIRS["redux"], spec["type"].lower(), kind)(**{k: v for k, v in spec.items() if k not in ("type", "weight")})


def build(a):
    capture.stub_losses()
    losses = []
    with torch.device("meta"):
        net_g = make("archs", {"type": a["net"], "scale": a["scale"], **a["args"]}).train()
        net_d = make("archs", {"type": a["disc"]}).train() if a["disc"] else None
        for spec in a["losses"]:
            if spec["type"] != "ganloss":
                losses.append((make("losses", {"loss_weight": 1.0, **spec}), spec["weight"]))
    for loss, _ in losses:
        if isinstance(loss, torch.nn.Module):
            loss.requires_grad_(False)
    gan = torch.nn.BCEWithLogitsLoss() if net_d else None
    return net_g, net_d, losses, gan


def case(a, rec):
    net_g, net_d, losses, gan = build(a)
    ema = copy.deepcopy(net_g).requires_grad_(False) if a["ema"] else None
    opt_g = torch.optim.AdamW(net_g.parameters(), 1e-4, foreach=True)
    opt_d = torch.optim.AdamW(net_d.parameters(), 1e-4, foreach=True) if net_d else None
    scale = torch.empty((), device="meta")
    mods = [m for m in (net_g, net_d, ema, *[loss for loss, _ in losses]) if isinstance(m, torch.nn.Module)]
    rec.roots(*mods, scale)
    n, lq_size = a["accumulate"], a["lq"]
    for i in rec.steps(2 * n if n > 1 else 3):
        rec.at("batch")
        lq = torch.empty(a["batch"], 3, lq_size, lq_size, device="meta")
        gt = torch.empty(a["batch"], 3, lq_size * a["scale"], lq_size * a["scale"], device="meta")
        rec.at("forward")
        if net_d:
            net_d.requires_grad_(False)
        with track.autocast(a["precision"]):
            output = net_g(lq)
            total = torch.zeros((), device="meta")
            for loss, weight in losses:
                value = loss(output, gt)
                if isinstance(value, dict):
                    for v in value.values():
                        total += v * weight / n
                else:
                    total += value * weight / n
            if gan:
                pred = net_d(output)
                total += gan(pred, torch.ones_like(pred)) * 0.1 / n
        rec.at("backward")
        (total * scale).backward()
        rec.at("optimizer")
        if (i + 1) % n == 0:
            torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad, 2) for p in net_g.parameters() if p.grad is not None]))
            opt_g.step()
            opt_g.zero_grad()
        if gan:
            rec.at("forward of the discriminator")
            net_d.requires_grad_(True)
            with track.autocast(a["precision"]):
                real = net_d(gt)
                loss_real = gan(real, torch.ones_like(real))
                fake_pred = net_d(output.detach())
                loss_fake = gan(fake_pred, torch.zeros_like(fake_pred))
            rec.at("backward of the discriminator")
            ((loss_real + loss_fake) / n * scale).backward()
            rec.at("optimizer")
            if (i + 1) % n == 0:
                opt_d.step()
                opt_d.zero_grad()
        if ema and (i + 1) % n == 0:
            with torch.no_grad():
                for p, q in zip(ema.parameters(), net_g.parameters()):
                    p.lerp_(q, 0.001)
    return mods


def fake(a):
    """Of the generator alone, which is what a user would hand over."""
    return track.fake_sum(lambda: make("archs", {"type": a["net"], "scale": a["scale"], **a["args"]}),
                          lambda m: m(torch.empty(a["batch"], 3, a["lq"], a["lq"])), 2)


def cases(checkouts):
    DIRS.update(checkouts)
    l1 = [{"type": "l1loss", "weight": 1.0}]
    char = [{"type": "charbonnierloss", "weight": 1.0}]
    vgg = [*char, {"type": "perceptualloss", "weight": 1.0}]
    gan = [*vgg, {"type": "ganloss", "weight": 0.1}]
    base = {"scale": 4, "args": {}, "batch": 4, "lq": 64, "losses": l1, "disc": "", "ema": True, "accumulate": 1, "optimizer": "adamw"}
    for change in ({"net": "compact"}, {"net": "compact", "losses": gan, "disc": "unetdiscriminatorsn"}, {"net": "span", "losses": char, "batch": 8},
                   {"net": "esrgan", "losses": char, "batch": 2}, {"net": "esrgan", "losses": gan, "disc": "unetdiscriminatorsn", "batch": 2, "lq": 48},
                   {"net": "plksr", "losses": gan, "disc": "patchgandiscriminatorsn", "accumulate": 2, "batch": 2},
                   {"net": "safmn", "ema": False, "batch": 8}, {"net": "rcan", "losses": char, "batch": 2}, {"net": "swinir_s", "losses": l1, "batch": 2},
                   {"net": "artcnn_r8f64", "losses": vgg, "accumulate": 2}, {"net": "hat_s", "losses": char, "batch": 1}):
        for precision in ("fp32", "bf16"):
            a = {**base, **change}
            yield case, {"name": a["net"] + (" with GAN" if a["disc"] else ""), **a, "precision": precision}
    # Attention networks, in a file of their own: steps_sisr_attention.json.
    for net, batch, lq in (("srformer_light", 2, 64), ("srformerv2", 1, 36), ("swin2sr_s", 2, 64), ("rgt_s", 1, 64), ("elan_light", 2, 64),
                           ("hit_sir", 1, 48), ("hit_srf", 2, 64), ("hat_iln_s", 1, 64), ("dat_iln_light", 2, 64), ("grl_t", 1, 64)):
        for precision in ("fp32", "bf16"):
            yield case, {"name": net, **base, "net": net, "batch": batch, "lq": lq, "kind": "attention", "precision": precision}
