"""What a card's kernels allocate, where torch has no shapes for it or asks the driver: a part of trace.py.

Each is chosen by torch's documented rules, and makes tensors that are not there of the sizes that the kernel's own have.
"""


def kernels(torch, capability, kind):
    """Puts them in the place of torch's own. capability is the first number of the card's; kind(t, "workspace") tells what
    a tensor is for. What is returned has to be kept as long as they are used."""
    choose_attention(torch, capability)
    choose_convolution(torch)
    recurrent(torch, kind)
    ctc(torch)
    return teach_shapes(torch)


def choose_attention(torch, capability):
    """Chooses the kernel of scaled_dot_product_attention by torch's documented rules: torch itself asks the driver."""
    functional, aten = torch.nn.functional, torch.ops.aten
    real = functional.scaled_dot_product_attention
    old = capability < 8

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if query.device.type != "cuda":
            more = {"enable_gqa": True} if enable_gqa else {}
            return real(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)
        if torch.is_autocast_enabled():
            to = torch.get_autocast_gpu_dtype()
            query, key, value = query.to(to), key.to(to), value.to(to)
            if attn_mask is not None and attn_mask.is_floating_point():
                attn_mask = attn_mask.to(to)
        backends = torch.backends.cuda
        half = query.dtype in (torch.float16, torch.bfloat16)
        if query.dim() == 4 and query.shape[-1] == value.shape[-1]:
            if backends.flash_sdp_enabled() and attn_mask is None and half and not old and query.shape[-1] <= 256:
                return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
            grouped = query.shape[-3] != key.shape[-3]  # heads, which this kernel does not know (can_use_mem_efficient_attention)
            if backends.mem_efficient_sdp_enabled() and not grouped:
                if attn_mask is not None:
                    if attn_mask.dtype == torch.bool:
                        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
                    attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
                grad = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
                return aten._scaled_dot_product_efficient_attention(
                    query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale)[0]
        more = {"enable_gqa": True} if enable_gqa else {}
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)[0]

    functional.scaled_dot_product_attention = attention


