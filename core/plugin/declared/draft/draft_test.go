package draft

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/plugin/plugintest"
	"github.com/launch-ml/launch/core/python"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

const hydraMain = "import hydra\n@hydra.main(config_path='.', config_name='c')\ndef main(cfg): pass\n"

// A project of each form, and the lines that its draft has, by their beginnings. A line that begins with "!" is not
// there.
var projects = map[string]struct {
	files map[string]string
	args  string
	want  []string
}{
	"a table of commands": {map[string]string{"train.py": `
import fire
from serving import (
    run as serve,
)
from tuning import run as tune
from pretraining import run as pretrain

COMMANDS = {
    "serve": serve,
    "tune": tune,
    "pretrain": pretrain,
}
if __name__ == "__main__":
    fire.Fire(COMMANDS)
`, "serving.py": "def run(port: int = 1):\n    print(f'request {port}')\n",
		"tuning.py": `
def run(batch_size: int = 8):
    for step, x in enumerate(DataLoader(data, batch_size=batch_size)):
        print(f"tuning step {step} loss {loss}")
`, "pretraining.py": `
def run(batch_size: int = 8):
    for step, x in enumerate(DataLoader(data, batch_size=batch_size)):
        print(f"step {step} loss {loss}")
`}, "python train.py pretrain --batch_size=4", []string{`progress: 'step (?P<iteration>\d+) loss`}},
	"argparse": {map[string]string{"train.py": `
import argparse, os, signal, torch
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", default=4 * 4, type=int)
p.add_argument("--accum", default=2, type=int)
p.add_argument("--eval-batch-size", default=64, type=int)
p.add_argument("--gradient-checkpointing", action="store_true")
p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
p.add_argument("--lr", default=1e-3); p.add_argument("--seed", default=0)
p.add_argument("--steps", default=10)
p.add_argument("--out", default="out")
p.add_argument("--resume")
args = p.parse_args()
def on_signal(number, frame): save_checkpoint()
signal.signal(signal.SIGUSR1, on_signal)
if args.resume: start = torch.load(args.resume)
print("batch size %d" % args.batch_size)
for step in range(args.steps):
    x = BatchNorm2d(x)
    if step % 10 == 0:
        print(f"step {step}/{args.steps}  loss: {loss:.3f}")
    val_loss = evaluate()
    print("epoch {}: val loss {:.4f}".format(epoch, val_loss))
    path = os.path.join(args.out, f"ckpt_{step}.pt")
    torch.save({"model": m.state_dict(), "optimizer": o.state_dict()}, path)
    print("saved checkpoint to", path)
print("training finished")
`}, "python train.py", []string{
		"script: train.py", "micro-batch: [--batch-size, -b]  # likely: the only setting with such a name; train.py:4, " +
			"default 16", "accumulation: --accum  # likely: " +
			"train.py:5, default 2",
		"phases: {validation: {micro-batch: --eval-batch-size}}", "batch-norm: true  # sure: train.py:19, BatchNorm2d",
		"  - {name: activation checkpointing, at: {at: --gradient-checkpointing, takes: nothing}, to: true, cost: " +
			"speed, slowdown: 1.3}",
		"  - {name: mixed precision, at: --precision, to: bf16, cost: numerics}", "ignore: [--lr, --seed, --steps, " +
			"--out, --resume]",
		`progress: 'step (?P<iteration>\d+)/(?P<total>\d+)\s+loss:'`, `saved: 'saved checkpoint to (?P<path>\S+)'`,
		`succeeded: '^training finished\s*$'`,
		`metric: {name: 'val loss', pattern: 'epoch .*?: val loss `, `confirm: {micro-batch: 'batch size (?P<value>\d+)'}`,
		"resume: {--resume: '{out}/ckpt_[0-9]*.pt'}", "values: {out: --out}", "save: {signal: USR1}",
	}},
	"what is not there": {map[string]string{"train.py": "import argparse\np.add_argument('--n', default=1)\n"},
		"python train.py", []string{
			"# micro-batch: --batch-size", "# accumulation: --accumulation-steps", "# batch-norm: true", "# rungs:",
			`# progress: 'step (?P<iteration>\d+)'`, "# resume: {--resume: 'checkpoints/*.pt'}",
		}},
	"for all ranks": {map[string]string{"main.py": `
p.add_argument("--batch-size", default=256)
p.add_argument("--resume", action="store_true")
def worker(gpu, args):
    args.batch_size = int(args.batch_size / ngpus_per_node)
    if args.resume: pass
    save({"epoch": 1, "optimizer": o}, best)
def save(state, is_best, filename="last.pth.tar"):
    torch.save(state, filename)
mp.spawn(worker, args=(args,))
`}, "python main.py", []string{"per: {micro-batch: all-ranks}  # sure: main.py:5 divides", "# ranks: cards",
		"resume: {from: 'last.pth.tar', set: {--resume: true}}"}},
	"a derived accumulation": {map[string]string{"train.py": `
import fire
def train(batch_size: int = 128, micro_batch_size: int = 4):
    gradient_accumulation_steps = batch_size // micro_batch_size
fire.Fire(train)
`}, "python train.py", []string{"micro-batch: [--micro_batch_size, --micro-batch-size]  # likely: " +
		"its name or help tells that it is of " +
		"one device; train.py:3", "global-batch: [--batch_size, --batch-size]"}},
	"a total in tokens": {map[string]string{"train.py": `
p.add_argument("--batch_size", type=int, default=4, help="batch size, in units of #batch dimensions")
p.add_argument("--sequence_length", type=int, default=64)
p.add_argument("--total_batch_size", type=int, default=256, help="total desired batch size, in units of #tokens")
B, T = args.batch_size, args.sequence_length
tokens_per_fwdbwd = B * T * ddp_world_size
grad_accum_steps = args.total_batch_size // tokens_per_fwdbwd
`}, "python train.py", []string{"micro-batch: --batch_size  # likely: the only setting with such a name; train.py:2",
		"global-batch: --total_batch_size  # sure: train.py:7",
		"sample-tokens: --sequence_length  # sure: global-batch counts tokens; train.py:3"}},
	"a total that may be in tokens": {map[string]string{"train.py": `
p.add_argument("--batch_size", type=int, default=4)
p.add_argument("--seq-len", type=int, default=64)
p.add_argument("--total_batch_size", type=int, default=256)
`}, "python train.py", []string{"# global-batch: --total_batch_size", "# sample-tokens: --seq-len"}},
	"configurator": {map[string]string{"train.py": `
batch_size = 12
gradient_accumulation_steps = 5 * 8
out_dir = 'out'
init_from = 'scratch'
exec(open('configurator.py').read())
if init_from == 'resume':
    pass
while True:
    print(f"iter {iter_num}: loss {lossf:.4f}")
    iter_num += 1
    torch.save({'model': m, 'optimizer': o}, os.path.join(out_dir, 'ckpt.pt'))
`, "configurator.py": "import sys\nsys.argv\n"}, "python train.py", []string{
		"micro-batch: {any: [--batch_size=, {'*.py': batch_size}]}", "resume: {from: '{out_dir}/ckpt.pt', set: " +
			"{--init_from=: resume}}",
		`progress: 'iter (?P<iteration>\d+): loss'`}},
	"hydra": {map[string]string{"train.py": hydraMain,
		"c.yaml": "data:\n  batch_size: 8\ntrainer:\n  accumulate_grad_batches: 2\n"}, "python train.py", []string{
		"micro-batch: data.batch_size=  # likely: the only setting with such a name; c.yaml:2, default 8", "accumulation: " +
			"trainer.accumulate_grad_batches="}},
	"a file of settings": {map[string]string{"train.py": "p.add_argument('--config')\nfor epoch in tqdm(range(3)): pass\n",
		"a.yaml": "train:\n  batch_size: 8\n"}, "python train.py --config a.yaml", []string{
		"micro-batch: {--config: train.batch_size}  # likely: the only setting with such a name; a.yaml:2",
		`progress: '^ *\d+%\|.*\| (?P<iteration>\d+)/\d+ \['`}},
	"a folder that is there": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--out", default="runs")
if os.path.exists(args.out):
    raise SystemExit("it exists")
`}, "python train.py", []string{"# clear: ['{out}']"}},
	"a text that outranks a file": {map[string]string{"a.json": `{"batch_size": 8}`,
		"train.py": "import argparse, json\n" +
			"p = argparse.ArgumentParser()\np.add_argument('--preset')\np.add_argument('--hparams')\n" +
			"a = p.parse_args()\nh = merge(json.load(open(a.preset)), a.hparams)\nDataLoader(d, batch_size=h.batch_size)\n"},
		"python train.py --preset a.json --hparams lr=1,batch_size=2", []string{"# --hparams sets batch_size in its text",
			"# micro-batch: {--preset: batch_size}"}},
	"constants": {map[string]string{"train.py": "BATCH_SIZE = 8\nEPOCHS = 2\nrun(BATCH_SIZE)\n" +
		"for epoch in range(EPOCHS):\n    print('epoch', epoch, 'loss', loss)\n"},
		"python train.py", []string{"micro-batch: {train.py: BATCH_SIZE}",
			`progress: 'epoch (?P<iteration>\d+) loss'`, "metric: {name: loss, "}},
	"HfArgumentParser": {map[string]string{"train.py": "from transformers import HfArgumentParser, " +
		"TrainingArguments, Trainer\nparser = HfArgumentParser(TrainingArguments)\n" +
		"Trainer().train(resume_from_checkpoint=a.resume_from_checkpoint)\n"},
		"python train.py", []string{"micro-batch: [--per_device_train_batch_size, " +
			"--per-device-train-batch-size]",
			"resume: {--resume_from_checkpoint: '{output_dir}/checkpoint-[0-9]*'}", "resume-needs: {transformers: '5.2'}",
			"ranks: cards  # sure: train.py:3",
			"leave: [{when: {--auto_find_batch_size: true}",
			"  - {name: bf16, at: --bf16, to: true, " +
				"cost: numerics}"}},
	"the Trainer is not asked to resume": {map[string]string{"train.py": "from transformers import HfArgumentParser, " +
		"TrainingArguments, Trainer\nparser = HfArgumentParser(TrainingArguments)\nTrainer().train()\n"},
		"python train.py", []string{"# the program has the option --resume_from_checkpoint", "!resume: {"}},
	"an option that nothing reads": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--resume")
torch.save({"model": m, "optimizer": o}, "last.pt")
`}, "python train.py", []string{"# resume: {--resume: ", "!resume: "}},
	"where it saves": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--checkpoint-path", default="last.pt")
