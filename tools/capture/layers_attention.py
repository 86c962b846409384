"""Networks as in layers.py, one for each operation of the attention networks."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import C, Between, conv


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def unit(m, x):
    q, k = tokens(m.a(x)).transpose(-2, -1), tokens(x).transpose(-2, -1)
    return F.normalize(q, dim=-1).view(x.shape) * F.normalize(k, dim=-1).view(x.shape)


def gathered(m, x):
    y = tokens(m.a(x))
    index = torch.sort(torch.argmax(y, dim=-1), dim=-1)[1].unsqueeze(-1).expand(y.shape)
    return torch.gather(y, dim=1, index=index).transpose(1, 2).reshape(x.shape)


def half_softmax(m, x):
    y = m.a(x)
    return m.a(F.softmax(y, dim=-1, dtype=y.dtype))


def narrowed_pad(m, x):
    y = F.pad(m.a(x).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), (0, 4, 0, 4))
    return m.a(y)


def last(m, x):
    y = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return m.a(y).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


def cases():
    def call(f, out=C, **modules):
        return lambda: Between(f, out=out, **{k: v() for k, v in modules.items()})

    yield "normalize", call(unit, a=conv)
    yield "gather", call(gathered, a=conv)
    yield "softmax of a named type", call(half_softmax, a=conv)
    yield "instance norm", call(
        lambda m, x: m.n(tokens(m.a(x)).transpose(-1, -2)).view(x.shape), a=conv, n=lambda: nn.InstanceNorm1d(C, affine=True))
    yield "var", call(lambda m, x: x * m.a(x).var(1, keepdim=True, unbiased=False), a=conv)
    yield "max pool of a size", call(lambda m, x: F.max_pool2d(m.a(x), 3, 1, 1), a=conv)
    yield "pad channels last", call(narrowed_pad, a=conv)
    yield "convolve channels last", call(last, a=conv)
    yield "transposed convolution", call(lambda m, x: m.a(x), out=C // 2, a=lambda: nn.ConvTranspose2d(C, C // 2, 4, 2, 1))
