"""Points A to E, 9 and 10: a wrong result that would be called a success."""
import json
import os
import time

from box import PYTHON, need, trial

TRAIN = [PYTHON, "train.py"]


def said(box, done, path="work/said.json"):
    """What the trainer's last attempt was told."""
    need(os.path.exists(box.path(path)), f"the trainer did not come to its end: {done}")
    return json.loads(box.read(path))


def run(box, *args, flags=(), **more):
    return box.launch(*flags, "--", *TRAIN, "--batch-size", "32", "--said", "said.json", *args, **more)


def another(box, *args):
    """Another run of the same project, which saves a state every 50 ms, until it has saved three."""
    p = box.start([*TRAIN, "--out", "runs/a", "--steps", "400", "--slow", "0.05", *args])
    box.wait(lambda: len(os.listdir(box.path("work/runs/a"))) >= 3 if os.path.isdir(box.path("work/runs/a")) else False)
    return p


def over(box, done):
    told = said(box, done)
    need(told["resume"] == "" and told["first"] == 0, f"it went on from {told['resume']}: {done}")
    return told


# A. Whose state it is.

@trial("A", "a run that saved nothing does not go on from another run's state")
def _(box):
    box.trainer()
    other = another(box)
    done = run(box, "--out", "runs/b", "--fits", "16")
    other.terminate()
    over(box, done)
    need(done.code == 0 and os.path.exists(box.path("work/runs/b/0004.pt")), repr(done))


@trial("A", "the same where no option names the run's folder: it starts over, and reports the state that it left alone")
def _(box):
    box.trainer()
    other = another(box)
    done = run(box, "--where", "runs/b", "--fits", "16")
    other.terminate()
    over(box, done)
    need("nothing shows that this run wrote it" in done.err and "runs/a/" in done.err, repr(done))


@trial("A", "the same of a run of another launch, which is at it")
def _(box):
    box.trainer()
    other = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--out", "runs/a", "--steps", "400", "--slow", "0.05"])
    box.wait(lambda: os.path.isdir(box.path("work/runs/a")) and len(os.listdir(box.path("work/runs/a"))) >= 3)
    done = run(box, "--where", "runs/b", "--fits", "16")
    other.terminate()
    over(box, done)


@trial("A", "two runs in one folder: neither is known by the folder alone")
def _(box):
    box.trainer(resume="{--resume: 'runs/*.pt'}")
    other = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--where", "runs", "--steps", "400", "--slow", "0.05", "--silent-save"])
    box.wait(lambda: os.path.isdir(box.path("work/runs")) and len(os.listdir(box.path("work/runs"))) >= 2)
    done = run(box, "--where", "runs", "--fits", "16", "--save-every", "0", "--oom-after", "1")
    other.terminate()
    over(box, done)


@trial("A", "a state of its own is gone on from: its folder is named by an option")
def _(box):
    box.trainer()
    other = another(box)
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--silent-save")
    other.terminate()
    need(said(box, done)["resume"].endswith("runs/b/0002.pt") and done.code == 0, repr(done))


@trial("A", "a state of its own is gone on from: the program printed its path")
def _(box):
    box.trainer()
    other = another(box)
    done = run(box, "--where", "runs/b", "--fits", "16", "--oom-after", "2")
    other.terminate()
    need(said(box, done)["resume"].endswith("runs/b/0002.pt") and done.code == 0, repr(done))


@trial("A", "a state of its own is gone on from: it was seen being written")
def _(box):
    box.trainer()
    other = another(box)
    done = run(box, "--where", "runs/b", "--fits", "16", "--oom-after", "2", "--silent-save", "--save-slowly", "0.2")
    other.terminate()
    need(said(box, done)["resume"].endswith("runs/b/0002.pt") and done.code == 0, repr(done))


@trial("A", "a state of its own is gone on from: nobody else writes into its folder")
def _(box):
    box.trainer(resume="{--resume: 'runs/*.pt'}")
    done = run(box, "--where", "runs", "--fits", "16", "--oom-after", "2", "--silent-save")
    need(said(box, done)["resume"].endswith("runs/0002.pt") and done.code == 0, repr(done))


@trial("A", "a path that was printed because it was loaded shows nothing")
def _(box):
    box.trainer()
    other = another(box)
    last = sorted(os.listdir(box.path("work/runs/a")))[-1]
    state = f"runs/a/{last}"
    done = run(box, "--where", "runs/b", "--fits", "16", "--prints", "loading the teacher from runs/a/0004.pt, then runs/a/0005.pt, " + state)
    other.terminate()
    over(box, done)