torch.save({"model": m, "optimizer": o}, args.checkpoint_path)
`}, "python train.py", []string{"resume: none  # "}},
	"from where it loads": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--ckpt")
torch.load(args.ckpt)
torch.save({"model": m, "optimizer": o}, "last.pt")
`}, "python train.py", []string{"resume: {--ckpt: 'last.pt'}"}},
	"a state that it looks for itself": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
if os.path.exists("last.pt"): torch.load("last.pt")
torch.save({"model": m, "optimizer": o}, "last.pt")
`}, "python train.py", []string{
		"# no option was found by which the program resumes, but train.py:3 loads a file", "!resume: "}},
	"a flag and a path": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--resume", action="store_true")
p.add_argument("--resume-path")
if args.resume: torch.load(args.resume_path)
torch.save({"model": m, "optimizer": o}, "last.pt")
`}, "python train.py", []string{"# there are two options, --resume (train.py:3, default False) and --resume-path",
		"!resume: "}},
	"a number to resume from": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=1)
p.add_argument("--resume", type=int)
if args.resume: pass
torch.save({"model": m, "optimizer": o}, "last.pt")
`}, "python train.py", []string{"# the option --resume (train.py:3) takes a number, not a path", "!resume: "}},
	"two batches": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--minibatch-size", default=8)
p.add_argument("--batch-norm", default=1)
steps = len(d) / args.batch_size / args.accum
`}, "python train.py", []string{
		"# several settings could be it: --batch-size (train.py:2, default 64), --minibatch-size (", "!micro-batch: "}},
	"batches of several phases": {map[string]string{"train.py": hydraMain,
		"c.yaml": "val:\n  batch_size: 2\ntest:\n  batch_size: 1\ndata:\n  batch_size: 8\n"}, "python train.py", []string{
		"micro-batch: data.batch_size="}},
	"batches of two stages": {map[string]string{"train.py": hydraMain,
		"c.yaml": "one:\n  batch_size: 2\ntwo:\n  batch_size: 1\n"}, "python train.py", []string{
		"# several settings could be it: one.batch_size (c.yaml:2, default 2), two.batch_size", "!micro-batch: "}},
	"defaults of subcommands": {map[string]string{"train.py": `
a.add_argument("--batch-size", default=64)
b.add_argument("--batch-size", default=8)
`}, "python train.py", []string{"micro-batch: --batch-size  # likely: the only setting with such a name; train.py:2"}},
	"a global batch": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--accum-steps", default=4)
