"""Point D: what launch init writes about a program. A wrong line of a draft is a wrong experiment later."""
import os
import textwrap

from box import PYTHON, need, trial

OPTIONS = """
import argparse, os, sys
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
p.add_argument("--accum", type=int, default=2)
p.add_argument("--epochs", type=int, default=3)
p.add_argument("--out", default="out")
p.add_argument("--resume", default="")
args = p.parse_args()
"""
RESUME = OPTIONS + """
import torch
if args.resume:
    torch.load(args.resume)
"""
MB = "micro-batch: --batch-size  #"


def drafts(kind, name, source, has=(), lacks=(), args=(), files=None, program=None):
    """Registers a trial: the draft of a program has these lines, by their beginnings, and not those."""
    @trial("D", f"a draft {kind}: {name}")
    def _(box):
        box.write("work/train.py", textwrap.dedent(source).lstrip())
        for path, text in (files or {}).items():
            box.write(f"work/{path}", textwrap.dedent(text))
        done = box.launch("init", "--print", "--", *(program or [PYTHON, "train.py"]), *args)
        need(done.code == 0, repr(done))
        lines = done.out.splitlines()
        for want in has:
            need(any(line.startswith(want) for line in lines), f"no line {want!r}: {done.out}")
        for no in lacks:
            need(not any(line.startswith(no) for line in lines), f"a line {no!r}: {done.out}")


# What is divided by the accumulation.
for name, line in {
    "the loss of a slice": "loss = mean(y[:args.batch_size]) / args.accum",
    "the loss of a view": "loss = criterion(net(x), y.view(args.batch_size)) / args.accum",
    "a sum in brackets": "loss = ((first(x, args.batch_size) + second(x)) / args.accum)",
    "a learning rate": "lr = 0.1 * args.batch_size / args.accum",
}.items():
    drafts("takes no quotient for the micro-batch", name, OPTIONS + line + "\n", [MB], ["global-batch"])
for name, line in {
    "in a call": "loader = DataLoader(data, batch_size=args.batch_size // args.accum)",
    "rounded": "each = int(args.batch_size / args.accum)",
    "in place": "args.batch_size //= args.accum",
}.items():
    drafts("knows a whole batch that is divided", name, OPTIONS + line + "\n", ["global-batch: --batch-size  # sure"], ["micro-batch"])

# Which setting is the batch.
BATCHES = "import argparse\np = argparse.ArgumentParser()\n"
drafts("takes the batch of the training", "not that of a cache", BATCHES + "p.add_argument('--config')\n",
       ["micro-batch: {--config: micro_batch_size_per_gpu}"], ["micro-batch: {--config: caching"], ["--config", "a.toml"],
       {"a.toml": "micro_batch_size_per_gpu = 2\ncaching_batch_size = 8\n"})
drafts("takes the batch of the training", "that of the loader", BATCHES + """p.add_argument("--batch_size", type=int, default=4)
p.add_argument("--prior_batch_size", type=int, default=4)
a = p.parse_args()
loader = DataLoader(data, batch_size=a.batch_size)
""", ["micro-batch: --batch_size  # sure"])
drafts("takes the batch of the training", "not one that is deprecated", BATCHES +
       """p.add_argument("--batch-size", type=int, default=4, help="deprecated: use --batch")
p.add_argument("--batch", type=int, default=4)
""", ["micro-batch: --batch  #"])
drafts("takes the batch of the training", "none where nothing tells which", BATCHES +
       """p.add_argument("--first_batch_size", type=int, default=4)
p.add_argument("--second_batch_size", type=int, default=4)
""", ["# micro-batch"], ["micro-batch"])
for name, typed in {"joined": ["--batch=512", "--batch-gpu=8"], "apart": ["--batch", "512", "--batch-gpu", "8"], "one alone": ["--batch-gpu", "8"]}.items():
    drafts("takes what is typed", name, """
import click
@click.command()
@click.option("--batch", type=int, default=256, help="Total batch size")
@click.option("--batch-gpu", type=int, default=0, help="Limit per GPU")
def main(batch, batch_gpu):
    accumulation_rounds = batch // batch_gpu
main()
""", ["micro-batch: --batch-gpu", "global-batch: --batch"], ["accumulation: "], typed)
for name, typed in {"of a library": ["--train_batch_size", "8"], "KEY=VALUE": ["train.batch_size=8"], "joined": ["--micro-batch-size=8"]}.items():
    drafts("takes an option that is typed and declared nowhere", name, "from lib import parse\ncfg = parse()\n", [f"micro-batch: {typed[0].split('=')[0]}"],
           args=typed)
