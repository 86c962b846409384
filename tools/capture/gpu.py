#!/usr/bin/env python3
"""Measures peaks of training steps on an NVIDIA GPU with nothing but PyTorch 2.0 or later. card.py runs it as a part of a card day.

    gpu.py OUT.json [--minutes 60] [--checkout redux=DIR ...] [--trace DIR] [--only TEXT]
    gpu.py OUT.json --device cpu            the same code path without a GPU, with a tracker in place of CUDA's figures
    gpu.py --list                           the grid

The grid is architecture × batch × size × precision × activation checkpointing × optimizer, over small networks of our
own, torchvision's where it is installed, and projects' own classes where checkouts are given. Every row runs in a fresh
process, so that none inherits another's cache. The most valuable rows come first: one network of each kind in both
memory formats, with cudnn.benchmark off and on, in float32 and under autocast; DDP with one rank; a GAN step; a whole
validation. OUT.json is written after each row; started again, the script goes on where it stopped. A row that runs out
of memory is a row: what was asked for, allocated and reserved when it did.

Per row and phase (model, first forward and backward, first optimizer step, second forward and backward, second
optimizer step, validation): peak allocated and reserved by torch's allocator, and what NVML says that this process uses, at the
phase's end. Per row also: the context, as NVML sees it after one allocation of 512 bytes, what cuBLAS takes at its
first product, and what cuDNN takes at its first convolution. cuDNN's benchmark mode is off except in rows that turn it on.

--trace writes, for each row, the requests to the allocator and their ends, in order, with the segments that it asked
the driver for (torch.cuda.memory._record_memory_history), so that a model of the allocator can be replayed against what was
reserved.
"""

import argparse
import contextlib
import ctypes
import datetime
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

SCHEMA = 1
PHASES = ("model", "forward and backward", "optimizer step", "second forward and backward", "second optimizer step", "validation")


# The grid.


def ours():
    """Networks of our own, by name: a function of activation checkpointing."""
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Blocks(nn.Module):
        def __init__(self, head, blocks, tail, recompute):
            super().__init__()
            self.head, self.blocks, self.tail, self.recompute = head, nn.ModuleList(blocks), tail, recompute

        def forward(self, x):
            x = self.head(x)
            for b in self.blocks:
                x = checkpoint(b, x, use_reentrant=False) if self.recompute and self.training else b(x)
            return self.tail(x)

    class Residual(nn.Module):
        def __init__(self, c, norm):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
            self.n1 = nn.BatchNorm2d(c) if norm else nn.Identity()

        def forward(self, x):
            return x + self.c2(torch.relu(self.n1(self.c1(x))))

    class Tokens(nn.Module):
        """Pre-norm transformer block over the pixels of an image, with plain or fused attention."""

        def __init__(self, c, heads, fused):
            super().__init__()
            self.n1, self.n2, self.heads, self.fused = nn.LayerNorm(c), nn.LayerNorm(c), heads, fused
            self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
            self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

        def attend(self, x):
            b, n, c = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            if self.fused:
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            else:
                y = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1) @ v
            return self.proj(y.transpose(1, 2).reshape(b, n, c))

        def forward(self, x):
            b, c, h, w = x.shape
            t = x.flatten(2).transpose(1, 2)
            t = t + self.attend(self.n1(t))
            t = t + self.down(torch.nn.functional.gelu(self.up(self.n2(t))))
            return t.transpose(1, 2).reshape(b, c, h, w)

    def plain(c, n):
        def make(recompute):
            return Blocks(nn.Conv2d(3, c, 3, padding=1), [nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.PReLU(c)) for _ in range(n)],
                          nn.Conv2d(c, 3, 3, padding=1), recompute)
        return make

    def residual(c, n, norm):
        return lambda recompute: Blocks(nn.Conv2d(3, c, 3, padding=1), [Residual(c, norm) for _ in range(n)], nn.Conv2d(c, 3, 3, padding=1), recompute)

    def tokens(c, n, heads, fused):
        return lambda recompute: Blocks(nn.Conv2d(3, c, 4, stride=4), [Tokens(c, heads, fused) for _ in range(n)],
                                        nn.Sequential(nn.Conv2d(c, 48, 1), nn.PixelShuffle(4)), recompute)

    nets = {"plain": plain(64, 16), "residual": residual(64, 16, False), "residual bn": residual(64, 16, True), "attention": tokens(192, 6, 6, False),
            "judge": plain(64, 4)}
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        nets["fused attention"] = tokens(192, 6, 6, True)
    return nets


