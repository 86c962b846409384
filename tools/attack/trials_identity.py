"""Points A and B: two experiments that would be mixed, and called one."""
import json, os, re, shutil

from box import PYTHON, need, trial

# It saves at every step what made each step so far, and fails once at the step that it is told.
TRAINER = """import argparse, json, os, sys, time
p = argparse.ArgumentParser()
for name in ("lr", "out", "resume", "cfg", "list", "mark"):
    p.add_argument("--" + name, default="")
p.add_argument("--batch", type=int, default=32)
p.add_argument("--accum", type=int, default=1)
p.add_argument("--fits", type=int, default=1000)
p.add_argument("--stop", type=int, default=3)
a, rest = p.parse_known_args()
from lib import parts
out = a.out or "runs/a"
trail = json.load(open(a.resume)) if a.resume else []
os.makedirs(out, exist_ok=True)
made = [parts.V, a.lr, os.environ.get("FOLD", ""), open(a.cfg).read() if a.cfg else "", open(a.list).read() if a.list else "",
        sys.prefix, rest]
for step in range(len(trail) + 1, 7):
    if a.batch > a.fits and step == 3:
        os.system(os.environ.get("MEANWHILE", "true"))
        sys.exit("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    if step == a.stop and not os.path.exists(out + "/once"):
        open(out + "/once", "w").close()
        sys.exit("ValueError: once")
    trail.append(made)
    print(f"step {step}/6 loss {1 / step:.3f}", flush=True)
    with open(f"{out}/{step:04d}.json", "w") as f:
        json.dump(trail, f)
    print(f"saved {out}/{step:04d}.json", flush=True)
json.dump(trail, open(out + "/result", "w"))
print("training is over", flush=True)
"""
DECLARED = r"""script: train.py
micro-batch: --batch
accumulation: --accum
batch-norm: false
progress: 'step (?P<iteration>\d+)/(?P<total>\d+)'
saved: 'saved (?P<path>\S+)'
resume: {--resume: '{--out}/*.json'}
succeeded: 'training is over'
"""


def project(box, more=""):
    box.mkdir("work/lib")
    box.write("work/train.py", TRAINER)
    box.write("work/lib/parts.py", "V = 1\n")
    box.write("work/.launch-job.yaml", DECLARED + more)


def train(*args, out="runs/a", python=PYTHON):
    return [python, "train.py", "--out", out, *args]


def mixture(box, path="work/runs/a/result"):
    """How many different trainings made a result; 0 without one."""
    if not os.path.exists(box.path(path)):
        return 0
    return len({json.dumps(made) for made in json.loads(box.read(path))})


def stopped(box, done, says):
    need(done.code == 125 and re.search(says, done.err), f"it is not stopped with 125 and {says!r}: {done}")
    need(mixture(box) < 2, f"two trainings in one result: {done}")


def marked(box, done, says):
    need(done.code == 0 and re.search(r"mixed from .*" + says, done.err), f"it is not marked: {done}")
    shown = box.launch("show", "last")
    need(re.search(r"mixed from .*" + says, shown.out), f"launch show does not mark it: {shown.out}")


@trial("A", "a resume after a module deep below the script has changed")
def _(box):
    project(box)
    box.launch("--", *train())
    box.write("work/lib/parts.py", "V = 2\n")
    stopped(box, box.launch("resume", "last"), r"lib/parts\.py has changed")
    marked(box, box.launch("resume", "last", "--accept"), r"lib/parts\.py")


@trial("A", "a module that was added since is imported first")
def _(box):
    project(box)
    box.launch("--", *train())
    box.write("work/lib/__init__.py", "from . import parts\nparts.V = 3\n")
    stopped(box, box.launch("resume", "last"), r"lib/__init__\.py is new")


@trial("A", "a module that only a computed name imports has changed")
def _(box):
    project(box)
    box.write("work/lib/parts.py", "import importlib\nV = importlib.import_module('lib.' + 'secondary').V\n")
    box.write("work/lib/secondary.py", "V = 1\n")
    box.launch("--", *train())
    box.write("work/lib/secondary.py", "V = 2\n")
    stopped(box, box.launch("resume", "last"), r"lib/secondary\.py has changed")


@trial("A", "--continue with another value of a variable that a module reads begins a run of its own")
def _(box):
    project(box)
    box.launch("--continue", "--", *train(), env={"FOLD": "1"})
    done = box.launch("--continue", "--", *train(), env={"FOLD": "2"})
    need(done.code == 0 and "another run starts" in done.err and "FOLD was 1 and is now 2" in done.err, repr(done))
    need(mixture(box) == 1 and json.loads(box.read("work/runs/a/result"))[0][2] == "2", repr(done))


@trial("A", "the same where the variable is not set any more, and where it came new")
def _(box):
    project(box)
    box.launch("--", *train(), env={"FOLD": "1"})
    stopped(box, box.launch("resume", "last"), "FOLD was 1 and is not set now")
    box.launch("--", *train(out="runs/b"))
    stopped(box, box.launch("resume", "last", env={"FOLD": "1"}), "FOLD is now 1 and was not set")


