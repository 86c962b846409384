"""Point C: a rung that changes the experiment is one that costs only time; and plans that say what is not so."""
import json
import os

from box import PYTHON, need, trial

HEAD = """import argparse, sys
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=16)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--base-lr", type=float, default=0.1)
p.add_argument("--steps", type=int, default=4)
MORE
a = p.parse_args()
"""
LOOP = """
for step in range(1, a.steps + 1):
    if a.batch_size > 8 and step > 2:
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    print(f"step {step}/{a.steps} loss 0.5", flush=True)
print("training is over")
"""
DECLARED = """script: train.py
micro-batch: --batch-size
accumulation: --accum
batch-norm: false
progress: 'step (?P<iteration>\\d+)/(?P<total>\\d+)'
succeeded: 'training is over'
"""
TRAIN = [PYTHON, "train.py"]


def project(box, body, more="", declared=DECLARED, **files):
    box.write("work/train.py", HEAD.replace("MORE", more) + body)
    for name, text in files.items():
        box.write(f"work/{name}.py", text)
    box.write("work/.launch-job.yaml", declared)


def split(box, *args):
    """The cost of half the micro-batch, and its reason."""
    done = box.launch("plan", "--json", "--vram", "24GiB", "--", *TRAIN, *args)
    need(done.code == 0, repr(done))
    rungs = [a for a in json.loads(done.out)["alternatives"] if a["rung"].startswith("micro-batch")]
    need(rungs, f"no other micro-batch: {done.out}")
    return rungs[0]["cost"], rungs[0].get("cost_because", "")


def costs(box, cost, why):
    got = split(box)
    need(got[0] == cost and why in got[1], f"{got}, not {cost}: {why}")


# What the source shows.

@trial("C", "a learning rate of the micro-batch, in the script: recipe, with its line")
def _(box):
    project(box, "a.lr = a.base_lr * a.batch_size / 256\n" + LOOP)
    costs(box, "recipe", "the learning rate follows the micro-batch (train.py:9)")


@trial("C", "a learning rate of the micro-batch, by a function of another file")
def _(box):
    project(box, "from rates import scaled\nlr = scaled(a)\n" + LOOP,
            rates="def scaled(args):\n    n = args.batch_size\n    learning_rate = args.base_lr * n / 256\n    return learning_rate\n")
    costs(box, "recipe", "the learning rate follows the micro-batch (rates.py:3)")


@trial("C", "a learning rate of the micro-batch, given to the optimizer")
def _(box):
    project(box, "def make():\n    return SGD(w, lr=a.base_lr * (a.batch_size / 32) ** 0.5)\nif a.steps < 0: make()\n" + LOOP)
    costs(box, "recipe", "the learning rate follows the micro-batch")


@trial("C", "a learning rate of the global batch stays what it is: speed")
def _(box):
    project(box, "whole = a.batch_size * a.accum\na.lr = a.base_lr * whole / 256\n" + LOOP)
    costs(box, "speed", "")


@trial("C", "a schedule that advances with each pass, beside an optimizer that waits")
def _(box):
    project(box, "def train(loader):\n    for i, x in enumerate(loader):\n        f(x).backward()\n        if (i + 1) % a.accum == 0:\n"
            "            optimizer.step()\n        scheduler.step()\nif a.steps < 0: train([])\n" + LOOP)
    costs(box, "recipe", "advances with every forward pass")


@trial("C", "steps that count passes: fewer updates")
def _(box):
    project(box, "def train():\n    for it in range(a.steps):\n        f().backward()\n        if (it + 1) % a.accum == 0:\n"
            "            optimizer.step()\nif a.steps < 0: train()\n" + LOOP)
    costs(box, "recipe", "fewer optimizer updates")


@trial("C", "steps that are counted in the loop of a loader, with a limit")
def _(box):
    project(box, "def train(loader):\n    it = 0\n    for x in loader:\n        it += 1\n        if it % a.accum == 0:\n"
            "            optimizer.step()\n        if it >= a.max_steps:\n            break\nif a.steps < 0: train([])\n" + LOOP)
    costs(box, "recipe", "fewer optimizer updates")


