# A loss of squares is first that of each element, 512·512·4 = 1048576, beside the two that are compared; the mean has 4.
# Without a reduction the loss is that of each element itself, and nothing is beside it.
#: most = 3145732
import torch

x, y = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
z = torch.nn.functional.mse_loss(x, y)
del z
torch.nn.functional.mse_loss(x, y, reduction="none")
