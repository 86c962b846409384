# What shards over ranks is not followed: it ends the trace with the reason, whatever the script catches.
#: ranks = 2
#: ends = DTensor is not followed
#: failed = true
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

dist.init_process_group("nccl")
try:
    distribute_tensor(torch.rand(8, 8, device="cuda"), init_device_mesh("cuda", (2,)), [Shard(0)])
except Exception:
    pass
print("went on")
