from dataclasses import dataclass


@dataclass
class Config:
    dataset_path: str = "dataset/original"
    image_size: int = 224
    backbone: str = "resnet50"
    feature_dim: int = 256
    mlp_dim: int = 4096
    batch_size: int = 64
    epochs: int = 100
    momentum: float = 0.99
    optimizer: str = "adamw"
    learning_rate: float = 1.5e-4
    checkpoint_dir: str = f"checkpoints/{backbone}"
    save_freq: int = 10
