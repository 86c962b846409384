"""neosr's step (image.feed_data, closure and optimize_parameters, neosr/models/image.py:441-790 at 31c7022): the generator with its
losses, the discriminator's judgement without a graph, its own two forwards in eval mode, both optimizers, then both averaged copies;
and CUDAPrefetcher's batch ahead (train.py:65).

Checkout: neosr. Optimizers are AdamW. Networks with mish are left out (metagan too): see step_sisr.py; consistency_loss asks for a
number, which a meta tensor has not.
"""

import copy

import torch

import capture
import measure
import track
from step_sisr import DIRS as _  # noqa: F401  (its F.normalize)

DIRS = {}


def make(kind, spec):
    return capture.find(DIRS["neosr"], spec["type"], kind)(**{k: v for k, v in spec.items() if k not in ("type", "weight")})


def build(a):
    capture.stub_losses()
    with torch.device("meta"):
        net_g = make("archs", {"type": a["net"], **a["args"]}).train()
        net_d = make("archs", {"type": a["disc"]}).train() if a["disc"] else None
        losses = [(make("losses", spec), spec["weight"]) for spec in a["losses"] if spec["type"] != "gan_loss"]
    for loss, _weight in losses:
        loss.requires_grad_(False)
    return net_g, net_d, losses


def case(a, rec):
    net_g, net_d, losses = build(a)
    gan = torch.nn.BCEWithLogitsLoss()
    nets = [n for n in (net_g, net_d) if n]
    emas = [copy.deepcopy(n).requires_grad_(False) for n in nets] if a["ema"] else []
    opts = [torch.optim.AdamW(n.parameters(), 1e-4, foreach=True) for n in nets]
    rec.roots(*nets, *emas, *[loss for loss, _ in losses])
    n, side = a["accumulate"], a["lq"] * a["scale"]

    def batch():
        return torch.empty(a["batch"], 3, a["lq"], a["lq"], device="meta"), torch.empty(a["batch"], 3, side, side, device="meta")

    ahead = output = None
    for i in rec.steps(2 * n if n > 1 else 3):
        rec.at("batch")
        lq, gt = ahead or batch()
        ahead = batch()
        rec.at("forward")
        if net_d:
            net_d.requires_grad_(False)
        with track.autocast(a["precision"]):
            output = net_g(lq)
            output = output.clamp(1 / 255, 1)
            total = torch.zeros(1, device="meta")
            for loss, _weight in losses:
                total += loss(output, gt)
            if net_d:
                net_d.eval()
                with torch.no_grad():
                    pred = net_d(output)
                total += gan(pred, torch.ones_like(pred)) * 0.3
                del pred
                net_d.train()
        total /= n
        rec.at("backward")
        total.backward()
        done = (i + 1) % n == 0
        if done:
            torch.nn.utils.clip_grad_norm_(net_g.parameters(), 1.0)
        if net_d:
            rec.at("forward of the discriminator")
            net_d.requires_grad_(True)
            with track.autocast(a["precision"]):
                net_d.eval()
                real = net_d(gt)
                loss_real = gan(real, torch.ones_like(real)) / n
                fake = net_d(output.detach())
                loss_fake = gan(fake, torch.zeros_like(fake)) / n
                net_d.train()
                rec.at("backward of the discriminator")
                loss_real.backward()
                loss_fake.backward()
            if done:
                torch.nn.utils.clip_grad_norm_(net_d.parameters(), 1.0)
        rec.at("optimizer")
        if done:
            for o in opts:
                o.step()
            for o in opts:
                o.zero_grad()
            with torch.no_grad():
                for e, m in zip(emas, nets):
                    torch._foreach_lerp_(list(e.parameters()), list(m.parameters()), 0.001)
    return [*nets, *emas, *[loss for loss, _ in losses]]


def cases(checkouts):
    DIRS.update(checkouts)
    l1 = [{"type": "L1Loss", "weight": 1.0}]
    more = [{"type": "mssim_loss", "weight": 1.0}, {"type": "ldl_loss", "weight": 1.0}]
    gan = [*more, {"type": "gan_loss", "weight": 1.0}]
    base = {"scale": 4, "args": {}, "batch": 4, "lq": 64, "losses": l1, "disc": "", "ema": True, "accumulate": 1, "optimizer": "adamw"}
    for change in ({"net": "compact"}, {"net": "compact", "losses": gan, "disc": "unet"}, {"net": "span", "losses": more},
                   {"net": "esrgan", "losses": gan, "disc": "unet", "batch": 2, "lq": 48}, {"net": "plksr", "losses": gan, "disc": "patchgan", "batch": 2},
                   {"net": "ninasr", "losses": gan, "disc": "patchgan", "ema": False}, {"net": "hasn", "losses": more, "accumulate": 2},
                   {"net": "safmn", "losses": gan, "disc": "unet", "accumulate": 2}):
        for precision in ("fp32", "bf16"):
            a = {**base, **change}
            yield case, {"name": a["net"] + (" with GAN" if a["disc"] else ""), **a, "precision": precision}