for name, body in {
    "constants": "import tyro\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    batch_size: int = 1\n"
                 "cfg = tyro.extras.overridable_config_cli({'default': ('x', Config())})\n",
    "classes": "import tyro\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    batch_size: int = 1\n"
               "cfg = tyro.extras.subcommand_cli_from_dict({'default': Config, 'other': Config})\n",
    "one class": "import tyro\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    batch_size: int = 1\ncfg = tyro.cli(Config)\n",
}.items():
    drafts("reads tyro's options", name, body, ["micro-batch: [--batch-size, --batch_size]  # likely: the only setting with such a name; train.py:5, the command sets 4"],
           args=(["default"] if name != "one class" else []) + ["--batch_size", "4"])

# What counts no samples.
for name, (body, typed) in {
    "frames": ('p.add_argument("--batch_size", type=int, default=3200)\np.add_argument("--batch_size_type", default="frame")\n', []),
    "tokens by the help": ('p.add_argument("--batch-size", type=int, default=4096, help="batch size in tokens")\n', []),
    "tokens that are typed": ('p.add_argument("--batch-size", type=int, default=None)\np.add_argument("--max-tokens", type=int, default=None)\n', ["--max-tokens", "4000"]),
    "seconds": ('p.add_argument("--max-duration", type=int, default=200, help="seconds in a batch")\n', []),
    "elements": ('p.add_argument("--batch_size", type=int, default=9)\np.add_argument("--batch_type", default="sorted")\n', ["--batch_type", "numel"]),
}.items():
    drafts("takes no bound for a number of samples", name, BATCHES + body, ["# micro-batch"], ["micro-batch"], typed)
drafts("takes no bound for a number of samples", "samples are samples", BATCHES +
       'p.add_argument("--batch_size", type=int, default=3200)\np.add_argument("--batch_size_type", default="frame")\n', ["micro-batch: --batch_size"],
       args=["--batch_size_type", "sample"])

# Where the whole batch stands.
drafts("finds the whole batch", "not the number of devices", """
class Options:
    def one(self, devices):
        return self.global_batch_size // devices
    def accumulation(self, devices):
        accumulate = self.one(devices) // self.micro_batch_size
        return accumulate
p.add_argument("--config")
""", ["global-batch: {--config: t.global_batch_size}"], args=["--config", "a.yaml"],
       files={"a.yaml": "devices: 2\nt:\n  global_batch_size: 8\n  micro_batch_size: 2\n"})
drafts("finds the whole batch", "a nominal one", OPTIONS.replace('"--accum"', '"--other"') + "nominal = 64\naccumulate = max(round(nominal / args.batch_size), 1)\n",
       ["global-batch: 64"])
drafts("finds the whole batch", "an option", OPTIONS.replace('"--accum"', '"--total-batch"') + "gas = args.total_batch // args.batch_size\n",
       ["global-batch: --total-batch"])

# Lines that count no steps.
LOOP = OPTIONS + "for epoch in range(args.epochs):\n"
for name, source in {
    "an exception": LOOP + "    try: go()\n    except Exception as e:\n        print(f'evaluation failed: {e}')\n",
    "a condition that is true once": LOOP + "    if epoch == 2:\n        print(f'Freezing the encoder, epoch {epoch}')\n",
    "processes": LOOP + "    pass\nfor i, process in enumerate(processes):\n    print(f'Terminating process {i}')\n",
    "a beginning": LOOP + "    print(f'Beginning epoch {epoch}...')\n",
    "an end": LOOP + "    print(f'end of epoch {epoch}')\n",
    "a setting": OPTIONS + "warmup_steps = 9\nprint(f'warmup steps: {warmup_steps}')\n",
    "code that nothing reaches": OPTIONS + "def old():\n    for step in range(9):\n        print(f'step {step}: loss {loss}')\n",
    "a branch that is never taken": OPTIONS + "if False:\n    for step in range(9):\n        print(f'step {step}')\n",
    "a bar about modules": OPTIONS + "for m in tqdm(model.children(), desc='Moving submodules'): pass\n",
    "a bar of a form of its own": LOOP + "    for x in tqdm(loader, bar_format=FORMAT): pass\n",
}.items():
    drafts("takes no step from", name, source, ["# progress: "], ["progress: "])
for name, source in {
    "a function that a loop calls": OPTIONS + "def one(epoch):\n    print(f'epoch {epoch}: loss {loss}')\nfor epoch in range(args.epochs):\n    one(epoch)\n",
    "a counter of a class": OPTIONS + "class T:\n    step = 0\n    def fit(self):\n        while True:\n            self.step += 1\n            print(f'step {self.step}')\nT().fit()\n",
    "a loop": LOOP + "    print(f'epoch {epoch} loss {loss}')\n",
}.items():
    drafts("takes the steps of", name, source, ["progress: "])