loader = DataLoader(d, batch_size=args.batch_size // args.accum_steps)
`}, "python train.py", []string{"global-batch: --batch-size  # sure: train.py:4 divides", "accumulation: --accum-steps",
		"!micro-batch"}},
	"of all ranks in a call": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
steps = len(d) // (args.batch_size * world_size)
loader = DataLoader(d, batch_size=args.batch_size // dist.get_world_size())
`}, "python train.py", []string{"per: {micro-batch: all-ranks}  # sure: train.py:4 divides"}},
	"not divided": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
steps = len(d) // args.batch_size // world_size
`}, "python train.py", []string{"micro-batch: --batch-size", "!per: "}},
	"a number in a call": {map[string]string{"train.py": "loader = DataLoader(d, batch_size=32)\n"}, "python train.py",
		[]string{"# train.py:1 sets batch_size=32 in a call. launch changes an option or a constant"}},
	"the settings of a default": {map[string]string{"train.py": "p.add_argument('--config', default='a.yaml')\n",
		"a.yaml": "batch_size: 2\n"}, "python train.py", []string{
		"# the settings may be in a.yaml, the default of --config. Name it in the command (--config a.yaml)"}},
	"OmegaConf": {map[string]string{"train.py": "from omegaconf import OmegaConf\ncfg = OmegaConf.merge(" +
		"OmegaConf.load('c.yaml'), OmegaConf.from_cli())\n", "c.yaml": "data:\n  batch_size: 8\n"}, "python train.py",
		[]string{"micro-batch: data.batch_size=  # likely: the only setting with such a name; c.yaml:2, default 8"}},
	"a fixed file": {map[string]string{"train.py": "import yaml\nwith open('conf/c.yaml') as f:\n    cfg = " +
		"yaml.safe_load(f)\n", "conf/c.yaml": "train:\n  batch_size: 8\n"}, "python train.py",
		[]string{"micro-batch: {conf/c.yaml: train.batch_size}  # likely: the only setting with such a name; " +
			"conf/c.yaml:2, default 8"}},
	"what is printed": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--out", default="o")
p.add_argument("--resume")
if args.resume: pass
for epoch in range(9):
    for i in range(9):
        print(f"Step [{i+1}/{total_step}], Loss: {loss.item():.4f}")
        torch.save({"model": m, "optimizer": o}, f"{args.out}/step{i:06d}.pt")
        print(f"state saved: {args.out}/step{i:06d}.pt.")
        print("state saved in %s" % args.out + path + ".pt")
`}, "python train.py", []string{`progress: 'Step \[(?P<iteration>\d+)/`, `saved: 'state saved: (?P<path>\S+)\.'`,
		"resume: {--resume: '{out}/step[0-9]*.pt'}"}},
	"bars": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
