"""Points 2, 4, 5 and F's room: where launch keeps its records, who carries a run, and what memory is promised to whom."""
import hashlib, json, os, signal, stat, subprocess, time

from box import PYTHON, need, trial


def uid(box, who="victim"):
    return box.uid(who)


def shared(box):
    """The state folder of a victim without a home, in the shared temporary folder."""
    return f"tmp/launch-{uid(box)}"


def homeless(box):
    return {"HOME": None}


def run_folders(box, state):
    top = os.path.join(box.path(state), "runs")
    return [os.path.join(top, name) for name in sorted(os.listdir(top))] if os.path.isdir(top) else []


def example(box, folder="work"):
    """A training whose experiment is locked: examples/sisr with a trainer that only sleeps. Its experiment's folder is
    made when it begins."""
    box.write(f"{folder}/train.py", """import os, sys, time
os.makedirs("experiments/tiny/training_states", exist_ok=True)
print("Start training from epoch: 0, iter: 0", flush=True)
open("begun", "a").write("x")
while not os.path.exists("end"):
    time.sleep(0.02)
print("End of training. Time consumed: 0:00:01")
""")
    box.write(f"{folder}/x.yml", """name: tiny
scale: 2
num_gpu: 1
datasets:
  train: {type: pairedimagedataset, dataroot_gt: gt, dataroot_lq: lq, lq_size: 16, batch_size_per_gpu: 4, accum_iter: 1, num_worker_per_gpu: 0}
network_g: {type: compact}
path: {}
train:
  total_iter: 100
  optim_g: {type: AdamW, lr: !!float 2e-4}
  losses:
    - {type: l1loss, loss_weight: 1.0}
val: {val_enabled: false}
""")
    return ["--", PYTHON, "train.py", "-opt", "x.yml"]


# ---------------------------------------------------------------------------------------------------------------- 2


@trial("2", "a state folder in the shared temporary folder that another account made is not used", second=True)
def _(box):
    box.mkdir(shared(box), who="other", mode=0o777)
    box.mkdir(shared(box) + "/runs", who="other", mode=0o777)
    done = box.launch("--", "sh", "-c", "echo secret; exit 3", env=homeless(box))
    need(done.code == 3 and done.out == "secret\n", repr(done))
    need(run_folders(box, shared(box)) == [], "the run was recorded in another account's folder")
    need("launch: " in done.err and shared(box) in done.err, f"nothing warns of it: {done}")


@trial("2", "a link in locks/ does not truncate the file that it leads to", second=True)
def _(box):
    command = example(box)
    box.write("work/end", "")
    thesis = box.write("home/thesis", "three years")
    box.mkdir(shared(box), who="other", mode=0o777)
    locks = box.mkdir(shared(box) + "/locks", who="other", mode=0o777)
    name = hashlib.sha256(box.path("work/experiments/tiny").encode()).digest()[:8].hex()
    box.as_("other", lambda: os.symlink(thesis, os.path.join(locks, name)))
    done = box.launch(*command, env=homeless(box))
    need(box.read("home/thesis") == "three years", f"the thesis is now {box.read('home/thesis')!r}")
    need(done.code == 0, repr(done))


@trial("2", "the Python hook of --inside is run from no folder that another account can exchange", second=True)
def _(box):
    box.mkdir(shared(box), who="other", mode=0o777)
    box.mkdir(shared(box) + "/runs", who="other", mode=0o777)
    runs = box.path(shared(box), "runs")
    victim = box.start([box.binary, "--inside", "--", "sh", "-c", f"touch started; while [ ! -e go ]; do sleep 0.05; done; {PYTHON} -c pass"], env=homeless(box))
    box.wait(lambda: os.path.exists(box.path("work/started")))
    evil = f"open({box.path('tmp/proof')!r}, 'w').write(str(__import__('os').getuid()))\n"

    def swap():
        for run in os.listdir(runs):
            attempt = os.path.join(runs, run)
            os.rename(attempt, attempt + "-away")
            os.makedirs(os.path.join(attempt, "attempt-1", "site"))
            os.chmod(attempt, 0o755)
            with open(os.path.join(attempt, "attempt-1", "site", "sitecustomize.py"), "w") as f:
                f.write(evil)

    box.as_("other", swap)
    box.write("work/go", "")
    done = box.finish(victim)
    need(not os.path.exists(box.path("tmp/proof")), "another account's code was run as the victim")
    need(done.code == 0, repr(done))


@trial("2", "a link in place of the state folder is not followed", second=True)
def _(box):
    box.mkdir("home/.ssh", mode=0o700)
    state = box.path(shared(box))
    box.as_("other", lambda: os.symlink(box.path("home/.ssh"), state))
    before = box.tree("home")
    done = box.launch("--", "sh", "-c", "exit 3", env=homeless(box))
    need(box.tree("home") == before, "something was written through another account's link")
    need(done.code == 3, repr(done))


@trial("2", "a state folder of the victim's own in the temporary folder is used, without a warning")
def _(box):
    done = box.launch("--", "sh", "-c", "exit 3", env=homeless(box))
    need(done.code == 3 and done.err == "", repr(done))
    again = box.launch("--", "sh", "-c", "exit 4", env=homeless(box))
    need(again.code == 4 and again.err == "", repr(again))
    need(len(run_folders(box, shared(box))) == 2, f"there are {run_folders(box, shared(box))}")
    need(stat.S_IMODE(os.stat(box.path(shared(box))).st_mode) == 0o700, "others may read it")


