"""Writes a saved state in the form of facebookresearch/moco's, with a small queue: checkpoint.py OUT.

Run by torch 1.13 (Debian's) for checkpoint_113.pth.tar and by 2.15 for checkpoint_215.pth.tar, 2026.
"""
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Module()
        self.module.encoder_q = nn.Linear(4, 8)
        self.module.register_buffer("queue", torch.randn(8, 64))
        self.module.register_buffer("queue_ptr", torch.tensor([24]))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.03, momentum=0.9)
net.module.encoder_q(torch.ones(1, 4)).sum().backward()
optimizer.step()
state = {"epoch": 3, "arch": "resnet50", "state_dict": net.state_dict(), "optimizer": optimizer.state_dict()}
torch.save(state, sys.argv[1])