@trial("A", "a run that was killed is not resumed from another run's state")
def _(box):
    box.trainer()
    mine = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--where", "runs/b", "--wait-for", "never"])
    box.wait(lambda: any(e["event"] == "planned" for r in box.runs() for e in r))
    time.sleep(0.3)
    other = another(box)
    mine.kill()
    mine.wait()
    done = box.launch("resume", "last")
    other.terminate()
    need("runs/a" not in done.out and done.code == 125 and "--from-start" in done.err, repr(done))


@trial("A", "the same where the other run is no launch's, and began before")
def _(box):
    box.trainer(resume="{--resume: 'runs/*.pt'}")
    other = box.start([*TRAIN, "--where", "runs", "--steps", "400", "--silent-save", "--save-slowly", "0.1"])
    box.wait(lambda: os.path.isdir(box.path("work/runs")) and len(os.listdir(box.path("work/runs"))) >= 2)
    done = run(box, "--where", "runs", "--fits", "16", "--save-every", "0", "--oom-after", "2", "--slow", "0.3")
    other.terminate()
    over(box, done)


@trial("A", "the same where it began after")
def _(box):
    box.trainer(resume="{--resume: 'runs/*.pt'}")
    mine = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--said", "said.json", "--where", "runs", "--fits", "16", "--save-every", "0", "--oom-after", "3", "--slow", "0.6"])
    box.wait(lambda: any(e["event"] == "planned" for r in box.runs() for e in r))
    other = box.start([*TRAIN, "--where", "runs", "--steps", "400", "--silent-save", "--save-slowly", "0.1"])
    done = box.finish(mine)
    other.terminate()
    over(box, done)


@trial("A", "two runs of two projects whose folders are links to one")
def _(box):
    box.mkdir("big")
    for project in ("work", "second"):
        box.trainer(project, resume="{--resume: 'runs/*.pt'}")
        os.symlink(box.path("big"), box.path(project, "runs"))
        box.own(box.path(project, "runs"))
    other = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--where", "runs", "--steps", "400", "--slow", "0.05", "--silent-save"], cwd="second")
    box.wait(lambda: len(os.listdir(box.path("big"))) >= 2)
    done = run(box, "--where", "runs", "--fits", "16", "--save-every", "0", "--oom-after", "2", "--slow", "0.2")
    other.terminate()
    over(box, done)


@trial("A", "a run that was killed does not go on from what another has written into its folder since")
def _(box):
    box.trainer(resume="{--resume: 'runs/*.pt'}")
    mine = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--where", "runs", "--save-every", "0", "--slow", "0.1", "--steps", "400"])
    box.wait(lambda: any(e["event"] == "planned" for r in box.runs() for e in r))
    time.sleep(1)
    mine.kill()
    mine.wait()
    time.sleep(1)
    for top, _, files in os.walk(box.state):  # that was two minutes ago
        for f in files:
            os.utime(os.path.join(top, f), (time.time() - 120,) * 2)
    box.run([*TRAIN, "--where", "runs", "--silent-save"])
    for _ in range(2):  # asking changes nothing
        done = box.launch("resume", "last")
        need(done.code == 125 and "--from-start" in done.err and "resumed at" not in done.out, repr(done))


