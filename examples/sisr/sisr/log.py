"""What the trainer says. The texts and formats are traiNNer-redux's, which is what makes them worth parsing."""

import datetime
import logging
import resource
import shutil
import sys
import time
from typing import Dict, List

import torch

from .options import DatasetOptions

FORMAT = "%(asctime)s %(levelname)s: %(message)s"


def open_log(path: str, rank: int) -> logging.Logger:
    """The same lines on standard output and in the log file; ranks other than 0 speak only of errors, and only there."""
    logger = logging.getLogger("sisr")
    logger.propagate = False
    handlers: List[logging.Handler] = [logging.StreamHandler(sys.stdout)]
    if rank == 0:
        handlers.append(logging.FileHandler(path, "w"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if rank == 0 else logging.ERROR)
    return logger


def time_stamp() -> str:
    return time.strftime("%Y%m%d_%H%M%S")


def free_space() -> str:
    return f"{shutil.disk_usage(__file__).free / (1 << 30):,.2f} GB"


def environment() -> str:
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(torch.cuda.current_device())
        device = f"\n\tCurrent GPU: \n\t\tName: {card.name}\n\t\tTotal VRAM: {card.total_memory / 1024**3:.2f} GB"
    else:
        device = f"\n\tCurrent GPU: none, CPU with {torch.get_num_threads()} thread(s)"
    return f"System Information: {device}\n\tFree Space: {free_space()}\nVersion Information: \n\tPyTorch: {torch.__version__}"


def statistics(
    name: str, images: int, opt: DatasetOptions, ratio: int, world_size: int, per_epoch: int, epochs: int, iters: int
) -> str:
    pairs = [
        ("Number of train images:", images),
        ("Dataset enlarge ratio:", ratio),
        ("Batch size per gpu:", opt.batch_size_per_gpu),
        ("Accumulate iterations:", opt.accum_iter),
        ("HR crop size:", opt.gt_size),
        ("LR crop size:", opt.lq_size),
        ("World size (gpu number):", world_size),
        ("Require iter per epoch:", per_epoch),
        ("Total epochs:", epochs),
        ("Total iters:", iters),
    ]
    cells = [f"\t{label:<30} {value:>9,}" for label, value in pairs]
    lines = ["".join(cells[i : i + 2]) for i in range(0, len(cells), 2)]
    return f"Training statistics for {name}:\n" + "\n".join(lines)


def peak_bytes() -> int:
    """On CUDA the largest sum of live tensors since the start; on a CPU the largest resident size of the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class ProgressLine:
    """The line printed every print_freq iterations."""

    def __init__(self, start_iter: int, total_iter: int, accum_iter: int) -> None:
        self.start_iter, self.total_iter, self.accum_iter = start_iter, total_iter, accum_iter
        self.start_time = time.time()
        self.seconds = 0.0
        self.micro_steps = 0

    def micro_step(self, seconds: float) -> None:
        self.seconds += seconds
        self.micro_steps += 1

    def text(self, epoch: int, current_iter: int, lrs: List[float], values: Dict[str, float]) -> str:
        per_iter = self.seconds / max(self.micro_steps, 1) * self.accum_iter
        self.seconds, self.micro_steps = 0.0, 0
        average = (time.time() - self.start_time) / (current_iter - self.start_iter)
        eta = datetime.timedelta(seconds=int(average * (self.total_iter - current_iter)))
        line = f"[epoch:{epoch:4,d}, iter:{current_iter:8,d}, lr:({', '.join(f'{lr:.3e}' for lr in lrs)})] "
        line += f"[performance: {1 / max(per_iter, 1e-9):.3f} it/s] [eta: {eta}] [peak VRAM: {peak_bytes() / 1024**3:.2f} GB] "
        return line + " ".join(f"{key}: {value:.4e}" for key, value in values.items())