@trial("C", "passes that are grouped in an epoch: the last group may be partial")
def _(box):
    project(box, "def train(loader):\n    for i, x in enumerate(loader):\n        (f(x) / a.accum).backward()\n"
            "        if (i + 1) % a.accum == 0 or i + 1 == len(loader):\n            optimizer.step()\nif a.steps < 0: train([])\n" + LOOP)
    costs(box, "numerics", "partial group")


@trial("C", "a loss of the batch with itself: each row its own class, in a file that is imported")
def _(box):
    project(box, "from loss import criterion_of\nif a.steps < 0: criterion_of(1, 2)\n" + LOOP,
            loss="import torch\ndef criterion_of(x, y):\n    logits = x @ y.T\n    target = torch.arange(len(logits))\n"
                 "    return torch.nn.functional.cross_entropy(logits, target)\n")
    costs(box, "recipe", "with each other")


@trial("C", "a loss of the batch with itself: asked for with return_loss")
def _(box):
    project(box, "def collate(x):\n    return {\"pixels\": x, \"return_loss\": True}\nif a.steps < 0: collate(1)\n" + LOOP)
    costs(box, "recipe", "return_loss (train.py:10)")


@trial("C", "a loss of the batch with itself: a package's in-batch negatives")
def _(box):
    project(box, "if a.steps < 0:\n    loss = losses.MultipleNegativesRankingLoss(model)\n" + LOOP)
    costs(box, "recipe", "with each other")


@trial("C", "a loss of the batch with itself that nothing uses: speed")
def _(box):
    project(box, "def info(q, k):\n    return InfoNCE()(q, k)\n" + LOOP)
    costs(box, "speed", "")


GROUPED = """
def train(model, loader, opt):
    for i, (x, y) in enumerate(loader):
        loss = LOSS / a.accum
        loss.backward()
        if (i + 1) % a.accum == 0:
            opt.step()
if a.steps < 0: train(0, 0, 0)
"""


@trial("C", "a loss of the batch with itself: labels with labels, correlations, deviations, advantages")
def _(box):
    for loss, why in (
            ("supervised(model(x), torch.eq(y.view(-1, 1), y.view(1, -1)))", "compares their labels"),
            ("off_diagonal(model(x).T @ model(y)).pow(2).mean()", "correlates their features"),
            ("F.relu(1 - model(x).std(dim=0)).mean()", "takes their deviation"),
            ("F.cross_entropy(torch.einsum('nc,mc->nm', model(x), model(y)), y)", "multiplies their features"),
            ("-((adv - adv.mean()) / adv.std() * model(x)).mean()", "relative to those of the same micro-batch")):
        project(box, GROUPED.replace("LOSS", loss) + LOOP)
        costs(box, "recipe", why)


@trial("C", "a sum of squares, and one by a class that is made and called at once")
def _(box):
    for loss in "((model(x) - y) ** 2).sum()", "nn.MSELoss(size_average=False)(model(x), y)", "F.l1_loss(model(x), y, reduction='sum')":
        project(box, GROUPED.replace("LOSS", loss) + LOOP)
        costs(box, "recipe", "its loss is a sum")


@trial("C", "an optimizer that steps with every pass beside an accumulation that only divides")
def _(box):
    project(box, GROUPED.replace("LOSS", "f(x)").replace("        if (i + 1) % a.accum == 0:\n            opt", "        opt") + LOOP)
    costs(box, "recipe", "steps with every forward pass, whatever the accumulation is")


@trial("C", "weight decay, a moving average, a warm-up and an optimizer's setting that follow the micro-batch")
def _(box):
    for code, why in (
            ("wd = 5e-4 * a.batch_size\nopt = SGD([], lr=1, weight_decay=wd) if 0 else 0\n", "wd follows the micro-batch"),
            ("ema_decay = 0.5 ** (a.batch_size / 10000)\n", "ema_decay follows the micro-batch"),
            ("warmup_steps = 10000 // a.batch_size\n", "the warm-up is a number of forward passes"),
            ("def rate(n):\n    return a.base_lr * n / 256\nopt = SGD([], rate(a.batch_size)) if 0 else 0\n", "a setting of the optimizer")):
        project(box, code + LOOP)
        costs(box, "recipe", why)


