# DistributedDataParallel in processes that the script starts: the first is run, in this process. Then DataParallel.
#: parameter = 2176       # (16·16 + 16)·4, twice
#: steps = 1×4 1×4 1×4 | 1×-1 1×4 1×4  # the first of the second optimizer: the forwards before it are of the other
#: prints = 0 of 1 gloo or nccl
#: ends = the script ended
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

kept = []


def train(model):
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.rand(4, 16).cuda()).sum().backward()
        optimizer.step()


def worker(rank, world, name):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", rank=rank, world_size=world)
    print(rank, "of", dist.get_world_size(), name, flush=True)
    train(DDP(torch.nn.Linear(16, 16).to(rank), device_ids=[rank], gradient_as_bucket_view=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    mp.spawn(worker, args=(world, "gloo or nccl"), nprocs=world, join=True)
    train(torch.nn.DataParallel(torch.nn.Linear(16, 16)).cuda())
