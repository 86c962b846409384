"""Point A, saved states: a run goes on from what it wrote itself, whole, and from the newest of it; "last" is the run that began last."""
import json
import os
import re
import shutil
import time

from box import PYTHON, need, trial

# Every state holds who has trained each of its steps, so that a mixture shows.
TRAINER = r'''
import argparse, io, json, os, pickle, struct, sys, time, zipfile
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=32)
p.add_argument("--accum", type=int, default=1)
p.add_argument("-o", "--out", default=FOLDER)
p.add_argument("--who", default="mine")
p.add_argument("--steps", type=int, default=5)
p.add_argument("--name", default="{step:04d}.pt")
p.add_argument("--form", default="json")
p.add_argument("--fits", type=int, default=1000)
p.add_argument("--stop-at", type=int, default=0)
p.add_argument("--harm", default="")
p.add_argument("--beside", default="")
p.add_argument("--quiet", action="store_true")
p.add_argument("--slow", type=float, default=0)
p.add_argument("--linger", type=float, default=0)
p.add_argument("--resume", default="")
a = p.parse_args()

def pack(v):
    if isinstance(v, int): return bytes([v])
    if isinstance(v, str): return bytes([0xa0 | len(v)]) + v.encode()
    return bytes([0x90 | len(v)]) + b"".join(map(pack, v))

def unpack(b, at=0):
    c = b[at]
    if c < 0x80: return c, at + 1
    if c >= 0xa0: return b[at + 1:at + 1 + (c & 31)].decode(), at + 1 + (c & 31)
    out, at = [], at + 1
    for _ in range(c & 15):
        v, at = unpack(b, at)
        out.append(v)
    return out, at

def dump(trail):
    if a.form == "json": return json.dumps({"trail": trail}).encode()
    if a.form == "pickle": return pickle.dumps({"trail": trail, "weights": bytes(range(256)) * 40})
    if a.form == "msgpack": return b"\x82\xa5trail" + pack(trail) + b"\xa1w\xc5\x02\x00" + bytes(range(256)) * 2
    if a.form == "safetensors":
        head = json.dumps({"__metadata__": {"trail": json.dumps(trail)}, "w": {"dtype": "U8", "shape": [512], "data_offsets": [0, 512]}}).encode()
        return struct.pack("<Q", len(head)) + head + bytes(range(256)) * 2
    if a.form == "raw": return json.dumps(trail).encode().ljust(2000, b" ")[::-1]
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps(trail))
        z.writestr("archive/data/0", bytes(range(256)) * 300)
    return f.getvalue()

def load(path):
    if os.path.isdir(path): path += "/state.json"
    b = open(path, "rb").read()
    if b[:1] == b"{": return json.loads(b)["trail"]
    if b[:2] == b"PK": return pickle.loads(zipfile.ZipFile(path).read("archive/data.pkl"))
    if b[:1] == b"\x80": return pickle.loads(b)["trail"]
    if b[:1] == b"\x82": return unpack(b, 7)[0]
    if b[-1:] == b"[": return json.loads(b[::-1])
    return json.loads(json.loads(b[8:8 + struct.unpack("<Q", b[:8])[0]])["__metadata__"]["trail"])

def harmed(b):
    whole = len(b) // 4096 * 4096
    return {"cut": b[:len(b) // 2], "cut-end": b[:-3], "empty": b"", "zeros": bytes(len(b)),
            "hole": b[:4096] + bytes(max(0, len(b) - 8192)) + b[-4096:], "page": b[:whole], "head": bytes(64) + b[64:]}[a.harm]

trail = []
if a.resume:
    trail = load(a.resume)
    print("going on at step", len(trail), flush=True)
os.makedirs(a.out, exist_ok=True)
while len(trail) < a.steps:
    step = len(trail) + 1
    if a.batch_size > a.fits and step == 4:
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    time.sleep(a.slow)
    trail.append(a.who)
    print(f"step {step}", flush=True)
    path = f"{a.out}/" + a.name.format(step=step, loss=1 / step, acc=1 - 1 / step, slot=step % 3)
    b, stops = dump(trail), step == a.stop_at and not os.path.exists("stopped")
    if stops and a.harm:
        b = harmed(b)
    if path.endswith("/"):
        os.makedirs(path, exist_ok=True)
        path += "state.json"
        with open(path.replace("state", "trainer_state"), "w") as f: f.write("{}")
    with open(path, "wb") as f: f.write(b)
    if not a.quiet: print("saved", path.replace("/state.json", ""), flush=True)
    if a.beside:
        with open(f"{a.out}/{a.beside}", "wb") as f: f.write(dump(["best"]))
    if stops:
        open("stopped", "w").close()
        time.sleep(a.linger)
        sys.exit("ValueError: something else")
with open("result.json", "w") as f: json.dump(trail, f)
print("training is over", flush=True)
'''