@trial("A", "a path that is printed because the command has it as an argument shows nothing")
def _(box):
    box.trainer(resume="{--resume: 'runs/*/latest.pt'}")
    box.write("work/train.py", box.read("work/train.py").replace("{step:04d}.pt", "latest.pt"))
    other = box.start([*TRAIN, "--out", "runs/a", "--steps", "400", "--save-slowly", "0.05", "--silent-save"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/latest.pt")))
    for words in ("Namespace(batch_size=32, ema='runs/a/latest.pt', where='runs/b')", "{'ema': 'runs/a/latest.pt', 'where': 'runs/b'}", "ema: runs/a/latest.pt"):
        done = run(box, "--where", "runs/b", "--fits", "16", "--save-every", "0", "--oom-after", "2", "--slow", "0.3", "--data", "runs/a/latest.pt",
                   "--prints", words.replace("{", "{{").replace("}", "}}"))
        over(box, done)
        os.remove(box.path("work/said.json"))
    other.terminate()


# B. Settings that never arrive.

@trial("B", "settings that do not arrive are known by the second out-of-memory, and the run stops")
def _(box):
    box.trainer()
    done = run(box, "--ignore", "32", "--fits", "16", "--save-every", "0")
    need(len(box.attempts()) == 2 and done.code == 125 and "the program does not use the settings" in done.err, f"{len(box.attempts())} attempts: {done}")


@trial("B", "Python settings that are read by exec are known not to arrive at the first out-of-memory")
def _(box):
    box.trainer(micro_batch="{config.py: batch_size}", accumulation="{config.py: accum}")
    box.write("work/config.py", "batch_size = 32\naccum = 1\n")
    box.write("work/train.py", "import sys\nexec(open('config.py').read())\nsys.argv[1:] = ['--batch-size', str(batch_size), '--accum', str(accum), *sys.argv[1:]]\n" +
              box.read("work/train.py"))
    done = box.launch("--", *TRAIN, "--fits", "16", "--save-every", "0")
    need(len(box.attempts()) == 2 and done.code == 125 and "reads it in a way of its own" in done.err, f"{len(box.attempts())} attempts: {done}")


@trial("B", "Python settings that are imported arrive, and the run goes on")
def _(box):
    box.trainer(micro_batch="{config.py: batch_size}", accumulation="{config.py: accum}")
    box.write("work/config.py", "batch_size = 32\naccum = 1\n")
    box.write("work/train.py", "import sys\nfrom config import batch_size, accum\nsys.argv[1:] = ['--batch-size', str(batch_size), '--accum', str(accum), *sys.argv[1:]]\n" +
              box.read("work/train.py"))
    done = box.launch("--", *TRAIN, "--fits", "16", "--save-every", "0", "--said", "said.json")
    need(done.code == 0 and said(box, done)["batch_size"] == 16, repr(done))


@trial("B", "settings that did not arrive leave no receipt")
def _(box):
    box.trainer()
    run(box, "--ignore", "32", "--fits", "16", "--save-every", "0", flags=["--vram", "12GiB"])
    done = box.launch("receipts", "--json")
    for r in json.loads(done.out):
        need(r["job"]["settings"].get("micro-batch") == "32", f"a receipt at {r['job']['settings']}")


@trial("B", "a size leaves no receipt where the program reports another one, and does where it reports it")
def _(box):
    box.trainer(confirm="{micro-batch: 'runs with batch (?P<value>[0-9]+)', accumulation: 'accumulates (?P<value>[0-9]+)'}")
    run(box, "--fits", "8", "--prints", "runs with batch 32 accumulates 1", flags=["--vram", "12GiB"])
    first = json.loads(box.launch("receipts", "--json").out)
    need(not any(r["job"]["settings"]["micro-batch"] == "16" for r in first), f"reported otherwise, and a receipt: {first}")
    run(box, "--fits", "8", "--prints", "runs with batch {batch} accumulates {accum}", flags=["--vram", "12GiB"])
    second = json.loads(box.launch("receipts", "--json").out)
    need(any(r["job"]["settings"]["micro-batch"] == "16" for r in second), f"confirmed, and no receipt: {second}")


@trial("B", "a program that prints that it runs with the old batch is stopped")
def _(box):
    box.trainer(confirm="{micro-batch: 'runs with batch (?P<value>[0-9]+)'}")
    began = time.time()
    done = run(box, "--fits", "16", "--prints", "runs with batch 32", "--slow-after-oom", "30")
    need(done.code == 125 and "the program reports micro-batch 32" in done.err and time.time() - began < 20, repr(done))


@trial("B", "a program that prints its defaults before what it runs with is not stopped")
def _(box):
    box.trainer(confirm="{micro-batch: 'batch (?P<value>[0-9]+)'}")
    box.write("work/train.py", box.read("work/train.py").replace("if a.prints:", "print('the default: batch 32', flush=True)\ntime.sleep(1.5)\nif a.prints:"))
    done = run(box, "--fits", "16", "--prints", "runs with batch {batch}")
    need(done.code == 0 and said(box, done)["batch_size"] == 16, repr(done))


@trial("B", "receipts drop takes one run's receipts out, and no other's")
def _(box):
    box.trainer()
    for fits in "16", "8":  # the second fails at the size that the first ended with
        run(box, "--fits", fits, flags=["--vram", "12GiB"])
    before = json.loads(box.launch("receipts", "--json").out)
    done = box.launch("receipts", "drop", before[0]["run"])
    after = json.loads(box.launch("receipts", "--json").out)
    need(done.code == 0 and after == [r for r in before if r["run"] != before[0]["run"]] and 0 < len(after) < len(before), f"{done}: {len(before)}, {len(after)}")


# C. Folders, and what resume does without a state.

FOLDERS = {"resume": "{--resume: 'runs/*/checkpoint-*'}"}


@trial("C", "a saved state may be a folder")
def _(box):
    box.trainer(**FOLDERS)
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--folders")
    need(said(box, done)["resume"].endswith("runs/b/checkpoint-2") and done.code == 0, repr(done))


@trial("C", "of folders the newest complete one counts")
def _(box):
    box.trainer(**FOLDERS)
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "3", "--folders", "--torn", "3")
    need(said(box, done)["resume"].endswith("runs/b/checkpoint-2") and "it is incomplete" in done.err, repr(done))


@trial("C", "a folder of which nothing shows that it is complete is not gone on from")
def _(box):
    box.trainer(**FOLDERS)
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "1", "--folders", "--torn", "1")
    over(box, done)


