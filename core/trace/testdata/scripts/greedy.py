# A greedy loop runs to its bound where that is known, whatever says that it may end earlier: three ways of writing it. The
# lengths of a batch are known, as they come from the CPU. A loop of epochs may end early.
#: steps = 1×4 1×4 1×4 1×4
#: validation = 1512      # by_flag: ids of 19 and of 20 tokens, 608 and 640; x, token, going 32 each; done, loss 4; ids of before 160
#: unknown-validation = no
#: unknown-training = no
#: phases = training 4, validation 2
#: ends = enough was seen
#: prints = long 9
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def following(ids):
    return model(ids[:, -1]).argmax(-1)


def by_flag(ids, most):
    going = torch.ones(len(ids), dtype=torch.long, device="cuda")
    finished = False
    while not finished:
        token = following(ids)
        ids = torch.cat([ids, token[:, None]], -1)
        done = torch.full((len(ids),), ids.shape[1] >= most, device="cuda") | (token == 3)
        going = going & ~done
        finished = over(going)
    return ids


def over(going):
    return bool(going.max() == 0)


def by_break(ids, most):
    for _ in range(most - ids.shape[1]):
        token = following(ids)
        ids = torch.cat([ids, token[:, None]], -1)
        if (token == 3).all():
            break
    return ids


def by_while(ids, most):
    going = torch.ones(len(ids), dtype=torch.bool, device="cuda")
    while going.any() and ids.shape[1] < most:
        token = following(ids)
        ids = torch.cat([ids, token[:, None]], -1)
        going &= token != 3
    return ids


def stop(loss):
    return bool(loss > 3)


for epoch in range(9):
    for x in DataLoader(torch.randint(0, 11, (40,)), 4):
        loss = model(x.cuda()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for x in DataLoader(torch.arange(1, 9), 4):
            x = x.cuda()[:, None]
            length = x.max().item()
            for loop in (by_flag, by_break, by_while):
                if loop(x, 20).shape != (4, 20):
                    raise ValueError("it stopped")
            ids = loop(x, 1 + length)
            if x.min().item() == 5:
                print("long", ids.shape[1])
    if stop(loss):
        break
