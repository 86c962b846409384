"""Points 6, 7, 8, 11 and the second half of 10: what runs bare runs here, stops, output that is lost, processes that are left."""
import contextlib, json, os, shutil, signal, subprocess, time

from box import HERE, PYTHON, need, trial

OOM = [PYTHON, "train.py", "--batch-size", "32", "--fits", "16"]  # runs out of memory once; half the batch fits


@contextlib.contextmanager
def mounted(path, *options):
    """A file system of its own on a folder, in the namespace of the trials; it belongs to whom the folder belongs to."""
    uid = os.stat(path).st_uid
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join((f"mode=700,uid={uid},gid={uid}",) + options), "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=False)


def as_bare(box, command, **more):
    """Runs a command bare and under launch: code and standard output have to be the same."""
    bare = box.run(command, **more)
    done = box.launch("--", *command, **more)
    need(done.code == bare.code and done.out == bare.out, f"bare {bare}\nlaunch {done}")
    return done


def recovers(box, done, out="runs/a"):
    """The training ran out of memory, went on, and came to its end."""
    need(done.code == 0, repr(done))
    need(os.path.exists(box.path("work", out, "0004.pt")), f"no last state: {done}")


def warned(done):
    need("launch: " in done.err, f"nothing was reported: {done}")


def limits(**of):
    """Runs a command under limits of its own: prlimit's words."""
    return ["prlimit", *(f"--{name}={value}:{value}" for name, value in of.items())]


# 6: the state's disk.

@trial("6", "a full state disk costs no training: it goes on after an out-of-memory", root=True)
def _(box):
    box.trainer()
    box.mkdir(".keep")
    state = box.mkdir("home/.local/state/launch")
    with mounted(state, "size=64k"):
        with contextlib.suppress(OSError), open(state + "/full", "wb") as f:
            f.write(b"x" * (1 << 20))
        done = box.launch("--", *OOM)
    recovers(box, done)
    warned(done)


@trial("6", "a full state disk costs no plan that needs edited copies of the recipe", root=True)
def _(box):
    recipe_trainer(box)
    state = box.mkdir("home/.local/state/launch")
    with mounted(state, "size=64k"):
        for i in range(40):
            with contextlib.suppress(OSError), open(f"{state}/full{i}", "wb") as f:
                f.write(b"x" * (1 << 20))
        done = box.launch("--", PYTHON, "read.py", "--config", "recipe.yml")
    need(done.code == 0 and "trained with 16" in done.out, repr(done))


@trial("6", "a read-only state disk costs no training", root=True)
def _(box):
    box.trainer()
    state = box.mkdir("home/.local/state/launch")
    with mounted(state, "ro"):
        done = box.launch("--", *OOM)
    recovers(box, done)
    warned(done)


@trial("6", "a state disk that vanishes in the middle of an attempt costs no training")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", *OOM, "--oom-after", "1", "--slow", "0.5"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0001.pt")) or box.runs())
    box.as_("victim", lambda: __import__("shutil").rmtree(box.state))
    done = box.finish(p)
    recovers(box, done)


@trial("6", "a state disk that fills in the middle of an attempt costs no training", root=True)
def _(box):
    recipe_trainer(box)
    state = box.mkdir("home/.local/state/launch")
    with mounted(state, "size=512k"):
        p = box.start([box.binary, "--", PYTHON, "read.py", "--config", "recipe.yml", "--slow", "1"])
        box.wait(lambda: box.runs() and any(e["event"] == "planned" for e in box.runs()[0]))
        with contextlib.suppress(OSError), open(state + "/full", "wb") as f:
            f.write(b"x" * (1 << 21))
        done = box.finish(p)
    need(done.code == 0 and "trained with 16" in done.out, repr(done))


@trial("6", "a state folder that is a file: the training is recorded nowhere, and goes on all the same")
def _(box):
    box.trainer()
    box.write("home/.local/state/launch", "no folder")
    done = box.launch("--", *OOM)
    recovers(box, done)
    warned(done)


