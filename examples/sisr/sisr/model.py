"""The network with everything that trains it, validates it, saves it and brings it back."""

import copy
import glob
import logging
import math
import os
import shutil
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader

from .data import psnr, to_image
from .nets import build_network
from .options import Options


def charbonnier(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt((x - y) ** 2 + 1e-12).mean()


LOSSES: Dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "l1loss": F.l1_loss,
    "mseloss": F.mse_loss,
    "charbonnierloss": charbonnier,
}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


class Folders:
    """Where an experiment keeps what."""

    def __init__(self, root: str, name: str) -> None:
        self.experiment = os.path.join(root, "experiments", name)
        self.models = os.path.join(self.experiment, "models")
        self.resume_models = os.path.join(self.models, "resume_models")
        self.states = os.path.join(self.experiment, "training_states")
        self.images = os.path.join(self.experiment, "visualization")
        self.tensorboard = os.path.join(root, "tb_logger", name)


class Model:
    """The names of its methods are upstream's: they stand in tracebacks, and tools read from them what failed."""

    def __init__(
        self, opt: Options, folders: Folders, device: torch.device, distributed: bool, log: logging.Logger
    ) -> None:
        self.opt, self.folders, self.device, self.log = opt, folders, device, log
        self.tb_logger: Any = None
        self.accum_iter = opt.datasets["train"].accum_iter
        self.extension = opt.logger.save_checkpoint_format
        if self.extension == "safetensors":
            import safetensors.torch  # noqa: F401  An hour into a training is no time to find it missing.

        self.bare = build_network(opt.network_g, opt.scale).to(device)
        count = sum(p.numel() for p in self.bare.parameters())
        log.info("Network: %s, with parameters: %s", type(self.bare).__name__, f"{count:,d}")
        if opt.path.pretrain_network_g:
            self._load(self.bare, os.path.expanduser(opt.path.pretrain_network_g), opt.path.strict_load_g)
        self.net: nn.Module = self.bare
        if distributed:
            self.net = nn.parallel.DistributedDataParallel(self.bare, [device] if device.type == "cuda" else None)
        elif isinstance(opt.num_gpu, int) and opt.num_gpu > 1:
            self.net = nn.DataParallel(self.bare)

        self.ema: Optional[nn.Module] = None
        if opt.train.ema_decay > 0:
            self.ema = copy.deepcopy(self.bare).eval().requires_grad_(False)
            log.info("Using exponential moving average (EMA) with decay: %s.", opt.train.ema_decay)

        self.losses = [
            (_label(o["type"]), LOSSES[o["type"].lower()], float(o.get("loss_weight", 1.0))) for o in opt.train.losses
        ]
        self.optimizer = _optimizer(opt.train.optim_g, self.bare)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, _lr_factor(opt))

        # Half precision on a CPU means bfloat16: torch 1.13 refuses the other one there.
        self.amp_dtype = torch.bfloat16 if opt.amp_bf16 or device.type == "cpu" else torch.float16
        if opt.use_amp:
            log.info(
                "Using Automatic Mixed Precision (AMP) with fp32 and %s.",
                "bf16" if self.amp_dtype == torch.bfloat16 else "fp16",
            )
        self.scaler = _scaler(opt.use_amp and self.amp_dtype == torch.float16)
        self.values: Dict[str, Any] = {}
        self.micro_steps = 0
        self.best: Dict[str, Dict[str, Any]] = {}
        self.bad_losses = 0

    def _autocast(self) -> torch.autocast:
        return torch.autocast(device_type=self.device.type, dtype=self.amp_dtype, enabled=self.opt.use_amp)

    # Training

    def feed_data(self, sample: Dict[str, Any]) -> None:
        self.lq = sample["lq"].to(self.device, non_blocking=True)
        self.gt = sample["gt"].to(self.device, non_blocking=True)

    def optimize_parameters(self, apply_gradient: bool) -> None:
        """One forward and backward; the optimizer step too when the accumulation is complete."""
        with self._autocast():
            output = self.net(self.lq)
        # Losses in single precision, whatever the network ran in.
        terms = {label: weight * loss(output.float(), self.gt) for label, loss, weight in self.losses}
        total = torch.stack(list(terms.values())).sum() / self.accum_iter
        if not bool(torch.isfinite(total)):
            self.bad_losses += 1
            if self.bad_losses > 10:
                raise RuntimeError("Training failed: NaN/Inf found in loss. Try reducing the learning rate.")
            self.log.warning("NaN/Inf in loss (count: %d), skipping update", self.bad_losses)
            return
        self.bad_losses = 0
        self.scaler.scale(total).backward()
        self.micro_steps += 1
        for label, value in {**terms, "l_g_total": total}.items():
            self.values[label] = self.values.get(label, 0.0) + value.detach()
        if apply_gradient:
            self._optimizer_step()

    def _optimizer_step(self) -> None:
        if self.opt.train.grad_clip:
            self.scaler.unscale_(self.optimizer)
            clip_grad_norm_(self.bare.parameters(), self.opt.train.grad_clip_max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.scheduler.step()
        if self.ema is not None:
            with torch.no_grad():
                for average, parameter in zip(self.ema.parameters(), self.bare.parameters()):
                    average.lerp_(parameter, 1 - self.opt.train.ema_decay)

    def take_values(self) -> Dict[str, float]:
        """Means over the micro-batches since the last call; l_g_total is divided by the accumulation, as it is trained on."""
        values = {label: float(value) / self.micro_steps for label, value in self.values.items()}
        self.values, self.micro_steps = {}, 0
        return values

    def learning_rates(self) -> List[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    # Validation

    def nondist_validation(self, name: str, loader: DataLoader, current_iter: int) -> None:
        """Every image whole, or in tiles, through the averaged network; metrics on 8-bit images."""
        val = self.opt.val
        assert val is not None
        metrics = (val.metrics or {}) if val.metrics_enabled else {}
        totals = dict.fromkeys(metrics, 0.0)
        if val.save_img:
            self.log.info("Saving %d validation images to %s.", len(loader), self.folders.images)
        for sample in loader:
            self.feed_data(sample)
            output = self.test(self.lq)
            image, truth = to_image(output), to_image(self.gt)
            del output, self.lq, self.gt
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if val.save_img:
                self._save_image(image, sample["lq_path"][0], current_iter)
            for metric, metric_opt in metrics.items():
                totals[metric] += _metric(metric_opt, image, truth)
        if metrics:
            self._log_metrics(name, {metric: total / len(loader) for metric, total in totals.items()}, current_iter)

    def test(self, lq: Tensor) -> Tensor:
        net = self.ema if self.ema is not None else self.bare
        net.eval()
        with torch.inference_mode(), self._autocast():
            tile = self.opt.val.tile_size if self.opt.val is not None else 0
            output = self.infer_tiled(net, lq) if tile > 0 else net(lq)
        if net is self.bare:
            net.train()
        return output

    def infer_tiled(self, net: nn.Module, lq: Tensor) -> Tensor:
        """Tiles of one size, blended where they overlap with weights that fall off towards their edges."""
        assert self.opt.val is not None
        tile, overlap, scale = self.opt.val.tile_size, self.opt.val.tile_overlap, self.opt.scale
        b, c, h, w = lq.shape
        output = torch.zeros((b, c, h * scale, w * scale), device=lq.device)
        weights = torch.zeros_like(output)
        for y in _tile_starts(h, tile, overlap):
            for x in _tile_starts(w, tile, overlap):
                patch = net(lq[:, :, y : y + tile, x : x + tile]).float()
                weight = _tent(patch.shape[-2:], lq.device)
                area = (
                    ...,
                    slice(y * scale, y * scale + patch.shape[-2]),
                    slice(x * scale, x * scale + patch.shape[-1]),
                )
                output[area] += patch * weight
                weights[area] += weight
        return output / weights

    def _save_image(self, image: Any, lq_path: str, current_iter: int) -> None:
        name = os.path.splitext(os.path.basename(lq_path))[0]
        folder = os.path.join(self.folders.images, name)
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(image).save(os.path.join(folder, f"{name}_{current_iter:06d}.png"))
        if not os.path.exists(os.path.join(folder, f"{name}_lr.png")):
            shutil.copy(lq_path, os.path.join(folder, f"{name}_lr.png"))

    def _log_metrics(self, name: str, results: Dict[str, float], current_iter: int) -> None:
        best = self.best.setdefault(name, {})
        text = f"Validation {name}\n"
        for metric, value in results.items():
            if metric not in best or value > best[metric]["val"]:
                best[metric] = {"val": value, "iter": current_iter}
            if self.tb_logger is not None:
                self.tb_logger.add_scalar(f"metrics/{name}/{metric}", value, current_iter)
            text += (
                f"\t # {metric:<5}: {value:7.4f}\tBest: {best[metric]['val']:7.4f} @ {best[metric]['iter']:9,} iter\n"
            )
        self.log.info(text)

    # Saving and resuming

    def save(self, epoch: int, current_iter: int) -> None:
        """-1 is the end: the models as ``latest``, and no state, since there is nothing left to resume."""
        label = "latest" if current_iter == -1 else str(current_iter)
        folder = self.folders.models
        if self.ema is not None:
            self._write(self.ema, os.path.join(folder, f"net_g_ema_{label}.{self.extension}"), "params_ema")
            folder = self.folders.resume_models
        self._write(self.bare, os.path.join(folder, f"net_g_{label}.{self.extension}"), "params")
        if current_iter == -1:
            return
        state = {
            "epoch": epoch,
            "iter": current_iter,
            "optimizers": [self.optimizer.state_dict()],
            "schedulers": [self.scheduler.state_dict()],
        }
        if self.opt.use_amp:
            state["scaler_g"] = self.scaler.state_dict()
        torch.save(state, os.path.join(self.folders.states, f"{current_iter}.state"))

    def resume(self, state: Dict[str, Any]) -> None:
        """The networks of the state's iteration, beside it; then what the state holds."""
        current_iter = state["iter"]
        if self.ema is not None:
            # A recipe may turn the average on in the middle: it then starts from the network itself.
            self._load(self.ema, self._find(["net_g_ema", "net_g"], current_iter), True)
        self._load(self.bare, self._find(["net_g"], current_iter), True)
        self.optimizer.load_state_dict(state["optimizers"][0])
        self.scheduler.load_state_dict(state["schedulers"][0])
        if "scaler_g" in state:
            self.scaler.load_state_dict(state["scaler_g"])

    def _find(self, labels: List[str], current_iter: int) -> str:
        for label in labels:
            for folder in (self.folders.models, self.folders.resume_models):
                found = sorted(glob.glob(os.path.join(glob.escape(folder), f"{label}_{current_iter}.*")))
                if found:
                    suffix = "_ema" if "net_g_ema" in labels else ""
                    print(f"Set pretrain_network_g{suffix} to {found[0]}", flush=True)
                    return found[0]
        expected = os.path.join(self.folders.resume_models, f"{labels[-1]}_{current_iter}.{self.extension}")
        raise FileNotFoundError(f"Unable to resume, pretrain_network_g not found at path: {expected}")

    def _write(self, net: nn.Module, path: str, key: str) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
        if self.extension == "safetensors":
            from safetensors.torch import save_file

            save_file(tensors, path)
        else:
            torch.save({key: tensors}, path)

    def _load(self, net: nn.Module, path: str, strict: bool) -> None:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            tensors = load_file(path)
        else:
            tensors = load_file_on_cpu(path)
            tensors = tensors.get("params_ema", tensors.get("params", tensors))
        net.load_state_dict(tensors, strict=strict)
        self.log.info("Loading %s model from %s.", type(net).__name__, path)


def load_file_on_cpu(path: str) -> Dict[str, Any]:
    # Tensors and plain values only. The restricted reader of torch 1.x fails on a float, so there it is the ordinary one.
    if int(torch.__version__.split(".")[0]) < 2:
        return torch.load(path, map_location="cpu")
    return torch.load(path, map_location="cpu", weights_only=True)


def _label(loss_type: str) -> str:
    return f"l_g_{loss_type.lower().replace('loss', '')}"


def _optimizer(options: Dict[str, Any], net: nn.Module) -> torch.optim.Optimizer:
    kwargs = dict(options)
    kind = str(kwargs.pop("type"))
    if kind.lower() not in OPTIMIZERS:
        raise NotImplementedError(f"optimizer {kind} is not supported yet.")
    return OPTIMIZERS[kind.lower()](net.parameters(), **kwargs)


def _lr_factor(opt: Options) -> Callable[[int], float]:
    """What the learning rate is multiplied by, as a function of the optimizer steps already done."""
    schedule = dict(opt.train.scheduler or {"type": "MultiStepLR", "milestones": []})
    kind = str(schedule.pop("type"))
    if kind.lower() == "multisteplr":
        milestones, gamma = schedule.pop("milestones"), schedule.pop("gamma", 0.1)

        def decayed(done: int) -> float:
            return gamma ** sum(1 for milestone in milestones if done >= milestone)

    elif kind.lower() == "cosineannealinglr":
        period, lowest = schedule.pop("T_max"), schedule.pop("eta_min", 0.0) / opt.train.optim_g["lr"]

        def decayed(done: int) -> float:
            return lowest + (1 - lowest) * (1 + math.cos(math.pi * min(done, period) / period)) / 2

    else:
        raise NotImplementedError(f"Scheduler {kind} is not implemented yet.")
    if schedule:
        raise TypeError(f"{kind} got an unexpected keyword argument '{next(iter(schedule))}'")
    warmup = opt.train.warmup_iter
    return lambda done: decayed(done) * (min(1.0, (done + 1) / warmup) if warmup > 0 else 1.0)


def _scaler(enabled: bool) -> Any:
    # torch 2.3 moved it, and the old place warns.
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda", enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


def _metric(options: Dict[str, Any], image: Any, truth: Any) -> float:
    kwargs = dict(options)
    kind = kwargs.pop("type")
    kwargs.pop("test_y_channel", None)  # RGB only
    if kind != "calculate_psnr":
        raise KeyError(f"No object named '{kind}' found in 'metric' registry!")
    return psnr(image, truth, **kwargs)


def _tile_starts(length: int, tile: int, overlap: int) -> List[int]:
    """Where tiles begin: the last one is moved back so that it ends where the image ends."""
    if length <= tile:
        return [0]
    starts = list(range(0, length - tile, tile - overlap))
    return starts + [length - tile]


def _tent(size: Any, device: torch.device) -> Tensor:
    """Weights of a tile, largest in the middle and never zero, so that their sum can be divided by anywhere."""
    sides = [torch.arange(1, n + 1, device=device) for n in size]
    rows, columns = (torch.minimum(side, side.flip(0)).float() / len(side) for side in sides)
    return rows[:, None] * columns[None, :]
