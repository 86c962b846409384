"""Points A and B: what happens to a run every day is no other experiment, and what the code itself names is one."""
import os, shutil

from box import PYTHON, need, trial
from trials_identity import TRAINER, mixture, project, stopped, train

DYNAMIC = TRAINER.replace("from lib import parts", "import importlib, shutil\nparts = importlib.import_module('lib.parts')")
WRITES = "    trail.append(made)\n    open(a.mark, 'w').write(str(step))\n"
READS = "made = [open('config.yaml').read(), "


def fine(box, done):
    need(done.code == 0 and "mixed" not in done.err and mixture(box) == 1, repr(done))


@trial("A", "what a run makes beside its code does not stop the next attempt: copies, extensions, files that options name")
def _(box):
    for change in (
            lambda: box.write("work/train.py", DYNAMIC.replace("trail = json", "os.makedirs(out + '/code', exist_ok=True)\nshutil.copy(__file__, out + f'/code/train_{time.time_ns()}.py')\ntrail = json")),
            lambda: box.write("work/lib/__init__.py", "import os\nif not os.path.exists('lib/ops.so'): open('lib/ops.so', 'w').write('x')\n") and box.write("work/lib/ops.cpp", ""),
            lambda: box.write("work/train.py", TRAINER.replace("    trail.append(made)\n", WRITES))):
        shutil.rmtree(box.path("work"))
        project(box)
        change()
        box.own(box.work)
        fine(box, box.launch("--", *train("--fits", "16", "--stop", "0", "--mark", "made.json")))


@trial("A", "data that are laid there again are the same, in their folder and in another job's")
def _(box):
    project(box)

    def lay(job):
        for name in [f"{n % 7}/{n}" for n in range(450)] + ["large"]:
            box.write(f"{job}/set/{name}", name * (1 if "/" not in name else 1000) if name != "large" else b"x" * 3000000)

    lay("one")
    box.launch("--", *train("--data", box.path("one/set")))
    shutil.rmtree(box.path("one"))
    lay("one")
    fine(box, box.launch("resume", "last"))
    shutil.rmtree(box.path("work/runs"))
    box.write("work/lib/parts.py", "import os\nV = 'SET' in os.environ\n")
    box.launch("--", *train(), env={"SET": box.path("one/set")})
    shutil.rmtree(box.path("one"))
    lay("two")
    fine(box, box.launch("resume", "last", env={"SET": box.path("two/set")}))


@trial("A", "data that are laid there again with another content are others")
def _(box):
    project(box)
    for text in b"x", b"y":
        shutil.rmtree(box.path("set"), ignore_errors=True)
        box.write("set/large", text * 3000000)
        done = box.launch(*(["--", *train("--data", box.path("set"))] if text == b"x" else ["resume", "last"]))
    stopped(box, done, "set/large has changed")


@trial("A", "another run's logs, what browsers leave beside data, and another terminal are no change")
def _(box):
    project(box)
    for name in "tb/old", "wandb/old", "baseline/old", "set/a", "train.log":
        box.write("work/" + name, "x")
    box.write("work/lib/parts.py", "import os\nos.environ.setdefault('MPLBACKEND', 'Agg')\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\nV = 'TMUX' in os.environ and 0\n")
    box.launch("--", *train("--summary_dir", "tb", "--dir", "wandb", "--name", "baseline", "--log-file", "train.log", "--data", "set"))
    for name in "tb/new", "wandb/new", "baseline/new", "set/.DS_Store", "set/labels.cache", "set/.ipynb_checkpoints/a", "train.log":
        box.write("work/" + name, "more")
    done = box.launch("resume", "last", env={"MPLBACKEND": "module://inline", "TF_CPP_MIN_LOG_LEVEL": "2", "SLURM_JOB_ID": "8"})
    need(done.code == 0 and "mixed" not in done.err, repr(done))


@trial("A", "a settings file that the code opens, that is an option's default, or that Hydra composes counts")
def _(box):
    for name, code in (("config.yaml", ""), (".env", "load_dotenv = open\nload_dotenv('.env')\n"),
                       ("conf/net/small.yaml", "def f():\n    import hydra\n    hydra.main(version_base=None, config_path='conf', config_name='main')\n")):
        shutil.rmtree(box.path("work"))
        project(box)
        for other in "config.yaml", ".env":
            box.write("work/" + other, "lr: 1\n")
        box.write("work/conf/main.yaml", "defaults:\n  - net: small\n")
        box.write("work/conf/net/small.yaml", "a: 1\n")
        box.write("work/train.py", TRAINER.replace("from lib", code + "from lib", 1).replace("made = [", READS))
        box.own(box.work)
        box.launch("--", *train())
        box.write("work/conf/net/large.yaml", "no part of it")
        box.write("work/" + name, "lr: 2\n")
        stopped(box, box.launch("resume", "last"), name.replace(".", r"\.") + " has changed")


