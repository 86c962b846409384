# A loop of one's own, without a data loader: it is left after as many steps as are wanted, and what follows is seen. A loop
# that evaluates is left once its rounds are alike; what is gathered in it, or grows, goes on to its end.
# Validation, at its end: the data 8000·16·4 = 512000, 20 batches of scores, 8·4·4 = 128 each, the last one's input 8·16·4 = 512, and the tensor that they
# are put together into, 20·128 = 2560.
#: phases = training 0, validation 0
#: unknown-validation = no
#: steps = 1×8 1×8 1×8 1×8 1×8 1×8 1×8
#: validation = 517632
#: ends = enough was seen
import torch

data = torch.rand(8000, 16).cuda()
model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rounds = []


def train():
    for i in range(0, len(data), 8):
        loss = model(data[i:i + 8]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rounds.append(i)


def evaluate():
    model.eval()
    with torch.no_grad():
        for i in range(0, len(data), 8):
            x = data[i:i + 8].clone()
            model(x)
            rounds.append(i)
        scores = []
        for i in range(0, 160, 8):
            x = data[i:i + 8].clone()
            scores.append(model(x))
        if len(scores) != 20:
            raise SystemExit("%d rounds" % len(scores))
        torch.cat(scores)
    model.train()


for epoch in range(100):
    train()
    if len(rounds) > 6:
        raise SystemExit("%d rounds of training" % len(rounds))
    evaluate()
    if len(rounds) > 10:
        raise SystemExit("%d rounds" % len(rounds))
