# A validation whose batches differ in shape: where it is short enough it is seen to its end, and its largest counts.
#: unknown-validation = no
#: validation = 4000      # of the last, 100 samples of 8: 100·8·4 = 3200, and what comes of it, 100·2·4 = 800
#: phases = training 4, validation 10
#: ends = enough was seen
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    for x in DataLoader(torch.rand(40, 8), 4):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
    with torch.no_grad():
        for x in DataLoader([torch.rand(10 * i, 8) for i in range(1, 11)], None):
            y = model(x.cuda())
            del y
