package draft

import "testing"

// statesOf saves whole states in two ways, by an option.
const statesOf = `import argparse, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--save-each", default="10")
p.add_argument("--out", default="o")
p.add_argument("--resume")
args = p.parse_args()
if args.resume:
    accelerator.load_state(args.resume)
for epoch in range(9):
    for step, x in enumerate(loader):
        if args.save_each.isdigit():
            accelerator.save_state(os.path.join(args.out, f"step_{step}"))
    if args.save_each == "epoch":
        accelerator.save_state(os.path.join(args.out, f"epoch_{epoch}"))
`

// siblings are small programs of the kinds that drafts have mistaken, and the lines that their drafts have. A line
// that begins with "!" is not there.
var siblings = map[string]struct {
	source, args string
	want         []string
}{
	"a view of so many": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

for step in range(9):
    loss = crit(net(x), y.view(args.batch_size)) / args.accum
    print(f"step {step} loss {loss}")
`, "train.py", []string{`micro-batch: --batch-size  # likely`, `!global-batch`}},
	"a library's network with a frozen norm": {`import argparse, torchvision
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
args = p.parse_args()
net = getattr(torchvision.models, "resnet18")(norm_layer=FrozenNorm)
for step, x in enumerate(DataLoader(data, batch_size=args.batch_size)):
    print(f"step {step} loss {net(x)}")
`, "train.py", []string{`!batch-norm: true`}},
	"a size of what was given": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
args = p.parse_args()

class Net(torch.nn.Module):
    def forward(self, x):
        batch_size = x.size()[0]
        state = torch.zeros(batch_size, 8)
        return self.rnn(x, state)

def load(batch_size):
    return stream(batch_size)

for step, x in enumerate(load(args.batch_size)):
    loss = Net()(x)
    print(f"step {step} loss {loss}")
`, "train.py", []string{`micro-batch: --batch-size  # likely`}},
	"the accumulation of a micro-batch's name": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--micro-batch-size", type=int, default=8)
args = p.parse_args()

for step, x in enumerate(DataLoader(data, batch_size=args.micro_batch_size)):
    loss = net(x) / accumulation_steps(4)
    print(f"step {step} loss {loss}")
`, "train.py", []string{`# accumulation_steps (train.py:7) may be of a gradient accumulation`}},
	"a constant that nothing reads": {`LARGEST_BATCH_SIZE = 16

def loaders(batch_size=16):
    return DataLoader(data, batch_size=batch_size)

for step in range(9):
    print(f"step {step} loss {loss}")
`, "train.py", []string{`!micro-batch`}},
	"a constant that caps the batch": {`LARGEST_BATCH_SIZE = 16

def train(config):
    batch_size = int(config["batch_size"])
    accum_steps = 1
    if batch_size > LARGEST_BATCH_SIZE:
        accum_steps = batch_size // LARGEST_BATCH_SIZE
        batch_size = LARGEST_BATCH_SIZE
    loader = DataLoader(data, batch_size=batch_size)

train({"lr": 2, "batch_size": 32})
`, "train.py", []string{`micro-batch: {train.py: LARGEST_BATCH_SIZE}`,
		`global-batch: 32  # sure: train.py:7: the accumulation is derived`}},
	"a constant above the batch": {`LARGEST_BATCH_SIZE = 16

def train(config):
    batch_size = int(config["batch_size"])
    if batch_size > LARGEST_BATCH_SIZE:
        accum_steps = batch_size // LARGEST_BATCH_SIZE
        batch_size = LARGEST_BATCH_SIZE
    loader = DataLoader(data, batch_size=batch_size)

train({"batch_size": 8})
`, "train.py", []string{`!global-batch`}},
	"a state with opt": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--name", default="m")
p.add_argument("--resume")
args = p.parse_args()
if args.resume:
    ckpt = torch.load(args.resume)
    net.load_state_dict(ckpt["net"])
    opt.load_state_dict(ckpt["opt"])
for step in range(9):
    state = {"net": net.state_dict(), "opt": opt.state_dict(), "step": step}
    torch.save(state, f"{args.name}_{step:05}.pt")
`, "train.py", []string{`resume: {--resume: '{name}_[0-9]*.pt'}`}},
	"a loop of inference": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
args = p.parse_args()

@torch.inference_mode()
def main():
    for i in range(9):
        print(f"Time for answer {i + 1}: {t}")
main()
`, "train.py", []string{`!progress`}},
	"a loop with a part without gradients": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
