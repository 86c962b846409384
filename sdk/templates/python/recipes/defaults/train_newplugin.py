"""A small training: an MLP learns to return its input. It needs PyTorch, and runs on a CPU in a second."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", "-b", type=int, default=64, help="samples of one forward pass")
parser.add_argument("--accumulate", type=int, default=1, help="forward passes of one optimizer step")
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--resume", metavar="PATH", help="a saved state: out/step_*.pt")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(args.width, 4 * args.width), nn.ReLU(), nn.Linear(4 * args.width, args.width)).to(device)
optimizer = torch.optim.AdamW(net.parameters())
first = 1
if args.resume:
    state = torch.load(args.resume, map_location=device)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"] + 1
    print(f"resumed at step {state['step']}", flush=True)

print(f"batch size {args.batch_size}, accumulation {args.accumulate}", flush=True)
for step in range(first, args.steps + 1):
    for _ in range(args.accumulate):
        x = torch.randn(args.batch_size, args.width, device=device)
        loss = nn.functional.mse_loss(net(x), x)
        (loss / args.accumulate).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}/{args.steps}: loss {loss.item():.4f}", flush=True)
    if step % 10 == 0:
        os.makedirs("out", exist_ok=True)
        path = f"out/step_{step}.pt"
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".new")
        os.replace(path + ".new", path)
        print(f"saved {path}", flush=True)
print("training is over", flush=True)