def project(box, resume="'{--out}/*.pt'", folder='"runs/b"', saved=r"'saved (?P<path>\S+)'"):
    box.trainer(resume="{--resume: " + resume + "}", saved=saved)
    box.write("work/train.py", "import time\nFOLDER = " + folder + TRAINER)


def train(*args, out="runs/b"):
    return [PYTHON, "train.py", *(["--out", out] if out else []), *args]


def failed(box, *args, at=4, **more):
    """A run that failed after some steps."""
    done = box.launch("--", *train("--stop-at", str(at), *args, **more))
    need(done.code == 1, f"it did not fail as it was to: {done}")
    return done


def result(box):
    return json.loads(box.read("work/result.json")) if os.path.exists(box.path("work/result.json")) else None


def resumes(box, name, *flags):
    """launch resume goes on from that state, and nothing is mixed."""
    done = box.launch("resume", "last", *flags)
    need(done.code == 0 and f"resumes from {name}" in done.err, f"not from {name}: {done}")
    need(result(box) == ["mine"] * 5, f"the result is {result(box)}: {done}")
    return done


def refuses(box, *words):
    """launch resume stops, tells why, and starts nothing."""
    before = result(box)
    done = box.launch("resume", "last")
    need(done.code == 125 and "--from-start" in done.err and "step" not in done.out and result(box) == before, repr(done))
    for word in words:
        need(word in done.err, f"{word} is not told: {done}")
    return done


# Content.

@trial("A", "a state that another run's was copied over is not gone on from; the one before it is, and that is said")
def _(box):
    project(box)
    box.run(train("--who", "other", out="runs/a"))
    failed(box)
    shutil.copy(box.path("work/runs/a/0004.pt"), box.path("work/runs/b/0004.pt"))
    done = resumes(box, "0003.pt")
    need("0004.pt changed since this run wrote it" in done.err, repr(done))


@trial("A", "the same where the copy has the old times and the old size, and several states were replaced")
def _(box):
    project(box)
    box.run(train("--who", "evil", out="runs/a"))
    failed(box)
    for name in "0004.pt", "0003.pt":
        path = box.path("work/runs/b", name)
        was = os.stat(path)
        with open(box.path("work/runs/a", name), "rb") as f, open(path, "r+b") as g:
            g.write(f.read())
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    resumes(box, "0002.pt")


@trial("A", "the same of --continue, and of a state that is a folder")
def _(box):
    project(box, resume="'{--out}/checkpoint-*'")
    command = train("--stop-at", "4", "--name", "checkpoint-{step}/")
    box.run(train("--who", "other", "--name", "checkpoint-{step}/", out="runs/a"))
    box.launch("--", *command)
    shutil.copy(box.path("work/runs/a/checkpoint-4/state.json"), box.path("work/runs/b/checkpoint-4/state.json"))
    done = box.launch("--continue", "--", *command)
    need(done.code == 0 and "resumes from checkpoint-3" in done.err and result(box) == ["mine"] * 5, f"{result(box)}: {done}")


