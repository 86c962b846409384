"""python3 -m unittest: the example behaves from the outside as README.md says. Under a minute on one free core."""

import glob
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from typing import Any, Dict, List, Optional, cast

import torch

import train
from sisr.data import psnr, to_image
from sisr.model import Model
from sisr.nets import build_network
from sisr.options import Options
from sisr.schema import ValidationError, decode_section, load_recipe

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)


def recipe() -> Dict[str, Any]:
    return {
        "name": "t",
        "scale": 2,
        "num_gpu": "auto",
        "path": {},
        "datasets": {"train": {"name": "T", "type": "pairedimagedataset", "lq_size": 16, "batch_size_per_gpu": 4}},
        "network_g": {"type": "windowsr", "num_feat": 8, "num_block": 1, "window_size": 4},
        "train": {
            "total_iter": 4,
            "ema_decay": 0.9,
            "optim_g": {"type": "Adam", "lr": 1e-3},
            "losses": [{"type": "l1loss", "loss_weight": 1.0}],
        },
        "val": {"val_enabled": True, "save_img": False},
        "logger": {"print_freq": 1, "save_checkpoint_freq": 100},
    }


def model(accum_iter: int = 1, tile_size: int = 0, tile_overlap: int = 0) -> Model:
    options = recipe()
    options["datasets"]["train"]["accum_iter"] = accum_iter
    options["val"].update(tile_size=tile_size, tile_overlap=tile_overlap)
    torch.manual_seed(0)
    silent: Any = types.SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)
    folders: Any = None
    made = Model(decode_section(Options, options, "$"), folders, torch.device("cpu"), False, silent)
    # The last layer starts at zero, which would hide the others.
    torch.nn.init.normal_(made.bare.conv_last.weight, std=0.01)
    return made


class Schema(unittest.TestCase):
    def error(self, section: Optional[str], key: str, value: Any) -> str:
        options = recipe()
        (options[section] if section else options)[key] = value
        with self.assertRaises(ValidationError) as caught:
            decode_section(Options, options, "$")
        return str(caught.exception)

    def test_unknown_keys(self) -> None:
        self.assertEqual(
            self.error("val", "val_batch_size", 1), "Object contains unknown field `val_batch_size` - at `$.val`"
        )
        self.assertEqual(
            self.error(None, "gradient_checkpointing", True), "Object contains unknown field `gradient_checkpointing`"
        )

    def test_wrong_types(self) -> None:
        self.assertEqual(
            self.error("train", "total_iter", "4e5"), "Expected `int`, got `str` - at `$.train.total_iter`"
        )
        self.assertEqual(self.error("val", "tile_size", True), "Expected `int`, got `bool` - at `$.val.tile_size`")
        self.assertEqual(
            self.error("logger", "save_checkpoint_format", "zip"),
            "Invalid enum value 'zip' - at `$.logger.save_checkpoint_format`",
        )

    def test_missing_key(self) -> None:
        options = recipe()
        del options["train"]["total_iter"]
        with self.assertRaisesRegex(ValidationError, "missing required field `total_iter` - at `\\$.train`"):
            decode_section(Options, options, "$")

    def test_recipes_are_valid(self) -> None:
        for path in glob.glob(os.path.join(HERE, "options", "*.yml")):
            with self.subTest(path=os.path.basename(path)):
                self.assertIsInstance(load_recipe(path).train.optim_g["lr"], float)