def scratch(torch):
    """What kernels make and free again beside their results, by operator: a function of its arguments."""
    aten = torch.ops.aten

    def product(grad, output, *a, **k):
        """The gradient times the output: softmax_backward_cuda_out in native/cuda/SoftMax.cu."""
        return torch.empty_like(output)

    def tiles(tokens, wide, wider):
        """The gradient of q in float32, in whole tiles, and the sum of each token's result times its gradient; where keys have
        fewer heads, the gradients of keys and values once for each head of q. mha_bwd in flash_attn/flash_api.cpp,
        workspace_elements_gq in mem_eff_attention/kernel_backward.h."""
        def made(grad, q, keys, *a, **k):
            channels = wide if q.shape[-1] <= 128 else wider
            up = [-(-n // of) * of for n, of in zip(q.shape[-2:], (tokens, channels))]
            bytes = 4 * q.shape[0] * q.shape[1] * up[0] * (up[1] + 1)
            if keys.shape[1] < q.shape[1]:
                bytes += 2 * q.shape[0] * q.shape[1] * keys.shape[2] * keys.shape[3] * keys.dtype.itemsize
            return q.new_empty(bytes, dtype=torch.uint8)
        return made

    def unreduced(input, target, reduction=1, *a, **k):
        """The loss of each element, before its mean or sum: mse_loss_out and others in native/Loss.cpp."""
        return torch.empty_like(input) if reduction else input.new_empty(0)

    losses = dict.fromkeys((aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default), unreduced)
    return {**losses, aten._softmax_backward_data.default: product,
            aten._scaled_dot_product_flash_attention_backward.default: tiles(128, 32, 64),
            aten._scaled_dot_product_efficient_attention_backward.default: tiles(64, 64, 64)}


def teach_shapes(torch):
    """Tells the shapes of what operators make that torch has for a card alone."""
    def per_channel(input):
        return input.new_empty(input.shape[1], dtype=torch.float32 if input.dtype.itemsize < 4 else input.dtype)

    shapes = {
        "batch_norm_stats": lambda input, eps: (per_channel(input), per_channel(input)),
        "batch_norm_gather_stats_with_counts": lambda input, *a: (per_channel(input), per_channel(input)),
        "batch_norm_elemt": lambda input, *a: torch.empty_like(input),
        "batch_norm_backward_reduce": lambda grad, input, mean, invstd, weight, *wanted: tuple(
            per_channel(input) if want else None for want in (wanted[0], wanted[0], wanted[1], wanted[2])),
        "batch_norm_backward_elemt": lambda grad, input, *a: torch.empty_like(input),
        "batch_norm_update_stats": lambda input, *a: (per_channel(input), per_channel(input)),
        "cudnn_grid_sampler": lambda input, grid: input.new_empty((*input.shape[:2], *grid.shape[1:3])),
        "cudnn_grid_sampler_backward": lambda input, grid, grad: (torch.empty_like(input), torch.empty_like(grid)),
        "cudnn_affine_grid_generator": lambda theta, n, c, h, w: theta.new_empty((n, h, w, 2)),
        "cudnn_affine_grid_generator_backward": lambda grad, n, c, h, w: grad.new_empty((n, 2, 3)),
        "_logcumsumexp": lambda input, dim: torch.empty_like(input),
        "_aminmax": lambda input: (input.new_empty(()), input.new_empty(())),
    }
    like_input = "multi_margin_loss_backward", "multilabel_margin_loss_backward", "fractional_max_pool3d_backward"
    shapes.update(dict.fromkeys(like_input, lambda grad, input, *a: torch.empty_like(input)))
    in_place = ("_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adagrad_", "_fused_adagrad_.tensor_lr",
                "_fused_adam_.tensor_lr", "_fused_adamw_.tensor_lr", "_cummax_helper", "_cummin_helper")
    shapes.update(dict.fromkeys(in_place, lambda *a, **k: None))
    library = torch.library.Library("aten", "IMPL")
    for name, shape in shapes.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "Meta"):
            library.impl(name, shape, "Meta")
    return library


GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
# What cuDNN keeps of each layer, step and sample, in sizes of the hidden state, and the outputs between the layers. LSTM
# and GRU: of 4 layers of 320, input 123, 250·100 = 25,000 steps and samples, it asked for 736,000,000 and 864,000,000
# bytes = 25,000·320·4·(5·4 + 3) and ·(6·4 + 3), and for workspaces of 17,730,560 and 13,169,920 = 4·(weights + 100·320·4·11
# and ·8); pytorch/pytorch issue 2895, comment of 2017-10-04, Tesla P100. RNN: taken from above. Other versions of cuDNN
# may ask for more or less, so it is a guess.
KEPT, WORK = {"lstm": 5, "gru": 6, "rnn_tanh": 2, "rnn_relu": 2}, {"lstm": 11, "gru": 8, "rnn_tanh": 4, "rnn_relu": 4}


def recurrent(torch, kind):
    """LSTM, GRU and RNN as cuDNN's kernels have them: each layer in one, with a reserve from forward to backward."""
    def guess(like, size):
        t = like.new_empty(size, dtype=torch.uint8)
        kind(t, "workspace")
        return t

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, name, x, hx, cx, steps, samples, layers, ways, first, dropout, keeps, *weights):
            hidden, out = weights[1].shape[0] // GATES[name], weights[1].shape[1]
            each = steps * hidden * ways * x.element_size()  # a hidden state of each step and sample, in both ways
            work = sum(w.numel() for w in weights) * x.element_size() + samples * hidden * layers * ways * WORK[name] * x.element_size()
            flat = x.transpose(0, 1).contiguous() if first else x.contiguous()
            y = flat.new_empty((*flat.shape[:-1], out * ways))
            hy, cy = torch.empty_like(hx), torch.empty_like(cx if cx is not None else hx)
            between = each * (layers - 1) * (2 if dropout else 1)
            if keeps:
                reserve = guess(x, each * KEPT[name] * layers + between)
                work_now = guess(x, work)
            else:  # the gates of all steps of one layer
                reserve, work_now = None, guess(x, work + each * (GATES[name] + 1))
            del work_now
            y = y.transpose(0, 1) if first else y
            ctx.name, ctx.first, ctx.work, ctx.given = name, first, work, cx is not None
            ctx.save_for_backward(x, hx, cx, y, reserve, *weights)
            return (y, hy, cy) if cx is not None else (y, hy)

        @staticmethod
        def backward(ctx, dy, *dh):
            x, hx, cx, y, reserve, *weights = ctx.saved_tensors
            flat = x.transpose(0, 1).contiguous() if ctx.first else x.contiguous()
            dy = dy.transpose(0, 1).contiguous() if ctx.first else dy.contiguous()
            work = guess(x, ctx.work)
            dx = torch.empty_like(flat) if ctx.needs_input_grad[1] else None
            del work
            work, dw, at, grads = guess(x, ctx.work), x.new_zeros(sum(w.numel() for w in weights)), 0, []
            for w in weights:
                grads.append(dw[at:at + w.numel()].view(w.shape))
                at += w.numel()
            del work, flat, dy
            dx = dx.transpose(0, 1) if ctx.first and dx is not None else dx
            return (None, dx, torch.empty_like(hx), torch.empty_like(cx) if cx is not None else None, *[None] * 7, *grads)

    def kernel(name, real):
        def run(input, *a):
            if input.device.type != "cuda" or not torch.backends.cudnn.enabled:
                return real(input, *a)
            packed = isinstance(a[3], bool)  # sizes of the batches, hx, weights, bias, … and not hx, weights, bias, layers, …
            hx, weights, _, layers, dropout, training, both = a[1:8] if packed else a[:7]
            first = not packed and a[7]
            state = list(hx) if isinstance(hx, (list, tuple)) else [hx, None]
            cast = lambda t: t
            if torch.is_autocast_enabled():
                cast = lambda t: None if t is None else t.to(torch.get_autocast_gpu_dtype())
            steps = input.shape[0] if packed else input.shape[0] * input.shape[1]
            weights, samples = [cast(w) for w in weights], state[0].shape[1]
            keeps = torch.is_grad_enabled() and any(t.requires_grad for t in (input, *weights))
            return Kernel.apply(name, cast(input), *map(cast, state), steps, samples, layers, 2 if both else 1, first,
                                training and dropout > 0, keeps, *weights)
        return run

    torch.nn.RNNBase.flatten_parameters = lambda self: None  # into one storage of the same size
    for name in GATES:
        setattr(torch._VF, name, kernel(name, getattr(torch._VF, name)))


