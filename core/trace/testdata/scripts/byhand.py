# A script without an optimizer changes its parameters itself, after two backward passes. Its loop is left, and not the one
# of the parameters.
#: steps = 2×8 2×8 2×8 2×8 2×8 2×8
#: phases = training 0, validation 0
#: parameter = 1088
import torch

model = torch.nn.Linear(16, 16).cuda()
with torch.no_grad():
    model.weight.uniform_(-0.1, 0.1)
data, seen = torch.rand(640, 16).cuda(), 0
for i in range(0, 640, 4):
    model(data[i:i + 4]).square().mean().backward()
    if i % 8:
        seen = 0
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
            seen += 1
        if seen != 2:
            raise SystemExit("%d parameters" % seen)
        model.zero_grad()
if i > 60:
    raise SystemExit("%d rounds" % i)
model.eval()
with torch.no_grad():
    for i in range(0, 8, 4):
        model(data[i:i + 4])