args = p.parse_args()
for step in range(9):
    f().backward()
    with torch.no_grad():
        print(f"step {step} loss {loss}")
`, "train.py", []string{`progress: 'step `}},
	"8 bits of another optimizer": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--optim", choices=["sgd", "adamw", "adamw8bit"], default="sgd")
args = p.parse_args()
`, "train.py", []string{`!  - {name: 8-bit`}},
	"8 bits of the same": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--optim", choices=["sgd", "adamw", "adamw8bit"], default="sgd")
args = p.parse_args()
`, "train.py --optim adamw", []string{`  - {name: 8-bit optimizer, at: --optim, to: adamw8bit`}},
	"recomputes": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--micro_bsz", type=int, default=8)
p.add_argument("--checkpointing", action="store_true", help="recompute activations")
args = p.parse_args()
loader = DataLoader(data, batch_size=args.micro_bsz)
`, "train.py", []string{`micro-batch: --micro_bsz  # sure`,
		`  - {name: activation checkpointing, at: {at: --checkpointing`}},
	"saves states": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--checkpointing", action="store_true", help="write a state now and then")
args = p.parse_args()
`, "train.py", []string{`!  - {name: activation`}},
	"states of the epochs": {statesOf, "train.py --save-each epoch", []string{`resume: {--resume: '{out}/epoch_[0-9]*'}`}},
	"states of the steps":  {statesOf, "train.py --save-each 10", []string{`resume: {--resume: '{out}/step_[0-9]*'}`}},
	"slice alias": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

bs, accum = args.batch_size, args.accum
b = args.batch_size
for step in range(9):
    loss = criterion(a, t[:b]) / accum
    print(f"step {step} loss {loss}")
`, "train.py", []string{`micro-batch: --batch-size  # sure: train.py:10 takes`, `!global-batch`}},
	"rows": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()
rows = x.view(args.batch_size, -1).numel() // args.accum
cut = len(x[:args.batch_size]) // args.accum
`, "train.py", []string{`micro-batch: --batch-size  # `, `!global-batch`}},
	"frames of a clip": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8, help="clips of one step; is ignored if --packed is set")
p.add_argument("--max_frames", type=int, default=64)
`, "train.py --max_frames 16", []string{`micro-batch: --batch-size  # `}},
	"before the accumulation": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8, help="samples before gradient accumulation")
p.add_argument("--accum", type=int, default=2)
`, "train.py", []string{`micro-batch: --batch-size  # `, `accumulation: --accum`}},
	"after the accumulation": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8, help="effective batch size")
p.add_argument("--accum", type=int, default=2)
`, "train.py", []string{`!micro-batch`, `# the help of --batch-size`}},
	"no number of passes": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accumulation", choices=["auto", "none"])
p.add_argument("--grad_accum", type=str2bool, default=None)
p.add_argument("--accumulate", action="store_true")
p.add_argument("--accum", type=float, default=None)
`, "train.py", []string{`micro-batch: --batch-size  # `, `!accumulation: `}},
	"nested bracket": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

for step in range(9):
    loss = ((f(x, args.batch_size) + g(x)) / args.accum)
    print(f"step {step} loss {loss}")
`, "train.py", []string{`micro-batch: --batch-size  # likely`}},
	"a factor": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

lr = 0.1 * args.batch_size / args.accum
scale = args.batch_size / args.accum * 3
`, "train.py", []string{`micro-batch: --batch-size  # likely`, `!global-batch`}},
	"really": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