@trial("C", "a batch in frames, by a setting beside it; in samples it is one")
def _(box):
    project(box, LOOP, more='p.add_argument("--batch-size-type", default="frame", choices=["frame", "sample"])')
    costs(box, "recipe", "no number of samples")
    cost, _ = split(box, "--batch-size-type", "sample")
    need(cost == "speed", cost)


@trial("C", "a batch in tokens, by its own name")
def _(box):
    project(box, LOOP.replace("batch_size", "max_tokens"), more='p.add_argument("--max-tokens", type=int, default=4096)',
            declared=DECLARED.replace("--batch-size", "--max-tokens"))
    costs(box, "recipe", "no number of samples")


@trial("C", "a batch of which a sampler makes bins")
def _(box):
    project(box, LOOP, more='p.add_argument("--batch-type", default="numel")')
    costs(box, "recipe", "no number of samples")


@trial("C", "what the rung costs is said where it is not allowed, and where it is taken")
def _(box):
    project(box, "a.lr = a.base_lr * a.batch_size / 256\n" + LOOP)
    done = box.launch("--", *TRAIN)
    need(done.code == 1 and "because the learning rate follows the micro-batch" in done.err and "attempt 2" not in done.err, repr(done))
    done = box.launch("--allow", "recipe", "--", *TRAIN)
    need(done.code == 0 and "its cost is recipe: the learning rate follows" in done.err, repr(done))


# What the source does not show.

@trial("C", "a learning rate that the program prints first: the difference is said, and recorded")
def _(box):
    project(box, "n = vars(a)['batch_' + 'size']\nprint('learning rate', a.base_lr * n / 16, flush=True)\n" + LOOP)
    done = box.launch("--", *TRAIN)
    need(done.code == 0 and "the learning rate is 0.05, and was 0.1 in attempt 1" in done.err and
         "its cost was recipe, not speed" in done.err, repr(done))
    last = [e for e in box.runs()[-1] if e["event"] == "ended"][-1]
    need(last["attempt"]["outcome"].get("changed"), repr(last)) if "attempt" in last else need("changed" in json.dumps(last), repr(last))


@trial("C", "a learning rate that the program prints with its steps")
def _(box):
    project(box, "n = vars(a)['batch_' + 'size']\n" + LOOP.replace("loss 0.5", "lr: {a.base_lr * n / 16:.2e}"))
    done = box.launch("--", *TRAIN)
    need(done.code == 0 and "the learning rate at step 1 is 0.05, and was 0.1 in attempt 1" in done.err, repr(done))


@trial("C", "a number of steps that differs by rounding")
def _(box):
    project(box, "n = vars(a)['batch_' + 'size']\na.steps = 200 if n == 16 else 199\n" + LOOP)
    done = box.launch("--", *TRAIN)
    need(done.code == 0 and "it trains for 199 steps, and was to train for 200 in attempt 1" in done.err, repr(done))


@trial("C", "optimizer steps that the program announces, where its bar counts something else")
def _(box):
    project(box, "n = vars(a)['batch_' + 'size']\nprint(f'Total optimization steps = {1000 * n // 16:,}', flush=True)\n" + LOOP)
    done = box.launch("--", *TRAIN)
    need(done.code == 0 and "it reports 500 optimizer steps, and reported 1000 in attempt 1" in done.err, repr(done))


@trial("C", "where nothing differs, nothing is said")
def _(box):
    project(box, "print('learning rate', a.base_lr, flush=True)\n" + LOOP)
    done = box.launch("--", *TRAIN)
    need(done.code == 0 and "another training" not in done.err and "its cost" not in done.err, repr(done))


# What a package does.