@trial("A", "a state that is gone: the one before it is gone on from")
def _(box):
    project(box)
    failed(box)
    os.remove(box.path("work/runs/b/0004.pt"))
    done = resumes(box, "0003.pt")
    need("0004.pt no longer exists" in done.err, repr(done))


@trial("A", "no state is left that the run wrote: it stops, and says which were changed")
def _(box):
    project(box, resume="'{--out}/last.pt'")
    box.run(train("--who", "other", "--name", "last.pt", out="runs/a"))
    failed(box, "--name", "last.pt")
    shutil.copy(box.path("work/runs/a/last.pt"), box.path("work/runs/b/last.pt"))
    refuses(box, "last.pt changed")
    done = box.launch("resume", "last", "--from-start")
    need(done.code == 0 and result(box) == ["mine"] * 5, f"{result(box)}: {done}")


@trial("A", "states that were copied to another disk and back are the run's own: content counts, not the file")
def _(box):
    project(box)
    failed(box)
    shutil.copytree(box.path("work/runs"), box.path("work/away"))
    shutil.rmtree(box.path("work/runs"))
    box.own(box.path("work/away"))
    shutil.move(box.path("work/away"), box.path("work/runs"))
    box.run(["chown", "-R", f"{box.uid('victim')}", box.path("work/runs")], who="root")
    resumes(box, "0004.pt")


@trial("A", "a bare run has gone on from the run's state in its folder: the states that it wrote are shown, and nothing starts")
def _(box):
    project(box)
    failed(box, at=3)
    box.run(train("--who", "other", "--resume", "runs/b/0003.pt", "--steps", "6"))
    os.remove(box.path("work/result.json"))
    refuses(box, "0004.pt", "0006.pt", "since its last attempt")


@trial("A", "another launch has started over in the folder of the run")
def _(box):
    project(box)
    failed(box, at=3)
    first = sorted(os.listdir(os.path.join(box.state, "runs")))[0]
    box.launch("--", *train("--who", "other", "--steps", "4"))
    os.remove(box.path("work/result.json"))
    done = box.launch("resume", first)
    need(done.code == 125 and "changed since this run wrote" in done.err and result(box) is None, repr(done))


@trial("A", "another run has written states of its own names into a folder of both: that is no reason to stop")
def _(box):
    project(box)
    failed(box, "--name", "mine-{step}.pt")
    box.run(train("--who", "other", "--name", "other-{step}.pt", "--steps", "8"))
    os.remove(box.path("work/result.json"))
    resumes(box, "mine-4.pt")


@trial("A", "launch was killed, and a bare run has written over the states since: none of them is gone on from")
def _(box):
    project(box)
    mine = box.start([box.binary, "--", *train("--slow", "0.8", "--steps", "50")])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0002.pt")))
    time.sleep(0.3)
    mine.kill()
    mine.wait()
    time.sleep(0.3)
    box.run(train("--who", "other"))
    os.remove(box.path("work/result.json"))
    done = box.launch("resume", "last", seconds=20)
    need(done.code == 125 and result(box) is None, repr(done))


@trial("A", "launch was killed, and one state was replaced since: the one before it is gone on from")
def _(box):
    project(box)
    box.run(train("--who", "other", out="runs/a"))
    mine = box.start([box.binary, "--", *train("--slow", "0.8", "--steps", "5")])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0002.pt")))
    time.sleep(0.3)
    mine.kill()
    mine.wait()
    time.sleep(0.2)
    newest = sorted(os.listdir(box.path("work/runs/b")))[-1]
    shutil.copy(box.path("work/runs/a", newest), box.path("work/runs/b", newest))
    done = box.launch("resume", "last")
    need(done.code == 0 and result(box) == ["mine"] * 5 and newest not in re.findall(r"resumes from (\S+)", done.err), f"{result(box)}: {done}")


@trial("A", "a state that somebody overwrites in place while the run goes on is not gone on from")
def _(box):
    project(box)
    box.run(train("--who", "evil", out="runs/a"))
    mine = box.start([box.binary, "--", *train("--linger", "2", "--stop-at", "4")])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0004.pt")))
    time.sleep(1.3)
    for name in "0004.pt", "0003.pt":
        with open(box.path("work/runs/a", name), "rb") as f, open(box.path("work/runs/b", name), "r+b") as g:
            g.write(f.read())
    done = box.finish(mine)
    need(done.code == 1, repr(done))
    resumes(box, "0002.pt")


