# Loops whose length depends on values that are not there: what their phase needs is not known, and the training is.
#: unknown-validation = the length of a loop depends on values that are not there (
#: unknown-training = no
#: steps = 1×4 1×4 1×4 1×4
#: phases = training 4, validation 2
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def beams(x, most):
    ids, finished = x[:, None].expand(4, 3)[..., None], False
    while going(finished):
        scores = model(ids[..., -1]).log_softmax(-1)
        ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], -1)
        finished = not open_ones(scores, ids, most)
    return ids


def going(finished):
    if finished:
        return False
    return True


def open_ones(scores, ids, most):
    return torch.any(scores > -1) & ~torch.all(torch.full((4,), ids.shape[-1] >= most, device="cuda"))


for epoch in range(9):
    for x in DataLoader(torch.randint(0, 11, (40,)), 4):
        loss = model(x.cuda()).sum()
        optimizer.zero_grad()
        loss.backward()
        if torch.isnan(loss):
            break
        optimizer.step()
    with torch.no_grad():
        for x in DataLoader(torch.arange(1, 9), 4):
            beams(x.cuda(), 20)
