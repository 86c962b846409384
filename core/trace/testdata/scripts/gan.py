# Two networks and two optimizers: the step is done when both have stepped.
#: parameter = 12804      # (8·64 + 64 + 64·32 + 32)·4 = 10624 of the generator, (32·16 + 16 + 16 + 1)·4 = 2180
#: steps = 1×4 1×4 1×4 | 1×4 1×4 1×4   # of each optimizer: the same four, however often the discriminator is called
#: state = 25608          # two of Adam for each parameter, and its counters stay on the CPU
#: phases = training 3
import torch
from torch import nn
from torch.utils.data import DataLoader

gen = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32)).to("cuda")
dis = nn.Sequential(nn.Linear(32, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to("cuda")
g, d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(dis.parameters())
for real in DataLoader(torch.rand(40, 32), 4, drop_last=True):
    real = real.to("cuda")
    noise = torch.randn(4, 8, device="cuda")
    fake = gen(noise)
    d.zero_grad()
    loss = nn.functional.softplus(-dis(real)).mean() + nn.functional.softplus(dis(fake.detach())).mean()
    loss.backward()
    d.step()
    g.zero_grad()
    nn.functional.softplus(-dis(fake)).mean().backward()
    g.step()
