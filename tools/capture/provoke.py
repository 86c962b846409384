#!/usr/bin/env python3
"""Runs out of memory on purpose, in a way of its own for each kind, so that real logs of a card can be kept.

    provoke.py KIND [--device cuda|cpu]
    provoke.py --list [--device cuda|cpu]   the kinds, as JSON: what a report of each log must have

card.py starts it. It takes the card's memory by plain allocations only, and a few seconds of its time.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys

MIB = 2**20


def cuda():
    import torch

    torch.cuda.init()
    return torch


def room(torch):
    """What is free on the card, in bytes."""
    return torch.cuda.mem_get_info()[0]


def fill(torch, leave=0, block=256 * MIB):
    """Takes the card but for what is to be left, in blocks, and returns them."""
    kept = []
    while block >= MIB:
        try:
            while room(torch) > leave + block:
                kept.append(torch.empty(block, dtype=torch.uint8, device="cuda"))
            block //= 2
        except RuntimeError:
            torch.cuda.empty_cache()
            block //= 2
    return kept


def network(torch, width=64, blocks=8):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), *(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(blocks)),
                         nn.Conv2d(width, 3, 3, padding=1))


def train(torch, net, opt, batch, size=256):
    x = torch.rand(batch, 3, size, size, device="cuda")
    loss = (net(x) - x).abs().mean()
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)


def capacity():
    """A training whose batch doubles until it does not fit."""
    torch = cuda()
    net = network(torch).cuda()
    opt = torch.optim.AdamW(net.parameters())
    for step in range(24):
        print(f"step {step}: batch {2**step}", flush=True)
        train(torch, net, opt, 2**step)


def request():
    """One tensor that is larger than the card."""
    torch = cuda()
    torch.empty(2 * torch.cuda.get_device_properties(0).total_memory, dtype=torch.uint8, device="cuda")


def limit():
    """A share of the card that the program sets itself."""
    torch = cuda()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 512 * MIB / total))
    kept = [torch.empty(48 * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]
    print(len(kept))


def fragmentation():
    """Two blocks of 8 MiB lie in each segment of 20: one of them is let go, and then one large block is asked for."""
    torch = cuda()
    kept, total = [], torch.cuda.get_device_properties(0).total_memory
    while room(torch) > total // 20:
        kept.append(torch.empty(8 * MIB, dtype=torch.uint8, device="cuda"))
    del kept[::2]
    large = torch.empty(total // 4, dtype=torch.uint8, device="cuda")
    print(large.numel())


def other(leave):
    """Another process that holds the card but for what is to be left; it ends with this one."""
    holder = subprocess.Popen([sys.executable, os.path.abspath(__file__), "hold", "--leave", str(leave)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    return holder


def contention():
    """Another process holds most of the card."""
    torch = cuda()
    holder = other(room(torch) // 5)
    try:
        large = torch.empty(torch.cuda.get_device_properties(0).total_memory // 2, dtype=torch.uint8, device="cuda")
        print(large.numel())
    finally:
        holder.stdin.close()
        holder.wait()


def context():
    """The card is so full that no context fits on it."""
    holder = other(16 * MIB)
    try:
        torch = cuda()
        print(torch.ones(4, device="cuda").sum())
    finally:
        holder.stdin.close()
        holder.wait()


def cublas():
    """The card is full before the first product."""
    torch = cuda()
    a = torch.ones(64, 64, device="cuda")
    kept = fill(torch)
    print(len(kept), (a @ a).sum())


def optimizer():
    """Gradients fit, and AdamW's states do not."""
    torch = cuda()
    total = torch.cuda.get_device_properties(0).total_memory
    net = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(16))).cuda()  # 1 GiB
    opt = torch.optim.AdamW(net.parameters())
    torch.cuda.set_per_process_memory_fraction(min(1.0, 2700 * MIB / total))
    net(torch.rand(1, 4096, device="cuda")).sum().backward()
    print("backward is done", flush=True)
    opt.step()


def validation():
    """Training fits, and the first validation's image does not."""
    torch = cuda()
    net = network(torch).cuda()
    opt = torch.optim.AdamW(net.parameters())
    for step in range(3):
        train(torch, net, opt, 1)
        print(f"step {step}", flush=True)
    print("validation", flush=True)
    net.eval()

    def validate(side):
        with torch.no_grad():
            return net(torch.rand(1, 3, side, side, device="cuda"))

    for n in range(9, 17):
        validate(2**n)