micro = int(args.batch_size / args.accum)
loader = DataLoader(d, batch_size=micro)
`, "train.py", []string{`global-batch: --batch-size  # sure: train.py:7 divides`, `!micro-batch`}},
	"really aug": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

args.batch_size //= args.accum
loader = DataLoader(d, batch_size=args.batch_size)
`, "train.py", []string{`global-batch: --batch-size  # sure: train.py:7`, `!micro-batch`}},
	"really key": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
args = p.parse_args()

opt = vars(args)
loader = DataLoader(d, batch_size=opt["batch_size"] // opt["accum"])
`, "train.py", []string{`global-batch: --batch-size  # sure: train.py:8`, `!micro-batch`}},
	"two loaders": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch_size", type=int, default=8)
p.add_argument("--prior_batch_size", type=int, default=8)
p.add_argument("--num_devices", type=int, default=8)
a = p.parse_args()
prior = make(a.prior_batch_size)
loader = DataLoader(ds, batch_size=a.batch_size)
`, "train.py", []string{`micro-batch: --batch_size  # sure: train.py:8 gives it to DataLoader`}},
	"chain": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--bs", type=int, default=8)
p.add_argument("--chunk_batch_size", type=int, default=8)
a = p.parse_args()
def loader(n): return DataLoader(ds, n)
n_per = a.bs
loader(n_per)
`, "train.py", []string{`# several settings could be it: --bs`, `!micro-batch`}},
	"help that counts": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8, help="no longer valid, use --batch")
