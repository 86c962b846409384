"""Points 12 and 13: plugins by others, and what they answer."""
import hashlib, json, os, socket, stat, threading, time

from box import ACCOUNTS, PYTHON, need, trial

# A training that does what DO says, runs out of memory as asked ("oom"), and prints what it was given.
TRAIN = """import os, sys
print("SMALLER=%s" % os.environ.get("SMALLER"), sys.argv[1:], flush=True)
exec(os.environ.get("DO", ""))
if "oom" in sys.argv and "SMALLER" not in os.environ:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
print("ran", flush=True)
"""
ROOM = ("--vram", "12GiB")
OPTIONS = [{"names": ["--resume"]}, {"names": ["--opt"]}]


def item(size, kind="saved tensors"):
    return {"kind": kind, "what": "net", "bytes": size, "from": "the trial"}


def ladders(edits, sizes=(1 << 30, 1 << 29), **more):
    """As asked, and one smaller rung with those edits."""
    for e in edits:
        e.setdefault("cost", "speed")
        e.setdefault("from", None)
    rungs = [{"name": "as asked", "cost": "none", "estimates": [{"items": [item(sizes[0])]}]},
             {"name": "smaller", "cost": "speed", "edits": edits, "estimates": [{"items": [item(sizes[1])]}]}]
    return {"shared": {"phase": "shared", "asked": 0, "rungs": [{"name": "as asked", "cost": "none"}]},
            "phases": [{"phase": "training", "asked": 0, "rungs": rungs, **more}]}


def job(**more):
    j = {"dialect": "test", "name": "n", "arch": "net"}
    j.update(more)
    return j


def env(name, to):
    return {"knob": "k " + name, "doc": "env", "path": name, "from": None, "to": to, "cost": "none", "why": "a trial"}


def smaller(name="SMALLER", to="1"):
    return {"knob": "k", "doc": "env", "path": name, "to": to, "why": "a trial"}


def project(box, name="evil", **answers):
    box.write(f"work/{name}.py", TRAIN)
    if answers:
        answers.setdefault("job", job())
        box.plugin(name, **answers)


def go(box, *args, name="evil", flags=ROOM, **more):
    return box.launch(*flags, "--", PYTHON, f"{name}.py", *args, **more)


def warnings(done):
    return [line for line in done.err.splitlines() if "launch:" in line and ("warning" in line.lower() or "plugin" in line.lower())]


def as_typed(done, words=""):
    need(done.code == 0 and "ran" in done.out and "SMALLER=None" in done.out, repr(done))
    need(words in done.err, f"no word of {words!r}: {done!r}")
    need(len(done.err) < 20000, f"{len(done.err)} bytes of warnings")


def precious(box):
    box.write("work/precious/data.txt", "mine")
    box.write("home/thesis.txt", "mine")
    return lambda: (box.tree("work/precious"), box.read("home/thesis.txt") if os.path.exists(box.path("home/thesis.txt")) else None)


# What a trial leaves behind.

@trial("12", "a trial's leaves do not climb out by .. after the scratch name")
def _(box):
    state = precious(box)
    project(box, job=job(rehearsal={"leaves": ["{scratch name}/../precious"]}))
    before = state()
    done = go(box, flags=(*ROOM, "--rehearse"))
    need(state() == before, f"the folder is gone: {done!r}")
    as_typed(done, "outside the folders")


@trial("12", "a trial's leaves are no absolute path in the home folder")
def _(box):
    state = precious(box)
    project(box, job=job(rehearsal={"leaves": [box.home + "/{scratch name}/../thesis.txt"]}))
    before = state()
    done = go(box, flags=(*ROOM, "--rehearse"))
    need(state() == before, repr(done))
    as_typed(done)


@trial("12", "a trial's leaves are not removed through a link that the trial's program made")
def _(box):
    state = precious(box)
    box.write("work/precious/sub/1.txt", "mine")
    project(box, job=job(rehearsal={"leaves": ["{scratch name}/sub"], "edits": [env("NAME", "{scratch name}")]}))
    before = state()
    done = go(box, flags=(*ROOM, "--rehearse"), env={"DO": "if 'NAME' in os.environ: os.symlink('precious', os.environ['NAME'])"})
    need(state() == before, repr(done))
    as_typed(done)


