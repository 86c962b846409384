"""Networks as in layers.py, one for each operation of the super-resolution networks' attentions that has no module."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

from layers import C, Between, conv


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def image(y, x):
    return y.transpose(1, 2).reshape(x.shape)


class Biases(nn.Module):
    """A linear layer whose bias is put together from two parameters."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3 * C, C))
        self.q, self.v = nn.Parameter(torch.rand(C)), nn.Parameter(torch.rand(C))

    def forward(self, x):
        return F.linear(x, self.weight, torch.cat((self.q, torch.zeros_like(self.v), self.v)))


def biased(m, x):
    q, _, v = m.b(tokens(m.a(x)).contiguous()).chunk(3, dim=-1)
    return image(q * v, x)


def permuted_products(m, x):
    y = m.a(x)
    b, c, h, w = y.shape
    q = y.view(b, 2, 2, c // 4, h * w).permute(0, 2, 1, 4, 3)
    k, v = F.normalize(q, dim=-1), F.normalize(q, dim=-1)
    return (q @ (k.transpose(-2, -1) @ v)).permute(0, 2, 1, 4, 3).reshape(x.shape)


def reentrant(m, x):
    y = torch.utils.checkpoint.checkpoint(m.b, m.a(x), use_reentrant=True)
    return m.c(torch.utils.checkpoint.checkpoint(m.d, y, use_reentrant=True))


class Rows(nn.Module):
    """A table, looked up by an index that is made in the forward."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(64, C))

    def forward(self, x):
        index = torch.zeros(x.shape[1], dtype=torch.int64, device=x.device)
        return x * self.table[index]


def pooled(m, x):
    y = m.a(x).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    p = tokens(F.avg_pool2d(y, 2, 2))
    y = m.l(p) * p
    return y.transpose(1, 2).reshape(x.shape[0], C, x.shape[2] // 2, x.shape[3] // 2)


def block():
    return nn.Sequential(conv(), nn.GELU(), conv())


def cases():
    def call(f, out=C, **modules):
        return lambda: Between(f, out=out, **{k: v() for k, v in modules.items()})

    yield "bias of parts", call(biased, a=conv, b=Biases)
    yield "products of permuted casts", call(permuted_products, a=conv)
    yield "reentrant checkpoints", call(reentrant, a=conv, b=block, c=conv, d=block)
    yield "rows of a table", call(lambda m, x: image(m.b(tokens(m.a(x))), x), a=conv, b=Rows)
    yield "average pool channels last", call(pooled, a=conv, l=lambda: nn.Linear(C, C))