for x in tqdm(loader, desc=f"Epoch {epoch}", leave=False): pass
`}, "python train.py", []string{`progress: '^Epoch .*?: *\d+%\|.*\| (?P<iteration>\d+)/\d+ \['`}},
	"what is no whole state": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--resume")
n = len(d) / args.batch_size / args.accum
torch.load(args.resume)
torch.save({"optimizer": o.state_dict()}, "optim.pt")
torch.save(optimizer.state_dict(), "optimizer.pt")
torch.save({"epoch": epoch}, "meta.pt")
torch.save({"model": m, "optimizer": o}, "best.pt")
print("saved", "best.pt", path)
torch.save({"model": m, "optimizer": o}, path)
print('%s' % path + "")
torch.save({"model": m, "epoch": o}, "last.pt")
`}, "python train.py", []string{"resume: {--resume: 'last.pt'}", "micro-batch: --batch-size", "!saved: "}},
	"a count in a name": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--start", default=0)
p.add_argument("--resume")
torch.load(args.resume)
step = args.start
while True:
    step += 1
    torch.save({"model": m, "optimizer": o}, f"step{step}.pt")
`}, "python train.py", []string{"resume: {--resume: 'step[0-9]*.pt'}"}},
	"weights alone": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
torch.save(model.state_dict(), path)
print(f"model saved to {path}")
`}, "python train.py", []string{"# saved: 'model saved to", "!saved: "}},
	"what does not confirm": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
