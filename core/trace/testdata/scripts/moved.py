# What a module leaves when it is moved or cast is freed, tied parameters stay tied, and a storage may lose its size. Each has an
# address of its own.
#: parameter = 384        # 8·8·4, and beside it 8·8·2 while it is cast
#: prints = True 256 True 128 0 64 0 32 True True False
#: ends = the script ended
import torch


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
        self.b.weight = self.a.weight


found = []


def tell():
    found.extend([model.a.weight is model.b.weight, torch.cuda.memory_allocated()])


model = Tied().cuda()
tell()
model = model.half()
tell()
del model
found.append(torch.cuda.memory_allocated())
shard = torch.empty(16, device="cuda")
found.append(torch.cuda.memory_allocated())
shard.untyped_storage().resize_(0)
found.append(torch.cuda.memory_allocated())
other = torch.empty(4, 8, device="cuda")
found += [other[1:].data_ptr() - other.data_ptr(), other.data_ptr() == other.untyped_storage().data_ptr() > 0,
          other.data_ptr() == other.view(32).data_ptr(), other.data_ptr() == shard.data_ptr()]
print(*found)