@trial("6", "no folder anywhere can be written to: an edit cannot be made, so the command runs as typed", root=True)
def _(box):
    recipe_trainer(box)
    box.write("nowhere", "")
    line = [box.binary, "--state-dir", "/proc/none", "--fill", "--", PYTHON, "read.py", "--config", "recipe.yml"]
    top = os.path.dirname(box.dir)  # which has to be seen still, where it was
    shell = (f"mount --bind {top} /mnt; for d in /tmp /var/tmp /dev/shm; do mount -t tmpfs tmpfs $d; done; mkdir -p {top}; mount --bind /mnt {top}; "
             f"for d in /tmp /var/tmp /dev/shm; do mount -o remount,ro $d; done; cd {box.work}; "
             f"exec setpriv --reuid {box.uid('me')} --regid {box.uid('me')} --clear-groups \"$@\"")
    done = box.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", shell, "sh", *line], who="root", env={"TMPDIR": "/proc/none"})
    need(done.code == 1 and "step 1" in done.out and "OutOfMemoryError" in done.err and "launch: note: " in done.err, repr(done))


# 6: HOME and folders.

@trial("6", "a HOME that is a file changes nothing")
def _(box):
    box.trainer()
    home = box.write("nohome", "")
    done = box.launch("--", *OOM, env={"HOME": home})
    need(done.code != 125, repr(done))
    as_bare(box, ["sh", "-c", "echo out; exit 3"], env={"HOME": home})


@trial("6", "a HOME that belongs to another changes nothing, and nothing is written there", second=True)
def _(box):
    home = box.mkdir("theirs", who="other", mode=0o700)
    before = box.tree("theirs")
    as_bare(box, ["sh", "-c", "echo out; exit 3"], env={"HOME": home})
    need(box.tree("theirs") == before, "something was written there")


@trial("6", "a working folder that was deleted is no reason not to run")
def _(box):
    gone = box.mkdir("work/gone")
    line = ["sh", "-c", f'cd "{gone}"; rmdir "{gone}"; "$@"; echo code $?', "sh"]
    bare = box.run([*line, "sh", "-c", "echo out; exit 3"])
    done = box.run([*line, box.binary, "--", "sh", "-c", "echo out; exit 3"])
    need(done.out == bare.out == "out\ncode 3\n", f"bare {bare}\nlaunch {done}")


@trial("6", "a working folder of another's that may not be entered is no reason not to run", second=True)
def _(box):
    theirs = box.mkdir("closed", who="other", mode=0o700)
    where = box.mkdir("closed/here", who="other")
    me = ["setpriv", "--reuid", str(box.uid("me")), "--regid", str(box.uid("me")), "--clear-groups"]
    line = ["sh", "-c", f'cd "{where}"; exec "$@"', "sh", *me]
    bare = box.run([*line, "/bin/sh", "-c", "echo out; exit 3"], who="root")
    done = box.run([*line, box.binary, "--", "/bin/sh", "-c", "echo out; exit 3"], who="root")
    need(bare.code == 3 and done.code == 3 and done.out == bare.out, f"{theirs}: bare {bare}\nlaunch {done}")


@trial("6", "a working folder that is deleted while the program runs does not end the run early")
def _(box):
    box.mkdir("work/gone")
    p = box.start([box.binary, "--", "sh", "-c", "rmdir ../gone; sleep 0.3; echo out; exit 3"], cwd="work/gone")
    done = box.finish(p)
    need(done.code == 3 and done.out == "out\n", repr(done))


# 6: limits and what a machine lacks.

@trial("6", "ulimit -v below what launch itself needs: the program runs in its place")
def _(box):
    for kib in (400, 1000, 1900):
        done = box.run([*limits(**{"as": kib << 20}), box.binary, "--", "sh", "-c", "echo out; exit 3"])
        need(done.code == 3 and done.out == "out\n", f"{kib} MiB: {done}")
        warned(done)


