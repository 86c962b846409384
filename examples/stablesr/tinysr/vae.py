"""The autoencoder between images and latents. It is frozen and runs without gradients."""

import torch
from torch import nn
from torch.nn import functional as F


def norm(channels):
    return nn.GroupNorm(32, channels, eps=1e-6)


def swish(x):
    return x * torch.sigmoid(x)


class Residual(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.norm1, self.conv1 = norm(inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2, self.conv2 = norm(outer), nn.Conv2d(outer, outer, 3, padding=1)
        if inner != outer:
            self.nin_shortcut = nn.Conv2d(inner, outer, 1)

    def forward(self, x):
        h = self.norm1(x)
        h = swish(h)
        h = self.conv1(h)
        h = self.norm2(h)
        h = swish(h)
        h = self.conv2(h)
        if hasattr(self, "nin_shortcut"):
            x = self.nin_shortcut(x)
        return x + h


class Attention(nn.Module):
    """Every position looks at every other: memory grows with the square of their number."""

    def __init__(self, channels):
        super().__init__()
        self.norm = norm(channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = self.q(y).flatten(2), self.k(y).flatten(2), self.v(y).flatten(2)
        weight = torch.bmm(q.transpose(1, 2), k)
        weight = weight * c**-0.5
        weight = weight.softmax(dim=2)
        y = torch.bmm(v, weight.transpose(1, 2)).reshape(b, c, h, w)
        return x + self.proj_out(y)


class Encoder(nn.Module):
    def __init__(self, ch, ch_mult, num_res_blocks, in_channels, z_channels):
        super().__init__()
        self.conv_in = nn.Conv2d(in_channels, ch, 3, padding=1)
        self.levels, self.downs, width = nn.ModuleList(), nn.ModuleList(), ch
        for i, mult in enumerate(ch_mult):
            blocks = nn.ModuleList()
            for _ in range(num_res_blocks):
                blocks.append(Residual(width, ch * mult))
                width = ch * mult
            self.levels.append(blocks)
            self.downs.append(nn.Conv2d(width, width, 3, stride=2) if i < len(ch_mult) - 1 else nn.Identity())
        self.mid = nn.ModuleList([Residual(width, width), Attention(width), Residual(width, width)])
        self.norm_out, self.conv_out = norm(width), nn.Conv2d(width, 2 * z_channels, 3, padding=1)

    def forward(self, x):
        h = self.conv_in(x)
        for i, (blocks, down) in enumerate(zip(self.levels, self.downs)):
            for block in blocks:
                h = block(h)
            if i < len(self.levels) - 1:
                h = down(F.pad(h, (0, 1, 0, 1)))
        for block in self.mid:
            h = block(h)
        return self.conv_out(swish(self.norm_out(h)))


class Decoder(nn.Module):
    def __init__(self, ch, ch_mult, num_res_blocks, out_ch, z_channels):
        super().__init__()
        width = ch * ch_mult[-1]
        self.conv_in = nn.Conv2d(z_channels, width, 3, padding=1)
        self.mid = nn.ModuleList([Residual(width, width), Attention(width), Residual(width, width)])
        self.levels, self.ups = nn.ModuleList(), nn.ModuleList()
        for i, mult in reversed(list(enumerate(ch_mult))):
            blocks = nn.ModuleList()
            for _ in range(num_res_blocks + 1):
                blocks.append(Residual(width, ch * mult))
                width = ch * mult
            self.levels.append(blocks)
            self.ups.append(nn.Conv2d(width, width, 3, padding=1) if i else nn.Identity())
        self.norm_out, self.conv_out = norm(width), nn.Conv2d(width, out_ch, 3, padding=1)

    def forward(self, z):
        h = self.conv_in(z)
        for block in self.mid:
            h = block(h)
        for i, (blocks, up) in enumerate(zip(self.levels, self.ups)):
            for block in blocks:
                h = block(h)
            if i < len(self.levels) - 1:
                h = F.interpolate(h, scale_factor=2.0)
                h = up(h)
        h = self.norm_out(h)
        h = swish(h)
        return self.conv_out(h)


class AutoencoderKL(nn.Module):
    def __init__(self, ddconfig, embed_dim):
        super().__init__()
        c = dict(ddconfig)
        self.encoder = Encoder(c["ch"], c["ch_mult"], c["num_res_blocks"], c["in_channels"], c["z_channels"])
        self.decoder = Decoder(c["ch"], c["ch_mult"], c["num_res_blocks"], c["out_ch"], c["z_channels"])
        self.quant_conv = nn.Conv2d(2 * c["z_channels"], 2 * embed_dim, 1)
        self.post_quant_conv = nn.Conv2d(embed_dim, c["z_channels"], 1)

    @torch.no_grad()
    def encode(self, x):
        return self.quant_conv(self.encoder(x)).chunk(2, dim=1)[0].clone()

    @torch.no_grad()
    def decode(self, z):
        return self.decoder(self.post_quant_conv(z))