@trial("A", "rows that differ by a variable alone, one after the other: each goes on with its own run")
def _(box):
    project(box)
    for fold in "12":
        box.launch("--continue", "--", *train(out="runs/" + fold), env={"FOLD": fold})
    shutil.rmtree(box.path("work/runs/2"))
    done = box.launch("--continue", "--", *train(out="runs/1"), env={"FOLD": "1"})
    need(done.code == 0 and "resumes from" in done.err and mixture(box, "work/runs/1/result") == 1, repr(done))


@trial("A", "another value of an option whose name looks like a secret")
def _(box):
    project(box)
    for value, option in (("4", "--memory-token"), ("wide", "--api-key"), ("a b", "--password")):
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        box.launch("--continue", "--", *train(option, value))
        done = box.launch("--continue", "--", *train(option, value + "2"))
        need(done.code == 0 and mixture(box) == 1 and "resumes from" not in done.err, f"{option}: {done}")
        need(value + "2" not in json.dumps(box.runs()) or value == "4", f"{option}: the secret is recorded")


@trial("A", "another virtual environment, and another version of a package in the same one")
def _(box):
    project(box)
    for name in ("one", "two"):
        done = box.run([PYTHON, "-m", "venv", "--without-pip", box.path("work", name)])
        need(done.code == 0, repr(done))
    sites = [os.path.join(folder, "site-packages") for folder, dirs, _ in os.walk(box.path("work/one/lib")) if "site-packages" in dirs]
    box.mkdir(os.path.join(sites[0], "thing-1.0.dist-info"))
    path = {"PATH": box.path("work/one/bin") + ":/usr/bin:/bin"}
    box.launch("--", *train(python="python"), env=path)
    done = box.launch("resume", "last", env={"PATH": box.path("work/two/bin") + ":/usr/bin:/bin"})
    stopped(box, done, "interpreter was .*one/bin/python and is now .*two/bin/python")
    os.rename(os.path.join(sites[0], "thing-1.0.dist-info"), os.path.join(sites[0], "thing-2.0.dist-info"))
    stopped(box, box.launch("resume", "last", env=path), "thing was 1.0 and is now 2.0")


@trial("A", "data that a recipe names: another file, one more, one less, and the same content written again")
def _(box):
    project(box)
    box.write("work/c.yaml", "train:\n  root: sets/one\n  list: 'sets/names.txt'\n")
    for name in ("one/a", "one/b"):
        box.write("work/sets/" + name, name)
    box.write("work/sets/names.txt", "a\nb\n")
    box.launch("--", *train("--cfg", "c.yaml"))
    box.write("work/sets/one/c", "c")
    stopped(box, box.launch("resume", "last"), "sets/one/c is new")
    os.unlink(box.path("work/sets/one/c"))
    box.write("work/sets/names.txt", "a\nc\n")
    stopped(box, box.launch("resume", "last"), r"sets/names\.txt has changed")
    box.write("work/sets/names.txt", "a\nb\n")
    done = box.launch("resume", "last")
    need(done.code == 0 and "mixed" not in done.err and mixture(box) == 1, repr(done))


@trial("A", "data that a pattern, a range, a prefix, a keyword or a name for the project's folder stands for")
def _(box):
    for folder, args, code in (
            ("shards", ("--train", "shards/{0..1}.tar"), ""), ("globbed", ("--train", "globbed/*.tar"), ""),
            ("told", ("--train", "tar:told/1.tar"), ""), ("named", (), "def load(root): return 1\nload(root='named')\n"),
            ("split", (), "def load_dataset(kind, data_files): return 1\nload_dataset('tar', data_files={'train': 'split/1.tar'})\n"),
            ("beside", (), "import os\nROOT = os.path.dirname(os.path.dirname(__file__))\nX = os.path.join(ROOT, 'beside/1.tar')\n")):
        project(box)
        box.mkdir("work/" + folder)
        box.write(f"work/{folder}/1.tar", "1")
        box.write("work/lib/parts.py", f"V = open('{folder}' + '/1.tar').read()\n" + code)
        box.launch("--", *train(*args, out="runs/" + folder))
        box.write(f"work/{folder}/1.tar", "2")
        done = box.launch("resume", "last")
        need(done.code == 125 and f"{folder} has changed" in done.err or f"{folder}/1.tar has changed" in done.err, f"{folder}: {done}")