p.add_argument("--batch", type=int, default=8, help="samples of one pass")
p.add_argument("--gradient-accumulation-dtype", default=None)
p.add_argument("--grad_accum_mode", type=str, default=None)
a = p.parse_args()
`, "train.py", []string{`micro-batch: --batch  # likely`, `!accumulation: `, `# accumulation: --accum`}},
	"a batch of one device, and a whole one": {`import click
@click.command()
@click.option('--batch', help='Total batch size', metavar='INT', type=click.IntRange(min=1), required=True)
@click.option('--batch-gpu', help='Limit batch size per GPU', metavar='INT', type=click.IntRange(min=1))
def main(**kwargs):
    opts = Easy(kwargs)
    c.batch_size = opts.batch
    c.batch_gpu = opts.batch_gpu or opts.batch // opts.gpus
    c.num_accumulation_rounds = c.batch_size // (c.batch_gpu * opts.gpus)
if __name__ == "__main__":
    main()
`, "train.py --batch=32 --batch-gpu=8", []string{`micro-batch: --batch-gpu  # likely`,
		`global-batch: --batch  # sure: train.py:9`, `!per: `}},
	"a whole batch that another function is given": {`import click, torch
def fit(out=".", whole=512, per_card=None, **more):
    here = whole // world()
    n_accumulation = here // per_card
    loader = DataLoader(data, batch_size=per_card)
    for tick in range(9):
        torch.save(dict(net=net, optimizer=opt.state_dict()), os.path.join(out, f"full-{tick:06d}.pt"))
@click.command()
@click.option('--batch', help='Total batch size', type=int, default=512)
@click.option('--batch-gpu', help='Limit batch size per GPU', type=int)
@click.option('--resume', help='From a state', type=str)
def main(**kwargs):
    opts = Easy(kwargs)
    c = Easy()
    c.update(whole=opts.batch, per_card=opts.batch_gpu)
    c.out = os.path.join("runs", stamp())
    opt.load_state_dict(torch.load(opts.resume))
    fit(**c)
if __name__ == "__main__":
    main()
`, "train.py", []string{`micro-batch: --batch-gpu  # sure: train.py:5`, `global-batch: --batch  # sure: train.py:4`,
		`# resume: {--resume: '*/full-*.pt'}`, `!resume: `}},
	"fire's dashes": {`import fire
def fit(batch_size=5, grad_accum=6):
    loader = DataLoader(data, batch_size=batch_size)
fire.Fire(fit)
`, "train.py --batch-size 8 --grad-accum=1", []string{`micro-batch: [--batch_size, --batch-size]  # sure`,
		`accumulation: [--grad_accum, --grad-accum]  # `}},
	"a state that it finds by itself": {`import argparse, torch, os, glob
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--resume", default="")
args = p.parse_args()
def find(args):
    if not args.resume:
        numbers = [int(q.split("-")[-1][:-3]) for q in glob.glob(os.path.join(args.out, "state-*.pt"))]
        if numbers:
            args.resume = os.path.join(args.out, "state-%d.pt" % max(numbers))
    s = torch.load(args.resume)
    optimizer.load_state_dict(s["optimizer"])
find(args)
for epoch in range(9):
    torch.save({"model": m, "optimizer": o}, os.path.join(args.out, "state-%d.pt" % epoch))
`, "train.py", []string{`resume: {--resume: '{out}/state-[0-9]*.pt'}`,
		`clear: ['{out}/state-[0-9]*.pt']  # sure: train.py:9`}},
	"weights that it finds by itself": {`import argparse, torch, os, pathlib
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
args = p.parse_args()
def load():
    all = list(pathlib.Path(args.out).glob("net_*.pt"))
    if all:
        net.load_state_dict(torch.load(all[-1]))
load()
for epoch in range(9):
    torch.save(net.state_dict(), os.path.join(args.out, f"net_{epoch}.pt"))
`, "train.py", []string{`clear: ['{out}/net_[0-9]*.pt']  # sure: train.py:7`, `!resume: {`}},
	"images that it finds by itself": {`import argparse, torch, os, pathlib
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
args = p.parse_args()
def data():
    return list(pathlib.Path("data").glob("*.png"))
data()
net.load_state_dict(torch.load("begin.pt"))
for epoch in range(9):
    torch.save(net.state_dict(), os.path.join(args.out, f"net_{epoch}.pt"))
`, "train.py", []string{`!clear: `}},
	"a state that it is told": {`import argparse, torch, os, glob
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--resume", default="")
args = p.parse_args()
images = glob.glob("data/*")
def read(args):
    args.resume = os.path.expanduser(args.resume)
    s = torch.load(args.resume)
    optimizer.load_state_dict(s["optimizer"])
read(args)
for epoch in range(9):
    torch.save({"model": m, "optimizer": o}, os.path.join(args.out, "state-%d.pt" % epoch))
`, "train.py", []string{`resume: {--resume: '{out}/state-[0-9]*.pt'}`, `!clear: `}},
	"steps in groups of what is no setting": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
a = p.parse_args()
for done, x in enumerate(loader):
    f(x).backward()
    if done % hyper["parts"] == 0:
        optimizer.step()
`, "train.py", []string{`# train.py:8 steps the optimizer after every hyper["parts"] passes`,
		`!seems to have no gradient`}},
	"a report every some steps": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
a = p.parse_args()
for done, x in enumerate(loader):
    f(x).backward()
    optimizer.step()
    if done % hyper["parts"] == 0:
        print(done)
        scheduler.step()
`, "train.py", []string{`# the program seems to have no gradient accumulation`}},
	"a backward pass in a library": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
a = p.parse_args()
for x in loader:
    optimizer.zero_grad()
    scaler(f(x), optimizer)
`, "train.py", []string{`# no setting of a gradient accumulation was found, but the backward pass is`}},
	"a bound in tokens that is typed": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--max-tokens", type=int, default=None, help="maximum number of tokens in a batch")
p.add_argument("--batch-size", type=int, default=None, help="number of examples in a batch")
p.add_argument("--update-freq", default="1")
a = p.parse_args()
`, "train.py --max-tokens 4096", []string{`# --max-tokens (train.py:3, the command sets 4096) bounds a batch`,
		`!micro-batch`}},
	"a bound in tokens that is not typed": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--max-tokens", type=int, default=None, help="maximum number of tokens in a batch")
