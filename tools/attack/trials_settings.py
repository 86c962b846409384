"""Points 1, 3 and 14: which settings are believed, where launch's own folders lie, and what reaches a terminal or a record."""
import json, os, re, stat, time

from box import PYTHON, need, trial

THESIS = "the only copy of a thesis\n"


def thesis(box, path="home/thesis.json"):
    return box.write(path, THESIS)


def whole(box, done, path="home/thesis.json"):
    need(box.read(path) == THESIS, f"{path} was overwritten: {done}")


def ran(done, code=3):
    """The command ran, to its own code."""
    need(done.code == code, f"not the program's code {code}: {done}")


def once(done, words):
    """One note says so."""
    notes = [line for line in done.err.splitlines() if line.startswith("launch:")]
    need(len(notes) == 1 and words in notes[0], f"not one note with {words!r}: {done}")


def clean(text, allowed=()):
    for sequence in allowed:
        text = text.replace(sequence, "")
    found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    need(not found, f"{found and found.group()!r} reached a person: {text!r}")


def forged(text, words):
    need(not any(line.startswith(words) for line in text.splitlines()), f"a forged line: {text!r}")


def shared(box):
    """The shared temporary folder, the other's settings file in it, and a folder of the victim's below it."""
    return box.mkdir("tmp/mine"), "tmp/.launch.yaml"


EXIT3 = ["sh", "-c", "exit 3"]
OOM = [PYTHON, "train.py", "--batch-size", "32", "--fits", "16", "--said", "said.json", "--save-every", "0"]


def recovered(box, done, folder="work"):
    need(done.code == 0 and "attempt 2" in done.err, f"it did not go on at a smaller micro-batch: {done}")
    said = json.loads(box.read(f"{folder}/said.json"))
    need(said["batch_size"] <= 16, f"the program was told {said}: {done}")


def as_typed(box, done, words, folder="work"):
    """The out-of-memory of a project that launch knows is the program's own, once."""
    need(done.code == 1, repr(done))
    need("attempt 2" not in done.err and not os.path.exists(box.path(folder, "said.json")), f"it was changed and tried again: {done}")
    need(words in done.err, f"no note of it: {done}")


# 1. Which settings files are believed.


@trial("1", "another's .launch.yaml in the shared temporary folder names no file to overwrite", second=True)
def _(box):
    mine, theirs = shared(box)
    target = thesis(box)
    box.write(theirs, f"json-file: {target}\n", who="other")
    done = box.launch("--", *EXIT3, cwd="tmp/mine")
    whole(box, done)
    ran(done)


@trial("1", "another's .launch.yaml in the shared temporary folder: a plan writes nothing", second=True)
def _(box):
    box.trainer("tmp/mine")
    target = thesis(box)
    box.write("tmp/.launch.yaml", f"json-file: {target}\n", who="other")
    done = box.launch("plan", "--", PYTHON, "train.py", "--batch-size", "8", cwd="tmp/mine")
    whole(box, done)
    ran(done, 0)


@trial("1", "another's FIFO named .launch.yaml above the project hangs nothing", second=True)
def _(box):
    mine, theirs = shared(box)
    box.as_("other", lambda: os.mkfifo(box.path(theirs)))
    done = box.launch("--", *EXIT3, cwd="tmp/mine", seconds=5)
    ran(done)


@trial("1", "another's FIFO named .launch.yaml in the very folder hangs nothing, and is reported", second=True)
def _(box):
    box.mkdir("theirs", who="other")
    box.as_("other", lambda: os.mkfifo(box.path("theirs/.launch.yaml")))
    done = box.launch("--", *EXIT3, cwd="theirs", seconds=5)
    ran(done)
    once(done, "theirs/.launch.yaml")


@trial("1", "in a folder of another's, that one's .launch.yaml is not believed", second=True)
def _(box):
    target = thesis(box)
    box.write("theirs/.launch.yaml", f"json-file: {target}\n", who="other")
    done = box.launch("--", *EXIT3, cwd="theirs")
    whole(box, done)
    ran(done)
    once(done, "theirs/.launch.yaml")


@trial("1", "a link of another's to a settings file of one's own is not believed", second=True)
def _(box):
    target = thesis(box)
    box.write("home/other project/.launch.yaml", f"json-file: {target}\n")
    box.mkdir("theirs", who="other")
    box.as_("other", lambda: os.symlink(box.path("home/other project/.launch.yaml"), box.path("theirs/.launch.yaml")))
    done = box.launch("--", *EXIT3, cwd="theirs")
    whole(box, done)
    ran(done)
    once(done, "theirs/.launch.yaml")


