"""Points A, C, D: a resume that is none, an end that is none, and states from before a start over."""
import json
import os
import signal
import time

from box import PYTHON, need, trial

# A trainer that counts and prints its steps in the ways that programs do. Of those that resume, some do not.
TRAINER = r'''
import argparse, json, os, sys, time
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=32)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--resume", default="")
p.add_argument("--out", default="runs/a")
p.add_argument("--steps", type=int, default=8)
p.add_argument("--oom-after", type=int, default=4)
p.add_argument("--save-every", type=int, default=1)
p.add_argument("--ends-at", type=int, default=99)
p.add_argument("--fail-at", type=int, default=0)
p.add_argument("--slow", type=float, default=0)
p.add_argument("--wait", action="store_true", help="do not begin before the file go is there")
p.add_argument("--count", default="on", help="on, again, left, zero, bar, bar-again, skip, epochs, epochs-again")
p.add_argument("--every", type=int, default=1)
p.add_argument("--last-words", default="")
a = p.parse_args()
first, trail = 0, []
if a.resume:
    with open(a.resume) as f:
        first, trail = json.load(f)
    print("resuming from", a.resume, flush=True)
while a.wait and not os.path.exists("go"):
    time.sleep(0.02)
if "again" in a.count:
    first = 0
start = first


def show(step):
    if a.count in ("bar", "bar-again"):
        sys.stderr.write(f"\r{step * 100 // a.steps:3d}%|##  | {step}/{a.steps} [00:01<00:02, 1.00it/s]")
        sys.stderr.flush()
    elif a.count == "left":
        print(f"step {step - start}/{a.steps - start} loss 0.5", flush=True)
    elif a.count == "zero":
        print(f"step {step - 1}/{a.steps} loss 0.5", flush=True)
    elif "epochs" in a.count:
        print(f"epoch {(step - 1) // 4 + 1} step {(step - 1) % 4 + 1}/4 loss 0.5", flush=True)
    elif step % a.every == 0:
        print(f"step {step}/{a.steps} loss 0.5", flush=True)


if a.count == "skip":
    for step in range(1, first + 1):
        print(f"step {step}/{a.steps} skipped", flush=True)
os.makedirs(a.out, exist_ok=True)
for step in range(first + 1, min(a.steps, a.ends_at) + 1):
    if a.batch_size > 16 and step > a.oom_after:
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    if step == a.fail_at and not a.resume:
        sys.exit("ValueError: something else")
    time.sleep(a.slow)
    trail.append(step)
    show(step)
    if step % a.save_every == 0:
        path = f"{a.out}/{step:04d}.pt"
        with open(path + ".tmp", "w") as f:
            json.dump([step, trail], f)
        os.rename(path + ".tmp", path)
        print("saved " + path, flush=True)
with open("trail.json", "w") as f:
    json.dump(trail, f)
if a.last_words:
    print(a.last_words, flush=True)
'''

DECLARED = r'''script: train.py
micro-batch: --batch-size
accumulation: --accum
progress: '(?:step |\| )(?P<iteration>\d+)/(?P<total>\d+)'
saved: '^saved (?P<path>\S+)'
resume: {--resume: '{--out}/*.pt'}
'''
STEP = DECLARED.splitlines()[3]


def project(box):
    box.write("work/train.py", TRAINER)
    box.write("work/.launch-job.yaml", DECLARED)


TRAIN = [PYTHON, "train.py", "--out", "runs/a"]


def run(box, *args, flags=(), **more):
    return box.launch(*flags, "--", *TRAIN, *args, **more)


def trail(box):
    return json.loads(box.read("work/trail.json"))


def said(done, first=1, state=4):
    return f"it did not resume: its first step is {first}, the state is of step {state}" in done.err


def plain(done):
    """Nothing is doubtful in what launch printed."""
    return done.code == 0 and "launch: succeeded" in done.err and "did not resume" not in done.err and "doubtful" not in done.err


def resumption(box):
    return box.attempts()[-1]["outcome"]["resumption"]["state"]


# D. A resume that is none.

@trial("D", "a program that counts from 1 again after a resume did not resume, and the steps of both are counted")
def _(box):
    project(box)
    done = run(box, "--count", "again")
    need(len(trail(box)) == 12 and said(done) and "doubtful" in done.err and "12 steps were trained in all, of 8" in done.err, repr(done))
    shown = box.launch("show", "last").out
    need("doubtful" in shown.splitlines()[0] and "not met     each resume went on" in shown, shown)


@trial("D", "the same, told while it goes on")
def _(box):
    project(box)
    p = box.start([box.binary, "--", *TRAIN, "--count", "again", "--slow", "0.25"])
    done = box.finish(p)
    lines = done.err.splitlines()
    told = [i for i, line in enumerate(lines) if "did not resume" in line]
    need(len(told) == 2 and "launch: doubtful" in lines[-1], repr(done))  # once in time, and once at the end


