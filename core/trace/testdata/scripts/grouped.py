# Keys and values of fewer heads (enable_gqa): FlashAttention takes them as they are, the memory-efficient kernel takes none,
# so that in float32 the plain computation is left.
# flash  query 2·4·64·32·2 = 32768, key and value 16384 each, the result 32768, the logarithm of a sum 2048, dropout's state
#        24, the sum of the result 2
# math   query 65536, key and value 32768 each; the scaled query, the repeated and scaled key, the repeated value 65536 each,
#        the weights 2·4·64·64·4 = 131072, the sum 4
#: held = 100378 458756
import torch
import torch.nn.functional as F


def step(dtype):
    with torch.device("cuda"):
        q, k, v = (torch.randn(2, heads, 64, 32, dtype=dtype, requires_grad=True) for heads in (4, 2, 2))
    torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).sum(), (q, k, v))


step(torch.bfloat16)
step(torch.float32)
