"""Two crops of each image of a folder."""
import os
import random
from typing import List, Tuple

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class TwoCrops(Dataset):
    """The images of root_dir/original, each as two random crops of size × size."""

    def __init__(self, root_dir: str, size: int) -> None:
        self.folder = os.path.join(root_dir, "original")
        self.size = size
        self.names: List[str] = sorted(
            n for n in os.listdir(self.folder) if n.lower().endswith((".png", ".jpg", ".jpeg", ".bmp"))
        )
        if not self.names:
            raise FileNotFoundError(f"there are no images in {self.folder}")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Tuple[torch.Tensor, torch.Tensor]:
        with Image.open(os.path.join(self.folder, self.names[i])) as f:
            pixels = torch.from_numpy(np.asarray(f.convert("RGB")).copy()).permute(2, 0, 1).float() / 255
        return self.crop(pixels), self.crop(pixels)

    def crop(self, x: torch.Tensor) -> torch.Tensor:
        top, left = (random.randint(0, n - self.size) for n in x.shape[1:])
        x = x[:, top : top + self.size, left : left + self.size]
        if random.random() < 0.5:
            x = x.flip(2)
        return ((x - 0.5) * random.uniform(0.6, 1.4) + random.uniform(-0.2, 0.2)).contiguous()
