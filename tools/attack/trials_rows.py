"""The rows of a sweep: each is what its values say, has its own run, and is trained once."""
import json, os, shutil, signal, time

from box import PYTHON, need, trial

NOTES = """import argparse, json, os, sys, time
p = argparse.ArgumentParser()
p.add_argument("--sizes", nargs="+")
p.add_argument("--tags", action="append")
p.add_argument("--lr", default="none")
p.add_argument("files", nargs="*")
a = p.parse_args()
with open("got", "a") as f:
    f.write(json.dumps([a.sizes, a.tags, a.lr, a.files, os.environ.get("SEED")]) + "\\n")
time.sleep(0.08)
"""


def got(box):
    return [json.loads(line) for line in box.read("work/got").splitlines()]


def rows(box, name="s"):
    return json.loads(box.launch("sweep", "status", name, "--json").out)["rows"]


def unproven(box, *command, keys, grid, twins=True):
    """A sweep of two rows whose values do not arrive: the rows and the key are named, in the table and at the end."""
    done = box.launch("sweep", "--quiet", "--name", "s", "--grid", grid, "--", *command)
    found = rows(box)
    need(done.code == 0 and [r.get("not_proven") for r in found] == [keys, keys], f"{found} {done}")
    need("2 rows are not proven: " + ", ".join(keys) in done.err, done.err)
    need(not twins or found[1].get("same_as") == 1 and "duplicate" in done.err, f"{found} {done.err}")


def proven(box, *command, grid):
    done = box.launch("sweep", "--name", "s", "--grid", grid, "--", *command)
    found = rows(box)
    need(done.code == 0 and not any(r.get("not_proven") or r.get("same_as") for r in found), f"{found} {done}")
    return done


# Values that do not arrive.


@trial("A", "a shell script that drops its arguments: the rows are not proven, and duplicates")
def _(box):
    box.write("work/t.py", NOTES)
    box.write("work/none", "")
    box.write("work/run.sh", f"x=$(cat none)\n{PYTHON} t.py $x\n")
    unproven(box, "bash", "run.sh", keys=["--lr"], grid="--lr=1,2")


@trial("A", "a script that gives the values to another program than the one that trains")
def _(box):
    box.write("work/t.py", NOTES)
    box.write("work/note.py", "import sys\nprint(sys.argv[1:])\n")
    box.write("work/none", "")
    box.write("work/run.sh", f"x=$(cat none)\n{PYTHON} note.py \"$@\" $x\nsleep 0.05\n{PYTHON} t.py; {PYTHON} -c 'import time; time.sleep(0.1)'\n")
    box.write("work/t.py", NOTES.replace("0.08", "0.8"))
    unproven(box, "bash", "run.sh", keys=["--lr"], grid="--lr=1,2")


@trial("A", "a wrapper in Python that starts the training without its own arguments")
def _(box):
    box.write("work/t.py", NOTES)
    box.write("work/torchrun", f"#!{PYTHON}\nimport subprocess, sys\nsubprocess.run([sys.executable, 't.py'])\n", mode=0o755)
    unproven(box, "./torchrun", keys=["--lr"], grid="--lr=1,2")


@trial("A", "a variable that the command takes away again")
def _(box):
    box.write("work/t.py", NOTES)
    unproven(box, "env", "-u", "SEED", PYTHON, "t.py", keys=["env:SEED"], grid="env:SEED=1,2")


@trial("A", "a script that passes its arguments on, under another name and in another order, is proven")
def _(box):
    box.write("work/t.py", NOTES)
    box.write("work/none", "")
    box.write("work/run.sh", f"x=$(cat none)\n{PYTHON} t.py --lr \"$2\" $x\n")
    proven(box, "bash", "run.sh", grid="--rate=0.25,0.5")
    need([g[2] for g in got(box)] == ["0.25", "0.5"], got(box))


