"""What PyTorch itself keeps and needs: tensors saved for backward, by storage, and the peak of live bytes.

Only tensors that pass the dispatcher are seen, so a kernel's own scratch memory is not. On the "meta" device the
shapes, types and lifetimes are those of a real run, and nothing is computed.
"""

import contextlib
import gc
import math
import sys
import weakref

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# The lists of aten/src/ATen/autocast_mode.h for CUDA (2.15), under the names that Python calls.
LOW = {
    "conv1d", "conv2d", "conv3d", "conv_transpose2d", "prelu", "addmm", "matmul", "__matmul__", "__rmatmul__",
    "einsum", "mm", "mv", "linear", "addbmm", "baddbmm", "bmm", "scaled_dot_product_attention",
}
FULL = {
    "exp", "log", "log10", "log2", "reciprocal", "rsqrt", "pow", "__pow__", "__rpow__", "softplus", "layer_norm",
    "group_norm", "rms_norm", "cosine_similarity", "nll_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss",
    "mse_loss", "square", "binary_cross_entropy_with_logits", "cdist", "logsumexp", "prod", "softmax", "log_softmax",
    "cumprod", "cumsum", "norm", "vector_norm", "sum", "interpolate", "upsample_nearest2d",
    "upsample_bilinear2d", "upsample_bicubic2d", "acos", "asin", "cosh", "tan", "sinh", "expm1", "log1p",
}
# Of these, what names a dtype of its own is left alone (AT_FORALL_FP32_SET_OPT_DTYPE).
SET_DTYPE = {"prod", "softmax", "log_softmax", "cumprod", "cumsum", "vector_norm", "sum"}
PROMOTE = {"atan2", "grid_sample", "cross", "dot", "vdot", "tensordot"}


def width(dtype):
    return torch.finfo(dtype).bits if dtype.is_floating_point else torch.iinfo(dtype).bits


class CudaAutocast(TorchFunctionMode):
    """torch.autocast("cuda") by its lists, on any device, with its cache of weight copies."""

    def __init__(self, low=torch.bfloat16):
        super().__init__()
        self.low, self.cache, self.on = low, {}, True

    def cast(self, x, dtype):
        if isinstance(x, torch.Tensor):
            if not x.is_floating_point() or x.dtype == dtype:
                return x
            # Of a view that no_grad has made, too, PyTorch says that it is a leaf and requires a gradient (spectral_norm's
            # weight_mat.t()); cached_cast in autocast_mode.cpp keeps the copy of none.
            if dtype == self.low and x.is_leaf and x.requires_grad and not x._is_view():
                if id(x) not in self.cache:
                    self.cache[id(x)] = x.to(dtype)
                return self.cache[id(x)]
            return x.to(dtype)
        if isinstance(x, (list, tuple)):
            return type(x)(self.cast(y, dtype) for y in x)
        return x

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        dtype = None
        if self.on and name == "normalize":
            return normalize(*args, **kwargs)
        if self.on and not (name in SET_DTYPE and kwargs.get("dtype")):
            if name in LOW:
                dtype = self.low
            elif name in FULL:
                dtype = torch.float32
            elif name in PROMOTE:
                dtype = max((a.dtype for a in args if isinstance(a, torch.Tensor)), key=width)
        if dtype is not None:
            args = tuple(self.cast(a, dtype) for a in args)
            kwargs = {k: self.cast(v, dtype) for k, v in kwargs.items()}
        return func(*args, **kwargs)


def normalize(x, p=2.0, dim=1, eps=1e-12, out=None):
    """F.normalize under autocast: on no list itself, it calls vector_norm, which is told float32 and makes no copy. What
    spectral_norm keeps is written to, never replaced."""
    denom = torch.linalg.vector_norm(x, p, dim, keepdim=True, dtype=torch.float32).clamp_min(eps).expand_as(x)
    return torch.div(x, denom, out=out)


