package draft

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const opening = `import argparse, logging, torch, os
from torch import nn, optim
from tqdm import tqdm
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--resume", default="")
args = p.parse_args()
`

// cloned are small programs of kinds that public projects have, and that drafts stated something false about.
var cloned = map[string]struct {
	files map[string]string
	want  []string
}{
	"a counted state without an optimizer": {map[string]string{"train.py": opening + `
if args.resume:
    state = torch.load(args.resume)
    net.load_state_dict(state["net"])
for epoch in range(3):
    state = {"net": net.state_dict(), "acc": acc, "epoch": epoch}
    torch.save(state, "out/ckpt.pth")
`}, []string{`!resume: `, `# the option is train.py:6. But train.py:14 saves weights alone`}},
	"an optimizer that the state gets later": {map[string]string{"train.py": opening + `
if args.resume:
    state = torch.load(args.resume)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
for epoch in range(3):
    state = {"net": net.state_dict(), "epoch": epoch}
    state["optimizer"] = optimizer.state_dict()
    torch.save(state, "out/ckpt.pth")
`}, []string{`resume: {--resume: 'out/ckpt.pth'}`}},
	"a saved optimizer that nothing restores": {map[string]string{"train.py": opening + `
if args.resume:
    state = torch.load(args.resume)
    net.load_state_dict(state["net"])
    start = state["epoch"]
for epoch in range(3):
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "out/ckpt.pth")
`}, []string{`!resume: `, `# the option is train.py:6. But train.py:11 loads the weights, and no code was found`}},
	"normalisation in what Hydra makes": {map[string]string{"train.py": `
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="main")
def main(cfg):
    hydra.utils.instantiate(cfg.net)
main()
`, "conf/main.yaml": "batch_size: 8\nnet:\n  _target_: nets.mlp.MLP\n",
		"nets/mlp.py": "from torch import nn\nclass MLP(nn.Module):\n    def __init__(self):\n" +
			"        self.n = nn.BatchNorm1d(4)\n",
	}, []string{`batch-norm: true  # `, `!# No BatchNorm`}},
	"what another script prints": {map[string]string{"train.py": opening + `
from check import validate
"""what is validated: see the function check in check.py"""
for step in range(9):
    validate()
`, "check.py": `
def validate():
    return 1
def all():
    for one in range(9):
        print(f"Accuracy {acc:.3f}")
def check():
    all()
if __name__ == "__main__":
    check()
`}, []string{`!metric: `}},
	"a network of its own": {map[string]string{"train.py": opening + `
p.add_argument("--model", default="plain_small")
from timm.models import create_model
import plain
net = create_model(args.model)
`, "plain.py": "@register_model\ndef plain_small(**kw): return Plain(norm=nn.LayerNorm)\n"},
		[]string{`# No BatchNorm was found`, `!batch-norm: true`}},
	"a network of the library": {map[string]string{"train.py": opening + `
p.add_argument("--model", default="resnet18")
from timm.models import create_model
import plain
net = create_model(args.model)
`, "plain.py": "@register_model\ndef plain_small(**kw): return Plain(norm=nn.LayerNorm)\n"},
		[]string{`batch-norm: true  # likely: train.py`}},
	"a step before the figure": {map[string]string{"train.py": opening + `
def validate(iteration):
    print("Validation loss {}: {:9f}  ".format(iteration, val_loss))
for iteration in range(9):
    validate(iteration)
`}, []string{`metric: {name: val_loss, pattern: 'Validation loss .*?: \s*(?P<value>`}},
	"a line of two phases": {map[string]string{"train.py": opening + `
def show(header, ppl):
    print("  - ({}) ppl: {:8.5f}".format(header, ppl))
for epoch in range(9):
    show("Training", train_loss)
    show("Validation", val_loss)
`}, []string{`!metric: `, `# train.py:10 prints it for each of Training, Validation`, `# metric: {name: ppl`}},
	"a line of one phase": {map[string]string{"train.py": opening + `
def show(header, ppl):
    print("  - ({}) ppl: {:8.5f}".format(header, ppl))
for epoch in range(9):
    show("Validation", val_loss)
`}, []string{`metric: {name: ppl`}},
	"a threshold": {map[string]string{"train.py": opening + `
def evaluate():
    for iou in (0.5, 0.75):
        print("Eval IoU : {:.2f}".format(iou))
for step in range(9):
    evaluate()
`}, []string{`!metric: `}},
	"a threshold that is a default": {map[string]string{"train.py": opening + `
def evaluate(iou=0.5):
    print("Eval IoU : {:.2f}".format(iou))
for step in range(9):
    evaluate(0.1)
`}, []string{`!metric: `}},
	"kinds of batch normalisation": {map[string]string{"train.py": opening + `
kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
for m in net.modules():
    frozen = FrozenBatchNorm2d(m)
`}, []string{`!batch-norm: `}},
	"a percentage": {map[string]string{"train.py": opening + `
for epoch in range(3):
    for batch_idx, x in enumerate(loader):
        print("Train: {} [{:.0f}%]".format(epoch, 100. * batch_idx / len(loader)))
`}, []string{`progress: 'Train: (?P<iteration>\d+) \['`}},
	"bars without gradients": {map[string]string{"train.py": opening + `
def score(model, loader):
    with torch.no_grad():
        for x in tqdm(loader):
            model(x)
@torch.inference_mode()
def between(model, t):
    for i in tqdm(reversed(range(t)), desc="between"):
        model(i)
for step, x in enumerate(tqdm(loader, desc="steps")):
    model(x).backward()
    score(model, x)
    between(model, 3)
`}, []string{`progress: '^steps: *\d+%`}},
	"only bars without gradients": {map[string]string{"train.py": opening + `
def score(model, loader):
    with torch.no_grad():
        for x in tqdm(loader):
            model(x)
for epoch in range(3):
    score(model, loader)
`}, []string{`!progress: `}},
	"an accumulation without a setting": {map[string]string{"train.py": opening + `
grad_accum_steps = total // world
loss.backward()
`}, []string{`# grad_accum_steps (train.py:9) may be of a gradient accumulation, but no setting of it was found`}},
	"no accumulation": {map[string]string{"train.py": opening + "loss.backward()\n"},
		[]string{`# the program seems to have no gradient accumulation.`}},
	"a loop of a library": {map[string]string{"train.py": opening + "library.fit(net, loader)\n"},
		[]string{`# no setting of a gradient accumulation was found, but the training loop is not in the files`}},
	"accum-freq": {map[string]string{"train.py": opening + `p.add_argument("--accum-freq", type=int, default=1)`},
		[]string{`accumulation: --accum-freq  # likely`}},
	"a precision that is mixed": {map[string]string{"train.py": opening +
		`p.add_argument("--precision", choices=["amp", "bf16", "fp32"], default="amp")`}, []string{`!rungs:`}},
	"a precision that is not": {map[string]string{"train.py": opening +
		`p.add_argument("--precision", choices=["amp", "bf16", "fp32"], default="fp32")`},
		[]string{"rungs:\n  - {name: mixed precision, at: --precision, to: bf16, cost: numerics}"}},
	"pairs that a library reads": {map[string]string{"train.py": `import argparse
p = argparse.ArgumentParser()
p.add_argument("--cfg")
args, rest = p.parse_known_args()
run(args.cfg, rest)
`, "a.yaml": "TRAIN:\n  BATCH_SIZE: 64\n"}, []string{`micro-batch: {any: [{pair: TRAIN.BATCH_SIZE}, {--cfg: `}},
	"pairs after an option of theirs": {map[string]string{"train.py": `import argparse
p = argparse.ArgumentParser()
p.add_argument("--cfg")
p.add_argument("--opts", nargs=argparse.REMAINDER)
args = p.parse_args()
cfg.merge_from_list(args.opts)
`, "b.yaml": "TRAIN:\n  BATCH_SIZE: 64\n"}, []string{`micro-batch: {any: [{pair: TRAIN.BATCH_SIZE}, {--cfg: `}},
	"batch normalisation that is asked for": {map[string]string{"train.py": opening + `
for m in net.modules():
    if isinstance(m, nn.BatchNorm2d):
        m.reset()
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
print("Using SyncBatchNorm")
`}, []string{`!batch-norm: `}},
	"one network of several": {map[string]string{"train.py": opening + `p.add_argument("--net", default="vit")
from nets import *
`, "nets.py": "class A(nn.Module):\n    def __init__(self):\n        self.norm = nn.BatchNorm2d(8)\n"},
		[]string{`batch-norm: true  # likely: nets.py:3, BatchNorm2d. An option chooses the network`}},
	"resumes by itself": {map[string]string{"train.py": strings.ReplaceAll(opening, `"--resume", default=""`,
		`"--no-resume", action="store_true"`) + `
checkpointer.resume_or_load(resume=not args.no_resume)
torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, "out/a.pt")
`}, []string{`!resume: `, `# the program has the option --no-resume (train.py:6`}},
	"resumes by a number": {map[string]string{"train.py": strings.ReplaceAll(opening, `"--resume", default=""`,
		`"--resume-from-step", type=int, default=-1`)},
		[]string{`!resume: `, `# the program has the option --resume-from-step (train.py:6`}},
	"a rollout's length": {map[string]string{"train.py": opening + `p.add_argument("--num-steps", type=int, default=128)
p.add_argument("--seed", type=int, default=1)
obs = torch.zeros((args.num_steps, 4))
`}, []string{`ignore: [--resume, --seed]`}},
	"steps of a training": {map[string]string{"train.py": opening + `p.add_argument("--num-steps", type=int, default=128)
for i in range(args.num_steps):
    pass
`}, []string{`ignore: [--resume, --num-steps]`}},
	"a log in a file": {map[string]string{"train.py": opening + `
logging.basicConfig(filename="training.log", level=logging.DEBUG)
for step in range(9):
    logging.info(f"step {step} loss {loss}")
`}, []string{`!progress: `, `!metric: `}},
	"options that could not be read": {map[string]string{"train.py": opening + `
for k, v in defaults().items():
    p.add_argument(f"--{k}", default=v)
for part in split(args.microbatch, batch):
    loss(part).backward()
`}, []string{`!micro-batch: `, `# train.py:11 reads args.microbatch, which may be the micro-batch`}},
	"a batch in a call beside loaders": {map[string]string{"train.py": `from library import Config, Trainer
def evaluate():
    return DataLoader(data, batch_size=100)
config = Config(train_batch_size=32, num_eval_loader_workers=4)
Trainer(config).fit()
`}, []string{`# train.py:4 sets train_batch_size=32 in a call`}},
	"a header that may go on": {map[string]string{"train.py": opening + `
from logger import MetricLogger
log = MetricLogger()
header = "Train: epoch: [{}]".format(epoch)
if inner:
    header = header + "; inner [{}]".format(inner)
for x in log.log_every(loader, 10, header):
    x.backward()
`, "logger.py": "class MetricLogger:\n    def log_every(self, it, freq, header):\n        print(header, 'eta:')\n"},
		[]string{`progress: 'Train: epoch: \[\d+\].*?\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'`}},
}