@trial("1", "a file of one's own that all can write, rewritten by another, is not believed", second=True)
def _(box):
    target = thesis(box)
    path = box.write("work/.launch.yaml", "quiet: true\n", mode=0o666)

    def rewrite():
        with open(path, "w") as f:
            f.write(f"json-file: {target}\n")
    box.as_("other", rewrite)
    done = box.launch("--", *EXIT3)
    whole(box, done)
    ran(done)
    once(done, "can be written by every user")


@trial("1", "in an open folder of one's own, a file that another put in place of one's own is not believed", second=True)
def _(box):
    target = thesis(box)
    box.mkdir("open", mode=0o777)
    path = box.write("open/.launch.yaml", "quiet: true\n")

    def replace():
        with open(path + ".new", "w") as f:
            f.write(f"json-file: {target}\n")
        os.rename(path + ".new", path)
    box.as_("other", replace)
    done = box.launch("--", *EXIT3, cwd="open")
    whole(box, done)
    ran(done)
    once(done, "open/.launch.yaml")


@trial("1", "another's .git in the shared temporary folder does not lead the search to that one's settings, nor stop a recovery", second=True)
def _(box):
    box.trainer("tmp/mine")
    target = thesis(box)
    box.mkdir("tmp/.git", who="other")
    box.write("tmp/.launch.yaml", f"json-file: {target}\nallow: none\n", who="other")
    done = box.launch("--", *OOM, cwd="tmp/mine")
    whole(box, done)
    recovered(box, done, "tmp/mine")


@trial("1", "another's .launch.yaml above lets launch change no experiment", second=True)
def _(box):
    box.trainer("tmp/mine", accumulation=None, rungs="[{name: short, at: --steps, to: 1, cost: recipe}]", micro_batch="--accum")
    box.write("tmp/.launch.yaml", "allow: recipe\n", who="other")
    done = box.launch("--", PYTHON, "train.py", "--accum", "1", "--batch-size", "32", "--fits", "16", cwd="tmp/mine")
    need(done.code == 1 and "steps" not in done.err and "short" not in done.err.replace("costs recipe", "").split("next change:")[0], f"the experiment was changed: {done}")


@trial("1", "another's .launch.yaml above puts no limit on the program's memory", second=True)
def _(box):
    shared(box)
    box.write("tmp/.launch.yaml", "device: cpu\nmemory: 100MiB\n", who="other")
    done = box.launch("--", PYTHON, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0])", cwd="tmp/mine")
    need(done.code == 0 and done.out.strip() == "-1", f"the program is limited: {done}")


@trial("1", "another's .launch.yaml above does not lead the victim's records to that one", second=True)
def _(box):
    shared(box)
    box.mkdir("tmp/loot", who="other", mode=0o777)
    box.write("tmp/.launch.yaml", f"state-dir: {box.path('tmp/loot')}\n", who="other")
    done = box.launch("--", "sh", "-c", "exit 3 # a command that is nobody's business", cwd="tmp/mine")
    need(os.listdir(box.path("tmp/loot")) == [], f"it was recorded there: {done}")
    need(len(box.runs()) == 1, "it is recorded nowhere")
    ran(done)


@trial("1", "a settings file of one's own in the shared temporary folder itself is not believed", second=True)
def _(box):
    target = thesis(box)
    box.write("tmp/.launch.yaml", f"json-file: {target}\n")
    done = box.launch("--", *EXIT3, cwd="tmp")
    whole(box, done)
    ran(done)
    once(done, "tmp/.launch.yaml")


@trial("1", "config.yaml in a folder of the user's that another can write is not believed", second=True)
def _(box):
    target = thesis(box)
    os.chmod(box.home, 0o755)
    box.mkdir("home/.config/launch", mode=0o777)

    def write():
        with open(box.path("home/.config/launch/config.yaml"), "w") as f:
            f.write(f"json-file: {target}\n")
    box.as_("other", write)
    done = box.launch("--", *EXIT3)
    whole(box, done)
    ran(done)
    once(done, "config.yaml")


@trial("1", "an XDG_CONFIG_HOME of another's gives no settings", second=True)
def _(box):
    target = thesis(box)
    box.write("theirs/launch/config.yaml", f"json-file: {target}\nallow: recipe\n", who="other")
    done = box.launch("--", *EXIT3, env={"XDG_CONFIG_HOME": box.path("theirs")})
    whole(box, done)
    ran(done)
    once(done, "config.yaml")


