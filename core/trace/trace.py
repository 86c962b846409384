"""Runs a training script with tensors that are not there, and reports what its card would have held.

launch starts this file in the command's own Python, in a jail that no write, connection or process leaves. It reads a
request from standard input (JSON: see Request in trace.go) and writes events to file descriptor 3, a line each:

    A ID BYTES      a storage on the card is allocated; its kind is told when it is known
    F ID            it is freed
    K ID KIND       its kind: parameter, gradient, state (of an optimizer), buffer
    M batch         a data loader gives its next batch
    M forward G T N the outermost module is called; G: with gradients, T: in training mode, N: samples, -1: not known
    M backward      a backward pass begins
    M step          an optimizer has stepped
    M norm          a batch normalisation in training mode is called, told once
    R               the script begins anew: nothing of the lines before counts
    E JSON          the end: why, and the versions

A tensor that is made on the card, or moved there, is fake: it has a shape, a type and a storage's size, and no values.
What a program computes on the CPU stays real. A value that a program asks of a fake tensor is 1.
"""
import ctypes
import functools
import gc
import importlib.machinery
import json
import os
import runpy
import sys
import traceback
import weakref

REQUEST = json.load(sys.stdin)
OUT = os.fdopen(3, "w", buffering=1 << 16)
STEPS, BATCHES = REQUEST.get("steps", 3), REQUEST.get("batches", 2)


def emit(line):
    OUT.write(line + "\n")


class Enough(BaseException):
    """Ends the script: all that was asked for has been seen. No `except Exception` of the script's catches it."""


def finish(why, **more):
    """Reports the end and leaves at once: no atexit handler, thread or finalizer of the script runs."""
    found = versions()
    emit("E " + json.dumps({"why": why, "failed": found["steps"] == 0, **found, **more}))
    OUT.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def versions():
    found = {"python": "%d.%d.%d" % sys.version_info[:3], "steps": TRACE.steps if TRACE else 0}
    if "torch" in sys.modules:
        import torch
        found.update(torch=torch.__version__, cuda=torch.version.cuda or "")
    return found


TRACE = None


# ---- what is asked of torch before it can be imported --------------------------------------------------------------

def load_torch():
    """Imports torch without a driver: see nocard.c. Returns the library that answers for the driver."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
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
        self.stepped = {}  # of each optimizer: how often it has stepped
        self.since = Batches(0)
        self.validated = 0
        self.depth = 0
        self.normed = self.compiled = False

    @property
    def steps(self):
        """How often every optimizer has stepped that has stepped at all: a GAN has two."""
        return min(self.stepped.values(), default=0)

    def tensor(self, t):
        """Notes the storage of a tensor, the first time that it is seen."""
        if (getattr(t, "fake_device", None) or t.device).type != "cuda":  # the latter would dispatch
            return None
        try:
            s = t.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a wrapper of other tensors, which are seen themselves
            return None
        number = self.seen.get(s)
        if number is None:
            self.made += 1
            number, size = self.made, s.nbytes()
            self.seen[s] = number
            self.live += size
            self.peak = max(self.peak, self.live)
            emit("A %d %d" % (number, size))
            weakref.finalize(s, self.freed, number, size).atexit = False
        return number

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
    """What has happened since a data loader began to give batches."""

    def __init__(self, steps):
        self.given = self.backwards = 0
        self.begun = steps


def counting(torch):
    """The mode that makes what is on the card fake, and notes it."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    FakeTensorMode.avoid_device_init = property(lambda mode: True)
    fake, device_of = FakeTensorMode(allow_non_fake_inputs=True), torch.ops.prim.device.default

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
                out = fake.__torch_dispatch__(func, types, args, kwargs)
            else:
                out = func(*args, **kwargs)
            if isinstance(out, torch.Tensor):
                TRACE.tensor(out)
            elif isinstance(out, (list, tuple, dict)):
                for x in pytree.tree_leaves(out):
                    if isinstance(x, torch.Tensor):
                        TRACE.tensor(x)
            return out

    return Counting(), FakeTensor


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


# ---- values that are not there --------------------------------------------------------------------------------------

