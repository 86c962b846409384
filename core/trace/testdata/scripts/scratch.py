# FlashAttention's backward accumulates the query's gradient in float32, in tiles of 128 tokens and 32 channels: 2·4·128·32·4
# = 131072, and a float32 for each token, 2·4·128·4 = 4096. Query, key, value, the result, its gradient and the gradients
# have 2·4·100·24·2 = 38400 each, eight in all; the logarithm of a sum 2·4·100·4 = 3200, dropout's state 24.
#: most = 445592
import torch
import torch.nn.functional as F

q, k, v = (torch.randn(2, 4, 100, 24, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
y = F.scaled_dot_product_attention(q, k, v)
torch.autograd.grad(y, (q, k, v), torch.ones_like(y))
