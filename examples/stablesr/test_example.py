"""python3 -m unittest: what README.md claims of this trainer."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tinysr import config

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")


class Example(unittest.TestCase):
    def setUp(self):
        self.logs = tempfile.TemporaryDirectory()
        self.addCleanup(self.logs.cleanup)

    def start(self, *args):
        command = [sys.executable, "main.py", *args, "--train", "--gpus", "0,", "-l", self.logs.name]
        return subprocess.Popen(command, cwd=HERE, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_to_end(self, *args):
        p = self.start(*args)
        out, _ = p.communicate(timeout=600)
        return p.returncode, out

    def folder(self):
        (name,) = os.listdir(self.logs.name)
        return os.path.join(self.logs.name, name)

    def test_trains_and_resumes(self):
        short = ["lightning.trainer.max_steps=1", "lightning.callbacks.image_logger.params.disabled=true", "--base", "configs/tiny.yaml"]
        code, out = self.run_to_end(*short, "--name", "a")
        self.assertEqual(code, 0, out)
        self.assertLess(out.index("Validation sanity check"), out.index("Epoch 0"))
        self.assertIn("global_step=1.0", out)
        state = os.path.join(self.folder(), "checkpoints", "last.ckpt")
        self.assertTrue(re.search(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d_a/checkpoints/last.ckpt$", state))
        code, out = self.run_to_end("lightning.trainer.max_steps=2", "--base", "configs/tiny.yaml", "--resume", state)
        self.assertEqual(code, 0, out)
        self.assertIn("Restored all states", out)
        self.assertIn("global_step=2.0", out)
        self.assertEqual(len(os.listdir(self.logs.name)), 1)

    def test_images_for_every_micro_batch(self):
        code, out = self.run_to_end("lightning.trainer.max_steps=2", "lightning.trainer.accumulate_grad_batches=2", "data.params.batch_size=1",
                                    "lightning.callbacks.image_logger.params.batch_frequency=1", "--base", "configs/tiny.yaml")
        self.assertEqual(code, 0, out)
        self.assertEqual(out.count("Sampling t: 100%"), 3)  # at step 1 twice, and once at step 2, where it ends

    def test_queue_must_divide(self):
        code, out = self.run_to_end("data.params.batch_size=5", "--base", "configs/tiny.yaml")
        self.assertEqual(code, 1)
        self.assertIn("queue size 24 should be divisible by batch size 5", out)
        self.assertIn("Summoning checkpoint.", out)
        self.assertTrue(os.path.exists(os.path.join(self.folder(), "checkpoints", "last.ckpt")))

    def test_overrides_behind_base_are_files(self):
        code, out = self.run_to_end("--base", "configs/tiny.yaml", "data.params.batch_size=1")
        self.assertEqual(code, 1)
        self.assertIn("FileNotFoundError", out)

    def test_name_and_resume(self):
        code, out = self.run_to_end("--base", "configs/tiny.yaml", "--name", "a", "--resume", "b")
        self.assertEqual(code, 1)
        self.assertIn("ValueError", out)

    def test_interrupted(self):
        p = self.start("lightning.trainer.max_steps=1000", "data.params.train.params.length=4000", "--base", "configs/tiny.yaml")
        seen = ""
        while "Epoch 0" not in seen and p.poll() is None:
            seen += p.stdout.read(1)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        rest, _ = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 0, seen + rest)
        self.assertIn("Detected KeyboardInterrupt, attempting graceful shutdown...", rest)
        self.assertIn("Summoning checkpoint.", rest)


class Recipes(unittest.TestCase):
    def test_merge(self):
        base = {"a": {"b": 1, "c": [1, 2]}}
        self.assertEqual(config.merge(base, {"a": {"c": [3]}}), {"a": {"b": 1, "c": [3]}})
        with self.assertRaises(TypeError):
            config.merge(base, {"a": [1]})

    def test_dotlist(self):
        self.assertEqual(config.dotlist(["a.b=1e-4", "a.c=true", "x"]), {"a": {"b": 1e-4, "c": True}, "x": None})


if __name__ == "__main__":
    unittest.main()
