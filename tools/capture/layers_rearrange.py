"""More networks of our own, as in layers.py: einops, torch.autograd.Function, and what comes of views in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from einops import rearrange

from layers import Between, C


class Affine(torch.autograd.Function):
    """A normalization by hand, which saves its result before the scale and the variance."""

    @staticmethod
    def forward(ctx, x, weight):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + 1e-6).sqrt()
        ctx.save_for_backward(y, var, weight)
        return weight.view(1, -1, 1, 1) * y

    @staticmethod
    def backward(ctx, grad):
        y, var, weight = ctx.saved_tensors
        g = grad * weight.view(1, -1, 1, 1)
        mean_g = g.mean(dim=1, keepdim=True)
        mean_gy = (g * y).mean(dim=1, keepdim=True)
        gx = 1.0 / torch.sqrt(var + 1e-6) * (g - y * mean_gy - mean_g)
        return gx, (grad * y).sum(dim=(0, 2, 3))


def inplace_of_view(m, x):
    b, c, h, w = x.shape
    return F.leaky_relu(m.a(x).reshape(1, b * c, h, w).reshape(b, c, h, w), 0.1, inplace=True)


def masked(m, x):
    y = m.a(x)
    y[x < 0] = 0
    return y


def cases():
    def make(f, **modules):
        return lambda: Between(f, **{k: v() for k, v in modules.items()})

    def conv():
        return nn.Conv2d(C, C, 3, padding=1)

    split = "b (k d) (h p) (w q) -> b (h w) k d (p q)"
    join = "b (h w) k d (p q) -> b (k d) (h p) (w q)"
    yield "rearrange", make(lambda m, x: rearrange(
        rearrange(m.a(x), split, k=4, p=8, q=8), join, h=4, w=4, p=8, q=8), a=conv)
    yield "mul in place", make(lambda m, x: (lambda y: y.mul_(y.sigmoid()))(m.a(x)), a=conv)
    yield "hardsigmoid in place", make(lambda m, x: F.hardsigmoid(m.a(x), inplace=True), a=conv)
    yield "normalize", make(lambda m, x: F.normalize(m.a(x), dim=-1), a=conv)
    yield "group norm plain", make(lambda m, x: m.n(x), n=lambda: nn.GroupNorm(1, C, affine=False))
    yield "variance", make(lambda m, x: x / (x.var(dim=1, keepdim=True) + 1))
    yield "variance of windows", make(lambda m, x: x * torch.var(
        F.pad(x, (3, 3, 3, 3), mode="reflect").unfold(2, 7, 1).unfold(3, 7, 1), dim=(-1, -2)))
    yield "function", make(lambda m, x: Affine.apply(x, m.n.weight), n=lambda: nn.GroupNorm(1, C))
    yield "in place of a view", make(inplace_of_view, a=conv)
    yield "masked", make(masked, a=conv)
    yield "stack second", make(lambda m, x: torch.stack([x, m.a(x)], 1).sum(1), a=conv)
