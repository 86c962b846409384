# A critic that steps five times for each step of its generator, whose states come later than three steps: it is waited for.
#: parameter = 1344       # (8·16 + 16)·4 = 576 of the generator, (16·10 + 10 + 10·2 + 2)·4 = 768 of the critic
#: state = 2688           # two of Adam for each parameter
#: steps = 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 1×4 | 1×20 1×20 1×20   # five batches of four
#: phases = training 16, validation 2  # the last is the next epoch's
#: ends = enough was seen
import torch
from torch import nn
from torch.utils.data import DataLoader

gen = nn.Linear(8, 16).to("cuda")
critic = nn.Sequential(nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 2)).to("cuda")
g, c = torch.optim.Adam(gen.parameters()), torch.optim.Adam(critic.parameters())
for epoch in range(9):
    for i, real in enumerate(DataLoader(torch.rand(400, 16), 4)):
        made = gen(torch.randn(4, 8, device="cuda"))
        c.zero_grad()
        (critic(made.detach()).mean() - critic(real.cuda()).mean()).backward()
        c.step()
        if i % 5 == 4:
            g.zero_grad()
            (-critic(made).mean()).backward()
            g.step()
    gen.eval()
    with torch.no_grad():
        for real in DataLoader(torch.rand(40, 16), 8):
            critic(real.cuda())
    gen.train()