@trial("C", "checkpoint-10 is newer than checkpoint-9")
def _(box):
    box.trainer(**FOLDERS)
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "10", "--steps", "12", "--folders")
    need(said(box, done)["resume"].endswith("runs/b/checkpoint-10"), repr(done))


@trial("C", "resume that finds nothing refuses to start over")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--wait-for", "go", "--said", "said.json"])
    box.wait(lambda: any(e["event"] == "planned" for r in box.runs() for e in r))
    p.kill()
    p.wait()
    time.sleep(0.3)
    box.write("work/go", "")
    done = box.launch("resume", "last")
    need(done.code == 125 and " cannot resume: " in done.err and "--from-start" in done.err and not os.path.exists(box.path("work/said.json")), repr(done))
    done = box.launch("resume", "last", "--from-start")
    need(done.code == 0, repr(done))
    over(box, done)


@trial("C", "resume goes on from a folder that an attempt left whose end was not seen")
def _(box):
    box.trainer(**FOLDERS)
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--out", "runs/b", "--folders", "--slow", "0.1", "--steps", "40", "--said", "said.json"])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/checkpoint-4/trainer_state.json")))
    p.kill()
    p.wait()
    time.sleep(0.5)
    done = box.launch("resume", "last")
    told = said(box, done)
    need(done.code == 0 and told["first"] >= 3, f"{told}: {done}")


# D. After a resume a step has to happen, and the training is the recipe's.

@trial("D", "a run that goes on and makes no step is no success")
def _(box):
    box.trainer()
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--no-step")
    need(done.code == 1 and "ended without a step" in done.err, repr(done))
    need(box.attempts()[-1]["outcome"]["ending"] == "failed", repr(box.attempts()[-1]["outcome"]["ending"]))


@trial("D", "the same after launch resume")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--out", "runs/b", "--slow", "0.1", "--steps", "400", "--no-step"])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0004.pt")))
    p.kill()
    p.wait()
    time.sleep(0.5)
    done = box.launch("resume", "last")
    need(done.code == 1 and "ended without a step" in done.err, repr(done))


@trial("D", "one step that bears the number of the state, as where steps count from 0, is a step")
def _(box):
    box.trainer()
    box.write("work/train.py", box.read("work/train.py").replace('f"step {step} loss', 'f"step {step - 1} loss'))
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "3")
    need(said(box, done)["first"] == 3 and done.code == 0, repr(done))


@trial("D", "an out-of-memory that the program swallows before its first step is no success")
def _(box):
    box.trainer()
    done = run(box, "--fits", "16", "--swallow")
    need(said(box, done)["batch_size"] == 16 and done.code == 0 and len(box.attempts()) == 2, repr(done))


@trial("D", "the same after some of its steps: the success line is not believed, and the next attempt goes on")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--steps", "8", "--total", "--swallow")
    told = said(box, done)
    need(done.code == 0 and told["batch_size"] == 16 and told["first"] == 2, f"{told}: {done}")


@trial("D", "a training that becomes four times as long at another micro-batch is stopped")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    done = run(box, "--out", "runs/b", "--fits", "8", "--oom-after", "2", "--total", "--longer", "--slow-after-oom", "1")
    need(done.code == 125 and "trains for" in done.err and not os.path.exists(box.path("work/said.json")), repr(done))


@trial("D", "a training that stays as long is not")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    done = run(box, "--out", "runs/b", "--fits", "8", "--oom-after", "2", "--total")
    need(done.code == 0 and said(box, done)["batch_size"] == 8, repr(done))


