#!/usr/bin/env python3
"""Makes images to train on, in dataset/original: patterns of a few kinds. Usage: gen_data.py [NUMBER]"""
import os
import sys

import numpy as np
from PIL import Image

SIDE = 80


def pattern(rng: np.random.Generator) -> np.ndarray:
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    kind, angle, pitch = rng.integers(3), rng.uniform(0, np.pi), rng.uniform(3, 12)
    across = x * np.cos(angle) + y * np.sin(angle)
    wave = [np.sin(2 * np.pi * pitch * across), np.sign(np.sin(2 * np.pi * pitch * across)), np.hypot(x - 0.5, y - 0.5) * pitch % 1][kind]
    tint = rng.uniform(0.2, 1.0, 3)
    noise = rng.normal(0, 0.05, (SIDE, SIDE, 3))
    return np.clip(((wave[..., None] + 1) / 2 * tint + noise) * 255, 0, 255).astype(np.uint8)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    rng = np.random.default_rng(0)
    os.makedirs("dataset/original", exist_ok=True)
    for i in range(number):
        Image.fromarray(pattern(rng)).save(f"dataset/original/{i:04d}.png")
    print(f"{number} images in dataset/original")


if __name__ == "__main__":
    main()
