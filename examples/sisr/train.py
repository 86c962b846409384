"""Trains a super-resolution network: python train.py -opt options/tiny.yml"""

import argparse
import datetime
import gc
import logging
import math
import os
import random
import signal
import sys
import time
from types import FrameType
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from sisr.data import EnlargedSampler, PairedImageDataset, train_loader, val_loader
from sisr.log import ProgressLine, environment, free_space, open_log, statistics, time_stamp
from sisr.model import Folders, Model, load_file_on_cpu
from sisr.options import Options
from sisr.schema import load_recipe


class Ranks(NamedTuple):
    rank: int = 0
    world_size: int = 1
    distributed: bool = False


class Data(NamedTuple):
    loader: DataLoader
    sampler: EnlargedSampler
    validation: List[Tuple[str, DataLoader]]
    total_epochs: int


def parse_args(argv: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-opt", type=str, required=True, help="Path to option YAML file.")
    parser.add_argument("--launcher", choices=["none", "pytorch"], default="none", help="job launcher")
    parser.add_argument("--auto_resume", action="store_true")
    parser.add_argument("--name", type=str, default=None)
    parser.add_argument("--manual_seed", type=int, default=None)
    # Accepted for the sake of old command lines; torchrun says the rank in the environment.
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--local_rank", type=int, default=0)
    return parser.parse_args(argv)


def start_ranks(launcher: str) -> Ranks:
    if launcher == "none":
        print("Disable distributed.", flush=True)
        return Ranks()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return Ranks(dist.get_rank(), dist.get_world_size(), True)


def choose_device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Makes a large card small, to see what a small one would do.
    torch.cuda.set_per_process_memory_fraction(float(os.environ.get("SISR_MEMORY_FRACTION", "1")))
    return torch.device("cuda", torch.cuda.current_device())


def find_resume_state(opt: Options, folders: Folders, auto_resume: bool) -> Optional[Dict[str, Any]]:
    """The furthest state of this experiment, or none: --auto_resume never falls back to path.resume_state."""
    path = None
    if not auto_resume:
        path = opt.path.resume_state and os.path.expanduser(opt.path.resume_state)
    elif os.path.isdir(folders.states):
        iters = [int(name[: -len(".state")]) for name in os.listdir(folders.states) if name.endswith(".state")]
        path = os.path.join(folders.states, f"{max(iters)}.state") if iters else None
    return load_file_on_cpu(path) if path else None


def archive(path: str) -> None:
    """An experiment of the same name that is not resumed is never overwritten."""
    if os.path.exists(path):
        moved = f"{path}_archived_{time_stamp()}"
        print(f"Path already exists. Rename it to {moved}", flush=True)
        os.rename(path, moved)
    os.makedirs(path)


def make_folders(folders: Folders, resumed: bool, tensorboard: bool) -> None:
    if not resumed:
        archive(folders.experiment)
        if tensorboard:
            archive(folders.tensorboard)
    for folder in (folders.models, folders.resume_models, folders.states, folders.images):
        os.makedirs(folder, exist_ok=True)


def copy_recipe(path: str, folder: str) -> None:
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(folder, os.path.basename(path)), "w", encoding="utf-8") as f:
        f.write(f"# GENERATE TIME: {time.asctime()}\n# CMD:\n# {' '.join(sys.argv)}\n\n{text}")


def open_data(opt: Options, ranks: Ranks, seed: int, log: logging.Logger) -> Data:
    train: Optional[Tuple[DataLoader, EnlargedSampler, int]] = None
    validation: List[Tuple[str, DataLoader]] = []
    for phase, data_opt in opt.datasets.items():
        if phase == "train":
            train = _open_train(opt, ranks, seed, log)
        elif phase.split("_")[0] == "val":
            if opt.val is not None and opt.val.val_enabled:
                images = PairedImageDataset(data_opt, opt.scale, train=False)
                log.info("Number of val images/folders in %s: %d", data_opt.name, len(images))
                validation.append((data_opt.name, val_loader(images)))
            else:
                log.info("Validation is disabled, skip building val dataset %s.", data_opt.name)
        else:
            raise ValueError(f"Dataset phase {phase} is not recognized.")
    if train is None:
        raise ValueError("Failed to initialize training dataloader. Make sure train dataset is defined in datasets.")
    return Data(train[0], train[1], validation, train[2])