def trl(box, version):
    """A command trl of that version, in an environment of its own, that saves a state and runs out of memory."""
    site = "venv/lib/python3.11/site-packages"
    for name, v in (("trl", version), ("transformers", "5.16.0"), ("torch", "2.13.0")):
        box.write(f"{site}/{name}-{v}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {v}\n")
        box.write(f"{site}/{name}/__init__.py", "")
    box.write("venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n")
    box.write("venv/bin/trl", f"#!{box.path('venv/bin/python')}\n" + """
import os, sys
a = sys.argv[1:]
def opt(name, default):
    return a[a.index(name) + 1] if name in a else default
micro, accum = int(opt("--per_device_train_batch_size", 8)), int(opt("--gradient_accumulation_steps", 1))
made = micro * int(opt("--steps_per_generation", accum))
if a[0] in ("grpo", "rloo"):
    if made % int(opt("--num_generations", 8)): sys.exit("ValueError: generation_batch_size must be divisible by num_generations")
    print("generations", made, flush=True)
out = opt("--output_dir", "trainer_output")
for i in range(1, 4):
    print(f" {i * 33}%|###| {i}/3 [00:01<00:02]", file=sys.stderr, flush=True)
    if i == 2 and micro > 4:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    os.makedirs(f"{out}/checkpoint-{i}", exist_ok=True)
    open(f"{out}/checkpoint-{i}/trainer_state.json", "w").write('{"global_step": %d}' % i)
    print(f"Saving model checkpoint to {out}/checkpoint-{i}", file=sys.stderr, flush=True)
""", mode=0o755)
    os.symlink(PYTHON, box.path("venv/bin/python"))


def trained(box, *args):
    return box.launch("--device", "cpu", "--memory", "2GiB", "--", box.path("venv/bin/trl"), *args, "--output_dir", "out")


@trial("C", "trl before 1.15 ignores a saved state: it starts over, and the states are moved aside")
def _(box):
    trl(box, "1.9.2")
    box.mkdir("work")
    done = trained(box, "kto")
    need(done.code == 0 and "starts over" in done.err and "resumes from" not in done.err, repr(done))
    need(any(n.startswith("before-attempt-2") for n in os.listdir(box.path("work/out"))), os.listdir(box.path("work/out")))


@trial("C", "the same of trl sft, which launch has formulas for")
def _(box):
    trl(box, "1.13.0")
    box.mkdir("work")
    done = trained(box, "sft", "--model_name_or_path", "m", "--dataset_name", "d")
    need(done.code == 0 and "starts over" in done.err and "resumes from" not in done.err, repr(done))


@trial("C", "the generations of a step stay together, whatever the micro-batch is")
def _(box):
    trl(box, "1.16.0")
    box.mkdir("work")
    done = trained(box, "grpo", "--steps_per_generation", "4")
    need(done.code == 0 and done.out.split("generations")[1:] == [" 32\n", " 32\n"], repr(done))
    done = trained(box, "grpo", "--steps_per_generation", "1", "--num_generations", "8")
    need(done.code == 0 and "ValueError" not in done.err + done.out, repr(done))


@trial("C", "no evaluation at a batch that the number of generations does not divide")
def _(box):
    trl(box, "1.16.0")
    box.mkdir("work")
    done = box.launch("plan", "--json", "--vram", "24GiB", "--", box.path("venv/bin/trl"), "rloo", "--per_device_eval_batch_size", "32")
    names = [a["rung"] for a in json.loads(done.out)["alternatives"]]
    need("validation batch 8" in names and "validation batch 4" not in names, repr(names))


# What a plan says.

@trial("C", "a script that is not there is said first: plan, the run, check")
def _(box):
    box.mkdir("work")
    for args in (["plan"], [], ["check"]):
        done = box.launch(*args, "--", PYTHON, "gone.py")
        text = done.err if not args else done.out
        need("there is no script" in text.splitlines()[0], repr(done))


@trial("C", "the same where a declaration knows the script")
def _(box):
    box.write("work/.launch-job.yaml", DECLARED)
    done = box.launch("plan", "--vram", "24GiB", "--", *TRAIN)
    need("there is no script" in done.out.splitlines()[0] and "plan: it runs as asked" not in done.out, repr(done))


