"""Runs a training script with tensors that are not there, and reports what its card would have held.

launch starts this file in the command's own Python, in a jail that no write, connection or process leaves. It reads a
request from standard input (JSON: see Request in trace.go) and writes events to file descriptor 3, a line each:

    A ID BYTES      a storage on the card is allocated; its kind is told when it is known
    F ID            it is freed
    K ID KIND       its kind: parameter, gradient, state (of an optimizer), buffer, workspace (of a kernel, a guess)
    M batch N S L   the data loader L gives its next batch, of N samples, -1: not known; batches are counted from 1, and
                    those of one S have the same shapes
    M forward G T N B… the outermost module is called; G: with gradients, T: in training mode, N: the first size of its
                    first tensor, -1: not known; B…: the batches that its tensors are made of
    M backward      a backward pass begins
    M step O        the optimizer of this number has stepped
    M norm          a batch normalisation in training mode is called, told once
    U REASON        what the phase needs is not known
    R PATH          the script reads a file, or lists a folder (a JSON text, told once): an answer depends on it
    Z               the script begins anew: nothing of the lines before counts
    E JSON          the versions, and later the end: why

A tensor that is made on the card, or moved there, is fake: it has a shape, a type and a storage's size, and no values.
What a program computes on the CPU stays real. A value that a program asks of a fake tensor is 1, unless it is known
(values.py).
"""
import ast
import builtins
import collections.abc
import contextlib
import ctypes
import functools
import gc
import importlib.abc
import importlib.machinery
import itertools
import json
import os
import runpy
import sys
import sysconfig
import threading
import time
import traceback
import weakref
import zipfile

from launch_kernels import kernels, scratch
from launch_values import Known, Loops, Moments, Rounds, wrapped

OURS = {__file__, sys.modules["launch_values"].__file__, sys.modules["launch_kernels"].__file__}
REQUEST = json.load(sys.stdin)
OUT = os.fdopen(3, "w", buffering=1 << 16)
STEPS, BATCHES = REQUEST.get("steps", 3), REQUEST.get("batches", 2)
DRAWN = 4  # steps of a diffusion that are made to draw a sample, at the least
WAIT = 8  # as many times are steps waited for of an optimizer that has not stepped yet


def emit(line):
    OUT.write(line + "\n")


def unknown(reason):
    """Tells once that what the phase needs is not known."""
    if TRACE.unknown != reason:
        TRACE.unknown = reason
        emit("U " + reason.replace("\n", " ")[:400])


class Enough(BaseException):
    """Ends the script: all that was asked for has been seen. No `except Exception` of the script's catches it."""


class NotFollowed(BaseException):
    """Ends the script: it does what no trace of one rank without values shows."""


def finish(why, **more):
    """Reports the end and leaves at once: no atexit handler, thread or finalizer of the script runs."""
    found = versions()
    if TRACE:
        TRACE.modules()
        TRACE.loops.ended()
    emit("E " + json.dumps({"why": why, "failed": found["steps"] == 0, **found, **more}))
    OUT.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def versions():
    found = {"python": "%d.%d.%d" % sys.version_info[:3], "steps": TRACE.steps if TRACE else 0,
             "waiting": TRACE.waiting if TRACE else 0}
    if "torch" in sys.modules:
        import torch
        found.update(torch=torch.__version__, cuda=torch.version.cuda or "")
    return found


TRACE = None