@trial("2", "records planted by another account are not listed as the victim's", second=True)
def _(box):
    name = "20260101-000000.000-beef"
    folder = box.mkdir(f"{shared(box)}/runs/{name}", who="other", mode=0o755)
    box.write(f"{shared(box)}/runs/{name}/events.jsonl", json.dumps({"v": 1, "time": "2026-01-01T00:00:00Z", "event": "followed", "args": ["planted"]}) + "\n", who="other")
    done = box.launch("runs", env=homeless(box))
    need("planted" not in done.out, repr(done))


@trial("2", "receipts planted by another account teach nothing", second=True)
def _(box):
    box.write(f"{shared(box)}/receipts.jsonl", json.dumps({
        "v": 1, "run": "planted", "attempt": 1, "time": "2026-01-01T00:00:00Z", "ending": "succeeded", "job": {"plugin": "sisr", "phase": "training"},
        "machine": {"kind": "cpu"}, "predicted": {"items": [{"kind": "saved tensors", "what": "x", "bytes": 100}]},
        "measured": [{"is": "data", "bytes": 1 << 40, "from": "me"}]}) + "\n", who="other")
    done = box.launch("receipts", "--json", env=homeless(box))
    need("planted" not in done.out, repr(done))


@trial("2", "a cache of plugins that another account wrote is not believed, and not written to", second=True)
def _(box):
    box.write(f"{shared(box)}/plugins.json", "{}", who="other", mode=0o666)
    before = box.tree(shared(box))
    box.mkdir("home/bin")
    box.write("home/bin/launch-plugin-none", "#!/bin/sh\nexit 1\n", mode=0o755)
    done = box.launch("--", "sh", "-c", "exit 3", env={"HOME": None, "PATH": box.path("home/bin") + ":/usr/bin:/bin"})
    need(done.code == 3, repr(done))
    need(box.tree(shared(box)) == before, "another account's folder was changed")


@trial("2", "a HOME that belongs to another account keeps no record", second=True)
def _(box):
    box.mkdir("theirs", who="other", mode=0o777)
    done = box.launch("--", "sh", "-c", "exit 3", env={"HOME": box.path("theirs")})
    need(done.code == 3, repr(done))
    need(os.listdir(box.path("theirs")) == [], "records lie in another account's folder")


@trial("2", "HOME=/ of root in a container: the records lie in a folder of root's own, not at the root of the tree", root=True, victim="root")
def _(box):
    done = box.launch("--", "sh", "-c", "exit 3", env={"HOME": "/"})
    need(done.code == 3 and len(run_folders(box, "tmp/launch-0")) == 1, f"{run_folders(box, 'tmp/launch-0')} {done}")
    need(stat.S_IMODE(os.stat(box.path("tmp/launch-0")).st_mode) == 0o700, "others may read it")


@trial("2", "root with another account's HOME (sudo) leaves nothing of its own there", second=True, victim="root")
def _(box):
    box.mkdir("theirs", who="other", mode=0o755)
    done = box.launch("--", "sh", "-c", "exit 3", env={"HOME": box.path("theirs")})
    need(done.code == 3, repr(done))
    need(os.listdir(box.path("theirs")) == [], "root's records lie in another account's home")


@trial("2", "--state-dir below a folder that others can write to, and that is not sticky, is not used", second=True)
def _(box):
    box.mkdir("pool", who="other", mode=0o777)
    box.mkdir("pool/me", mode=0o700)
    done = box.launch("--state-dir", box.path("pool/me/state"), "--", "sh", "-c", "exit 3")
    need(done.code == 3 and "launch: " in done.err, repr(done))
    need(not os.path.exists(box.path("pool/me/state")), "records lie where another account can exchange them")


@trial("2", "XDG_STATE_HOME through another account's link is not used", second=True)
def _(box):
    box.mkdir("home/real", mode=0o700)
    box.as_("other", lambda: os.symlink(box.path("home/real"), box.path("tmp/state")))
    done = box.launch("--", "sh", "-c", "exit 3", env={"XDG_STATE_HOME": box.path("tmp/state")})
    need(done.code == 3 and os.listdir(box.path("home/real")) == [], repr(done))


@trial("2", "~/.local as a link of the user's own to a big disk is used as ever, without a warning")
def _(box):
    box.mkdir("big", mode=0o755)
    box.mkdir("big/me", mode=0o755)
    os.symlink(box.path("big/me"), box.path("home/.local"))
    box.own(box.path("home/.local"))
    done = box.launch("--", "sh", "-c", "exit 3")
    need(done.code == 3 and done.err == "", repr(done))
    need(len(run_folders(box, "big/me/state/launch")) == 1, "the run is not recorded there")


@trial("2", "--json-file through another account's link in a sticky folder changes nothing", second=True)
def _(box):
    thesis = box.write("home/thesis", "three years")
    box.as_("other", lambda: os.symlink(thesis, box.path("tmp/result.json")))
    done = box.launch("--json-file", box.path("tmp/result.json"), "--", "sh", "-c", "exit 3")
    need(box.read("home/thesis") == "three years", "the thesis was overwritten")
    need(done.code == 3, repr(done))