p.add_argument("--test-batches", default=64)
print("batch size is changed to", args.batch_size)
print("the loader is called, length", args.batch_size)
`}, "python train.py", []string{"!confirm: ", "!phases: "}},
	"lines and bars that are no steps": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
for f in tqdm(files, desc="Loading data"): pass
def extract_features():
    for f in tqdm(files): pass
for step in range(9):
    print(f"skipping step {step}: no gradient")
    print("saved the state of step", step)
    print("[T] step: %d, loss: %f", step, loss)
    print("batch: %d", step)
`}, "python train.py", []string{"# progress: ", "!progress: "}},
	"a line without words": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
for step in range(9):
    log.info(f"{step}: {loss}")
`}, "python train.py", []string{"# progress: ", "!progress: ", "!metric: "}},
	"a printed line without words": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
for step in range(9):
    print(f"{step}: {loss}")
`}, "python train.py", []string{`progress: '^(?P<iteration>\d+):'`, "!metric: "}},
	"a printed line of marks": {map[string]string{"train.py": `
p.add_argument("--batch-size", default=64)
for epoch in range(9):
    for i, data in enumerate(loader):
        print('[%d/%d][%d/%d] Loss: %.4f' % (epoch, n, i, len(loader), loss))
`}, "python train.py", []string{`progress: '^\[.*?/.*?\]\[(?P<iteration>\d+)/`}},
	"pairs": {map[string]string{"train.py": `
import argparse
from yacs.config import CfgNode as CN
_C = CN()
_C.TRAIN = CN()
_C.TRAIN.BATCH_SIZE = 32
_C.TRAIN.ACCUMULATION_STEPS = 2
_C.TEST = CN()
_C.TEST.BATCH_SIZE = 1
p = argparse.ArgumentParser()
p.add_argument("--cfg")
p.add_argument("opts", default=None, nargs=argparse.REMAINDER)
args = p.parse_args()
_C.merge_from_file(args.cfg)
_C.merge_from_list(args.opts)
`, "c.yaml": "TRAIN:\n  BATCH_SIZE: 16\n"}, "python train.py --cfg c.yaml TRAIN.BATCH_SIZE 8 MODEL.DEPTH 2", []string{
		"micro-batch: {any: [{pair: TRAIN.BATCH_SIZE}, {--cfg: TRAIN.BATCH_SIZE}]}  # likely: the only setting with such a " +
			"name; c.yaml:2, the command sets 8",
		"accumulation: {at: {pair: TRAIN.ACCUMULATION_STEPS}, default: 2}"}},
	"pairs of all GPUs": {map[string]string{"train.py": "p.add_argument('opts', " +
		"nargs='*')\ncfg.merge_from_list(a.opts)\n"},
		"python train.py SOLVER.IMS_PER_BATCH 4 ROI_HEADS.BATCH_SIZE_PER_IMAGE 128", []string{
			"micro-batch: {pair: SOLVER.IMS_PER_BATCH}", "per: {micro-batch: all-ranks}  # sure: detectron2"}},
	"a pair in a program without pairs": {map[string]string{"train.py": "p.add_argument('--n')\n"},
		"python train.py --n x DATA.BATCH_SIZE 4", []string{"!micro-batch: ", "# micro-batch: "}},
	"a recipe with several batches": {map[string]string{"train.py": "p.add_argument('--config')\n",
		"a.toml": "micro_batch_size_per_gpu = 2\ncaching_batch_size = 8\neval_micro_batch_size_per_gpu = 1\n" +
			"gradient_accumulation_steps = 4\neval_gradient_accumulation_steps = 1\n"},
		"python train.py --config a.toml", []string{"micro-batch: {--config: micro_batch_size_per_gpu}  # likely: its name",
			"phases: {validation: {micro-batch: {--config: eval_micro_batch_size_per_gpu}}}",
			"accumulation: {--config: gradient_accumulation_steps}"}},
	"a whole batch by a method": {map[string]string{"train.py": `
class Options:
    def whole(self, devices):
        return self.global_batch_size // devices
    def accumulation(self, devices):
        accumulate = self.whole(devices) // self.micro_batch_size
        return accumulate
p.add_argument('--config')
`, "a.yaml": "devices: 2\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 2\n"}, "python train.py --config a.yaml",
		[]string{"micro-batch: {--config: train.micro_batch_size}",
			"global-batch: {--config: train.global_batch_size}  # sure: train.py:6: the accumulation is derived"}},
	"a nominal batch": {map[string]string{"train.py": `
p.add_argument("--batch-size", type=int, default=16, help="batch size over all GPUs")
nominal = 64
accumulate = max(round(nominal / args.batch_size), 1)
`}, "python train.py", []string{"micro-batch: --batch-size", "global-batch: 64  # sure: train.py:4: the " +
		"accumulation is " +
		"derived", "per: {micro-batch: all-ranks}  # likely: its help tells so"}},
	"a preset": {map[string]string{"train.py": `
import click
presets = {"small": dict(batch=256, lr=1), "large": dict(batch=1024, lr=2)}
@click.command()
@click.option("--preset")
@click.option("--batch", type=int, help="Total batch size")
@click.option("--batch-gpu", type=int, default=0, help="Limit per GPU")
def main(**opts):
    rounds = opts["batch"] // opts["batch_gpu"]
main()
`}, "python train.py --preset=large --batch-gpu=8", []string{"micro-batch: --batch-gpu  # likely: its name or " +
		"help tells " +
		"that it is of one device; train.py:7, the command sets 8",
		"global-batch: {at: --batch, default: 1024}  # sure: train.py:9: the accumulation is derived; train.py:3 of " +
			"--preset"}},
	"tyro's presets": {map[string]string{"train.py": `
import tyro
from dataclasses import dataclass
@dataclass
class Config:
    batch_size: int = 2
presets = {"one": ("first", Config()), "two": ("second", Config(batch_size=4))}
cfg = tyro.extras.overridable_config_cli(presets)
`}, "python train.py one --batch_size 8", []string{"micro-batch: [--batch-size, --batch_size]  # likely: the " +
		"only setting " +
		"with such a name; train.py:6, the command sets 8"}},
	"an option of a library, and a constant": {map[string]string{"train.py": `
from lib import parse
class Config:
    batch_size = 2
cfg = parse(Config)
`}, "python train.py --batch_size 8", []string{"micro-batch: {any: [--batch_size, {train.py: Config.batch_size}]}"}},
	"MetricLogger": {map[string]string{"train.py": `
import util.misc as misc
p.add_argument("--batch_size", default=64)
for epoch in range(9):
    logger = misc.MetricLogger()
    for step, x in enumerate(logger.log_every(loader, 20, 'Epoch: [{}]'.format(epoch))): pass
`, "util/__init__.py": "", "util/misc.py": "class MetricLogger:\n    def log_every(self, it, freq, header=None):\n" +
		"        print(header, 'eta: {eta}')\n"}, "python train.py", []string{
		`progress: 'Epoch: \[\d+\]\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'  # sure: train.py:6, MetricLogger's ` +
			`lines (util/misc.py)`}},
	"what is on by default": {map[string]string{
		"train.py": "from trl import SFTConfig, TrlParser\nTrlParser((SFTConfig,))\n"}, "python train.py",
		[]string{"!rungs:", "# rungs:"}},
}

