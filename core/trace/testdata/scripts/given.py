# A parameter on the CPU whose data is given to it on the card, as peft's OLoRA does: it is one on the card from then on.
#: parameter = 3072       # the network's 16·32·4 = 2048 and 32·8·4 = 1024
#: gradient = 3072
#: steps = 1×8 1×8 1×8
import torch
from torch import nn
from torch.utils.data import DataLoader

first = nn.Linear(16, 32, bias=False)
net = nn.Sequential(first, nn.Linear(32, 8, bias=False).cuda())
q, r = torch.linalg.qr(torch.rand(32, 16, device="cuda"))
first.weight.data = q.contiguous()
del q, r
scaled = 2 * first.weight.detach()
if first.weight.device.type != "cuda" or scaled.shape != (32, 16) or not isinstance(first.weight, nn.Parameter):
    raise SystemExit("it is %s on %s" % (type(first.weight), first.weight.device))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.rand(24, 16), 8):
    optimizer.zero_grad()
    net(x.cuda()).sum().backward()
    optimizer.step()
