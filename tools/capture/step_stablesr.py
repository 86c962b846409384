"""StableSR and its edge fork: their own UNet, structural encoder, first stage and text tower, in the order of
LatentDiffusionSRTextWT.shared_step (ldm/models/diffusion/ddpm.py:2306 at 398ee938) and of
LatentDiffusionSRTextWTWithEdge.training_step (ddpm_with_edge.py:332 at cea3b81b).

Checkouts: stablesr (IceClear/StableSR), edge (leiweiqiang/StableSR at cea3b81b). The LightningModule itself wants
packages of 2021, so its lines are walked here: pool of degraded pairs, two encodings, text, structure, UNet, loss;
backward; AdamW of torch 1, one parameter at a time, whose zero_grad keeps the gradients. The degradations that make a
pair are random and come before all that; they are left out. open_clip is wanted for the text tower, of any release.
"""

import importlib
import os
import sys
import types

import torch

import track

DIRS = {}


def stub(name, **attributes):
    m = types.ModuleType(name)
    m.__dict__.update(attributes)
    sys.modules[name] = m


class Fused:
    """xformers' attention, which saves what any fused kernel does."""

    @staticmethod
    def memory_efficient_attention(q, k, v, **_):
        import measure

        return measure.FusedAttention.apply(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)).squeeze(1)


def load(project, xformers):
    for k in [k for k in sys.modules if k.split(".")[0] in ("ldm", "basicsr", "xformers")]:
        del sys.modules[k]
    root = DIRS[project]
    for name in ("ldm", "ldm.modules", "ldm.modules.diffusionmodules", "ldm.modules.distributions"):
        stub(name, __path__=[os.path.join(root, *name.split("."))])
    nothing = dict.fromkeys(("ConvLayer", "EqualConv2d", "default_init_weights", "make_layer", "pixel_unshuffle", "RRDB"))
    for name in ("basicsr", "basicsr.archs", "basicsr.archs.stylegan2_arch", "basicsr.archs.arch_util", "basicsr.archs.rrdbnet_arch"):
        stub(name, __path__=[], **nothing)
    stub("omegaconf", __path__=[])
    stub("omegaconf.listconfig", ListConfig=tuple)
    if xformers:
        stub("xformers", __path__=[], ops=Fused)
        stub("xformers.ops", memory_efficient_attention=Fused.memory_efficient_attention)
    else:
        sys.modules["xformers"] = None  # an import of it fails
    unets = importlib.import_module("ldm.modules.diffusionmodules.openaimodel")
    stages = importlib.import_module("ldm.modules.diffusionmodules.model")
    if project == "edge":
        return unets, stages, importlib.import_module("ldm.modules.diffusionmodules.unet_with_edge")
    return unets, stages, None


UNET = {"image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 320, "attention_resolutions": [4, 2, 1],
        "num_res_blocks": 2, "channel_mult": [1, 2, 4, 4], "num_head_channels": 64, "use_spatial_transformer": True,
        "use_linear_in_transformer": True, "transformer_depth": 1, "context_dim": 1024, "use_checkpoint": False, "legacy": False,
        "semb_channels": 256}
STRUCT = {"image_size": 96, "in_channels": 4, "model_channels": 256, "out_channels": 256, "num_res_blocks": 2,
          "attention_resolutions": [4, 2, 1], "dropout": 0, "channel_mult": [1, 1, 2, 2], "conv_resample": True, "dims": 2,
          "use_checkpoint": False, "use_fp16": False, "num_heads": 4, "num_head_channels": -1, "num_heads_upsample": -1,
          "use_scale_shift_norm": False, "resblock_updown": False, "use_new_attention_order": False}
VAE = {"double_z": True, "z_channels": 4, "resolution": 512, "in_channels": 3, "out_ch": 3, "ch": 128, "ch_mult": [1, 2, 4, 4],
       "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0}


class FirstStage(torch.nn.Module):
    """AutoencoderKL's two halves and the convolutions between them."""

    def __init__(self, stages):
        super().__init__()
        self.encoder, self.decoder = stages.Encoder(**VAE), stages.Decoder(**VAE)
        self.quant_conv, self.post_quant_conv = torch.nn.Conv2d(8, 8, 1), torch.nn.Conv2d(4, 4, 1)

    @torch.no_grad()
    def encode(self, x):
        mean, logvar = self.quant_conv(self.encoder(x)).chunk(2, 1)
        logvar = torch.clamp(logvar, -30.0, 20.0)
        return (0.18215 * (mean + torch.exp(0.5 * logvar) * torch.randn_like(mean))).detach()

    @torch.no_grad()
    def decode(self, z):
        return self.decoder(self.post_quant_conv(1.0 / 0.18215 * z))


class Text(torch.nn.Module):
    """FrozenOpenCLIPEmbedder: open_clip's ViT-H-14 without its images, up to the last block but one."""

    def __init__(self):
        super().__init__()
        import open_clip

        config = open_clip.get_model_config("ViT-H-14")
        config.pop("custom_text", None)
        self.model = open_clip.CLIP(**config)
        del self.model.visual
        for block in self.model.transformer.resblocks:
            block.attn.batch_first = False  # as in the releases of its day
        self.eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, tokens):
        m = self.model
        x = (m.token_embedding(tokens) + m.positional_embedding).permute(1, 0, 2)
        for block in m.transformer.resblocks[:-1]:
            x = block(x, attn_mask=m.attn_mask)
        return m.ln_final(x.permute(1, 0, 2))