@trial("A", "a training that prints the value that it took is proven, a script that only names it is not")
def _(box):
    box.write("work/t.py", "import os, time\nprint('lr:', os.environ['X'])\ntime.sleep(0.1)\n")
    box.write("work/none", "")
    box.write("work/run.sh", f"x=$(cat none)\nX=$2 {PYTHON} t.py $x\n")
    proven(box, "bash", "run.sh", grid="--lr=0.25,0.5")
    box.write("work/u.py", "import time\ntime.sleep(0.1)\n")
    box.write("work/none", "")
    box.write("work/run.sh", f"x=$(cat none)\necho running with --lr \"$2\"\n{PYTHON} u.py $x\n")
    done = box.launch("sweep", "--name", "u", "--grid", "--lr=0.25,0.5", "--", "bash", "run.sh")
    need("not proven: --lr" in done.err, done.err)


@trial("A", "an option with several values, or given several times, is replaced as a whole")
def _(box):
    box.write("work/t.py", NOTES)
    proven(box, PYTHON, "t.py", "--sizes", "64", "64", "64", "--lr", "3", grid="--sizes=32,16")
    need([g[0] for g in got(box)] == [["32"], ["16"]], got(box))
    box.launch("sweep", "--name", "t", "--grid", "--tags=a", "--", PYTHON, "t.py", "--tags", "x", "--tags=y")
    need(got(box)[-1][1] == ["a"], got(box)[-1])


@trial("A", "an option is put before --, and where several of its values cannot be told apart nothing runs")
def _(box):
    box.write("work/t.py", NOTES)
    proven(box, PYTHON, "t.py", "--", "a", "b", grid="--lr=1,2")
    need([g[2:4] for g in got(box)] == [["1", ["a", "b"]], ["2", ["a", "b"]]], got(box))
    done = box.launch("sweep", "--name", "t", "--grid", "--n=1,2", "--", "./nothing", "--n", "3", "4")
    need(done.code == 125 and "{--n}" in done.err and not os.path.exists(box.path("home/.local/state/launch/sweeps/t")), repr(done))


# Ranges.


def listed(box, text):
    done = box.launch("sweep", "emit", "parallel", "--grid", "--v=" + text, "--", "true")
    return [line.rsplit("--v", 1)[1].lstrip("= ") for line in done.out.splitlines()] if done.code == 0 else done.err


@trial("A", "the values of a range are exact, as Python prints them, also down and below 0")
def _(box):
    for text, want in (("20260101..20260103", "20260101 20260102 20260103"), ("0.1..0.7..0.2", "0.1 0.3 0.5 0.7"),
                       ("3..-3..3", "3 0 -3"), ("1e-6..2e-6..1e-6", "1e-06 2e-06"), ("-0.2..0.2..0.2", "-0.2 0 0.2")):
        need(listed(box, text) == want.split(), f"{text}: {listed(box, text)}")


@trial("A", "a large whole number keeps its digits, and no two rows become one by rounding")
def _(box):
    need(listed(box, "9007199254740993..9007199254740997..4") == ["9007199254740993", "9007199254740997"], listed(box, "9007199254740993..9007199254740997..4"))
    need("same number" in listed(box, "9007199254740992..9007199254740995"), listed(box, "9007199254740992..9007199254740995"))


@trial("A", "a range without an end, or of too many values, is refused at once")
def _(box):
    began = time.time()
    for text in ("1..5..-1", "1..5..0", "0..1..1e-300", "1..1e300..1", "1..1e999999999..1", "1..100001"):
        need(isinstance(listed(box, text), str), f"{text}: {str(listed(box, text))[:200]}")
    need(time.time() - began < 20, "it takes long")


# Emitted files.

HOSTILE = ["a b", "$(touch pwned)", "`touch pwned`", ";touch pwned", "'", '"', "\\", "a\nb", "", "*", "~", "%41", "{}", "$HOME", "#", "é"]