CLASSIFIERS = ("resnet18", "resnet50", "vit_b_16")
UPSTREAM = {"redux": ("compact", "span", "esrgan", "realplksr", "swinir_s", "hat_s")}


def first(tiny):
    """The most valuable rows. What a row has beside its plain settings stands in it only where it is not the default."""
    batch, size = (2, 32) if tiny else (16, 64)
    images, side = (1, 32) if tiny else (32, 224)

    def row(net, precision, source="ours", **more):
        b, s = (images, 224 if net.startswith("vit") else side) if source == "torchvision" else (batch, size)
        return {"source": source, "net": net, "batch": b, "size": s, "precision": precision, "checkpointing": False, "optimizer": "adamw", **more}

    nhwc, search = {"channels_last": True}, {"benchmark": True}
    rows = [row("plain", "fp32"), row("plain", "bf16", **nhwc), row("plain", "bf16"), row("plain", "bf16", **search), row("plain", "bf16", kind="gan"),
            row("plain", "bf16", kind="validation"), row("plain", "fp32", kind="ddp"), row("fused attention", "bf16"), row("resnet50", "fp16", "torchvision"),
            row("plain", "bf16", **nhwc, **search), row("plain", "fp32", **search), row("plain", "fp32", **nhwc)]
    rows += [row("residual bn", p, **more) for p in ("fp32", "bf16") for more in ({}, nhwc)]
    rows += [row("plain", "bf16", kind=kind, **nhwc) for kind in ("gan", "validation")]
    rows += [row("plain", "fp16", kind="ddp"), row("plain", "fp32", kind="gan"), row("plain", "bf16", kind="validation", **search)]
    rows += [row("attention", "fp32"), row("attention", "bf16"), row("fused attention", "fp32")]
    rows += [row("resnet50", p, "torchvision", **more) for p in ("fp32", "fp16") for more in ({}, nhwc, search)]
    rows += [row("vit_b_16", "fp32", "torchvision"), row("vit_b_16", "fp16", "torchvision")]
    return rows


def grid(checkouts, tiny):
    """Every row: the most valuable first, then cheapest sizes first, so that a budget of minutes covers all architectures before
    it covers all sizes."""
    sizes = ((1, 16), (2, 32)) if tiny else ((4, 64), (16, 64), (4, 128), (16, 128), (32, 128))
    pictures = ((1, 32),) if tiny else ((8, 224), (32, 224), (64, 224))
    names = [("ours", n) for n in ("plain", "residual", "residual bn", "attention", "fused attention")]
    names += [(project, n) for project in checkouts for n in UPSTREAM.get(project, ())]
    rows = []
    for step in range(max(len(sizes), len(pictures))):
        for source, net in [*names, *(("torchvision", n) for n in CLASSIFIERS)]:
            shapes = pictures if source == "torchvision" else sizes
            if step >= len(shapes):
                continue
            batch, size = shapes[step]
            if net == "vit_b_16":
                size = 224
            for precision in ("fp32", "fp16", "bf16"):
                for checkpointing in (False, True) if source == "ours" else (False,):
                    for optimizer in ("adamw", "sgd") if precision == "fp32" and not checkpointing else ("adamw",):
                        rows.append({"source": source, "net": net, "batch": batch, "size": size, "precision": precision,
                                     "checkpointing": checkpointing, "optimizer": optimizer})
    return list({key(r): r for r in [*first(tiny), *rows]}.values())


