# A script without an optimizer changes its parameters itself, after a backward pass or after two.
#: steps = 2×8 2×8 2×8
#: phases = training 6, validation 2
#: parameter = 1088
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(16, 16).cuda()
with torch.no_grad():
    model.weight.uniform_(-0.1, 0.1)
for i, x in enumerate(DataLoader(torch.rand(64, 16), batch_size=4)):
    model(x.cuda()).square().mean().backward()
    if i % 2:
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
        model.zero_grad()
model.eval()
with torch.no_grad():
    for x in DataLoader(torch.rand(8, 16), batch_size=4):
        model(x.cuda())
