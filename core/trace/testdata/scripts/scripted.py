# TorchScript is left out: what is scripted or traced is the module itself, and its example is no sample.
#: parameter = 576        # 2·(8·8 + 8)·4
#: steps = 1×4 1×4 1×4
#: phases = training 3
#: prints = loaded 288
#: ends = the script ended
import torch
from torch import nn
from torch.utils.data import DataLoader


class Old(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    @torch.jit.script_method
    def forward(self, x):
        return self.linear(x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.old, self.traced = Old(), torch.jit.trace(nn.Linear(8, 8).cuda(), torch.rand(2, 8).cuda())

    def forward(self, x):
        return self.traced(self.old(x))


@torch.jit.script
def halved(x):
    return x * 0.5


model = torch.jit.script(Whole().cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(torch.rand(12, 8), 4):
    halved(model(x.cuda())).sum().backward()
    optimizer.step()
model.traced.save("traced.pt")
torch.jit.save(torch.jit.trace(model, torch.rand(4, 8).cuda()), "whole.pt")
print("loaded", sum(p.numel() * 4 for p in torch.jit.load("traced.pt", map_location="cuda").parameters()))
