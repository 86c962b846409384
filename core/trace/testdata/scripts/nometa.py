# An operator of its own that has a kernel for the card only: it is named, with its line.
#: ends = mine::twist
#: place = nometa.py:17
#: steps =
import torch


@torch.library.custom_op("mine::twist", mutates_args=(), device_types="cuda")
def twist(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("it was called")


model = torch.nn.Linear(4, 4).cuda()
y = model(torch.rand(2, 4).cuda())


y = twist(y)
y.sum().backward()
