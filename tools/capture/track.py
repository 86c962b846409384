"""The live bytes of a whole training step: every storage of one device from its first tensor to its end.

Where measure.py follows tensors and leaves the model out, this follows storages and counts all: parameters, buffers,
gradients, optimizer states, the batch, copies, what the graph holds. A storage is followed by a weak reference to its
Python object, which PyTorch keeps one of for each StorageImpl from 2.1 on (torch/csrc/StorageMethods.cpp,
THPStorage_tryPreserve), so that what only C++ holds is seen, and `p.data = …` too.
"""

import contextlib
import gc
import weakref

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import measure

LOW = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": None}


READ = torch.ops.aten._local_scalar_dense.default


class Storages(TorchDispatchMode):
    """Live bytes by storage, their peak since the last reset, and the moment of it."""

    def __init__(self, device="meta"):
        super().__init__()
        self.device, self.live, self.now, self.peak, self.moment, self.phase = device, {}, 0, 0, "", "model"
        self.held = {}  # bytes by the phase in which a storage was made
        self.at_peak = {}

    def add(self, t, op=""):
        if t.device.type != self.device:
            return
        s = t.untyped_storage()
        k, n = s._cdata, s.nbytes()
        if n == 0 or k in self.live:
            return
        phase = self.phase
        self.live[k] = (n, phase, weakref.ref(s, lambda _: self.drop(k)))
        self.now += n
        self.held[phase] = self.held.get(phase, 0) + n
        if self.now > self.peak:
            self.peak, self.moment, self.at_peak = self.now, f"{self.phase}: {op}", dict(self.held)

    def drop(self, k):
        n, phase, _ = self.live.pop(k)
        self.now -= n
        self.held[phase] -= n

    def reset(self):
        self.peak, self.moment, self.at_peak = self.now, "", dict(self.held)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is READ and args[0].is_meta:  # Python reads a number, of which a meta tensor has none
            return {torch.bool: False}.get(args[0].dtype, 0.0 if args[0].is_floating_point() else 0)
        out = func(*args, **(kwargs or {}))
        stack = [out]
        while stack:
            o = stack.pop()
            if isinstance(o, torch.Tensor):
                self.add(o, str(func))
            elif isinstance(o, (list, tuple)):
                stack.extend(o)
        return out


class Kept:
    """What a saved tensor is packed as: its storage, for as long as the graph holds it."""

    def __init__(self, t):
        self.t = t.detach()


class Recorder:
    """Runs a training loop step by step. The loop says where it is:

    for i in rec.steps(n):
        rec.at("batch"); ...
        rec.at("forward"); ...
        rec.at("backward"); loss.backward()
        rec.at("optimizer"); optimizer.step()
    """

    def __init__(self, device="meta"):
        self.live, self.peaks, self.saved, self.forward = Storages(device), [], 0, 0
        self.last, self.hooks, self.kept, self.before = False, None, [], 0

    def roots(self, *modules):
        """Enters what is there before the first step."""
        for m in modules:
            for t in [*m.parameters(), *m.buffers()] if isinstance(m, torch.nn.Module) else [m]:
                self.live.add(t)

    def steps(self, n):
        gc.collect()
        gc.disable()
        try:
            with self.live:
                for i in range(n):
                    self.last, self.before = i == n - 1, 0
                    self.live.reset()
                    yield i
                    self.peaks.append((self.live.peak, self.live.moment, {k: v for k, v in self.live.at_peak.items() if v}))
        finally:
            gc.enable()

    def at(self, phase):
        if phase == "forward" and self.last and self.hooks is None:
            self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda kept: kept.t)
            self.hooks.__enter__()
        if phase == "backward" and self.last and self.hooks:
            self.hooks.__exit__(None, None, None)
            self.hooks = False
            self.saved, self.forward = self.held_by_graph(), self.live.peak
        self.live.phase = phase

    def pack(self, t):
        kept = Kept(t)
        self.kept.append(weakref.ref(kept))
        return kept

    def held_by_graph(self):
        """Bytes of storages that the graph holds, without the model and the batch."""
        seen = {}
        for ref in self.kept:
            kept = ref()
            if kept is None or kept.t.device.type != self.live.device:
                continue
            s = kept.t.untyped_storage()
            n, phase, _ = self.live.live.get(s._cdata, (s.nbytes(), "", None))
            if phase not in ("model", "batch"):
                seen[s._cdata] = n
        return sum(seen.values())


@contextlib.contextmanager
def autocast(precision):
    """torch.autocast("cuda") by its lists, with its cache of weight copies, which ends with the region."""
    if LOW[precision] is None:
        yield
        return
    mode = measure.CudaAutocast(LOW[precision])
    with mode:
        measure.ACTIVE.append(mode)
        try:
            yield
        finally:
            measure.ACTIVE.pop()
            mode.cache.clear()


def dropout(x, p=0.5, training=True, inplace=False):
    """F.dropout as CUDA computes it: one kernel, which saves a mask of a byte an element (native_dropout)."""
    return torch.native_dropout(x, p, True)[0] if training and p > 0 else x


def as_cuda(precision="fp32"):
    """Makes the Python side behave as on CUDA: fused attention, fused dropout, autocast that sees into the functions of
    torch.nn.functional, .cuda() to the device at hand; and lets a constructor on the meta device read a number, as timm's do."""
    measure.patch_attention()
    measure.patch_checkpoint()
    F.dropout = dropout
    measure.FULL |= {"cross_entropy_loss", "nll_loss_nd", "cosine_embedding_loss"}
    measure.PROMOTE |= {"grid_sampler"}
    for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
        setattr(F, name, lambda *_: False)
    item = torch.Tensor.item
    torch.Tensor.item = lambda t: 0.0 if t.is_meta else item(t)
    torch.Tensor.cuda = lambda t, *_, **__: t.to("meta")


def fake_sum(model, forward, states):
    """What FakeTensor's users add up: parameters and buffers, gradients, optimizer states, and the outputs of all
    modules without children, of one forward under FakeTensorMode (torch/_subclasses/fake_tensor.py)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    outputs, handles = [0], []

    def hook(_m, _args, out):
        stack = [out]
        while stack:
            o = stack.pop()
            if isinstance(o, torch.Tensor):
                outputs[0] += o.numel() * o.element_size()
            elif isinstance(o, (list, tuple)):
                stack.extend(o)
            elif isinstance(o, dict):
                stack.extend(o.values())

    with FakeTensorMode(allow_non_fake_inputs=True):
        net = model()
        for m in net.modules():
            if not list(m.children()):
                handles.append(m.register_forward_hook(hook))
        forward(net)
    params = sum(p.numel() * p.element_size() for p in net.parameters())
    wanted = sum(p.numel() * p.element_size() for p in net.parameters() if p.requires_grad)
    buffers = sum(b.numel() * b.element_size() for b in net.buffers())
    return params + buffers + wanted * (1 + states) + outputs[0]
