# What shards over ranks is not followed: it ends the trace with the reason, whatever the script catches.
#: ranks = 2
#: ends = FSDP is not followed: it shards what is trained over ranks
#: failed = true
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("nccl")
try:
    model = FSDP(torch.nn.Linear(8, 8).cuda())
except Exception:
    pass
print("went on")