@trial("A", "a variable that is read by another name of the environment counts")
def _(box):
    for code in ("from os import environ as E\nV = E.get('LR')\n", "import os\nenv = os.environ\nV = env.get('LR')\n",
                 "import os\nNAME = 'LR'\nV = os.getenv(NAME)\n"):
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        project(box)
        box.write("work/lib/parts.py", code)
        box.launch("--", *train(), env={"LR": "1"})
        stopped(box, box.launch("resume", "last", env={"LR": "2"}), "LR was 1 and is now 2")


@trial("A", "a script that the script starts counts")
def _(box):
    project(box)
    box.write("work/inner.py", TRAINER)
    box.write("work/train.py", "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'inner.py', *sys.argv[1:]]))\n")
    box.launch("--", *train())
    box.write("work/inner.py", TRAINER + "# more\n")
    stopped(box, box.launch("resume", "last"), r"inner\.py has changed")


@trial("B", "the second attempt reads the standard input that the first did, or does not start")
def _(box):
    for given in "file", "pipe":
        shutil.rmtree(box.path("work/runs"), ignore_errors=True)
        project(box)
        box.write("work/train.py", TRAINER.replace("made = [", "made = [sys.stdin.read(), "))
        command = ["--", *train("--fits", "16", "--stop", "0")]
        if given == "file":
            with open(box.write("work/in", "lr 1")) as f:
                fine(box, box.launch(*command, stdin=f))
        else:
            stopped(box, box.launch(*command, text=b"lr 1"), "what stood in standard input is no longer there")


@trial("A", "a tool that is installed beside is no change; what the code can import is")
def _(box):
    project(box)
    box.run([PYTHON, "-m", "venv", "--without-pip", box.path("work/env")])
    lib = box.path("work/env/lib")
    site = f"work/env/lib/{os.listdir(lib)[0]}/site-packages"
    box.write("work/lib/parts.py", "try:\n    import fast\nexcept ImportError:\n    V = 1\n")
    box.launch("--", *train(python=box.path("work/env/bin/python")))
    box.write(site + "/fast-1.0.dist-info/METADATA", "Name: fast\n")
    stopped(box, box.launch("resume", "last"), "fast is now 1.0")
    shutil.rmtree(box.path(site, "fast-1.0.dist-info"))
    box.write(site + "/black-1.0.dist-info/METADATA", "Name: black\nRequires-Dist: click\n")
    box.write(site + "/cowsay-1.0.dist-info/METADATA", "Name: cowsay\n")
    fine(box, box.launch("resume", "last"))


@trial("A", "another build of the same version, a file of arguments and a folder called env count")
def _(box):
    project(box)
    box.run([PYTHON, "-m", "venv", "--without-pip", box.path("work/venv")])
    site = f"work/venv/lib/{os.listdir(box.path('work/venv/lib'))[0]}/site-packages"
    box.write(site + "/mine-1.0.dist-info/direct_url.json", "{}")
    box.write(site + "/mine-1.0.dist-info/RECORD", "mine.py,sha256=a,1\n")
    box.write("work/args.txt", "--lr=1\n")
    box.write("work/env/cart.py", "V = 1\n")
    box.write("work/train.py", DYNAMIC.replace("ArgumentParser()", "ArgumentParser(fromfile_prefix_chars='@')").replace("'lib.parts'", "'env.' + 'cart'"))
    box.launch("--", *train("@args.txt", python=box.path("work/venv/bin/python")))
    for name, text, says in ((site + "/mine-1.0.dist-info/RECORD", "mine.py,sha256=b,1\n", "mine was 1.0"),
                             ("work/args.txt", "--lr=2\n", r"args\.txt has changed"), ("work/env/cart.py", "V = 20\n", r"env/cart\.py has changed")):
        before = box.read(name)
        box.write(name, text)
        stopped(box, box.launch("resume", "last"), says)
        box.write(name, before)
    fine(box, box.launch("resume", "last"))


@trial("D", "a training that converged, or reached a limit, is a success; one whose loss is no number is not")
def _(box):
    for says, doubtful in (("Converged after 3 steps", False), ("Trainer.fit stopped: max_steps=3 reached.", False), ("Loss is nan, stopping training", True)):
        box.write("work/p.py", f"for s in range(1, 4): print(f'step {{s}}/60 loss 1', flush=True)\nprint({says!r})\n")
        box.write("work/.launch-job.yaml", "script: p.py\nmicro-batch: {at: --batch, default: 8}\nprogress: 'step (?P<iteration>\\d+)/(?P<total>\\d+)'\n")
        done = box.launch("--", PYTHON, "p.py")
        need(("doubtful" in done.err) == doubtful, f"{says}: {done}")