@trial("D", "the same by launch resume, after a failure")
def _(box):
    project(box)
    run(box, "--batch-size", "16", "--count", "again", "--fail-at", "5")
    done = box.launch("resume", "last")
    need(done.code == 0 and said(done) and "doubtful" in done.err, repr(done))


@trial("D", "the same after launch was killed")
def _(box):
    project(box)
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "16", "--count", "again", "--slow", "0.15"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0003.pt")))
    p.kill()
    p.wait()
    time.sleep(0.5)
    done = box.launch("resume", "last")
    need(done.code == 0 and "it did not resume: its first step is 1, the state is of step" in done.err, repr(done))


@trial("D", "the same of a progress bar, whose steps take their time")
def _(box):
    project(box)
    done = run(box, "--count", "bar-again", "--slow", "0.1", "--steps", "16", "--oom-after", "8")
    need(said(done, state=8) and "doubtful" in done.err, repr(done))


@trial("D", "the same as a row of a sweep: it is unlike the others")
def _(box):
    project(box)
    done = box.launch("sweep", "--name", "s", "--zip=--count=on,again", "--", PYTHON, "train.py", "--out", "{trial}")
    rows = json.loads(box.launch("sweep", "status", "s", "--json").out)["rows"]
    need([r["state"] for r in rows] == ["succeeded", "doubtful"] and "did not resume" in rows[1]["why"] and done.code == 1, f"{rows} {done}")


for count in "on", "left", "zero", "bar", "skip":
    @trial("D", f"a program that goes on is no restart: it counts {count!r}")
    def _(box, count=count):
        project(box)
        done = run(box, "--count", count, "--slow", "0.06" if count == "bar" else "0")
        need(plain(done) and len(trail(box)) == 8 and resumption(box) == "resumed", f"{resumption(box)} {done}")


@trial("D", "the count of an epoch's steps is no restart")
def _(box):
    project(box)
    done = run(box, "--count", "epochs", "--oom-after", "6")
    need(plain(done) and len(trail(box)) == 8, repr(done))


@trial("D", "a program that prints every fifth step is no restart, from a state of step 3")
def _(box):
    project(box)
    done = run(box, "--every", "5", "--steps", "12", "--oom-after", "3")
    need(plain(done) and len(trail(box)) == 12, repr(done))


@trial("D", "a training whose last steps are not printed is no failure after a resume")
def _(box):
    project(box)
    done = run(box, "--every", "5", "--steps", "8", "--oom-after", "7")
    need(plain(done) and len(trail(box)) == 8, repr(done))


# D. An end that is none.

@trial("D", "an exit of 0 at half of the steps is doubtful: in the line, in show, in the JSON, in the list of runs")
def _(box):
    project(box)
    done = run(box, "--batch-size", "16", "--ends-at", "4", flags=["--json-file", "r.json"])
    need(done.code == 0 and "launch: doubtful" in done.err and "4 of 8" in done.err, repr(done))
    need("4 of 8" in json.loads(box.read("work/r.json"))["summary"]["doubtful"] and "doubtful" in box.launch("runs").out, box.read("work/r.json"))


@trial("D", "the same in a sweep: a state of its own, an exit code of its own, and no second training")
def _(box):
    project(box)
    done = box.launch("sweep", "--name", "s", "--zip=--ends-at=8,4", "--", PYTHON, "train.py", "--batch-size", "16", "--out", "{trial}")
    table = box.launch("sweep", "status", "s").out
    need(done.code == 1 and "1 succeeded, 1 doubtful" in table and "4 of 8" in table, table + repr(done))
    again = box.launch("sweep", "resume", "s")
    need(len(box.runs()) == 2 and again.code == 1, f"{len(box.runs())} runs: {again}")


@trial("D", "a training that stops early, and prints why, is a success")
def _(box):
    project(box)
    for words in "Early stopping at step 4", "no improvement for 3 evaluations, stopping training", "patience of 3 reached":
        done = run(box, "--batch-size", "16", "--ends-at", "4", "--last-words", words)
        need(plain(done), f"{words}: {done}")


@trial("D", "a count of evaluations without improvement, and a setting, are no reason to stop early")
def _(box):
    project(box)
    for words in "EarlyStopping counter: 1 out of 7", "early_stopping: False":
        done = run(box, "--batch-size", "16", "--ends-at", "4", "--last-words", words)
        need("launch: doubtful" in done.err, f"{words}: {done}")


@trial("D", "a training that prints its steps in a form that no pattern knows is a success, and its resume not checked")
def _(box):
    project(box)
    box.write("work/.launch-job.yaml", box.read("work/.launch-job.yaml").replace(STEP, r"progress: '^iteration (?P<iteration>\d+)$'"))
    done = run(box)
    need(plain(done) and "whether it resumed is not checked" in done.err and resumption(box) == "not checked", repr(done))


