# A validation of more batches of uneven shapes than are read is cut short, and not known.
#: unknown-validation = it was cut short after 64 batches, whose shapes differ
#: unknown-training = no
#: ends = enough was seen
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def validate(data):
    with torch.no_grad():
        for x in DataLoader(data, None):
            model(x.cuda())


for epoch in range(3):
    for x in DataLoader(torch.rand(8, 8), 4):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
    validate([torch.rand(10 * i, 8) for i in range(1, 90)])
