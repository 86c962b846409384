"""Trains a small network on random data: python3 train_net.py --batch 64 --width 256"""

import argparse
import glob
import os

import torch
from model import Net
from torch.nn.functional import cross_entropy

parser = argparse.ArgumentParser()
parser.add_argument("--batch", "-b", type=int, default=64)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--tokens", type=int, default=64, help="rows of one sample")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--resume")
args = parser.parse_args()

torch.manual_seed(0)
net = Net(args.width, args.depth)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
first = 0
if args.resume:
    state = torch.load(args.resume)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
    print(f"resumed at step {first}", flush=True)
print(f"batch {args.batch}, accumulation {args.accumulate}", flush=True)
os.makedirs("out", exist_ok=True)
for step in range(first + 1, args.steps + 1):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(args.accumulate):
        x = torch.randn(args.batch, args.tokens, 64)
        y = torch.randint(100, (args.batch * args.tokens,))
        loss = cross_entropy(net(x).flatten(0, 1), y) / args.accumulate
        loss.backward()
    optimizer.step()
    print(f"step {step} of {args.steps}, loss {loss.item():.4f}", flush=True)
    if step % 5 == 0:
        path = f"out/{step}.state"
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
        print(f"saved {path} at step {step}", flush=True)
        for old in sorted(glob.glob("out/*.state"), key=os.path.getmtime)[:-2]:
            os.remove(old)
print(f"finished after {args.steps} steps", flush=True)
