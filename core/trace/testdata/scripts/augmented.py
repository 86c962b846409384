# A network on the CPU that changes the data is no pass through what is trained; neither is the loss.
#: phases = training 3
#: steps = 1×8 1×8 1×8
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

blur = nn.Conv1d(1, 1, 3, padding=1, bias=False)


class Blurred(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        with torch.no_grad():
            return blur(torch.rand(1, 16))[0]


with torch.no_grad():
    blur(torch.rand(1, 16))
net = nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(Blurred(), 8):
    net(x.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
blur(torch.rand(1, 16))
