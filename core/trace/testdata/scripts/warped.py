# A spatial transformer, by cuDNN's own operators, and SGD as one kernel of the card, with the loss of a margin.
# The grid 8·16·16·2·4 = 16384, the image as warped 8·3·16·16·4 = 24576, the batch 24576, its labels 8·8 = 64, the scores
# 8·10·4 = 320, the loss 4. Of theta an affine grid keeps the sizes alone.
#: parameter = 49216      # (768·6 + 6 + 768·10 + 10)·4
#: state = 49216          # of SGD with momentum
#: held = 65924 65924 65924
#: steps = 1×8 1×8 1×8
#: phases = training 3
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

where, what = nn.Linear(768, 6).cuda(), nn.Linear(768, 10).cuda()
optimizer = torch.optim.SGD([*where.parameters(), *what.parameters()], lr=0.1, momentum=0.9, fused=True)
for x, y in DataLoader(TensorDataset(torch.rand(24, 3, 16, 16), torch.arange(24) % 10), 8):
    x, y = x.cuda(), y.cuda()
    theta = where(x.flatten(1)).view(-1, 2, 3)
    grid = F.affine_grid(theta, x.shape, align_corners=True)
    loss = F.multi_margin_loss(what(F.grid_sample(x, grid, align_corners=True).flatten(1)), y)
    del theta, grid
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