def ctc(torch):
    """The CTC loss on a card: its table of the targets' extended lengths is kept, and has another beside it in backward."""
    real = torch.ctc_loss

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, log_probs, batch, longest):
            table = log_probs.new_empty((batch, log_probs.shape[0], 2 * longest + 1))
            ctx.save_for_backward(log_probs, table)
            return log_probs.new_empty(batch)

        @staticmethod
        def backward(ctx, grad):
            log_probs, table = ctx.saved_tensors
            beta = torch.empty_like(table)
            out = torch.empty_like(log_probs)
            del beta
            return out, None, None

    def longest(targets, lengths):
        """The longest target, or what none can be longer than."""
        if isinstance(lengths, (list, tuple)):
            return max(lengths, default=0)
        if lengths.device.type == "cpu":
            return int(lengths.max())
        return targets.shape[1] if targets.dim() == 2 else targets.numel()

    def loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
        if log_probs.device.type != "cuda":
            return real(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
        if log_probs.dtype in (torch.float16, torch.bfloat16):
            log_probs = log_probs.float()
        batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
        out = Loss.apply(log_probs, batch, longest(targets, target_lengths))
        if zero_infinity:
            out = torch.where(out == float("inf"), torch.zeros_like(out), out)
        if reduction == 1:
            return (out / torch.ones_like(out)).mean()
        return out.sum() if reduction == 2 else out

    torch.ctc_loss = loss


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
