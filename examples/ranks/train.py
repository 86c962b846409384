"""A small training in several processes, one rank each, on the CPU with gloo. Its memory grows at a step, on one rank.

    python train.py --batch 8 --by spawn                # torch.multiprocessing.spawn
    python train.py --batch 8 --by processes            # multiprocessing.Process, joined in order
    torchrun --nproc-per-node 2 train.py --batch 8      # or accelerate launch, srun, a loop in a shell: by their variables

The other options make the failures that tools/ranks measures.
"""

import argparse
import datetime
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=8, help="samples in one forward pass of one rank")
    p.add_argument("--accum", type=int, default=1, help="forward passes for each optimizer step")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--out", default="states", help="folder of the saved states")
    p.add_argument("--resume", default="", help="saved state to continue from")
    p.add_argument("--by", choices=["spawn", "processes", "env"], default="env", help="what starts the ranks")
    p.add_argument("--ranks", type=int, default=2, help="how many, where this program starts them")
    p.add_argument("--pause", type=float, default=0.5, help="seconds that a step takes at least")
    p.add_argument("--mib", type=int, default=64, help="memory of one sample")
    p.add_argument("--long", type=int, default=3, help="the step from which the samples of one rank are long")
    p.add_argument("--hungry", type=int, default=1, help="that rank")
    p.add_argument("--waits", choices=["reduce", "store"], default="reduce", help="how ranks wait for each other")
    p.add_argument("--on-term", choices=["die", "save"], default="die", help="what a rank does at SIGTERM")
    p.add_argument("--on-oom", choices=["die", "skip", "linger"], default="die", help="what a rank does out of memory")
    p.add_argument("--timeout", type=float, default=1800, help="of a collective, in seconds")
    return p.parse_args()


def say(text):
    print(text, flush=True)


def step(model, optimizer, args, held):
    """One step: `held` stands for the activations of a micro-batch."""
    time.sleep(args.pause)
    for _ in range(args.accum):
        activations = [torch.ones(held << 18) for _ in range(args.batch)]
        model(torch.ones(args.batch, 4)).sum().backward()
        del activations
    optimizer.step()
    optimizer.zero_grad()


def wait_for_others(model, n, rank, world, args, store):
    if args.waits == "reduce":
        for p in model.parameters():
            dist.all_reduce(p.data)
            p.data /= world
        return
    store.set("step %d of %d" % (n, rank), "done")  # nobody notices here that another rank has died, as with NCCL
    store.wait(["step %d of %d" % (n, r) for r in range(world)])


def worker(local, args, port=None, world=None):
    if port:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(local), WORLD_SIZE=str(world))
    if args.on_term == "save":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved at SIGTERM"))
    limit = datetime.timedelta(seconds=args.timeout)
    dist.init_process_group("gloo", timeout=limit)
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    store.set_timeout(limit)
    train(rank, world, store, args)


def train(rank, world, store, args):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    first = 0
    if args.resume:
        first = torch.load(args.resume)["step"]
        if rank == 0:
            say("resumed from %s" % args.resume)
    if rank == 0:
        say("world size %d, batch %d, accumulation %d, pid %d" % (world, args.batch, args.accum, os.getpid()))
    for n in range(first + 1, args.steps + 1):
        held = args.mib if rank == args.hungry and n >= args.long else 1
        try:
            step(model, optimizer, args, held)
        except RuntimeError as e:
            if args.on_oom == "die":
                raise
            print("rank %d: %s" % (rank, e), file=sys.stderr, flush=True)
            if args.on_oom == "linger":  # a log that is uploaded, a profiler that is closed, and so on
                time.sleep(args.timeout)
        wait_for_others(model, n, rank, world, args, store)
        if rank == 0:
            say("step %d/%d loss 0.5" % (n, args.steps))
            if n % 2 == 0:
                os.makedirs(args.out, exist_ok=True)
                path = os.path.join(args.out, "%d.pt" % n)
                torch.save({"step": n, "model": model.state_dict()}, path + ".new")
                os.replace(path + ".new", path)
                say("saved %s" % path)
    if rank == 0:
        say("training is over")
    dist.barrier()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    args = parse()
    if args.by == "env":
        worker(int(os.environ.get("LOCAL_RANK", 0)), args)
    elif args.by == "spawn":
        mp.spawn(worker, args=(args, free_port(), args.ranks), nprocs=args.ranks)
    else:
        port, context = free_port(), mp.get_context("spawn")
        ranks = [context.Process(target=worker, args=(r, args, port, args.ranks)) for r in range(args.ranks)]
        for p in ranks:
            p.start()
        for p in ranks:
            p.join()
        sys.exit(max(abs(p.exitcode) for p in ranks))


if __name__ == "__main__":
    main()
