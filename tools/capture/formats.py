#!/usr/bin/env python3
"""Records in which memory format operations return their results on a card, for the Go tests to compare the tape with.

    formats.py OUT.json

Strides come from FakeTensorMode with tensors of a CUDA device, which needs no card: conv2d, cat, add and their kind lay out
their results there as CUDA's kernels do. Two do not and are left out: group_norm and pixel_unshuffle return a contiguous
result on a card (native_group_norm in aten/src/ATen/native/group_norm.cpp, math_pixel_unshuffle in PixelShuffle.cpp).

x, y: channels last; n: contiguous; part, rest: the halves of x's channels, which are views; image: three channels, float32.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

LAST = torch.channels_last
C, H, W = 16, 8, 12


def tensor(*shape, dtype=torch.float16, last=False):
    t = torch.empty(*shape, device="cuda", dtype=dtype)
    return t.to(memory_format=LAST) if last else t


def conv(x, out=32, k=3, groups=1, last=False):
    return F.conv2d(x, tensor(out, C // groups, k, k, last=last), padding=k // 2, groups=groups)


def cases():
    x, y, n = tensor(2, C, H, W, last=True), tensor(2, C, H, W, last=True), tensor(2, C, H, W)
    image = tensor(1, 3, H, W, dtype=torch.float32, last=True)
    part, rest = x.chunk(2, dim=1)
    one, per_channel, per_pixel = tensor(2, C, 1, 1), tensor(C, 1, 1), tensor(2, 1, H, W)
    yield "conv of x", conv(x)
    yield "conv of n", conv(n)
    yield "conv of n, weight last", conv(n, last=True)
    yield "1x1 conv of n, weight last", conv(n, k=1, last=True)
    yield "depthwise of x", conv(x, out=C, groups=C)
    yield "depthwise of n, weight last", conv(n, out=C, groups=C, last=True)
    yield "transposed conv of x", F.conv_transpose2d(x, tensor(C, 4, 2, 2), stride=2)
    yield "pixel shuffle", F.pixel_shuffle(x, 2)
    yield "nearest", F.interpolate(x, scale_factor=2)
    yield "nearest of an image", F.interpolate(image, scale_factor=2)
    yield "bilinear", F.interpolate(x, size=(4, 6), mode="bilinear")
    yield "layer norm of permuted", F.layer_norm(x.permute(0, 2, 3, 1), (C,))
    yield "batch norm", F.batch_norm(x, tensor(C), tensor(C))
    yield "average pool", F.avg_pool2d(x, 2)
    yield "max pool", F.max_pool2d(x, 2)
    yield "max pool of a part", F.max_pool2d(part, 2)
    yield "constant pad", F.pad(x, (0, 1, 0, 1))
    yield "reflection pad", F.pad(x, (0, 1, 0, 1), mode="reflect")
    yield "cat of x and y", torch.cat((x, y), 1)
    yield "cat of x and n", torch.cat((x, n), 1)
    yield "cat of parts", torch.cat((rest, part), 1)
    yield "x + n", x + n
    yield "n + x", n + x
    yield "x * one", x * one
    yield "one * x", one * x
    yield "per channel * x", per_channel * x
    yield "per pixel * x", per_pixel * x
    yield "x > 0 ? n : y", torch.where(x > 0, n, y)
    yield "part * rest", part * rest
    yield "gelu of a part", F.gelu(part)
    yield "part in float32", part.float()
    yield "x in float32", x.float()
    yield "weight of 1x1 in float32", tensor(8, C, 1, 1, last=True).float()
    yield "x contiguous", x.contiguous()
    yield "softmax", x.softmax(-1)
    yield "prelu", F.prelu(x, tensor(C))
    yield "roll", torch.roll(x, 1, 2)
    yield "zeros like", torch.zeros_like(x)
    yield "grid sample", F.grid_sample(x, tensor(2, H, W, 2), align_corners=False)
    yield "normalize", F.normalize(x, dim=1)
    # DySample's coordinates: a permuted grid plus offsets that are views of either format
    grid = tensor(2, W, H).transpose(1, 2)[None, :, None]
    yield "grid + offsets of x", grid + x[:1].view(1, 2, -1, H, W)
    yield "grid + offsets of n", grid + n[:1].view(1, 2, -1, H, W)


def main():
    out = sys.argv[1]
    with FakeTensorMode():
        rows = [{"name": name, "shape": list(t.shape), "stride": list(t.stride())} for name, t in cases()]
    with open(out, "w", encoding="utf-8") as f:
        f.write(json.dumps({"torch": torch.__version__, "rows": rows}).replace('{"name"', '\n{"name"') + "\n")


main()