def key(row):
    return json.dumps(row, sort_keys=True)


# One row, in a process of its own.


class Nvml:
    """What NVML says that a process uses, through the driver's own library; no package is needed."""

    def __init__(self, uuid, index):
        class Process(ctypes.Structure):  # nvmlProcessInfo_v2_t in nvml.h
            _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]

        self.kind, self.lib, self.handle = Process, ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        by = ("nvmlDeviceGetHandleByIndex_v2", (ctypes.c_uint(index), ctypes.byref(self.handle)))
        if uuid:
            by = ("nvmlDeviceGetHandleByUUID", (uuid.encode(), ctypes.byref(self.handle)))
        for call, args in (("nvmlInit_v2", ()), by):
            if code := getattr(self.lib, call)(*args):
                raise OSError(f"{call} returned {code}")

    def used(self):
        """Bytes that this process uses, or None where the driver does not say, as in a container that hides its number."""
        n = ctypes.c_uint(64)
        found = (self.kind * 64)()
        if self.lib.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(n), found):
            return None
        here = {os.getpid()}
        with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8") as f:
            here |= {int(p) for line in f if line.startswith("NSpid:") for p in line.split()[1:]}
        mine = [p.used for p in found[: n.value] if p.pid in here]
        if not mine and n.value == 1:  # one process on the card, under the host's number for it
            mine = [found[0].used]
        return mine[0] if mine and mine[0] != 2**64 - 1 else None

    def driver(self):
        text = ctypes.create_string_buffer(96)
        self.lib.nvmlSystemGetDriverVersion(text, 96)
        return text.value.decode()


