# The optimizer is made before the module is moved, as accelerate does it: it steps on what was moved.
#: parameter = 288        # (8·8 + 8)·4
#: gradient = 288
#: state = 288
#: steps = 1×4 1×4 1×4
#: ends = the script ended
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
model.to("cuda")
for _ in range(3):
    optimizer.zero_grad()
    scaler.scale(model(torch.rand(4, 8, device="cuda")).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