@trial("1", "a list of trusted files that another wrote approves nothing", second=True)
def _(box):
    import hashlib
    target = thesis(box)
    text = f"json-file: {target}\n"
    path = box.write("work/.launch.yaml", text)
    box.mkdir("home/.config/launch", mode=0o777)
    os.chmod(box.home, 0o755)

    def approve():
        with open(box.path("home/.config/launch/trusted.json"), "w") as f:
            json.dump([{"path": path, "sha256": hashlib.sha256(text.encode()).hexdigest()}], f)
    box.as_("other", approve)
    done = box.launch("--", *EXIT3)
    whole(box, done)
    ran(done)


@trial("1", "a file that another changed after launch trust is believed no longer", second=True)
def _(box):
    target = thesis(box)
    path = box.write("work/.launch.yaml", "quiet: true\n", mode=0o666)
    box.launch("trust")

    def rewrite():
        with open(path, "w") as f:
            f.write(f"json-file: {target}\n")
    box.as_("other", rewrite)
    done = box.launch("--", *EXIT3)
    whole(box, done)
    ran(done)


@trial("1", "another's .launch-job.yaml beside one's own script decides nothing", second=True)
def _(box):
    box.mkdir("open", mode=0o1777)
    box.trainer("scratch")
    box.copy(box.path("scratch/train.py"), "open/train.py")
    box.write("open/.launch-job.yaml", box.read("scratch/.launch-job.yaml"), who="other")
    done = box.launch("--", *OOM, cwd="open")
    as_typed(box, done, "open/.launch-job.yaml", "open")


@trial("1", "another's FIFO named .launch-job.yaml costs no time", second=True)
def _(box):
    box.mkdir("open", mode=0o1777)
    box.trainer("scratch")
    box.copy(box.path("scratch/train.py"), "open/train.py")
    box.as_("other", lambda: os.mkfifo(box.path("open/.launch-job.yaml")))
    done = box.launch("--", PYTHON, "train.py", "--steps", "1", cwd="open", seconds=20)
    ran(done, 0)
    need(done.took < 4, f"it took {done.took:.1f} s: {done}")
    need(".launch-job.yaml" in done.err, f"no note of it: {done}")


@trial("1", "another's .launch.yaml of 1 GiB is not read", second=True)
def _(box):
    box.mkdir("theirs", who="other")

    def large():
        with open(box.path("theirs/.launch.yaml"), "w") as f:
            f.truncate(1 << 30)
    box.as_("other", large)
    done = box.launch("--", *EXIT3, cwd="theirs", seconds=10)
    ran(done)
    once(done, "theirs/.launch.yaml")


@trial("1", "a cloned repository's .launch.yaml lets not even a plan write")
def _(box):
    box.trainer()
    box.mkdir("work/.git")
    target = thesis(box)
    box.write("work/.launch.yaml", f"json-file: {target}\n")
    done = box.launch("plan", "--", PYTHON, "train.py", "--batch-size", "8")
    whole(box, done)
    need(done.code == 0 and "launch trust" in done.out, f"no note of it: {done}")


@trial("1", "a project's file names paths and lowers limits only after launch trust, and only as it was then")
def _(box):
    box.write("work/.launch.yaml", "json-file: out.json\ngrace: 5s\n")
    done = box.launch("--", *EXIT3)
    ran(done)
    need(not os.path.exists(box.path("work/out.json")), f"it was taken before: {done}")
    need("grace" in done.err and "json-file" in done.err, f"no note of it: {done}")
    trust = box.launch("trust")
    need(trust.code == 0 and "json-file: out.json" in trust.out, repr(trust))
    ran(box.launch("--", *EXIT3))
    need(os.path.exists(box.path("work/out.json")), "it is not taken after launch trust")
    os.remove(box.path("work/out.json"))
    box.write("work/.launch.yaml", "json-file: out.json\ngrace: 1s\n")
    ran(box.launch("--", *EXIT3))
    need(not os.path.exists(box.path("work/out.json")), "a changed file is still trusted")


@trial("1", "settings that cannot be read change nothing: they may have held allow: none")
def _(box):
    box.trainer()
    box.write("work/.launch.yaml", "allow: none\n", mode=0o000)
    as_typed(box, box.launch("--", *OOM), "work/.launch.yaml")