# C. A run that was to leave, and ran out of memory.

def leaves(box, ask, *args):
    """Asks a run to save and stop after its second step, of which it runs out of memory; then it is resumed."""
    p = box.start([box.binary, "--save-on=USR2=20s", "--", *TRAIN, "--oom-after", "3", "--slow", "0.4", *args])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")) or not args and os.path.exists(box.path("work/runs/a/0001.pt")))
    ask(p)
    first = box.finish(p)
    need(any(e["event"] == "ended" for e in box.runs()[-1]), repr(first))
    done = box.launch("resume", "last")
    need(done.code == 0 and len(trail(box)) == 8, f"{first} and then {done}")


@trial("C", "a run that is asked to leave by a signal, and runs out of memory, takes the next rung when it is resumed")
def _(box):
    project(box)
    leaves(box, lambda p: p.send_signal(signal.SIGUSR2), "--save-every", "2")


@trial("C", "the same, asked twice")
def _(box):
    project(box)
    leaves(box, lambda p: (p.send_signal(signal.SIGUSR2), time.sleep(0.1), p.send_signal(signal.SIGUSR2)), "--save-every", "2")


@trial("C", "the same, asked by launch stop")
def _(box):
    project(box)
    leaves(box, lambda p: box.launch("stop", "--save", "--no-wait", "last"), "--save-every", "2")


@trial("C", "the same, asked during the retry")
def _(box):
    project(box)
    p = box.start([box.binary, "--save-on=USR2=20s", "--", *TRAIN, "--slow", "0.1"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0006.pt")))
    p.send_signal(signal.SIGUSR2)
    first = box.finish(p)
    done = box.launch("resume", "last")
    need(first.code == 75 and done.code == 0 and len(trail(box)) == 8, f"{first} and then {done}")


# C. What starts over stays so.

def killed(box, p, until):
    box.wait(until)
    p.kill()
    p.wait()
    time.sleep(0.4)


def planned(box, n):
    return lambda: sum(e["event"] == "planned" for e in box.runs()[-1]) >= n


@trial("C", "--from-start stays from the start, where launch is killed before the first save")
def _(box):
    project(box)
    box.write("work/go", "")
    run(box, "--batch-size", "16", "--fail-at", "4", "--wait")
    os.remove(box.path("work/go"))
    p = box.start([box.binary, "resume", "last", "--from-start"])
    killed(box, p, planned(box, 2))
    box.write("work/go", "")
    done = box.launch("resume", "last")
    need(done.code == 125 and "--from-start" in done.err and not os.path.exists(box.path("work/trail.json")), repr(done))


@trial("C", "the same, of a run that was killed before that, too")
def _(box):
    project(box)
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "16", "--slow", "0.1", "--steps", "99"])
    killed(box, p, lambda: os.path.exists(box.path("work/runs/a/0003.pt")))
    box.write("work/train.py", TRAINER.replace("start = first", "start = first\nif first == 0: time.sleep(5)"))
    p = box.start([box.binary, "resume", "last", "--from-start"])
    killed(box, p, planned(box, 2))
    done = box.launch("resume", "last")
    need(done.code == 125 and "--from-start" in done.err, repr(done))


@trial("C", "a resume that is killed before its first save goes on from the same state the next time")
def _(box):
    project(box)
    box.write("work/go", "")
    run(box, "--batch-size", "16", "--fail-at", "4", "--wait")
    os.remove(box.path("work/go"))
    for n in 2, 3:
        p = box.start([box.binary, "resume", "last"])
        killed(box, p, planned(box, n))
    box.write("work/go", "")
    done = box.launch("resume", "last")
    need(done.code == 0 and trail(box) == list(range(1, 9)), repr(done))


# C. Where memory ran out.

@trial("C", "an out-of-memory five steps after a save is not in the save")
def _(box):
    project(box)
    box.write("work/train.py", TRAINER.replace('print("saved " + path', 'print("Saving model checkpoint to " + path'))
    box.write("work/.launch-job.yaml", box.read("work/.launch-job.yaml").replace("^saved ", "^Saving model checkpoint to "))
    done = run(box, "--count", "bar", "--save-every", "3", "--oom-after", "5")
    need("state was saved" not in done.err and "out of memory at iteration 5" in done.err, repr(done))


# B. What was not printed.

@trial("B", "a setting that the program did not print is not checked: in show, and at the end of the run")
def _(box):
    project(box)
    done = run(box)
    need("not checked: whether the program used" in done.err, repr(done))
    need("not checked the program used the planned settings" in box.launch("show", "last").out, box.launch("show", "last").out)
    done = run(box, "--batch-size", "16", "--out", "runs/b")
    need("not checked the program used the planned settings: launch changed none" in box.launch("show", "last").out, repr(done))