def answer_for_values(torch, FakeTensor):
    """Gives values to a program that asks a fake tensor for them: ones, finite, so that a loop goes on as it would."""
    import numpy as np
    T = torch.Tensor
    kinds = {torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16, torch.int64: np.int64,
             torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8, torch.uint8: np.uint8,
             torch.bool: np.bool_}
    real = {name: getattr(T, name) for name in ("item", "tolist", "numpy", "__bool__", "__repr__", "cpu")}

    def one(t):
        return False if t.dtype == torch.bool else 1.0 if t.is_floating_point() else 1

    def ones(t):
        return np.ones(tuple(t.shape), kinds.get(t.dtype, np.float32))

    def either(fake, name):
        return lambda t, *a, **k: fake(t) if isinstance(t, FakeTensor) else real[name](t, *a, **k)

    T.item = either(one, "item")
    T.__bool__ = either(lambda t: bool(one(t)), "__bool__")
    T.numpy = either(ones, "numpy")
    T.tolist = either(lambda t: ones(t).tolist(), "tolist")
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
    Module, moved, optimizers = torch.nn.Module, {}, weakref.WeakSet()
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
        before = len(moved)
        replace(self, fn)
        if len(moved) > before:  # an optimizer may have been made first: accelerate's prepare moves what it has
            for group in (g for o in list(optimizers) for g in o.param_groups):
                group["params"] = [moved[id(p)][1] if id(p) in moved and moved[id(p)][0] is p else p
                                   for p in group["params"]]
        return self

    def replace(self, fn):
        for name, p in self._parameters.items():
            if p is None:
                continue
            if id(p) in moved and moved[id(p)][0] is p:  # tied to one that was moved
                self._parameters[name] = moved[id(p)][1]
                continue
            with torch.no_grad():
                q = fn(p)
            if q is p or q.device == p.device and q.dtype == p.dtype and q.data_ptr is p.data_ptr:
                continue
            if q.device == p.device and q.dtype == p.dtype and not isinstance(q, FakeTensor):
                p.data = q
                continue
            new = torch.nn.Parameter(q, p.requires_grad)
            new.__dict__.update({k: v for k, v in p.__dict__.items() if k not in new.__dict__ and k != "fake_device"})
            moved[id(p)] = (p, new)
            self._parameters[name] = new
            TRACE.kind(new, "parameter")
        for name, b in self._buffers.items():
            if b is not None:
                self._buffers[name] = fn(b)
                TRACE.kind(self._buffers[name], "buffer")

    Module._apply = apply

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
        if TRACE.depth == 0 and next(self.parameters(), None) is not None:  # a loss has none
            grad = torch.is_grad_enabled()
            emit("M forward %d %d %d" % (grad, self.training, samples(args, kwargs)))
        TRACE.depth += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            TRACE.depth -= 1

    Module.__call__ = called

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
            TRACE.since.backwards += 1
            emit("M backward")
            return of(*a, **k)
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
        TRACE.stepped[id(optimizer)] = TRACE.stepped.get(id(optimizer), 0) + 1
        emit("M step")
        enough(torch)

    from torch.optim.optimizer import (register_optimizer_step_post_hook, register_optimizer_step_pre_hook)
    register_optimizer_step_pre_hook(stepping)
    register_optimizer_step_post_hook(stepped)


def enough(torch):
    """Ends the script once training and, where there is one, validation have been seen."""
    if TRACE.steps >= STEPS and (TRACE.validated or TRACE.steps >= 2 * STEPS):
        raise Enough


# ---- data -----------------------------------------------------------------------------------------------------------

def shorten_data(torch):
    """Reads a few batches of each loader, in this process, for real."""
    from torch.utils._python_dispatch import _disable_current_modes
    import torch.utils.data.dataloader as module
    Loader, Iterator = module.DataLoader, module._BaseDataLoaderIter
    init, begin, following = Loader.__init__, Loader.__iter__, Iterator.__next__

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
        with _disable_current_modes():
            init(self, dataset, batch_size, shuffle, sampler, batch_sampler, 0, *a, **k)

    def batches(self):
        with _disable_current_modes():
            it = begin(self)
        it.launch = TRACE.since = Batches(TRACE.steps)
        return it

    def next_batch(self):
        mine = getattr(self, "launch", None) or Batches(TRACE.steps)
        TRACE.since, self.launch = mine, mine
        trains = mine.backwards > 0
        if trains and TRACE.steps - mine.begun >= STEPS or not trains and mine.given >= BATCHES:
            if not trains and mine.given and TRACE.steps:
                TRACE.validated += 1
            raise StopIteration
        with _disable_current_modes():
            batch = following(self)
        mine.given += 1
        emit("M batch")
        return batch

    Loader.__init__, Loader.__iter__, Iterator.__next__ = loader, batches, next_batch


# ---- files ----------------------------------------------------------------------------------------------------------

def keep_states(torch):
    """Gives back what torch.save was given, instead of writing tensors that are not there; reads states to the CPU."""
    kept, load = {}, torch.load

    def save(obj, f, *a, **k):
        if isinstance(f, (str, os.PathLike)):
            kept[os.path.realpath(f)] = obj
            with open(f, "wb") as out:
                out.write(b"traced\n")

    def read(f, map_location=None, *a, **k):
        if isinstance(f, (str, os.PathLike)) and os.path.realpath(f) in kept:
            return kept[os.path.realpath(f)]
        obj = load(f, "cpu", *a, **k)
        if map_location is None or isinstance(map_location, (str, torch.device)) and \
                torch.device(map_location).type == "cpu":
            return obj
        to = lambda t: t.to("cuda") if isinstance(t, torch.Tensor) else t
        return torch.utils._pytree.tree_map(to, obj)

    torch.save, torch.load = save, read


