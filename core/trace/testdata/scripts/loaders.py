# Every way in which a loader gives batches; each evaluates in a mode of its own, and one forgets to switch gradients off.
#: parameter = 68         # (16 + 1)·4
#: steps = 1×4 1×4 1×4 1×5
#: phases = training 4, validation 10
#: ends = enough was seen
import torch
from torch.utils.data import (DataLoader, Dataset, IterableDataset, RandomSampler, SubsetRandomSampler,
                              WeightedRandomSampler, get_worker_info)


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        assert info is None or info.num_workers == 2
        while True:
            yield torch.rand(16)


class Map(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        return {"x": torch.full((16,), float(i)), "name": "image %d" % i}


def no_memory(batch):
    return torch.stack([b["x"] for b in batch])


model = torch.nn.Linear(16, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(loader):
    model.train()
    for x in loader:
        optimizer.zero_grad(set_to_none=True)
        model(x.to("cuda", non_blocking=True)).sum().backward()
        optimizer.step()


def names(loader):
    model.eval()
    for batch in loader:
        assert batch["x"].shape[0] == len(batch["name"])
        model(batch["x"].cuda())  # with gradients


train(DataLoader(Stream(), 4, num_workers=2, pin_memory=True, persistent_workers=True, prefetch_factor=4))
names(DataLoader(Map(), 3, sampler=WeightedRandomSampler([1.0] * 100, 50), num_workers=1))
names(DataLoader(Map(), 3, sampler=SubsetRandomSampler(range(50)), timeout=5, num_workers=2))
with torch.inference_mode():
    names(DataLoader(Map(), batch_sampler=torch.utils.data.BatchSampler(RandomSampler(range(100)), 7, True)))
torch.set_grad_enabled(False)
names(DataLoader(Map(), 9))
names(DataLoader(Map(), None))
torch.set_grad_enabled(True)
train(DataLoader(Map(), 5, True, None, None, 4, no_memory, True, True, 0, None))
train(DataLoader(Map(), 6, collate_fn=no_memory))
