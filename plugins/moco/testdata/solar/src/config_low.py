"""Settings for two cards of 8 GB.

Effective batch: 64 * 2 GPUs * 4 steps = 512
"""
from dataclasses import dataclass


@dataclass
class Config:
    dataset_path: str = "dataset"
    image_size: int = 224
    backbone: str = "resnet50"
    feature_dim: int = 256
    mlp_dim: int = 4096
    # the queue must be divisible by batch_size
    use_queue: bool = True
    queue_size: int = 65536
    batch_size: int = 64  # Per-GPU for DDP
    epochs: int = 800
    # lr = 0.03 * (512 / 256)
    learning_rate: float = 0.06
    base_lr: float = 0.03
    momentum: float = 0.99
    optimizer: str = "sgd"
    use_amp: bool = True
    use_grad_checkpointing: bool = True  # saves ~30%
    gradient_accumulation_steps: int = 4
    checkpoint_dir: str = "checkpoints"

    def get_experiment_tag(self) -> str:
        """The folder of this run."""
        bb = "r50" if "resnet50" in self.backbone else self.backbone.replace("vit_", "v")
        eff_batch = self.batch_size * 2 * self.gradient_accumulation_steps  # 2 GPUs assumed
        return f"{bb}_bs{eff_batch}_lr{self.learning_rate}_ep{self.epochs}_lowvram"

    def print_vram_estimate(self):
        print("  TOTAL per GPU: ~8.0 GB")
