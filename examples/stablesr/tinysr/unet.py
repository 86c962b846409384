"""The UNet, which is frozen but for what the structure of the low-resolution image modulates, and the structure encoder."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def norm(channels):
    return nn.GroupNorm(32, channels)


def time_embedding(t, channels):
    half = channels // 2
    freq = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    angle = t[:, None].float() * freq
    return torch.cat([angle.cos(), angle.sin()], dim=1)


class Spade(nn.Module):
    """Normalises, then scales and shifts each place by the structure found there: what is trained."""

    def __init__(self, channels, structure):
        super().__init__()
        self.param_free_norm = norm(channels)
        self.mlp_shared = nn.Sequential(nn.Conv2d(structure, 128, 3, padding=1), nn.ReLU())
        self.mlp_gamma, self.mlp_beta = nn.Conv2d(128, channels, 3, padding=1), nn.Conv2d(128, channels, 3, padding=1)

    def forward(self, x, structure):
        normal = self.param_free_norm(x)
        h = self.mlp_shared(structure[x.shape[-1]])
        gamma = self.mlp_gamma(h)
        beta = self.mlp_beta(h)
        return normal * (1 + gamma) + beta


class ResBlock(nn.Module):
    def __init__(self, inner, emb, outer, structure=None, use_checkpoint=False):
        super().__init__()
        self.in_layers = nn.Sequential(norm(inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, outer))
        self.out_layers = nn.Sequential(norm(outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, padding=1))
        self.spade = Spade(outer, structure) if structure else None
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()
        self.use_checkpoint = use_checkpoint

    def forward(self, x, emb, structure=None):
        if self.use_checkpoint and torch.is_grad_enabled():
            return checkpoint(self.run, x, emb, structure, use_reentrant=False)
        return self.run(x, emb, structure)

    def run(self, x, emb, structure):
        h = self.in_layers(x)
        h = h + self.emb_layers(emb)[:, :, None, None]
        h = self.out_layers(h)
        if self.spade is not None:
            h = self.spade(h, structure)
        return self.skip(x) + h


class SelfAttention(nn.Module):
    """Plain attention in heads; activations are always computed again in the backward pass."""

    def __init__(self, channels, heads):
        super().__init__()
        self.norm, self.heads = norm(channels), heads
        self.qkv, self.proj_out = nn.Conv1d(channels, 3 * channels, 1), nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=False) if torch.is_grad_enabled() else self.run(x)

    def run(self, x):
        b, c, h, w = x.shape
        x = x.reshape(b, c, -1)
        qkv = self.qkv(self.norm(x))
        q, k, v = qkv.reshape(b * self.heads, -1, h * w).chunk(3, dim=1)
        scale = (c // self.heads) ** -0.25
        weight = torch.bmm((q * scale).transpose(1, 2), k * scale).softmax(dim=-1)
        y = torch.bmm(v, weight.transpose(1, 2)).reshape(b, c, -1)
        return (x + self.proj_out(y)).reshape(b, c, h, w)


class HeadedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape

        def split(y):
            return y.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3).reshape(b * self.heads, n, -1)

        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        q, k, v = split(q), split(k), split(v)
        weight = torch.bmm(q, k.transpose(1, 2)) * (c // self.heads) ** -0.5
        weight = weight.softmax(dim=-1)
        y = torch.bmm(weight, v)
        y = y.reshape(b, self.heads, n, -1).permute(0, 2, 1, 3).reshape(b, n, c)
        return self.to_out(y)


class Gated(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj, self.out = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(x * F.gelu(gate))


class Transformer(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.norm, self.proj_in, self.proj_out = norm(channels), nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(channels), nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attn1, self.attn2, self.ff = HeadedAttention(channels, heads), HeadedAttention(channels, heads), Gated(channels)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2).contiguous()
        y = self.proj_in(y)
        y = self.attn1(self.norm1(y)) + y
        y = self.attn2(self.norm2(y)) + y
        y = self.ff(self.norm3(y)) + y
        y = self.proj_out(y)
        return x + y.transpose(1, 2).reshape(b, c, h, w)


class UNetModelDualcondV2(nn.Module):
    def __init__(self, in_channels, model_channels, out_channels, num_res_blocks, attention_resolutions, channel_mult,
                 num_head_channels, semb_channels, use_spatial_transformer=True, use_linear_in_transformer=True, context_dim=None):
        super().__init__()
        c, emb, heads = model_channels, 4 * model_channels, lambda ch: ch // num_head_channels
        self.model_channels = c
        self.time_embed = nn.Sequential(nn.Linear(c, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.conv_in = nn.Conv2d(in_channels, c, 3, padding=1)
        self.input_blocks, self.output_blocks, widths, width, ds = nn.ModuleList(), nn.ModuleList(), [c], c, 1

        def layers(inner, outer):
            attend = [Transformer(outer, heads(outer))] if ds in attention_resolutions else []
            return [ResBlock(inner, emb, outer, semb_channels), *attend]

        for level, mult in enumerate(channel_mult):
            for _ in range(num_res_blocks):
                self.input_blocks.append(nn.ModuleList(layers(width, c * mult)))
                width = c * mult
                widths.append(width)
            if level < len(channel_mult) - 1:
                self.input_blocks.append(nn.ModuleList([nn.Conv2d(width, width, 3, stride=2, padding=1)]))
                widths.append(width)
                ds *= 2
        self.middle_block = nn.ModuleList([ResBlock(width, emb, width, semb_channels), Transformer(width, heads(width)),
                                           ResBlock(width, emb, width, semb_channels)])
        for level, mult in reversed(list(enumerate(channel_mult))):
            for i in range(num_res_blocks + 1):
                block = layers(width + widths.pop(), c * mult)
                width = c * mult
                if level and i == num_res_blocks:
                    block.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)))
                    ds //= 2
                self.output_blocks.append(nn.ModuleList(block))
        self.out = nn.Sequential(norm(width), nn.SiLU(), nn.Conv2d(width, out_channels, 3, padding=1))

    def forward(self, x, t, structure):
        emb = self.time_embed(time_embedding(t, self.model_channels))

        def through(block, h):
            for layer in block:
                h = layer(h, emb, structure) if isinstance(layer, ResBlock) else layer(h)
            return h

        h = self.conv_in(x)
        hs = [h]
        for block in self.input_blocks:
            h = through(block, h)
            hs.append(h)
        h = through(self.middle_block, h)
        for block in self.output_blocks:
            h = torch.cat([h, hs.pop()], dim=1)
            h = through(block, h)
        return self.out(h)


class EncoderUNetModelWT(nn.Module):
    """Makes a condition for every size that the UNet has: {width: features}."""

    def __init__(self, in_channels, model_channels, out_channels, num_res_blocks, attention_resolutions, channel_mult,
                 num_heads, num_head_channels=-1, use_checkpoint=False):
        super().__init__()
        c, emb, width, ds = model_channels, 4 * model_channels, model_channels, 1
        self.model_channels = c
        self.time_embed = nn.Sequential(nn.Linear(c, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.conv_in = nn.Conv2d(in_channels, c, 3, padding=1)
        self.levels, self.downs, widths = nn.ModuleList(), nn.ModuleList(), []
        for level, mult in enumerate(channel_mult):
            blocks = nn.ModuleList()
            for _ in range(num_res_blocks):
                blocks.append(ResBlock(width, emb, c * mult, use_checkpoint=use_checkpoint))
                width = c * mult
                if ds in attention_resolutions:
                    blocks.append(SelfAttention(width, num_heads))
            self.levels.append(blocks)
            if level < len(channel_mult) - 1:
                self.downs.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                widths.append(width)
                ds *= 2
        self.middle_block = nn.ModuleList([ResBlock(width, emb, width, use_checkpoint=use_checkpoint), SelfAttention(width, num_heads),
                                           ResBlock(width, emb, width, use_checkpoint=use_checkpoint)])
        self.fea_tran = nn.ModuleList(ResBlock(w, emb, out_channels, use_checkpoint=use_checkpoint) for w in [*widths, width])

    def forward(self, x, t):
        emb = self.time_embed(time_embedding(t, self.model_channels))
        h, results = self.conv_in(x), []
        for i, blocks in enumerate([*self.levels, self.middle_block]):
            for block in blocks:
                h = block(h, emb) if isinstance(block, ResBlock) else block(h)
            if i < len(self.downs):
                results.append(h)
                h = self.downs[i](h)
        results.append(h)
        return {r.shape[-1]: tran(r, emb) for r, tran in zip(results, self.fea_tran)}
