# A size that the model has computed is not known, and so is what the training needs.
#: unknown-training = a size depends on values that are not there (
#: ends = the script ended
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(torch.rand(12, 8), 4):
    out = model(x.cuda())
    longest = out.argmax(-1).max().item()
    (out.sum() + torch.zeros(longest, 5, device="cuda").sum()).backward()
    optimizer.step()
