# DistributedDataParallel as torchrun starts it: one rank of two, its half of the data, and the buckets of gradients.
#: ranks = 2
#: parameter = 1216       # (16·16 + 16 + 16 + 16)·4
#: buffer = 136           # 2·16·4, and the count of batches, 8
#: held = 2124            # buckets 1216; input, its product and the result 4·16·4 = 256 each; mean, deviation 64 each; counts 8; loss 4
#: steps = 1×4 1×4 1×4
#: phases = training 3
#: prints = rank 0 of 2, 5 batches, mean 1.0
#: ends = the script ended
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group(backend="nccl", init_method="env://")
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16)).cuda(rank)
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = DistributedDataParallel(model, device_ids=[rank], output_device=rank, find_unused_parameters=True)
data = TensorDataset(torch.rand(40, 16))
sampler = DistributedSampler(data)
loader = DataLoader(data, 4, sampler=sampler, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(1):
    sampler.set_epoch(epoch)
    for x, in loader:
        loss = model(x.cuda(rank)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        gathered = [torch.zeros_like(mean) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, mean)
        with model.no_sync():
            pass
dist.barrier()
names = [None, None]
dist.all_gather_object(names, "rank %d" % rank)
dist.broadcast_object_list(names, src=0)
if dist.get_rank() == 0:
    print("rank %d of %d, %d batches, mean %s" % (rank, dist.get_world_size(), len(loader), mean.item()))
    torch.save(model.module.state_dict(), "last.pt")
dist.destroy_process_group()