def build(a):
    unets, stages, edges = load(a["project"], a["xformers"])
    with torch.device("meta"):
        if edges:
            unet = edges.UNetModelDualcondV2WithEdge(**UNET, use_edge_processing=True, edge_input_channels=3)
        else:
            unet = unets.UNetModelDualcondV2(**UNET)
        struct, first, text = unets.EncoderUNetModelWT(**STRUCT), FirstStage(stages), Text()
    if not a["unfrozen"]:
        unet.eval()
        for name, p in unet.named_parameters():
            p.requires_grad = "spade" in name
    first.eval().requires_grad_(False)
    return unet, struct.train(), first, text


def case(a, rec):
    unet, struct, first, text = build(a)
    opt = torch.optim.AdamW([*unet.parameters(), *struct.parameters()], 5e-5, foreach=False)
    b, s, q = a["batch"], a["size"], a["queue"]
    queue = [torch.empty(q, 3, s, s, device="meta") for _ in range(2)] if q else []
    rec.roots(unet, struct, first, text, *queue)
    if queue:
        lr_pool, gt_pool = queue
        del queue
    edged = a["project"] == "edge"
    for _ in rec.steps(3):
        rec.at("batch")
        batch = [torch.empty(b, 3, s, s, device="meta") for _ in range(2 if edged else 1)]
        lq, gt = torch.empty(b, 3, s, s, device="meta"), torch.empty(b, 3, s, s, device="meta")
        tokens = torch.empty(b, 77, dtype=torch.long, device="meta")
        with torch.no_grad():
            if q:  # the pool is full: it is shuffled, then pairs are taken and put
                order = torch.empty(q, dtype=torch.long, device="meta")
                lr_pool, gt_pool = lr_pool[order], gt_pool[order]
                new_lq, new_gt = lr_pool[:b].clone(), gt_pool[:b].clone()
                lr_pool[:b], gt_pool[:b] = lq.clone(), gt.clone()
                lq, gt = new_lq, new_gt
            lq, gt = lq * 2 - 1.0, gt * 2 - 1.0
            lq = torch.clamp(lq, -1.0, 1.0)
        edge_map = None
        if edged:
            edge_map = (batch[1].float() * 2.0 - 1.0).requires_grad_(True)
        rec.at("forward")
        z, z_gt = first.encode(lq), first.encode(gt)
        t = torch.empty(b, dtype=torch.long, device="meta")
        if edged:
            xrec = first.decode(z_gt)
            cond = struct(first.encode(lq), t)
            c = text(tokens)
        else:
            c = text(tokens)
            cond = struct(z, t)
        start = z if edged else z_gt
        noise = torch.randn_like(start)
        noisy = 0.5 * start + 0.5 * noise
        out = unet(noisy, t, context=c, struct_cond=cond, **({"edge_map": edge_map} if edged else {}))
        loss_simple = torch.nn.functional.mse_loss(noise, out, reduction="none").mean([1, 2, 3])
        loss = loss_simple.mean()
        loss_vlb = torch.nn.functional.mse_loss(noise, out, reduction="none").mean(dim=(1, 2, 3)).mean()
        loss = loss + 0.0 * loss_vlb
        rec.at("backward")
        opt.zero_grad(set_to_none=False)
        loss.backward()
        rec.at("optimizer")
        opt.step()
    if edged:
        del xrec
    return [unet, struct, first, text]


def cases(checkouts):
    DIRS.update(checkouts)
    for project, size, batch, xformers, unfrozen, queue in (
            ("stablesr", 512, 1, False, False, 180), ("stablesr", 512, 1, True, False, 180), ("stablesr", 512, 2, False, False, 0),
            ("stablesr", 512, 2, True, False, 0), ("stablesr", 512, 6, True, False, 180), ("stablesr", 512, 6, False, False, 180),
            ("stablesr", 256, 1, False, False, 0), ("stablesr", 256, 2, False, False, 0), ("stablesr", 256, 4, True, False, 180),
            ("stablesr", 768, 1, True, False, 0), ("stablesr", 768, 3, False, False, 180), ("stablesr", 256, 1, False, True, 0),
            ("stablesr", 512, 1, True, True, 180),
            ("edge", 512, 1, False, False, 180), ("edge", 512, 1, True, False, 180), ("edge", 512, 2, False, False, 0),
            ("edge", 512, 6, True, False, 180)):
        if project in DIRS:
            yield case, {"name": project, "project": project, "size": size, "batch": batch, "xformers": xformers,
                         "unfrozen": unfrozen, "queue": queue, "precision": "fp32", "optimizer": "adamw"}