@trial("A", "variables of one stem, of a parser's prefix and of an option count; those of a cluster do not")
def _(box):
    project(box)
    box.write("work/lib/parts.py", "import os\nV = sorted(v for k, v in os.environ.items() if k.startswith('APP_') or k.startswith('SLURM_X'))\n"
              "def option(name, envvar): return os.environ.get(envvar)\noption('--lr', envvar='LR_OF_APP')\n")
    first = {"APP_LR": "1", "LR_OF_APP": "1", "SLURM_JOB_ID": "1"}
    for other, says in (({"APP_LR": "2"}, "APP_LR was 1 and is now 2"), ({"LR_OF_APP": "2"}, "LR_OF_APP was 1 and is now 2"),
                        ({"APP_NEW": "1"}, "APP_NEW is now 1 and was not set")):
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        box.launch("--", *train(), env=first)
        stopped(box, box.launch("resume", "last", env=first | other), says)
    done = box.launch("resume", "last", env=first | {"SLURM_JOB_ID": "2"})
    need(done.code == 0 and mixture(box) == 1, repr(done))


@trial("A", "code that changes between an out-of-memory and the retry")
def _(box):
    project(box)
    for what, says in (("lib/parts.py", r"lib/parts\.py"), ("train.py", r"train\.py")):
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        done = box.launch("--", *train("--fits", "16", "--stop", "0"), env={"MEANWHILE": f"echo '# more' >> {what}"})
        need(done.code == 125 and re.search(says + " has changed", done.err), f"{what}: {done}")
        need(not os.path.exists(box.path("work/runs/a/result")), f"{what}: {done}")
    shutil.rmtree(box.path("work/runs"))
    done = box.launch("--accept", "--", *train("--fits", "16", "--stop", "0"), env={"MEANWHILE": "echo 'V = 2' > lib/parts.py"})
    marked(box, done, r"lib/parts\.py")


@trial("A", "what nothing imports, the times of files and a run's own files are no change")
def _(box):
    project(box)
    box.write("work/list.txt", "x\n")
    box.launch("--", *train("--list", "list.txt", "--mark", "runs"))
    box.write("work/plot.py", "new\n")
    box.write("work/README.md", "new\n")
    for name in ("train.py", "lib/parts.py", "list.txt"):
        os.utime(box.path("work/" + name), (1e9, 1e9))
    done = box.launch("resume", "last", env={"TERM": "dumb", "SLURM_JOB_ID": "7", "SSH_TTY": "/dev/pts/9"})
    need(done.code == 0 and "mixed" not in done.err and mixture(box) == 1, repr(done))


@trial("A", "a lower --allow holds for a run that goes on")
def _(box):
    project(box)
    box.launch("--continue", "--allow", "speed", "--", *train("--fits", "16", "--stop", "4"))
    need(len(os.listdir(box.path("work/runs/a"))) > 0, "nothing was saved")
    for args in (["--continue", "--allow", "none", "--", *train("--fits", "16", "--stop", "4")], ["resume", "last", "--allow", "none"]):
        done = box.launch(*args)
        need(done.code != 0 and "accumulation 2, resumes" not in done.err, repr(done))


@trial("A", "a recipe that was edited since: the run keeps the one that it began with, and says so")
def _(box):
    project(box)
    box.write("work/train.py", TRAINER.replace("out = a.out", "a.batch = int(open(a.cfg).read().split()[1])\nout = a.out"))
    box.write("work/.launch-job.yaml", DECLARED.replace("micro-batch: --batch", "micro-batch: {--cfg: batch}"))
    box.write("work/c.yaml", "batch: 32\nlr: 1\n")
    box.launch("--", *train("--cfg", "c.yaml"))
    box.write("work/c.yaml", "batch: 64\nlr: 2\n")
    done = box.launch("resume", "last")
    need(done.code == 0 and "c.yaml has changed since the run began" in done.err and mixture(box) == 1, repr(done))


@trial("B", "a sweep whose code changes before it is resumed, and between two rows")
def _(box):
    project(box)
    sweep = ["sweep", "--name", "s", "--grid", "--lr=1,2", "--", *train(out="runs/{trial}")]
    box.launch(*sweep)
    box.write("work/lib/parts.py", "V = 2\n")
    stopped(box, box.launch("sweep", "resume", "s"), r"lib/parts\.py has changed")
    done = box.launch("sweep", "resume", "s", "--accept")
    table = box.launch("sweep", "status", "s").out
    need(done.code == 0 and table.count("mixed") >= 2, f"{done} {table}")
    sweep = ["sweep", "--name", "t", "--grid", "--lr=1,2", "--", *train("--stop", "0", out="runs/t{trial}")]
    box.write("work/train.py", TRAINER.replace('print("training is over"', 'open("lib/parts.py", "a").write("# more\\n")\nprint("training is over"'))
    done = box.launch(*sweep)
    need(done.code == 125 and "parts.py has changed" in done.err and not os.path.exists(box.path("work/runs/t2")), repr(done))


@trial("B", "a row that cannot go on as it began does not silently start over")
def _(box):
    project(box)
    box.write("work/list.txt", "x\n")
    box.launch("sweep", "--name", "s", "--grid", "--lr=1,2", "--", *train("--list", "list.txt", out="runs/{trial}"))
    box.write("work/list.txt", "y\n")
    done = box.launch("sweep", "resume", "s")
    need(done.code == 125 and "list.txt has changed" in done.err, repr(done))
    need(not os.path.exists(box.path("work/runs/1/result")), repr(done))