func TestCloned(t *testing.T) {
	for name, tt := range cloned {
		command := "python train.py"
		switch {
		case tt.files["a.yaml"] != "":
			command += " --cfg a.yaml DATA.PATH d TRAIN.BATCH_SIZE 16"
		case tt.files["b.yaml"] != "":
			command += " --cfg b.yaml --opts DATA.PATH d TRAIN.BATCH_SIZE 16"
		}
		t.Run(name, func(t *testing.T) { drafted(t, tt.files, command, tt.want) })
	}
}

// Functions of one name that hand on each other's parameters are looked at once each, not in every order.
func TestPathsOfManyCalls(t *testing.T) {
	var b strings.Builder
	b.WriteString(opening)
	for i := range 40 {
		fmt.Fprintf(&b, "class C%d:\n    def forward(self, x, path):\n        return self.a.forward(x, path), "+
			"self.b.forward(x, path), self.c.forward(x, path)\n", i)
	}
	b.WriteString("def keep(path):\n    torch.save(net.state_dict(), path)\nC0().forward(1, args.resume)\n")
	source := strings.ReplaceAll(b.String(), "return self.a", "print(f'saved {path}')\n        return self.a")
	began := time.Now()
	drafted(t, map[string]string{"train.py": source}, "python train.py", []string{`micro-batch: --batch-size`})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}
