#!/usr/bin/env python3
"""Records what PyTorch keeps, and needs at most, in a training step of StableSR's second stage, the controllable
feature wrapping (AutoencoderKLResi), of the project's own classes.

    stablesr.py OUT.json --checkout STABLESR --taming TAMING [--commit SHA] "name;size=512;batch=1;freeze_dec=true" ...

TAMING is a checkout of CompVis/taming-transformers, from which the loss is. A step is what Lightning 1.4 makes of two
optimizers: of each in turn alone the parameters require gradients (toggle_optimizer), then forward and backward.
Packages that decide nothing here (Lightning itself, image degradations, weights from the network) are stubs.
"""

import argparse
import gc
import importlib
import json
import os
import sys
import types

import torch

import measure


def package(name, path):
    m = types.ModuleType(name)
    m.__path__ = [path]
    sys.modules[name] = m
    return m


def stub(name, **members):
    m = types.ModuleType(name)
    for k, v in members.items():
        setattr(m, k, v)
    sys.modules[name] = m
    return m


def load(checkout, taming):
    """The project's autoencoder module, without what it imports and does not use here."""
    import torchvision

    class Registry:
        def register(self):
            return lambda cls: cls

    none = None
    sys.path[:0] = [checkout, taming]
    package("basicsr", os.path.join(checkout, "basicsr"))
    package("basicsr.archs", os.path.join(checkout, "basicsr", "archs"))
    stub("basicsr.ops.dcn", ModulatedDeformConvPack=torch.nn.Module, modulated_deform_conv=none)
    stub("basicsr.utils", get_root_logger=none, scandir=none, DiffJPEG=none, USMSharp=none)
    stub("basicsr.utils.registry", ARCH_REGISTRY=Registry())
    stub("basicsr.utils.img_process_util", filter2D=none)
    stub("basicsr.data")
    stub("basicsr.data.transforms", paired_random_crop=none, triplet_random_crop=none)
    stub("basicsr.data.degradations", random_add_gaussian_noise_pt=none, random_add_poisson_noise_pt=none,
         random_add_speckle_noise_pt=none, random_add_saltpepper_noise_pt=none)
    stub("distutils", version=none)
    stub("distutils.version", LooseVersion=str)
    stub("pytorch_lightning", LightningModule=torch.nn.Module)
    stub("taming.util", get_ckpt_path=none)
    lpips = importlib.import_module("taming.modules.losses.lpips")
    lpips.LPIPS.load_from_pretrained = lambda self, name="": None
    real = torchvision.models.vgg16
    torchvision.models.vgg16 = lambda pretrained=False: real(weights=None)
    return importlib.import_module("ldm.models.autoencoder")


def fused_dropout(x, p=0.5, training=True, inplace=False):
    """Dropout as CUDA carries it out, which saves a mask of one byte an element (_dropout_impl in Dropout.cpp)."""
    return torch.native_dropout(x, p, training)[0] if training and p > 0 else x


def build(module, freeze_dec=True, kl_weight=0.0, perceptual_weight=1.0, disc_loss="hinge", use_canny_cfw=False, **kw):
    dd = dict(double_z=True, z_channels=4, resolution=512, in_channels=3, out_ch=3, ch=128, ch_mult=[1, 2, 4, 4],
              num_res_blocks=2, attn_resolutions=[], dropout=0.0)
    dd.update(kw)
    loss = {"target": "ldm.modules.losses.LPIPSWithDiscriminator", "params": {
        "disc_start": 0, "kl_weight": kl_weight, "disc_weight": 0.025, "disc_factor": 1.0,
        "perceptual_weight": perceptual_weight, "disc_loss": disc_loss}}
    more = {}
    if use_canny_cfw:
        more = {"use_canny_cfw": True, "canny_controlnet_stage_config": {"target": "ldm.modules.controlnet_cldm.ControlNet", "params": dict(
            image_size=32, in_channels=4, hint_channels=3, model_channels=320, attention_resolutions=[4, 2, 1], num_res_blocks=2,
            channel_mult=[1, 2, 4, 4], num_head_channels=64, use_spatial_transformer=True, use_linear_in_transformer=True,
            transformer_depth=1, context_dim=1024, use_checkpoint=False, legacy=False)}}
        stub("omegaconf")
        stub("omegaconf.listconfig", ListConfig=list)
    with open(os.devnull, "w", encoding="utf-8") as quiet:
        out, sys.stdout = sys.stdout, quiet
        try:
            return module.AutoencoderKLResi(ddconfig=dd, lossconfig=loss, embed_dim=4, freeze_dec=freeze_dec, **more)
        finally:
            sys.stdout = out


