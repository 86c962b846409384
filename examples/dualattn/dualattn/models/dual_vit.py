"""The network: one vision transformer that a target, its pair, and the target with its pair run through side by side."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .attention import LocalAttention, SelfAttention


def feed_forward(dim: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, dim), nn.Dropout(dropout)
    )


class Block(nn.Module):
    """Self-attention, and pair-wise cross-attention with the same weights."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.sa = SelfAttention(dim, heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = feed_forward(dim, hidden, dropout)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        y, maps = self.sa(self.norm1(x))
        x = x + y
        return x + self.ffn(self.norm2(x)), maps

    def pwca(self, x: Tensor, pair: Tensor) -> Tensor:
        x = x + self.sa.across(self.norm1(x), self.norm1(pair))
        return x + self.ffn(self.norm2(x))


class LocalBlock(nn.Module):
    """Global-local cross-attention with weights of its own."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float, share: float) -> None:
        super().__init__()
        self.norm_glca = nn.LayerNorm(dim)
        self.glca = LocalAttention(dim, heads, dropout, share)
        self.norm_ffn = nn.LayerNorm(dim)
        self.ffn = feed_forward(dim, hidden, dropout)

    def forward(self, x: Tensor, history: List[Tensor]) -> Tensor:
        x = x + self.glca(self.norm_glca(x), history)
        return x + self.ffn(self.norm_ffn(x))


class DualCrossAttentionViT(nn.Module):
    def __init__(
        self, input_size: Tuple[int, int], num_classes: int, embed_dim: int, num_sa_layers: int, num_glca_layers: int,
        num_heads: int, hidden_dim: int, patch_size: int, dropout: float, top_k_ratio: float,
    ) -> None:  # fmt: skip
        super().__init__()
        tokens = (input_size[0] // patch_size) * (input_size[1] // patch_size) + 1
        self.patch = nn.Conv2d(3, embed_dim, patch_size, patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, embed_dim))
        self.pos_dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(embed_dim, num_heads, hidden_dim, dropout) for _ in range(num_sa_layers)
        )
        self.local_blocks = nn.ModuleList(
            LocalBlock(embed_dim, num_heads, hidden_dim, dropout, top_k_ratio) for _ in range(num_glca_layers)
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes)
        self.local_head = nn.Linear(embed_dim, num_classes)
        self.attention_maps: List[Tensor] = []
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def embed(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        return self.pos_dropout(x + self.pos_embed)

    def forward(self, images: Tensor, x_pair: Optional[Tensor] = None) -> Dict[str, Tensor]:
        """Logits by branch. In eval mode the attention maps stay behind as an attribute, until the next forward ends."""
        history: List[Tensor] = []
        x = self.embed(images)
        paired = x_pair is not None and self.training
        if paired:
            x_pair = self.embed(x_pair)
            pwca_x = x.clone()
        for block in self.blocks:
            x, maps = block(x)
            history.append(maps.detach())
            if paired:
                x_pair, _ = block(x_pair)
                pwca_x = block.pwca(pwca_x, x_pair)
        logits = {"sa": self.head(self.norm(x)[:, 0])}
        if paired:
            logits["pwca"] = self.head(self.norm(pwca_x)[:, 0])
        if len(self.local_blocks) > 0:
            y = x.clone()
            for local in self.local_blocks:
                y = local(y, history)
            logits["glca"] = self.local_head(self.norm(y)[:, 0])
        self.attention_maps = [] if self.training else history
        return logits