@trial("2", "launch plan --json-file through another account's link changes nothing", second=True)
def _(box):
    box.trainer()
    thesis = box.write("home/thesis", "three years")
    box.as_("other", lambda: os.symlink(thesis, box.path("tmp/result.json")))
    done = box.launch("plan", "--json-file", box.path("tmp/result.json"), "--", PYTHON, "train.py")
    need(box.read("home/thesis") == "three years", f"the thesis was overwritten: {done}")


@trial("2", "--json-file with another account's link as a folder on the way changes nothing", second=True)
def _(box):
    box.mkdir("home/papers", mode=0o755)
    box.write("home/papers/result.json", "three years")
    box.as_("other", lambda: os.symlink(box.path("home/papers"), box.path("tmp/out")))
    done = box.launch("--json-file", box.path("tmp/out/result.json"), "--", "sh", "-c", "exit 3")
    need(box.read("home/papers/result.json") == "three years", "it was overwritten")
    need(done.code == 3, repr(done))


@trial("2", "another account's FIFO as --json-file in a sticky folder does not hang launch", second=True)
def _(box):
    box.as_("other", lambda: (os.mkfifo(box.path("tmp/result.json")), os.chmod(box.path("tmp/result.json"), 0o666)))
    done = box.launch("--json-file", box.path("tmp/result.json"), "--", "sh", "-c", "exit 3", seconds=6)
    need(done.code == 3, f"it hung: {done}")


@trial("2", "launch receipts export through another account's link changes nothing", second=True)
def _(box):
    thesis = box.write("home/thesis", "three years")
    target = box.path("tmp/all.jsonl")
    box.as_("other", lambda: os.symlink(thesis, target))
    box.launch("receipts", "export", target)
    need(box.read("home/thesis") == "three years", "the thesis was overwritten")


@trial("2", "an account that makes and removes the state folder's name all the time never gets a record into its own", second=True)
def _(box):
    race = ("import os, sys\nwhile True:\n    for f in (lambda: os.mkdir(sys.argv[1], 0o777), lambda: os.chmod(sys.argv[1], 0o777), lambda: os.rmdir(sys.argv[1])):\n"
            "        try:\n            f()\n        except OSError:\n            pass\n")
    racer = box.start([PYTHON, "-c", race, box.path(shared(box))], who="other")
    for _i in range(12):
        done = box.launch("--", "sh", "-c", "exit 3", env=homeless(box))
        need(done.code == 3, repr(done))
        top = box.path(shared(box))
        try:
            mine = os.stat(top).st_uid == uid(box)
        except FileNotFoundError:
            continue
        if mine:  # then it cannot be taken away any more
            break
        need(not os.path.isdir(top + "/runs"), "a record lies in another account's folder")
    racer.kill()
    for name in os.listdir(box.tmp):
        info = os.stat(box.path("tmp", name))
        need(not (name.startswith("launch-") and info.st_uid != uid(box) and os.listdir(box.path("tmp", name))), f"{name} is another account's, and something lies in it")


@trial("2", "another account can read nothing of what is recorded, wherever that lies", second=True)
def _(box):
    os.chmod(box.home, 0o755)
    box.mkdir("home/bin")
    box.write("home/bin/launch-plugin-none", "#!/bin/sh\nexit 1\n", mode=0o755)
    command = ["sh", "-c", f"umask 0; exec {box.binary} --memory 64MiB -- sh -c 'echo s3cret; exit 3'"]
    need(box.run(command).code == 3 and box.run(command, env=homeless(box)).code == 3, "it did not run")
    places = [box.path("home/.local"), box.tmp]

    def look():
        found = []
        for place in places:
            for folder, _dirs, names in os.walk(place):
                for name in names:
                    try:
                        with open(os.path.join(folder, name), "rb") as f:
                            f.read(1)
                        found.append(os.path.join(folder, name))
                    except OSError:
                        pass
        return " ".join(found)

    read = box.as_("other", look)
    need(read == "", f"it can read {read}")


@trial("2", "--json-file through a link of the user's own is written to what the link leads to")
def _(box):
    box.write("work/real.json", "old")
    os.symlink("real.json", box.path("work/link.json"))
    box.own(box.path("work/link.json"))
    done = box.launch("--json-file", "link.json", "--", "sh", "-c", "exit 3")
    need(json.loads(box.read("work/real.json"))["exit_code"] == 3 and os.path.islink(box.path("work/link.json")), repr(done))


# ---------------------------------------------------------------------------------------------------------------- 4


def begin(box, *launch, more=(), **where):
    """Starts a run that goes on until work/end is there; returns its process once the program runs."""
    p = box.start([box.binary, *more, "--", "sh", "-c", "echo x >> begun; while [ ! -e end ]; do sleep 0.05; done"], **where)
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    return p


def listed(box, **more):
    done = box.launch("runs", "--json", **more)
    return json.loads(done.out)