def follow_reading():
    """Tells which files and folders are read, but for those of Python and of installed packages. What a library opens
    by itself, in C, is not seen."""
    own = ["/dev", "/proc", "/sys"] + [sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")]
    own += [p for p in sys.path if p.endswith(("-packages", ".zip", "lib-dynload"))]
    own, told = tuple(p + os.sep for p in own), set()

    def tell(path):
        path = os.path.abspath(os.fsdecode(path))
        if path not in told and not path.startswith(own) and not path.endswith(".pyc"):
            told.add(path)
            emit("R " + json.dumps(path))

    def hook(event, args):
        if event == "open" and isinstance(args[0], (str, bytes)) and not args[2] & (os.O_WRONLY | os.O_TRUNC):
            tell(args[0])
        elif event in ("os.listdir", "os.scandir") and not isinstance(args[0], int):
            tell(args[0] or ".")

    sys.addaudithook(hook)

    def modules():  # of a module, only what was compiled of its source may have been opened
        for m in list(sys.modules.values()):
            path = getattr(m, "__dict__", {}).get("__file__")
            if isinstance(path, str):
                tell(path)

    return modules


# ---- what is asked of torch before it can be imported --------------------------------------------------------------

def load_torch():
    """Imports torch without a driver: see nocard.c. Returns the library that answers for the driver."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["PYTORCH_JIT"] = "0"  # torch.jit.script and trace give back what they are given, as torch.compile does
    nocard = ctypes.CDLL(REQUEST["nocard"], ctypes.RTLD_GLOBAL)
    try:
        import torch
    except ImportError as e:
        finish("torch cannot be imported: %s" % e, failed=True)
    major, minor = (int(x) for x in torch.__version__.split(".")[:2])
    if (major, minor) < (2, 1):
        finish("torch %s is older than 2.1, and has no tensors that can be traced" % torch.__version__, failed=True)
    if not torch.version.cuda:
        finish("torch %s is built without CUDA, and cannot make a card's tensors" % torch.__version__, failed=True)
    return torch, nocard


# ---- the storages on the card ---------------------------------------------------------------------------------------

class Trace:
    """The events of one run. It numbers storages in the order in which they are made."""

    def __init__(self, torch):
        self.torch = torch
        self.seen = weakref.WeakKeyDictionary()  # storage -> number
        self.kinds = {}                          # number -> kind, as told
        self.made = self.live = self.peak = 0
        self.optimizers = weakref.WeakSet()
        self.numbers = weakref.WeakKeyDictionary()  # of each optimizer that has stepped, from 1
        self.stepped, self.waiting = {}, 0          # number -> how often; how many have not stepped yet
        self.since = Batches(0)
        self.batches, self.shapes = [], {}  # of each batch that was given: its iterator; shapes -> their number
        self.known, self.loops, self.unknown = None, Loops(unknown, OURS), ""
        self.validated, self.rounds, self.moments = 0, Rounds(self), Moments(self)
        self.depth = self.backwards = 0  # of calls of modules, and of backward passes, that are going on
        self.normed = self.compiled = self.learned = False  # learned: a backward pass came after the last step
        self.assumed = set()  # operators whose results have a shape that depends on values

    @property
    def steps(self):
        """How often every optimizer has stepped that has stepped at all: a GAN has two."""
        return min(self.stepped.values(), default=0)

    def step(self, optimizer):
        number = self.numbers.setdefault(optimizer, len(self.stepped) + 1)
        self.stepped[number] = self.stepped.get(number, 0) + 1
        self.waiting = sum(o not in self.numbers and any(  # their states are still to come
            p.requires_grad and p.device.type == "cuda" for g in o.param_groups for p in g["params"])
            for o in list(self.optimizers))
        emit("M step %d" % number)
        self.loops.mark()

    def tensor(self, t):
        """Notes the storage of a tensor, the first time that it is seen."""
        if (getattr(t, "fake_device", None) or t.device).type != "cuda":  # the latter would dispatch
            return None
        try:
            s = t.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a wrapper of other tensors, which are seen themselves
            return None
        number, _ = self.seen.get(s, (None, None))
        return self.made_of(s) if number is None else number

    def made_of(self, s):
        """The number of a storage that is new, or has a new size."""
        self.made += 1
        number, size = self.made, s.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        emit("A %d %d" % (number, size))
        end = weakref.finalize(s, self.freed, number, size)
        end.atexit = False
        self.seen[s] = number, end
        return number

    def resized(self, s):
        """Fully sharded parameters give back their memory by giving their storage no size."""
        number, end = self.seen.get(s, (None, None))
        if number is not None:
            kind = self.kinds.get(number)
            end()
            now = self.made_of(s)
            if kind:
                self.kinds[now] = kind
                emit("K %d %s" % (now, kind))

    def freed(self, number, size):
        self.live -= size
        self.kinds.pop(number, None)
        emit("F %d" % number)

    def kind(self, t, kind):
        if isinstance(t, self.torch.Tensor) and t.device.type == "cuda":
            number = self.tensor(t)
            if number is not None and self.kinds.get(number) != kind:
                self.kinds[number] = kind
                emit("K %d %s" % (number, kind))


class Batches:
    """What has happened since a data loader began to give batches. It may read ahead: only a forward pass shows what is
    used, by its tensors. A loader that reads AHEAD batches, or for so many seconds, before any forward is taken for one
    that looks at the data set."""
    AHEAD, SECONDS = 64, 8

    def __init__(self, steps, loader=0):
        self.loader = loader
        self.given = self.backwards = self.forwards = 0
        self.used, self.learned = set(), False  # learned: forwards in training mode, with gradients
        self.shapes = set()
        self.begun, self.since = steps, time.process_time()

    def ends(self, steps):
        """Whether enough was read."""
        if self.backwards:
            return steps - self.begun >= (WAIT if TRACE.waiting else 1) * STEPS
        if self.learned or not self.forwards:
            return self.late()
        if len(self.shapes) > 1:  # a larger one may still come
            return self.late()
        return len(self.used) >= BATCHES or not self.used and self.given >= BATCHES

    def late(self):
        return self.given >= self.AHEAD or time.process_time() - self.since > self.SECONDS and self.given >= BATCHES


def tensors(value):
    """Every tensor in what a loader gives or a module is called with."""
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, collections.abc.Mapping):
        for v in value.values():
            yield from tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        for v in vars(value).values():
            if hasattr(v, "untyped_storage"):
                yield v


def batches_of(value):
    """The numbers of the batches that tensors are made of."""
    return set().union(*(t.__dict__.get("launch_batches", ()) for t in tensors(value)))


def counting(torch):
    """The mode that makes what is on the card fake, and notes it."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode)
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    FakeTensorMode.avoid_device_init = property(lambda mode: True)
    FakeTensorMode.__deepcopy__ = lambda mode, memo: mode  # of another mode's tensor each view would be a copy
    # what has no shapes is named: torch would run it on a card instead
    fake = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
    device_of = torch.ops.prim.device.default
    largest, beside, alone = largest_shapes(torch), scratch(torch), threading.RLock()
    TRACE.known = known = Known(torch, FakeTensor)

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func is device_of and isinstance(args[0], FakeTensor):  # every t.device: a third of all calls
                return args[0].fake_device
            fakes = any(issubclass(t, FakeTensor) for t in types)  # those of tensors in lists are among them
            if torch.is_inference_mode_enabled() and not fakes:  # there, to() is not yet in its parts
                with self:
                    out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            if fakes or any(isinstance(x, torch.device) and x.type == "cuda" for x in (*args, *kwargs.values())):
                if kwargs.get("generator") is not None:  # nothing is drawn
                    kwargs = {**kwargs, "generator": None}
                try:
                    with alone:
                        out = fake.__torch_dispatch__(func, types, args, kwargs)
                except (DataDependentOutputException, DynamicOutputShapeException):
                    if func is torch.ops.aten._pack_padded_sequence.default:
                        return packed(torch, *args)
                    there = known.compute(func, args, kwargs)
                    if there is not None and not isinstance(there, (torch.Tensor, tuple, list)):
                        return there  # a number
                    shape = largest.get(func) or largest.get(func._schema.name)
                    if not shape:
                        raise
                    TRACE.assumed.add(str(func.overloadpacket))
                    with alone, fake:
                        out = shape(*args, **kwargs)
            else:
                out = func(*args, **kwargs)
            made = [out] if isinstance(out, torch.Tensor) else [
                x for x in pytree.tree_leaves(out) if isinstance(x, torch.Tensor)] if isinstance(out, (list, tuple, dict)) else ()
            for x in made:
                TRACE.tensor(x)
            if fakes and func in beside:
                with alone, fake:
                    TRACE.tensor(beside[func](*args, **kwargs))
            if made and isinstance(made[0], FakeTensor) or func._schema.is_mutable:
                known.follow(func, args, kwargs, made)
            if TRACE.learned and made and func._schema.is_mutable and not TRACE.optimizers:
                by_hand(torch, made[0])
            if TRACE.batches and not TRACE.depth and not TRACE.backwards and not func._schema.is_mutable:
                used = batches_of((args, kwargs))  # a batch on its way to a module
                for x in made if used else ():
                    x.launch_batches = used
            return out

    return Counting(), FakeTensor


def by_hand(torch, t):
    """Where a script has no optimizer: its step begins with the first parameter that changes after a backward pass."""
    if not TRACE.backwards and TRACE.kinds.get(TRACE.tensor(t)) == "parameter":
        TRACE.learned = False
        TRACE.step(TRACE)
        enough(torch)


def packed(torch, padded, lengths, first):
    """Packs sequences by their lengths, which are on the CPU."""
    lengths = torch.as_tensor(lengths.tolist())
    sizes = torch.stack([(lengths > i).sum() for i in range(int(lengths.max()))])
    data = padded.new_empty((int(lengths.sum()), *padded.shape[2:]))
    TRACE.tensor(data)
    return data, sizes


def largest_shapes(torch):
    """What has a shape that depends on values is taken as large as it can be: every element is chosen, all are unique."""
    aten = torch.ops.aten

    def numbers(t, *shape):
        return t.new_empty(shape, dtype=torch.int64)

    def nonzero(t):
        return numbers(t, t.numel(), t.dim())

    def index(t, indices):
        chosen = []
        for i in indices:
            if i is not None and i.dtype in (torch.bool, torch.uint8):
                chosen += [numbers(i, i.numel())] * i.dim()
            else:
                chosen.append(i)
        return aten.index.Tensor(t, chosen)

    def masked_select(t, mask):
        return t.new_empty(torch.broadcast_shapes(t.shape, mask.shape).numel())

    def unique(t, *a, **k):
        return t.new_empty(t.numel()), numbers(t, *t.shape), numbers(t, t.numel())

    def unique_of_dim(t, dim, *a, **k):
        return torch.empty_like(t), numbers(t, t.shape[dim]), numbers(t, t.shape[dim])

    def repeat_interleave(repeats, output_size=None):
        return numbers(repeats, repeats.numel() if output_size is None else output_size)

    def bincount(t, weights=None, minlength=0):
        dtype = torch.int64 if weights is None else torch.float64
        return t.new_empty(max(2, minlength), dtype=dtype)  # values are 1

    def nms(boxes, scores, threshold):
        return numbers(boxes, boxes.shape[0])

    return {"torchvision::nms": nms, aten.nonzero.default: nonzero, aten.index.Tensor: index, aten.masked_select.default: masked_select,
            aten._unique2.default: unique, aten.unique_dim.default: unique_of_dim,
            aten.unique_consecutive.default: unique, aten.repeat_interleave.Tensor: repeat_interleave,
            aten.bincount.default: bincount, aten.equal.default: lambda a, b: True,
            aten._local_scalar_dense.default: lambda t: False if t.dtype == torch.bool else 1}


# ---- a card that is not there ---------------------------------------------------------------------------------------

def answer_for_card(torch):
    """Makes torch.cuda answer for the card that the plan is for."""
    card, cuda = REQUEST["card"], torch.cuda
    major, minor = card["capability"]

    class Properties:
        name, total_memory = card["name"], card["memory"]
        multi_processor_count = card.get("processors", 80)
        warp_size, max_threads_per_multi_processor, regs_per_multiprocessor = 32, 1536, 65536
        gcnArchName, is_integrated, is_multi_gpu_board, L2_cache_size = "", False, False, 6 << 20
        shared_memory_per_block, shared_memory_per_block_optin = 49152, 101376
        shared_memory_per_multiprocessor, max_threads_per_block, clock_rate = 102400, 1024, 1700000

    Properties.major, Properties.minor = major, minor
    memory = lambda *a, **k: TRACE.live
    peak = lambda *a, **k: TRACE.peak
    nothing = lambda *a, **k: None
    # what torch itself made of the card's name and number is left
    answers = dict(
        is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0, is_initialized=lambda: True,
        get_device_properties=lambda *a, **k: Properties(), get_device_capability=lambda *a, **k: (major, minor),
        get_device_name=lambda *a, **k: card["name"], get_arch_list=lambda: ["sm_%d%d" % (major, minor)],
        is_bf16_supported=lambda *a, **k: major >= 8 or bool(k.get("including_emulation", bool(not a or a[0]))),
        set_device=nothing, synchronize=nothing, empty_cache=nothing, _lazy_init=nothing, init=nothing,
        manual_seed=nothing, manual_seed_all=nothing, seed=nothing, seed_all=nothing, ipc_collect=nothing,
        set_rng_state=nothing, set_rng_state_all=nothing, initial_seed=lambda: 0,
        get_rng_state=lambda *a, **k: torch.zeros(16, dtype=torch.uint8), get_rng_state_all=lambda *a, **k: [],
        memory_allocated=memory, memory_reserved=peak, memory_cached=peak, max_memory_allocated=peak,
        max_memory_reserved=peak, max_memory_cached=peak, memory_stats=lambda *a, **k: {},
        reset_peak_memory_stats=nothing, reset_max_memory_allocated=nothing, reset_max_memory_cached=nothing,
        mem_get_info=lambda *a, **k: (max(0, card["memory"] - TRACE.live), card["memory"]),
        memory_summary=lambda *a, **k: "", set_per_process_memory_fraction=nothing,
        is_current_stream_capturing=lambda: False, can_device_access_peer=lambda *a, **k: False,
        utilization=lambda *a, **k: 0, temperature=lambda *a, **k: 0, power_draw=lambda *a, **k: 0,
    )
    for name, answer in answers.items():
        for module in (cuda, cuda.memory, cuda.random):
            if hasattr(module, name):
                setattr(module, name, answer)

    class Stream:
        device, device_index, stream_id, device_type, cuda_stream, priority = torch.device("cuda:0"), 0, 0, 1, 0, 0

        def __init__(self, *a, **k):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *a):
            return None

        def __getattr__(self, name):  # wait_stream, record_event, synchronize
            return lambda *a, **k: self

        def query(self):
            return True

        def elapsed_time(self, other):
            return 1.0

    class Device(Stream):
        pass

    for name in ("Stream", "Event", "ExternalStream"):
        setattr(cuda, name, Stream)
    cuda.stream = cuda.StreamContext = lambda *a, **k: Stream()
    cuda.current_stream = cuda.default_stream = lambda *a, **k: Stream()
    cuda.set_stream = nothing
    cuda.device = cuda.device_of = cuda._DeviceGuard = Device
    torch.Generator = generator(torch.Generator)
    torch._C._cuda_getCurrentBlasHandle = lambda: 0
    torch.Tensor.record_stream = nothing
    torch.Tensor.pin_memory = lambda t, *a, **k: t
    torch.Tensor.is_pinned = lambda t, *a, **k: False
    cuda.amp.common.amp_definitely_not_available = lambda: False
    if getattr(torch, "accelerator", None) is not None:
        accelerator = torch.accelerator
        for name, answer in dict(
                is_available=lambda: True, device_count=lambda: 1, current_device_index=lambda: 0,
                current_accelerator=lambda *a, **k: torch.device("cuda"), synchronize=nothing, set_device_index=nothing,
                empty_cache=nothing, memory_allocated=memory, max_memory_allocated=peak, memory_reserved=peak,
                max_memory_reserved=peak, reset_peak_memory_stats=nothing).items():
            if hasattr(accelerator, name):
                setattr(accelerator, name, answer)


