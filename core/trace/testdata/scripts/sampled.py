# Images are drawn in a thousand steps that need the same memory: a few of them are made, and what follows is seen. All are
# made with gradients, and where what is drawn is kept.
#: steps = 1×4 1×4 1×4
#: phases = training 3, validation 0
#: validation = 1056832    # 2²⁰ and 1000·8, and y before the model, 4·16·4
#: prints = drawn in 4 steps of 800, 20 with gradients, 20 kept
import torch
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from torch.utils.data import DataLoader


class Scheduler(SchedulerMixin):
    def set_timesteps(self, num_inference_steps, device=None):
        self.timesteps = torch.arange(num_inference_steps).to(device)


model = torch.nn.Linear(16, 16, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in DataLoader(torch.rand(12, 16), batch_size=4):
    model(x.cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
scheduler, made, trained = Scheduler(), 0, 0
scheduler.set_timesteps(1000, device="cuda")
z = torch.zeros(4, 16).cuda()
for t in scheduler.timesteps[:20]:
    model(z)
    trained += 1
del z
with torch.no_grad():
    model.eval()
    y = torch.zeros(4, 16).cuda()
    for t in scheduler.timesteps[200:]:
        y, made = model(y), made + 1
    kept = [model(y) for t in scheduler.timesteps[:20]]
    drawn = len(kept)
    del kept
    picture = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
print("drawn in", made, "steps of", "%d, %d with gradients, %d kept" % (len(scheduler.timesteps[200:]), trained, drawn))
