# A validation that fails after its first batch is not known, and the reason is told.
#: unknown-validation = it was cut short: ValueError: no metric (
#: unknown-training = no
#: steps = 1×4 1×4
#: place = failing.py:18
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(torch.rand(8, 8), 4):
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
with torch.no_grad():
    for x in DataLoader(torch.rand(40, 8), 4):
        y = model(x.cuda())
        raise ValueError("no metric")
