"""Point 3: projects that somebody else wrote, and inputs without an end: what is started, set, searched and read, and for how long."""
import os, re, resource, shutil, signal, socket, subprocess, time

from box import NotMade, PYTHON, need, trial

MARK = "#!/bin/sh\ntouch '{left}/'$(basename \"$0\")\nexec /usr/bin/python3 \"$@\"\n"


def left(box):
    """What programs of the project have left."""
    return sorted(os.listdir(box.path("left")))


def clone(box, folder="work", git=True):
    """A project with programs of its own that would leave a file."""
    box.mkdir("left", mode=0o777)
    box.trainer(folder)
    for name in ("python", "python3", "git", "nvidia-smi", "scontrol", "sbatch", "torchrun", "notify-send"):
        for at in ("venv/bin/", ""):
            box.write(f"{folder}/{at}{name}", MARK.format(left=box.path("left")), mode=0o755)
    box.write(f"{folder}/config.py", "class Config:\n    batch = 16\n")
    box.write(f"{folder}/read.py", "import config\n")
    box.write(f"{folder}/.launch-job.yaml", "script: [train.py, read.py]\nmicro-batch: {config.py: Config.batch}\naccumulation: --accum\n")
    if git:
        box.write(f"{folder}/.git/HEAD", "ref: refs/heads/main\n")


LOOKS = (["plan"], ["check"], ["doctor"], ["sbatch-line"], ["sweep", "plan", "--grid", "--lr=1,2"])


def starts_nothing(box, python, cwd="work", env=None, script="read.py"):
    for words in LOOKS:
        done = box.launch(*words, "--", python, script, cwd=cwd, env=env, seconds=60)
        need(not left(box), f"launch {' '.join(words)} has started {left(box)} of the project: {done}")


@trial("3", "what only looks at a command does not start the project's Python")
def _(box):
    clone(box)
    starts_nothing(box, "venv/bin/python")


@trial("3", "what only looks at a command starts no program by a PATH that leads into the project")
def _(box):
    clone(box)
    starts_nothing(box, "python3", env={"PATH": f".:venv/bin::{box.work}/venv/bin:/usr/bin:/bin"})


@trial("3", "what only looks at a command starts nothing of the work tree above its folder, nor through a link into it")
def _(box):
    clone(box)
    box.mkdir("work/sub")
    shutil.copy(box.path("work/read.py"), box.path("work/sub/read.py"))
    shutil.copy(box.path("work/config.py"), box.path("work/sub/config.py"))
    shutil.copy(box.path("work/.launch-job.yaml"), box.path("work/sub/.launch-job.yaml"))
    os.symlink(box.path("work/venv/bin"), box.path("tmp/bin"))
    starts_nothing(box, box.path("tmp/bin/python"), cwd="work/sub")
    starts_nothing(box, "../venv/bin/python3", cwd="work/sub")


# Git.

def git(box, *args, cwd="work"):
    done = box.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null", *args], cwd=cwd)
    need(done.code == 0, repr(done))


def repository(box, attributes, settings):
    """A repository with that configuration, and a change since its commit."""
    if not shutil.which("git"):
        raise NotMade("there is no git")
    box.mkdir("left", mode=0o777)
    box.trainer()
    box.write("work/.gitattributes", attributes)
    git(box, "init", "-q")
    git(box, "add", "-A")
    git(box, "commit", "-qm", "x")
    for name, program in settings.items():
        git(box, "-c", "core.fsmonitor=false", "config", name, program or f"touch {box.path('left')}/{name.replace('.', '-')}")
    with open(box.path("work/train.py"), "a") as f:
        f.write("# changed\n")


def sweeps(box, *flags):
    done = box.launch("sweep", "--name", "s", *flags, "--grid", "--lr=1", "--", "true", seconds=60)
    need(not left(box), f"the sweep has run {left(box)}: {done}")
    return done


@trial("3", "a sweep's record of the code runs no filter of the repository")
def _(box):
    repository(box, "*.py filter=x\n", {"filter.x.clean": "", "filter.x.process": "", "filter.x.smudge": "", "filter.x.required": "true"})
    sweeps(box)
    box.launch("sweep", "--name", "t", "--snapshot", "--grid", "--lr=1", "--", "true", seconds=60)
    need(not left(box), f"the copy of the code has run {left(box)}")