@trial("4", "a run whose launch was killed is cut off, though a process of its number is there (another container's)")
def _(box):
    p = begin(box)
    p.send_signal(signal.SIGKILL)
    p.wait()
    box.write("work/end", "")
    for folder in run_folders(box, box.state):  # as a record of a container shows on its host: process 1 is there
        path = os.path.join(folder, "events.jsonl")
        lines = open(path).read().replace(f'"pid":{p.pid}', '"pid":1')
        open(path, "w").write(lines)
    state = listed(box)[0]["state"]
    need(state == "cut off", f"it is listed as {state}")


@trial("4", "a run that was killed in a PID namespace of its own can be resumed on the host", root=True, victim="root")
def _(box):
    box.trainer()
    inner = ["unshare", "--pid", "--fork", "--mount-proc", box.binary, "-q", "--", PYTHON, "train.py", "--steps", "300", "--slow", "0.02"]
    p = box.start(inner)
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    record = json.loads(open(os.path.join(run_folders(box, box.state)[0], "events.jsonl")).readline())
    need(record["pid"] < 50, "the namespace has its own numbers")
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    end = time.time() + 5  # the kernel takes its time to end what was in the namespace
    while (state := listed(box)[0]["state"]) != "cut off" and time.time() < end:
        time.sleep(0.1)
    need(state == "cut off", f"it is listed as {state}: process {record['pid']} is another here")
    done = box.launch("resume", "last", seconds=30)
    need("still" not in done.err, repr(done))


@trial("4", "a program that outlives its killed launch does not keep the run alive")
def _(box):
    p = box.start([box.binary, "--", "sh", "-c", "setsid sleep 20 > /dev/null 2>&1 & echo x > begun; sleep 20"])
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    state = listed(box)[0]["state"]
    need(state == "cut off", f"it is listed as {state}")


@trial("4", "a run that is carried is listed as running, from another PID namespace too", root=True, victim="root")
def _(box):
    p = begin(box)
    done = box.run(["unshare", "--pid", "--fork", "--mount-proc", box.binary, "runs", "--json"])
    box.write("work/end", "")
    box.finish(p)
    state = json.loads(done.out)[0]["state"]
    need(state == "running", f"it is listed as {state}")


@trial("4", "a run that is carried is not resumed by a second launch: 75, and who has it")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "200", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    done = box.launch("resume", "last")
    p.terminate()
    box.finish(p)
    need(done.code == 75 and str(p.pid) in done.err, repr(done))


@trial("4", "of two resumes of one run at the same time one is refused")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "60", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    time.sleep(0.5)
    two = [box.start([box.binary, "resume", "last"]) for _ in range(2)]
    done = [box.finish(q, 30) for q in two]
    codes = sorted(d.code for d in done)
    need(codes[0] == 0 and codes[1] in (75, 125), f"{done}")
    resumed = [e for e in box.runs()[-1] if e["event"] == "resumed"]
    need(len(resumed) == 1, f"the record was taken up {len(resumed)} times")


@trial("4", "a record whose process number is another program's does not block its resume")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "40", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    sleeper = box.start(["sleep", "30"])
    path = os.path.join(run_folders(box, box.state)[0], "events.jsonl")
    lines = open(path).read().replace(f'"pid":{p.pid}', f'"pid":{sleeper.pid}')
    open(path, "w").write(lines)
    time.sleep(0.3)
    done = box.launch("resume", "last", seconds=30)
    need(done.code == 0 and box.runs()[-1][-1]["event"] == "stopped", repr(done))


@trial("4", "two launches of one experiment with different state folders notice each other: 75")
def _(box):
    command = example(box)
    first = box.start([box.binary, "--state-dir", box.path("home/a"), *command])
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    done = box.launch("--state-dir", box.path("home/b"), *command, seconds=10)
    box.write("work/end", "")
    box.finish(first)
    need(box.read("work/begun") == "x", "the experiment was trained twice at the same time")
    need(done.code == 75 and "experiments/tiny" in done.err, repr(done))


@trial("4", "launches of one experiment notice each other through a link to its folder, too")
def _(box):
    command = example(box)
    os.symlink(box.work, box.path("home/link"))
    box.own(box.path("home/link"))
    first = box.start([box.binary, *command])
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    done = box.run(["sh", "-c", f"cd {box.path('home/link')} && exec {box.binary} {' '.join(command)}"], seconds=10)
    box.write("work/end", "")
    box.finish(first)
    need(box.read("work/begun") == "x" and done.code == 75, repr(done))


@trial("4", "launches in two containers that share only the experiment notice each other", root=True, victim="root")
def _(box):
    command = example(box)
    env = [{"HOME": box.mkdir(f"home{i}"), "TMPDIR": box.mkdir(f"tmp{i}")} for i in (1, 2)]
    inner = ["unshare", "--pid", "--fork", "--mount-proc", box.binary]
    first = box.start([*inner, *command], env=env[0])
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    time.sleep(0.6)
    done = box.run([*inner, *command], env=env[1], seconds=10)
    box.write("work/end", "")
    box.finish(first)
    need(box.read("work/begun") == "x" and done.code == 75, repr(done))


@trial("4", "another account that locks the experiment's folder stops no training", second=True)
def _(box):
    command = example(box)
    box.mkdir("work/experiments/tiny")
    box.write("work/end", "")
    hold = box.start([PYTHON, "-c", "import fcntl, os, sys, time; fcntl.flock(os.open('experiments/tiny', os.O_RDONLY), fcntl.LOCK_EX); print('held', flush=True); time.sleep(20)"], who="other")
    need(hold.stdout.readline() == b"held\n", "the lock was not taken")
    done = box.launch(*command, seconds=10)
    need(done.code == 0, repr(done))


