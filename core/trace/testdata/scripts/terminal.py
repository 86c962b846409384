# A script asks its terminal for its width as it is imported, and would read an answer: there is none.
#: phases = training 3
#: steps = 1×8 1×8 1×8
#: ends = the script ended
import os
import sys

import torch
from torch.utils.data import DataLoader

_, width = os.popen("stty size", "r").read().split()
if int(width) != 80:
    raise SystemExit("the terminal is %s wide" % width)
if os.isatty(0) and sys.stdin.read():
    raise SystemExit("something was typed")
try:
    input("go on? ")
    raise SystemExit("an answer was read")
except EOFError:
    pass
net = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in DataLoader(torch.rand(24, 16), 8):
    optimizer.zero_grad()
    net(x.cuda()).sum().backward()
    optimizer.step()
