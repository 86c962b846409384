"""Makes a small set of images to train on: the same arguments give the same files."""

import argparse
import os

import numpy as np
from PIL import Image


def picture(rng: np.random.RandomState, side: int) -> Image.Image:
    """Waves of several lengths with sharp-edged boxes over them: there is something to sharpen, and no licence to ask."""
    y, x = np.mgrid[0:side, 0:side].astype(np.float64) / 96.0
    layers = []
    for _ in range(3):
        wave = np.zeros((side, side))
        for _ in range(5):
            fx, fy = rng.uniform(-9, 9, 2)
            wave += np.sin(2 * np.pi * (fx * x + fy * y) + rng.uniform(0, 2 * np.pi))
        layers.append(127 + 24 * wave)
    pixels = np.stack(layers, axis=-1)
    for _ in range(side // 8):
        top, left = rng.randint(0, side, 2)
        height, width = rng.randint(2, side // 4, 2)
        pixels[top : top + height, left : left + width] = rng.randint(0, 256, 3)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def write_pairs(root: str, count: int, lr_side: int, scale: int, rng: np.random.RandomState) -> None:
    for kind in ("hr", "lr"):
        os.makedirs(os.path.join(root, kind), exist_ok=True)
    for i in range(count):
        hr = picture(rng, lr_side * scale)
        hr.save(os.path.join(root, "hr", f"{i:04d}.png"))
        hr.resize((lr_side, lr_side), Image.BICUBIC).save(os.path.join(root, "lr", f"{i:04d}.png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default="datasets", help="folder to write to (default: %(default)s)")
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--count", type=int, default=16, help="training pairs (default: %(default)s)")
    parser.add_argument(
        "--size", type=int, default=64, help="side of a low-resolution training image (default: %(default)s)"
    )
    parser.add_argument("--val-count", type=int, default=1, help="validation pairs (default: %(default)s)")
    parser.add_argument(
        "--val-size", type=int, default=120, help="side of a low-resolution validation image (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.RandomState(args.seed)
    write_pairs(os.path.join(args.root, "train"), args.count, args.size, args.scale, rng)
    write_pairs(os.path.join(args.root, "val"), args.val_count, args.val_size, args.scale, rng)


if __name__ == "__main__":
    main()
