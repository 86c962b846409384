"""Trains a small network on texts of different lengths. Those of the 7th step are long: python train.py --batch 8"""

import argparse
import os

import torch
from transformers.trainer import Trainer

SHORT, LONG, WIDTH, BATCH = 256, 24576, 64, 8


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.layers(x) - x).square().mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--resume")
    args = parser.parse_args()
    if args.batch * args.accumulation != BATCH:
        parser.error(f"the batch times the accumulation is {BATCH}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    seeds = torch.Generator().manual_seed(1)
    lengths = [SHORT] * 6 + [LONG] + [SHORT] * 3
    texts = [torch.rand(BATCH, 1, WIDTH, generator=seeds).expand(BATCH, length, WIDTH) for length in lengths]
    trainer = Trainer(Net(), texts, output_dir=os.path.abspath("out"), save_steps=4, per_device_train_batch_size=args.batch)
    trainer.train(resume_from_checkpoint=args.resume)
    print("training is over", flush=True)


if __name__ == "__main__":
    main()