def caught():
    """A training whose first batch is too large: it catches that, takes a smaller one and goes on to its end."""
    import torch

    largest = 2 * torch.cuda.get_device_properties(0).total_memory if ARGS.device == "cuda" else 2**60
    batch = largest
    for step in range(1, 6):
        try:
            torch.zeros(batch, dtype=torch.uint8, device=ARGS.device)
        except RuntimeError as e:
            print(f"out of memory with a batch of {batch}, the next is smaller: {str(e).splitlines()[0]}", flush=True)
            batch = MIB
        print(f"step {step}/5 loss: {1 / step:.3f}", flush=True)
    print("training is done", flush=True)


def host():
    """Host memory is limited, and the data do not fit into it."""
    import torch

    if ARGS.device == "cuda":
        torch.ones(4, device="cuda")
    with open("/proc/self/status", encoding="utf-8") as f:
        held = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + 256 * MIB,) * 2)
    images = [torch.zeros(64 * MIB, dtype=torch.uint8) for _ in range(64)]
    print(len(images))


def killed():
    """The kernel kills the process in a control group whose memory is full. Needs root and cgroup v2."""
    group = f"/sys/fs/cgroup/card-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as e:
        print(f"no control group can be made here: {e}")
        sys.exit(SKIPPED)
    code = "x = []\nwhile True: x.append(bytearray(b'1' * (1 << 24)))"
    try:
        for name, value in (("memory.max", str(256 * MIB)), ("memory.swap.max", "0")):
            with contextlib.suppress(OSError), open(os.path.join(group, name), "w", encoding="utf-8") as f:
                f.write(value)
        with open(os.path.join(group, "memory.max"), encoding="utf-8") as f:
            if f.read().strip() == "max":
                print("this control group has no limit of memory")
                sys.exit(SKIPPED)
        done = subprocess.run(["bash", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" -c "$1"', sys.executable, code], check=False)
        if done.returncode == -signal.SIGKILL:
            print("Killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(SKIPPED)
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def hold():
    """Holds the card until its input ends."""
    if ARGS.device == "cpu":
        print(0, flush=True)
        sys.stdin.read()
        return
    torch = cuda()
    kept = [torch.empty(ARGS.bytes, dtype=torch.uint8, device="cuda")] if ARGS.bytes else fill(torch, ARGS.leave)
    print(sum(k.numel() for k in kept), flush=True)
    sys.stdin.read()


SKIPPED = 77
CARD, BOTH = ("cuda",), ("cuda", "cpu")
HELD = {"oom": True, "fatal": True, "kind": "gpu_capacity"}
# What each kind runs, on which devices, and what a report of its log must have.
KINDS = {
    "capacity": (capacity, CARD, HELD, {}),
    "fragmentation": (fragmentation, CARD, {**HELD, "kind": "gpu_fragmentation"}, {}),
    "contention": (contention, CARD, {**HELD, "kind": "gpu_contention"}, {}),
    "request": (request, CARD, HELD, {}),
    "limit": (limit, CARD, HELD, {}),
    "host": (host, BOTH, {**HELD, "kind": "cpu_alloc"}, {}),
    "caught": (caught, BOTH, {"fatal": False}, {}),
    "optimizer": (optimizer, CARD, {**HELD, "phase": "optimizer"}, {}),
    "validation": (validation, CARD, {**HELD, "phase": "validation"}, {}),
    "expandable": (capacity, CARD, HELD, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "async": (capacity, CARD, {"oom": True, "fatal": True}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "cublas": (cublas, CARD, {"oom": True, "fatal": True}, {}),
    "context": (context, CARD, {"oom": True, "fatal": True}, {}),
    "torchrun": (capacity, CARD, HELD, {}),
    "killed": (killed, BOTH, {"fatal": True}, {}),
}
ARGS = argparse.Namespace(device="cuda")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", nargs="?", choices=[*KINDS, "hold"])
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--leave", type=int, default=0)
    p.add_argument("--bytes", type=int, default=0)
    p.add_argument("--list", action="store_true")
    p.parse_args(namespace=ARGS)
    if ARGS.list:
        print(json.dumps({name: {"expect": expect, "env": env} for name, (_, devices, expect, env) in KINDS.items() if ARGS.device in devices}))
    elif ARGS.kind == "hold":
        hold()
    elif ARGS.kind:
        KINDS[ARGS.kind][0]()
    else:
        p.error("say which kind")


if __name__ == "__main__":
    main()