# Torn states.

def torn(box, form, *harms):
    """Each harm is found before the state is used, and the state before it is gone on from."""
    project(box)
    for harm in harms:
        for path in "work/stopped", "work/result.json":
            if os.path.exists(box.path(path)):
                os.remove(box.path(path))
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        failed(box, "--form", form, "--harm", harm)
        done = box.launch("resume", "last")
        need(done.code == 0 and "resumes from 0003.pt" in done.err and result(box) == ["mine"] * 5, f"{form}, {harm}: {result(box)}: {done}")


@trial("A", "a pickle that was cut short is not gone on from")
def _(box):
    torn(box, "pickle", "cut", "cut-end", "zeros")


@trial("A", "nor is a text that was cut short, or is empty")
def _(box):
    torn(box, "json", "cut", "empty", "cut-end")


@trial("A", "nor is an archive with zeros in it, in its beginning, or instead of it")
def _(box):
    torn(box, "zip", "hole", "zeros", "head", "page")


@trial("A", "nor is msgpack or safetensors that was cut short")
def _(box):
    torn(box, "msgpack", "cut", "cut-end")
    torn(box, "safetensors", "cut", "zeros")


@trial("A", "nor is a file of a form that nobody knows, half as long as the one before it")
def _(box):
    torn(box, "raw", "cut", "zeros")


@trial("A", "a state that was whole when the run wrote it, and was cut short since, is not gone on from")
def _(box):
    project(box)
    failed(box, "--form", "zip")
    os.truncate(box.path("work/runs/b/0004.pt"), 30_000)
    resumes(box, "0003.pt")


# Which is the newest.

def newest(box, name, want, *args, resume="'{--out}/*.pt'"):
    project(box, resume=resume)
    for way in "launch resume", "an out-of-memory":
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        for path in "work/stopped", "work/result.json":
            if os.path.exists(box.path(path)):
                os.remove(box.path(path))
        if way == "launch resume":
            failed(box, "--name", name, *args, at=3)
            done = box.launch("resume", "last")
        else:
            done = box.launch("--", *train("--name", name, "--fits", "16", *args))
        need(done.code == 0 and f"resumes from {want}" in done.err and result(box) == ["mine"] * 5, f"{way}: {result(box)}: {done}")


@trial("A", "of states with the loss in their names the last counts, not the largest loss")
def _(box):
    newest(box, "ckpt-loss{loss:.2f}.pt", "ckpt-loss0.33.pt")


@trial("A", "the same where neither a line tells of a state, and with a figure that falls")
def _(box):
    newest(box, "val_loss={loss:.3f}.pt", "val_loss=0.333.pt", "--quiet")


@trial("A", "of names with an epoch, a step and a loss the step counts")
def _(box):
    newest(box, "epoch=1-step={step}00-loss={loss:.2f}.pt", "epoch=1-step=300-loss=0.33.pt", "--quiet")


@trial("A", "states that take turns in a few names: the one that was written last counts")
def _(box):
    newest(box, "slot{slot}.pt", "slot0.pt")


@trial("A", "a file server whose clock is wrong does not change which is the newest")
def _(box):
    project(box)
    box.write("work/train.py", box.read("work/train.py").replace("    if a.beside:", "    os.utime(path, (1e9 - 1000 * step,) * 2)\n    if a.beside:"))
    failed(box, "--name", "wer{loss:.2f}.pt", at=3)
    resumes(box, "wer0.33.pt")


@trial("A", "the best, the averaged and the final weights are no states to go on from")
def _(box):
    for beside in "model-best.pt", "ema.pt", "last_best_0009.pt", "final.pt":
        newest(box, "model-{step}.pt", "model-3.pt", "--beside", beside)