@trial("6", "ulimit -v that launch can live with costs neither plan nor recovery")
def _(box):
    box.trainer()
    done = box.run([*limits(**{"as": 2400 << 20}), box.binary, "--", *OOM])
    recovers(box, done)


@trial("6", "ulimit -n: where launch has no file to spare, the program runs in its place")
def _(box):
    for n in (8, 10, 12, 13):
        done = box.run([*limits(nofile=n), box.binary, "--", "/bin/sh", "-c", "echo out; exit 3"])
        need(done.code == 3 and done.out == "out\n", f"{n} files: {done}")


@trial("6", "ulimit -n: where a plugin cannot be started, launch asks it itself, and recovers")
def _(box):
    box.trainer()
    for _ in range(3):
        done = box.run([*limits(nofile=22), box.binary, "--", *OOM])  # some starts are ones without a plugin's process
        recovers(box, done)
        shutil.rmtree(box.path("work/runs"))


@trial("6", "ulimit -f: records that may not grow cost no training")
def _(box):
    box.trainer()
    done = box.run([*limits(fsize=512), box.binary, "--", *OOM])
    recovers(box, done)


@trial("6", "no pseudo-terminal is free: a program on a terminal has that terminal itself", root=True)
def _(box):
    bare = without_pty(box, ["sh", "-c", "test -t 1 && echo is a terminal; exit 3"])
    done = without_pty(box, [box.binary, "--", "sh", "-c", "test -t 1 && echo is a terminal; exit 3"])
    need(bare.code == done.code == 3 and "is a terminal" in done.out and "pseudo-terminal" in done.out, f"bare {bare}\nlaunch {done}")


@trial("6", "no pseudo-terminal is free: a training on a terminal still recovers", root=True)
def _(box):
    box.trainer()
    done = without_pty(box, [box.binary, "--", *OOM])
    recovers(box, done)


@trial("6", "no /proc: the program runs all the same", root=True)
def _(box):
    me = f"setpriv --reuid {box.uid('me')} --regid {box.uid('me')} --clear-groups"
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'mount -t tmpfs -o ro tmpfs /proc; exec {me} "$@"', "sh"]
    done = box.run([*line, box.binary, "--", "sh", "-c", "echo out; exit 3"], who="root")
    need(done.code == 3 and done.out == "out\n", repr(done))


@trial("6", "no /dev/shm: nothing changes", root=True)
def _(box):
    box.trainer()
    me = f"setpriv --reuid {box.uid('me')} --regid {box.uid('me')} --clear-groups"
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'mount -t tmpfs -o ro,mode=000 tmpfs /dev/shm; exec {me} "$@"', "sh"]
    recovers(box, box.run([*line, box.binary, "--", *OOM], who="root"))


@trial("6", "standard error that nobody reads does not end a training that succeeds")
def _(box):
    box.trainer()
    done = box.run(["sh", "-c", f'{{ {PYTHON} -c "import sys; sys.stderr.close()"; }} 2>/dev/null; mkfifo err; true <err & exec 2>err; sleep 0.2; '
                    f'"$0" -- {PYTHON} train.py', box.binary])
    need(done.code == 0 and "training is over" in done.out, repr(done))


# 6: recipes.

def recipe_trainer(box):
    """A project whose batch stands in a YAML file, with a reader that has a step of its own before memory runs out."""
    box.mkdir("work")
    box.write("work/read.py", """
import argparse, sys, time
p = argparse.ArgumentParser(); p.add_argument("--config"); p.add_argument("--slow", type=float, default=0); a = p.parse_args()
n = 0
for line in open(a.config, encoding="latin-1"):
    if line.startswith("batch:"): n = int(line.split()[1])
print("step 1", flush=True)
time.sleep(a.slow)
if n > 16:
    print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 0.79 GiB. GPU 0 has a total capacity of 1.09 GiB of which 0.03 GiB is free. "
          "Including non-PyTorch memory, this process has 1.06 GiB memory in use. Of the allocated memory 0.87 GiB is allocated by PyTorch, and "
          "12.00 MiB is reserved by PyTorch but unallocated.", file=sys.stderr)
    sys.exit(1)
print("trained with", n, "from", a.config)
print("training is over")
""")
    box.write("work/recipe.yml", "batch: 32\naccum: 1\n")
    box.write("work/.launch-job.yaml", "script: read.py\nmicro-batch: {--config: batch}\naccumulation: {--config: accum}\n"
              "progress: 'step (?P<iteration>\\d+)'\nsucceeded: 'training is over'\n")