def generator(plain):
    """The class of a generator of random numbers, which may be the card's: it draws nothing there."""
    class Kind(type(plain)):
        def __instancecheck__(cls, x):
            return isinstance(x, plain)

    class Generator(plain, metaclass=Kind):
        def __new__(cls, device="cpu"):
            made = super().__new__(cls, "cpu")
            made.launch_device = torch_device(device)
            return made

        device = property(lambda self: self.launch_device)

    torch_device = type(plain().device)
    return Generator


def legacy_types(torch):
    """torch.cuda.FloatTensor and the like: types of the card, as older scripts make and name tensors."""
    class Type(type):
        def __instancecheck__(cls, t):
            return isinstance(t, torch.Tensor) and t.device.type == "cuda" and t.dtype == cls.dtype

        def __call__(cls, *args, **k):
            if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
                return torch.as_tensor(args[0], dtype=cls.dtype).to("cuda")
            shape = args[0] if len(args) == 1 and isinstance(args[0], torch.Size) else args
            return torch.empty(shape if shape else (0,), dtype=cls.dtype, device="cuda")

    types = dict(Float=torch.float32, Double=torch.float64, Half=torch.float16, BFloat16=torch.bfloat16, Byte=torch.uint8,
                 Char=torch.int8, Short=torch.int16, Int=torch.int32, Long=torch.int64, Bool=torch.bool)
    for name, dtype in types.items():
        named = Type(name + "Tensor", (), {"dtype": dtype, "__module__": "torch.cuda", "is_cuda": True})
        setattr(torch.cuda, name + "Tensor", named)
    to_type = torch.Tensor.type

    def of_type(self, dtype=None, non_blocking=False, **k):
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            dtype = getattr(torch.cuda, dtype.rpartition(".")[2])
        if isinstance(dtype, Type):
            return self.to("cuda", dtype.dtype)
        if dtype is None and self.device.type == "cuda":
            return next(("torch.cuda.%sTensor" % name for name, of in types.items() if of == self.dtype), "")
        return to_type(self, **k) if dtype is None else to_type(self, dtype, non_blocking, **k)

    torch.Tensor.type = of_type


