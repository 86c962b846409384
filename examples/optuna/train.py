"""A stand-in for a training: no torch, no card. It needs memory as a transformer does, and has a loss like one.

Above WALL it prints what torch prints when a card is full, and fails.
"""
import argparse
import math
import sys

GIB = 2**30
WALL = 10 * GIB


def memory(width: int, depth: int, micro_batch: int) -> float:
    """Bytes: model states (16 a parameter) and saved tensors (34 a token and channel, 1,024 tokens)."""
    return 16 * 12 * depth * width**2 + micro_batch * depth * width * 1024 * 34


def loss(lr: float, width: int, depth: int, batch: int) -> float:
    """Larger models are better, up to what fits; a learning rate, a depth and a global batch are best in between."""
    best_lr = -3 - 0.5 * math.log10(width / 128)
    return (3 - 0.25 * math.log2(width * math.sqrt(depth) / 128) + 0.5 * (math.log10(lr) - best_lr) ** 2
            + 0.004 * (depth - 9) ** 2 + 0.05 * (math.log2(batch) - 5) ** 2)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, required=True)
    p.add_argument("--width", type=int, required=True)
    p.add_argument("--depth", type=int, required=True)
    p.add_argument("--batch-size", type=int, required=True, help="micro-batch")
    p.add_argument("--accumulation", type=int, default=1)
    a = p.parse_args()
    print(f"batch size {a.batch_size}, {a.accumulation} at a time", flush=True)
    need = memory(a.width, a.depth, a.batch_size)
    if need > WALL:
        have = min(memory(a.width, a.depth, 0), WALL)
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                 f"{(need - have) / GIB:.2f} GiB. GPU 0 has a total capacity of {WALL / GIB:.2f} GiB of which "
                 f"{(WALL - have) / GIB:.2f} GiB is free. Of the allocated memory {have / GIB:.2f} GiB is allocated by PyTorch, "
                 "and 0 bytes is reserved by PyTorch but unallocated.")
    print("step 1/1")
    print(f"validation loss {loss(a.lr, a.width, a.depth, a.batch_size * a.accumulation):.6f}")
    print("training is over")


if __name__ == "__main__":
    main()
