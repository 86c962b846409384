"""Pairs of images from two folders of PNG files."""

import math
import os
import random
from typing import Any, Dict, Iterator, List, Tuple, Union

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from .options import DatasetOptions

Sample = Dict[str, Any]


class PairedImageDataset(Dataset):
    """Images of the same name in dataroot_gt and dataroot_lq. Only training crops and flips; validation sees all of it."""

    def __init__(self, opt: DatasetOptions, scale: int, train: bool) -> None:
        if opt.type.lower() != "pairedimagedataset":
            raise KeyError(f"No object named '{opt.type}' found in 'dataset' registry!")
        self.opt, self.scale, self.train = opt, scale, train
        self.pairs = list(zip(_images(opt.dataroot_gt, "dataroot_gt"), _images(opt.dataroot_lq, "dataroot_lq")))
        for gt, lq in self.pairs:
            if os.path.basename(gt) != os.path.basename(lq):
                raise ValueError(f"{gt} has no partner of the same name in dataroot_lq.")

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Sample:
        gt_path, lq_path = self.pairs[index]
        gt, lq = _read(gt_path), _read(lq_path)
        if tuple(gt.shape[:2]) != (lq.shape[0] * self.scale, lq.shape[1] * self.scale):
            raise ValueError(f"{gt_path}: {gt.shape[:2]} is not {self.scale} times {lq.shape[:2]}.")
        if self.train:
            gt, lq = self._crop(gt, lq, lq_path)
            gt, lq = self._turn(gt, lq)
        return {"gt": _tensor(gt), "lq": _tensor(lq), "lq_path": lq_path}

    def _crop(self, gt: np.ndarray, lq: np.ndarray, path: str) -> Tuple[np.ndarray, np.ndarray]:
        size, s = self.opt.lq_size, self.scale
        assert size is not None
        h, w = lq.shape[:2]
        if h < size or w < size:
            raise ValueError(f"LQ ({h}, {w}) is smaller than patch size ({size}, {size}). Please remove {path}.")
        y, x = random.randint(0, h - size), random.randint(0, w - size)
        return gt[y * s : (y + size) * s, x * s : (x + size) * s], lq[y : y + size, x : x + size]

    def _turn(self, gt: np.ndarray, lq: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        if self.opt.use_hflip and random.random() < 0.5:
            gt, lq = gt[:, ::-1], lq[:, ::-1]
        if self.opt.use_rot:
            k = random.randrange(4)
            gt, lq = np.rot90(gt, k), np.rot90(lq, k)
        return gt, lq


class EnlargedSampler(Sampler):
    """The data set ``ratio`` times over, shuffled by the epoch alone: a resumed epoch has the same order."""

    def __init__(self, size: int, ratio: int, rank: int, world_size: int) -> None:
        self.size, self.rank, self.world_size = size, rank, world_size
        self.length = math.ceil(size * ratio / world_size)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        order = torch.randperm(self.length * self.world_size, generator=generator).tolist()
        return iter([i % self.size for i in order[self.rank :: self.world_size]])

    def __len__(self) -> int:
        return self.length


def train_loader(data: PairedImageDataset, sampler: EnlargedSampler, gpus: int, seed: int) -> DataLoader:
    """Without a launcher one process feeds all its GPUs, so that batch and workers are per GPU."""
    opt = data.opt
    assert opt.batch_size_per_gpu is not None
    workers = (opt.num_worker_per_gpu or 0) * gpus
    kwargs: Dict[str, Any] = {"persistent_workers": opt.persistent_workers, "pin_memory": _pin(opt)}
    if opt.prefetch_factor is not None:
        # torch 1.x lets its own default pass without workers, torch 2.x does not: the same answer on both.
        if workers == 0:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing.")
        kwargs["prefetch_factor"] = opt.prefetch_factor

    def seed_worker(worker: int) -> None:
        random.seed(seed + worker)

    return DataLoader(
        data,
        batch_size=opt.batch_size_per_gpu * gpus,
        sampler=sampler,
        num_workers=workers,
        drop_last=True,
        worker_init_fn=seed_worker,
        **kwargs,
    )


def val_loader(data: PairedImageDataset) -> DataLoader:
    """One whole image at a time, whatever the recipe says about batch, crop and workers of a validation set."""
    return DataLoader(data, batch_size=1, shuffle=False, num_workers=0, pin_memory=_pin(data.opt))


def _pin(opt: DatasetOptions) -> bool:
    return opt.pin_memory and torch.cuda.is_available()


def _images(roots: Union[str, List[str], None], key: str) -> List[str]:
    if not roots:
        raise ValueError(f"{key} must be given for every data set.")
    found: List[str] = []
    for root in [roots] if isinstance(roots, str) else roots:
        root = os.path.expanduser(root)
        found += [os.path.join(root, name) for name in sorted(os.listdir(root)) if name.lower().endswith(".png")]
    if not found:
        raise ValueError(f"No images in {roots}.")
    return found


def _read(path: str) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _tensor(image: np.ndarray) -> Tensor:
    """uint8 (h, w, 3) to float32 (3, h, w) in 0..1."""
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float().div_(255.0)


def to_image(tensor: Tensor) -> np.ndarray:
    """float (1, 3, h, w) to uint8 (h, w, 3)."""
    pixels = tensor.detach().squeeze(0).float().cpu().clamp(0, 1).mul(255.0).round()
    return pixels.byte().numpy().transpose(1, 2, 0)


def psnr(image: np.ndarray, truth: np.ndarray, crop_border: int = 0) -> float:
    """Decibels over the pixels that are at least crop_border away from the edge."""
    if crop_border:
        image = image[crop_border:-crop_border, crop_border:-crop_border]
        truth = truth[crop_border:-crop_border, crop_border:-crop_border]
    error = float(np.mean((image.astype(np.float64) - truth.astype(np.float64)) ** 2))
    return math.inf if error == 0 else 10.0 * math.log10(255.0**2 / error)