def emitted(box, how):
    """What a reader of an emitted file gives to the rows."""
    shutil.copy(box.binary, box.path("launch"))
    box.write("work/note.py", "import sys\nopen('got', 'a').write(repr(sys.argv[2]) + chr(10))\n")
    grid = ",".join('"' + v.replace('"', '""') + '"' for v in HOSTILE)
    done = box.launch("sweep", "emit", "parallel", "--grid", "--v=" + grid, "--", PYTHON, "note.py")
    box.write("work/rows", done.out)
    done = box.run(["sh", "-c", how], env={"PATH": box.dir + ":/usr/bin:/bin"}, seconds=120)
    values = [eval(line).removeprefix("--v=") for line in box.read("work/got").splitlines()]
    need(sorted(values) == sorted(HOSTILE), f"{values} {done}")
    need(not os.path.exists(box.path("work/pwned")), "a value was run")


@trial("A", "an emitted line that xargs pastes into a shell runs no value")
def _(box):
    emitted(box, "xargs -I{} sh -c '{}' < rows")


@trial("A", "an emitted file that a shell reads gives every value as it is")
def _(box):
    emitted(box, "sh rows")


@trial("A", "an emitted line that a shell reads twice gives every value as it is")
def _(box):
    emitted(box, "while read -r line; do eval \"eval $line\" < /dev/null; done < rows")


# A row's own run, and its result.

SLOW = """import json, os, sys, time
out, seed = sys.argv[2] + os.environ.get("TAG", ""), sys.argv[4]
os.makedirs(out, exist_ok=True)
open("began", "a").write(seed + " ")
for step in range(1, 6):
    time.sleep(float(os.environ.get("PAUSE", "0.05")))
    print(f"step {step}", flush=True)
    open(f"{out}/{step}.pt", "w").write(str(step))
{body}
open("ends", "a").write(seed + " ")
print("training is over")
"""


def training(box, body=""):
    box.write("work/train.py", SLOW.replace("{body}", body))
    return [PYTHON, "train.py", "--out", "runs/{trial}", "--seed", "{seed}"]


def once(box, n, name="s"):
    states = [r["state"] for r in rows(box, name)]
    need(states == ["succeeded"] * n, states)
    need(sorted(box.read("work/ends").split()) == [str(i + 1) for i in range(n)], box.read("work/ends"))


@trial("A", "rows whose results cannot be written are trained once: the record of each run has its result")
def _(box):
    command = training(box, "os.mkdir(f\"{os.environ['HOME']}/.local/state/launch/sweeps/s/trials/{seed}/result.json\")")
    done = box.launch("sweep", "--name", "s", "--grid", "seed=1,2", "--", *command)
    need(done.code == 0, repr(done))
    need(box.launch("sweep", "resume", "s").code == 0, "resume")
    once(box, 2)


@trial("A", "the same where the records of the runs are gone, too: the exit code tells")
def _(box):
    command = training(box, "s = os.environ['HOME'] + '/.local/state/launch'; os.mkdir(f'{s}/sweeps/s/trials/{seed}/result.json'); __import__('shutil').rmtree(s + '/runs')")
    box.launch("sweep", "--name", "s", "--grid", "seed=1,2", "--", *command)
    box.launch("sweep", "resume", "s")
    once(box, 2)


@trial("A", "a sweep that is killed after a row has ended takes the row's result from its record")
def _(box):
    command = training(box)
    p = box.start([box.binary, "sweep", "--name", "s", "--grid", "seed=1,2", "--", *command], env={"PAUSE": "0.1"})
    box.wait(lambda: os.path.exists(box.path("work/runs/1/2.pt")))
    p.kill()
    box.wait(lambda: os.path.exists(box.path("work/ends")))
    result = os.path.join(box.state, "sweeps/s/trials/1/result.json")
    box.wait(lambda: os.path.exists(result))
    os.unlink(result)
    done = box.launch("sweep", "resume", "s", env={"PAUSE": "0.1"})
    need(done.code == 0, repr(done))
    once(box, 2)