p.add_argument("--batch-size", type=int, default=None, help="number of examples in a batch")
a = p.parse_args()
`, "train.py --batch-size 16", []string{`micro-batch: --batch-size  # likely`}},
	"a batch of elements": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch_size", type=int, default=20)
p.add_argument("--batch_type", type=str, default="folded", choices=["unsorted","sorted","folded","length","numel"])
p.add_argument("--batch_bins", type=int, default=1000000)
a = p.parse_args()
`, "train.py --batch_type numel", []string{`# --batch_size (train.py:3, default 20) counts elements, not samples`,
		`!micro-batch`}},
	"secs": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--max-duration", type=int, default=200, help="Maximum duration (seconds) of a single batch.")
a = p.parse_args()
`, "train.py", []string{`# --max-duration (train.py:3, default 200) bounds a batch`, `!micro-batch`}},
	"a batch of frames or samples": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch_size_per_gpu", type=int, default=20)
p.add_argument("--batch_size_type", type=str, default="frame", choices=["frame","sample"])
a = p.parse_args()
`, "train.py --batch_size_type sample", []string{`micro-batch: --batch_size_per_gpu  # likely`}},
	"tokens": {`import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch_size", type=int, default=4096, help="batch size in tokens")
a = p.parse_args()
`, "train.py", []string{`# --batch_size (train.py:3, default 4096) counts tokens, not samples`, `!micro-batch`}},
	"typed unknown": {`from lib import parse
cfg = parse()
for step in range(cfg.n):
    print(f"step {step}: loss {x}")
`, "train.py --train_batch_size 16 --gradient_accumulation_steps=4",
		[]string{`micro-batch: --train_batch_size  # likely: the only setting with such a name; the command sets 16`,
			`accumulation: --gradient_accumulation_steps  # likely: the command sets 4`}},
	"tyro subcmd": {`import tyro
from dataclasses import dataclass
@dataclass
class Small:
    batch_size: int = 4
    accum_steps: int = 2
@dataclass
class Big:
    batch_size: int = 64
    accum_steps: int = 2
def main(cfg): pass
cfg = tyro.extras.subcommand_cli_from_dict({"small": Small, "big": Big})
main(cfg)
`, "train.py small --batch-size 8", []string{`micro-batch: [--batch-size, --batch_size]  # likely`,
		`accumulation: [--accum-steps, --accum_steps]`}},
	"warmup": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

def schedule(warmup_steps):
    print("Set warmup steps = %d" % warmup_steps)
schedule(args.warmup)
for epoch in range(args.epochs):
    pass
`, "train.py", []string{`# progress: `, `!progress: `}},
	"terminate": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

import multiprocessing as mp
processes = [mp.Process() for _ in range(4)]
for epoch in range(args.epochs): pass
for i, process in enumerate(processes):
    print(f"Terminating process {i}...")
`, "train.py", []string{`# progress: `, `!progress: `}},
	"ema": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    if epoch == args.warmup:
        print(f"Refresh EMA at epoch {epoch} with decay")
    train()
`, "train.py", []string{`# progress: `, `!progress: `}},
	"ema2": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    if epoch == args.warmup:
        print(f"Unfreezing the backbone, epoch {epoch}")
`, "train.py", []string{`# progress: `, `!progress: `}},
	"begin": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    logger.info(f"Beginning epoch {epoch}...")
    for x in loader: step(x)
`, "train.py", []string{`# progress: `, `!progress: `}},
	"endof": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    for x in loader: step(x)
    print("end of epoch {} (average epoch stats below)".format(epoch))
`, "train.py", []string{`# progress: `, `!progress: `}},
	"modules": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for i, sub in enumerate(model.modules()):
    print(f"Moving submodules: {i}%")
for x in tqdm(model.children(), desc="Moving submodules"): pass
`, "train.py", []string{`# progress: `, `!progress: `}},
	"a bar that is not reached": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

def never_used():
    for i, x in enumerate(tqdm(loader, desc="Training VAE")): pass