@trial("A", "a declaration that names the best state and no pattern means that one")
def _(box):
    newest(box, "best.pt", "best.pt", resume="'{--out}/best.pt'")


# Where they are.

@trial("A", "a path that lies deeper than the declaration tells is known from what the program printed")
def _(box):
    newest(box, "weights/{step}.pt".replace("weights/", "w-"), "w-3.pt", resume="'{--out}/deep/*.pt'")


@trial("A", "one that lies less deep than it tells, where the folder is not typed")
def _(box):
    project(box, resume="'w/{--out}/*/*.pt'")
    done = failed(box, at=3, out=None)
    need("does not match" in done.err and "0003.pt" in done.err, f"nothing tells of it: {done}")
    resumes(box, "0003.pt")


@trial("A", "a printed path of another form is no state: the run is not gone on from it")
def _(box):
    project(box, resume="'{--out}/deep/checkpoint-*.pt'")
    failed(box, "--name", "weights.pt", at=3)
    refuses(box)


@trial("A", "the script's own folder counts where none is typed, and the one of another name of the option where that is")
def _(box):
    project(box)
    failed(box, at=3, out=None)
    resumes(box, "0003.pt")
    for path in "work/stopped", "work/result.json":
        os.remove(box.path(path))
    failed(box, "-o", "runs/c", at=3, out=None)
    need(os.path.exists(box.path("work/runs/c/0003.pt")), "the trainer did not take -o")
    resumes(box, "0003.pt")


@trial("A", "a folder that is named by the time is the one that this run printed")
def _(box):
    project(box, folder='time.strftime("runs/%H%M%S")')
    failed(box, at=3, out=None)
    time.sleep(1.1)
    resumes(box, "0003.pt")


@trial("A", "a folder that nobody can know is told before the run")
def _(box):
    project(box, folder='time.strftime("runs/%H%M%S")', saved=None)
    done = box.launch("plan", "--", *train(out=None))
    need("--out is not typed" in done.out + done.err, repr(done))
    done = box.launch("plan", "--", *train())
    need("is not typed" not in done.out + done.err, repr(done))


# The last run.

def ahead(box):
    """The oldest run, as if it had been recorded while the clock was an hour ahead."""
    runs = os.path.join(box.state, "runs")
    name = sorted(os.listdir(runs))[0]
    os.rename(os.path.join(runs, name), os.path.join(runs, time.strftime("%Y%m%d-%H%M%S.000-ffff", time.gmtime(time.time() + 3600))))


@trial("A", "the last run is the one that began last, though the clock was ahead when another was recorded")
def _(box):
    project(box)
    failed(box, "--who", "old", at=2, out="runs/a")
    ahead(box)
    os.remove(box.path("work/stopped"))
    failed(box, at=3)
    resumes(box, "0003.pt")


@trial("A", "the same of --continue, and of the list of runs")
def _(box):
    project(box)
    command = ["--", *train("--stop-at", "3")]
    box.launch(*command)
    ahead(box)
    shutil.rmtree(box.path("work/runs"))
    os.remove(box.path("work/stopped"))
    box.launch(*command)
    done = box.launch("--continue", *command)
    need(done.code == 0 and "resumes from 0003.pt" in done.err and "-ffff" not in done.err, repr(done))
    rows = [r["id"] for r in json.loads(box.launch("runs", "--json").out)]
    need(rows[0].endswith("-ffff") and len(rows) == 2, f"the runs are {rows}")


@trial("A", "a torn line in the order of the runs, or no order at all, loses no run")
def _(box):
    project(box)
    failed(box, "--who", "old", at=2, out="runs/a")
    order = os.path.join(box.state, "runs.order")
    with open(order, "a") as f:
        f.write("2026")
    os.remove(box.path("work/stopped"))
    failed(box, at=3)
    resumes(box, "0003.pt")
    os.remove(order)
    need(len(json.loads(box.launch("runs", "--json").out)) == 2, "a run is not listed")
    need(box.launch("show", "last").code == 0, "there is no last run")