class Card:
    """CUDA's own figures."""

    def __init__(self):
        import torch

        self.torch = torch
        torch.cuda.init()
        props = torch.cuda.get_device_properties(0)
        self.nvml, uuid = None, str(getattr(props, "uuid", ""))  # torch says it since 2.4
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        if first.startswith("GPU-"):
            uuid = first
        with contextlib.suppress(OSError, AttributeError):
            self.nvml = Nvml("GPU-" + uuid.removeprefix("GPU-") if uuid else "", int(first) if first.isdigit() else 0)
        self.facts = {"device": props.name, "total": props.total_memory, "capability": f"{props.major}.{props.minor}",
                      "driver": self.nvml.driver() if self.nvml else "", "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}

    def used(self):
        self.torch.cuda.synchronize()
        return self.nvml.used() if self.nvml else None

    def reset(self):
        self.torch.cuda.synchronize()
        self.torch.cuda.reset_peak_memory_stats()

    def figures(self):
        c = self.torch.cuda
        c.synchronize()
        stats = c.memory_stats()
        return {"allocated": c.max_memory_allocated(), "reserved": c.max_memory_reserved(), "requested": stats.get("requested_bytes.all.peak"),
                "allocated_now": c.memory_allocated(), "reserved_now": c.memory_reserved(), "retries": stats.get("num_alloc_retries"), "used": self.used()}

    def tracking(self):
        return contextlib.nullcontext()

    def overheads(self):
        """The context, and what the two libraries take beside what their operation asks the allocator for."""
        torch, out = self.torch, {}
        keep = torch.empty(128, device="cuda")
        out["context"] = self.minus_reserved()
        a = torch.ones(64, 64, device="cuda")
        before = torch.cuda.memory_allocated()
        _ = a @ a
        out["cublas"], out["cublas_allocated"] = self.minus_reserved(), torch.cuda.memory_allocated() - before
        conv = torch.nn.Conv2d(3, 8, 3, padding=1).cuda()
        conv(torch.ones(1, 3, 32, 32, device="cuda")).sum().backward()
        out["cudnn"] = self.minus_reserved()
        del keep, a, conv
        gc.collect()
        torch.cuda.empty_cache()
        return out

    def minus_reserved(self):
        used = self.used()
        return None if used is None else used - self.torch.cuda.memory_reserved()


class Host:
    """The tracker of live bytes in place of a card: no reserved, no used."""

    def __init__(self):
        import torch

        import measure

        self.torch, self.live = torch, measure.Live(set(), "cpu")
        self.facts = {"device": "cpu", "total": 0, "driver": "", "cuda": None, "cudnn": None}

    def reset(self):
        self.live.peak = self.live.now

    def figures(self):
        return {"allocated": self.live.peak, "reserved": None, "requested": None, "allocated_now": self.live.now, "reserved_now": None,
                "retries": None, "used": None}

    @contextlib.contextmanager
    def tracking(self):
        def pack(t):
            self.live.track(t, "saved")
            return t

        with self.live, self.torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            yield

    def overheads(self):
        return {}


class Missing(Exception):
    """What this installation does not have, so that the row is skipped."""


def build(row, checkouts):
    """The network, and whether it classifies."""
    if row["source"] == "ours":
        nets = ours()
        if row["net"] not in nets:
            raise Missing("this torch has no scaled_dot_product_attention")
        return nets[row["net"]](row["checkpointing"]), False
    if row["source"] == "torchvision":
        try:
            torchvision = importlib.import_module("torchvision")
        except ImportError as e:
            raise Missing(f"no torchvision: {e}") from e
        return getattr(torchvision.models, row["net"])(), True
    import capture

    return capture.find(checkouts[row["source"]], row["net"])(scale=4), False


def facts(meter):
    return {**meter.facts, "torch": str(meter.torch.__version__), "date": datetime.date.today().isoformat()}


def measure_row(row, device, checkouts, trace):
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = row.get("benchmark", False)
    out = {"row": row, "phases": {}}
    if device == "cuda" and row["precision"] == "bf16" and not torch.cuda.is_bf16_supported():
        return {**out, "skipped": "no bfloat16 on this device"}
    meter = Card() if device == "cuda" else Host()
    out["facts"] = facts(meter)
    out["overheads"] = meter.overheads()
    if trace and device == "cuda":
        try:
            torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
        except TypeError:  # 2.0
            torch.cuda.memory._record_memory_history(True, record_context=False, trace_alloc_max_entries=1_000_000)
    phase = "model"
    try:
        with meter.tracking():
            for phase in run(row, device, checkouts, meter):
                out["phases"][phase] = meter.figures()
                meter.reset()
    except Missing as e:
        return {**out, "skipped": str(e)}
    except RuntimeError as e:  # torch.cuda.OutOfMemoryError is one
        if "out of memory" not in str(e) and "allocate memory" not in str(e):
            raise
        done = list(out["phases"])
        out["oom"] = {"phase": PHASES[len(done)], "message": str(e).split("\n")[0], **sizes(str(e)), **(meter.figures() if device == "cuda" else {})}
    if trace and device == "cuda":
        out["trace"] = os.path.basename(trace)
        write_trace(torch, trace)
    return out


def sizes(message):
    """The figures of PyTorch's message, in bytes."""
    units = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    found = {}
    for name, pattern in (("wanted", r"Tried to allocate ([\d.]+) (\w+)"), ("pytorch_allocated", r"([\d.]+) (\w+) (?:is|already) allocated"),
                          ("unallocated", r"([\d.]+) (\w+) is reserved by PyTorch but unallocated"), ("free", r"([\d.]+) (\w+) (?:is )?free")):
        if m := re.search(pattern, message):
            found[name] = int(float(m[1]) * units.get(m[2], 1))
    return found


class Job:
    """What a row trains: its network, optimizer and autocast."""

    def __init__(self, row, device, checkouts):
        import torch

        self.torch, self.row, self.device = torch, row, device
        self.net, self.classes = build(row, checkouts)
        self.format = torch.channels_last if row.get("channels_last") else torch.contiguous_format
        self.net = self.net.to(device, memory_format=self.format).train()
        self.plain = self.net
        if row.get("kind") == "ddp":
            self.net = alone(torch, self.net, device)
        self.judge = None
        if row.get("kind") == "gan":
            self.judge = ours()["judge"](False).to(device, memory_format=self.format).train()
            self.judging = self.optimizer(self.judge)
        self.opt = self.optimizer(self.net)
        self.low = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(row["precision"])
        on = self.low is torch.float16 and device == "cuda"
        self.scaler = torch.amp.GradScaler("cuda", enabled=on) if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=on)
        if device == "cpu" and self.low is torch.float16:
            self.low = torch.bfloat16  # the host's autocast knew no other before 2.1

    def optimizer(self, net):
        group = {"foreach": True} if self.device == "cuda" else {}
        if self.row["optimizer"] == "sgd":
            return self.torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, **group)
        return self.torch.optim.AdamW(net.parameters(), 1e-4, **group)

    def autocast(self):
        return self.torch.autocast(self.device, dtype=self.low) if self.low else contextlib.nullcontext()

    def images(self, batch, height, width):
        return self.torch.rand(batch, 3, height, width, device=self.device).contiguous(memory_format=self.format)

    def step(self):
        """One step, which yields after the backward passes and after the optimizers."""
        torch, f, size = self.torch, self.torch.nn.functional, self.row["size"]
        x = self.images(self.row["batch"], size, size)
        with self.autocast():
            y = self.net(x)
            if self.classes:
                loss = f.cross_entropy(y, torch.zeros(self.row["batch"], dtype=torch.long, device=self.device))
            elif self.judge is None:
                loss = f.l1_loss(y, torch.rand_like(y))
            else:
                real = torch.rand_like(y)
                self.judge.requires_grad_(False)
                loss = f.l1_loss(y, real) + self.verdict(y, 1)
        self.scaler.scale(loss).backward()
        if self.judge is not None:
            self.judge.requires_grad_(True)
            with self.autocast():
                loss = self.verdict(real, 1) + self.verdict(y.detach(), 0)
            self.scaler.scale(loss).backward()
            del real
        del x, y, loss
        yield
        for opt in [self.opt] + ([self.judging] if self.judge is not None else []):
            self.scaler.step(opt)
            opt.zero_grad(set_to_none=True)
        self.scaler.update()
        yield

    def verdict(self, image, is_real):
        said = self.judge(image)
        return self.torch.nn.functional.binary_cross_entropy_with_logits(said, self.torch.full_like(said, is_real))

    def shapes(self):
        """The images of the validation: one, or, of a whole validation, three of different sizes, the largest in the middle."""
        side = self.row["size"] if self.classes else 2 * self.row["size"]
        if self.row.get("kind") == "validation":
            return (side, side), (2 * side, 2 * side), (side, 2 * side)
        return ((side, side),)

    def validate(self):
        self.plain.eval()
        results = []
        for height, width in self.shapes():
            with self.torch.no_grad(), self.autocast():
                results.append(self.plain(self.images(1, height, width)).cpu())