@trial("C", "a main.py that trains by default, on the devices of its recipe, is not one that does nothing")
def _(box):
    box.write("work/main.py", """import argparse
from pytorch_lightning.loggers import WandbLogger
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--base", nargs="*", default=list())
parser.add_argument("-t", "--train", type=bool, const=True, default=True, nargs="?")
parser.add_argument("--wandb", type=bool, const=True, default=False, nargs="?")
opt, unknown = parser.parse_known_args()
devices = trainer_config["devices"]
accumulate_grad_batches = lightning_config.trainer.accumulate_grad_batches
""")
    recipe = "model:\n  target: own.Model\ndata:\n  target: own.Data\n  params:\n    batch_size: 512\nlightning:\n  trainer:\n"
    box.write("work/r.yaml", recipe + "    devices: 0,\n")
    done = box.launch("plan", "--vram", "24GiB", "--", PYTHON, "main.py", "--base", "r.yaml")
    for words in ("nothing is trained", "on the CPU", "Weights & Biases"):
        need(words not in done.out, repr(done))
    need("micro-batch 256" in done.out, repr(done))
    box.write("work/r.yaml", recipe + "    max_epochs: 2\n")
    done = box.launch("plan", "--vram", "24GiB", "--", PYTHON, "main.py", "--base", "r.yaml")
    need("it would stop: main.py stops without lightning.trainer.devices" in done.out and "plan: it runs" not in done.out, repr(done))


# What is guessed.

RECIPE = """model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: lora
dataset: elsewhere
template: qwen
cutoff_len: 8192
output_dir: saves/q
per_device_train_batch_size: 2
gradient_accumulation_steps: 2
bf16: true
"""


def planned(box, recipe, card="20GiB"):
    box.write("work/r.yaml", recipe)
    done = box.launch("plan", "--json", "--vram", card, "--", "llamafactory-cli", "train", "r.yaml")
    return done, json.loads(done.out)


@trial("C", "a length that is assumed refuses nothing")
def _(box):
    done, plan = planned(box, RECIPE)
    need(done.code == 0 and plan["verdict"] == "may not fit" and plan["fits"] is None and not plan.get("stop"), repr(done))


@trial("C", "a length that is certain does: rows are packed to it")
def _(box):
    done, plan = planned(box, RECIPE + "packing: true\n")
    need(done.code == 78 and plan["verdict"] == "cannot fit", repr(done))


@trial("C", "a model that cannot fit is refused, whatever its rows are")
def _(box):
    done, plan = planned(box, RECIPE, card="12GiB")
    need(done.code == 78 and plan["verdict"] == "cannot fit", repr(done))


@trial("C", "no larger size fits by one measured size alone; by two it may, and a smaller one by that")
def _(box):
    project(box, "x = bytearray(a.batch_size << 21)\n" + LOOP.replace("a.batch_size > 8", "False").replace("print(f", "import time; time.sleep(0.1); print(f"))

    def verdict(size):
        done = box.launch("plan", "--json", "--device", "cpu", "--memory", "1GiB", "--", *TRAIN, "--batch-size", str(size))
        return json.loads(done.out), done
    for size in (16, 32):
        done = box.launch("--device", "cpu", "--memory", "1GiB", "--", *TRAIN, "--batch-size", str(size))
        need(done.code == 0, repr(done))
        plan, done = verdict(24)
        want = ("may not fit", None) if size == 16 else ("fits", True)
        need((plan["verdict"], plan["fits"]) == want and done.code == 0, f"after {size}: {done}")
        plan, done = verdict(12)
        need((plan["verdict"], plan["fits"]) == ("fits", True) and done.code == 0, f"a smaller one, after {size}: {done}")
    done = box.launch("plan", "--device", "cpu", "--memory", "1GiB", "--", *TRAIN, "--batch-size", "24")
    need("0 B counted" not in done.out, done.out)
