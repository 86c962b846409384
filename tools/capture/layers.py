"""Small networks of our own, one for each kind of layer: a convolution, the layer, a convolution."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

C = 16  # channels
S = 32  # side of the image


class Between(nn.Module):
    """conv → f → conv, with the modules that f needs."""

    def __init__(self, f, out=C, **modules):
        super().__init__()
        self.head = nn.Conv2d(3, C, 3, padding=1)
        for name, m in modules.items():
            setattr(self, name, m)
        self.f = f
        self.tail = nn.Conv2d(out, 3, 3, padding=1)

    def forward(self, x):
        x = self.head(x)
        x = self.f(self, x)
        return self.tail(x)


def window_partition(x, ws):
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, c)


def window_reverse(x, ws, b, h, w):
    x = x.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, h, w, -1)


def attention(m, x, fused=False):
    b, c, h, w = x.shape
    x = x.permute(0, 2, 3, 1)
    x = window_partition(x, 8)
    n, t, _ = x.shape
    qkv = m.qkv(x).reshape(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    if fused:
        x = F.scaled_dot_product_attention(q, k, v)
    else:
        q = q * 0.5
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(-1)
        x = attn @ v
    x = x.transpose(1, 2).reshape(n, t, c)
    x = m.proj(x)
    return window_reverse(x, 8, b, h, w).permute(0, 3, 1, 2)


def full_attention(m, x):
    b, c, h, w = x.shape
    q = m.q(x).view(b, -1, h * w).permute(0, 2, 1)
    k = m.k(x).view(b, -1, h * w)
    v = m.v(x).view(b, -1, h * w)
    attn = torch.bmm(q, k)
    attn = F.softmax(attn / 32, dim=-1)
    out = torch.bmm(v, attn.permute(0, 2, 1))
    out = out.view(b, c, h, w)
    return x + m.gamma * out


def dense(m, x):
    x1 = m.act(m.c1(x))
    x2 = m.act(m.c2(torch.cat((x, x1), 1)))
    x3 = m.c3(torch.cat((x, x1, x2), 1))
    return x3 * 0.2 + x


def in_place_slices(m, x):
    out = torch.zeros_like(x)
    count = torch.zeros_like(x)
    for i in range(2):
        part = m.c1(x[:, :, :, 8 * i : 8 * i + 16])
        weight = torch.ones_like(part)
        out[:, :, :, 8 * i : 8 * i + 16] += weight * part
        count[:, :, :, 8 * i : 8 * i + 16] += weight
    out = out / (count + 1e-8)
    return x + out


def layer_norm_by_hand(m, x):
    u = x.mean(1, keepdim=True)
    s = (x - u).pow(2).mean(1, keepdim=True)
    x = (x - u) / torch.sqrt(s + 1e-6)
    return m.weight[:, None, None] * x + m.bias[:, None, None]


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))
        self.bias = nn.Parameter(torch.zeros(C))

    def forward(self, x):
        return layer_norm_by_hand(self, x)


def checkpoint(f, x):
    return torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)


class Gamma(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(shape))

    def forward(self, x):
        return x * self.gamma


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(C, 2 * C, 3, padding=1), nn.Conv2d(2 * C, C, 3, padding=1)

    def forward(self, x):
        return self.c2(F.gelu(self.c1(x))) + x


def conv(i=C, o=C, k=3, **kw):
    return nn.Conv2d(i, o, k, padding=kw.pop("padding", k // 2), **kw)


def cases():
    def one(module):
        return lambda: Between(lambda m, x: m.body(x), body=module())

    def call(f, out=C, **modules):
        return lambda: Between(f, out=out, **{k: v() for k, v in modules.items()})

    yield "conv", one(conv)
    yield "conv stride 2", one(lambda: conv(stride=2))
    yield "conv depthwise", one(lambda: conv(groups=C))
    yield "conv dilated", one(lambda: conv(dilation=2, padding=2))
    yield "conv no bias", one(lambda: conv(bias=False))
    yield "conv frozen", one(lambda: conv().requires_grad_(False))
    yield "spectral norm", one(lambda: nn.utils.spectral_norm(conv(bias=False)))
    yield "batch norm", one(lambda: nn.BatchNorm2d(C))
    yield "group norm", one(lambda: nn.GroupNorm(4, C))
    yield "layer norm by hand", one(Norm)
    yield "prelu", one(lambda: nn.PReLU(C))
    yield "relu", one(nn.ReLU)
    yield "relu inplace", one(lambda: nn.ReLU(True))
    yield "leaky relu", one(lambda: nn.LeakyReLU(0.1))
    yield "leaky relu inplace", one(lambda: nn.LeakyReLU(0.1, True))
    yield "silu", one(nn.SiLU)
    yield "silu inplace", one(lambda: nn.SiLU(True))
    yield "gelu", one(nn.GELU)
    yield "mish", one(nn.Mish)
    yield "mish inplace", one(lambda: nn.Mish(True))
    yield "sigmoid", one(nn.Sigmoid)
    yield "tanh", one(nn.Tanh)
    yield "layer scale", one(lambda: Gamma(1, C, 1, 1))
    yield "scalar gain", one(lambda: Gamma())
    yield "pixel shuffle", call(lambda m, x: F.pixel_shuffle(x, 2), out=C // 4)
    yield "pixel unshuffle", call(lambda m, x: F.pixel_unshuffle(x, 2), out=4 * C)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield "interpolate " + mode, call(lambda m, x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode))
    yield "pad constant", call(lambda m, x: F.pad(x, (1, 1, 1, 1)))
    yield "pad reflect", call(lambda m, x: F.pad(x, (1, 1, 1, 1), mode="reflect"))
    yield "cat", call(lambda m, x: torch.cat([m.a(x), x], 1), out=2 * C, a=conv)
    yield "split", call(lambda m, x: torch.cat([m.a(y) for y in x.chunk(2, 1)], 1), a=lambda: conv(C // 2, C // 2))
    yield "slice", call(lambda m, x: m.a(x[:, : C // 2]), a=lambda: conv(C // 2, C))
    yield "add", call(lambda m, x: m.a(x) + x, a=conv)
    yield "mul", call(lambda m, x: m.a(x) * x, a=conv)
    yield "sub", call(lambda m, x: x - m.a(x), a=conv)
    yield "div", call(lambda m, x: x / (m.a(x) + 1), a=conv)
    yield "abs", call(lambda m, x: x.abs())
    yield "sqrt", call(lambda m, x: x.sqrt())
    yield "pow", call(lambda m, x: x**2)
    yield "exp", call(lambda m, x: x.exp())
    yield "clamp", call(lambda m, x: x.clamp(0, 1))
    yield "norm", call(lambda m, x: x / (x.norm(2, dim=1, keepdim=True) + 1))
    yield "channel attention", call(
        lambda m, x: x * torch.sigmoid(m.b(F.relu(m.a(F.adaptive_avg_pool2d(x, 1)), inplace=True))),
        a=lambda: conv(C, 4, 1), b=lambda: conv(4, C, 1))
    yield "max pool", call(lambda m, x: F.max_pool2d(x, 2, 2))
    yield "avg pool", call(lambda m, x: F.avg_pool2d(x, 2, 2))
    yield "where", call(lambda m, x: torch.where(x > 0, x, m.a(x)), a=conv)
    yield "maximum", call(lambda m, x: torch.max(x, m.a(x)), a=conv)
    yield "layer norm of tokens", call(
        lambda m, x: m.n(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape), n=lambda: nn.LayerNorm(C))
    yield "mlp of tokens", call(
        lambda m, x: m.b(F.gelu(m.a(x.flatten(2).transpose(1, 2)))).transpose(1, 2).reshape(x.shape),
        a=lambda: nn.Linear(C, 2 * C), b=lambda: nn.Linear(2 * C, C))
    yield "attention in windows", call(attention, qkv=lambda: nn.Linear(C, 3 * C), proj=lambda: nn.Linear(C, C))
    yield "fused attention in windows", call(
        lambda m, x: attention(m, x, True), qkv=lambda: nn.Linear(C, 3 * C), proj=lambda: nn.Linear(C, C))

    def with_gamma(m, x):
        return full_attention(m, x)

    def full():
        b = Between(with_gamma, q=conv(C, 2, 1), k=conv(C, 2, 1), v=conv(C, C, 1))
        b.gamma = nn.Parameter(torch.zeros(1))
        return b

    yield "attention over the image", full
    yield "dense block", call(
        dense, c1=conv, c2=lambda: conv(2 * C, C), c3=lambda: conv(3 * C, C), act=lambda: nn.LeakyReLU(0.2, True))
    yield "in-place slices", call(in_place_slices, c1=conv)
    yield "two blocks", call(lambda m, x: m.b(m.a(x)), a=Branch, b=Branch)
    yield "two blocks, checkpointed", call(
        lambda m, x: checkpoint(m.b, checkpoint(m.a, x)), a=Branch, b=Branch)
    yield "l1 loss", call(lambda m, x: m.a(x) * F.l1_loss(m.a(x), torch.zeros_like(x)), a=conv)
    yield "mse loss", call(lambda m, x: m.a(x) * F.mse_loss(m.a(x), torch.zeros_like(x)), a=conv)