@trial("12", "a trial's own leaves are removed, also where the folder is a link of the user's")
def _(box):
    box.mkdir("big")
    box.own(box.path("big"))
    os.symlink(box.path("big"), box.path("work/experiments"))
    box.own(box.path("work/experiments"))
    project(box, job=job(rehearsal={"leaves": ["experiments/{scratch name}"], "edits": [env("NAME", "{scratch name}")]}))
    done = go(box, flags=(*ROOM, "--rehearse"), env={"DO": "if 'NAME' in os.environ: os.mkdir('experiments/' + os.environ['NAME']); open('saw', 'a').write('x')"})
    as_typed(done)
    need(os.path.exists(box.path("work/saw")), "no trial was made")
    need(os.listdir(box.path("big")) == [], f"left: {os.listdir(box.path('big'))}")


@trial("12", "a trial's leaves are not removed through a link that the program put at the folder's place")
def _(box):
    state = precious(box)
    project(box, job=job(rehearsal={"leaves": ["out/{scratch name}"], "edits": [env("NAME", "{scratch name}")]}))
    do = f"if 'NAME' in os.environ: os.symlink({box.home!r}, 'out'); os.mkdir('out/' + os.environ['NAME']); open('out/' + os.environ['NAME'] + '/x', 'w')"
    before = state()
    done = go(box, flags=(*ROOM, "--rehearse"), env={"DO": do})
    as_typed(done)
    need(state() == before and any(n.startswith("launch-trial") for n in os.listdir(box.home)), f"it was removed from another folder: {os.listdir(box.home)}")


# What is moved aside.

def aside(box, glob, do="", **more):
    project(box, job=job(resume={"aside": [glob], "none": "there is no way"}))
    done = go(box, "oom", env={"DO": f"if 'SMALLER' not in os.environ: os.utime({box.home + '/thesis.txt'!r}); " + do}, **more)
    need(done.code == 0 and "SMALLER=1" in done.out, repr(done))
    return done


@trial("12", "nothing of the home folder is moved aside by an absolute glob")
def _(box):
    state = precious(box)
    before = state()
    done = aside(box, box.home + "/*.txt")
    need(state() == before, f"it was moved: {os.listdir(box.home)}, {done!r}")
    need("outside the folders" in done.err, repr(done))


@trial("12", "nothing is moved aside by a relative glob that climbs out")
def _(box):
    state = precious(box)
    before = state()
    done = aside(box, "*/../../home/*.txt")
    need(state() == before, f"it was moved: {os.listdir(box.home)}, {done!r}")


@trial("12", "nothing is moved aside through a link that the program made")
def _(box):
    state = precious(box)
    before = state()
    done = aside(box, "saves/*.txt", do=f"os.path.islink('saves') or os.symlink({box.home!r}, 'saves')")
    need(state() == before, f"it was moved: {os.listdir(box.home)}, {done!r}")


@trial("12", "nothing is moved aside through a link that another account made in a shared project", second=True)
def _(box):
    state = precious(box)
    os.chmod(box.work, 0o1777)
    box.as_("other", lambda: os.symlink(box.home, box.path("work/saves")))
    before = state()
    done = aside(box, "saves/*.txt")
    need(state() == before, f"it was moved: {os.listdir(box.home)}, {done!r}")


@trial("12", "what an earlier attempt saved in the project, and by a link of the user's, is moved aside")
def _(box):
    precious(box)
    box.mkdir("big")
    os.symlink(box.path("big"), box.path("work/saves"))
    box.own(box.path("big"), box.path("work/saves"))
    done = aside(box, "saves/*.pt", do="open('saves/last.pt', 'a').write('x')")
    moved = [os.path.join(f, n) for f, _, names in os.walk(box.path("big")) for n in names]
    need(len(moved) == 1 and any("before-attempt-2" in m for m in moved), f"{moved}, {done!r}")


@trial("12", "a folder that an argument names is the command's own: what was saved there is moved aside")
def _(box):
    precious(box)
    box.mkdir("big")
    box.own(box.path("big"))
    project(box, job=job(resume={"aside": [box.path("big/*.pt")], "none": "there is no way"}))
    done = go(box, "oom", "--out", box.path("big"), env={"DO": f"open({box.path('big/last.pt')!r}, 'a').write('x')"})
    moved = [os.path.join(f, n) for f, _, names in os.walk(box.path("big")) for n in names]
    need(done.code == 0 and any("before-attempt-2" in m for m in moved), f"{moved}, {done!r}")


# What is put into a trial's folder.

@trial("12", "a file is not put through a link that was put before it")
def _(box):
    precious(box)
    project(box, job=job(rehearsal={"puts": [{"path": "x", "link": box.home}, {"path": "x/evil.txt", "text": "ZXZpbA=="}]}))
    done = go(box, flags=(*ROOM, "--rehearse"))
    need(not os.path.exists(box.path("home/evil.txt")), f"it was written: {done!r}")
    as_typed(done)


