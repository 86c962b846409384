"""A training program that needs neither torch nor a card: it counts steps, saves states, and runs out of memory where it is told to.

It prints what a real one prints, in torch's words, and needs memory in proportion to its batch: base + batch * each bytes.
"""
import argparse, json, os, signal, sys, time

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
p.add_argument("--no-step", action="store_true", help="after a resume: end without one")
p.add_argument("--wait-for", default="", help="do not begin before this file is there")
p.add_argument("--term", type=float, default=-1, help="on SIGTERM: save for so many seconds, then end with 0")
p.add_argument("--said", default="", help="write what it was told into this file, at its end")
a = p.parse_args()

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
        with open(path + "/trainer_state.json", "w") as f:
            json.dump({"global_step": step, "max_steps": a.steps}, f)
    else:
        with open(path, "w") as f:
            f.write(f"{step} {a.out}")
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
first = 0
if a.resume:
    path = a.resume + "/trainer_state.json" if os.path.isdir(a.resume) else a.resume
    with open(path) as f:
        text = f.read()
    first = json.loads(text)["global_step"] if text.startswith("{") else int(text.split()[0])
    print(f"resumed at step {first}, from {a.resume}", flush=True)
batch = a.ignore or a.batch_size
for step in range(first + 1, a.steps + 1):
    if a.no_step and a.resume:
        break
    if step > a.oom_after:
        forward(batch)
    time.sleep(a.slow)
    print(f"step {step} loss 0.5", flush=True)
    if a.save_every and step % a.save_every == 0:
        save(step)
if a.said:
    with open(a.said, "w") as f:
        json.dump({"batch_size": a.batch_size, "accum": a.accum, "resume": a.resume, "first": first}, f)
print("training is over", flush=True)