class FusedAttention(torch.autograd.Function):
    """What a fused attention kernel saves, without one: q, k, v, the result, and the log-sum-exp in float32."""

    @staticmethod
    def forward(ctx, q, k, v):
        b, h, n, d = q.shape
        out = torch.empty(b, n, h, v.shape[-1], dtype=q.dtype, device=q.device).transpose(1, 2)
        if q.dtype != torch.float32:  # FlashAttention's is laid out as q (mha_fwd in native/transformers/cuda/flash_attn/flash_api.cpp)
            out = torch.empty_like(q)
        lse = torch.empty(b, h, n, dtype=torch.float32, device=q.device)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, _out, _lse = ctx.saved_tensors
        return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


class BiasedAttention(torch.autograd.Function):
    """What the memory-efficient kernel saves with a mask: the expanded view of it, too. Its gradient is of that size."""

    @staticmethod
    def forward(ctx, q, k, v, bias):
        b, h, n, d = q.shape
        out = torch.empty(b, n, h, v.shape[-1], dtype=q.dtype, device=q.device).transpose(1, 2)
        lse = torch.empty(b, h, n, dtype=torch.float32, device=q.device)
        ctx.save_for_backward(q, k, v, bias, out, lse)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, bias, _out, _lse = ctx.saved_tensors
        return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v, bias))


def fused_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    if attn_mask is None:
        return FusedAttention.apply(q, k, v)
    if not torch.backends.cuda.math_sdp_enabled():  # under sdpa_kernel(…): the kernel that takes a mask
        return BiasedAttention.apply(q, k, v, attn_mask.expand(*q.shape[:-1], k.shape[-2]))
    s = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    return ((q * math.sqrt(s)) @ (k * math.sqrt(s)).transpose(-2, -1) + attn_mask).softmax(-1) @ v


def patch_attention():
    """Makes F.scaled_dot_product_attention save what the fused kernels save on CUDA, which want four dimensions
    (check_tensor_shapes in native/transformers/sdp_utils_cpp.h): of others PyTorch itself computes the plain form."""
    real = F.scaled_dot_product_attention

    def sdpa(q, k, v, *args, **kwargs):
        for mode in reversed(ACTIVE):
            if mode.on:
                q, k, v = mode.cast((q, k, v), mode.low)
                if not torch.backends.cuda.math_sdp_enabled():
                    kwargs["attn_mask"] = mode.cast(kwargs.get("attn_mask"), mode.low)
        if q.dim() != 4:
            return real(q, k, v, *args, **kwargs)
        return fused_attention(q, k, v, *args, **kwargs)

    F.scaled_dot_product_attention = sdpa


class FlexAttention(torch.autograd.Function):
    """What a compiled flex_attention saves: q, k, v, what the score's function has captured, the result, and the
    log-sum-exp in float32."""

    @staticmethod
    def forward(ctx, q, k, v, *captured):
        out = torch.empty_like(q)
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        ctx.save_for_backward(q, k, v, out, lse, *captured)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, out, _lse, *captured = ctx.saved_tensors
        delta = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)  # noqa: F841 (of the result and its gradient)
        return (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), *(torch.empty_like(c) for c in captured))


def patch_flex_attention():
    """Makes torch.compile(flex_attention) what the compiled kernel is to memory, where nothing can be compiled."""
    try:
        from torch.nn.attention.flex_attention import flex_attention
    except ImportError:  # before 2.5
        return

    def flex(q, k, v, score_mod=None):
        captured = [c.cell_contents for c in score_mod.__closure__ or ()] if score_mod else []
        return FlexAttention.apply(q, k, v, *(c for c in captured if isinstance(c, torch.Tensor)))

    real = torch.compile
    torch.compile = lambda f=None, **kwargs: flex if f is flex_attention else real(f, **kwargs)