@trial("3", "a sweep's record of the code runs no diff driver, pager, monitor or signer of the repository")
def _(box):
    repository(box, "*.py diff=x\n", {"diff.x.textconv": "", "diff.x.command": "", "diff.external": "", "core.fsmonitor": "",
                                      "core.pager": "", "gpg.program": "", "commit.gpgSign": "true", "core.sshCommand": ""})
    sweeps(box, "--snapshot")


@trial("3", "a sweep's record of the code runs no hook, and nothing that the environment names")
def _(box):
    repository(box, "", {"core.hooksPath": box.path("work/hooks")})
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        box.write("work/hooks/" + name, f"#!/bin/sh\ntouch {box.path('left')}/{name}\n", mode=0o755)
    mine = {k: f"touch {box.path('left')}/{k}" for k in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR")}
    done = box.launch("sweep", "--name", "s", "--snapshot", "--grid", "--lr=1", "--", "true", env=mine, seconds=60)
    need(not left(box), f"the sweep has run {left(box)}: {done}")


@trial("3", "a filter whose name no option could hold is not run either")
def _(box):
    repository(box, "*.py filter=a=b\n", {})
    with open(box.path("work/.git/config"), "a") as f:
        f.write(f'[filter "a=b"]\n clean = touch {box.path("left")}/clean\n')
    sweeps(box)


# Settings of a project's file.

def setting(box, text, name):
    box.trainer()
    box.write("work/.launch.yaml", text)
    done = box.launch("--", PYTHON, "train.py")
    need(done.code == 0, repr(done))
    need(f"sets {name}" in done.err and "launch trust" in done.err, f"no note of {name}: {done}")


@trial("3", "a project's file does not keep Ctrl-C and SIGTERM from ending a training")
def _(box):
    setting(box, "save-on: INT=100h,TERM=100h\n", "save-on")
    for sig in (signal.SIGINT, signal.SIGTERM):
        p = box.start([box.binary, "--", PYTHON, "-c", "import time; print('here', flush=True); time.sleep(60)"])
        p.stdout.readline()
        p.send_signal(sig)
        need(box.finish(p, 15).code == -sig, f"{sig} did not end it")


@trial("3", "a project's file does not have launch look at the card without a pause")
def _(box):
    setting(box, "sample: 1ns\n", "sample")


@trial("3", "a project's file does not hold up a program for hours")
def _(box):
    setting(box, "formula-time: 100000h\n", "formula-time")


# Declarations that lead outside.

def rehearses(box, value):
    box.write("home/thesis/ch1.tex", "years of work\n")
    before = box.tree("home/thesis")
    box.trainer(rehearse="{steps: 1, set: {--out: '" + value.replace("HOME", box.home) + "', --where: '{scratch}'}}")
    os.path.lexists(box.path("work/out")) or os.symlink(box.home, box.path("work/out"))
    done = box.launch("--rehearse", "--", PYTHON, "train.py", "--steps", "2")
    need(box.tree("home/thesis") == before, f"the home was changed: {done}")
    need(done.code == 0 and "outside the folders of this command" in done.err, repr(done))


@trial("3", "a rehearsal writes below no absolute path")
def _(box):
    rehearses(box, "HOME/thesis/{scratch}")


@trial("3", "a rehearsal does not climb out of launch's folder")
def _(box):
    rehearses(box, "{scratch}/../../../../../../../../home/thesis")


@trial("3", "a rehearsal does not write through a link of the project's")
def _(box):
    rehearses(box, "out/thesis")


# Inputs without an end.

def cpu(box, f):
    """How many seconds of processor time f's commands took: a busy machine does not change that."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = f()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def searched(box, key, pattern, links):
    box.write("work/train.py", "print('ran', flush=True)\n")
    box.write("work/.launch-job.yaml", f"script: train.py\nmicro-batch: --batch-size\n{key}\n".replace("PATTERN", pattern))
    for at, to in links:
        box.mkdir(os.path.dirname("work/" + at))
        os.symlink(to, box.path("work", at))
    for words in (["plan"], []):
        done, took = cpu(box, lambda: box.launch(*words, "--", PYTHON, "train.py", "--batch-size", "4", seconds=60))
        need(done.code == 0 and took < 12, f"{took:.1f} s of processor time: {done}")


@trial("3", "a glob of saved states over folders that link in circles ends")
def _(box):
    searched(box, "resume: {--resume: 'PATTERN'}", "*/" * 10 + "*.pt", [(f"l{i}", ".") for i in range(6)])


@trial("3", "a glob of files to put aside over folders that link upwards ends")
def _(box):
    searched(box, "clear: ['PATTERN']", "a/" + "l*/" * 12 + "*", [(f"a/l{i}", "..") for i in range(6)])


@trial("3", "a glob through fans of links, of which none is a circle, ends")
def _(box):
    searched(box, "in-the-way: ['PATTERN']", "d0/" + "*/" * 11 + "x", [(f"d{n}/l{i}", f"../d{n + 1}") for n in range(12) for i in range(6)])


def slow(box, signs, line):
    box.write("work/train.py", f"for i in range(4000): print({line}, i)\nprint('end', flush=True)\n")
    box.write("work/.launch-job.yaml", "script: train.py\nmicro-batch: --batch-size\n" + signs)
    done, took = cpu(box, lambda: box.launch("--", PYTHON, "train.py", "--batch-size", "4", seconds=60))
    need(done.code == 0 and "end" in done.out and took < 12, f"{took:.1f} s of processor time: {done.err[-500:]}")


@trial("3", "a pattern with counted repetitions does not slow down a program")
def _(box):
    slow(box, "progress: '(a?){500}a{500}b(?P<iteration>\\d+)'\n", "'a' * 400")


@trial("3", "twenty patterns that begin with anything do not slow down a program")
def _(box):
    slow(box, "metric: [" + ",".join(f"{{name: m{i}, pattern: '(.*a){{30}}(?P<value>x)', direction: minimise}}" for i in range(20)) + "]\n", "'a' * 800")


@trial("3", "a large pattern and lines of 16 KiB do not slow down a program")
def _(box):
    slow(box, "saved: '((x|y)?z?){300}(?P<path>!)'\n", "'xz' * 8000")


def explained(box, text):
    box.write("work/a.log", text)
    done, took = cpu(box, lambda: box.launch("explain", "a.log", seconds=60))
    need(done.code in (0, 1) and took < 10, f"{took:.1f} s of processor time: code {done.code}")


@trial("3", "a log of one line with an out-of-memory thousands of times is explained")
def _(box):
    explained(box, "CUDA out of memory " * 55_000 + "\n")


@trial("3", "a log of one line of quoted messages is explained")
def _(box):
    explained(box, "'CUDA out of memory' " * 50_000 + "\n")


@trial("3", "a log of nothing but the kernel's kills is explained")
def _(box):
    explained(box, "".join(f"[{i}.1] Out of memory: Killed process {i} (python) total-vm:1kB\n" for i in range(30_000)))


def holds(box, write):
    box.write("work/train.py", f"import sys, time\n{write}\nsys.stdout.flush(); time.sleep(0.5)\n")
    box.write("work/.launch-job.yaml", "script: train.py\nmicro-batch: --batch-size\nprogress: 'step (?P<iteration>\\d+)'\n")
    p = box.start([box.binary, "--", PYTHON, "train.py", "--batch-size", "4"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while p.poll() is None:
        try:
            with open(f"/proc/{p.pid}/status") as f:
                peak = max(peak, int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) >> 10)
        except (OSError, AttributeError):
            pass
        time.sleep(0.02)
    need(p.returncode == 0 and 0 < peak < 250, f"launch took {peak} MiB, code {p.returncode}")


@trial("3", "a line of 200 MiB takes little memory of launch")
def _(box):
    holds(box, "for i in range(200): sys.stdout.buffer.write(b'x' * (1 << 20))")


@trial("3", "200 MiB of a line that is redrawn take little memory of launch")
def _(box):
    holds(box, "for i in range(200): sys.stdout.buffer.write((b'\\r50%|' + b'#' * 80) * 12000)")


@trial("3", "200 MiB of short lines take little memory of launch")
def _(box):
    holds(box, "for i in range(200): sys.stdout.buffer.write(b'step 1\\n' * 150000)")


# Nodes.

def port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    n = s.getsockname()[1]
    s.close()
    return n


def node(box, at, i, *args, files=0):
    more = ["prlimit", f"--nofile={files}"] if files else []
    return box.start([*more, box.binary, f"--nodes-at=127.0.0.1:{at}", f"--this-node={i}/2", "--", PYTHON, "train.py", *args])


def listens(box, at):
    def reached():
        try:
            socket.create_connection(("127.0.0.1", at), 1).close()
        except OSError:
            return False
        return True
    box.wait(reached, what="node 0 never listened")


def strangers(box, connect):
    """Node 0 and node 1 meet, whatever others do on the port meanwhile."""
    if not shutil.which("prlimit"):
        raise NotMade("there is no prlimit")
    box.trainer()
    at, held = port(), []
    zero = node(box, at, 0, files=200)

    def reach():
        return socket.create_connection(("127.0.0.1", at), 1)
    listens(box, at)
    for _ in range(300):
        try:
            c = reach()
            held.append(c)
            connect(c)
        except OSError:
            pass
    one = node(box, at, 1)
    done = box.finish(one, 40), box.finish(zero, 20)
    for c in held:
        c.close()
    need([d.code for d in done] == [0, 0], f"node 1, node 0: {done}")


@trial("3", "strangers who hold connections to node 0 do not keep its nodes away")
def _(box):
    strangers(box, lambda c: None)


@trial("3", "strangers who send garbage to node 0 do not keep its nodes away")
def _(box):
    strangers(box, lambda c: (c.sendall(os.urandom(500)), c.close()))


@trial("3", "strangers who stop in the middle of a handshake do not keep node 0's nodes away")
def _(box):
    strangers(box, lambda c: c.sendall(b"\x16\x03\x01\x40\x00" + b"x" * 100))


def refused(box, zero, one, words):
    box.trainer()
    at = port()
    first, second = node(box, at, 0, *zero), node(box, at, 1, *one)
    done = box.finish(second, 40)
    first.kill()
    need(done.code == 125 and words in done.err and "does not take this node" in done.err, repr(done))
    return done


@trial("3", "a node with another argument is refused, and told which")
def _(box):
    refused(box, ["--steps", "4"], ["--steps", "5"], "--steps")


@trial("3", "a node whose argument looks like a secret, and differs, is refused without it")
def _(box):
    done = refused(box, ["--said", "a", "--prints=token=abcdef"], ["--said", "a", "--prints=token=uvwxyz"], "--prints")
    need("uvwxyz" not in done.err and "abcdef" not in done.err.split("does not take")[1], repr(done))


@trial("3", "a node whose recipe of the same name has another content is refused")
def _(box):
    box.write("work/r.yaml", "batch_size: 8\n")
    box.trainer()
    at = port()
    first = node(box, at, 0, "--data", "r.yaml")
    listens(box, at)
    box.write("work/r.yaml", "batch_size: 16\n")
    done = box.finish(node(box, at, 1, "--data", "r.yaml"), 40)
    first.kill()
    need(done.code == 125 and "r.yaml" in done.err, repr(done))


# Signals that a program handles itself.

HANDLES = """import signal, sys, time
got = []
for s in (signal.SIGQUIT, signal.SIGINT): signal.signal(s, lambda s, f: (got.append(s), print("handled", s, flush=True)))
print("ready", flush=True)
until = time.time() + 10
while len(got) < 2 and time.time() < until: time.sleep(0.02)
print("step 1", flush=True)
sys.exit(7)
"""


def handled(box, *signals):
    box.trainer()
    box.write("work/train.py", HANDLES)
    bare = None
    for command in ([], [box.binary, "--"]):
        p = box.start([*command, PYTHON, "train.py", "--batch-size", "4"])
        p.stdout.readline()
        out = ""
        for s in signals:
            p.send_signal(s)
            out += p.stdout.readline().decode()
        done = box.finish(p, 20)
        got = done.code, out + done.out
        bare = bare or got
        need(got == bare, f"bare {bare}, by launch {got}: {done}")


@trial("5", "a program that handles SIGQUIT itself ends as it would bare")
def _(box):
    handled(box, signal.SIGQUIT, signal.SIGQUIT)


@trial("5", "a program that handles SIGINT itself ends as it would bare")
def _(box):
    handled(box, signal.SIGINT, signal.SIGINT)


@trial("5", "a program that dumps its stacks on SIGQUIT, and then runs out of memory, goes on at a smaller batch")
def _(box):
    box.trainer(progress=r"'step (?P<iteration>\d+)'")
    text = box.read("work/train.py").replace("a = p.parse_args()", "a = p.parse_args()\nimport faulthandler\nfaulthandler.register(signal.SIGQUIT)\nprint('ready', flush=True)", 1)
    box.write("work/train.py", text)
    p = box.start([box.binary, "--allow", "speed", "--", PYTHON, "train.py", "--batch-size", "32", "--fits", "16", "--slow", "0.3", "--oom-after", "2"])
    while b"ready" not in p.stdout.readline():
        pass
    p.send_signal(signal.SIGQUIT)
    done = box.finish(p, 40)
    need(done.code == 0 and "attempt 2" in done.err, repr(done))