// Every draft is one that the reader of declarations takes, and its patterns are signs.
func TestDrafts(t *testing.T) {
	for name, tt := range projects {
		t.Run(name, func(t *testing.T) { drafted(t, tt.files, tt.args, tt.want) })
	}
}

// drafted drafts the declaration of a command in a project of these files, and checks it.
func drafted(t *testing.T, files map[string]string, args string, wanted []string) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	prog, err := command.Program(strings.Fields(args), nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Of(prog, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wanted {
		if not, is := strings.CutPrefix(want, "!"); strings.Contains("\n"+d.Text, "\n"+strings.TrimPrefix(not, "!")) == is {
			t.Errorf("%s: in the draft: %v\n%s", want, is, d.Text)
		}
	}
	if strings.Contains(d.Text, "# micro-batch") {
		return // its author has to complete it
	}
	if err := os.WriteFile(d.Path, []byte(d.Text), 0o644); err != nil {
		t.Fatal(err)
	}
	recognized, err := declared.New().Recognize(t.Context(), job.Command{Args: strings.Fields(args), Dir: dir,
		Devices: 1})
	if strings.Contains(d.Text, ".py: ") && err != nil { // settings in Python source need an interpreter
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, d.Text)
	}
	j := recognized.Job()
	if _, err := oom.NewDetector(j.Signs); err != nil {
		t.Error(err)
	}
	for _, w := range j.Warnings {
		t.Logf("a warning: %s", w)
	}
}

