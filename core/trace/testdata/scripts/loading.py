# Files of tensors; a thread that brings batches to the card; a model that is too large for this machine; shapes that depend on
# values, which are as large as can be.
#: parameter = 40000000080   # 100000·100000 and (4·4 + 4), in float32
#: held = 484               # the batch, all its ten rows that are chosen, and what the layer makes of them: 160 each; the loss, 4
#: ends = the script ended
#: prints = torch.Size([10, 4]) torch.Size([40, 2]) True
import queue
import threading

import torch
from safetensors.torch import load_file, save_file

save_file({"weight": torch.rand(4, 4), "bias": torch.rand(4)}, "real.safetensors")
state = load_file("real.safetensors", device="cuda")
layer = torch.nn.Linear(4, 4).cuda()
layer.load_state_dict(state)
del state
save_file(layer.state_dict(), "traced.safetensors", {"format": "pt"})
assert load_file("traced.safetensors")["bias"].shape == (4,)
with torch.device("meta"):
    large = torch.nn.Linear(100000, 100000, bias=False)
large.to_empty(device="cuda")

batches = queue.Queue()
worker = threading.Thread(target=lambda: batches.put(torch.rand(10, 4).cuda()))
worker.start()
x = batches.get()
worker.join()
y = layer(x[x[:, 0] > 0.5])
print(y.shape, y.nonzero().shape, x.is_cuda)
y.square().sum().backward()
