# Softmax's kernel makes the product of gradient and result in backward, which it frees again: x, its softmax, the gradient,
# that product and the result of backward, 512·512·4 = 1048576 each.
#: most = 5242880
import torch

x = torch.randn(512, 512, device="cuda", requires_grad=True)
y = x.softmax(-1)
torch.autograd.grad(y, x, torch.ones_like(y))
