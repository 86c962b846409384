# An own loop in mixed precision: GradScaler, accumulation, clipping, a schedule, an average of the weights, validation.
#: parameter = 6992       # (16·32 + 32 + 32·10 + 10)·4 = 3496, and the average as much
#: buffer = 0
#: gradient = 3496
#: state = 7008           # two of AdamW for each parameter, and four counters of 4 B: on the card, as fused has them
#: steps = 2×16 2×16 2×16 2×16
#: phases = training 8, validation 2
#: ends = enough was seen
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.rand(64, 16), torch.randint(0, 10, (64,)))
train, valid = DataLoader(data, 8, shuffle=True), DataLoader(data, 32)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).cuda()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=100)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(2):
    model.train()
    for i, (x, y) in enumerate(train):
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda()) / 2
        scaler.scale(loss).backward()
        if i % 2:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
            with torch.no_grad():
                for mine, other in zip(average.parameters(), model.parameters()):
                    mine.lerp_(other, 0.1)
            if torch.isfinite(norm) and scaler.get_scale() > 0:
                print("loss %.3f, norm %g" % (loss.item(), float(norm)))
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in valid:
            right += (average(x.cuda()).argmax(1) == y.cuda()).sum().item()
    print("right", right)
