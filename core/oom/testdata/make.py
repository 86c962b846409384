"""Makes the logs in testdata/real by running real programs: PyTorch on the CPU under a limit that the kernel enforces.

    python3 make.py [NAME...]

Made with CPython 3.11, torch 1.13.0a0 (Debian 1.13.1+dfsg) and NumPy 1.24 on Linux 6, on 2026-11-21. What names TORCH2_PYTHON
was made with CPython 3.12, torch 2.15, lightning 2.6.6, accelerate 1.15.0, transformers 5.23.0, deepspeed 0.19.8 and NumPy 2, what
names LIGHTNING1_PYTHON with pytorch-lightning 1.4.2 and torch 1.13, what names JAX_PYTHON with jax 0.12.0.1 and tensorflow-cpu 2.21.0,
on 2026-11-22. Paths of the machine are replaced by /home/user. Every program is written in full below; what it prints is kept as it came, standard error and
standard output in one file, except where a case says otherwise.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

HEAD = """import os, resource, signal, sys, time, warnings
warnings.filterwarnings("ignore")
import torch
from torch import nn
torch.set_num_threads(1)

def limit(mib):
    used = int(open("/proc/self/statm").read().split()[5]) * 4096
    resource.setrlimit(resource.RLIMIT_DATA, (used + (mib << 20), resource.RLIM_INFINITY))

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        return self.body(x)
"""

TRAIN = HEAD + """
def validate(net):
    net.eval()
    with torch.no_grad():
        net(torch.rand(1, 3, SIZE, SIZE))

def train(net):
    optimizer = OPTIM
    for step in range(1, 5):
        loss = net(torch.rand(1, 3, 32, 32)).mean()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        HOOK

if __name__ == "__main__":
    net = Net()
    train(net)
"""

CASES = {
    "validation": TRAIN.replace("SIZE", "2048").replace("OPTIM", "torch.optim.Adam(net.parameters())")
    .replace("HOOK", "if step == 2: limit(96); validate(net)"),
    "forward": TRAIN.replace("SIZE", "32").replace("OPTIM", "torch.optim.Adam(net.parameters())")
    .replace("HOOK", "if step == 2: limit(64); net(torch.rand(4, 3, 1024, 1024))"),
    "backward": HEAD + """
def train():
    x = torch.rand(32 << 20, requires_grad=True)
    loss = (x * 2).sum()
    limit(16)
    loss.backward()

train()
""",
    "optimizer": HEAD + """
def train():
    net = nn.Linear(8192, 2048)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.rand(1, 8192)).sum().backward()
    limit(80)
    optimizer.step()

train()
""",
    "build": HEAD + """
def build_model():
    limit(64)
    return nn.Linear(16384, 16384)

build_model()
""",
    "load": HEAD + """
def resume(path):
    limit(64)
    return torch.load(path)

torch.save({"w": torch.zeros(64 << 20)}, "state.pth")
resume("state.pth")
""",
    "data": HEAD + """
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        limit(16)
        return torch.zeros(64 << 20)

for batch in DataLoader(Images(), num_workers=1):
    pass
""",
    "worker_killed": HEAD + """
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == 9: os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(4)

for step, batch in enumerate(DataLoader(Images(), num_workers=2)):
    print("step", step, "loss 0.5", flush=True)
    time.sleep(0.05)
""",
    "numpy": HEAD + """
import numpy as np

def load_images():
    return np.zeros((100000, 1024, 1024, 3), dtype=np.float32)

limit(256)
load_images()
""",
    "memory_error": HEAD + "limit(32)\nx = bytearray(1 << 30)\n",
    "bad_alloc": HEAD + "import ctypes\nlimit(1)\nprint(torch.jit.script(lambda x: x) if False else '', end='')\n"
    "x = [i for i in range(1 << 26)]\n",
    "caught": HEAD + """
net, size = Net(), 2048
used = resource.getrlimit(resource.RLIMIT_DATA)
limit(160)
for step in range(1, 9):
    try:
        loss = net(torch.rand(1, 3, size, size)).mean()
    except RuntimeError as e:
        print(f"WARNING: {e}, skipping batch", flush=True)
        size //= 8
        continue
    print(f"step {step} loss {loss.item():.4f}", flush=True)
print("done")
""",
    "caught_bare": HEAD + """
net, size = Net(), 2048
limit(160)
for step in range(1, 9):
    try:
        loss = net(torch.rand(1, 3, size, size)).mean()
    except RuntimeError as e:
        print(e, flush=True)
        size //= 8
        continue
    print(f"step {step} loss {loss.item():.4f}", flush=True)