# ---- values that are not there --------------------------------------------------------------------------------------

def answer_for_values(torch, FakeTensor):
    """Gives values to a program that asks a fake tensor for them: ones, finite, so that a loop goes on as it would."""
    import numpy as np
    T = torch.Tensor
    kinds = {torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16, torch.int64: np.int64,
             torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8, torch.uint8: np.uint8,
             torch.bool: np.bool_}
    real = {name: getattr(T, name) for name in ("item", "tolist", "numpy", "__bool__", "__repr__", "cpu", "data_ptr")}

    def real_or(made, t):
        known = TRACE.known.value(t)
        if known is None and not t.is_floating_point():
            TRACE.loops.size()
        return made(t) if known is None else known

    def one(t):
        known = TRACE.known.value(t) if t.numel() == 1 else None
        if t.dtype == torch.bool:
            return TRACE.loops.bool(None if known is None else known.item(), False)
        if known is None and not t.is_floating_point():
            TRACE.loops.size()
        return known.item() if known is not None else 1.0 if t.is_floating_point() else 1

    def true(t):
        known = TRACE.known.value(t) if t.numel() == 1 else None
        return TRACE.loops.bool(None if known is None else bool(known.item()), t.dtype != torch.bool)

    def ones(t):
        return np.ones(tuple(t.shape), kinds.get(t.dtype, np.float32))

    def array(t):
        known = real_or(ones, t)
        return known if isinstance(known, np.ndarray) else real["numpy"](known.clone())

    def either(fake, name):
        return lambda t, *a, **k: fake(t) if isinstance(t, FakeTensor) else real[name](t, *a, **k)

    def address(s):  # that no other storage has: by them, programs find weights that are shared
        number, _ = TRACE.seen.get(s, (None, None))
        return pointer(s) if number is None else number << 40

    pointer = torch.UntypedStorage.data_ptr
    torch.UntypedStorage.data_ptr = address
    T.data_ptr = either(lambda t: t.untyped_storage().data_ptr() + t.storage_offset() * t.element_size(), "data_ptr")
    T.item = either(one, "item")
    T.__bool__ = either(true, "__bool__")
    T.numpy = either(array, "numpy")
    T.tolist = either(lambda t: array(t).tolist(), "tolist")
    T.__repr__ = either(lambda t: "tensor(..., device='%s', size=%s)" % (t.device, tuple(t.shape)), "__repr__")
    T.__float__ = lambda t: float(t.item())
    T.__int__ = T.__index__ = lambda t: int(t.item())
    T.__format__ = lambda t, spec: format(t.item(), spec) if t.dim() == 0 else object.__format__(t, spec)
    T.__array__ = lambda t, dtype=None, **k: t.numpy() if dtype is None else t.numpy().astype(dtype)
    import torch.amp.grad_scaler as scaler
    torch.distributions.Distribution.set_default_validate_args(False)  # as under -O
    scaler.GradScaler._maybe_opt_step = lambda self, optimizer, state, *a, **k: optimizer.step(*a, **k)


# ---- modules --------------------------------------------------------------------------------------------------------