class FusedRMSNorm(torch.autograd.Function):
    """What the fused kernel of rms_norm saves, which only CUDA has: the input, the weight, the inverse root in float32."""

    @staticmethod
    def forward(ctx, x, weight):
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        rstd = torch.empty(*x.shape[:-1], 1, dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, rstd)
        return out

    @staticmethod
    def backward(ctx, g):
        x, weight, _rstd = ctx.saved_tensors
        g = g.contiguous()
        return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty_like(weight)


def patch_rms_norm():
    """Makes F.rms_norm over the last dimension save what its fused kernel saves on CUDA."""

    def rms_norm(x, normalized_shape, weight=None, eps=None):
        for mode in reversed(ACTIVE):
            if mode.on:
                x, weight = mode.cast((x, weight), torch.float32)
        return FusedRMSNorm.apply(x, weight)

    F.rms_norm = rms_norm


def patch_convolution():
    """Makes convolutions on "meta" keep channels last, as cuDNN does; there they always come out contiguous."""
    from torch._meta_registrations import meta_conv
    from torch._prims_common import suggest_memory_format

    def convolution(x, w, *args):
        y = meta_conv(x, w, *args)
        return torch.empty_like(y, memory_format=suggest_memory_format(x)) if x.dim() == 4 else y

    LIBRARY.impl("convolution", convolution, "Meta", allow_override=True)


def patch_mish():
    """Refuses mish on "meta", where its derivative is put together from ten operations: a real device has one kernel."""
    real = F.mish

    def mish(x, inplace=False):
        if x.is_meta:
            raise NotImplementedError("on meta mish has no derivative of its own: record on the CPU")
        return real(x, inplace=inplace)

    F.mish = mish


def patch_checkpoint():
    """Makes activation checkpointing recompute under the emulated autocast, as it does under the real one. PyTorch
    before 2.1 has no place to say so; there the rows with both fail and are left out."""
    real = torch.utils.checkpoint.checkpoint

    def checkpoint(f, *args, **kwargs):
        if ACTIVE and not kwargs.get("use_reentrant", True) and hasattr(torch.utils.checkpoint, "noop_context_fn"):
            low = ACTIVE[-1].low
            kwargs["context_fn"] = lambda: (contextlib.nullcontext(), Amp(True, low))
        elif ACTIVE and kwargs.get("use_reentrant", True):
            return real(again(f, ACTIVE[-1].low), *args, **kwargs)
        return real(f, *args, **kwargs)

    def again(f, low):  # which the backward calls, where no mode is active
        def call(*args, **kwargs):
            with Amp(not ACTIVE, low):
                return f(*args, **kwargs)

        return call

    torch.utils.checkpoint.checkpoint = checkpoint
    held = sys.modules.get("transformers.modeling_utils")
    if getattr(held, "checkpoint", None) is real:  # by its own name, since 5.24
        held.checkpoint = checkpoint


LIBRARY = torch.library.Library("aten", "IMPL")  # what is registered goes with it
ACTIVE = []  # CudaAutocast modes that have been entered


def storage(t):
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()


def key(t):
    return storage(t)._cdata


def nbytes(t):
    return storage(t).nbytes()


class Live(TorchDispatchMode):
    """The bytes of live storages on one device, and their peak. What a network computes on the CPU before it moves it
    there, such as attention masks, is not in it."""

    def __init__(self, exclude, device):
        super().__init__()
        self.device = device
        self.exclude, self.live, self.now, self.peak, self.op = exclude, {}, 0, 0, ""
        self.largest, self.largest_op = 0, ""

    def track(self, t, op):
        k, n = key(t), nbytes(t)
        if k in self.exclude or n == 0 or t.device.type != self.device:
            return
        entry = self.live.setdefault(k, [n, 0])
        entry[1] += 1
        if entry[1] == 1:
            self.now += n
            if n > self.largest:
                self.largest, self.largest_op = n, op
            if self.now > self.peak:
                self.peak, self.op = self.now, op
        weakref.finalize(t, self.drop, k)

    def drop(self, k):
        entry = self.live[k]
        entry[1] -= 1
        if entry[1] == 0:
            self.now -= entry[0]
            del self.live[k]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        stack = [out]
        while stack:
            o = stack.pop()
            if isinstance(o, torch.Tensor):
                self.track(o, str(func))
            elif isinstance(o, (list, tuple)):
                stack.extend(o)
        return out