def sisr(box):
    """A project that the plugin sisr recognises, with a trainer that only reads its recipe."""
    box.mkdir("work/traiNNer")
    box.write("work/train.py", "import sys\ntext = open(sys.argv[2], 'rb').read()\nprint('read', len(text))\nsys.exit(3)\n")
    box.write("work/basicsr/train.py", "")
    with open(os.path.join(HERE, "../../examples/sisr/options/tiny.yml")) as f:
        return f.read()


@trial("6", "a recipe over 4 MiB is no reason not to run")
def _(box):
    text = sisr(box) + "# " + "x" * (5 << 20) + "\n"
    box.write("work/x.yml", text)
    done = box.launch("--", PYTHON, "train.py", "-opt", "x.yml")
    need(done.code == 3 and done.out == f"read {len(text)}\n", repr(done))
    warned(done)


@trial("6", "a declared project's recipe over 4 MiB is no reason not to run")
def _(box):
    recipe_trainer(box)
    box.write("work/recipe.yml", "batch: 8\naccum: 1\n" + "# " + "x" * (5 << 20) + "\n")
    done = box.launch("--", PYTHON, "read.py", "--config", "recipe.yml")
    need(done.code == 0 and "trained with 8 from recipe.yml" in done.out, repr(done))
    warned(done)


@trial("6", "a recipe in Latin-1 is no reason not to run")
def _(box):
    text = sisr(box).encode() + "# Größe\n".encode("latin-1")
    box.write("work/x.yml", text)
    done = box.launch("--", PYTHON, "train.py", "-opt", "x.yml")
    need(done.code == 3 and done.out == f"read {len(text)}\n", repr(done))
    warned(done)


@trial("6", "settings in Python that are Latin-1, or huge, are no reason not to run")
def _(box):
    box.trainer(micro_batch="{config.py: Config.batch}", accumulation=None)
    for what, text in {"latin": "# -*- coding: latin-1 -*-\nclass Config:\n    name = 'Größe'\n    batch = 8\n".encode("latin-1"), "huge": b"class Config:\n    batch = 8\n" + b"# x\n" * (4 << 20)}.items():
        box.write("work/config.py", text)
        done = box.launch("--", PYTHON, "train.py", "--steps", "1")
        need(done.code == 0 and "training is over" in done.out, f"{what}: {done}")


@trial("6", "a FIFO as recipe is the program's to read: it gets all of it")
def _(box):
    text = sisr(box)
    shell = f"'{box.binary}' -- {PYTHON} train.py -opt <(cat x.yml); echo code $?"
    box.write("work/x.yml", text)
    done = box.run(["bash", "-c", shell], seconds=20)
    need(done.out == f"read {len(text)}\ncode 3\n", repr(done))


@trial("6", "a FIFO by name as recipe is opened by nobody but the program")
def _(box):
    text = sisr(box)
    box.write("work/x.yml", text)
    done = box.run(["sh", "-c", f"mkfifo p.yml; cat x.yml >p.yml & '{box.binary}' -- {PYTHON} train.py -opt p.yml"], seconds=20)
    need(done.code == 3 and done.out == f"read {len(text)}\n", repr(done))