def follow_modules(torch, FakeTensor):
    """Moves modules by giving them other parameters, and tells when the outermost one is called."""
    Module, moved, optimizers = torch.nn.Module, {}, TRACE.optimizers
    resize = torch.UntypedStorage.resize_

    def resized(self, size):
        changed = self.nbytes() != size
        out = resize(self, size)
        if changed:
            TRACE.resized(self)
        return out

    torch.UntypedStorage.resize_ = resized
    hold = torch.optim.Optimizer.add_param_group

    def holding(self, group):
        optimizers.add(self)
        return hold(self, group)

    torch.optim.Optimizer.add_param_group = holding

    def apply(self, fn, recurse=True):
        # Module.to swaps the data of a parameter, which a fake tensor cannot do
        if recurse:
            for child in self.children():
                child._apply(fn)
        if replace(self, fn):  # an optimizer may have been made first: accelerate's prepare moves what it has
            for group in (g for o in list(optimizers) for g in o.param_groups):
                group["params"] = [now(p) for p in group["params"]]
        return self

    def now(p):
        """What a parameter has become. What the script drops is dropped."""
        old, new = (of() for of in moved.get(id(p), (str, str)))
        return new if old is p and new is not None else p

    def replace(self, fn):
        """Tells whether it has made new parameters."""
        some = False
        for name, p in self._parameters.items():
            if p is None:
                continue
            if now(p) is not p:  # tied to one that was moved
                self._parameters[name] = now(p)
                continue
            with torch.no_grad():
                q = fn(p)
            TRACE.known.forget([q])  # what is trained has no values
            if q is p:
                continue
            if q.device == p.device and q.dtype == p.dtype and not isinstance(q, FakeTensor):
                p.data = q
                continue
            new = torch.nn.Parameter(q, p.requires_grad)
            new.__dict__.update({k: v for k, v in p.__dict__.items() if k not in new.__dict__ and k != "fake_device"})
            moved[id(p)], some = (weakref.ref(p), weakref.ref(new)), True
            self._parameters[name] = new
            TRACE.kind(new, "parameter")
        for name, b in self._buffers.items():
            if b is not None:
                self._buffers[name] = fn(b)
                TRACE.known.forget([self._buffers[name]])
                TRACE.kind(self._buffers[name], "buffer")
        return some

    Module._apply = apply
    data = torch._C.TensorBase.data

    def given(self, value):  # of one on the CPU, which a tensor on the card cannot be put into: it becomes another
        if not isinstance(value, FakeTensor) or isinstance(self, FakeTensor):
            return data.__set__(self, value)
        new = value.detach()
        new = torch.nn.Parameter(new, self.requires_grad) if isinstance(self, torch.nn.Parameter) else new
        torch.utils.swap_tensors(self, new)
        if isinstance(self, torch.nn.Parameter):
            TRACE.kind(self, "parameter")

    torch.Tensor.data = property(data.__get__, given)
    deepcopy = torch.Tensor.__deepcopy__

    def copied(self, memo):  # an average of the weights, a target network
        if not isinstance(self, FakeTensor):
            return deepcopy(self, memo)
        of, parameter = memo.setdefault("launch", {}), isinstance(self, torch.nn.Parameter)
        storage = self.untyped_storage()
        first = of.get(storage._cdata)
        # torch copies a fake tensor alone; what shares a storage still does, as the weight of a spectral norm
        if first is not None and id(self) not in memo and not parameter and first.untyped_storage().nbytes() == storage.nbytes():
            memo[id(self)] = new = first.detach().as_strided(self.shape, self.stride(), self.storage_offset())
            return new.requires_grad_(self.requires_grad)
        new = deepcopy(self, memo)
        of.setdefault(storage._cdata, new)
        if parameter:
            TRACE.kind(new, "parameter")
        return new

    torch.Tensor.__deepcopy__ = copied

    def samples(args, kwargs):
        for x in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor) and x.dim() > 0:
                return x.shape[0]
        return -1

    call, norm = Module.__call__, torch.nn.modules.batchnorm._BatchNorm

    def called(self, *args, **kwargs):
        if isinstance(self, norm) and self.training and not TRACE.normed:
            TRACE.normed = True
            emit("M norm")
        # a loss has no parameters, and those of an augmentation are on the CPU; what is called in a backward pass is computed
        # again, and no new samples
        if TRACE.depth == 0 and not TRACE.backwards and any(isinstance(p, FakeTensor) for p in self.parameters()):
            grad, used = torch.is_grad_enabled(), batches_of((args, kwargs))
            for one in {TRACE.batches[n - 1] for n in used} or {TRACE.since}:
                one.forwards += 1
                one.learned |= grad and self.training
            for n in used:
                TRACE.batches[n - 1].used.add(n)
            TRACE.rounds.forward(tuple(x.shape for x in tensors((args, kwargs))))
            emit(" ".join(map(str, ("M forward", int(grad), int(self.training), samples(args, kwargs), *sorted(used)))))
        TRACE.depth += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            TRACE.depth -= 1

    Module.__call__ = called

    # tensorboard's picture of a network is made by one pass through it
    def pictured(module):
        def add_graph(self, model, input_to_model=None, *a, **k):
            if input_to_model is not None:
                model(*(input_to_model if isinstance(input_to_model, (list, tuple)) else [input_to_model]))

        module.SummaryWriter.add_graph = add_graph

    after_import({"torch.utils.tensorboard.writer": pictured, "tensorboardX.writer": pictured})

    # DataParallel on one card, and DistributedDataParallel as one rank sees it
    def stand_in(self, module, *a, **k):
        Module.__init__(self)
        self.module = module
        self.device_ids, self.device, self.require_backward_grad_sync = [0], torch.device("cuda:0"), True
        self.static_graph = self.find_unused_parameters = False

    DP, DDP = torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel
    DP.__init__ = stand_in
    DP.forward = lambda self, *a, **k: self.module(*a, **k)

    def ddp(self, module, *a, **k):
        stand_in(self, module)
        # the buckets through which gradients are exchanged
        size = sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
        if not k.get("gradient_as_bucket_view", False):
            self.__dict__["_buckets"] = torch.empty(size, dtype=torch.uint8, device="cuda")

    DDP.__init__ = ddp
    DDP.forward = DP.forward
    DDP.no_sync = lambda self: __import__("contextlib").nullcontext()
    for name in ("register_comm_hook", "_set_static_graph"):
        setattr(DDP, name, lambda self, *a, **k: None)