for name, line in {
    "an error's code": "print(f'failed with error {error}')", "a first value": "print(f'Initial ssim: {ssim}')", "an option": "print(f'target loss: {args.loss}')",
}.items():
    drafts("takes no figure from", name, OPTIONS + line + "\n", lacks=["metric: "])
for name, header, want in (("format", "'Epoch: [{}]'.format(epoch)", r"Epoch: \[\d+\]"), ("two numbers", "'Epoch: [{}/{}]'.format(epoch, 9)", r"Epoch: \[\d+/\d+\]"),
                           ("a formatted text", "f'Train Epoch: [{epoch}]'", r"Train Epoch: \[\d+\]")):
    drafts("knows MetricLogger", name, f"""
import argparse, utils
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=8)
for epoch in range(9):
    header = {header}
    for x in utils.MetricLogger().log_every(loader, 20, header): pass
""", [r"progress: '" + want + r"\s+\[ *(?P<iteration>\d+)/(?P<total>\d+)\]\s+eta:'"])

# From what it goes on.
STATE = "{'model': m, 'optimizer': o}"
for name, body, glob in (
        ("by %s", f"torch.save({STATE}, '%s/at_%s.pt' % (args.out, step))", "{out}/at_[0-9]*.pt"),
        ("by a tag", f"torch.save({STATE}, os.path.join(args.out, f'ckpt-{{epoch}}.pt'))", "{out}/ckpt-[0-9]*.pt"),
        ("two levels down", f"torch.save({STATE}, os.path.join(args.out, 'a', 'weights', f'{{epoch}}.pt'))", "{out}/a/weights/[0-9]*.pt")):
    drafts("goes on from numbered states", name, RESUME + f"for epoch in range(9):\n    step = epoch\n    {body}\n", [f"resume: {{--resume: '{glob}'}}"])
drafts("goes on from numbered states", "not the best one", RESUME + f"""
def keep(tag):
    torch.save({STATE}, os.path.join(args.out, f"ckpt-{{tag}}.pt"))
for epoch in range(9):
    keep("best")
    keep(str(epoch))
""", ["resume: {--resume: '{out}/ckpt-[0-9]*.pt'}"])
drafts("goes on from numbered states", "none in a folder that is computed", RESUME + f"where = make(args)\ntorch.save({STATE}, os.path.join(where, 'last.pt'))\n",
       lacks=["resume: "])
for name, body in {"the options of the state": "    args = torch.load(args.resume)['args']\n", "those of a file": "    vars(args).update(read(args.resume))\n",
                   "a new namespace": "    args = argparse.Namespace(**read(args.resume))\n"}.items():
    drafts("of a program that restores its batch resumes none", name, RESUME + "if args.resume:\n" + body + f"torch.save({STATE}, os.path.join(args.out, 'last.pt'))\n",
           ["resume: none  # sure"])
drafts("of a program that restores its batch resumes none", "an option that may stand alone is given no true",
       RESUME.replace('"--resume", default=""', '"--resume", nargs="?", const=True, default=False').replace("torch.load(args.resume)", "latest()") +
       f"torch.save({STATE}, os.path.join(args.out, 'last.pt'))\n", lacks=["resume: "])

# Pairs.
for name, source, typed, want in (
        ("typed", "p.add_argument('opts', nargs='*')\ncfg.merge_from_list(a.opts)\n", ["SOLVER.IMS_PER_BATCH", "4"], "micro-batch: {pair: SOLVER.IMS_PER_BATCH}"),
        ("of all GPUs", "p.add_argument('opts', nargs='*')\ncfg.merge_from_list(a.opts)\n", ["SOLVER.IMS_PER_BATCH", "4"], "per: {micro-batch: all-ranks}"),
        ("in the code", "_C.DATA.BATCH_SIZE = 8\np.add_argument('opts', nargs='*')\n_C.merge_from_list(a.opts)\n", [], "micro-batch: {at: {pair: DATA.BATCH_SIZE}, default: 8}")):
    drafts("reads pairs KEY VALUE", name, source, [want], args=typed)


@trial("D", "a pair KEY VALUE is changed in its place, and an option is added before the pairs")
def _(box):
    box.write("work/train.py", "import sys\nprint('told', *sys.argv[1:])\nif sys.argv[-3] == '8':\n    sys.exit('torch.cuda.OutOfMemoryError: CUDA out of memory. "
                               "Tried to allocate 2.00 GiB')\nprint('over')\n")
    box.write("work/.launch-job.yaml", "script: train.py\nmicro-batch: {pair: SOLVER.BATCH}\naccumulation: {at: --accum, default: 1}\n")
    done = box.launch("--device", "cpu", "--", PYTHON, "train.py", "--amp", "SOLVER.BATCH", "8", "MODEL.DEPTH", "2")
    need(done.code == 0 and "told --amp --accum 2 SOLVER.BATCH 4 MODEL.DEPTH 2\n" in done.out, repr(done))


