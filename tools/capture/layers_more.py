"""More networks of our own, as in layers.py: what later architectures and losses are made of."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm

from layers import Between, C


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
    yield "circular pad", make(lambda m, x: F.pad(m.a(x), (1, 1, 1, 1), mode="circular"), a=conv)
