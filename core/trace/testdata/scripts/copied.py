# A network that is copied and trained: its weight is one tensor, however it is looked at, and what shares its storage in the
# network shares it in the copy.
# The batch 8·64·4 = 2048, what the first layer gives 8·32·4 = 1024 and the second 8·16·4 = 512 (the sum keeps none of it,
# the name y does), the loss 4.
#: parameter = 20480      # (64·32 + 32·16)·4 = 10240, of the network and of its copy
#: gradient = 10240
#: held = 3588 3588 3588
#: steps = 1×8 1×8 1×8
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader

first = nn.Sequential(nn.Linear(64, 32, bias=False), nn.Linear(32, 16, bias=False)).cuda()
first[0].shown = first[0].weight.data
net = copy.deepcopy(first)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.rand(24, 64), 8):
    x = x.cuda()
    y = net(x)
    loss = y.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del x, y, loss
