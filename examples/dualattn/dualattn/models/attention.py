"""Three kinds of attention (Zhu et al., Dual Cross-Attention Learning, CVPR 2022, equations 1 to 4), written out."""

from typing import List, Tuple

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Heads over a sequence; the subclasses say which queries meet which keys."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.attn_dropout = nn.Dropout(dropout)
        self.proj = nn.Linear(dim, dim)
        self.proj_dropout = nn.Dropout(dropout)

    def split(self, x: Tensor, parts: int) -> Tuple[Tensor, ...]:
        b, n, c = x.shape
        return x.reshape(b, n, parts, self.heads, c // parts // self.heads).permute(2, 0, 3, 1, 4).unbind(0)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
        scores = (q @ k.transpose(-2, -1)) * self.scale
        maps = scores.softmax(dim=-1)
        b, h, n, d = q.shape
        y = (self.attn_dropout(maps) @ v).transpose(1, 2).reshape(b, n, h * d)
        return self.proj_dropout(self.proj(y)), maps


class SelfAttention(Attention):
    """Equation 1. It returns its maps, which the rollout multiplies."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__(dim, heads, dropout)
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        q, k, v = self.split(self.qkv(x), 3)
        return self.mix(q, k, v)

    def across(self, x: Tensor, other: Tensor) -> Tensor:
        """Equation 4: the queries of one image meet the keys of both."""
        q, k, v = self.split(self.qkv(x), 3)
        _, k2, v2 = self.split(self.qkv(other), 3)
        y, _ = self.mix(q, torch.cat([k, k2], dim=2), torch.cat([v, v2], dim=2))
        return y


class LocalAttention(Attention):
    """Equation 3: the queries of the most attended patches, and of the class token, meet all keys."""

    def __init__(self, dim: int, heads: int, dropout: float, share: float) -> None:
        super().__init__(dim, heads, dropout)
        self.share = share
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, history: List[Tensor]) -> Tensor:
        b, n, c = x.shape
        best = rollout(history).topk(max(1, int((n - 1) * self.share)), dim=-1).indices + 1
        index = torch.cat([best.new_zeros(b, 1), best], dim=1)
        (k,), (v,) = self.split(self.k_proj(x), 1), self.split(self.v_proj(x), 1)
        (q,) = self.split(self.q_proj(x[torch.arange(b, device=x.device).unsqueeze(1), index]), 1)
        y, _ = self.mix(q, k, v)
        out = torch.zeros_like(x, dtype=y.dtype)
        return out.scatter(1, index.unsqueeze(-1).expand(-1, -1, c), y)


@torch.no_grad()
def rollout(history: List[Tensor]) -> Tensor:
    """Equation 2: how much of each patch has reached the class token (Abnar and Zuidema, 2020)."""
    reached = None
    for maps in history:
        mean = maps.mean(dim=1)
        eye = torch.eye(mean.size(-1), device=mean.device)
        mean = (mean + eye) / 2
        reached = mean if reached is None else mean @ reached
    return reached[:, 0, 1:].float()