def _open_train(opt: Options, ranks: Ranks, seed: int, log: logging.Logger) -> Tuple[DataLoader, EnlargedSampler, int]:
    data_opt = opt.datasets["train"]
    if data_opt.lq_size is not None and data_opt.gt_size is None:
        data_opt.gt_size = data_opt.lq_size * opt.scale
    elif data_opt.gt_size is not None and data_opt.lq_size is None:
        data_opt.lq_size = data_opt.gt_size // opt.scale
    else:
        raise ValueError("Exactly one of gt_size or lq_size must be defined in the train dataset")
    if data_opt.batch_size_per_gpu is None:
        raise ValueError("batch_size_per_gpu must be defined in the train dataset")

    images = PairedImageDataset(data_opt, opt.scale, train=True)
    if isinstance(data_opt.dataset_enlarge_ratio, int):
        ratio = data_opt.dataset_enlarge_ratio
    else:
        # "auto" depends on the micro-batch, as upstream's does: another micro-batch makes another epoch.
        ratio = max(2000 * data_opt.batch_size_per_gpu // len(images), 1)
    sampler = EnlargedSampler(len(images), ratio, ranks.rank, ranks.world_size)
    gpus = 1 if ranks.distributed or opt.num_gpu == "auto" else max(opt.num_gpu, 1)
    per_epoch = len(images) * ratio // (data_opt.batch_size_per_gpu * data_opt.accum_iter * ranks.world_size)
    if per_epoch == 0:
        raise ValueError("The data set is smaller than one batch. Increase dataset_enlarge_ratio.")
    epochs = math.ceil(opt.train.total_iter / per_epoch)
    log.info(
        statistics(opt.name, len(images), data_opt, ratio, ranks.world_size, per_epoch, epochs, opt.train.total_iter)
    )
    return train_loader(images, sampler, gpus, seed), sampler, epochs


class Loop:
    """Where the training stands, and how it goes on from there. Iterations are optimizer steps."""

    def __init__(
        self, opt: Options, model: Model, data: Data, epoch: int, current_iter: int, log: logging.Logger
    ) -> None:
        self.opt, self.model, self.data, self.log = opt, model, data, log
        self.start_epoch, self.epoch, self.current_iter = epoch, epoch, current_iter
        self.accumulated = 0
        self.interrupted = False
        self.crashed = False
        self.progress = ProgressLine(current_iter, opt.train.total_iter, model.accum_iter)

    def on_sigint(self, signum: int, frame: Optional[FrameType]) -> None:
        if not self.interrupted:
            self.interrupted = True
            self.log.info("User interrupted. Preparing to save state...")

    def train_pipeline(self) -> None:
        """Returns at the end, after Ctrl-C and after any failure: a failure is logged, and what was trained is saved."""
        try:
            for epoch in range(self.start_epoch, self.data.total_epochs + 1):
                self.epoch = epoch
                self.data.sampler.set_epoch(epoch)
                if not self._run_epoch():
                    return
        except Exception as e:
            self.log.exception(e)
            self.crashed = True

    def _run_epoch(self) -> bool:
        """False when there is to be no further one."""
        started = time.time()
        for batch in self.data.loader:
            if self.current_iter >= self.opt.train.total_iter:
                return False
            self.accumulated += 1
            apply_gradient = self.accumulated >= self.model.accum_iter
            if apply_gradient:
                self.accumulated = 0
                self.current_iter += 1
            self._micro_step(batch, apply_gradient)
            self.progress.micro_step(time.time() - started)
            if apply_gradient:
                self._after_step()
            if self.interrupted:
                return False
            started = time.time()
        # Whoever resumes from here starts with the next epoch.
        self.epoch += 1
        return True

    def _micro_step(self, batch: Dict[str, Any], apply_gradient: bool) -> None:
        self.model.feed_data(batch)
        try:
            self.model.optimize_parameters(apply_gradient)
        except RuntimeError as e:
            if "cuda out of memory" not in str(e).lower():
                raise
            gc.collect()
            torch.cuda.empty_cache()
            raise RuntimeError(
                "Ran out of VRAM during training. Reduce lq_size or batch_size_per_gpu and try again."
            ) from None

    def _after_step(self) -> None:
        if self.current_iter % self.opt.logger.print_freq == 0:
            values = self.model.take_values()
            self.log.info(self.progress.text(self.epoch, self.current_iter, self.model.learning_rates(), values))
            if self.model.tb_logger is not None:
                for label, value in values.items():
                    self.model.tb_logger.add_scalar(f"losses/{label[2:]}", value, self.current_iter)
        if self.current_iter % self.opt.logger.save_checkpoint_freq == 0:
            folder = self.model.folders.models
            self.log.info("Saving models and training states to %s. Free space: %s", folder, free_space())
            self._save(self.epoch, self.current_iter)
        if self.opt.val is not None and self.opt.val.val_freq and self.current_iter % self.opt.val.val_freq == 0:
            self.validation()

    def validation(self) -> None:
        if dist_rank() == 0:
            for name, loader in self.data.validation:
                self.model.nondist_validation(name, loader, self.current_iter)

    def save_stopped(self) -> None:
        """What an interrupted or crashed training leaves: the iteration in progress does not count as done."""
        if self.crashed or self.accumulated > 0:
            self.current_iter -= 1
        if self.current_iter <= 0:
            return
        folder = self.model.folders.models
        if written_within(folder, 60):
            text = "A checkpoint in %s was written less than a minute ago; won't save a new one. Stopped at epoch: %d, iter: %d."
            self.log.info(text, folder, self.epoch, self.current_iter)
            return
        self.log.info(
            "Saving models and training states to %s for epoch: %d, iter: %d.", folder, self.epoch, self.current_iter
        )
        self._save(self.epoch, self.current_iter)

    def _save(self, epoch: int, current_iter: int) -> None:
        if dist_rank() == 0:
            self.model.save(epoch, current_iter)


def dist_rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def written_within(folder: str, seconds: float) -> bool:
    """Whether a model that is not empty was written that recently."""
    files = [entry.stat() for entry in os.scandir(folder) if entry.name.endswith((".pth", ".safetensors"))]
    return any(f.st_size > 0 and time.time() - f.st_mtime < seconds for f in files)


def main() -> None:
    root = os.path.dirname(os.path.abspath(__file__))
    args = parse_args()
    opt = load_recipe(args.opt)
    ranks = start_ranks(args.launcher)
    device = choose_device()
    opt.name = args.name or opt.name
    if opt.num_gpu == "auto":
        opt.num_gpu = torch.cuda.device_count()
    seed = args.manual_seed or opt.manual_seed or random.randint(1024, 10000)
    random.seed(seed + ranks.rank)
    torch.manual_seed(seed + ranks.rank)

    folders = Folders(root, opt.name)
    state = find_resume_state(opt, folders, args.auto_resume)
    if ranks.rank == 0:
        make_folders(folders, state is not None, opt.logger.use_tb_logger)
        copy_recipe(args.opt, folders.experiment)
    log = open_log(os.path.join(folders.experiment, f"train_{opt.name}_{time_stamp()}.log"), ranks.rank)
    log.info(environment())
    log.info("Training with manual_seed=%d.", seed)
    data = open_data(opt, ranks, seed, log)
    model = Model(opt, folders, device, ranks.distributed, log)
    if opt.logger.use_tb_logger and ranks.rank == 0:
        from torch.utils.tensorboard import SummaryWriter

        model.tb_logger = SummaryWriter(folders.tensorboard)

    epoch, current_iter = 0, 0
    if state is not None:
        model.resume(state)
        epoch, current_iter = state["epoch"], state["iter"]
        log.info("Resuming training from epoch: %d, iter: %d.", epoch, current_iter)
        del state
    log.info("Start training from epoch: %d, iter: %d.", epoch, current_iter)
    loop = Loop(opt, model, data, epoch, current_iter, log)
    signal.signal(signal.SIGINT, loop.on_sigint)
    started = time.time()
    loop.train_pipeline()
    consumed = datetime.timedelta(seconds=int(time.time() - started))

    if loop.interrupted or loop.crashed:
        loop.save_stopped()
        log.info("Training stopped. Time consumed: %s", consumed)
        # Zero even after a failure, as upstream has it: only the line below says that a training is complete.
        sys.exit(0)
    log.info("End of training. Time consumed: %s", consumed)
    log.info("Save the latest model.")
    if ranks.rank == 0:
        model.save(epoch=-1, current_iter=-1)
    if opt.val is not None:
        loop.validation()
    if model.tb_logger is not None:
        model.tb_logger.close()
    if ranks.distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
