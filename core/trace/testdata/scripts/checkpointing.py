# Activation checkpointing: what is held at the backward pass is the input of each block, not what it makes.
#: parameter = 25344      # six of (32·32 + 32)·4
#: held = 12292           # x and the inputs of the other two blocks, 32·32·4 = 4096 each, and the loss, 4
#: steps = 1×32 1×32 1×32
#: ends = the script ended
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)) for _ in range(3)).cuda()
optimizer = torch.optim.SGD(blocks.parameters(), 0.1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = blocks

    def forward(self, x, reentrant):
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=reentrant)
        return x


net = Net()
for reentrant in (False, True, False):
    x = torch.rand(32, 32, device="cuda", requires_grad=True)
    net(x, reentrant).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
