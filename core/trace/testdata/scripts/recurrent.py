# cuDNN's recurrent kernels and the CTC loss: what each keeps is in one storage, and counted by hand.
#: parameter = 20692      # 4·(3840 + 1248 + 85): LSTM (8+16+2)·64 + (16+16+2)·64, GRU twice (16+8+2)·24, linear 16·5 + 5
# What is kept, without the reserves: input 10·4·8·4 = 1280; LSTM's states 2·512, its output 2560, that packed 2560; GRU's
# state 256, output 2560, that padded 2560; log-probabilities 800; the table of the loss 4·10·7·4 = 1120; lengths 16; loss 4.
#: held = 14740
# Reserves: LSTM 40·16·4·(5·2 + 1) = 28160, GRU 40·8·2·4·6 = 15360; the workspace of GRU 1248·4 + 4·8·2·8·4 = 7040 is the
# one that is beside both, in forward and in backward.
#: workspace = 50560
#: steps = 1×4 1×4 1×4 1×4
#: phases = training 4, validation 2
#: ends = enough was seen
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True)
        self.gru = nn.GRU(16, 8, bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        y, _ = self.lstm(x)
        y, _ = self.gru(pack_padded_sequence(y, torch.full((len(x),), 10), batch_first=True))
        y, _ = pad_packed_sequence(y)
        return self.head(y).log_softmax(-1)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
lengths = torch.full((4,), 10)
for epoch in range(9):
    model.train()
    for x in DataLoader(torch.rand(40, 10, 8), 4):
        loss = nn.functional.ctc_loss(model(x.cuda()), torch.randint(1, 5, (4, 3)), lengths, torch.full((4,), 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss, x
    model.eval()
    with torch.no_grad():
        for x in DataLoader(torch.rand(40, 10, 8), 4):
            model(x.cuda())