def follow_training(torch, FakeTensor):
    """Tells of backward passes and of optimizers' steps, which work on lists of tensors as they do on a card."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        getattr(importlib.import_module(name), "_foreach_supported_types", []).append(FakeTensor)
    backward, grad = torch.autograd.backward, torch.autograd.grad

    def told(of):
        @functools.wraps(of)
        def wrapper(*a, **k):
            if not TRACE.backwards:  # a reentrant checkpoint has one of its own in it
                TRACE.since.backwards += 1
                TRACE.learned = True
                emit("M backward")
                TRACE.rounds.backward()
            TRACE.backwards += 1
            try:  # in this thread: one of the card's own would free at any time
                with torch.autograd.set_multithreading_enabled(False):
                    return of(*a, **k)
            finally:
                TRACE.backwards -= 1
        return wrapper

    torch.autograd.backward = told(backward)
    torch.autograd.grad = told(grad)

    def stepping(optimizer, *a):
        for group in optimizer.param_groups:
            for p in group["params"]:
                TRACE.kind(p, "parameter")
                if p.grad is not None:
                    TRACE.kind(p.grad, "gradient")

    def stepped(optimizer, *a):
        for state in optimizer.state.values():
            for x in torch.utils._pytree.tree_leaves(state):
                TRACE.kind(x, "state")
        TRACE.step(optimizer)
        enough(torch)

    from torch.optim.optimizer import (register_optimizer_step_post_hook, register_optimizer_step_pre_hook)
    register_optimizer_step_pre_hook(stepping)
    register_optimizer_step_post_hook(stepped)


def enough(torch):
    """Ends the script once training and, where there is one, validation have been seen. It waits for every optimizer, as a
    generator may step once in a few steps of its critic."""
    if TRACE.waiting and max(TRACE.stepped.values()) < WAIT * STEPS:
        return
    TRACE.moments.open = TRACE.steps >= STEPS
    if TRACE.steps >= STEPS and (TRACE.validated or TRACE.steps >= 2 * STEPS and not TRACE.rounds.leave()):
        raise Enough


# ---- data -----------------------------------------------------------------------------------------------------------

def shorten_data(torch):
    """Reads a few batches of each loader, in this process, for real."""
    from torch.utils._python_dispatch import _disable_current_modes
    import torch.utils.data.dataloader as module
    loaders, numbers = weakref.WeakKeyDictionary(), itertools.count(1)
    Loader, Iterator = module.DataLoader, module._BaseDataLoaderIter
    init, begin, following, chosen = Loader.__init__, Loader.__iter__, Iterator.__next__, Iterator._next_index

    def loader(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, *a, **k):
        a = list(a)  # collate_fn, pin_memory, drop_last, timeout, worker_init_fn, multiprocessing_context, …
        if len(a) > 1:
            a[1] = False
        if len(a) > 3:
            a[3] = 0
        del a[4:]
        for name in ("persistent_workers", "prefetch_factor", "timeout", "worker_init_fn", "multiprocessing_context",
                     "pin_memory", "pin_memory_device"):
            k.pop(name, None)
        self.launch_workers = num_workers
        with _disable_current_modes():
            init(self, dataset, batch_size, shuffle, sampler, batch_sampler, 0, *a, **k)

    def batches(self):
        with _disable_current_modes():
            it = begin(self)
        it.launch_workers = getattr(self, "launch_workers", 0)
        it.launch = TRACE.since = Batches(TRACE.steps, loaders.setdefault(self, next(numbers)))
        return it

    def next_batch(self):
        mine = getattr(self, "launch", None) or Batches(TRACE.steps)
        TRACE.since, self.launch = mine, mine
        if mine.ends(TRACE.steps):
            if mine.forwards and not mine.backwards and len(mine.shapes) > 1 and mine.given < length(self):
                unknown("it was cut short after %d batches, whose shapes differ" % mine.given)
            end(mine)
        try:
            # without workers, a data set may put its samples on the card
            with _disable_current_modes() if getattr(self, "launch_workers", 0) else contextlib.nullcontext():
                batch = following(self)
        except StopIteration:
            end(mine)
        mine.given += 1
        TRACE.loops.mark()
        TRACE.batches.append(mine)
        of, number = list(tensors(batch)), len(TRACE.batches)
        shape = TRACE.shapes.setdefault(tuple((t.shape, t.dtype) for t in of), len(TRACE.shapes))
        mine.shapes.add(shape)
        for t in of:
            t.launch_batches = {number}
        indices = getattr(self, "launch_index", None)
        n = of[0].shape[0] if of and of[0].dim() else -1
        emit("M batch %d %d %d" % (len(indices) if isinstance(indices, (list, tuple)) else n, shape, mine.loader))
        return batch

    def length(it):
        try:
            return len(it)
        except TypeError:  # of a stream
            return float("inf")

    def end(mine):
        if mine.forwards and not mine.backwards and not mine.learned and TRACE.steps:
            TRACE.validated += 1
        raise StopIteration

    def next_index(self):
        self.launch_index = chosen(self)
        return self.launch_index

    Loader.__init__, Loader.__iter__, Iterator.__next__ = loader, batches, next_batch
    Iterator._next_index = next_index


# ---- files ----------------------------------------------------------------------------------------------------------

def keep_states(torch):
    """Keeps what torch.save is given: the file has a mark in its place, which may be copied and renamed.

    What other programs have saved is read, its tensors only where they are used, and goes to the card as seen.
    """
    kept, load, mark = [], torch.load, b"launch has traced this state: "
    tree_map = torch.utils._pytree.tree_map

    def save(obj, f, *a, **k):
        text = b"%s%06d" % (mark, len(kept))
        kept.append(tree_map(lambda t: t.detach() if type(t) is torch.Tensor else t, obj))
        if hasattr(f, "write"):
            f.write(text)
        else:
            with open(f, "wb") as out:
                out.write(text)

    def saved(f):
        """The number of what was kept, or None."""
        size = len(mark) + 6
        try:
            if hasattr(f, "read"):
                at, text = f.tell(), f.read(size)
                f.seek(at)
            else:
                with open(f, "rb") as file:
                    text = file.read(size)
        except (OSError, AttributeError):  # load tells why
            return None
        return int(text[len(mark):]) if text.startswith(mark) else None

    def to_card(map_location):
        """Whether a storage of the card goes to the card; None: each stays where it was."""
        if map_location is None:
            return None
        if callable(map_location):  # storage, location -> storage
            try:
                return map_location(torch.UntypedStorage(1), "cuda:0").device.type == "cuda"
            except Exception:  # there is no storage on a card that is not there
                return True
        if isinstance(map_location, dict):
            map_location = map_location.get("cuda:0", "cuda:0")
        return torch.device(map_location).type == "cuda"

    def read(f, map_location=None, *a, **k):
        number, card, moved = saved(f), to_card(map_location), set()

        def fresh(t):
            if not isinstance(t, torch.Tensor):
                return t
            with torch.no_grad():
                there = t.device.type == "cuda" if card is None else card
                return t.to("cuda" if there else "cpu", copy=True)

        def located(storage, location):
            if location.startswith("cuda") if card is None else card:
                moved.add(storage._cdata)
            return storage

        def placed(x):
            if isinstance(x, torch.nn.Module) and any(p.untyped_storage()._cdata in moved for p in x.parameters()):
                return x.cuda()
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata in moved:
                with torch.no_grad():
                    y = x.to("cuda")
                return torch.nn.Parameter(y, x.requires_grad) if isinstance(x, torch.nn.Parameter) else y
            return x

        if number is not None:
            return tree_map(fresh, kept[number])
        if isinstance(f, (str, os.PathLike)) and not a:
            k.setdefault("mmap", zipfile.is_zipfile(f))
        return tree_map(placed, load(f, located, *a, **k))

    torch.save, torch.load = save, read

    class Absent(dict):
        """Weights that are not on this machine: they fit every module, as no value counts."""
        def __missing__(self, key):
            return self

        def pop(self, key, *default):
            return dict.pop(self, key, None)

        def __delitem__(self, key):
            dict.pop(self, key, None)

    load_state, names, missing = torch.nn.Module.load_state_dict, torch.hub.list, []

    def fetching(fetch):
        @functools.wraps(fetch)
        def fetched(*a, **k):
            try:
                return fetch(*a, **k)
            except OSError as e:  # there is no network
                missing.append(e)
                return Absent()
        return fetched

    def listed(*a, **k):
        try:
            return names(*a, **k)
        except (OSError, RuntimeError):
            return []

    def loaded(self, state, *a, **k):
        if isinstance(state, Absent) or missing and not state:  # what was made of it is empty
            return type(load_state(torch.nn.Identity(), {}))([], [])
        return load_state(self, state, *a, **k)

    import torch.utils.model_zoo as zoo
    torch.hub.load_state_dict_from_url = zoo.load_url = fetching(torch.hub.load_state_dict_from_url)
    torch.hub.list, torch.nn.Module.load_state_dict = listed, loaded

    def hub(module):
        module.load_state_dict_from_hf = fetching(module.load_state_dict_from_hf)

    after_import({"timm.models._hub": hub})


def keep_safetensors(torch, FakeTensor):
    """The same for safetensors: what is read goes to the card as seen, and what is written is a file of holes."""
    try:
        import safetensors
        import safetensors.torch as library
    except ImportError:
        return
    opened, save_file = safetensors.safe_open, library.save_file

    class Opened:
        def __init__(self, filename, framework, device="cpu", **k):
            self.file = opened(filename, framework, device="cpu", **k)
            self.device = torch.device("cuda", device) if isinstance(device, int) else device

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *a):
            return self.file.__exit__(*a)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def get_tensor(self, name):
            return self.file.get_tensor(name).to(self.device)

        def get_tensors(self):
            return {name: self.get_tensor(name) for name in self.file.keys()}

        def get_slice(self, name):
            return Slice(self.file.get_slice(name), self.device)

    class Slice:
        def __init__(self, slice, device):
            self.slice, self.device = slice, device

        def __getattr__(self, name):
            return getattr(self.slice, name)

        def __getitem__(self, at):
            return self.slice[at].to(self.device)

    names = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
             torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}

    def header(tensors, metadata):
        table, end = {"__metadata__": metadata} if metadata else {}, 0
        for name, t in tensors.items():
            begin, end = end, end + t.numel() * t.element_size()
            table[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [begin, end]}
        text = json.dumps(table).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text, end

    def save(tensors, filename, metadata=None):
        if not any(isinstance(t, FakeTensor) for t in tensors.values()):
            return save_file(tensors, filename, metadata)
        text, size = header(tensors, metadata)
        with open(filename, "wb") as f:
            f.write(text)
            f.truncate(len(text) + size)

    def to_bytes(tensors, metadata=None):
        text, size = header(tensors, metadata)
        return text + bytes(size)

    safetensors.safe_open = library.safe_open = Opened
    library.save_file, library.save = save, to_bytes


# ---- ways to run ----------------------------------------------------------------------------------------------------

def run_eagerly(torch):
    """torch.compile gives back what it was given: the trace is of the eager program, and says so."""
    def compile(model=None, *a, **k):
        TRACE.compiled = True
        return model if model is not None else (lambda f: f)

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *a, **k: None

    def same(obj=None, *a, **k):
        """A module that is what TorchScript would make of it, and can be saved as that can."""
        if isinstance(obj, torch.nn.Module) and not hasattr(obj, "save"):
            object.__setattr__(obj, "save", lambda f, **k: torch.save(obj, f))
        return obj if obj is not None else same

    jit, traced = torch.jit, torch.jit.trace

    def trace(func, example_inputs=None, *a, **k):
        if isinstance(func, torch.nn.Module) and isinstance(example_inputs, (tuple, list, torch.Tensor)):
            TRACE.depth += 1  # it calls the module, once, which are no samples
            try:
                func(*([example_inputs] if isinstance(example_inputs, torch.Tensor) else example_inputs))
            finally:
                TRACE.depth -= 1
        return same(traced(func, example_inputs, *a, **k))

    jit.script = jit.freeze = jit.optimize_for_inference = same
    jit.trace, jit.trace_module = trace, lambda mod, *a, **k: same(mod)
    jit.save, jit.load = lambda m, f, *a, **k: torch.save(m, f), torch.load


def follow_threads(mode):
    """A mode is of one thread: each that the script starts gets its own."""
    run = threading.Thread.run

    def followed(self):
        with type(mode)():
            run(self)

    threading.Thread.run = followed


def spawn_here(torch):
    """Runs the first of the processes that a script would start, in this one."""
    import torch.multiprocessing as multiprocessing
    multiprocessing.spawn = lambda fn, args=(), *a, **k: fn(0, *args)
    multiprocessing.spawn.__module__ = "torch.multiprocessing.spawn"


def one_rank(torch):
    """A process group of which only this rank is there."""
    import torch.distributed as dist
    if not dist.is_available():
        return
    world, init = REQUEST.get("world", 1), dist.init_process_group

    def group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, *a, **k):
        from torch.testing._internal.distributed.fake_pg import FakeStore
        init("fake", store=FakeStore(), rank=0, world_size=world)

    dist.init_process_group = group
    dist.barrier = lambda *a, **k: None
    dist.monitored_barrier = lambda *a, **k: None


# What shards parameters over ranks moves them in ways of its own, and a trace of it would have false figures.
SHARDED = {
    "torch.distributed.fsdp.fully_sharded_data_parallel": ("FullyShardedDataParallel.__init__", "FSDP"),
    "torch.distributed.fsdp._fully_shard._fully_shard": ("fully_shard", "FSDP2 (fully_shard)"),
    "torch.distributed._composable.fsdp.fully_shard": ("fully_shard", "FSDP2 (fully_shard)"),
    "torch.distributed.tensor._api": ("DTensor.__new__", "DTensor"),
    "torch.distributed._tensor.api": ("DTensor.__new__", "DTensor"),
    "fairscale.nn.data_parallel.fully_sharded_data_parallel": ("FullyShardedDataParallel.__init__", "FSDP"),
    "deepspeed": ("initialize", "DeepSpeed"),
}


def leave_sharded():
    """Ends the trace where the script shards its parameters, with the reason."""
    def refuse(what):
        def refused(*a, **k):
            raise NotFollowed("%s is not followed: it shards what is trained over ranks, and one rank is traced" % what)
        return refused

    def patch(module):
        names, what = SHARDED[module.__name__]
        *path, last = names.split(".")
        holder = functools.reduce(lambda m, n: getattr(m, n, None), path, module)
        was, refused = getattr(holder, last, None), refuse(what)
        if was is not None:
            setattr(holder, last, refused)
        for m in [m for name, m in sys.modules.items() if name.startswith("torch.distributed")] if not path else ():
            if m.__dict__.get(last) is was:  # it has it from there
                setattr(m, last, refused)

    after_import(dict.fromkeys(SHARDED, patch))


def hide_tracing():
    """Lets transformers ask for values, as on a card: of tensors that it takes for traced it asks for none, and then makes
    a mask of attention that a run without padding does without (is_tracing in utils/import_utils.py)."""
    after_import({"transformers.utils.import_utils": lambda module: setattr(module, "is_fake_tensor", lambda x: False)})


def shorten_sampling(torch):
    """Has what goes through the timesteps of diffusers' schedulers without gradients end once a round has left as many bytes
    alive as the one before, after DRAWN rounds at the least: then the schedulers that look back (at most three steps) have
    all that they look at. A training that goes through them makes all of its passes."""
    chosen, iterate = {}, torch.Tensor.__iter__  # by storage, as a slice of them counts, too

    def prepares(cls, **k):
        plain = cls.__dict__.get("set_timesteps")
        if plain is not None:
            @functools.wraps(plain)
            def prepared(self, *a, **k):
                plain(self, *a, **k)
                if isinstance(self.timesteps, torch.Tensor):
                    storage = self.timesteps.untyped_storage()
                    chosen[storage._cdata] = storage
            cls.set_timesteps = prepared

    def settled(rounds):
        before = None
        for made, t in enumerate(rounds, 1):
            yield t
            if made >= DRAWN and TRACE.live == before:
                return
            before = TRACE.live

    def through(self):
        drawn = chosen and not torch.is_grad_enabled() and self.untyped_storage()._cdata in chosen
        return settled(iterate(self)) if drawn else iterate(self)

    torch.Tensor.__iter__ = through
    after_import({"diffusers.schedulers.scheduling_utils":
                  lambda module: setattr(module.SchedulerMixin, "__init_subclass__", classmethod(prepares))})


def after_import(changes):
    """Changes modules as soon as they are imported: name -> what is called with the module."""
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name not in changes:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def executed(module):
                    execute(module)
                    changes[name](module)

                spec.loader.exec_module = executed
            return spec

    for name in changes:
        if name in sys.modules:
            changes[name](sys.modules[name])
    sys.meta_path.insert(0, Finder())


# ---- the script -----------------------------------------------------------------------------------------------------

def place(e):
    """Where in the script, not in a library, an error arose."""
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        if not library(frame.filename) and frame.filename not in OURS and not frame.filename.startswith("<"):
            return "%s:%d" % (frame.filename, frame.lineno)
    return ""


def library(path):
    return "site-packages" in path or "/lib/python" in path


# The files of libraries that decide when a validation comes.
PACED = ("/transformers/trainer_callback.py", "/pytorch/loops/training_epoch_loop.py",
         "/pytorch_lightning/loops/training_epoch_loop.py")


def own_code():
    """Compiles the project's own code as -O does: values are not there, so what it asserts of them may not hold. Its loops are
    told of (see Rounds), and what it does every so many steps (see Moments), as some libraries do for it.

    Libraries keep their assertions, as Python's own -O would compile all of them anew: they have no byte code for it, and that
    takes longer than the trace. See again.
    """
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def code(self, name):
        path = self.get_filename(name)
        if library(path) and not path.endswith(PACED):
            return get_code(self, name)
        return compiled(self.get_data(path), path, "exec")

    def compiled(source, path, mode):
        rounds = None if library(path) else "__launch_rounds__"
        tree = wrapped(ast.parse(source, path), os.path.basename(path), rounds, "__launch_moments__")
        return compile(tree, path, mode, dont_inherit=True, optimize=1)

    builtins.__launch_rounds__, builtins.__launch_moments__ = TRACE.rounds.of, TRACE.moments.of
    loader.get_code = code
    runpy.compile = compiled  # of the script itself


def again():
    """Runs the script anew under -O: an assertion of a library has met a value that is not there."""
    emit("Z")
    OUT.flush()
    request = os.memfd_create("request")
    os.write(request, json.dumps(REQUEST).encode())
    os.lseek(request, 0, os.SEEK_SET)
    os.dup2(request, 0)
    os.execv(sys.executable, [sys.executable, "-B", "-O", "-W", "ignore", __file__])


def terminal():
    """Gives the script a terminal to read from, as it has under launch: it may ask for its width. There is nothing to read."""
    import fcntl
    import struct
    import termios
    try:
        keyboard, screen = os.openpty()
    except OSError:
        return
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.write(keyboard, b"\4" * 100)  # ends of the file
    os.dup2(screen, 0)


def run():
    kind, target = REQUEST["kind"], REQUEST["target"]
    own_code()
    terminal()
    sys.argv = [target if kind != "code" else "-c"] + REQUEST["args"]
    if kind == "module":
        sys.path[0] = os.getcwd()
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif kind == "code":
        sys.path[0] = ""
        exec(runpy.compile(target, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(target))
        runpy.run_path(target, run_name="__main__")


def main():
    global TRACE
    torch, nocard = load_torch()
    TRACE = Trace(torch)
    emit("E " + json.dumps(versions()))  # it may be killed
    OUT.flush()
    mode, FakeTensor = counting(torch)
    answer_for_card(torch)
    legacy_types(torch)
    answer_for_values(torch, FakeTensor)
    follow_modules(torch, FakeTensor)
    follow_training(torch, FakeTensor)
    shorten_data(torch)
    keep_states(torch)
    keep_safetensors(torch, FakeTensor)
    taught = kernels(torch, REQUEST["card"]["capability"][0], TRACE.kind)  # until the end
    cudnn = getattr(torch.backends.cudnn, "m", torch.backends.cudnn)
    cudnn._init = lambda: True  # it would ask the library for its version, which may not be there
    reserve = bytearray(64 << 20)  # to tell that memory was used up
    run_eagerly(torch)
    follow_threads(mode)
    spawn_here(torch)
    one_rank(torch)
    leave_sharded()
    hide_tracing()
    shorten_sampling(torch)
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") is a move that the mode sees
    torch._C._ensureCUDADeviceGuardSet()
    ctypes.c_int.in_dll(nocard, "launch_devices").value = 64
    TRACE.modules = follow_reading()
    try:
        with mode:
            run()
        why, more = "the script ended", {"whole": True}
    except Enough:
        why, more = "enough was seen", {}
    except NotFollowed as e:
        why, more = str(e), {"place": place(e), "failed": True}
    except SystemExit as e:
        code = e.code if e.code is not None else 0
        why, more = "the script exited with %s" % code, {"whole": code == 0}
    except BaseException as e:
        del reserve
        if isinstance(e, AssertionError) and not sys.flags.optimize:
            again()
        traceback.print_exc()
        why, more = "%s: %s" % (type(e).__name__, str(e)[:400]), {"place": place(e), "cut": True}
    finish(why, compiled=TRACE.compiled, assumed=sorted(TRACE.assumed), **more)


if __name__ == "__main__":
    main()