for g in tqdm(groups, desc="Grouping examples"): pass
`, "train.py", []string{`# progress: `, `!progress: `}},
	"failed": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    try:
        go()
    except Exception as err:
        print(f"failed with error {err}")
    for k in range(3):
        print(f"request failed with error {error}")
`, "train.py", []string{`# progress: `, `!progress: `, `!metric: `}},
	"a first value": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

ssim = evaluate(model)
print(f"Initial ssim: {ssim:.3f}")
for epoch in range(args.epochs):
    print(f"epoch {epoch} done in {t}")
`, "train.py", []string{`!metric: `, `progress: 'epoch (?P<iteration>\d+) done in'`}},
	"resume msg": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

start_epoch = 0
start_epoch += 1
print(f"=> going on from epoch {start_epoch}")
for epoch in range(start_epoch, args.epochs): train(epoch)
`, "train.py", []string{`# progress: `, `!progress: `}},
	"dead": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

if False:
    for step in range(9):
        print(f"step {step}: loss {loss}")
def unused():
    for step in range(9):
        print(f"Step {step}: loss {loss}")
`, "train.py", []string{`# progress: `, `!progress: `}},
	"good fn": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

def train_one(epoch, loader):
    for i, (x, y) in enumerate(loader):
        loss = f(x)
        if i % args.log_interval == 0:
            print("Train Epoch: {} [{}/{}]\tLoss: {:.6f}".format(epoch, i * len(x), len(loader.dataset), loss.item()))
def main():
    for epoch in range(args.epochs):
        train_one(epoch, loader)
if __name__ == "__main__":
    main()
`, "train.py", []string{`progress: 'Train Epoch: (?P<iteration>\d+) \['  # sure: train.py:12`,
		`metric: {name: loss, `}},
	"good class": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

class Trainer:
    def __init__(self): self.step = 0
    def log(self, loss):
        print(f"step {self.step}: loss {loss:.3f}")
    def fit(self):
        while self.step < args.epochs:
            self.step += 1
            self.log(0.1)
Trainer().fit()
`, "train.py", []string{`progress: 'step (?P<iteration>\d+): loss'  # sure`, `metric: {name: loss`}},
	"good hook": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

class Cb:
    def on_train_batch_end(self, trainer, batch_idx):
        print(f"batch {batch_idx} of {trainer.n} loss {loss}")
Runner(Cb()).fit()
`, "train.py", []string{`progress: 'batch (?P<iteration>\d+) of'`}},
	"good param": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

def report(it, loss):
    print("iter {:d} loss {:.3f}".format(it, loss))
for n_iter, batch in enumerate(loader):
    report(n_iter, 0.3)
`, "train.py", []string{`progress: 'iter (?P<iteration>\d+) loss'`}},
	"good assigned": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    for i, b in enumerate(loader):
        it = epoch * len(loader) + i
        logger.info(f"[it {it}] loss={loss}")
`, "train.py", []string{`progress: '\[it (?P<iteration>\d+)\] loss='`}},
	"good epoch only": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    loss = train()
    print(f"Epoch {epoch+1}/{args.epochs}, loss: {loss:.4f}")
`, "train.py", []string{`progress: 'Epoch (?P<iteration>\d+)/(?P<total>\d+), loss:'`}},
	"the end of the loop": {loop("for i in range(1, a.n + 1):", `print(f"{i} out of {total}: {loss}")`), "train.py",
		[]string{`progress: '(?P<iteration>\d+) out of (?P<total>\d+):'`}},
	"a loop that may break": {loop("for i in range(1, a.n + 1):", "if loss < 1:\n        break\n    "+
		`print(f"step {i}/{total}: {loss}")`), "train.py", []string{`progress: 'step (?P<iteration>\d+)/'`}},
	"another end": {loop("for i in range(1, a.batch_size + 1):", `print(f"step {i}/{total}: {loss}")`), "train.py",
		[]string{`progress: 'step (?P<iteration>\d+)/'`}},
	"the end of a loop of an epoch": {loop("for epoch in range(9):\n  for i in range(a.n):",
		`print(f"step {i}/{a.n}: {loss}")`),
		"train.py", []string{`progress: 'step (?P<iteration>\d+)/'`}},
	"MetricLogger with two numbers": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