@trial("4", "another account that takes the name of the locks' folder stops no training", second=True)
def _(box):
    command = example(box)
    box.write("work/end", "")
    box.mkdir(f"tmp/launch-locks-{uid(box)}", who="other", mode=0o777)
    done = box.launch(*command, seconds=10)
    need(done.code == 0, repr(done))
    need(os.listdir(box.path(f"tmp/launch-locks-{uid(box)}")) == [], "a lock lies in another account's folder")


@trial("4", "another account can hold no lock of the victim's records", second=True)
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "40", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    os.chmod(box.home, 0o755)
    held = box.as_("other", lambda: sum(os.access(os.path.join(f, name), os.R_OK) for f, _, names in os.walk(box.home) for name in names))
    need(held == "0", f"{held} files of the victim's record can be opened")
    time.sleep(0.3)
    done = box.launch("resume", "last", seconds=30)
    need(done.code == 0, repr(done))


# ---------------------------------------------------------------------------------------------------------------- F


def part(share):
    """A share of this machine's memory, as --memory takes it: the least limit that holds here."""
    total = 0
    for line in open("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) // 1024
    return f"{int(total * share)}MiB"


HOLD = ["--", "sh", "-c", "echo x >> begun; while [ ! -e end ]; do sleep 0.05; done"]


def holding(box, share, *more, **where):
    p = box.start([box.binary, "--memory", part(share), *more, *HOLD], **where)
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    return p


@trial("F", "--memory above the machine's memory starts nothing: 78")
def _(box):
    done = box.launch("--memory", part(20), "--json-file", "r.json", "--", "sh", "-c", "echo ran > ran")
    need(done.code == 78 and not os.path.exists(box.path("work/ran")), repr(done))
    result = json.loads(box.read("work/r.json"))
    need(result["exit_code"] == 78 and result["ending"] == "refused", f"{result}")


@trial("F", "two launches are not both promised 85 % of the memory: 75, and who holds it")
def _(box):
    first = holding(box, 0.85)
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "echo ran > ran", seconds=10)
    box.write("work/end", "")
    need(box.finish(first).code == 0, "the first did not end")
    need(done.code == 75 and not os.path.exists(box.path("work/ran")) and str(first.pid) in done.err, repr(done))


@trial("F", "launches with different state folders share one machine's memory, too: 75")
def _(box):
    first = holding(box, 0.85, "--state-dir", box.path("home/a"))
    done = box.launch("--state-dir", box.path("home/b"), "--memory", part(0.85), "--", "sh", "-c", "echo ran > ran", seconds=10)
    box.write("work/end", "")
    box.finish(first)
    need(done.code == 75 and not os.path.exists(box.path("work/ran")), repr(done))


@trial("F", "--memory holds for each rank: two of 60 % are more than the machine has: 78")
def _(box):
    box.write("home/bin/torchrun", "#!/bin/sh\necho ran > ran\n", mode=0o755)
    box.write("work/train.py", "")
    done = box.launch("--memory", part(0.6), "--", "torchrun", "--nproc_per_node", "2", "train.py",
                      env={"PATH": box.path("home/bin") + ":/usr/bin:/bin"})
    need(done.code == 78 and not os.path.exists(box.path("work/ran")), repr(done))


@trial("F", "launch plan warns of --memory above the machine's")
def _(box):
    box.trainer()
    done = box.launch("plan", "--memory", part(20), "--", PYTHON, "train.py")
    need("memory" in done.out and "is more than this machine's memory" in done.out, repr(done))


@trial("F", "--anyway runs what is more than the machine has, with a warning")
def _(box):
    done = box.launch("--anyway", "--memory", part(20), "--", "sh", "-c", "exit 3")
    need(done.code == 3 and "is more than" in done.err, repr(done))


@trial("F", "what a killed launch had claimed can be had at once")
def _(box):
    first = holding(box, 0.85)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "exit 3")
    need(done.code == 3, repr(done))


@trial("F", "what fits beside another launch runs, without a warning")
def _(box):
    first = holding(box, 0.5)
    done = box.launch("--memory", part(0.4), "--", "sh", "-c", "exit 3")
    box.write("work/end", "")
    box.finish(first)
    need(done.code == 3 and "memory" not in done.err, repr(done))


@trial("F", "a resume claims its memory, too: 75 while another launch holds it")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--memory", part(0.85), "--", PYTHON, "train.py", "--steps", "200", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    name = os.path.basename(run_folders(box, box.state)[0])
    p.send_signal(signal.SIGKILL)
    p.wait()
    first = holding(box, 0.85)
    done = box.launch("resume", name, seconds=30)
    box.write("work/end", "")
    box.finish(first)
    need(done.code == 75, repr(done))


