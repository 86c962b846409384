"""The model that is trained: a latent diffusion that is told what the low-resolution image looks like."""

import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

from .config import build


class LatentDiffusionSRTextWT(nn.Module):
    def __init__(self, unet_config, first_stage_config, structcond_stage_config, cond_stage_config="__is_unconditional__", timesteps=1000,
                 image_size=None, channels=4, scale_factor=0.18215, use_ema=False, unfrozen_diff=False, random_size=False, monitor=None):
        super().__init__()
        if use_ema or random_size or cond_stage_config != "__is_unconditional__":
            raise ValueError("this small trainer has neither averages, nor sizes by chance, nor a text")
        self.timesteps, self.scale_factor, self.monitor = timesteps, scale_factor, monitor
        self.model = build(unet_config)
        print(f"DiffusionWrapper has {sum(p.numel() for p in self.model.parameters()) / 1e6:.2f} M params.")
        self.first_stage_model = build(first_stage_config).eval().requires_grad_(False)
        self.structcond_stage_model = build(structcond_stage_config)
        if not unfrozen_diff:
            for name, p in self.model.named_parameters():
                p.requires_grad = "spade" in name
        self.alphas = torch.linspace(0.9999, 0.98, timesteps).cumprod(0)

    def encode(self, x):
        return self.first_stage_model.encode(x) * self.scale_factor

    def decode(self, z):
        return self.first_stage_model.decode(z / self.scale_factor)

    @torch.no_grad()
    def get_input(self, batch, val=False):
        """Makes a low-resolution image of each, which passes through a pool so that a batch has many degradations."""
        size = self.configs["degradation"]["gt_size"]
        self.gt = batch[..., :size, :size].to(self.device)
        low = F.avg_pool2d(self.gt, self.configs["sf"])
        low = low + torch.randn_like(low) * random.uniform(0.0, 0.1)
        self.lq = F.interpolate(low, size=self.gt.shape[-2:], mode="bicubic")
        if not val:
            self.pool()
        self.lq, self.gt = self.lq.clamp(0, 1) * 2 - 1, self.gt * 2 - 1
        return self.encode(self.lq), self.encode(self.gt)

    @torch.no_grad()
    def pool(self):
        params = self.configs["data"]["params"]
        b, shape = len(self.lq), self.lq.shape[1:]
        if b != params["batch_size"]:
            return
        if not hasattr(self, "queue_lr"):
            self.queue_size = params["train"]["params"].get("queue_size", b * 50)
            assert self.queue_size % b == 0, f"queue size {self.queue_size} should be divisible by batch size {b}"
            self.queue_lr = torch.zeros(self.queue_size, *shape, device=self.device)
            self.queue_gt = torch.zeros(self.queue_size, *shape, device=self.device)
            self.queue_ptr = 0
        if self.queue_ptr < self.queue_size:
            at = slice(self.queue_ptr, self.queue_ptr + b)
            self.queue_lr[at], self.queue_gt[at] = self.lq, self.gt
            self.queue_ptr += b
            return
        index = torch.randperm(self.queue_size)
        self.queue_lr, self.queue_gt = self.queue_lr[index], self.queue_gt[index]
        lq, gt = self.queue_lr[:b].clone(), self.queue_gt[:b].clone()
        self.queue_lr[:b], self.queue_gt[:b] = self.lq, self.gt
        self.lq, self.gt = lq, gt

    def loss(self, batch):
        z, _ = self.get_input(batch)
        t = torch.randint(0, self.timesteps, (len(z),), device=self.device)
        structure = self.structcond_stage_model(z, t)
        noise = torch.randn_like(z)
        a = self.alphas.to(self.device)[t][:, None, None, None]
        noisy = a.sqrt() * z + (1 - a).sqrt() * noise
        return F.mse_loss(self.model(noisy, t, structure), noise)

    @torch.no_grad()
    def log_images(self, batch, n=8):
        """Samples n images step by step."""
        z, z_gt = self.get_input(batch[:n], val=True)
        log = {"reconstruction": self.decode(z_gt), "recon_lq": self.decode(z)}
        x = torch.randn_like(z)
        for i in reversed(range(self.timesteps)):
            done = self.timesteps - i
            sys.stderr.write(f"\rSampling t: {100 * done // self.timesteps:3d}%|          | {done}/{self.timesteps} [00:00<00:00]")
            t = torch.full((len(z),), i, device=self.device)
            x = x - 0.1 * self.model(x, t, self.structcond_stage_model(z, t))
        sys.stderr.write("\n")
        log["samples"] = self.decode(x)
        return log

    @property
    def device(self):
        return next(self.parameters()).device
