"""Residual networks of a quarter of the usual width. For each block, what autograd keeps until backward."""
from typing import Callable, List, Tuple

import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.conv1(x)  # its input, and as bn1's input its result
        out = self.bn1(out)
        out = self.relu(out)  # its result, in place
        out = self.conv2(out)  # its result as bn2's input
        out = self.bn2(out)
        if self.downsample is not None:
            identity = self.downsample(x)  # the convolution's result
        out += identity
        return self.relu(out)  # its result, in place


class SmallResNet(nn.Module):
    """Images (n, 3, h, w) to features (n, 8 * width)."""

    def __init__(self, blocks: List[int], width: int = 16) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)  # its input, and an int64 index for every output
        channels = width
        for i, n in enumerate(blocks):
            layer = []
            for j in range(n):
                layer.append(BasicBlock(channels, width * 2**i, 2 if i > 0 and j == 0 else 1))
                channels = width * 2**i
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.features = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = self.avgpool(x)
        return torch.flatten(x, 1)


BACKBONES: dict = {
    "small_resnet10": lambda: SmallResNet([1, 1, 1, 1]),
    "small_resnet18": lambda: SmallResNet([2, 2, 2, 2]),
}


def get_backbone(name: str) -> Tuple[nn.Module, int]:
    """The network and the width of its features."""
    build: Callable[[], SmallResNet] = BACKBONES[name]
    net = build()
    return net, net.features