func TestPatterns(t *testing.T) {
	for source, lines := range map[string][2]string{
		`print(f"step {step:>5d} of {n}: loss {x}")`:         {`step\s+`, "step    12 of 9: loss 1"},
		`log.info("iter %6d | loss %.3f", it, loss)`:         {"iter", "iter     12 | loss 0.1"},
		`print("[{}/{}] {loss}".format(i, n, loss=l))`:       {`^\[`, "[12/30] 0.1"},
		`print('a' + str(step) + ' b', x)`:                   {"a", "a12 b 3"},
		`print(f"\n  {{x}} step={step}, {d['k']!r:>{w}} z")`: {`\{x\} step=`, "{x} step=12, y z"},
		`print("%s: %d%% of step %d" % (name, p, step))`:     {`: .*?% of step `, "n: 5% of step 12"},
	} {
		d := &drafting{path: "train.py", Draft: Draft{Path: Name}}
		prog := "for step in x:\n for it in batches:\n  for i in loader:\n   " + source + "\n"
		d.files = []*file{{Syntax: python.NewSource("train.py", prog).Syntax()}}
		d.signs()
		if len(d.Signs) == 0 || d.Signs[0].Key != "progress" {
			t.Errorf("%s: no progress in\n%v", source, d.lines)
			continue
		}
		seen := (&Draft{Signs: d.Signs[:1]}).Look([]string{lines[1]})
		if !strings.HasPrefix(d.Signs[0].Pattern, strings.TrimSuffix(lines[0], `\s+`)) || seen[0].Lines != 1 {
			t.Errorf("%s: %s does not match %q", source, d.Signs[0].Pattern, lines[1])
		}
	}
}