print("done")
""",
    "says_so": """
for step in range(5):
    print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
    if step == 1:
        print("note: on smaller cards this prints CUDA out of memory", flush=True)
print("done")
""",
    "buffered": """
import sys
sys.path.insert(0, ".")
print("\\n".join(f"epoch 1 step {i} loss {1 / (i + 1):.3f}" for i in range(60)))
raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; 5.47 GiB already "
                   "allocated; 1.02 GiB free; 5.63 GiB reserved in total by PyTorch)")
""",
    "interrupt": HEAD + """
net = Net()
for step in range(100):
    loss = net(torch.rand(1, 3, 64, 64)).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step == 3: os.kill(os.getpid(), signal.SIGINT)
""",
    "disk_full": HEAD + """
def save_state(net):
    torch.save(net.state_dict(), "/dev/full")

save_state(Net())
""",
    "assertion": HEAD + "x = torch.rand(3)\nassert x.shape == (4,)\n",
    "nan": HEAD + """
def check(loss):
    if not torch.isfinite(loss):
        raise ValueError(f"loss is nan at step 7, stopping training")

check(torch.tensor(float("nan")))
""",
    "spawn": HEAD + """
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    net = Net()
    for step in range(1, 4):
        if rank == 1 and step == 2: limit(32); net(torch.rand(1, 3, 2048, 2048))
        loss = net(torch.rand(1, 3, 32, 32)).mean()
        print(f"[rank{rank}] step {step} loss {loss.item():.3f}", flush=True)
        dist.barrier()

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
""",
    "spawn_killed": HEAD + """
import torch.multiprocessing as mp

def work(rank):
    time.sleep(1)
    if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(20)

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
""",
    "threads": HEAD + """
from torch.utils.checkpoint import checkpoint

def loss_of(net, x):
    return checkpoint(net, x).mean()

net = Net()
x = torch.rand(1, 3, 640, 640, requires_grad=True)
loss = loss_of(net, x)
limit(150)
loss.backward()
""",
}

RICH_PYTHON = os.environ.get("RICH_PYTHON", "python3")

RICH = r"""import logging, sys, time
from rich.logging import RichHandler
from rich.progress import track
import rich.traceback

rich.traceback.install()
logging.basicConfig(level="INFO", format="%(message)s", handlers=[RichHandler(markup=True, rich_tracebacks=True)])
log = logging.getLogger("train")

class OutOfMemoryError(RuntimeError):
    pass

def forward(x):
    raise OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 128.00 GiB. GPU 0 has a total capacity of 11.63 GiB of which 9.41 GiB is "
        "free. Including non-PyTorch memory, this process has 1.98 GiB memory in use. Of the allocated memory 1.51 GiB is "
        "allocated by PyTorch, and 215.04 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory "
        "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
        "for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)")

def validate(image):
    return forward(image)

def train():
    for i in range(1, 4):
        log.info("\\[epoch:  1, iter: %7d, lr:(2.000e-04,)] \\[performance: 4.213 it/s] \\[eta: 1 day, 2:03:04] l_g_total: 1.2345e-01", i * 100)
    log.info("Saving models and training states to /home/user/project/experiments/a_rather_long_name_of_an_experiment for epoch: 1, iter: 300.")
    validate(None)

try:
    train()
except Exception as e:
    log.exception(e)
train()
"""

# cases that need a command of their own
COMMANDS = {
    # a /dev/shm of 1 MiB in a mount namespace of our own
    "shm": ("""from torch.utils.data import DataLoader, Dataset
import torch