@trial("1", "a folder named .launch.yaml changes nothing of a training, and of the code")
def _(box):
    box.trainer()
    box.mkdir("work/.launch.yaml")
    as_typed(box, box.launch("--", *OOM), "work/.launch.yaml")
    done = box.launch("-q", "--", *EXIT3)
    ran(done)
    once(done, "is a folder")


@trial("1", "a .launch-job.yaml of 1 GiB costs no time, and the command runs")
def _(box):
    box.trainer()
    os.truncate(box.path("work/.launch-job.yaml"), 1 << 30)
    done = box.launch("--", PYTHON, "train.py", "--steps", "1", seconds=20)
    ran(done, 0)
    need(done.took < 4 and ".launch-job.yaml" in done.err, f"took {done.took:.1f} s: {done}")


@trial("1", "a file above the home folder is not the user's, even if root's")
def _(box):
    box.mkdir("home/project")
    target = thesis(box)
    box.write(".launch.yaml", f"json-file: {target}\nmemory: 100MiB\n", who="root")
    done = box.launch("--", *EXIT3, cwd="home/project")
    whole(box, done)
    ran(done)
    need("launch:" not in done.err, repr(done))


@trial("1", "the search ends at the repository's root, of a worktree too")
def _(box):
    box.mkdir("work/repo/sub")
    box.write("work/repo/.git", "gitdir: elsewhere\n")
    target = thesis(box)
    box.write("work/.launch.yaml", f"json-file: {target}\n")
    box.write("work/repo/.launch.yaml", "alow: none\n")
    done = box.launch("--", *EXIT3, cwd="work/repo/sub")
    ran(done, 125)  # a wrong value in a file that is believed
    need("repo/.launch.yaml" in done.err and "alow" in done.err, repr(done))
    os.remove(box.path("work/repo/.launch.yaml"))
    done = box.launch("--", *EXIT3, cwd="work/repo/sub")
    whole(box, done)
    ran(done)


@trial("1", "what the user says counts beside a file that is not believed")
def _(box):
    box.write("work/.launch.yaml", "allow: none\n", mode=0o666)
    done = box.launch("--", *EXIT3, env={"LAUNCH_JSON_FILE": "mine.json"})
    ran(done)
    need(json.loads(box.read("work/mine.json"))["exit_code"] == 3, repr(done))
    once(done, "work/.launch.yaml")


# 3. Where launch's own folders lie.

PYTHON_PROJECT = {"micro-batch": "{config.py: BATCH}", "accumulation": "{config.py: ACCUM}"}


def python_project(box):
    """A project whose settings stand in Python source, which an edited copy is served in place of."""
    box.trainer(**{k.replace("-", "_"): v for k, v in PYTHON_PROJECT.items()})
    box.write("work/config.py", "BATCH = 32\nACCUM = 1\n")
    text = box.read("work/train.py").replace("a = p.parse_args()", "a = p.parse_args()\nimport config\na.batch_size, a.accum = config.BATCH, config.ACCUM")
    box.write("work/train.py", text)
    return [PYTHON, "train.py", "--fits", "16", "--said", "said.json", "--save-every", "0"]


@trial("3", "a relative --state-dir is one folder: settings in Python source arrive")
def _(box):
    command = python_project(box)
    recovered(box, box.launch("--state-dir", "state", "--", *command))


@trial("3", "a colon in --state-dir breaks nothing: settings in Python source arrive, and nothing is left among temporary files")
def _(box):
    command = python_project(box)
    recovered(box, box.launch("--state-dir", box.path("home/a:b"), "--inside", "--", *command))
    need(os.listdir(box.tmp) == [], f"left: {os.listdir(box.tmp)}")


@trial("3", "blanks and quotes in a relative --state-dir break nothing")
def _(box):
    command = python_project(box)
    recovered(box, box.launch("--state-dir", "it's a $HOME", "--inside", "--", *command))
    need(os.path.isdir(box.path("work/it's a $HOME/runs")), "it lies elsewhere")


@trial("3", "launch resume finds a relative state folder from another folder than the run's")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--state-dir", "../home/elsewhere", "--", PYTHON, "train.py", "--slow", "0.3", "--steps", "6"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.kill()
    box.finish(p)
    time.sleep(1)  # the keeper ends the program
    done = box.launch("--state-dir", "elsewhere", "resume", "last", cwd="home")
    need(done.code == 0 and "training is over" in done.out, repr(done))


