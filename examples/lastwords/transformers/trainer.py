"""A trainer of our own in the place of Hugging Face's, for the demo of the last words: it has the few names that launch
uses of transformers.Trainer, saves what that saves, and needs torch alone."""

import json
import os
import types
from typing import Any, List, Optional

import torch


class Trainer:
    def __init__(self, model: torch.nn.Module, texts: List[torch.Tensor], **args: Any) -> None:
        self.model, self.texts = model, texts
        plain = {"save_only_model": False, "load_best_model_at_end": False, "save_strategy": "steps", "push_to_hub": False,
                 "save_total_limit": None}
        self.args = types.SimpleNamespace(**{**plain, **args})
        self.state = types.SimpleNamespace(global_step=0)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.is_deepspeed_enabled = self.is_fsdp_enabled = False

    def train(self, resume_from_checkpoint: Optional[str] = None) -> None:
        a = self.args
        if resume_from_checkpoint:
            saved = torch.load(os.path.join(resume_from_checkpoint, "state.pt"))
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            with open(os.path.join(resume_from_checkpoint, "trainer_state.json"), encoding="utf-8") as f:
                self.state.global_step = json.load(f)["global_step"]
        while self.state.global_step < len(self.texts):
            rows = self.texts[self.state.global_step]
            parts = rows.split(a.per_device_train_batch_size)
            loss = sum(self.training_step(self.model, part, len(parts)) for part in parts)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.state.global_step += 1
            print(f"step {self.state.global_step} of {len(self.texts)} loss {loss:.6f}", flush=True)
            if self.state.global_step % a.save_steps == 0:
                self._save_checkpoint(self.model, None)

    def training_step(self, model: torch.nn.Module, part: torch.Tensor, parts: int) -> float:
        model.train()
        loss = model(part) / parts
        loss.backward()
        return loss.item()

    def _get_output_dir(self, trial: None) -> str:
        return self.args.output_dir

    def _save_checkpoint(self, model: torch.nn.Module, trial: None) -> None:
        folder = os.path.join(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
        os.makedirs(folder)
        torch.save({"model": model.state_dict(), "optimizer": self.optimizer.state_dict()}, os.path.join(folder, "state.pt"))
        with open(os.path.join(folder, "trainer_state.json"), "w", encoding="utf-8") as f:
            json.dump({"global_step": self.state.global_step}, f)
