"""Every key a recipe may have, section by section.

This file is data: whoever wants to know what a recipe may say reads the annotations below, without running anything.
A key that is not here is an error (see schema.py). The names are traiNNer-redux's. Sections typed ``Dict[str, Any]``
are handed on as keyword arguments, so that their keys are checked by whatever receives them.
"""

from typing import Any, Dict, List, Literal, Optional, Union


class Strict:
    """A section of the recipe. An annotation without a value is a key that must be given."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class DatasetOptions(Strict):
    name: str
    type: str  # pairedimagedataset
    dataroot_gt: Union[str, List[str], None] = None
    dataroot_lq: Union[str, List[str], None] = None
    lq_size: Optional[int] = None  # training crop at low resolution; give this one or gt_size, not both
    gt_size: Optional[int] = None
    batch_size_per_gpu: Optional[int] = None  # the micro-batch
    accum_iter: int = 1
    num_worker_per_gpu: Optional[int] = None
    dataset_enlarge_ratio: Union[Literal["auto"], int] = "auto"
    use_hflip: bool = True
    use_rot: bool = True
    pin_memory: bool = True
    persistent_workers: bool = True
    prefetch_factor: Optional[int] = 2


class PathOptions(Strict):
    pretrain_network_g: Optional[str] = None
    resume_state: Optional[str] = None
    strict_load_g: bool = True


class TrainOptions(Strict):
    total_iter: int  # counted in optimizer steps, as are all other iterations in a recipe
    optim_g: Dict[str, Any]
    losses: List[Dict[str, Any]]
    scheduler: Optional[Dict[str, Any]] = None
    ema_decay: float = 0
    warmup_iter: int = -1
    grad_clip: bool = False
    grad_clip_max_norm: float = 100.0


class ValOptions(Strict):
    val_enabled: bool
    save_img: bool
    val_freq: Optional[int] = None
    tile_size: int = 0  # 0: the whole image at once
    tile_overlap: int = 0
    metrics_enabled: bool = False
    metrics: Optional[Dict[str, Any]] = None


class LogOptions(Strict):
    print_freq: int
    save_checkpoint_freq: int
    use_tb_logger: bool = False
    save_checkpoint_format: Literal["safetensors", "pth"] = "pth"


class Options(Strict):
    name: str
    scale: int
    num_gpu: Union[Literal["auto"], int]
    path: PathOptions
    datasets: Dict[str, DatasetOptions]
    network_g: Dict[str, Any]
    train: TrainOptions
    logger: LogOptions
    val: Optional[ValOptions] = None
    manual_seed: Optional[int] = None
    use_amp: bool = False
    amp_bf16: bool = False
