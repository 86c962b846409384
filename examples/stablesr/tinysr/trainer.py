"""The loop: a sanity check, epochs, a validation behind each, saved states, images now and then, bars on one line."""

import os
import sys
import time

import torch


class Bar:
    """A bar that is redrawn behind a carriage return, on standard output."""

    def __init__(self, title, total):
        self.title, self.total, self.began = title, total, time.time()

    def at(self, n, more=""):
        part = n / max(1, self.total)
        picture = ("█" * int(10 * part)).ljust(10)
        sys.stdout.write(f"\r{self.title}: {100 * part:3.0f}%|{picture}| {n}/{self.total} [{time.time() - self.began:05.2f}<?, ?it/s{more}]")
        sys.stdout.flush()


class Trainer:
    def __init__(self, model, data, args, logdir, images, every_n_train_steps):
        self.model, self.data, self.args, self.logdir, self.images = model, data, args, logdir, images
        self.every, self.accumulate = every_n_train_steps, args.get("accumulate_grad_batches", 1)
        self.max_steps, self.max_epochs = args.get("max_steps") or float("inf"), args.get("max_epochs") or 1000
        self.epoch, self.global_step, self.interrupted = 0, 0, False
        self.optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=model.learning_rate)

    def limited(self, name, limit):
        loader = self.data.loader(name)
        n = self.args.get(limit)
        return loader, min(len(loader), n) if isinstance(n, int) else len(loader)

    def save(self, path):
        state = {"epoch": self.epoch + 1, "global_step": self.global_step, "state_dict": self.model.state_dict(),
                 "optimizer": self.optimizer.state_dict()}
        torch.save(state, path)

    def restore(self, path):
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["state_dict"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.global_step = state["epoch"], state["global_step"]
        print(f"Restored all states from the checkpoint file at {path}")

    def summon(self):
        print("Summoning checkpoint.")
        self.save(os.path.join(self.logdir, "checkpoints", "last.ckpt"))

    def fit(self):
        try:
            if self.args.get("num_sanity_val_steps", 2):
                self.validate("Validation sanity check", self.args.get("num_sanity_val_steps", 2))
            sys.stdout.write("\rTraining: -1it [00:00, ?it/s]")
            while self.global_step < self.max_steps and self.epoch < self.max_epochs:
                self.one_epoch()
                self.epoch += 1
        except (KeyboardInterrupt, RuntimeError) as e:
            # Within a recomputation autograd hands Python's exception on as an error of its own.
            if isinstance(e, RuntimeError) and not str(e).startswith("KeyboardInterrupt"):
                raise
            print("\nDetected KeyboardInterrupt, attempting graceful shutdown...")
            self.interrupted = True
            self.summon()
        print()

    @torch.no_grad()
    def validate(self, title="Validating", limit=None):
        loader, total = self.limited("validation", "limit_val_batches")
        total = min(total, limit or total)
        self.model.eval()
        bar, losses = Bar(title, total), []
        bar.at(0)
        for i, batch in zip(range(total), loader):
            losses.append(self.model.loss(batch).item())
            bar.at(i + 1)
        self.model.train()
        return sum(losses) / max(1, len(losses))

    def one_epoch(self):
        loader, total = self.limited("train", "limit_train_batches")
        bar, began = Bar(f"Epoch {self.epoch}", total), time.time()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        for i, batch in zip(range(total), loader):
            loss = self.model.loss(batch)
            (loss / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0 or i + 1 == total:
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                self.global_step += 1
                if self.every and self.global_step % self.every == 0:
                    self.save(os.path.join(self.logdir, "checkpoints", "last.ckpt"))
            shown = loss.item()
            del loss
            bar.at(i + 1, f", loss={shown:.3g}, v_num=0, train/loss_simple_step={shown:.3g}, global_step={self.global_step}.0")
            if self.images and self.global_step and self.global_step % self.images == 0:  # for every micro-batch while the step stands
                self.model.eval()
                self.model.log_images(batch)
                self.model.train()
            if self.global_step >= self.max_steps:
                break
        sys.stdout.write("\r\n")
        loss = self.validate()
        sys.stdout.write(f"\nEpoch {self.epoch}, global step {self.global_step}: val/loss is {loss:.4f}\n")
        sys.stderr.write(f"Average Epoch time: {time.time() - began:.2f} seconds\n")
        if torch.cuda.is_available():
            sys.stderr.write(f"Average Peak memory {torch.cuda.max_memory_allocated() / 2**20:.2f}MiB\n")
        self.save(os.path.join(self.logdir, "checkpoints", "last.ckpt"))
