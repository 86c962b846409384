"""More networks of our own, as in layers.py: what later architectures and losses are made of."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils import spectral_norm

from layers import Between, C


def heads(x):  # of one token for 8 numbers
    return x.view(x.shape[0], 32, 64, 8)


def masked(m, x):
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
        return F.scaled_dot_product_attention(heads(m.a(x)), heads(x), heads(x), attn_mask=m.b.weight.view(1, 32, 64, 64)).reshape(x.shape)


def flex(m, x):
    table = m.b.weight

    def score(s, b, h, q, k):
        return s + table[h, q - k + 63]

    return torch.compile(flex_attention)(heads(m.a(x)), heads(x), heads(x), score_mod=score).reshape(x.shape)


def chosen(m, x):
    mask = (torch.arange(C) % 2 == 0).view(1, C, 1, 1)
    y = m.a(x).masked_select(mask).view(x.shape[0], C // 2, *x.shape[2:])
    return torch.cat([y, y * 2], 1)


def cases():
    def make(f, **modules):
        return lambda: Between(f, **{k: v() for k, v in modules.items()})

    def conv():
        return nn.Conv2d(C, C, 3, padding=1)

    yield "transposed convolution without bias", make(
        lambda m, x: m.b(m.a(x)), a=conv, b=lambda: nn.ConvTranspose2d(C, C, 2, 2, bias=False))
    yield "rms norm", make(lambda m, x: m.n(m.a(x)), a=conv, n=lambda: nn.RMSNorm(32))
    yield "spectral linear", make(lambda m, x: m.b(m.a(x)), a=conv, b=lambda: spectral_norm(nn.Linear(32, 48)))
    yield "rfft2", make(lambda m, x: torch.view_as_real(torch.fft.rfft2(m.a(x).float())).sigmoid().flatten(3), a=conv)
    yield "product over a dimension", make(lambda m, x: x * m.a(x).prod(1).unsqueeze(1), a=conv)
    yield "power of two tensors", make(lambda m, x: m.a(x).sigmoid() ** x.sigmoid(), a=conv)
    yield "attention with a mask", make(masked, a=conv, b=lambda: nn.Linear(64, 2048, bias=False))
    yield "flex attention", make(flex, a=conv, b=lambda: nn.Linear(127, 32, bias=False))
    yield "rows by indices of the host", make(
        lambda m, x: m.a(x) + m.b.weight[torch.arange(C) % 8, torch.arange(C) % 4].view(1, C, 1, 1),
        a=conv, b=lambda: nn.Linear(4, 8, bias=False))
    yield "circular pad", make(lambda m, x: F.pad(m.a(x), (1, 1, 1, 1), mode="circular"), a=conv)
    yield "masked select", make(chosen, a=conv)