import utils
def train_one_epoch(loader, epoch):
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = 'Epoch: [{}/{}]'.format(epoch, args.epochs)
    for it, (images, _) in enumerate(metric_logger.log_every(loader, 10, header)):
        pass
def evaluate(loader):
    metric_logger = utils.MetricLogger(delimiter="  ")
    for images in metric_logger.log_every(loader, 10, 'Test:'):
        pass
for epoch in range(args.epochs):
    train_one_epoch(loader, epoch)
    evaluate(loader)
`, "train.py", []string{`progress: 'Epoch: \[\d+/\d+\]\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'  # likely`}},
	"MetricLogger of a train epoch": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

import utils
def train(model, loader, epoch):
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = 'Train Epoch: [{}]'.format(epoch)
    print_freq = 50
    for i, (image, caption) in enumerate(metric_logger.log_every(loader, print_freq, header)):
        pass
for epoch in range(args.epochs): train(model, loader, epoch)
`, "train.py", []string{`progress: 'Train Epoch: \[\d+\]\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'  # likely`}},
	"MetricLogger with a formatted text": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

import utils
def train_one_epoch(model, loader, epoch):
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = f"Epoch: [{epoch}]"
    for i, (image, target) in enumerate(metric_logger.log_every(loader, args.print_freq, header)):
        pass
for epoch in range(args.epochs): train_one_epoch(model, loader, epoch)
`, "train.py", []string{`progress: 'Epoch: \[\d+\]\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'  # likely`}},
	"metriclogger eval only": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

import utils
def evaluate(loader):
    metric_logger = utils.MetricLogger(delimiter="  ")
    header = 'Test:'
    for images in metric_logger.log_every(loader, 10, header):
        pass
evaluate(loader)
`, "train.py", []string{`# progress: `, `!progress: `}},
	"bar fmt": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    pbar = tqdm(enumerate(loader), total=9, bar_format=FMT)
    for i, x in pbar: pass
`, "train.py", []string{`# progress: `, `!progress: `}},
	"good bar": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for epoch in range(args.epochs):
    for x in tqdm(train_loader, desc=f"epoch {epoch}"): pass
`, "train.py", []string{`progress: '^epoch .*?: *\d+%`}},
	"breaker": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

def check(n):
    logger.error(f"GPU circuit breaker: {n} failures, loss nan")
    print(f"GPU circuit breaker: {n}")
for step in range(9):
    check(step)
`, "train.py", []string{`# progress: `, `!progress: `, `!metric: `}},
	"hash": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

for iteration in range(9):
    if args.check and iteration % args.check == 0:
        print(f"Weight hashes match after {iteration} iterations")
`, "train.py", []string{`# progress: `, `!progress: `}},
	"warmup2": {`import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--warmup", type=int, default=8)
p.add_argument("--epochs", type=int, default=8)
args = p.parse_args()

warmup_steps = 10
if warmup_steps > args.epochs:
    logger.warning(f"Warmup steps ({warmup_steps}) exceed total")
for step in range(9): pass
`, "train.py", []string{`# progress: `, `!progress: `}},
	"best and numbers": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
def save(state, tag):
    torch.save(state, os.path.join(args.out, f"ckpt-{tag}.pt"))
for epoch in range(args.epochs):
    if best: save({"model": m, "optimizer": o}, "best")
    save({"model": m, "optimizer": o}, str(epoch))
`, "train.py", []string{`resume: {--resume: '{out}/ckpt-[0-9]*.pt'}`}},
	"last and best": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
def save(state, name):
    torch.save(state, os.path.join(args.out, name + ".pt"))
for epoch in range(args.epochs):
    save({"model": m, "optimizer": o}, "best")
    save({"model": m, "optimizer": o}, "last")
`, "train.py", []string{`resume: {--resume: '{out}/last.pt'}`}},
	"percent": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
