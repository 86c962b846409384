# A model that is built where the card is the default device, and asks for values while it is built and while it runs, as
# transformers' masks of attention do: that all rows are whole is known, as they come from the CPU.
#: parameter = 4352       # (16·64 + 64)·4
#: phases = training 3
#: steps = 1×8 1×8 1×8
#: ends = the script ended
import os
import sys
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader

# transformers/utils/import_utils.py in small: of what it takes for traced it would ask no value
folder = tempfile.mkdtemp()
os.makedirs(os.path.join(folder, "transformers", "utils"))
for name in ("__init__", "utils/__init__", "utils/import_utils"):
    with open(os.path.join(folder, "transformers", name + ".py"), "w") as f:
        f.write("import torch\ndef is_fake_tensor(x): return isinstance(x, torch._subclasses.FakeTensor)\n")
sys.path.insert(0, folder)
from transformers.utils.import_utils import is_fake_tensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [x.item() for x in torch.linspace(0, 0.5, 3)]
        self.fc = nn.Linear(16, 64)

    def forward(self, x, mask):
        if not is_fake_tensor(mask) and mask.sum() == mask.numel():
            return self.fc(x)
        raise SystemExit("a row is padded")


with torch.device("cuda"):
    net = Net()
if net.rates != [0, 0.25, 0.5]:
    raise SystemExit("rates %s" % net.rates)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
rows = [(torch.rand(16), torch.ones(4, dtype=torch.long)) for _ in range(24)]
for x, mask in DataLoader(rows, 8):
    net(x.cuda(), mask.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
