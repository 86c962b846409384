"""The same training in one piece: an optimizer step takes its 256 images at once."""
from dataclasses import dataclass

from src.config_thrifty import Config as Thrifty


@dataclass
class Config(Thrifty):
    batch_size: int = 256
    gradient_accumulation_steps: int = 1