@trial("3", "state-dir in config.yaml is relative to that file, wherever launch is started")
def _(box):
    box.write("home/.config/launch/config.yaml", "state-dir: state\n")
    box.mkdir("work/sub")
    ran(box.launch("--", *EXIT3))
    ran(box.launch("--", *EXIT3, cwd="work/sub"))
    need(len(box.runs(box.path("home/.config/launch/state"))) == 2, f"{box.tree('.')}")


def without(box, tmpdir):
    box.trainer()
    recovered(box, box.launch("--", *OOM, env={"TMPDIR": tmpdir}))


@trial("3", "a TMPDIR that is missing costs nothing")
def _(box):
    without(box, box.path("nowhere"))


@trial("3", "a TMPDIR that cannot be written costs nothing")
def _(box):
    box.mkdir("closed", mode=0o555)
    without(box, box.path("closed"))


@trial("3", "a TMPDIR longer than a socket's name costs nothing")
def _(box):
    without(box, box.mkdir("/".join(["long" * 10] * 3)))


@trial("3", "a TMPDIR that is a file costs nothing")
def _(box):
    without(box, box.write("file", ""))


@trial("3", "in a TMPDIR of another's, launch makes no folder that could be replaced", second=True)
def _(box):
    box.trainer()
    top = box.mkdir("theirs", who="other", mode=0o777)
    watch = box.start([PYTHON, "-c", f"import os\nwhile True:\n    for n in os.listdir({top!r}):\n        if n.startswith('launch'):\n            print(n, flush=True)\n            raise SystemExit"], who="other")
    done = box.launch("--", *OOM, env={"TMPDIR": top})
    time.sleep(0.1)
    seen = watch.poll() is not None
    watch.kill()
    recovered(box, done)
    need(not seen, "it made a folder there")


# 14. What reaches a terminal, and what a record.

EVIL = "x\x1b[2J\x1b]0;title\x07\x9b31m\u202e\x7f\r"
LINE = "\nlaunch: succeeded in 1 s"


@trial("14", "the name of a program carries no escape sequence into an error, and forges no line")
def _(box):
    done = box.launch("--", EVIL + LINE)
    ran(done, 127)
    clean(done.err)
    forged(done.err, "launch: succeeded")


@trial("14", "the folder of a project carries none into a plan")
def _(box):
    box.trainer("work/" + EVIL + LINE.strip())
    done = box.launch("plan", "--", PYTHON, "train.py", "--batch-size", "8", cwd="work/" + EVIL + LINE.strip())
    ran(done, 0)
    need("declared in" in done.out, repr(done))
    clean(done.out)


@trial("14", "another's folder carries none into what launch reports of its settings", second=True)
def _(box):
    name = "theirs" + EVIL + LINE
    box.write(name + "/.launch.yaml", "alow: none\n", who="other")
    done = box.launch("--", *EXIT3, cwd=name)
    clean(done.err)
    forged(done.err, "launch: succeeded")
    ran(done)


@trial("14", "another's log carries none into launch explain", second=True)
def _(box):
    word = "fo\u009b31mrward\u202e\x7f"
    box.write("theirs/log.txt", f"Traceback (most recent call last):\n  File \"/x/{word}.py\", line 3, in {word}\n    y = {word}(x)\ntorch.OutOfMemoryError: CUDA out of memory. "
              f"Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which 1.00 GiB is free. {word}\n", who="other")
    done = box.launch("explain", box.path("theirs/log.txt"))
    need("2.00 GiB" in done.out, repr(done))
    clean(done.out + done.err)


@trial("14", "another's log named with a line break forges no line of launch explain", second=True)
def _(box):
    path = box.write("theirs/log" + LINE, "nothing\n", who="other", mode=0o600)
    done = box.launch("explain", path)
    clean(done.out + done.err)
    forged(done.out + done.err, "launch: succeeded")


@trial("14", "a recorded command carries none into launch runs and show, and forges no row")
def _(box):
    done = box.launch("--", "sh", "-c", "exit 3", EVIL + "\n20990101-000000.000-0000  succeeded")
    ran(done)
    for command in ("runs", "show"):
        done = box.launch(command)
        ran(done, 0)
        clean(done.out)
        forged(done.out, "20990101")


