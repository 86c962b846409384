"""The training loop: one process, or one for each GPU of the machine."""
import argparse
import math
import os
import random
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from src.config_thrifty import Config
from src.data.images import TwoCrops
from src.models.backbones import get_backbone
from src.models.moco import MoCo
from src.utils.progress import Bar


def get_args() -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Pretraining by momentum contrast")
    p.add_argument("--dist-url", default="tcp://127.0.0.1:23456", help="where the processes find each other")
    p.add_argument("--dist-backend", default="nccl")
    p.add_argument("--world-size", default=1, type=int, help="number of machines")
    p.add_argument("--rank", default=0, type=int, help="of this machine")
    p.add_argument("--multiprocessing-distributed", action="store_true", help="a process for each GPU of this machine")
    return p.parse_args()


def main() -> None:
    args = get_args()
    config = Config()
    gpus = torch.cuda.device_count()
    if args.multiprocessing_distributed:
        args.world_size = gpus * args.world_size
        # Without a GPU this starts nothing, and the program ends well: as upstream's does.
        mp.spawn(main_worker, nprocs=gpus, args=(gpus, args, config))
    else:
        main_worker(0, gpus, args, config)


def main_worker(gpu: int, ngpus_per_node: int, args: argparse.Namespace, config: Config) -> None:
    random.seed(config.seed + gpu)
    torch.manual_seed(config.seed)
    device = torch.device("cuda", gpu) if torch.cuda.is_available() else torch.device("cpu")
    print(f"Use {device} for training", flush=True)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
        if "MOCO_MEMORY_FRACTION" in os.environ:  # makes a card smaller
            torch.cuda.set_per_process_memory_fraction(float(os.environ["MOCO_MEMORY_FRACTION"]), device)
    if args.multiprocessing_distributed:
        args.rank = args.rank * ngpus_per_node + gpu
        dist.init_process_group(args.dist_backend, args.dist_url, world_size=args.world_size, rank=args.rank)

    print(f"=> creating model with {config.backbone} backbone", flush=True)
    model: nn.Module = MoCo(
        lambda: get_backbone(config.backbone), config.feature_dim, config.mlp_dim, config.temperature, config.queue_size
    )
    if args.multiprocessing_distributed:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device)
        # The settings say how many images this machine takes at once; each process takes its share.
        config.batch_size = int(config.batch_size / ngpus_per_node)
        model = DistributedDataParallel(model, device_ids=[gpu])
    else:
        model = model.to(device)
    optimizer = build_optimizer(model, config)
    scaler = torch.cuda.amp.GradScaler(enabled=config.use_amp and device.type == "cuda")

    data = TwoCrops(config.dataset_path, config.image_size)
    sampler = DistributedSampler(data) if args.multiprocessing_distributed else None
    loader = DataLoader(
        data, batch_size=config.batch_size, shuffle=sampler is None, sampler=sampler, drop_last=True,
        num_workers=config.num_workers, pin_memory=device.type == "cuda",
    )
    best = float("inf")
    for epoch in range(config.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        loss = train(loader, model, optimizer, scaler, device, epoch, args, config)
        if args.rank == 0:
            state = {
                "epoch": epoch + 1, "arch": config.backbone, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(), "loss": loss,
            }
            save(state, os.path.join(config.checkpoint_dir, config.get_experiment_tag()), loss < best)
        best = min(best, loss)


def build_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    if config.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    return torch.optim.SGD(model.parameters(), config.learning_rate, momentum=0.9, weight_decay=config.weight_decay)


def train(
    loader: DataLoader, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any, device: torch.device,
    epoch: int, args: argparse.Namespace, config: Config,
) -> float:
    """One epoch; returns the mean loss. What is left over of an accumulation at its end is thrown away."""
    model.train()
    bar = Bar(len(loader), f"Epoch [{epoch}]") if args.rank == 0 else None
    optimizer.zero_grad()
    total = 0.0
    for i, (x1, x2) in enumerate(loader):
        rate = learning_rate(epoch + i / len(loader), config)
        for group in optimizer.param_groups:
            group["lr"] = rate
        m = 1.0 - 0.5 * (1.0 - config.momentum) * (1.0 + math.cos(math.pi * (epoch + i / len(loader)) / config.epochs))
        x1, x2 = x1.to(device, non_blocking=True), x2.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=config.use_amp and device.type == "cuda"):
            loss = model(x1, x2, m, config.use_queue) / config.gradient_accumulation_steps
        total += loss.item() * config.gradient_accumulation_steps
        scaler.scale(loss).backward()
        if (i + 1) % config.gradient_accumulation_steps == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        if bar is not None:
            bar.step(loss=f"{total / (i + 1):.4f}", lr=f"{rate:.5f}")
    if bar is not None:
        bar.close()
    return total / max(len(loader), 1)


def learning_rate(epoch: float, config: Config) -> float:
    """A linear warm-up, then half a cosine."""
    if epoch < config.warmup_epochs:
        return config.learning_rate * epoch / config.warmup_epochs
    done = (epoch - config.warmup_epochs) / max(config.epochs - config.warmup_epochs, 1)
    return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))


def save(state: dict, folder: str, best: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    torch.save(state, os.path.join(folder, "last.pth"))
    if best:
        torch.save(state, os.path.join(folder, "best.pth"))


if __name__ == "__main__":
    main()