@trial("6", "a FIFO among the validation images costs no plan, and no five seconds")
def _(box):
    text = sisr(box)
    box.write("work/x.yml", text)
    for d in ("train/hr", "train/lr", "val/hr", "val/lr"):
        box.mkdir(f"work/datasets/{d}")
    box.as_("victim", lambda: os.mkfifo(box.path("work/datasets/val/lr/a.png")))
    done = box.launch("--", PYTHON, "train.py", "-opt", "x.yml", seconds=20)
    need(done.code == 3 and done.took < 4 and "it runs as asked" in done.err and "running as typed" not in done.err, repr(done))


@trial("6", "a FIFO of another's as .launch-job.yaml makes nobody wait", second=True)
def _(box):
    box.mkdir("shared", who="other", mode=0o777)
    box.as_("other", lambda: (os.mkfifo(box.path("shared/.launch-job.yaml")), os.chmod(box.path("shared/.launch-job.yaml"), 0o666)))
    box.write("shared/train.py", "import sys; print('ran'); sys.exit(3)\n")
    done = box.launch("--", PYTHON, "train.py", cwd="shared", seconds=20)
    need(done.code == 3 and done.out == "ran\n" and done.took < 4, repr(done))


def without_pty(box, command):
    """Runs a command on a terminal where no further pseudo-terminal can be had."""
    ids = f"--reuid {box.uid('me')} --regid {box.uid('me')} --clear-groups"
    return box.terminal(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                         f'mount --bind /dev/null /dev/ptmx; exec setpriv {ids} "$@"', "sh", *command], who="root")


# 7: stops.

@trial("7", "a program that saves for 35 s after SIGTERM is not killed", quick=False)
def _(box):
    box.trainer()
    stop(box, ["--"], 35)


@trial("7", "a limit that the user sets is kept")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--grace", "1s", "--", PYTHON, "train.py", "--slow", "60", "--term", "30"])
    box.wait(lambda: "planned" in str(box.runs()))
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)
    done = box.finish(p, 20)
    need(done.code == -9 and done.took < 5, repr(done))


@trial("7", "after two SIGTERM there is no limit either", quick=False)
def _(box):
    box.trainer()
    stop(box, ["--"], 33, signal.SIGTERM, signal.SIGTERM)


@trial("7", "the help states that there is no limit")
def _(box):
    done = box.launch("help", "settings")
    text = " ".join(done.out.partition("--grace")[2].split())
    need("default: no limit" in text[:200], repr(done.out))


@trial("7", "a second SIGINT reaches the program, as bare")
def _(box):
    script = "n=0; trap 'n=$((n+1)); echo int $n; [ $n = 2 ] && exit 4' INT; echo up; while :; do sleep 0.05; done"
    p = box.start([box.binary, "--", "sh", "-c", script])
    time.sleep(1)
    p.send_signal(signal.SIGINT)
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    done = box.finish(p, 10)
    need(done.code == 4 and "int 1\nint 2\n" in done.out, repr(done))


@trial("7", "signals from another account do nothing", second=True)
def _(box):
    p = box.start([box.binary, "--", "sh", "-c", "echo $$ >pids; echo $PPID >>pids; sleep 1; echo over; exit 3"])
    box.wait(lambda: os.path.exists(box.path("work/pids")) and len(box.read("work/pids").split()) == 2)
    pids = [p.pid, *map(int, box.read("work/pids").split())]

    def attack():
        refused = 0
        for pid in pids:
            for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1):
                try:
                    os.kill(pid, sig)
                except PermissionError:
                    refused += 1
        return refused
    need(box.as_("other", attack) == str(4 * len(pids)), "another account could send a signal")
    done = box.finish(p, 10)
    need(done.code == 3 and done.out == "over\n", repr(done))


def stop(box, flags, seconds, *signals):
    p = box.start([box.binary, *flags, PYTHON, "train.py", "--slow", "600", "--term", str(seconds)])
    box.wait(lambda: "planned" in str(box.runs()))
    time.sleep(1)
    for sig in signals or [signal.SIGTERM]:
        p.send_signal(sig)
    done = box.finish(p, seconds + 20)
    need(done.code == 0 and "stopped as asked" in done.out and done.took > seconds - 1, repr(done))


