# What comes every so many steps is made once, when enough was seen of the training: a validation. What is of a size, has
# held before, or is in a module, is left as it is.
#: steps = 1×4 1×4 1×4 1×4
#: phases = training 4, validation 2
#: prints = validated after 3 steps, sizes []
#: unknown-validation = no
import torch
from torch.utils.data import DataLoader

sizes = []


class Net(torch.nn.Linear):
    def forward(self, x):
        for i in range(1, 4):
            if i % 5 == 0:
                sizes.append("in a module")
        return super().forward(x)


model = Net(16, 16, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data, step, width, validated = torch.rand(64, 16), 0, 36, 0


def evaluate():
    global validated
    validated += 1
    with torch.no_grad():
        model.eval()
        for x in DataLoader(data[:8], batch_size=4):
            model(x.cuda())
        model.train()
    print("validated after", step, "steps, sizes", sizes)


for epoch in range(2):
    for x in DataLoader(data, batch_size=4):
        model(x.cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if width % 7 == 0:
            sizes.append("width")
        if step % 2 == 0 and step > 2:
            sizes.append("even")
        if step > 0 and step % 500 == 0:
            evaluate()
            if validated > 1:
                raise SystemExit("again")
