"""Images that are drawn, not read: a class is an angle and a number of stripes. Nothing has to be downloaded."""

import math
from typing import Tuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from .transforms import get_transforms


class DrawnImages(Dataset):
    def __init__(self, classes: int, count: int, training: bool) -> None:
        self.classes, self.count, self.training = classes, count, training
        self.transform = get_transforms(training)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Tuple[Tensor, int]:
        label = i % self.classes
        noise = torch.Generator().manual_seed(2 * i + int(self.training))
        at = torch.linspace(-1, 1, 64)
        angle = math.pi * label / self.classes
        wave = torch.sin(8 * (at[:, None] * math.cos(angle) + at[None, :] * math.sin(angle)) * (1 + label % 2))
        image = wave.expand(3, 64, 64) + 0.3 * torch.randn(3, 64, 64, generator=noise)
        return self.transform(image), label


def make_loaders(config) -> Tuple[DataLoader, DataLoader]:
    """Training and validation take the same micro-batch."""
    train = DrawnImages(config.num_classes, config.train_images, True)
    val = DrawnImages(config.num_classes, config.val_images, False)
    print(f"{config.dataset_name}: {len(train)} train samples loaded", flush=True)
    return (
        DataLoader(train, batch_size=config.batch_size, shuffle=True, drop_last=True),
        DataLoader(val, batch_size=config.batch_size),
    )
