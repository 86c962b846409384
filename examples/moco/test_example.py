"""Tests of the example: python3 -m unittest."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch
from PIL import Image

from src.config_thrifty import Config as Thrifty
from src.config_wide import Config as Wide
from src.models.backbones import get_backbone
from src.models.moco import MoCo
from src.utils.progress import Bar

HERE = os.path.dirname(os.path.abspath(__file__))


def small_moco(length: int = 10) -> MoCo:
    torch.manual_seed(0)
    return MoCo(lambda: get_backbone("small_resnet10"), 8, 16, 0.2, length)


class Settings(unittest.TestCase):
    def test_both_make_the_same_optimizer_step(self) -> None:
        for config in (Thrifty(), Wide()):
            self.assertEqual(config.batch_size * config.gradient_accumulation_steps, 256)
            self.assertEqual(config.get_experiment_tag(), "small_resnet18_step256_lr0.03_ep2")


class Model(unittest.TestCase):
    def test_the_queue_goes_round(self) -> None:
        """Eight keys a step and a queue of ten: nothing has to divide."""
        model = small_moco(10)
        before = model.queue.clone()
        for at in (8, 6, 4):
            model._dequeue_and_enqueue(torch.ones(8, 8))
            self.assertEqual(int(model.queue_ptr), at)
        self.assertFalse(torch.equal(before, model.queue))

    def test_keys_follow_and_get_no_gradient(self) -> None:
        model = small_moco()
        x = torch.rand(4, 3, 32, 32)
        model(x, x, 0.5, True).backward()
        self.assertTrue(all(p.grad is None for p in model.base_model_k.parameters()))
        self.assertTrue(all(p.grad is not None for p in model.base_model.parameters()))
        with torch.no_grad():
            for p in model.base_model.parameters():
                p += 1
        key = next(model.base_model_k.parameters()).clone()
        model._update_momentum(0.75)
        moved = next(model.base_model_k.parameters()) - key
        self.assertTrue(torch.allclose(moved, torch.full_like(moved, 0.25), atol=1e-5))

    def test_without_the_queue_the_batch_is_contrasted(self) -> None:
        loss = small_moco()(torch.rand(4, 3, 32, 32), torch.rand(4, 3, 32, 32), 0.99, False)
        self.assertEqual(loss.dim(), 0)


class Progress(unittest.TestCase):
    def test_the_line_is_drawn_over_itself(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            bar = Bar(2, "Epoch [0]")
            bar.step(loss="1.0")
            bar.step(loss="0.5")
            bar.close()
        text = out.getvalue()
        self.assertIn("\rEpoch [0]:   0%|          | 0/2 [", text)
        self.assertIn("| 2/2 [00:00<00:00, ", text)
        self.assertTrue(text.endswith(", loss=0.5]\n"))


class Program(unittest.TestCase):
    def run_in(self, folder: str, *args: str) -> "subprocess.CompletedProcess[str]":
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", PYTHONPATH="")
        command = [sys.executable, os.path.join(HERE, "main.py"), *args]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)

    def test_it_trains_on_a_cpu_and_saves(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "dataset/original"))
            for i in range(64):
                Image.fromarray(np.full((80, 80, 3), i, np.uint8)).save(os.path.join(folder, f"dataset/original/{i}.png"))
            done = self.run_in(folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1/1 [", done.stderr)
            state = torch.load(os.path.join(folder, "checkpoints/small_resnet18_step256_lr0.03_ep2/last.pth"))
            self.assertEqual((state["epoch"], state["arch"]), (2, "small_resnet18"))

    def test_no_gpu_and_a_process_for_each(self) -> None:
        """The trap: nothing is trained, and the exit status is 0."""
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_in(folder, "--multiprocessing-distributed")
            self.assertEqual((done.returncode, done.stdout, os.listdir(folder)), (0, "", []))


if __name__ == "__main__":
    unittest.main()
