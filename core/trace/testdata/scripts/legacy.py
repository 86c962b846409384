# Tensors as scripts of torch 0.4 make them, and weights that are not on this machine.
#: parameter = 520         # (16·8 + 2)·4: the weights that were asked for fit
#: steps = 1×4 1×4 1×4
#: held = 292              # the batch 4·16·4 = 256; the difference that the square keeps, 4·2·4 = 32; the loss, 4
#: prints = torch.cuda.FloatTensor True torch.Size([4, 2]) []
import numpy as np
import torch
from torch.autograd import Variable

Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(16, 8))
        self.bias = torch.nn.Parameter(Tensor([0, 0]))

    def forward(self, x):
        return x.mm(self.weight)[:, :2] + self.bias


net = Net().cuda()
state = torch.hub.load_state_dict_from_url("https://download.pytorch.org/models/none.pth")
del state["head.weight"]
net.load_state_dict(state["model"], strict=False)
found = torch.hub.list("pytorch/none")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    valid = Variable(Tensor(4, 2).fill_(1.0), requires_grad=False)
    x = Variable(torch.rand(4, 16).type(Tensor))
    difference = net(x) - valid
    noise = Tensor(np.random.normal(0, 1, valid.shape))
    print(valid.type(), isinstance(valid, torch.cuda.FloatTensor), noise.shape, found)
    del valid, noise
    loss = difference.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