@trial("F", "a resume of a run without --memory claims nothing, and is not limited")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--device", "cpu", "--", PYTHON, "train.py", "--steps", "60", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    name = os.path.basename(run_folders(box, box.state)[0])
    p.send_signal(signal.SIGKILL)
    p.wait()
    first = holding(box, 0.85)
    done = box.launch("resume", name, seconds=30)
    box.write("work/end", "")
    box.finish(first)
    need(done.code == 0, repr(done))
    taken = [e for e in next(r for r in box.runs() if r[0]["event"] == "started") if e["event"] == "resumed"]
    need(taken and "limit_bytes" not in taken[0], f"the resume was held to {taken}")


@trial("F", "root's claims count for every account: 75", root=True)
def _(box):
    first = holding(box, 0.85, who="root", env={"HOME": box.mkdir("roots", who="root")})
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "exit 3", seconds=10)
    box.write("work/end", "")
    box.finish(first)
    need(done.code == 75, repr(done))


@trial("F", "another account that claims 400 TiB stops no training", second=True)
def _(box):
    box.need_shared()
    sleeper = box.start(["sleep", "20"], who="other")
    box.write(f"tmp/launch-claims-{uid(box, 'other')}/{sleeper.pid}-x.json", json.dumps(
        {"kind": "host memory", "bytes": 400 << 40, "pid": sleeper.pid, "since": "2026-01-01T00:00:00Z", "uid": uid(box)}), who="other")
    done = box.launch("--memory", part(0.5), "--", "sh", "-c", "exit 3")
    need(done.code == 3, repr(done))


@trial("F", "another account's real launch is a warning, and stops no training", second=True)
def _(box):
    box.mkdir("theirs", who="other")
    first = box.start([box.binary, "--memory", part(0.85), "--", "sh", "-c", "echo x > begun; sleep 20"], who="other", cwd="theirs", env={"HOME": box.path("theirs")})
    box.wait(lambda: os.path.exists(box.path("theirs/begun")))
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "exit 3")
    first.terminate()
    need(done.code == 3 and "other accounts" in done.err, repr(done))


@trial("F", "another account that takes the name of the folder of claims stops no training, and two still share", second=True)
def _(box):
    box.need_shared()
    box.mkdir(f"tmp/launch-claims-{uid(box)}", who="other", mode=0o777)
    try:
        first = holding(box, 0.85)
        done = box.launch("--memory", part(0.85), "--", "sh", "-c", "exit 3", seconds=10)
        box.write("work/end", "")
        need(box.finish(first).code == 0, "the first did not run")
        need(done.code == 75, repr(done))
        need(os.listdir(box.path(f"tmp/launch-claims-{uid(box)}")) == [], "a claim lies in another account's folder")
    finally:  # the next usual place
        subprocess.run(["rm", "-rf", f"/var/tmp/launch-claims-{uid(box)}"], check=False)


@trial("F", "another account can keep no claim of the victim's alive", second=True)
def _(box):
    box.need_shared()
    first = holding(box, 0.85)
    claims = box.path(f"tmp/launch-claims-{uid(box)}")
    grab = ("import fcntl, os, sys, time\nheld = []\nfor name in os.listdir(sys.argv[1]):\n    try:\n        held.append(os.open(os.path.join(sys.argv[1], name), os.O_RDONLY))\n"
            "        fcntl.flock(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)\n    except OSError:\n        pass\nprint('held', flush=True)\ntime.sleep(20)\n")
    hold = box.start([PYTHON, "-c", grab, claims if os.path.isdir(claims) else "/"], who="other")
    need(hold.stdout.readline() == b"held\n", "nothing was tried")
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = box.launch("--memory", part(0.85), "--", "sh", "-c", "exit 3", seconds=10)
    need(done.code == 3, repr(done))


@trial("F", "what another account can read of a claim names neither command nor folder", second=True)
def _(box):
    box.need_shared()
    p = box.start([box.binary, "--memory", part(0.3), "--", "sh", "-c", "echo s3cret > begun; while [ ! -e end ]; do sleep 0.05; done"])
    box.wait(lambda: os.path.exists(box.path("work/begun")))
    folder = box.path(f"tmp/launch-claims-{uid(box)}")

    def look():
        return " ".join(open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name.endswith(".json"))

    seen = box.as_("other", look) if os.path.isdir(folder) else ""
    box.write("work/end", "")
    box.finish(p)
    need('"bytes"' in seen, f"the claim cannot be seen: {seen!r}")
    need("s3cret" not in seen and box.work not in seen, f"it reads {seen}")
    need(not [n for n in os.listdir(folder) if n.endswith(".json")], "the claim outlives its launch")


@trial("F", "FIFOs and huge files among another account's claims do not hang launch", second=True)
def _(box):
    box.need_shared()
    folder = box.mkdir(f"tmp/launch-claims-{uid(box, 'other')}", who="other")
    box.as_("other", lambda: [os.mkfifo(os.path.join(folder, f"{i}-x.json")) for i in range(50)])
    with open(os.path.join(folder, "99-x.json"), "wb") as f:
        f.truncate(1 << 40)
    box.own(os.path.join(folder, "99-x.json"), who="other")
    done = box.launch("--memory", part(0.5), "--", "sh", "-c", "exit 3", seconds=10)
    need(done.code == 3, repr(done))


