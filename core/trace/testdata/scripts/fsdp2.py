# What shards over ranks is not followed: it ends the trace with the reason, whatever the script catches.
#: ranks = 2
#: ends = FSDP2 (fully_shard) is not followed
#: failed = true
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
try:
    fully_shard(torch.nn.Linear(8, 8).cuda())
except Exception:
    pass
print("went on")