@trial("A", "a row whose record is lost starts over, and takes no other row's run for its own")
def _(box):
    box.trainer()
    box.write("work/train.py", """import os, time
tag = os.environ["TAG"]
os.makedirs("runs/x" + tag, exist_ok=True)
for step in range(1, 6):
    print(f"step {step}", flush=True)
    open(f"runs/x{tag}/{step}.pt", "w").write(str(step))
    time.sleep(0.3)
print("training is over")
""")
    p = box.start([box.binary, "sweep", "--name", "s", "--jobs", "2", "--grid", "env:TAG=1,2", "--", PYTHON, "train.py", "--batch-size", "4", "--accum", "1"])
    box.wait(lambda: os.path.exists(box.path("work/runs/x1/1.pt")) and os.path.exists(box.path("work/runs/x2/1.pt")))
    p.kill()
    for pid in [int(d) for d in os.listdir("/proc") if d.isdigit()]:
        try:
            if box.home.encode() in open(f"/proc/{pid}/environ", "rb").read():
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    p.wait()
    top = os.path.join(box.state, "runs")
    lost = [d for d in os.listdir(top) if '"row":"s/1/1/' in open(os.path.join(top, d, "events.jsonl")).read()]
    need(len(lost) == 1, f"no run has the mark of row 1: {os.listdir(top)}")
    shutil.rmtree(os.path.join(top, lost[0]))
    done = box.launch("sweep", "resume", "s")
    found = rows(box)
    need(done.code == 0 and found[0]["run"] != found[1]["run"], f"{found} {done}")


# The program.


def upgraded(box, change):
    command = training(box)
    own = box.path("launch")
    shutil.copy(box.binary, own)
    p = box.start([own, "sweep", "--name", "s", "--grid", "seed=1..3", "--", *command])
    box.wait(lambda: os.path.exists(box.path("work/runs/1/2.pt")))
    change(own)
    done = box.finish(p)
    need(done.code == 0, repr(done))
    once(box, 3)


@trial("A", "launch is removed while a sweep runs: the other rows run")
def _(box):
    upgraded(box, os.unlink)


@trial("A", "another program takes launch's name while a sweep runs: it is not run")
def _(box):
    def change(own):
        with open(own + ".new", "w") as f:
            f.write(f"#!/bin/sh\ntouch {box.tmp}/foreign\n")
        os.chmod(own + ".new", 0o755)
        os.rename(own + ".new", own)

    upgraded(box, change)
    need(not os.path.exists(box.path("tmp/foreign")), "the other program was run as launch")


@trial("A", "launch is renamed while a sweep runs")
def _(box):
    upgraded(box, lambda own: os.rename(own, own + ".old"))


# Searchers.


def searcher(box, body, want, seconds=30):
    box.write("work/s.py", "import sys, json\nfor line in sys.stdin:\n    if 'ask' in json.loads(line):\n        " + body + "\n")
    began = time.time()
    done = box.launch("sweep", "--name", "s", "--ask", f"{PYTHON} s.py", "--", PYTHON, "-c", "pass", seconds=seconds)
    need(done.code == 125 and want in done.err and "\x1b" not in done.err, repr(done)[:2000])
    need(time.time() - began < seconds - 2, "it took too long")


@trial("A", "a searcher with an assignment of 50,000 keys is refused")
def _(box):
    searcher(box, "print(json.dumps({'assignment': {'--k%d' % i: 1 for i in range(50000)}}), flush=True)", "more than 1000 keys")


@trial("A", "a searcher with a line that does not end is refused")
def _(box):
    searcher(box, "[sys.stdout.write('\\x1b]0;x\\x07' * (1 << 16)) for _ in range(1 << 12)]", "too long")


@trial("A", "a searcher with a list of 50,000 assignments, or a value that no argument can hold, is refused")
def _(box):
    searcher(box, "print('{\"assignments\": [' + ','.join(['{\"a\":1}'] * 50000) + ']}', flush=True)", "more than 10000 assignments")
    shutil.rmtree(os.path.join(box.state, "sweeps"))
    searcher(box, "print(json.dumps({'assignment': {'a': 'x' * 200000}}), flush=True)", "longer than 100 KiB")