@trial("D", "where nothing was left to train, going on without a step is a success")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    done = run(box, "--out", "runs/b", "--fits", "16", "--total", "--oom-at-end")
    told = said(box, done)
    need(done.code == 0 and told["first"] == 4, f"{told}: {done}")


@trial("D", "a success that comes after 3 of 100 steps is reported as such")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)/(?P<total>\d+)'")
    done = run(box, "--total", "--steps", "100", "--ends-at", "3")
    need("the last step that it reported was 3 of 100" in done.err, repr(done))


@trial("D", "the global batch stays the recipe's over three attempts")
def _(box):
    box.trainer()
    done = run(box, "--fits", "8")
    told = said(box, done)
    need(done.code == 0 and told["batch_size"] * told["accum"] == 32 and told["batch_size"] == 8, repr(told))


# E. What a failed attempt leaves in the way.

@trial("E", "a file that a failed attempt made, and at which the next stops, is put aside")
def _(box):
    box.trainer(in_the_way="logs/config.yaml")
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--once", "logs/config.yaml")
    need(done.code == 0 and said(box, done)["batch_size"] == 16, repr(done))
    kept = [d for d in os.listdir(box.path("work/logs")) if d.startswith("before-attempt-2")]
    need(len(kept) == 1 and os.path.exists(box.path("work/logs", kept[0], "config.yaml")), "it was not kept")


@trial("E", "the same for an attempt that starts over")
def _(box):
    box.trainer(in_the_way="['logs/*.yaml', 'logs/config.yaml']")
    done = run(box, "--fits", "16", "--save-every", "0", "--once", "logs/config.yaml")
    need(done.code == 0, repr(done))


@trial("E", "the same where nobody has declared it: by the program's own message, once")
def _(box):
    box.trainer()
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--once", "logs/config.yaml")
    need(done.code == 0 and said(box, done)["resume"].endswith("0002.pt"), repr(done))
    need(len(box.attempts()) == 3 and any(d.startswith("before-attempt-3") for d in os.listdir(box.path("work/logs"))), repr(done))


@trial("E", "a file that was there before is not put aside by the program's message")
def _(box):
    box.trainer()
    box.write("work/logs/config.yaml", "mine\n")
    before = box.tree("work/logs")
    done = run(box, "--fits", "16", "--once", "logs/config.yaml", "--once-after-oom")
    need(done.code == 1 and box.tree("work/logs") == before, repr(done))


@trial("E", "a message cannot have a file moved that lies elsewhere")
def _(box):
    box.trainer()
    done = run(box, "--fits", "16", "--once", box.path("home/logs/config.yaml"))
    need(done.code == 1 and os.listdir(box.path("home/logs")) == ["config.yaml"], repr(done))


@trial("E", "a file of that name that was there before is not touched")
def _(box):
    box.trainer(in_the_way="logs/config.yaml")
    mine = box.write("work/logs/config.yaml", "mine\n")
    before = box.tree("work/logs")
    done = run(box, "--fits", "16")
    need(done.code == 0 and box.tree("work/logs") == before and box.read(mine) == "mine\n", repr(done))


# D. What a program does without an option is no secret of its own: its global batch stays.

ACCUM = '"--accum", type=int, default=1'


@trial("D", "a program that accumulates 8 unless it is told keeps its global batch")
def _(box):
    box.trainer()
    box.write("work/train.py", box.read("work/train.py").replace(ACCUM, ACCUM.replace("=1", "=8")))
    told = said(box, run(box, "--fits", "16"))
    need(told["batch_size"] * told["accum"] == 256 and told["batch_size"] == 16, f"{told}")


@trial("D", "where its default is not known, a smaller micro-batch is another experiment")
def _(box):
    box.trainer()
    box.write("work/train.py", box.read("work/train.py").replace(ACCUM, ACCUM.replace("=1", "=int(os.environ.get('ACC', '8'))")))
    done = run(box, "--fits", "16")
    need(done.code == 1 and "--allow recipe" in done.err and not os.path.exists(box.path("work/said.json")), repr(done))


@trial("D", "a program that reports another global batch than before is stopped")
def _(box):
    box.trainer(confirm="{global-batch: 'tokens a step: (?P<value>[0-9,]+)'}")
    box.write("work/train.py", box.read("work/train.py") .replace("first = 0\n", "first = 0\nprint(f'tokens a step: {batch * a.accum * 1000:,}', flush=True)\n", 1)
              .replace("data, a.batch_size =", "a.accum = 1\ndata, a.batch_size =", 1))
    done = run(box, "--fits", "16", "--slow-after-oom", "5")
    need(done.code == 125 and "a global batch of 16,000 now, but reported 32,000 in attempt 1" in done.err, repr(done))