def alone(torch, net, device):
    """The network under DistributedDataParallel with one rank."""
    import tempfile

    backend = "nccl" if device == "cuda" else "gloo"
    store = os.path.join(tempfile.mkdtemp(), "store")
    torch.distributed.init_process_group(backend, init_method="file://" + store, rank=0, world_size=1)
    return torch.nn.parallel.DistributedDataParallel(net, device_ids=[0] if device == "cuda" else None)


def run(row, device, checkouts, meter):
    """The row's training, which yields the name of each phase as it ends."""
    meter.reset()
    job = Job(row, device, checkouts)
    yield "model"
    for names in (PHASES[1:3], PHASES[3:5]):
        for name, _ in zip(names, job.step()):
            yield name
    job.validate()
    yield "validation"


def write_trace(torch, path):
    """Requests, frees and segments in order, one a line: what happened, its address and its bytes."""
    shot = torch.cuda.memory._snapshot()
    with open(path, "w", encoding="utf-8") as f:
        for e in (e for trace in shot["device_traces"] for e in trace):
            f.write(f"{e['action']} {e.get('addr', 0)} {e['size']}\n")


# The whole grid, one process after another.


def save(path, book):
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as f:
        json.dump(book, f, indent=1)
        f.write("\n")
    os.replace(part, path)


