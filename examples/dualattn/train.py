"""Trains a dual cross-attention vision transformer: python train.py --task fgvc --dataset shapes"""

import argparse
import os
import sys
import time
from typing import Dict, Iterable, Iterator, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dualattn.configs import RecognitionConfig, get_fgvc_config
from dualattn.datasets import make_loaders
from dualattn.models import DualCrossAttentionViT


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=["fgvc"], required=True)
    parser.add_argument("--dataset", type=str, required=True, help="shapes or stripes")
    parser.add_argument("--batch_size", type=int, help="outranks the configuration's; there is none for accumulation")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--device", type=str, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint_dir", type=str, default="./checkpoints")
    parser.add_argument("--log_dir", type=str, default="./logs")
    parser.add_argument("--no_logging", action="store_true")
    parser.add_argument("--resume", type=str, help="accepted, and not implemented")
    return parser.parse_args()


def progress(name: str, batches: Iterable) -> Iterator:
    """A bar on standard error, as tqdm draws it: at nothing first."""
    total, started = len(batches), time.time()

    def draw(done: int) -> None:
        bar, passed = "#" * (10 * done // total), int(time.time() - started)
        line = f"\r{name}: {100 * done // total:3d}%|{bar:<10}| {done}/{total} [00:{passed:02d}<00:00]"
        print(line, end="", file=sys.stderr, flush=True)

    draw(0)
    for done, batch in enumerate(batches, 1):
        yield batch
        draw(done)
    print(file=sys.stderr, flush=True)


class Criterion(nn.Module):
    """The branches' cross-entropies, each weighted by its learned uncertainty (Kendall et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(3))

    def forward(self, logits: Dict[str, Tensor], labels: Tensor) -> Tensor:
        terms = zip(self.log_vars, (logits[k] for k in ("sa", "glca", "pwca") if k in logits))
        return 0.5 * sum(torch.exp(-w) * F.cross_entropy(x, labels) + w for w, x in terms)


def pairs_of(images: Tensor) -> Tensor:
    """Another image of the micro-batch for each: by a rotation, so that none is its own pair where there are two."""
    return images.roll(int(torch.randint(1, max(2, len(images)), ())), 0)


class Trainer:
    def __init__(self, config: RecognitionConfig, device: str) -> None:
        self.config, self.device = config, device
        print("Setting up training components...", flush=True)
        self.model = DualCrossAttentionViT(**config.model_arguments()).to(device)
        self.criterion = Criterion().to(device)
        parameters = [*self.model.parameters(), *self.criterion.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=config.scaled_lr, weight_decay=config.weight_decay)
        self.amp = config.mixed_precision and device.startswith("cuda")
        self.scaler = torch.cuda.amp.GradScaler(enabled=self.amp)
        self.best = 0.0
        count = sum(p.numel() for p in self.model.parameters())
        print(f"Model initialized with {count / 1e6:.2f}M parameters", flush=True)

    def train(self) -> None:
        config = self.config
        train_loader, val_loader = make_loaders(config)
        os.makedirs(config.checkpoint_dir, exist_ok=True)
        print(f"Starting training for {config.num_epochs} epochs")
        print(f"Physical batch size: {config.batch_size}")
        print(f"Gradient accumulation steps: {config.gradient_accumulation_steps}")
        print(f"Effective batch size: {config.batch_size * config.gradient_accumulation_steps}", flush=True)
        for epoch in range(1, config.num_epochs + 1):
            loss = self.train_epoch(train_loader, epoch)
            print(f"EPOCH {epoch} SUMMARY\nTotal Loss: {loss:.4f}", flush=True)
            if epoch % config.eval_frequency == 0 or epoch == config.num_epochs:
                self.evaluate_and_save(val_loader, epoch)
        print(f"Training completed! Best metric: {self.best:.4f}", flush=True)

    def train_epoch(self, loader, epoch: int) -> float:
        self.model.train()
        steps, total = self.config.gradient_accumulation_steps, 0.0
        for i, (images, labels) in enumerate(progress(f"Epoch {epoch}", loader)):
            images, labels = images.to(self.device), labels.to(self.device)
            if i % steps == 0:
                self.optimizer.zero_grad()
            with torch.cuda.amp.autocast(enabled=self.amp):
                logits = self.model(images, x_pair=pairs_of(images))
                loss = self.criterion(logits, labels)
            self.scaler.scale(loss / steps).backward()
            if (i + 1) % steps == 0 or i + 1 == len(loader):
                self.scaler.step(self.optimizer)
                self.scaler.update()
            total += loss.item()
        return total / max(1, len(loader))

    @torch.no_grad()
    def evaluate(self, loader) -> float:
        """In float32, at the training's own micro-batch."""
        self.model.eval()
        right = seen = 0
        for images, labels in progress("Evaluating val", loader):
            logits = self.model(images.to(self.device))
            chance = sum(logits[k].softmax(dim=-1) for k in logits)
            right += int((chance.argmax(dim=-1).cpu() == labels).sum())
            seen += len(labels)
        return 100 * right / max(1, seen)

    def evaluate_and_save(self, loader, epoch: int) -> None:
        accuracy = self.evaluate(loader)
        print(f"Epoch {epoch}/{self.config.num_epochs}\nVal Top-1 Acc: {accuracy:.2f}%", flush=True)
        state = {
            "epoch": epoch,
            "model_state_dict": self.model.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
        }
        folder = self.config.checkpoint_dir
        torch.save(state, os.path.join(folder, "checkpoint_latest.pth"))
        if accuracy > self.best:
            self.best = accuracy
            torch.save(state, os.path.join(folder, "checkpoint_best.pth"))
            print(f"New best model saved with metric: {accuracy:.4f}", flush=True)


def configure(args: argparse.Namespace) -> RecognitionConfig:
    config = get_fgvc_config(args.dataset)
    if args.batch_size:
        config.batch_size = args.batch_size
    if args.epochs:
        config.num_epochs = args.epochs
    if args.checkpoint_dir:
        config.checkpoint_dir = args.checkpoint_dir
    return config


def limit(device: str) -> None:
    """Makes a large card small, to see what a small one would do."""
    fraction: Optional[str] = os.environ.get("DUALATTN_MEMORY_FRACTION")
    if fraction and device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(float(fraction))


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(0)
    limit(args.device)
    Trainer(configure(args), args.device).train()


if __name__ == "__main__":
    main()
