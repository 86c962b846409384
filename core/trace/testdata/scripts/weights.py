# Weights of a hub that are not on this machine fit every module; here a module of the name of timm's stands for it, which
# makes another dictionary of them.
#: parameter = 360        # (8·10 + 10)·4
#: steps = 1×4 1×4 1×4
#: ends = the script ended
import os
import sys

import torch
from torch.utils.data import DataLoader

os.makedirs("lib/timm/models")
for name in ("lib/timm/__init__.py", "lib/timm/models/__init__.py"):
    open(name, "w").close()
with open("lib/timm/models/_hub.py", "w") as f:
    f.write("def load_state_dict_from_hf(name):\n    raise FileNotFoundError(name)\n")
sys.path.insert(0, "lib")
from timm.models._hub import load_state_dict_from_hf  # noqa: E402

model = torch.nn.Linear(8, 10)
weights = load_state_dict_from_hf("timm/resnet50d.a1_in1k")
model.load_state_dict({k: v for k, v in weights.items() if k in weights}, strict=True)
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(torch.rand(12, 8), 4):
    model(x.cuda()).sum().backward()
    optimizer.step()
