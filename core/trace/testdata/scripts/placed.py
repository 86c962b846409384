# A data set without workers may put its samples on the card, and a generator of random numbers may be the card's.
#: steps = 1×4 1×4 1×4
#: phases = training 3, validation 2
#: parameter = 1024
#: prints = drawn on cuda:0 cuda
import torch
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")
drawn = torch.Generator(device=device).manual_seed(0)


class Samples(Dataset):
    def __init__(self, many):
        self.rows = torch.rand(many, 16)

    def __getitem__(self, index):
        at = int(torch.randint(0, 8, (1,)))
        return self.rows[index].to(device), self.rows[at].cuda()

    def __len__(self):
        return len(self.rows)


model = torch.nn.Linear(16, 16, bias=False).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in DataLoader(Samples(64), batch_size=4, shuffle=True):
    noise = torch.randn(x.shape, generator=drawn, device=device)
    noise.normal_(generator=drawn)
    (model(x + noise) - y).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("drawn on", noise.device, drawn.device, torch.randperm(4, generator=torch.Generator()).shape)
assert isinstance(torch.default_generator, torch.Generator)
model.eval()
with torch.no_grad():
    for x, y in DataLoader(Samples(8), batch_size=4):
        model(x)
