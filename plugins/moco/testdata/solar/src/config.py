"""The first settings."""
from dataclasses import dataclass


@dataclass
class Config:
    dataset_path: str = "dataset"
    image_size: int = 224
    backbone: str = "vit_base"
    feature_dim: int = 256
    mlp_dim: int = 4096
    batch_size: int = 32
    epochs: int = 100
    learning_rate: float = 0.015
    momentum: float = 0.99
    optimizer: str = "sgd"
    checkpoint_dir: str = "checkpoints"

    def get_experiment_tag(self):
        return "first"