@trial("14", "JSON for scripts has them as escapes, on standard output and in --json-file")
def _(box):
    ran(box.launch("--json-file", "r.json", "--", "sh", "-c", "exit 3", "\u009b2J\x7f\u202e"))
    done = box.launch("runs", "--json")
    clean(done.out)
    need(json.loads(done.out)[0]["command"][-1] == "\u009b2J\x7f\u202e", repr(done))
    clean(box.read("work/r.json"))


@trial("14", "a mistyped flag, a run that is none and a setting's value carry none into errors")
def _(box):
    for args in (["--\x1b[31mflag", "--", "true"], ["show", "\x1b[2J\u009b1m"], ["--allow", "\x1b]0;x\x07none", "--", "true"], ["trust", "\x1b[2J"]):
        done = box.launch(*args)
        ran(done, 125)
        clean(done.err)


@trial("14", "the words of a plugin that fails carry none")
def _(box):
    box.write("home/.local/share/launch/plugins/launch-plugin-evil", "#!/bin/sh\nprintf 'cannot \\033[2J\\302\\23331m start\\n\\033]0;x\\007' >&2\nexit 1\n", mode=0o755)
    done = box.launch("plugins", "trust", "evil", seconds=15)
    ran(done, 125)
    need("evil" in done.err, repr(done))
    clean(done.out + done.err)


@trial("14", "on a terminal only launch's own colours are seen")
def _(box):
    done = box.terminal([box.binary, "--", "no\x1b[31msuch\x1b[5m"])
    ran(done, 127)
    clean(done.out, allowed=["\x1b[0m", "\x1b[1m", "\x1b[33m", "\r"])


@trial("14", "the program's own output is passed byte for byte, escapes and all")
def _(box):
    p = box.start([box.binary, "--", "printf", "\\033[31m\\233\\302\\233\\177\\000\\r\\n"])
    out, err = p.communicate(timeout=20)
    need(out == b"\x1b[31m\x9b\xc2\x9b\x7f\x00\r\n", repr((out, err)))


def recorded(box, *command, secret="hunter2"):
    done = box.launch("--json-file", "r.json", "--", *command)
    ran(done)
    for folder, _, names in os.walk(box.state):
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                need(secret.encode() not in f.read(), f"{name} has the secret: {done}")
    need(secret not in box.read("work/r.json"), "--json-file has the secret")
    shown = box.launch("show")
    need(secret not in shown.out, repr(shown))
    return box.runs()[-1][0]["args"]


@trial("14", "secrets are not recorded: --pw, --header, -H, *_KEY and *_TOKEN")
def _(box):
    for words in (["--pw", "hunter2"], ["--header=Authorization: Bearer hunter2"], ["-H", "authorization: Basic hunter2"], ["MY_KEY=hunter2"], ["GH_TOKEN=hunter2 and more"], ["--wandb-key", "hunter2"]):
        recorded(box, *EXIT3, *words)


@trial("14", "secrets in the script of a shell are not recorded")
def _(box):
    recorded(box, "sh", "-c", "cd . && TOKEN=hunter2 true --pw 'hunter2 too'; export A_KEY=hunter2; sh -c 'B_TOKEN=hunter2 true'; exit 3")


@trial("14", "options that are no secrets are recorded as they are: -p 10, --token-size, --key-frames, --pad-token")
def _(box):
    words = ["-p", "10", "--print-freq", "10", "--token-size", "4", "--key-frames", "3", "--max-tokens", "100", "--pad-token", "0", "--tokenizer", "bert", "--image-key", "jpg"]
    done = recorded(box, *EXIT3, *words)
    need(done[3:] == words, f"recorded as {done[3:]}")


@trial("14", "a run whose secret was not recorded goes on when its command is given again, and not with another command")
def _(box):
    box.trainer()
    text = box.read("work/train.py").replace('p.add_argument("--accum"', 'p.add_argument("--pw")\np.add_argument("--accum"')
    box.write("work/train.py", text)
    command = [PYTHON, "train.py", "--batch-size", "8", "--pw", "hunter2", "--steps", "6", "--slow", "0.3"]
    p = box.start([box.binary, "--", *command])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.kill()
    box.finish(p)
    time.sleep(1)  # the keeper ends the program
    done = box.launch("resume", "last", "--", *[w.replace("6", "7") for w in command])
    need(done.code == 125 and '"7"' in done.err and '"6"' in done.err and "hunter2" not in done.err, f"another command: {done}")
    done = box.launch("resume", "last", "--", *command)
    need(done.code == 0 and "resumed at step" in done.out and "training is over" in done.out, repr(done))
