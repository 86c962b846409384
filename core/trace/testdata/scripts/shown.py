# The generator steps before its discriminator sees the same batch, and samples of another loader are shown in between,
# with gradients and in training mode: neither is more samples of a step.
#: steps = 1×4 1×4 1×4 1×4 1×4 1×4 | 1×4 1×4 1×4 1×4 1×4 1×4
#: ends = enough was seen
import torch
from torch import nn
from torch.utils.data import DataLoader

gen = nn.Linear(8, 8).to("cuda")
dis = nn.Linear(8, 1).to("cuda")
g, d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(dis.parameters())
other = DataLoader(torch.rand(50, 8), 10)
for epoch in range(9):
    for x in DataLoader(torch.rand(40, 8), 4):
        x = x.to("cuda")
        made = gen(x)
        g.zero_grad()
        (-dis(made).mean()).backward()
        g.step()
        d.zero_grad()
        (dis(made.detach()).mean() - dis(x).mean()).backward()
        d.step()
        shown = gen(next(iter(other)).to("cuda"))
