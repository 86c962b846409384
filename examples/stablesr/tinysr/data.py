"""Images out of nothing: soft waves, the same for the same number."""

import torch
from torch.utils.data import DataLoader, Dataset

from .config import build


class Waves(Dataset):
    def __init__(self, length, crop_size, queue_size=None):
        self.length, self.size = length, crop_size

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y, x = torch.meshgrid(*[torch.linspace(0, 1, self.size)] * 2, indexing="ij")
        f = torch.rand(3, 2, generator=g) * 40
        return torch.stack([0.5 + 0.5 * torch.sin(a * x + b * y) for a, b in f])


class DataModuleFromConfig:
    def __init__(self, batch_size, train=None, validation=None, num_workers=None, wrap=False):
        self.batch_size, self.workers = batch_size, 2 * batch_size if num_workers is None else num_workers
        self.datasets = {name: build(c) for name, c in (("train", train), ("validation", validation)) if c}

    def loader(self, name):
        return DataLoader(self.datasets[name], self.batch_size, shuffle=name == "train", num_workers=self.workers)