@trial("C", "an option that takes a word, and no path, goes on from the one file that is named")
def _(box):
    box.trainer(resume="{--resume: 'runs/a/last.pt'}", resume_value="latest")
    box.write("work/train.py", box.read("work/train.py").replace("{step:04d}.pt", "last.pt").replace("first = 0\n", "first = 0\nif a.resume == 'latest': a.resume = a.out + '/last.pt'\n", 1))
    done = run(box, "--fits", "16", "--oom-after", "2")
    need(said(box, done)["first"] == 2 and done.code == 0, repr(done))


@trial("C", "a program that takes --name=value alone, as nanoGPT does, is told so")
def _(box):
    box.trainer()
    box.write("work/train.py", "import sys\nassert all('=' in a for a in sys.argv[1:]), sys.argv\n" + box.read("work/train.py"))
    done = box.launch("--", *TRAIN, "--batch-size=32", "--said=said.json", "--fits=16", "--oom-after=2", "--out=runs/b")
    need(said(box, done)["first"] == 2 and done.code == 0, repr(done))


# 9. Two recipes of one base name.

TWO = """script: train.py
micro-batch: {--data: batch_size}
accumulation: {--optim: accum}
progress: 'step (?P<iteration>\\d+)'
succeeded: 'training is over'
"""


def two(box, first, second):
    box.trainer()
    box.write("work/.launch-job.yaml", TWO)
    box.write(f"work/{first}", "batch_size: 32\ndata: yes\n")
    box.write(f"work/{second}", "accum: 1\noptim: yes\n")
    before = box.tree("work")
    done = box.launch("--", *TRAIN, "--data", first, "--optim", second, "--fits", "16", "--save-every", "0", "--said", "said.json")
    now = box.tree("work")
    need(all(now.get(k) == v for k, v in before.items()), "a file of the user's changed")
    told = said(box, done)
    need(told["batch_size"] == 16 and told["accum"] == 2 and told["data"].endswith("data: yes\n") and told["optim"].endswith("optim: yes\n"), f"{told}: {done}")
    need(done.code == 0, repr(done))


@trial("9", "two recipes of one base name stay two")
def _(box):
    two(box, "a/c.yml", "b/c.yml")


@trial("9", "the same where a folder is called as launch would call its own")
def _(box):
    two(box, "2/c.yml", "c.yml")


@trial("9", "the same for absolute paths")
def _(box):
    two(box, box.path("work/a/c.yml")[len(box.path("work")) + 1:], "./b/c.yml")


@trial("9", "plan shows two copies")
def _(box):
    box.trainer()
    box.write("work/.launch-job.yaml", TWO)
    box.write("work/a/c.yml", "batch_size: 32\n")
    box.write("work/b/c.yml", "accum: 1\n")
    done = box.launch("--", *TRAIN, "--data", "a/c.yml", "--optim", "b/c.yml", "--fits", "16", "--save-every", "0", "--said", "said.json")
    names = [e["plan"].get("edits") for e in box.runs()[-1] if e["event"] == "planned"][-1]
    need(all(f'"{doc}' in json.dumps(names) for doc in ("a/c.yml", "b/c.yml")) and said(box, done)["data"] != said(box, done)["optim"], repr(names))


# 10. Clocks.

@trial("10", "a state whose time is behind this machine's clock is found")
def _(box):
    box.trainer()
    done = run(box, "--out", "runs/b", "--fits", "16", "--oom-after", "2", "--clock", "-86400")
    need(said(box, done)["resume"].endswith("runs/b/0002.pt") and done.code == 0, repr(done))


@trial("10", "the same after launch was killed")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", *TRAIN, "--batch-size", "32", "--out", "runs/b", "--slow", "0.1", "--steps", "40", "--clock", "-86400", "--said", "said.json"])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0004.pt")))
    p.kill()
    p.wait()
    time.sleep(0.5)
    done = box.launch("resume", "last")
    need(done.code == 0 and said(box, done)["first"] >= 3, repr(done))


@trial("10", "a state of last week with a time to come is not this run's")
def _(box):
    box.trainer()
    old = box.write("work/runs/b/0003.pt", "3 runs/b")
    ahead = time.time() + 3600
    os.utime(old, (ahead, ahead))
    over(box, run(box, "--out", "runs/b", "--fits", "16"))
