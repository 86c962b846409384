# scaled_dot_product_attention holds what its kernel keeps. Query, key, value and result have 2·4·64·32·2 = 32768 each; the
# mask, which is there throughout, 64·64·2 = 8192; the sum of the result 2.
# flash       query, key, value, result; the logarithm of a sum in float32, 2·4·64·4 = 2048; dropout's state, 24
# efficient   the same, with 16 for dropout's state
# math        in float32: query, key, both scaled, and value, 65536 each; the weights, 2·4·64·64·4 = 131072
#: held = 141338 141330 141330 434178
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

shape = (2, 4, 64, 32)
qkv = [torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(3)]
mask = torch.zeros(64, 64, device="cuda", dtype=torch.float16)


def grads(**how):
    torch.autograd.grad(F.scaled_dot_product_attention(*qkv, **how).sum(), qkv)


grads(is_causal=True)
grads(attn_mask=mask)
with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
    grads()
with sdpa_kernel([SDPBackend.MATH]):
    grads()
