# Of keys with fewer heads FlashAttention's backward makes the gradients once for each head of the query, two times
# 2·4·100·24·2 = 38400, beside what scratch.py has, 135168. Query, the result, its gradient and the query's have 38400 each, keys,
# values and their gradients 19200 each; the logarithm of a sum 3200, dropout's state 24.
#: most = 445592
import torch
import torch.nn.functional as F

q, k, v = (torch.randn(2, n, 100, 24, device="cuda", dtype=torch.bfloat16, requires_grad=True) for n in (4, 2, 2))
y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
torch.autograd.grad(y, (q, k, v), torch.ones_like(y))