def learned(box, **key):
    """Whether a plan for work/ learns from a receipt of another network on this CPU, whose key has that, too."""
    example(box)
    box.write("home/py/bin/python3", "#!/bin/sh\n", mode=0o755)
    box.write("home/py/lib/python3.11/site-packages/torch/version.py", "__version__ = '2.9.0'\n")
    box.write("home/.local/state/launch/receipts.jsonl", json.dumps({
        "v": 1, "run": "earlier", "attempt": 1, "time": "2026-01-01T00:00:00Z", "ending": "succeeded",
        "job": {"plugin": "sisr", "arch": "another", "phase": "training", "settings": {"micro-batch": "1"}, **key},
        "machine": {"kind": "cpu", "torch": "2.9.0", "allocator": "MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 OMP_NUM_THREADS=1"},
        "predicted": {"items": [{"kind": "saved tensors", "what": "net", "bytes": 10 << 20},
                                {"kind": "runtime", "what": "Python and torch", "bytes": 192 << 20, "guess": True}]},
        "measured": [{"is": "data", "bytes": 900 << 20, "bound": "sampled", "from": "/proc/PID/status"}]}) + "\n")
    os.chmod(box.path("home/.local/state/launch"), 0o700)
    done = box.launch("plan", "--json", "--memory", part(0.3), "--", box.path("home/py/bin/python3"), "train.py", "-opt", "x.yml")
    need(done.out.startswith("{"), repr(done))
    return "earlier" in done.out


def digest(path):
    return hashlib.sha256(path.encode()).digest()[:8].hex()


@trial("F", "a receipt that does not say of which project it is teaches nothing of Python and torch")
def _(box):
    need(not learned(box), "the plan used it")


@trial("F", "a receipt of another project teaches nothing of Python and torch")
def _(box):
    need(not learned(box, project=digest("/another"), python=digest(box.path("home/py/bin/python3"))), "the plan used it")


@trial("F", "a receipt of another interpreter teaches nothing of Python and torch")
def _(box):
    need(not learned(box, project=digest(box.work), python=digest("/another/bin/python3")), "the plan used it")


@trial("F", "a receipt of the same project and interpreter teaches what Python and torch take")
def _(box):
    need(learned(box, project=digest(box.work), python=digest(box.path("home/py/bin/python3"))), "the plan did not use it")


# ---------------------------------------------------------------------------------------------------------------- 5


MUCH = "i=0; while [ $i -lt 60 ]; do head -c 1048575 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; "


def kept(box):
    """What is kept of the newest run's output: the files, and how large they are together."""
    folder = os.path.join(run_folders(box, box.state)[-1], "attempt-1")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("output.log")]
    return files, sum(os.path.getsize(f) for f in files)


