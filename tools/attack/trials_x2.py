"""Points A and C: rows that are given back as they were, copies of the code, and what only waits beside a training."""
import json, os

from box import PYTHON, need, trial

NOTES = """import json, os, sys
with open(os.environ["GOT"], "a") as f:
    f.write(json.dumps(sys.argv[1:]) + "\\n")
print("step 1")
"""
BUSY = """import sys, time
end = time.time() + 4
while time.time() < end:
    sum(range(1000))
print("step 1")
"""


def rows(box, name="s"):
    return json.loads(box.launch("sweep", "status", name, "--json").out)["rows"]


def git(box, *args):
    done = box.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *args])
    need(done.code == 0, repr(done))


@trial("A", "a sweep from a copy of the code runs, and goes on though the code has changed")
def _(box):
    box.write("work/t.py", "import os, sys\nprint('as it was')\nsys.exit(0 if os.path.exists(os.environ['GO']) else 1)\n")
    env = {"GO": box.path("work/go")}
    git(box, "init", "-q")
    git(box, "add", "t.py")
    git(box, "commit", "-qm", "x")
    done = box.launch("sweep", "--snapshot", "--name", "s", "--grid", "--x=1,2", "--", PYTHON, "t.py", env=env)
    need(done.code == 1 and [r["state"] for r in rows(box)] == ["failed", "failed"], f"{done} {rows(box)}")
    box.write("work/t.py", "raise SystemExit('changed')\n")
    box.write("work/go", "")
    done = box.launch("sweep", "resume", "s", env=env)
    need(done.code == 0 and [r["state"] for r in rows(box)] == ["succeeded", "succeeded"], f"{done} {rows(box)}")


@trial("A", "a value that no journal can hold is refused, and never changed")
def _(box):
    box.write("work/t.py", NOTES)
    done = box.launch("sweep", "--name", "s", "--grid", b"--text=\xff,a", "--", PYTHON, "t.py", env={"GOT": box.path("work/got")})
    need(done.code == 125 and "is not UTF-8" in done.err and not os.path.exists(box.path("work/got")), repr(done))


@trial("A", "a monitor beside the training is no training: its rows are proven, and no duplicates")
def _(box):
    box.write("work/t.py", BUSY)
    box.write("work/run.sh", f"{PYTHON} -c 'import time; time.sleep(60)' &\nm=$!\n{PYTHON} t.py \"$@\"; kill $m\n")
    done = box.launch("sweep", "--quiet", "--name", "s", "--grid", "--lr=1,2", "--", "sh", "run.sh")
    found = rows(box)
    need(done.code == 0 and not any(r.get("not_proven") or r.get("same_as") for r in found), f"{found} {done}")


# What a split changes.

HEAD = """import argparse
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=16)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--lr", type=float, default=0.1)
a = p.parse_args()
"""
STEPS = """for i, x in enumerate(loader):
    (f(x) / a.accum).backward()
    if (i + 1) % a.accum == 0:
        optimizer.step(); scheduler.step()
"""


def costs(box, body, cost, why=""):
    box.write("work/train.py", HEAD + body)
    box.write("work/.launch-job.yaml", "script: train.py\nmicro-batch: --batch-size\naccumulation: --accum\nbatch-norm: false\n")
    done = box.launch("plan", "--json", "--vram", "24GiB", "--", PYTHON, "train.py")
    rungs = [r for r in json.loads(done.out)["alternatives"] if r["rung"].startswith("micro-batch")]
    got = rungs[0]["cost"], rungs[0].get("cost_because", "")
    need(got[0] == cost and why in got[1], f"{got}, not {cost}: {why}")


@trial("C", "a batch and a rate that are read in one statement are two settings: speed")
def _(box):
    costs(box, "c = vars(a)\nbatch, lr = int(c['batch_size']), c['lr']\nopt = SGD(w, lr=lr)\n", "speed")


@trial("C", "a rate that is chosen by the micro-batch")
def _(box):
    costs(box, "lr = a.lr\nif a.batch_size < 16:\n    lr = 0.01\nopt = SGD(w, lr=lr)\n", "recipe", "follows the micro-batch")


@trial("C", "a schedule that is as long as the passes")
def _(box):
    costs(box, "scheduler = OneCycleLR(optimizer, 0.1, total_steps=len(loader) * 3)\n" + STEPS, "recipe", "as long as the forward passes")


@trial("C", "a schedule that is as long as the optimizer's steps")
def _(box):
    costs(box, "scheduler = OneCycleLR(optimizer, 0.1, total_steps=len(loader) // a.accum * 3)\n" + STEPS, "numerics")


@trial("C", "gradients that are added up, and never divided")
def _(box):
    costs(box, STEPS.replace("(f(x) / a.accum)", "f(x)"), "recipe", "is not divided")


@trial("C", "a loss of the batch with itself that is only judged by: speed")
def _(box):
    costs(box, "@torch.no_grad()\ndef judge(q, d):\n    return F.cross_entropy(q @ d.T, torch.arange(len(q)))\njudge(q, d)\n", "speed")
