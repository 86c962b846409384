"""A training program that needs neither torch nor a card: it counts steps, saves states, and runs out of memory where it is told to.

It prints what a real one prints, in torch's words, and needs memory in proportion to its batch: base + batch * each bytes.
"""
import argparse, json, os, re, signal, sys, time, traceback

p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=32)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--steps", type=int, default=4)
p.add_argument("--resume", default="")
p.add_argument("--out", default="runs/a")
p.add_argument("--fits", type=int, default=1000, help="the largest batch that fits")
p.add_argument("--oom-after", type=int, default=0, help="how many steps are done before memory runs out")
p.add_argument("--ignore", type=int, default=0, help="the batch that it runs with, whatever it is told")
p.add_argument("--save-every", type=int, default=1)
p.add_argument("--folders", action="store_true", help="a saved state is a folder")
p.add_argument("--silent-save", action="store_true", help="do not print where a state was saved")
p.add_argument("--slow", type=float, default=0, help="seconds a step")
p.add_argument("--slow-end", type=float, default=0, help="seconds between the last step and the end, unless it goes on from a state")
p.add_argument("--no-step", action="store_true", help="after a resume: end without one")
p.add_argument("--wait-for", default="", help="do not begin before this file is there")
p.add_argument("--term", type=float, default=-1, help="on SIGTERM: save for so many seconds, then end with 0")
p.add_argument("--said", default="", help="write what it was told into this file, at its end")
p.add_argument("--where", default="", help="--out, by a name that tells nobody that it is a folder to write into")
p.add_argument("--save-slowly", type=float, default=0, help="hold the file of a state open for so many seconds")
p.add_argument("--torn", type=int, default=0, help="of the state of this step write only a part")
p.add_argument("--prints", default="", help="print this first; {batch} and {accum} are what it runs with")
p.add_argument("--slow-after-oom", type=float, default=0, help="--slow, with a batch that fits")
p.add_argument("--swallow", action="store_true", help="print an out-of-memory, and end as after a training")
p.add_argument("--total", action="store_true", help="print of how many steps")
p.add_argument("--longer", action="store_true", help="train for so many more steps as the batch is smaller than 32")
p.add_argument("--oom-at-end", action="store_true", help="run out of memory after the last step, and not before")
p.add_argument("--ends-at", type=int, default=0, help="end after this step, as if that were the last")
p.add_argument("--once", default="", help="write this file, and stop where it is there, as Lightning does with its settings")
p.add_argument("--once-after-oom", action="store_true", help="do so with a batch that fits only")
p.add_argument("--clock", type=float, default=0, help="by how many seconds the file server's clock is ahead")
p.add_argument("--data", default="", help="a recipe with batch_size")
p.add_argument("--optim", default="", help="a recipe with accum")
a = p.parse_args()
a.out = a.where or a.out


def recipe(path, key, otherwise):
    if not path:
        return "", otherwise
    with open(path) as f:
        text = f.read()
    return text, int(re.search(key + r": (\d+)", text).group(1)) if key in text else otherwise


data, a.batch_size = recipe(a.data, "batch_size", a.batch_size)
optim, a.accum = recipe(a.optim, "accum", a.accum)

EACH, BASE = 50 << 20, 100 << 20


class OutOfMemoryError(RuntimeError):
    pass


OutOfMemoryError.__module__ = "torch"


def gib(n):
    return f"{n / (1 << 30):.2f} GiB"


def forward(batch):
    if batch > a.fits:
        other = 200 << 20  # of the process, beside PyTorch
        total = other + BASE + a.fits * EACH + (20 << 20)
        held = total - other - (30 << 20)
        raise OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {gib(BASE + batch * EACH - held)}. GPU 0 has a total capacity of {gib(total)} of which {gib(total - held - other)} is free. "
            f"Including non-PyTorch memory, this process has {gib(held + other)} memory in use. Of the allocated memory {gib(held)} is allocated by "
            "PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated.")


def save(step):
    path = f"{a.out}/checkpoint-{step}" if a.folders else f"{a.out}/{step:04d}.pt"
    os.makedirs(a.out, exist_ok=True)
    if a.folders:
        os.makedirs(path, exist_ok=True)
        with open(path + "/model.bin", "w") as f:
            f.write("weights")
        if step != a.torn:
            with open(path + "/trainer_state.json", "w") as f:
                json.dump({"global_step": step, "max_steps": a.steps}, f)
    else:
        with open(path, "w") as f:
            f.write(f"{step} {a.out}")
            f.flush()
            time.sleep(a.save_slowly)
    if a.clock:
        os.utime(path, (time.time() + a.clock,) * 2)
    if not a.silent_save:
        print(f"saved {path}", flush=True)


def asked_to_stop(*_):
    print("asked to stop: saving", flush=True)
    time.sleep(a.term)
    print("stopped as asked", flush=True)
    sys.exit(0)


if a.term >= 0:
    signal.signal(signal.SIGTERM, asked_to_stop)
while a.wait_for and not os.path.exists(a.wait_for):
    time.sleep(0.02)
if a.once_after_oom and a.batch_size > a.fits:
    a.once = ""
if a.once and os.path.exists(a.once):
    sys.exit(f"expected {a.once} to NOT exist. Aborting to avoid overwriting results of a previous run.")
if a.once:
    os.makedirs(os.path.dirname(a.once), exist_ok=True)
    with open(a.once, "w") as f:
        f.write("settings")
batch = a.ignore or a.batch_size
if a.prints:
    print(a.prints.format(batch=batch, accum=a.accum), flush=True)
first = 0
if a.resume:
    path = a.resume + "/trainer_state.json" if os.path.isdir(a.resume) else a.resume
    with open(path) as f:
        text = f.read()
    first = json.loads(text)["global_step"] if text.startswith("{") else int(text.split()[0])
    print(f"resumed at step {first}, from {a.resume}", flush=True)
if a.longer:
    a.steps = a.steps * 32 // batch
for step in range(first + 1, a.steps + 1):
    if a.no_step and a.resume:
        break
    if a.ends_at and step > a.ends_at:
        break
    if step > a.oom_after and not a.oom_at_end:
        try:
            forward(batch)
        except OutOfMemoryError:
            if not a.swallow:
                raise
            traceback.print_exc()
            break
    time.sleep(a.slow + (a.slow_after_oom if batch <= a.fits else 0))
    print(f"step {step}/{a.steps} loss 0.5" if a.total else f"step {step} loss 0.5", flush=True)
    if a.save_every and step % a.save_every == 0:
        save(step)
if a.oom_at_end:
    forward(batch)
time.sleep(0 if a.resume else a.slow_end)
if a.said and not (a.swallow and batch > a.fits):
    with open(a.said, "w") as f:
        json.dump({"batch_size": a.batch_size, "accum": a.accum, "resume": a.resume, "first": first, "data": data, "optim": optim}, f)
print("training is over", flush=True)