def fixed(model):
    return {key(p) for p in model.parameters()} | {key(b) for b in model.buffers()}


def count(model):
    return (
        sum(p.numel() for p in model.parameters()),
        sum(b.numel() for b in model.buffers()),
    )


class Amp:
    """with Amp(on) as mode: the autocast emulation, or nothing."""

    def __init__(self, on, low=torch.bfloat16):
        self.mode = CudaAutocast(low) if on else None

    def __enter__(self):
        if self.mode:
            self.mode.__enter__()
            ACTIVE.append(self.mode)
        return self.mode

    def __exit__(self, *exc):
        if self.mode:
            ACTIVE.pop()
            self.mode.__exit__(*exc)


def saved(model, xs, amp, forward=None):
    """Bytes of storages that the graph holds after the forward, without parameters, buffers and inputs; then those of
    them that are weight copies; then the largest shapes."""
    model.train()
    exclude = fixed(model) | {key(x) for x in xs}
    seen, nodes = {}, {}

    class Packed:  # what one node holds of one tensor, as long as there is that node
        def __init__(self, t):
            self.t = t.detach()  # a result would hold its own node otherwise

    def drop(k):
        nodes[k] -= 1
        if nodes[k] == 0:
            del seen[k]

    def pack(t):
        p = Packed(t)
        if key(t) not in exclude and t.device == xs[0].device:  # an index made on the CPU stays there
            seen.setdefault(key(t), (nbytes(t), tuple(t.shape), str(t.dtype)))
            nodes[key(t)] = nodes.get(key(t), 0) + 1
            weakref.finalize(p, drop, key(t)).atexit = False
        return p

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda p: p.t), Amp(amp) as mode:
        y = (forward or model)(*xs)
    casts = {key(w) for w in mode.cache.values()} if mode else set()
    cast = sum(v[0] for k, v in seen.items() if k in casts)
    top = sorted((v for k, v in seen.items() if k not in casts), reverse=True)
    total = sum(v[0] for v in top)
    del y
    return total, cast, top


def train_peak(model, xs, amp, forward=None):
    """The peak of live bytes of forward, mean absolute value and backward, without parameters and inputs."""
    model.train()
    for p in model.parameters():
        p.grad = None
    gc.collect()
    gc.disable()
    live = Live(fixed(model) | {key(x) for x in xs}, xs[0].device.type)

    def pack(t):
        t = t.detach()  # a result would hold its own node otherwise
        live.track(t, "saved")
        return t

    with live:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            with Amp(amp) as mode:
                y = (forward or model)(*xs)
            if mode:
                mode.cache.clear()
            loss = y.abs().mean()
        loss.backward()
    gc.enable()
    for p in model.parameters():
        p.grad = None
    return live.peak, live.op


def eval_peak(model, xs, amp, forward=None):
    """The peak of live bytes of a forward without a graph, whose parameters require none, as in an EMA copy."""
    model.eval()
    wanted = [p for p in model.parameters() if p.requires_grad]
    # A module that computes its weights anew in eval (Conv3XC) lets the old ones go, whose keys others would then get.
    kept = [p.detach() for p in model.parameters()]  # noqa: F841
    for p in wanted:
        p.requires_grad_(False)
    if any(hasattr(m, "params_updated") for m in model.modules()):  # which does so in the first forward
        with torch.no_grad():
            (forward or model)(*xs)
        kept += [p.detach() for p in model.parameters()]
    gc.collect()
    with torch.no_grad(), Live(fixed(model) | {key(x) for x in xs}, xs[0].device.type) as live, Amp(amp):
        y = (forward or model)(*xs)
    del y
    for p in wanted:
        p.requires_grad_(True)
    return live.peak, live.largest, live.largest_op