def opened(path, device):
    """The rows that were measured so far. One with an error is tried again; one that ran out of memory, or was skipped, is done."""
    book = {"schema": SCHEMA, "device": device, "rows": []}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            book = json.load(f)
        if book["device"] != device:
            raise ValueError(f"{path} is of the device {book['device']}: write to another file")
    book["rows"] = [r for r in book["rows"] if "error" not in r]
    return book


def note(got):
    """A measured row in a few words."""
    peak = max((f["allocated"] for f in got.get("phases", {}).values()), default=0)
    return got.get("error") or got.get("skipped") or (got["oom"]["message"] if "oom" in got else f"{peak / 2**20:.1f} MiB allocated")


def child(a, row):
    command = [sys.executable, os.path.abspath(__file__), "--row", key(row), "--device", a.device]
    for c in a.checkout:
        command += ["--checkout", c]
    if a.trace:
        command += ["--trace", os.path.join(a.trace, re.sub(r"\W+", "-", key(row)).strip("-") + ".txt")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=a.row_timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"row": row, "error": f"took longer than {a.row_timeout} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    return {"row": row, "error": f"exit {done.returncode}: " + " ".join(done.stderr.strip().splitlines()[-1:])[:300]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", nargs="?")
    p.add_argument("--minutes", type=float, default=60, help="stop before a row would begin after so long (60)")
    p.add_argument("--row-timeout", type=float, default=300, help="seconds for one row (300)")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--checkout", action="append", default=[], help="redux=DIR: a project's own classes too")
    p.add_argument("--trace", help="a folder for the allocator's requests, one file a row")
    p.add_argument("--only", default="", help="rows that contain this text")
    p.add_argument("--tiny", action="store_true", help="small sizes, for a test of the script itself (always so on the CPU)")
    p.add_argument("--list", action="store_true", help="print the grid and measure nothing")
    p.add_argument("--row", help=argparse.SUPPRESS)
    p.add_argument("--facts", action="store_true", help="print the device, the driver, torch and the date, and measure nothing")
    a = p.parse_args()
    checkouts = dict(c.split("=", 1) for c in a.checkout)
    if a.facts:
        print(json.dumps(facts(Card() if a.device == "cuda" else Host())))
        return
    if a.row:
        print(json.dumps(measure_row(json.loads(a.row), a.device, checkouts, a.trace)))
        return
    rows = [r for r in grid(checkouts, a.tiny or a.device == "cpu") if a.only in key(r)]
    if a.list:
        for r in rows:
            print(key(r))
        return
    if not a.out:
        p.error("say where to write, such as: gpu.py gpu.json")
    if a.device == "cuda":  # asked once, in a process of its own: this one must hold nothing of the card
        seen = subprocess.run([sys.executable, "-c", "import torch; raise SystemExit(0 if torch.cuda.is_available() else 3)"], check=False)
        if seen.returncode:
            p.error("torch sees no CUDA device here, so there is nothing to measure; --device cpu only tries the script itself")
    if a.trace:
        os.makedirs(a.trace, exist_ok=True)
    try:
        book = opened(a.out, a.device)
    except ValueError as e:
        p.error(str(e))
    done = {key(r["row"]) for r in book["rows"]}
    end = time.monotonic() + 60 * a.minutes
    left = [r for r in rows if key(r) not in done]
    for i, row in enumerate(left):
        if time.monotonic() > end:
            print(f"{len(left) - i} of {len(rows)} rows are left: run the same command again", file=sys.stderr)
            break
        got = child(a, row)
        book["rows"].append(got)
        book["left"] = len(left) - i - 1
        save(a.out, book)
        print(f"{i + 1}/{len(left)} {key(row)}: {note(got)}", file=sys.stderr)
    if any("error" in r for r in book["rows"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