# 8: output that could not be written.

def lost(box, done, stream="standard output"):
    need(done.code == 1, f"not 1: {done}")
    need(f"{stream} could not be written: no space left on device" in done.err, f"not reported: {done}")


def full(box, script, redirect=">/dev/full", flags="", env=None):
    return box.run(["sh", "-c", f"exec '{box.binary}' {flags} --json-file done.json -- sh -c '{script}' {redirect}"], env=env)


@trial("8", "a full disk under standard output is no success")
def _(box):
    lost(box, full(box, "echo hi || exit 9"))
    need("no space left" in json.loads(box.read("work/done.json"))["whose"], box.read("work/done.json"))


@trial("8", "a full disk under standard error is no success")
def _(box):
    done = full(box, "echo hi >&2 || exit 9", "2>/dev/full")
    need(done.code == 1, repr(done))


@trial("8", "one file for both outputs on a full disk is no success")
def _(box):
    need(full(box, "echo hi || exit 9", ">/dev/full 2>&1").code == 1, "a success")


@trial("8", "a program that goes on printing to a full disk is ended by that, as by a pipe that nobody reads")
def _(box):
    done = full(box, "while echo hi; do :; done; exit 7")
    need(done.code == -13 or done.code == 7, repr(done))
    need(done.took < 10, "it took long")


@trial("8", "the code of a program that noticed is its own")
def _(box):
    done = full(box, "echo hi; sleep 0.2; trap \"\" PIPE; echo ho 2>/dev/null || exit 9")
    need(done.code in (9, -13), repr(done))


@trial("8", "a full disk under a pseudo-terminal's output is no success")
def _(box):
    done = full(box, 'trap "" HUP; echo hi; sleep 0.2; exit 0', flags="--tty")
    lost(box, done)


@trial("8", "a disk that fills in the middle is no success", root=True)
def _(box):
    disk = box.mkdir("disk")
    with mounted(disk, "size=64k"):
        done = full(box, "head -c 200000 /dev/zero; exit 0", f"> {disk}/out")
    need(done.code in (1, -13), repr(done))
    need("could not be written" in done.err, repr(done))


@trial("8", "a limit on the size of files (ulimit -f) is no success either")
def _(box):
    done = box.run([*limits(fsize=4096), "sh", "-c", f"exec '{box.binary}' --state-dir '{box.tmp}/s' -- sh -c 'head -c 200000 /dev/zero; exit 0' >out"])
    need(done.code in (1, -13) and "could not be written: file too large" in done.err, repr(done))


@trial("8", "a training whose output is lost does not succeed, and makes no endless attempts")
def _(box):
    box.trainer()
    done = box.run(["sh", "-c", f"exec '{box.binary}' --json-file done.json -- {' '.join(OOM)} >/dev/full"])
    need(done.code not in (0, None), repr(done))
    need(len(json.loads(box.read("work/done.json")).get("attempts", [])) < 4, box.read("work/done.json"))


@trial("8", "a reader that goes away is not reported as lost output")
def _(box):
    done = box.run(["bash", "-c", f"'{box.binary}' -- yes | head -1; echo ${{PIPESTATUS[0]}}"])
    need(done.out == "y\n141\n" and "could not be written" not in done.err, repr(done))


# 11: processes that are left.