class Mathematics(unittest.TestCase):
    def test_accumulation_is_the_larger_batch(self) -> None:
        torch.manual_seed(1)
        lq, gt = torch.rand(8, 3, 16, 16), torch.rand(8, 3, 32, 32)
        whole, split = model(accum_iter=1), model(accum_iter=2)
        whole.feed_data({"lq": lq, "gt": gt})
        whole.optimize_parameters(False)
        for part in (slice(0, 4), slice(4, 8)):
            split.feed_data({"lq": lq[part], "gt": gt[part]})
            split.optimize_parameters(False)
        # Gradients, not parameters: Adam turns a rounding error of a gradient near zero into a whole step.
        for a, b in zip(whole.bare.parameters(), split.bare.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
        self.assertAlmostEqual(whole.take_values()["l_g_l1"], split.take_values()["l_g_l1"], places=5)

    def test_activation_checkpointing_changes_no_gradient(self) -> None:
        for kind in ("windowsr", "attnsr"):
            torch.manual_seed(0)
            plain = build_network({"type": kind, "num_feat": 8}, 2)
            saving = build_network({"type": kind, "num_feat": 8, "use_checkpoint": True}, 2)
            torch.nn.init.normal_(plain.conv_last.weight, std=0.01)
            saving.load_state_dict(plain.state_dict())
            x = torch.rand(1, 3, 16, 16)
            for net in (plain, saving):
                net(x).square().mean().backward()
            for a, b in zip(plain.parameters(), saving.parameters()):
                torch.testing.assert_close(a.grad, b.grad)

    def test_tiles_make_about_the_same_image(self) -> None:
        torch.manual_seed(2)
        lq = torch.rand(1, 3, 27, 40)
        whole = model().test(lq)
        tiled = model(tile_size=16, tile_overlap=4).test(lq)
        self.assertEqual(tiled.shape, (1, 3, 54, 80))
        self.assertTrue(bool(torch.isfinite(tiled).all()))
        self.assertGreater(psnr(to_image(tiled), to_image(whole)), 35)

    def test_psnr(self) -> None:
        black = to_image(torch.zeros(1, 3, 4, 4))
        self.assertEqual(psnr(black, black), math.inf)
        self.assertAlmostEqual(psnr(black, to_image(torch.ones(1, 3, 4, 4))), 0.0)

    def test_unknown_network_argument(self) -> None:
        with self.assertRaisesRegex(TypeError, "gradient_checkpointing"):
            build_network({"type": "attnsr", "gradient_checkpointing": True}, 2)


class OutOfMemory(unittest.TestCase):
    """On a CPU the allocator speaks for itself; on CUDA a failure in training is said in other words, one in validation not."""

    def micro_step(self, message: str) -> str:
        def fail(apply_gradient: bool) -> None:
            raise RuntimeError(message)

        failing: Any = types.SimpleNamespace(accum_iter=1, feed_data=lambda batch: None, optimize_parameters=fail)
        options, nothing = decode_section(Options, recipe(), "$"), cast(Any, None)
        with self.assertRaises(RuntimeError) as caught:
            train.Loop(options, failing, nothing, 0, 0, nothing)._micro_step({}, True)
        return str(caught.exception)

    def test_message_in_training(self) -> None:
        cuda = "CUDA out of memory. Tried to allocate 2.00 GiB"
        self.assertEqual(self.micro_step(cuda).split(".")[0], "Ran out of VRAM during training")
        cpu = "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory"
        self.assertEqual(self.micro_step(cpu), cpu)


class Program(unittest.TestCase):
    """Runs a copy of the program in a folder of its own, since experiments lie beside train.py."""

    root: str
    home: str
    tiny: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        leave = shutil.ignore_patterns("experiments", "datasets", "__pycache__", "tb_logger")
        cls.home = shutil.copytree(HERE, os.path.join(cls.root, "sisr"), ignore=leave)
        subprocess.run([sys.executable, "gen_data.py", "--val-size", "48"], cwd=cls.home, check=True)
        with open(os.path.join(cls.home, "options", "tiny.yml"), encoding="utf-8") as f:
            cls.tiny = f.read()

    def start(self, *args: str, **changes: Any) -> "subprocess.Popen[str]":
        """Starts the tiny recipe with the values of some keys changed."""
        text = self.tiny
        for key, value in changes.items():
            lines = [
                line if line.split(":")[0].strip() != key else f"{line.split(':')[0]}: {value}"
                for line in text.split("\n")
            ]
            text = "\n".join(lines)
        with open(os.path.join(self.home, "changed.yml"), "w", encoding="utf-8") as f:
            f.write(text)
        command = [sys.executable, "train.py", "-opt", "changed.yml", "--name", self.id().split(".")[-1], *args]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command,
            cwd=self.home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def run_program(self, *args: str, **changes: Any) -> "subprocess.CompletedProcess[str]":
        process = self.start(*args, **changes)
        output, _ = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def experiment(self, *parts: str) -> str:
        return os.path.join(self.home, "experiments", self.id().split(".")[-1], *parts)

    def states(self) -> List[str]:
        return sorted(os.listdir(self.experiment("training_states")))

    def test_to_the_end_and_archived_when_run_again(self) -> None:
        done = self.run_program()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Start training from epoch: 0, iter: 0.", done.stdout)
        self.assertRegex(
            done.stdout,
            r"\[epoch:   0, iter:      12, lr:\(2\.500e-04\)\] \[performance: [\d.]+ it/s\] \[eta: [\d:]+\] "
            r"\[peak VRAM: [\d.]+ GB\]",
        )
        self.assertRegex(done.stdout, r"Validation Val Dataset\n\t # psnr : [\d. ]+\tBest: ")
        self.assertRegex(done.stdout, r"Batch size per gpu:\s+4\tAccumulate iterations:\s+1")
        self.assertIn("End of training. Time consumed: ", done.stdout)
        self.assertEqual(self.states(), ["12.state", "4.state", "8.state"])
        self.assertTrue(os.path.exists(self.experiment("models", "net_g_ema_latest.pth")))
        (log,) = glob.glob(self.experiment("train_*.log"))
        with open(log, encoding="utf-8") as f:
            self.assertIn("End of training.", f.read())

        again = self.run_program(total_iter=1)
        self.assertRegex(again.stdout, r"Path already exists\. Rename it to .*_archived_\d{8}_\d{6}\n")
        (archived,) = glob.glob(self.experiment() + "_archived_*")
        self.assertTrue(os.path.exists(os.path.join(archived, "training_states", "12.state")))

    def test_resume_continues_the_count(self) -> None:
        self.run_program(total_iter=8)
        done = self.run_program("--auto_resume", batch_size_per_gpu=2, accum_iter=2, dataset_enlarge_ratio=500)
        self.assertIn("Resuming training from epoch: 0, iter: 8.", done.stdout)
        self.assertIn("iter:      10,", done.stdout)
        self.assertNotIn("iter:       8,", done.stdout)
        self.assertIn("End of training.", done.stdout)

    def test_resume_without_a_state_starts_over(self) -> None:
        self.run_program(total_iter=1)
        done = self.run_program("--auto_resume", total_iter=1)
        self.assertIn("Path already exists.", done.stdout)
        self.assertIn("Start training from epoch: 0, iter: 0.", done.stdout)

    def test_failure_in_the_loop_saves_and_exits_zero(self) -> None:
        # The loss is known at the start, the metric only when it is first asked for.
        done = self.run_program(crop_border="4\n      no_such_argument: 1", save_checkpoint_freq=100)
        self.assertEqual(done.returncode, 0)
        self.assertIn("TypeError: psnr() got an unexpected keyword argument 'no_such_argument'", done.stdout)
        self.assertIn(" for epoch: 0, iter: 5.", done.stdout)
        self.assertIn("Training stopped. Time consumed: ", done.stdout)
        self.assertNotIn("End of training", done.stdout)
        self.assertEqual(self.states(), ["5.state"])

    def test_failure_to_start_exits_one_and_leaves_nothing(self) -> None:
        done = self.run_program(tile_size="0\n  val_batch_size: 1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValidationError: Object contains unknown field `val_batch_size` - at `$.val`", done.stdout)
        self.assertFalse(os.path.exists(self.experiment()))

    def test_interrupt_finishes_the_iteration_and_saves(self) -> None:
        process = self.start(total_iter=100000, save_checkpoint_freq=100000)
        assert process.stdout is not None
        for line in process.stdout:
            if "iter:       4," in line:
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0)
        self.assertIn("User interrupted. Preparing to save state...", rest)
        self.assertRegex(rest, r"Saving models and training states to .* for epoch: 0, iter: \d+\.")
        self.assertIn("Training stopped.", rest)
        self.assertEqual(len(self.states()), 1)


if __name__ == "__main__":
    unittest.main()
