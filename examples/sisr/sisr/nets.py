"""Two small networks, short enough that their memory can be followed line by line.

Shapes: b images, c = num_feat channels, h x w pixels at low resolution, s = scale; n tokens per attention. What autograd
keeps for the backward pass stands at the end of a line as ``[kept: ...]``, in elements; where nothing stands, nothing is.
"""

from typing import Any, Callable, Dict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

NETWORKS: Dict[str, Callable[..., nn.Module]] = {}


def build_network(options: Dict[str, Any], scale: int) -> nn.Module:
    """The network of the recipe; what else stands in the section are its arguments, and an unknown one is a TypeError."""
    kwargs = dict(options)
    kind = str(kwargs.pop("type")).lower()
    if kind not in NETWORKS:
        raise KeyError(f"No object named '{kind}' found in 'arch' registry!")
    return NETWORKS[kind](scale=scale, **kwargs)


class Attention(nn.Module):
    """Self-attention with one head over n tokens, (b, n, c) -> (b, n, c). Explicit, so that the n x n matrix is there."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.scale = dim**-0.5

    def forward(self, x: Tensor) -> Tensor:
        # float(): what autocast does by itself on CUDA, and torch 1.13 does not do on a CPU.
        x = self.norm(x.float())  # [kept: its input b*n*c, mean and 1/deviation 2*b*n]
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # [kept: its input b*n*c; the three views share one b*n*3c]
        q = q * self.scale
        # The product lives until softmax is done: two matrices b*n*n at once, without gradients too.
        attn = torch.bmm(q, k.transpose(1, 2))  # [kept: q b*n*c, k as a view]
        attn = torch.softmax(attn, dim=-1)  # [kept: its output b*n*n]
        x = torch.bmm(attn, v)  # [kept: attn as above, v as a view]
        return self.proj(x)  # [kept: its input b*n*c]


class FeedForward(nn.Module):
    """Two convolutions, (b, c, h, w) -> (b, c, h, w)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(dim, 2 * dim, 3, padding=1)
        self.conv2 = nn.Conv2d(2 * dim, dim, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)  # [kept: its input b*c*h*w]
        x = F.gelu(x)  # [kept: its input b*2c*h*w]
        return self.conv2(x)  # [kept: its input b*2c*h*w]


class FullBlock(nn.Module):
    """Attention over all pixels: n = h*w, so that its memory grows with the fourth power of the side."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attn = Attention(dim)
        self.ffn = FeedForward(dim)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        t = x.flatten(2).transpose(1, 2).contiguous()  # (b, h*w, c), a copy: it is the input that norm keeps
        t = self.attn(t)
        x = x + t.transpose(1, 2).reshape(b, c, h, w)  # a view; the sum is new
        return x + self.ffn(x)


class WindowBlock(nn.Module):
    """Attention within windows of p x p pixels: n = p*p, and h*w/(p*p) times the batch of them."""

    def __init__(self, dim: int, window_size: int) -> None:
        super().__init__()
        self.window_size = window_size
        self.attn = Attention(dim)
        self.ffn = FeedForward(dim)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        p = self.window_size
        t = x.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1)
        t = t.reshape(b * (h // p) * (w // p), p * p, c)  # a copy: it is the input that norm keeps
        t = self.attn(t)
        t = t.view(b, h // p, w // p, p, p, c).permute(0, 5, 1, 3, 2, 4)
        x = x + t.reshape(b, c, h, w)  # a copy, gone after the sum
        return x + self.ffn(x)


class _Net(nn.Module):
    """conv -> blocks -> conv -> pixel shuffle, on top of the bilinearly enlarged image."""

    def __init__(self, scale: int, num_feat: int, use_checkpoint: bool) -> None:
        super().__init__()
        self.scale = scale
        self.use_checkpoint = use_checkpoint
        self.conv_first = nn.Conv2d(3, num_feat, 3, padding=1)
        self.blocks = nn.ModuleList()
        self.conv_last = nn.Conv2d(num_feat, 3 * scale * scale, 3, padding=1)
        # Starts as the enlarged image itself, so that even a very short training ends above it.
        nn.init.zeros_(self.conv_last.weight)
        nn.init.zeros_(self.conv_last.bias)

    def forward(self, x: Tensor) -> Tensor:
        feat = self.conv_first(x)  # [kept: its input b*3*h*w]
        for block in self.blocks:
            if self.use_checkpoint and torch.is_grad_enabled():
                # [kept: its input b*c*h*w]; all that the block keeps is there again during its own backward.
                feat = checkpoint(block, feat, use_reentrant=False)
            else:
                feat = block(feat)
        out = self.conv_last(feat)  # [kept: its input b*c*h*w]
        out = F.pixel_shuffle(out, self.scale)  # (b, 3, h*s, w*s), a copy
        base = F.interpolate(x, scale_factor=float(self.scale), mode="bilinear", align_corners=False)
        return out + base


class AttnSR(_Net):
    """``attnsr``: attention over all pixels in every block."""

    def __init__(self, scale: int, num_feat: int = 16, num_block: int = 2, use_checkpoint: bool = False) -> None:
        super().__init__(scale, num_feat, use_checkpoint)
        self.blocks.extend(FullBlock(num_feat) for _ in range(num_block))


class WindowSR(_Net):
    """``windowsr``: attention within windows; the image is padded to whole windows."""

    def __init__(
        self, scale: int, num_feat: int = 32, num_block: int = 4, window_size: int = 8, use_checkpoint: bool = False
    ) -> None:
        super().__init__(scale, num_feat, use_checkpoint)
        self.window_size = window_size
        self.blocks.extend(WindowBlock(num_feat, window_size) for _ in range(num_block))

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        x = F.pad(x, (0, -w % self.window_size, 0, -h % self.window_size), mode="replicate")
        return super().forward(x)[:, :, : h * self.scale, : w * self.scale]


NETWORKS["attnsr"] = AttnSR
NETWORKS["windowsr"] = WindowSR