def backdate(box, folder, days=200):
    """Makes a record look as old as that."""
    path = os.path.join(folder, "events.jsonl")
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    for e in lines:
        e["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * 86400))
    with open(path, "w") as f:
        f.writelines(json.dumps(e) + "\n" for e in lines)


@trial("5", "of an output of 60 MiB a bounded part is kept, its head and its tail, and the gap is reported")
def _(box):
    with open(box.path("out"), "wb") as out:
        done = box.run([box.binary, "--", "sh", "-c", "echo first; " + MUCH + "echo last words"], stdout=out)
    need(done.code == 0 and os.path.getsize(box.path("out")) == 60 * (1 << 20) + 17, f"the output itself was cut: {done}")
    files, size = kept(box)
    need(size <= 41 << 20, f"{size >> 20} MiB are kept")
    text = open(files[0], "rb").read()
    need(len(files) == 1 and text.startswith(b"first\n") and text.endswith(b"last words\n"), "head or tail are not kept")
    need(b"bytes of the output were left out here" in text, "nothing says that something is missing")
    need(" lacks " in box.launch("show", "last").out, "launch show does not report it")


@trial("5", "kill -9 of launch loses nothing of the tail")
def _(box):
    with open(box.path("out"), "wb") as out:
        p = box.start([box.binary, "--", "sh", "-c", MUCH + "echo last words; touch printed; sleep 20"], stdout=out)
    box.wait(lambda: os.path.exists(box.path("work/printed")) and open(box.path("out"), "rb").read()[-11:] == b"last words\n")
    time.sleep(0.1)
    p.send_signal(signal.SIGKILL)
    p.wait()
    _, size = kept(box)
    done = box.launch("explain", "last", "--json")
    need("last words" in done.out, f"the tail is lost: {done}")
    need(size <= 41 << 20, f"{size >> 20} MiB are kept")
    need(" lacks " in box.launch("show", "last").out, "launch show does not report what is missing")


@trial("5", "the reason of an out-of-memory at the end of 60 MiB is found by explain")
def _(box):
    box.write("work/t.sh", MUCH + "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.63 GiB of which 1.00 GiB is free.' >&2; exit 1")
    with open(box.path("out"), "wb") as out:
        done = box.run([box.binary, "--", "sh", "t.sh"], stdout=out)
    need(done.code == 1, repr(done))
    need(json.loads(box.launch("explain", "last", "--json").out)["oom"] is True, "explain does not find it")
    need(kept(box)[1] <= 41 << 20, "too much is kept")


@trial("5", "runs prune removes an old run that has succeeded, and keeps what can be resumed")
def _(box):
    box.trainer()
    need(box.launch("--", PYTHON, "train.py").code == 0, "the first run failed")
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "200", "--slow", "0.05", "--out", "runs/b"])
    box.wait(lambda: os.path.exists(box.path("work/runs/b/0002.pt")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    over, cut = run_folders(box, box.state)
    backdate(box, over), backdate(box, cut)
    done = box.launch("runs", "prune", "--keep", "0")
    need(done.code == 0, repr(done))
    need(run_folders(box, box.state) == [cut], f"left are {run_folders(box, box.state)}, {cut} can be resumed")


@trial("5", "runs prune keeps a run that was interrupted and can go on")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "200", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.terminate()
    need(box.finish(p).code not in (0, None), "it was not interrupted")
    before = run_folders(box, box.state)
    backdate(box, before[0])
    done = box.launch("runs", "prune", "--keep", "0", "--keep-days", "0", "--max-size", "1KiB")
    need(done.code == 0 and run_folders(box, box.state) == before, repr(done))


@trial("5", "runs prune does not touch a run that is carried")
def _(box):
    p = begin(box)
    before = run_folders(box, box.state)
    backdate(box, before[0])
    done = box.launch("runs", "prune", "--keep", "0", "--max-size", "1KiB")
    box.write("work/end", "")
    need(box.finish(p).code == 0 and done.code == 0 and run_folders(box, box.state) == before, repr(done))


@trial("5", "runs prune --dry-run removes nothing, and says what it would")
def _(box):
    box.launch("--", "true")
    before = box.tree("home")
    done = box.launch("runs", "prune", "--keep", "0", "--keep-days", "0", "--dry-run")
    need(done.code == 0 and os.path.basename(run_folders(box, box.state)[0]) in done.out and box.tree("home") == before, repr(done))


@trial("5", "runs prune --max-size removes the oldest first, and no more than it has to")
def _(box):
    for _i in range(4):
        box.launch("--", "sh", "-c", "head -c 1000000 /dev/zero")
    folders = run_folders(box, box.state)
    done = box.launch("runs", "prune", "--keep", "1", "--max-size", "2.5MiB")
    need(done.code == 0 and run_folders(box, box.state) == folders[2:], f"{done} left {run_folders(box, box.state)}")


@trial("5", "old runs are removed after a run without being asked, and not with --prune=false")
def _(box):
    for _i in range(22):
        os.makedirs(box.state + "/runs/20250101-0000%02d.000-beef" % _i)
        with open(box.state + "/runs/20250101-0000%02d.000-beef/events.jsonl" % _i, "w") as f:
            f.write('{"v":1,"time":"2025-01-01T00:00:00Z","event":"followed","args":["true"]}\n')
    for folder, dirs, names in os.walk(box.home):
        box.own(*[os.path.join(folder, n) for n in dirs + names])
    need(box.launch("--prune=false", "--", "true").code == 0 and len(run_folders(box, box.state)) == 23, "something was removed with --prune=false")
    need(box.launch("--", "true").code == 0 and len(run_folders(box, box.state)) == 20, f"{len(run_folders(box, box.state))} runs are left, the newest 20 stay")


@trial("5", "runs prune removes what a killed rehearsal left in its record, and the record stays")
def _(box):
    box.trainer()
    p = box.start([box.binary, "--", PYTHON, "train.py", "--steps", "200", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0002.pt")))
    p.send_signal(signal.SIGKILL)
    p.wait()
    folder = run_folders(box, box.state)[0]
    scratch = os.path.join(folder, "attempt-1", "scratch")
    os.makedirs(scratch + "/models")
    box.own(scratch, scratch + "/models")
    done = box.launch("runs", "prune")
    need(done.code == 0 and not os.path.exists(scratch) and os.path.exists(folder), repr(done))


@trial("5", "runs prune follows no link out of the folder of runs")
def _(box):
    box.mkdir("home/precious")
    box.write("home/precious/thesis", "three years")
    box.launch("--", "true")
    folder = run_folders(box, box.state)[0]
    for link in ("attempt-1/link", "attempt-1/scratch", "link"):
        os.symlink(box.path("home/precious"), os.path.join(folder, link))
        box.own(os.path.join(folder, link))
    os.symlink(box.path("home/precious"), box.state + "/runs/20250101-000000.000-beef")
    done = box.launch("runs", "prune", "--keep", "0", "--keep-days", "0")
    need(done.code == 0 and not os.path.exists(folder) and box.read("home/precious/thesis") == "three years", repr(done))


@trial("5", "runs prune in a state folder that another account made removes nothing of the victim's", second=True)
def _(box):
    box.write("home/job/20250101-000000.000-beef/events.jsonl", '{"v":1,"time":"2025-01-01T00:00:00Z","event":"followed","args":["true"]}\n')
    box.write("home/job/20250101-000000.000-beef/thesis", "three years")
    box.mkdir(shared(box), who="other", mode=0o777)
    runs = box.path(shared(box), "runs")
    box.as_("other", lambda: os.symlink(box.path("home/job"), runs))
    before = box.tree("home/job")
    box.launch("runs", "prune", "--keep", "0", "--keep-days", "0", env=homeless(box))
    need(box.tree("home/job") == before, "the victim's folder was pruned")
    need(box.launch("--", "true", env=homeless(box)).code == 0 and box.tree("home/job") == before, "the victim's folder was pruned after a run, or written to")