@trial("12", "a file that would be put outside costs the trial and not the training")
def _(box):
    project(box, job=job(rehearsal={"puts": [{"path": "../../../x", "text": "ZXZpbA=="}]}))
    done = go(box, flags=(*ROOM, "--rehearse"))
    as_typed(done, "launch makes no trial")


# What is read.

def resumes(box, glob, do, *args, **more):
    project(box, job=job(signs={"states": [glob]}, options=OPTIONS, resume={"edits": [
        {"knob": "resume", "doc": "argv", "path": "--resume", "from": None, "to": "{saved state}", "cost": "none", "why": "goes on"}]}))
    done = go(box, "oom", *args, env={"DO": do}, **more)
    need(done.code == 0 and "SMALLER=1" in done.out, repr(done))
    return "--resume" in done.out, done


@trial("12", "no run goes on from a state outside the command's folders")
def _(box):
    went, done = resumes(box, box.home + "/*.pt", f"open({box.home + '/another.pt'!r}, 'w').write('state')")
    need(not went, f"it goes on from another folder's: {done!r}")


@trial("12", "no run goes on from a state that lies behind another account's link", second=True)
def _(box):
    os.chmod(box.work, 0o1777)
    box.mkdir("theirs", who="other")

    def attack():
        os.symlink(box.path("theirs"), box.path("work/ckpt"))
        with open(box.path("theirs/evil.pt"), "w") as f:
            f.write("a pickle")
        os.chmod(box.path("theirs/evil.pt"), 0o666)
    box.as_("other", attack)
    went, done = resumes(box, "ckpt/*.pt", "os.utime('ckpt/evil.pt')")
    need(not went, f"it goes on from another account's state: {done!r}")


@trial("12", "no run goes on from a state behind another account's link that a star matches", second=True)
def _(box):
    box.mkdir("work/runs")
    os.chmod(box.path("work/runs"), 0o1777)
    box.mkdir("theirs", who="other")

    def attack():
        os.symlink(box.path("theirs"), box.path("work/runs/zzz"))
        with open(box.path("theirs/9999.pt"), "w") as f:
            f.write("a pickle")
        os.chmod(box.path("theirs/9999.pt"), 0o666)
    box.as_("other", attack)
    went, done = resumes(box, "runs/*/*.pt", "os.utime('runs/zzz/9999.pt')")
    need(not went, f"it goes on from another account's state: {done!r}")


@trial("12", "a run goes on from its state behind a link of the user's that was there before")
def _(box):
    box.mkdir("big")
    os.symlink("../big", box.path("work/ckpt"))
    box.own(box.path("big"), box.path("work/ckpt"))
    went, done = resumes(box, "ckpt/*.pt", "'SMALLER' in os.environ or print('saved ckpt/1.pt', open('ckpt/1.pt', 'w').write('state'))")
    need(went, f"it starts over: {done!r}")


@trial("12", "a log outside the command's folders decides nothing")
def _(box):
    box.write("home/other.log", "nothing")
    project(box, job=job(signs={"log": [box.home + "/*.log"]}))
    do = f"open({box.home + '/other.log'!r}, 'a').write('RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\\n'); sys.exit(3)"
    done = go(box, env={"DO": do})
    need(done.code == 3 and "SMALLER=1" not in done.out, f"another program's log was believed: {done!r}")


