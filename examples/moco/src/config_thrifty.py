"""Settings for a small card: small micro-batches, four to an optimizer step."""
from dataclasses import dataclass


@dataclass
class Config:
    # data
    dataset_path: str = "dataset"
    image_size: int = 64

    # model
    backbone: str = "small_resnet18"
    feature_dim: int = 64
    mlp_dim: int = 256
    use_queue: bool = True
    queue_size: int = 4096
    momentum: float = 0.99  # of the key encoder
    temperature: float = 0.2

    # training
    batch_size: int = 64  # of all processes of this machine together
    gradient_accumulation_steps: int = 4
    epochs: int = 2
    optimizer: str = "sgd"
    learning_rate: float = 0.03
    warmup_epochs: int = 1
    weight_decay: float = 1e-4
    use_amp: bool = False  # on a GPU only

    # the machine
    num_workers: int = 0
    seed: int = 0
    checkpoint_dir: str = "checkpoints"

    def get_experiment_tag(self) -> str:
        step = self.batch_size * self.gradient_accumulation_steps
        return f"{self.backbone}_step{step}_lr{self.learning_rate}_ep{self.epochs}"
