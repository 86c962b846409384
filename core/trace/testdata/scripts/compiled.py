# torch.compile, of a module and of a function and as a decorator: the trace is of the eager program, and says so.
#: parameter = 1088       # (16·16 + 16)·4
#: compiled = true
#: steps = 1×4 1×4 1×4
#: ends = the script ended
import torch


@torch.compile
def loss_of(y):
    return y.square().mean()


@torch.compile(mode="reduce-overhead", fullgraph=True)
def twice(y):
    return 2 * y


model = torch.compile(torch.nn.Linear(16, 16).cuda(), dynamic=False)
other = torch.nn.Linear(16, 16)
other.compile()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
step = torch.compile(optimizer.step)
for _ in range(3):
    loss_of(twice(model(torch.rand(4, 16).cuda()))).backward()
    step()
    optimizer.zero_grad()