@trial("12", "a log behind another account's link decides nothing", second=True)
def _(box):
    os.chmod(box.work, 0o1777)
    box.mkdir("theirs", who="other")

    def attack():
        os.symlink(box.path("theirs/their.log"), box.path("work/train.log"))
        with open(box.path("theirs/their.log"), "w") as f:
            f.write("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
        os.chmod(box.path("theirs/their.log"), 0o666)
    box.as_("other", attack)
    project(box, job=job(signs={"log": ["*.log"]}))
    done = go(box, env={"DO": "os.utime('train.log'); sys.exit(3)"})
    need(done.code == 3 and "SMALLER=1" not in done.out, f"another account's log was believed: {done!r}")


@trial("12", "a plugin that locks / stops no other project's training")
def _(box):
    project(box, job=job(exclusive="/"))
    box.write("work2/evil.py", TRAIN)
    first = box.start([box.binary, *ROOM, "--", PYTHON, "evil.py"], env={"DO": "import time; open('began', 'w'); time.sleep(5)"})
    box.wait(lambda: os.path.exists(box.path("work/began")))
    done = go(box, cwd="work2")
    need(first.poll() is None, "the first ended too early for the trial")
    as_typed(done)


# What is copied and edited.

@trial("12", "a saved state that is a FIFO is not waited for")
def _(box):
    os.mkfifo(box.path("work/x.pt"))
    box.own(box.path("work/x.pt"))
    patch = {"path": "p", "from": "1", "to": "2", "bytes": [{"at": 0, "new": "AA=="}]}
    project(box, job=job(options=OPTIONS, files=[{"path": "x.pt", "format": "binary", "flag": "--resume", "patches": [patch]}]),
            ladders=ladders([smaller(), {"knob": "p", "doc": "x.pt", "path": "p", "from": "1", "to": "2", "why": "a trial"}]))
    done = go(box, "--resume", "x.pt", "oom", seconds=15)
    # a pipe that an argument names counts as read, so there is no further attempt
    need(done.code == 125 and "what stood in x.pt is no longer there" in done.err, repr(done))


@trial("12", "a recipe whose name is a folder's costs the plugin and not the training")
def _(box):
    project(box, job=job(options=OPTIONS, files=[{"path": "x/..", "format": "yaml", "flag": "--opt", "text": "YTogMQo="}]),
            ladders=ladders([{"knob": "a", "doc": "x/..", "path": "a", "from": "1", "to": "2", "why": "a trial"}]))
    done = go(box, "--opt", "x/..", flags=("--vram", "700MiB"))
    as_typed(done)


@trial("12", "Python source is served as launch has read it, whatever a plugin says of it")
def _(box):
    real = "X = 1\nprint('the real one', X)\n"
    path = box.write("work/settings.py", real)
    forged = "X = 1\nprint('EVIL', X)\n"
    source = {"path": path, "sha256": hashlib.sha256(real.encode()).hexdigest(), "text": __import__("base64").b64encode(forged.encode()).decode(),
              "items": [{"path": "X", "value": 1, "literal": True, "start": 4, "end": 5, "line": 1}]}
    project(box, job=job(files=[{"path": path, "format": "python", "source": source}]),
            ladders=ladders([{"knob": "X", "doc": path, "path": "X", "from": "1", "to": "2", "why": "a trial"}]))
    done = go(box, flags=("--vram", "700MiB"), env={"DO": "import settings"})
    need("EVIL" not in done.out and "the real one" in done.out, repr(done))


@trial("12", "an edit of a file that the command does not read costs the plugin and not the training")
def _(box):
    project(box, ladders=ladders([{"knob": "a", "doc": box.home + "/.bashrc", "path": "a", "from": "1", "to": "2", "why": "a trial"}]))
    as_typed(go(box, flags=("--vram", "700MiB")), "running as typed")


# Point 13: what is run, and what it gets.

SCRIPT = "#!/bin/sh\n{}\n"


def program(box, text, folder="bin", name="evil", who="victim", mode=0o755):
    return box.write(f"{folder}/launch-plugin-{name}", SCRIPT.format(text), who=who, mode=mode)


def path_with(*folders):
    return {"PATH": ":".join([*folders, "/usr/local/bin", "/usr/bin", "/bin"])}


def not_run(box, where, **more):
    """launch, launch plan and launch plugins do not run what would leave a mark."""
    project(box)
    done = go(box, **more)
    as_typed(done)
    need(not os.path.exists(box.path("mark/ran")), f"it was run: {done!r}")
    need("launch-plugin" not in done.err, f"it is no business of this command's: {done!r}")
    listed = box.launch("plugins", **more)
    need(not os.path.exists(box.path("mark/ran")), f"launch plugins runs it: {listed!r}")
    need("launch-plugin-evil is left out: it is not run" in listed.out and where in listed.out, repr(listed))


def mark(box):
    box.mkdir("mark")
    os.chmod(box.path("mark"), 0o777)
    return f"touch {box.path('mark/ran')}; exit 1"


@trial("13", "a plugin that was never trusted is not run, wherever it lies, and is reported once")
def _(box):
    do = mark(box)
    project(box)
    program(box, do)
    program(box, do, folder="home/.local/share/launch/plugins", name="evil2")
    env = path_with(box.path("bin"))
    first = go(box, env=env)
    as_typed(first, "not trusted")
    need("launch plugins trust" in first.err and "evil2" in first.err, f"how it is trusted is not said: {first!r}")
    for _ in range(2):
        done = go(box, env=env)
        as_typed(done)
        need("trust" not in done.err and "launch-plugin" not in done.err, f"it is reported again: {done!r}")
    listed = box.launch("plugins", env=env)
    need("launch-plugin-evil is left out: it is not trusted" in listed.out, repr(listed))
    for flags in (("--plugin", "evil"), ("--plugin", "evil2")):
        done = go(box, flags=flags, env=env)
        need(done.code == 125 and "not trusted" in done.err, repr(done))
    need(not os.path.exists(box.path("mark/ran")), "it was run")


@trial("13", "a plugin that changes after it was trusted is not run, whatever its size and time")
def _(box):
    box.mkdir("mark")
    path = box.plugin("evil", folder="bin", tell=box.path("mark/told"), job=job())
    project(box)
    go(box)
    need(os.path.exists(box.path("mark/told")), "it was never asked")
    time.sleep(3.5)
    go(box)  # from here on its file is known by its times
    os.remove(box.path("mark/told"))
    info = os.stat(path)
    with open(path, "r+b") as f:
        f.seek(-1, 2)
        f.write(b"x")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    done = go(box)
    as_typed(done, "has changed since you trusted it")
    need("launch plugins trust evil" in done.err and not os.path.exists(box.path("mark/told")), repr(done))
    go(box)
    need(not os.path.exists(box.path("mark/told")), "it was run")


@trial("13", "a file beside an installed plugin that is changed or added keeps it from running")
def _(box):
    box.mkdir("mark")
    box.plugin("evil", folder="src", trusted=False, tell=box.path("mark/told"), job=job())
    done = box.launch("plugins", "install", box.path("src"))
    need(done.code == 0, repr(done))
    project(box)
    top = "home/.local/share/launch/plugins/evil/1"
    for change in ("data.json", "launch-plugin-evil.json"):
        os.remove(box.path("mark/told"))
        as_typed(go(box))
        need(os.path.exists(box.path("mark/told")), "it was not asked")
        old = box.read(f"{top}/{change}") if os.path.exists(box.path(top, change)) else None
        box.write(f"{top}/{change}", (old or "") + " ")
        os.remove(box.path("mark/told"))
        done = go(box)
        as_typed(done, f"{change} ")
        need("since it was installed" in done.err and not os.path.exists(box.path("mark/told")), repr(done))
        listed = box.launch("plugins", "trust", "evil")
        need(listed.code == 0 and change in listed.out, repr(listed))


@trial("13", "a list of installed plugins that another account can write starts none", second=True)
def _(box):
    box.mkdir("mark")
    project(box, tell=box.path("mark/told"))
    os.remove(box.path("mark/told"))
    os.chmod(box.path("home/.config/launch/plugins.json"), 0o666)
    done = go(box)
    as_typed(done, "others can write to")
    need(not os.path.exists(box.path("mark/told")), repr(done))


@trial("13", "what a plugin has started ends with it, in its process group or out of it")
def _(box):
    box.mkdir("mark")
    project(box, recognize="fork " + box.path("mark/pids"))
    done = go(box)
    need(done.code == 0 and "ran" in done.out, repr(done))
    pids = [int(p) for p in box.read("mark/pids").split()]
    need(len(pids) == 2, repr(pids))

    def alive():
        out = []
        for p in pids:
            try:
                with open(f"/proc/{p}/stat") as f:
                    if ") Z " not in f.read():
                        out.append(p)
            except OSError:
                pass
        return out
    try:
        box.wait(lambda: not alive(), seconds=3, what=f"still there: {pids}")
    finally:
        for p in alive():
            os.kill(p, 9)


@trial("13", "what a plugin that fails its handshake has started ends with it")
def _(box):
    box.mkdir("mark")
    project(box)
    program(box, f"sleep 600 & echo $! >> {box.path('mark/pids')}; setsid sleep 600 & echo $! >> {box.path('mark/pids')}; sleep 0.2; echo hello")
    done = distrusted(box)
    pids = [int(p) for p in box.read("mark/pids").split()]
    there = [p for p in pids if os.path.exists(f"/proc/{p}/stat") and ") Z " not in open(f"/proc/{p}/stat").read()]
    for p in there:
        os.kill(p, 9)
    need(len(pids) == 2 and not there, f"of {pids} there are {there}")


def distrusted(box, words="plugin evil", **more):
    """Tries to trust the program in bin, which fails, and returns how."""
    done = box.launch("plugins", "trust", box.path("bin/launch-plugin-evil"), **more)
    need(done.code == 125 and words in done.err, repr(done))
    return done


def told(box):
    with open(box.path("mark/told")) as f:
        return [json.loads(line) for line in f]


@trial("13", "a plugin is told no secret: not in a command's environment, nor in its own")
def _(box):
    box.mkdir("mark")
    secrets = {"HF_TOKEN": "hf_s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "WANDB_API_KEY": "s3cret", "MY_THESIS": "s3cret", "TORCH_TOKEN": "s3cret"}
    project(box, tell=box.path("mark/told"))
    box.launch("plugins", "trust", "evil", env=secrets)
    done = go(box, env={**secrets, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    need(done.code == 0 and "ran" in done.out, repr(done))
    text = box.read("mark/told")
    need("s3cret" not in text, text[:2000])
    asked = {t["asked"] for t in told(box)}
    need(asked >= {"manifest", "recognize", "ladders"} and "CUDA_DEVICE_ORDER=PCI_BUS_ID" in text, f"{asked}, {text[:2000]}")


@trial("13", "a program is asked for its manifest with PATH, HOME and LANG alone")
def _(box):
    box.mkdir("mark")
    project(box)
    program(box, f"env > {box.path('mark/env')}; exit 1")
    distrusted(box, env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LD_LIBRARY_PATH": "/nowhere"})
    names = {line.partition("=")[0] for line in box.read("mark/env").splitlines()}
    more = {n for n in names if not n.startswith(("PLUGIN_", "LAUNCH_PLUGIN"))} - {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "PYTHONDONTWRITEBYTECODE"}
    need(not more and {"PATH", "HOME", "LANG"} <= names, f"told of {sorted(more)}")


@trial("13", "a plugin is told what its manifest lists, and the command's own $NAMES")
def _(box):
    box.mkdir("mark")
    project(box, tell=box.path("mark/told"), manifest={"name": "evil", "marks": [{"script": "evil.py"}], "env": ["PATH", "HOME", "MINE_*"]})
    done = box.launch(*ROOM, "--", "sh", "-c", f"{PYTHON} evil.py $RECIPE", env={"MINE_A": "yes", "RECIPE": "x.yml", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    need(done.code == 0 and "ran" in done.out and "x.yml" in done.out, repr(done))
    seen = [t["value"]["env"] for t in told(box) if t["asked"] == "recognize"]
    need(seen and "MINE_A=yes" in seen[0] and "RECIPE=x.yml" in seen[0] and not any("CUDA" in kv for kv in seen[0]), repr(seen))


@trial("13", "a plugin's process has a limit of memory, and leaves no core file")
def _(box):
    box.mkdir("mark")
    project(box, tell=box.path("mark/told"))
    done = go(box)
    need(done.code == 0, repr(done))
    limits = [t["limits"] for t in told(box) if t["asked"] == "recognize"][0]
    data = [line.split()[3] for line in limits.splitlines() if line.startswith("Max data size")][0]
    core = [line.split()[4] for line in limits.splitlines() if line.startswith("Max core file size")][0]
    need(data != "unlimited" and int(data) <= 8 << 30 and core == "0", limits)


def listener(box):
    """A server on a port of this machine; how often somebody came is in the list."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    came = []

    def serve():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            came.append(1)
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    return s, came


@trial("13", "a handshake by TCP is refused, and nobody connects there")
def _(box):
    s, came = listener(box)
    try:
        project(box)
        program(box, f"echo '1|1|tcp|127.0.0.1:{s.getsockname()[1]}|grpc'; exec sleep 600")
        distrusted(box, "its handshake names")
        need(not came, "launch connected")
    finally:
        s.close()


@trial("13", "a handshake that names another account's socket is refused", second=True)
def _(box):
    box.mkdir("theirs", who="other")
    path = box.path("theirs/s")
    p = box.start([PYTHON, "-c", f"""
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind({path!r}); os.chmod({path!r}, 0o777); s.listen()
print('listens', flush=True)
s.accept(); open({box.path('theirs/came')!r}, 'w'); s.accept()"""], who="other", cwd="theirs")
    p.stdout.readline()
    project(box)
    program(box, f"echo '1|1|unix|{path}|grpc'; exec sleep 600")
    distrusted(box, "its handshake names")
    need(not os.path.exists(box.path("theirs/came")), "launch connected to another account's socket")


@trial("13", "another account cannot reach a plugin's socket", second=True)
def _(box):
    box.mkdir("mark")
    project(box, tell=box.path("mark/told"), recognize="hang")
    p = box.start([box.binary, *ROOM, "--", PYTHON, "evil.py"])
    box.wait(lambda: os.path.exists(box.path("mark/told")) and any(t["asked"] == "recognize" for t in told(box)))
    folder = [kv.partition("=")[2] for t in told(box) if t["asked"] == "recognize" for kv in t["environ"] if kv.startswith("PLUGIN_UNIX_SOCKET_DIR=")][0]
    need(stat.S_IMODE(os.stat(folder).st_mode) == 0o700, oct(os.stat(folder).st_mode))
    try:
        box.as_("other", lambda: os.listdir(folder))
        need(False, "another account lists its folder")
    except RuntimeError as e:
        need("PermissionError" in str(e), str(e))
    p.kill()


@trial("13", "a plugin reads nothing of what is meant for the program")
def _(box):
    project(box, job=job())
    box.write("work/evil.py", "import sys\nprint('read', sys.stdin.readline().strip())\n")
    done = go(box, text=b"the input\n")
    need("read the input" in done.out, f"the plugin took the program's input: {done!r}")


# Who may put a plugin there.

@trial("13", "a plugin in a folder of mine where another account can write is not run", second=True)
def _(box):
    do = mark(box)
    box.mkdir("bin")
    os.chmod(box.path("bin"), 0o777)
    box.as_("other", lambda: (open(box.path("bin/launch-plugin-evil"), "w").write(SCRIPT.format(do)), os.chmod(box.path("bin/launch-plugin-evil"), 0o755)))
    not_run(box, "others can write", env=path_with(box.path("bin")))


@trial("13", "my own plugin in a folder where another account can write is not run", second=True)
def _(box):
    do = mark(box)
    program(box, do)
    os.chmod(box.path("bin"), 0o777)
    not_run(box, "others can write", env=path_with(box.path("bin")))


@trial("13", "a plugin in another account's folder on PATH is not run", second=True)
def _(box):
    do = mark(box)
    box.mkdir("theirs", who="other")
    program(box, do, folder="theirs/bin", who="other")
    not_run(box, "another account", env=path_with(box.path("theirs/bin")))


@trial("13", "a plugin that another account drops into a shared sticky folder on PATH is not run", second=True)
def _(box):
    do = mark(box)
    box.as_("other", lambda: (open(box.path("tmp/launch-plugin-evil"), "w").write(SCRIPT.format(do)), os.chmod(box.path("tmp/launch-plugin-evil"), 0o755)))
    not_run(box, "launch-plugin-evil", env=path_with(box.tmp))


@trial("13", "a plugin file that another account's group can write is not run", second=True)
def _(box):
    do = mark(box)
    path = program(box, do, mode=0o775)
    os.chown(path, box.uid("victim"), ACCOUNTS["other"])
    not_run(box, "others can write", env=path_with(box.path("bin")))


@trial("13", "a plugin below a folder that another account can rename is not run", second=True)
def _(box):
    do = mark(box)
    box.mkdir("open")
    os.chmod(box.path("open"), 0o777)
    program(box, do, folder="open/bin")
    not_run(box, "others can write", env=path_with(box.path("open/bin")))


@trial("13", "a link in my plugin folder to another account's file is not run", second=True)
def _(box):
    do = mark(box)
    path = program(box, do, folder="theirs", who="other")
    box.mkdir("home/.local/share/launch/plugins")
    link = box.path("home/.local/share/launch/plugins/launch-plugin-evil")
    os.symlink(path, link)
    box.own(link)
    not_run(box, "another account")


@trial("13", "a link of another account's to my own plugin is not followed", second=True)
def _(box):
    do = mark(box)
    program(box, do)
    box.as_("other", lambda: os.symlink(box.path("bin"), box.path("tmp/tools")))
    not_run(box, "another account", env=path_with(box.path("tmp/tools")))


@trial("13", "a shared XDG_DATA_HOME holds no plugin of mine", second=True)
def _(box):
    do = mark(box)
    program(box, do, folder="shared/launch/plugins", who="other")
    not_run(box, "another account", env={"XDG_DATA_HOME": box.path("shared")})


@trial("13", "a plugin that was trusted is not run after another account has replaced it", second=True)
def _(box):
    box.mkdir("mark")
    box.mkdir("bin")
    path = box.plugin("evil", folder="bin", tell=box.path("mark/told"), job=job())
    project(box)
    env = path_with(box.path("bin"))
    done = go(box, env=env)
    need(done.code == 0 and os.path.exists(box.path("mark/told")), f"it was never asked: {done!r}")
    os.remove(box.path("mark/told"))
    os.chown(path, ACCOUNTS["other"], ACCOUNTS["other"])
    as_typed(go(box, env=env))
    need(not os.path.exists(box.path("mark/told")), "its manifest was remembered, and it was run")


@trial("13", "--plugin does not run another account's plugin, and gives the reason", second=True)
def _(box):
    do = mark(box)
    program(box, do, folder="theirs/bin", who="other")
    project(box)
    done = go(box, flags=("--plugin", "evil"), env=path_with(box.path("theirs/bin")))
    need(not os.path.exists(box.path("mark/ran")), f"it was run: {done!r}")
    need(done.code == 125 and "belongs to uid" in done.err, repr(done))


@trial("13", "a plugin of a shared working folder is not run for . on PATH", second=True)
def _(box):
    do = mark(box)
    box.write("shared/evil.py", TRAIN)
    os.chmod(box.path("shared"), 0o777)
    program(box, do, folder="shared", who="other")
    done = go(box, cwd="shared", env=path_with("."))
    as_typed(done)
    need(not os.path.exists(box.path("mark/ran")), f"it was run: {done!r}")


@trial("13", "a plugin of a cloned project is not run for an empty entry of PATH")
def _(box):
    do = mark(box)
    program(box, do, folder="work")
    not_run(box, "relative", env={"PATH": ":/usr/local/bin:/usr/bin:/bin"})


@trial("13", "a plugin of a cloned project is not run for a relative entry of PATH")
def _(box):
    do = mark(box)
    program(box, do, folder="work/bin")
    not_run(box, "relative", env=path_with("bin"))


@trial("13", "root does not run a plugin of an ordinary account's", second=True, victim="root")
def _(box):
    do = mark(box)
    program(box, do, folder="theirs/bin", who="other")
    not_run(box, "another account", env=path_with(box.path("theirs/bin")))


@trial("13", "a plugin of my own is run as before: on PATH and in my plugin folder")
def _(box):
    project(box, job=job())
    done = go(box, "oom")
    need(done.code == 0 and "SMALLER=1" in done.out, repr(done))
    box.plugin("evil2", folder="bin", job=job())
    project(box, name="evil2")
    done = go(box, "oom", name="evil2", env=path_with(box.path("bin")))
    need(done.code == 0 and "SMALLER=1" in done.out, repr(done))


# What it answers.

@trial("13", "a hundred thousand rungs cost one warning")
def _(box):
    project(box, rungs=100_000)
    done = go(box)
    as_typed(done, "running as typed")
    need(done.took < 15, f"{done.took:.1f} s")


@trial("13", "patterns that would take the machine's memory cost one warning")
def _(box):
    project(box, signs=2000)
    as_typed(go(box), "running as typed")


@trial("13", "sizes that overflow a sum are no estimate that fits")
def _(box):
    lies = ladders([smaller()], sizes=((1 << 63) - 1, 1 << 29))
    lies["phases"][0]["rungs"][0]["estimates"][0]["items"] = [item((1 << 63) - 1), item((1 << 63) - 1), item(1 << 20)]
    project(box, ladders=lies)
    as_typed(go(box), "running as typed")


@trial("13", "a batch that no machine has costs one warning")
def _(box):
    project(box, job=job(batch={"micro": 1 << 62, "accumulation": 1 << 62, "ranks": 7}))
    as_typed(go(box), "running as typed")


@trial("13", "a zero byte in an edit costs the plugin and not the training")
def _(box):
    project(box, ladders=ladders([smaller(to="a\0b")]))
    as_typed(go(box, flags=("--vram", "700MiB")), "running as typed")


@trial("13", "a variable whose name no environment can have costs the plugin and not the training")
def _(box):
    project(box, ladders=ladders([smaller(name="A=B")]))
    as_typed(go(box, flags=("--vram", "700MiB")), "running as typed")


@trial("13", "ten thousand warnings of a plugin's are a hundred")
def _(box):
    project(box, warnings=10_000)
    done = go(box)
    need(done.code == 0 and "ran" in done.out, repr(done))
    need(done.err.count("beware of") <= 200, f"{done.err.count('beware of')} lines")


@trial("13", "a plugin that panics while it prices costs one warning")
def _(box):
    project(box, price="panic no such layer")
    done = go(box)
    as_typed(done, "no such layer")


@trial("13", "a manifest that is out of proportion is no plugin's")
def _(box):
    project(box)
    path = box.plugin("evil", trusted=False, manifest={"name": "evil", "about": "x" * 100_000, "marks": [
        {"script": "evil.py", "beside": ["../../etc/passwd"]}]})
    done = box.launch("plugins", "trust", path)
    need(done.code == 125 and "its name, version and line about itself have" in done.err and len(done.err) < 1000, repr(done))
    as_typed(go(box))


@trial("13", "an answer of twenty megabytes costs one warning")
def _(box):
    project(box, job=job(name="x" * (20 << 20)))
    as_typed(go(box), "running as typed")