class Images(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.zeros(4 << 20)

if __name__ == "__main__":
    for batch in DataLoader(Images(), num_workers=2):
        pass
""", ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=1m none /dev/shm && exec python3 train.py"]),
    "killed": ("import os; print('epoch 1', flush=True); os.kill(os.getpid(), 9)",
               ["bash", "-c", "python3 train.py\ntrue"]),
    # rich's own wrapping and boxes around a message written from torch's template; it needs rich 15 (RICH_PYTHON)
    "rich_piped": (RICH, [RICH_PYTHON, "train.py"]),
    "rich_terminal": (RICH, ["script", "-qec", f"stty cols 80 rows 24; {RICH_PYTHON} train.py", "/dev/null"]),
    # Debian's build does not start under Python 3.11: the launcher's own failure
    "launcher_broken": ("", ["python3", "-m", "torch.distributed.run", "--nproc_per_node=2", "train.py"]),
}

TORCH2 = os.environ.get("TORCH2_PYTHON", "python3")
LIGHTNING1 = os.environ.get("LIGHTNING1_PYTHON", "python3")
JAX = os.environ.get("JAX_PYTHON", "python3")

HEAD2 = HEAD.replace("torch.set_num_threads(1)\n", "torch.set_num_threads(1)\nos.environ['TOKENIZERS_PARALLELISM'] = 'false'\n")

LIGHTNING = HEAD + """
LIT
from torch.utils.data import DataLoader

class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def step(self, batch):
        return self.net(batch).mean()

    def training_step(self, batch, index):
        TRAINING
        return self.step(batch)

    def validation_step(self, batch, index):
        VALIDATION
        self.log("val", self.step(batch))

    def on_save_checkpoint(self, checkpoint):
        SAVING

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

def big(module, size=2048):
    limit(64)
    return module.net(torch.rand(1, 3, size, size)).mean()

if __name__ == "__main__":
    data = DataLoader([torch.rand(3, 16, 16) for _ in range(8)], batch_size=2)
    trainer = pl.Trainer(max_epochs=2, logger=False, ARGS)
    trainer.fit(Lit(), data, data)
"""


def lightning(new, training="pass", validation="pass", saving="pass", args=""):
    lit = "import lightning.pytorch as pl" if new else "import pytorch_lightning as pl"
    if new:
        args += "accelerator='cpu', enable_model_summary=False"
    else:
        args += "weights_summary=None, progress_bar_refresh_rate=1"
    return (LIGHTNING.replace("LIT", lit).replace("TRAINING", training).replace("VALIDATION", validation)
            .replace("SAVING", saving).replace("ARGS", args))


TORCHRUN = HEAD + """
import torch.distributed as dist

def train_step(net, step):
    rank = dist.get_rank()
    if rank == 1 and step == 2:
        FAIL
    loss = net(torch.rand(1, 3, 32, 32)).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()

if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(Net())
    for step in range(1, 4):
        train_step(net, step)
"""

FIND_BATCH = HEAD + """
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size

accelerator = Accelerator(cpu=True)
limit(300)

@find_executable_batch_size(starting_batch_size=START)
def training_loop(batch_size):
    accelerator.print(f"batch size {batch_size}")
    net = accelerator.prepare(Net())
    for step in range(3):
        loss = net(torch.rand(batch_size, 3, 512, 512)).mean()
        print(f"step {step} loss {loss.item():.4f}", flush=True)

training_loop()
"""

TRAINER = HEAD + """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

net = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=VOCAB, n_positions=64))
data = [{"input_ids": torch.arange(64), "labels": torch.arange(64)} for _ in range(64)]

class Limited(Trainer):
    def OVERRIDE(self, *args, **kwargs):
        limit(MIB)
        return super().OVERRIDE(*args, **kwargs)

args = TrainingArguments("out", per_device_train_batch_size=16, per_device_eval_batch_size=64, max_steps=2, use_cpu=True,
                         report_to=[], save_strategy="no", logging_steps=1, EXTRA)
Limited(net, args, train_dataset=data, eval_dataset=data).train()
"""


def hf(override, mib, vocab=16384, extra=""):
    return TRAINER.replace("OVERRIDE", override).replace("MIB", str(mib)).replace("VOCAB", str(vocab)).replace("EXTRA", extra)


JAX_CPU = """import resource
import jax
import jax.numpy as jnp

def loss(w, x):
    return jnp.tanh(x @ w).sum()

def train_step(w, x):
    return jax.grad(loss)(w, x)

train_step(jnp.ones((64, 64)), jnp.ones((64, 64))).block_until_ready()
used = int(open("/proc/self/statm").read().split()[5]) * 4096
w, x = jnp.ones((4096, 4096)), jnp.ones((4096, 4096))
resource.setrlimit(resource.RLIMIT_DATA, (used + (200 << 20), resource.RLIM_INFINITY))
train_step(w, x).block_until_ready()
"""

TF_CPU = """import resource
import tensorflow as tf

def train_step():
    with tf.GradientTape() as tape:
        x = tf.zeros([65536, 65536]) + 1.0
    return x