for epoch in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, "%s/model_%03d.tar" % (args.out, epoch))
`, "train.py", []string{`resume: {--resume: '{out}/model_[0-9]*.tar'}`}},
	"format": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
path = "{}/epoch={}.ckpt"
for epoch in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, path.format(args.out, epoch))
`, "train.py", []string{`resume: {--resume: '{out}/epoch=[0-9]*.ckpt'}`}},
	"sub dir": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

from pathlib import Path
if args.resume: torch.load(args.resume)
run = Path(args.out) / "runs" / "exp"
w = run / "weights"
for epoch in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, w / f"epoch{epoch}.pt")
`, "train.py", []string{`resume: {--resume: '{out}/runs/exp/weights/epoch[0-9]*.pt'}`}},
	"step dir": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
for step in range(args.epochs):
    d = os.path.join(args.out, "checkpoints", f"step-{step}")
    torch.save({"model": m, "optimizer": o}, os.path.join(d, "state.pt"))
`, "train.py", []string{`resume: {--resume: '{out}/checkpoints/step-[0-9]*/state.pt'}`}},
	"computed dir": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume: torch.load(args.resume)
folder = make_run_folder(args)
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, os.path.join(folder, "state.pt"))
`, "train.py", []string{`# resume: {--resume: '*/state.pt'}`, `!resume: `}},
	"nargs? flag": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", nargs="?", const=True, default=False)
args = p.parse_args()

if args.resume: find_latest_and_load()
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`# the option --resume (train.py:6, default False) takes a value or none`, `!resume: `}},
	"nargs? path": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", nargs="?", const="auto", default=None)
args = p.parse_args()

if isinstance(args.resume, str) and os.path.isfile(args.resume): torch.load(args.resume)
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: {--resume: '{out}/state.pt'}`}},
	"store_true": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", action="store_true")
args = p.parse_args()

if args.resume: torch.load(os.path.join(args.out, "state.pt"))
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: {from: '{out}/state.pt', set: {--resume: true}}`}},
	"restores ckpt args": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume:
    ckpt = torch.load(args.resume)
    args = ckpt["args"]
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o, "args": args}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: none  # sure: train.py:11 takes all options of a resumed run, the batch too`}},
	"restores vars update": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

import json
def load_options(args):
    vars(args).update(json.load(open(args.resume + ".json")))
if args.resume:
    load_options(args)
    torch.load(args.resume)
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o, "args": args}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: none  # sure: train.py:11 takes all options`}},
	"restores but keeps batch": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume:
    bs = args.batch_size
    ckpt = torch.load(args.resume)
    args = ckpt["args"]
    args.batch_size = bs
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o, "args": args}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: {--resume: '{out}/state.pt'}`}},
	"reads epoch only": {`import argparse, torch, os
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--out", default="out")
p.add_argument("--epochs", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()

if args.resume:
    ckpt = torch.load(args.resume)
    args.start_epoch = ckpt["epoch"] + 1
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
for step in range(args.epochs):
    torch.save({"model": m, "optimizer": o, "args": args}, os.path.join(args.out, "state.pt"))
`, "train.py", []string{`resume: {--resume: '{out}/state.pt'}`}},
}

// loop is a training with a loop's header and what it does after a step.
func loop(header, body string) string {
	return "import argparse, torch\np = argparse.ArgumentParser()\n" +
		"p.add_argument(\"--batch-size\", type=int, default=8)\n" +
		"p.add_argument(\"--n\", type=int, default=8)\na = p.parse_args()\ntotal = a.n\n" + header +
		"\n    loss = train()\n    loss.backward()\n    " + body + "\n"
}

func TestSiblings(t *testing.T) {
	for name, tt := range siblings {
		t.Run(name, func(t *testing.T) { drafted(t, map[string]string{"train.py": tt.source}, "python "+tt.args, tt.want) })
	}
}