// All of a path is one group, whatever it is made of.
func TestPath(t *testing.T) {
	for source, want := range map[string]string{
		`print(f"saved to '{out}'")`:                  `saved to '(?P<path>\S+)'`,
		`print(f"saved: runs/{out}/step{n:06d}.pt.")`: `saved: (?P<path>\S+)\.`,
		`print("saved at %s" % out + name)`:           `saved at (?P<path>\S+)`,
		`print(f"saved {out}{name}.pt at step {n}")`:  `saved (?P<path>\S+) at step`,
	} {
		f := &file{Syntax: python.NewSource("train.py", source+"\n").Syntax()}
		d := &drafting{files: []*file{f}}
		m := d.messages()[0]
		whole, at := m.path(slices.IndexFunc(m.pieces, func(p piece) bool { return p.field != "" }))
		if got := whole.pattern(map[int]string{at: path}); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

func TestProgressOfOutput(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"steps": {"loading 3 files\nEpoch: [0][ 10/100]\tTime 0.1\nEpoch: [0][ 20/100]\tTime 0.2\nEpoch: [0][ " +
			"30/100]\tTime 0.1\n", `Epoch: \[\S+?\]\[\s*(?P<iteration>\d+)/`},
		"a bar": {"\r  0%|   | 0/3 [00:00<?, ?it/s]\r 33%|#  | 1/3 [00:01<00:02]\r 66%|## | 2/3 [00:02<00:01]\n", "^" + bar},
		"of several bars the last": {"Map:  50%|# | 5/10 [00:00<00:00]\nMap: 100%|##| 10/10 [00:00<00:00]\n" +
			"Epoch 1:   0%|  | 0/3 [00:00<?]\nEpoch 1:  33%|# | 1/3 [00:01<00:02]\n", `^Epoch \S+?:` + bar},
		"named": {"12:00:01 it 5 seen 100\n12:00:02 it 6 seen 200\n12:00:03 it 7 seen 300\n",
			`it\s+(?P<iteration>\d+)`},
		"nothing":     {"a\nb 1\nb 1\n", ""},
		"falls again": {"x 1\nx 3\nx 2\n", ""},
	} {
		got, _, found := Progress(Lines(tt.output))
		if found != (tt.want != "") || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	d := &Draft{Text: "script: a\n# progress: 'x'\n"}
	if d.WithProgress("it's", "seen"); d.Text != "script: a\nprogress: 'it''s'  # seen\n" {
		t.Errorf("%q", d.Text)
	}
}

func FuzzDraft(f *testing.F) {
	for _, p := range projects {
		f.Add(p.files["train.py"])
	}
	f.Add("print(f'{a[\"b\"]:{c}}' % x + y)\ntorch.save(a, f'{b}')\nb = b\nprint('%', '{', \"{}\".format())\nfor i " +
		"in x:\n print(f'{')")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		prog, err := command.Program([]string{"python", "train.py"}, nil, dir)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Of(prog, nil); err == nil && len(d.Look(Lines(text))) != len(d.Signs) {
			t.Errorf("a pattern cannot be read: %v", d.Signs)
		}
	})
}

func TestFigure(t *testing.T) {
	for label, want := range map[string]string{
		"4 loss": "loss", " val loss -": "val loss", "": "meanloss", "top1": "top1",
	} {
		if got := figure(label, "mean(loss)"); got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
}

// The value of a name is that of the last assignment before its use; where that is one to several, none is known.
func TestBinding(t *testing.T) {
	for text, want := range map[string]int{
		"a = 1\na = 2\nf(a)\n": 1, "a = 1\nz = a = 2\nf(a)\n": -1, "a = 1\nz, a = 1, 2\nf(a)\n": -1,
		"z = a = 1\na = 2\nf(a)\n": 1, "a = 1\na += 1\nf(a)\n": 0,
	} {
		f := &file{python.NewSource("a.py", text).Syntax()}
		if got := f.binding("a", 2); got != want {
			t.Errorf("%q: statement %d, want %d", text, got, want)
		}
	}
}
