# A state is saved, loaded to the card and gone on from; a file of another run is read; values are written as text.
#: parameter = 3496       # (16·32 + 32 + 32·10 + 10)·4
#: steps = 1×4 1×4 1×4 1×4 1×4 1×4
#: phases = training 6
#: ends = enough was seen
#: prints = went on at 3
import io
import json
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.save({"weight": torch.rand(3, 3), "epoch": 7}, "old.pt", _use_new_zipfile_serialization=False)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
device = torch.device("cuda:0")
model.to(device)
optimizer = torch.optim.Adam(model.parameters())


def epoch(start):
    for i, x in enumerate(DataLoader(torch.rand(40, 16), 4), start):
        loss = model(x.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with open("log.jsonl", "a") as f:
        f.write(json.dumps({"loss": loss.item(), "all": loss.detach().cpu().numpy().tolist()}) + "\n")
    return i + 1


done = epoch(0)
os.makedirs("run/checkpoints", exist_ok=True)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": done}, "run/checkpoints/last.pt")
assert os.path.getsize("run/checkpoints/last.pt") > 0
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
state = torch.load(buffer, map_location=device)
state = torch.load("run/checkpoints/last.pt", map_location="cuda", weights_only=True)
print("went on at", state["step"])
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
np.save("weights.npy", model[0].weight.detach().cpu().numpy())
epoch(state["step"])
