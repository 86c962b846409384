# Loaders that are read ahead, one batch (as accelerate does) and all of a step (as Trainer does): what is not used is no
# sample of a step, and reading ahead is no validation.
#: parameter = 68         # (16 + 1)·4
#: steps = 3×12 3×12 3×12 3×12 # three micro-batches of four
#: phases = training 12, validation 3   # three steps, and one of the next epoch
#: held = 1028 1028 1028  # three inputs of 4·16·4 = 256 and the one ahead, the loss 4
#: ends = enough was seen
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(16, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def ahead(loader):
    batches = iter(loader)
    try:
        now = next(batches).cuda()
    except StopIteration:
        return
    for following in batches:
        following = following.cuda()
        yield now
        now = following
    yield now


def groups(loader, n):
    batches = ahead(loader)
    while True:
        group = [b for _, b in zip(range(n), batches)]
        if len(group) < n:
            return
        yield group


for epoch in range(4):
    model.train()
    for group in groups(DataLoader(torch.rand(200, 16), 4), 3):
        for x in group:
            model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for x in ahead(DataLoader(torch.rand(50, 16), 5)):
            model(x)