used = int(open("/proc/self/statm").read().split()[5]) * 4096
resource.setrlimit(resource.RLIMIT_DATA, (used + (512 << 20), resource.RLIM_INFINITY))
train_step()
"""

DEEPSPEED = (TORCHRUN.replace("FAIL", "limit(32); net(torch.rand(1, 3, 2048, 2048))")
             .replace('if __name__', 'sys.argv = sys.argv[:1]\n\nif __name__'))

COMMANDS |= {
    # Lightning 2.6 and 1.4 (LIGHTNING1_PYTHON, with torch 1.13)
    "lightning_sanity": (lightning(True, validation="return big(self)"), [TORCH2, "train.py"]),
    "lightning_first_step": (lightning(True, training="return big(self)"), [TORCH2, "train.py"]),
    "lightning_validation": (lightning(True, validation="return None if self.trainer.sanity_checking else big(self)"),
                             [TORCH2, "train.py"]),
    "lightning_save": (lightning(True, saving="limit(8); checkpoint['more'] = torch.zeros(64 << 20)"), [TORCH2, "train.py"]),
    "lightning_ctrl_c": (lightning(True, training="if index == 2: os.kill(os.getpid(), signal.SIGINT)"), [TORCH2, "train.py"]),
    "lightning14_sanity": (lightning(False, validation="return big(self)"), [LIGHTNING1, "train.py"]),
    "lightning14_training": (lightning(False, training="if index == 2: return big(self)"), [LIGHTNING1, "train.py"]),
    "lightning14_ctrl_c": (lightning(False, training="if index == 2: warnings.resetwarnings(); os.kill(os.getpid(), signal.SIGINT)"),
                           [LIGHTNING1, "train.py"]),
    # torch 2.15 under torchrun, with gloo
    "torchrun": (TORCHRUN.replace("FAIL", "limit(32); net(torch.rand(1, 3, 2048, 2048))"),
                 [TORCH2, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py"]),
    "torchrun_tee": (TORCHRUN.replace("FAIL", "limit(32); net(torch.rand(1, 3, 2048, 2048))"),
                     [TORCH2, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--tee=3", "train.py"]),
    "torchrun_rank_killed": (TORCHRUN.replace("FAIL", "os.kill(os.getpid(), signal.SIGKILL)"),
                             [TORCH2, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py"]),
    "worker_killed2": (CASES["worker_killed"], [TORCH2, "train.py"]),
    "numpy2": (CASES["numpy"], [TORCH2, "train.py"]),
    "backward2": (CASES["backward"], [TORCH2, "train.py"]),
    "optimizer2": (CASES["optimizer"], [TORCH2, "train.py"]),
    # accelerate's find_executable_batch_size, which halves until it fits, or until it gives up
    "accelerate_finds": (FIND_BATCH.replace("START", "4"), [TORCH2, "train.py"]),
    "accelerate_gives_up": (FIND_BATCH.replace("START", "4").replace("limit(300)", "limit(40)"), [TORCH2, "train.py"]),
    # the Trainer of transformers
    "trainer_first_step": (hf("training_step", 64), [TORCH2, "train.py"]),
    "trainer_evaluation": (hf("evaluation_loop", 64, extra="eval_strategy='steps', eval_steps=1"), [TORCH2, "train.py"]),
    "trainer_finds": (hf("training_step", 120, extra="auto_find_batch_size=True"), [TORCH2, "train.py"]),
    # DeepSpeed's launcher, which prints a return code for each rank that it stops as well
    "deepspeed_launcher": (DEEPSPEED, [TORCH2, "-m", "deepspeed.launcher.launch", "--master_addr=127.0.0.1",
                                       "--master_port=29518", "--world_info=eyJsb2NhbGhvc3QiOiBbMCwgMV19", "train.py"]),
    "jax_cpu": (JAX_CPU, [JAX, "train.py"]),
    "tensorflow_cpu": (TF_CPU, [JAX, "train.py"]),
}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sys.argv[1:] or [*CASES, *COMMANDS]:
        program, command = COMMANDS.get(name) or (CASES[name], ["python3", "train.py"])
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w") as f:
                f.write(program)
            p = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                               env={"PATH": os.environ["PATH"], "HOME": folder, "OMP_NUM_THREADS": "1",
                                    "TERM": "xterm-256color"})
            text = p.stdout.replace(folder.encode(), b"/home/user/project")
            text = re.sub(rb"(?<![\w.])/(?!usr/)[\w./-]*/lib/python3", b"/home/user/venv/lib/python3", text)
            text = re.sub(rb"/tmp/\w+", b"/home/user/tmp", text)
            text = text.replace(os.uname().nodename.encode(), b"node-01")
        with open(os.path.join(here, "real", name + ".log"), "wb") as f:
            f.write(text)
        print(f"{name}: exit {p.returncode}, {len(text)} bytes")


if __name__ == "__main__":
    main()
