"""The settings, as dataclasses: a base class, a subclass for each data set, and what is derived from both."""

from dataclasses import dataclass
from typing import Any, Dict, Tuple


@dataclass
class RecognitionConfig:
    task_type: str = "fgvc"
    dataset_name: str = "shapes"
    num_classes: int = 8
    input_size: Tuple[int, int] = (96, 96)
    resize_size: int = 112

    embed_dim: int = 32
    num_sa_layers: int = 8
    num_glca_layers: int = 1
    num_pwca_layers: int = 8
    num_heads: int = 8
    hidden_dim: int = 64
    patch_size: int = 8
    dropout: float = 0.0
    top_k_ratio: float = 0.1

    batch_size: int = 8  # images in one forward pass
    gradient_accumulation_steps: int = 2  # forward passes to an optimizer step
    num_epochs: int = 2
    learning_rate: float = 5e-4  # for a batch of 512
    weight_decay: float = 0.05
    optimizer: str = "adam"
    mixed_precision: bool = True  # where there is CUDA
    eval_frequency: int = 1

    train_images: int = 16
    val_images: int = 8
    checkpoint_dir: str = "./checkpoints"

    def __post_init__(self) -> None:
        self.effective_batch_size = self.batch_size * self.gradient_accumulation_steps
        self.scaled_lr = self.learning_rate * self.effective_batch_size / 512

    def model_arguments(self) -> Dict[str, Any]:
        names = (
            "input_size num_classes embed_dim num_sa_layers num_glca_layers num_heads hidden_dim patch_size dropout "
            "top_k_ratio"
        )
        return {name: getattr(self, name) for name in names.split()}


@dataclass
class ShapesConfig(RecognitionConfig):
    dataset_name: str = "shapes"
    num_classes: int = 8


@dataclass
class StripesConfig(RecognitionConfig):
    dataset_name: str = "stripes"
    num_classes: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.angles = 4


CONFIGS = {"shapes": ShapesConfig, "stripes": StripesConfig}


def get_fgvc_config(dataset: str) -> RecognitionConfig:
    if dataset not in CONFIGS:
        raise ValueError(f"there is no data set {dataset!r}: {', '.join(CONFIGS)}")
    return CONFIGS[dataset]()
