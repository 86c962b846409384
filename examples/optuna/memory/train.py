"""A small training on the CPU whose memory grows with the batch: about 1 MiB a sample, beside torch itself.

It learns to tell which of eight waves a noisy signal has.
"""
import argparse
import math

import torch
from torch import nn

WAVES, LENGTH, WIDTH, BLOCKS, SAMPLES = 8, 64, 32, 24, 256

p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=1e-2)
p.add_argument("--batch-size", type=int, default=8, help="micro-batch")
p.add_argument("--accumulation", type=int, default=1)
p.add_argument("--seed", type=int, default=0)
p.add_argument("--out", help="a folder for the model; none: it is not saved")
a = p.parse_args()


def draw(n: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    wave = torch.randint(WAVES, (n,), generator=random)
    time = torch.arange(LENGTH) / LENGTH
    phase = torch.rand(n, 1, generator=random)
    signal = torch.sin(2 * math.pi * ((wave[:, None] + 1) * time + phase))
    return (signal + 0.3 * torch.randn(n, LENGTH, generator=random))[:, :, None], wave


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix, self.wide = nn.LayerNorm(WIDTH), nn.Linear(LENGTH, LENGTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2))
        return x + nn.functional.gelu(self.wide(y))


torch.manual_seed(a.seed)
torch.set_num_threads(1)
random = torch.Generator().manual_seed(a.seed + 1)
net = nn.Sequential(nn.Linear(1, WIDTH), *[Block() for _ in range(BLOCKS)])
head = nn.Linear(WIDTH, WAVES)
parameters = [*net.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=a.lr, momentum=0.9)


def loss_of(x: torch.Tensor, wave: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(head(net(x).mean(1)), wave)


print(f"batch size {a.batch_size}, {a.accumulation} at a time", flush=True)
for step in range(max(2, SAMPLES // (a.batch_size * a.accumulation))):
    for _ in range(a.accumulation):
        (loss_of(*draw(a.batch_size, random)) / a.accumulation).backward()
    nn.utils.clip_grad_norm_(parameters, 1)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step + 1}", flush=True)
with torch.no_grad():
    held_out = torch.Generator().manual_seed(99)
    print(f"validation loss {sum(loss_of(*draw(8, held_out)).item() for _ in range(8)) / 8:.6f}")
if a.out:
    torch.save(net.state_dict(), f"{a.out}/net.pt")
print("training is over")