# Programs that pip installs.
def installed(name, script, files, where):
    @trial("D", f"a program that pip installed leads to its project: {name}")
    def _(box):
        site = "work/venv/lib/python3.11/site-packages"
        box.write("work/venv/pyvenv.cfg", "home = /usr/bin\n")
        box.mkdir(site)
        os.symlink(PYTHON, box.path("work/venv/bin/python")) if os.path.isdir(box.path("work/venv/bin")) else None
        box.write("work/venv/bin/fit", f"#!{box.path('work/venv/bin/python')}\n{script}", mode=0o755)
        for path, text in files.items():
            box.write(path.replace("SITE", site), text.replace("BOX", box.dir))
        box.write(f"{where}", OPTIONS.replace("args =", "def main():\n    args =") + "    for step in range(3):\n        print(f'step {step}: loss 1', flush=True)\n")
        env = {"PATH": box.path("work/venv/bin") + ":/usr/bin:/bin"}
        done = box.launch("init", "--", "fit", "--batch-size", "4", env=env)
        need(done.code == 0 and "global batch 8 = micro-batch 4 × accumulation 2" in done.out, repr(done))
        need(os.path.exists(box.path(os.path.dirname(where), ".launch-job.yaml")), repr(done))
        done = box.launch("plan", "--vram", "24GiB", "--", "fit", "--batch-size", "4", env=env)
        need("global batch 8 = 4 × 2" in done.out, repr(done))


installed("by a .pth file", "import sys\nfrom toy.train import main\nsys.exit(main())\n", {"SITE/toy.pth": "BOX/src\n", "src/toy/__init__.py": ""}, "src/toy/train.py")
installed("by setuptools' finder", "import sys\nfrom toy.train import main\nsys.exit(main())\n", {
    "SITE/__editable__.toy-1.pth": "import __editable___toy_1_finder; __editable___toy_1_finder.install()\n",
    "SITE/__editable___toy_1_finder.py": "MAPPING: dict[str, str] = {'toy': 'BOX/src/toy'}\n", "src/toy/__init__.py": ""}, "src/toy/train.py")
installed("by its entry point", "from importlib.metadata import distribution\nload_entry_point('toy', 'console_scripts', 'fit')()\n", {
    "SITE/toy-1.dist-info/entry_points.txt": "[console_scripts]\nfit = toy.train:main\n", "SITE/toy.pth": "BOX/src\n", "src/toy/__init__.py": ""}, "src/toy/train.py")
installed("beside its environment", "import sys\nfrom toy.train import main\nsys.exit(main())\n", {"work/toy/__init__.py": ""}, "work/toy/train.py")


# nanoGPT, and those that took it over.
GPT = """
import os, pickle, sys, zipfile
out_dir = "out"
init_from = "scratch"
batch_size = 8
gradient_accumulation_steps = 2
block_size = 16
max_iters = 9
eval_interval = 3
exec(open("configurator.py").read())
os.makedirs(out_dir, exist_ok=True)
state = os.path.join(out_dir, "ckpt.pt")
iter_num = 0
if init_from == "resume":
    iter_num = pickle.loads(zipfile.ZipFile(state).read("archive/data.pkl"))["iter_num"]
while iter_num < max_iters:
    if iter_num and iter_num % eval_interval == 0:
        with zipfile.ZipFile(state, "w") as z:
            z.writestr("archive/data.pkl", pickle.dumps({"iter_num": iter_num}))
            z.writestr("archive/version", "3\\n")
        print(f"step {iter_num}: train loss 1.0, val loss 1.0", flush=True)
    if iter_num == 5 and batch_size > 4:
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    print(LINE, flush=True)
    iter_num += 1
"""
for name, line in {"nanoGPT": "f'iter {iter_num}: loss 1.0, time 5ms'", "llama2.c": "f'{iter_num} | loss 1.0 | lr 1e-4 | 5ms'",
                   "without the word": "f'{iter_num}: loss 1.0'"}.items():
    def row(line):
        def _(box):
            box.write("work/train.py", GPT.replace("LINE", line).lstrip())
            box.write("work/configurator.py", "import sys\nfor arg in sys.argv[1:]:\n    key, value = arg[2:].split('=')\n"
                                              "    globals()[key] = type(globals()[key])(value)\n")
            done = box.launch("--device", "cpu", "--", PYTHON, "train.py", "--batch_size=8")
            need(done.code == 0 and "resumes from ckpt.pt" in done.err and "succeeded" in done.err, repr(done))
        return _
    trial("D", f"a program with nanoGPT's settings goes on, and succeeds, whatever its line of a step: {name}")(row(line))
