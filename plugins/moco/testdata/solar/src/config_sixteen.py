"""The same with batches of 96: 4.6GB become 6.9GB.

The queue (76,800) is divisible by batch size (96): 76,800 / 96 = 800 batches in the queue.
Effective batch: 96 * 2 GPUs * 4 steps = 768
"""
from dataclasses import dataclass

from src.config_low import Config as Low


@dataclass
class Config(Low):
    queue_size: int = 76800
    batch_size: int = 96
    learning_rate: float = 4.5e-3
    base_lr: float = 1.5e-3
    optimizer: str = "adamw"
