"""Points A and C: rows that are given back as they were, copies of the code, and what only waits beside a training."""
import json, os

from box import PYTHON, need, trial

NOTES = """import json, os, sys
with open(os.environ["GOT"], "a") as f:
    f.write(json.dumps(sys.argv[1:]) + "\\n")
print("step 1")
"""
BUSY = """import sys, time
end = time.time() + 4
while time.time() < end:
    sum(range(1000))
print("step 1")
"""


def rows(box, name="s"):
    return json.loads(box.launch("sweep", "status", name, "--json").out)["rows"]


def git(box, *args):
    done = box.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *args])
    need(done.code == 0, repr(done))


@trial("A", "a sweep from a copy of the code runs, and goes on though the code has changed")
def _(box):
    box.write("work/t.py", "import os, sys\nprint('as it was')\nsys.exit(0 if os.path.exists(os.environ['GO']) else 1)\n")
    env = {"GO": box.path("work/go")}
    git(box, "init", "-q")
    git(box, "add", "t.py")
    git(box, "commit", "-qm", "x")
    done = box.launch("sweep", "--snapshot", "--name", "s", "--grid", "--x=1,2", "--", PYTHON, "t.py", env=env)
    need(done.code == 1 and [r["state"] for r in rows(box)] == ["failed", "failed"], f"{done} {rows(box)}")
    box.write("work/t.py", "raise SystemExit('changed')\n")
    box.write("work/go", "")
    done = box.launch("sweep", "resume", "s", env=env)
    need(done.code == 0 and [r["state"] for r in rows(box)] == ["succeeded", "succeeded"], f"{done} {rows(box)}")


@trial("A", "a value that no journal can hold is refused, and never changed")
def _(box):
    box.write("work/t.py", NOTES)
    done = box.launch("sweep", "--name", "s", "--grid", b"--text=\xff,a", "--", PYTHON, "t.py", env={"GOT": box.path("work/got")})
    need(done.code == 125 and "is not UTF-8" in done.err and not os.path.exists(box.path("work/got")), repr(done))


@trial("A", "a monitor beside the training is no training: its rows are proven, and no duplicates")
def _(box):
    box.write("work/t.py", BUSY)
    box.write("work/run.sh", f"{PYTHON} -c 'import time; time.sleep(60)' &\nm=$!\n{PYTHON} t.py \"$@\"; kill $m\n")
    done = box.launch("sweep", "--quiet", "--name", "s", "--grid", "--lr=1,2", "--", "sh", "run.sh")
    found = rows(box)
    need(done.code == 0 and not any(r.get("not_proven") or r.get("same_as") for r in found), f"{found} {done}")