def toggle(optimizers, i):
    """toggle_optimizer, and what untoggle_optimizer puts back."""
    before = {p: p.requires_grad for o in optimizers for p in o}
    for p in before:
        p.requires_grad_(False)
    for p in optimizers[i]:
        p.requires_grad_(before[p])
    return before


def edges(model, gt):
    """_enc_fea_canny_from_gt of stm233's fork, whose edges are found on the host."""
    if not getattr(model, "use_canny_cfw", False):
        return {}
    with torch.no_grad():
        image = ((gt + 1.0) * 0.5).clamp(0, 1)
        hint = torch.zeros_like(image)
        t = torch.full((hint.shape[0],), 999, device=hint.device, dtype=torch.long)
        context = torch.zeros(hint.shape[0], 77, 1024, device=hint.device)
        return {"enc_fea_canny": model.canny_controlnet_for_cfw.encode_hint_for_cfw(hint, t, context)}


def step(model, batch, live=None, tally=None):
    """Both optimizers' halves of training_step; tally hears what the first graph saves."""
    x, gt, latent = batch
    optimizers = [list(model.encoder.parameters()) + list(model.decoder.parameters()) +
                  list(model.post_quant_conv.parameters()), list(model.loss.discriminator.parameters())]
    for i in range(2):
        before = toggle(optimizers, i)

        def pack(t, i=i):
            if live is not None:
                live.track(t, "saved")
            if tally is not None and i == 0:
                tally(t)
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            rec, posterior = model(x, latent, **edges(model, gt))
            loss, _log = model.loss(gt, rec, posterior, i, 1, last_layer=model.get_last_layer(), split="train")
        del rec, posterior, _log
        if tally is not None and i == 0:
            tally(None)
        loss.backward()
        del loss
        for p, want in before.items():
            p.requires_grad_(want)
        if live is not None:
            live.marks.append(live.peak)


def record(module, name, size, batch, **kw):
    model = build(module, **kw).to("meta").train()

    def images():
        side = size // 8
        return [torch.rand(batch, 3, size, size, device="meta"), torch.rand(batch, 3, size, size, device="meta"),
                torch.rand(batch, 4, side, side, device="meta")]

    def fixed(xs):
        return measure.fixed(model) | {measure.key(x) for x in xs}

    xs = images()
    exclude, seen, keep, total = fixed(xs), {}, [], []

    def tally(t):
        if t is None:
            total.append(sum(seen.values()))
            keep.clear()
        elif not total and measure.key(t) not in exclude and measure.key(t) not in seen:
            seen[measure.key(t)] = measure.nbytes(t)
            keep.append(t)

    step(model, xs, tally=tally)
    for p in model.parameters():
        p.grad = None
    gc.collect()
    gc.disable()
    live = measure.Live(exclude, xs[0].device.type)
    live.marks = []
    with live:
        step(model, xs, live=live)
    gc.enable()
    grads = sum(measure.nbytes(p.grad) for p in model.parameters() if p.grad is not None)
    for p in model.parameters():
        p.grad = None
    gc.collect()
    val = measure.Live(exclude, xs[0].device.type)
    with torch.no_grad(), val:
        model.eval()
        rec, posterior = model(xs[0], xs[2], **edges(model, xs[1]))
        for i in range(2):
            model.loss(xs[1], rec, posterior, i, 1, last_layer=model.get_last_layer(), split="val")
    count = lambda ps: sum(p.numel() for p in ps)  # noqa: E731
    return {
        "name": name, "size": size, "batch": batch, "args": kw, "params": count(model.parameters()),
        "trainable": count(p for p in model.parameters() if p.requires_grad),
        "control": count(p for n, p in model.named_parameters() if "canny_controlnet" in n),
        "fusion": count(p for n, p in model.named_parameters() if "fusion_layer" in n),
        "discriminator": count(model.loss.discriminator.parameters()),
        "perceptual": count(model.loss.perceptual_loss.parameters()),
        "buffers": sum(b.numel() for b in model.buffers()), "saved": total[0], "grads": grads,
        "peak_first": live.marks[0], "peak": live.peak, "peak_op": live.op, "val_peak": val.peak, "val_op": val.op,
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("rows", nargs="+")
    p.add_argument("--checkout", required=True)
    p.add_argument("--taming", required=True)
    p.add_argument("--commit", default="")
    a = p.parse_intermixed_args()
    module = load(a.checkout, a.taming)
    torch.nn.functional.dropout = fused_dropout
    rows = []
    for text in a.rows:
        name, *rest = text.split(";")
        kw = {k: json.loads(v) for k, _, v in (r.partition("=") for r in rest)}
        rows.append(record(module, name, **kw))
        print(rows[-1], file=sys.stderr)
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump({"torch": torch.__version__, "device": "meta", "commit": a.commit, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