TREE = """setsid sh -c 'trap "" TERM HUP; echo $$ >p1; while :; do sleep 1; done' &
(setsid sh -c 'trap "" TERM HUP INT; echo $$ >p2; while :; do sleep 1; done' &)
sh -c 'echo $$ >p3; while :; do sleep 1; done' &
while ! [ -s p1 -a -s p2 -a -s p3 ]; do sleep 0.02; done
echo $$ >p0; echo $PPID >keeper; while :; do sleep 0.1; done"""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def killed(box, command, who, terminal=False):
    """Starts a tree of processes under launch, kills who, and returns how launch ended; none of the tree may be left."""
    if terminal:
        pid = os.fork()
        if pid == 0:
            box.terminal(command, 30)
            os._exit(0)
        p = None
    else:
        p = box.start(command)
    box.wait(lambda: os.path.exists(box.path("work/keeper")) and box.read("work/keeper").strip())
    pids = {n: int(box.read(f"work/{n}")) for n in ("p0", "p1", "p2", "p3", "keeper")}
    try:
        if who == "launch":
            with open(f"/proc/{pids['keeper']}/stat") as f:
                os.kill(int(f.read().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        else:
            os.kill(pids[who], signal.SIGKILL)
        done = box.finish(p, 20) if p else os.waitpid(pid, 0)
        end = time.time() + 3
        while time.time() < end and any(map(alive, pids.values())):
            time.sleep(0.02)
        left = [n for n, x in pids.items() if alive(x)]
        need(not left, f"{left} left: {done}")
        return done
    finally:
        for x in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(x, signal.SIGKILL)


@trial("11", "kill -9 of the keeper: nothing of the program is left, on pipes")
def _(box):
    done = killed(box, [box.binary, "--json-file", "done.json", "--", "sh", "-c", TREE], "keeper")
    need(done.code == 125 and "keeper was killed" in done.err, repr(done))
    need(json.loads(box.read("work/done.json"))["exit_code"] == 125, box.read("work/done.json"))


@trial("11", "kill -9 of the keeper: nothing of the program is left, on a terminal")
def _(box):
    killed(box, [box.binary, "--", "sh", "-c", TREE], "keeper", terminal=True)


@trial("11", "kill -9 of the keeper under --tty: nothing of the program is left")
def _(box):
    need(killed(box, [box.binary, "--tty", "--", "sh", "-c", TREE], "keeper").code == 125, "not 125")


@trial("11", "kill -9 of launch: nothing of the program is left")
def _(box):
    killed(box, [box.binary, "--", "sh", "-c", TREE], "launch")


@trial("11", "kill -9 of launch on a terminal: nothing of the program is left")
def _(box):
    killed(box, [box.binary, "--", "sh", "-c", TREE], "launch", terminal=True)


@trial("11", "the keeper of a training is killed: the attempt failed, is no out-of-memory, and the run can be resumed")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "6", "--slow", "0.3"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    keeper = next(int(x) for x in os.listdir("/proc") if x.isdigit() and parent(int(x)) == p.pid and name(int(x)) == "launch-keeper")
    os.kill(keeper, signal.SIGKILL)
    done = box.finish(p, 20)
    need(done.code == 125, repr(done))
    endings = [a["outcome"]["ending"] for a in box.attempts()]
    need(endings == ["failed"], f"{endings}: {done}")
    again = box.launch("resume", "last")
    need(again.code == 0 and "resumed at step" in again.out and os.path.exists(box.path("work/runs/a/0006.pt")), repr(again))


@trial("11", "what a program leaves running by design runs on, as bare")
def _(box):
    done = box.launch("--", "sh", "-c", "(setsid sh -c 'sleep 1; echo late >late' >/dev/null 2>&1 &); exit 3")
    need(done.code == 3, repr(done))
    box.wait(lambda: os.path.exists(box.path("work/late")), 5, "it was ended")


@trial("11", "another account cannot kill the keeper, nor talk to it", second=True)
def _(box):
    p = box.start([box.binary, "--", "sh", "-c", "echo $PPID >keeper; sleep 1; exit 3"])
    box.wait(lambda: os.path.exists(box.path("work/keeper")) and box.read("work/keeper").strip())
    keeper = int(box.read("work/keeper"))

    def attack():
        out = []
        for what in (lambda: os.kill(keeper, 9), lambda: os.listdir(f"/proc/{keeper}/fd"), lambda: open(f"/proc/{keeper}/mem", "rb+")):
            try:
                what()
                out.append("done")
            except OSError:
                out.append("refused")
        return ",".join(out)
    need(box.as_("other", attack) == "refused,refused,refused", "it could")
    done = box.finish(p, 10)
    need(done.code == 3, repr(done))


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def name(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


# 10, second half: a rehearsal that was killed.

def example(box):
    """The example sisr, with its data: a real project with a rehearsal."""
    top = os.path.join(HERE, "../../examples/sisr")
    for folder, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if d not in ("experiments", "datasets", "__pycache__", "tb_logger")]
        for f in files:
            box.copy(os.path.join(folder, f), os.path.join("work", os.path.relpath(os.path.join(folder, f), top)))
    made = box.run([PYTHON, "gen_data.py"])
    need(made.code == 0, repr(made))


def killed_rehearsal(box):
    """Kills a rehearsal with everything else, once it has made its folder in the project; returns the names of such folders."""
    example(box)
    p = box.start([box.binary, "--rehearse", "--memory", "3GiB", "--", PYTHON, "train.py", "-opt", "options/tiny.yml"])
    box.wait(lambda: trials_left(box), 60)
    mine = [p.pid]
    for x in mine:
        mine += [int(d) for d in os.listdir("/proc") if d.isdigit() and parent(int(d)) == x]
    for x in mine:
        with contextlib.suppress(ProcessLookupError):
            os.kill(x, signal.SIGKILL)
    box.finish(p, 10)
    need(trials_left(box), "nothing was left to be removed")


def trials_left(box):
    top = box.path("work/experiments")
    return [x for x in (os.listdir(top) if os.path.isdir(top) else []) if x.startswith("launch-trial-")]


@trial("10", "what a killed rehearsal left in the project is removed by the next start")
def _(box):
    killed_rehearsal(box)
    done = box.launch("-q", "--", "true")
    need(done.code == 0 and not trials_left(box), f"{trials_left(box)}: {done}")


@trial("10", "what a killed rehearsal left in the project is removed by the resume, which comes to the end", quick=False)
def _(box):
    killed_rehearsal(box)
    done = box.launch("resume", "last", seconds=120)
    need(not trials_left(box), f"{trials_left(box)}: {done}")


@trial("10", "a rehearsal that is under way loses nothing to another start")
def _(box):
    example(box)
    p = box.start([box.binary, "--rehearse", "--memory", "3GiB", "--", PYTHON, "train.py", "-opt", "options/tiny.yml"])
    box.wait(lambda: trials_left(box), 60)
    box.launch("-q", "--", "true")
    need(p.poll() is not None or trials_left(box), "its folder was removed under it")
    done = box.finish(p, 120)
    need(done.code == 0 and "rehearsed in" in done.err and not trials_left(box), repr(done))


@trial("10", "a note of what to remove is no way to have anything else removed", second=True)
def _(box):
    box.write("work/precious/file", "thesis")
    box.write("work/launch-trial-1", "a file")
    box.mkdir("theirs", who="other", mode=0o777)
    box.as_("other", lambda: os.symlink(box.path("work/precious"), box.path("theirs/launch-trial-2")))
    notes = [box.path("work/precious"), box.path("work/launch-trial-1"), box.path("theirs/launch-trial-2"), "/", box.path("work") + "/launch-trial-9/../precious"]
    box.mkdir("home/.local/state/launch/leftovers", mode=0o700)
    box.write("home/.local/state/launch/leftovers/1", json.dumps(notes))
    before = box.tree("work")
    done = box.launch("-q", "--", "true")
    need(done.code == 0 and box.tree("work") == before, repr(done))


# Done when 2.

@trial("11", "kill -9 at random moments: nothing of the user's changes, nothing is left, every run can be resumed", quick=False)
def _(box):
    for name in ("kill9.py", "train.py"):
        box.copy(os.path.join(HERE, name), f"work/{name}")
    done = box.run([PYTHON, "kill9.py", "--launch", box.binary, "-n", "8"], seconds=300)
    need(done.code == 0, repr(done))