# ---- operators ------------------------------------------------------------------------------------------------------

def choose_attention(torch):
    """Chooses the kernel of scaled_dot_product_attention by torch's documented rules: torch itself asks the driver."""
    functional, aten = torch.nn.functional, torch.ops.aten
    real = functional.scaled_dot_product_attention
    old = REQUEST["card"]["capability"][0] < 8

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if query.device.type != "cuda":
            more = {"enable_gqa": True} if enable_gqa else {}
            return real(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)
        if torch.is_autocast_enabled():
            to = torch.get_autocast_gpu_dtype()
            query, key, value = query.to(to), key.to(to), value.to(to)
            if attn_mask is not None and attn_mask.is_floating_point():
                attn_mask = attn_mask.to(to)
        if enable_gqa and query.shape[-3] != key.shape[-3]:
            n = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(n, -3), value.repeat_interleave(n, -3)
        backends = torch.backends.cuda
        half = query.dtype in (torch.float16, torch.bfloat16)
        if query.dim() == 4 and query.shape[-1] == value.shape[-1]:
            if backends.flash_sdp_enabled() and attn_mask is None and half and not old and query.shape[-1] <= 256:
                return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
            if backends.mem_efficient_sdp_enabled():
                if attn_mask is not None:
                    if attn_mask.dtype == torch.bool:
                        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
                    attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
                grad = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
                return aten._scaled_dot_product_efficient_attention(
                    query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale)[0]
        return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]

    functional.scaled_dot_product_attention = attention


def choose_convolution(torch):
    """Chooses a depthwise convolution's kernel where torch asks the driver: both lay their result out as its input."""
    select = getattr(torch._C, "_select_conv_backend", None)

    def backend(*a, **k):
        try:
            return select(*a, **k)
        except RuntimeError:  # supportsDepthwiseConvolutionWithCuDNN, which is of contiguous tensors
            return torch._C._ConvBackend.CudaDepthwise2d

    if select:
        torch._C._select_conv_backend = backend


def run_eagerly(torch):
    """torch.compile gives back what it was given: the trace is of the eager program, and says so."""
    def compile(model=None, *a, **k):
        TRACE.compiled = True
        return model if model is not None else (lambda f: f)

    torch.compile = compile
    torch.nn.Module.compile = lambda self, *a, **k: None
    torch.jit.script = lambda obj=None, *a, **k: obj if obj is not None else (lambda f: f)


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


# ---- the script -----------------------------------------------------------------------------------------------------

def place(e):
    """Where in the script, not in a library, an error arose."""
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        if not library(frame.filename) and frame.filename != __file__ and not frame.filename.startswith("<"):
            return "%s:%d" % (frame.filename, frame.lineno)
    return ""


def library(path):
    return "site-packages" in path or "/lib/python" in path


def without_assertions():
    """Compiles the project's own code as -O does: values are not there, so what it asserts of them may not hold.

    Libraries keep theirs, as Python's own -O would compile all of them anew: they have no byte code for it, and that
    takes longer than the trace. See again.
    """
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def code(self, name):
        path = self.get_filename(name)
        if library(path):
            return get_code(self, name)
        return compile(self.get_data(path), path, "exec", dont_inherit=True, optimize=1)

    loader.get_code = code
    runpy.compile = functools.partial(compile, optimize=1)  # of the script itself


def again():
    """Runs the script anew under -O: an assertion of a library has met a value that is not there."""
    emit("R")
    OUT.flush()
    request = os.memfd_create("request")
    os.write(request, json.dumps(REQUEST).encode())
    os.lseek(request, 0, os.SEEK_SET)
    os.dup2(request, 0)
    os.execv(sys.executable, [sys.executable, "-B", "-O", "-W", "ignore", __file__])


def run():
    kind, target = REQUEST["kind"], REQUEST["target"]
    without_assertions()
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
    mode, FakeTensor = counting(torch)
    answer_for_card(torch)
    answer_for_values(torch, FakeTensor)
    follow_modules(torch, FakeTensor)
    follow_training(torch, FakeTensor)
    shorten_data(torch)
    keep_states(torch)
    choose_attention(torch)
    choose_convolution(torch)
    run_eagerly(torch)
    spawn_here(torch)
    one_rank(torch)
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") is a move that the mode sees
    torch._C._ensureCUDADeviceGuardSet()
    ctypes.c_int.in_dll(nocard, "launch_devices").value = 64
    try:
        with mode:
            run()
        why, more = "the script ended", {}
    except Enough:
        why, more = "enough was seen", {}
    except SystemExit as e:
        why, more = "the script exited with %s" % (e.code if e.code is not None else 0), {}
    except BaseException as e:
        if isinstance(e, AssertionError) and not sys.flags.optimize:
            again()
        traceback.print_exc()
        why, more = "%s: %s" % (type(e).__name__, str(e)[:400]), {"place": place(e)}
    finish(why, compiled=TRACE.compiled, **more)


if __name__ == "__main__":
    main()
