"""Points A, B, C and 3: pipes as arguments, odd rows, a card that is lost, and files of the user's that an option names by mistake."""
import json, os

from box import PYTHON, need, trial

READS = """import sys
print("step 1 loss 1 read", repr(open(sys.argv[1]).read()))
"""


def rows(box, name="s"):
    return json.loads(box.launch("sweep", "status", name, "--json").out)["rows"]


@trial("B", "a recipe in a pipe that the first attempt has read: there is no second one without it")
def _(box):
    box.trainer()
    box.write("work/first.py", "import runpy, sys\nopen('read', 'a').write(open(sys.argv.pop(1)).read() + '|')\nrunpy.run_path('train.py', run_name='__main__')\n")
    box.write("work/.launch-job.yaml", box.read("work/.launch-job.yaml").replace("train.py", "first.py"))
    done = box.run(["bash", "-c", f'"$0" -- {PYTHON} first.py <(echo lr: 1) --accum 1 --batch-size 32 --fits 16 --oom-after 1', box.binary])
    need(done.code == 125 and "what stood in /dev/fd/" in done.err and box.read("work/read") == "lr: 1\n|", repr(done))


@trial("A", "rows do not share a pipe, nor wait at one, and have no standard input")
def _(box):
    box.write("work/t.py", READS)
    os.mkfifo(box.path("work/fifo"))
    for named in "<(echo lr: 1)", "fifo", "/dev/stdin":
        done = box.run(["bash", "-c", f'echo lr: 1 | "$0" sweep --name s --grid --x=1,2 -- {PYTHON} t.py {named}', box.binary])
        need(done.code == 125 and "put it into a file" in done.err and "running" not in done.err, f"{named}: {done}")


@trial("B", "a pipe that the program writes to is no reason to stop, nor are its outputs")
def _(box):
    box.trainer()
    box.write("work/first.py", "import runpy, sys\nopen(sys.argv.pop(1), 'a').write('log\\n')\nrunpy.run_path('train.py', run_name='__main__')\n")
    box.write("work/.launch-job.yaml", box.read("work/.launch-job.yaml").replace("train.py", "first.py"))
    for named in ">(cat >&2)", "/dev/stdout", "/dev/stderr", "/dev/fd/2":
        rest = "--accum 1 --batch-size 32 --fits 16 --oom-after 1"
        done = box.run(["bash", "-c", f'"$0" -- {PYTHON} first.py {named} {rest} | cat', box.binary])
        need("attempt 2" in done.err and "succeeded" in done.err, f"{named}: {done}")
        done = box.run(["bash", "-c", f'"$0" sweep --grid --steps=1,2 -- {PYTHON} first.py {named} --out "runs/{{name}}" | cat', box.binary])
        need("2 succeeded" in done.err, f"{named}: {done}")


@trial("C", "an output folder that ends with a slash: it resumes from what was saved there")
def _(box):
    box.trainer(resume="{--resume: '{--out}/*.pt'}")
    for out in "runs/", "runs//b":
        done = box.launch("--", PYTHON, "train.py", "--out", out, "--batch-size", "32", "--fits", "16", "--oom-after", "2", "--silent-save")
        need(done.code == 0 and "resumed at step 2" in done.out and "outside" not in done.err, f"{out}: {done}")


@trial("A", "sweeps without a name that begin in the same second run, all of them")
def _(box):
    box.write("work/t.py", "import sys\nopen('got', 'a').write(sys.argv[2] + ' ')\n")
    done = box.run(["sh", "-c", f'for i in 1 2 3 4; do "$0" sweep -q --grid --x=$i -- {PYTHON} t.py & done; wait', box.binary])
    need(sorted(box.read("work/got").split()) == ["1", "2", "3", "4"] and "already" not in done.err, repr(done))


@trial("A", "a sweep whose first line cannot be written leaves its name free")
def _(box):
    box.write("work/t.py", "print('step 1')\n")
    for limit, code in ("ulimit -f 0", 125), ("true", 0):
        done = box.run(["sh", "-c", f'{limit}; exec "$0" sweep -q --name s --grid --x=1 -- {PYTHON} t.py', box.binary])
        need(done.code == code, f"{limit}: {done}")


@trial("A", "a sweep goes on without a word where a file has changed that no row runs")
def _(box):
    box.write("work/t.py", "import os, sys\nsys.exit(0 if os.path.exists('go') else 1)\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for args in ["init", "-q"], ["add", "t.py"], ["commit", "-qm", "x"]:
        need(box.run([*git, *args]).code == 0, "no git")
    box.launch("sweep", "-q", "--name", "s", "--grid", "--x=1", "--", PYTHON, "t.py")
    box.write("work/README", "x")
    box.write("work/go", "")
    done = box.launch("sweep", "resume", "s")
    need(done.code == 0 and "has changed" not in done.err, repr(done))


@trial("2", "a script that --json-file names by mistake is not written over, nor a page that receipts export names")
def _(box):
    script = "import sys\nprint('step 1')\n"
    box.write("work/t.py", script)
    for args in ["--json-file", "t.py", "--"], ["plan", "--json-file", "t.py", "--"], ["sweep", "--json-file", "t.py", "--grid", "--x=1", "--"]:
        done = box.launch(*args, PYTHON, "t.py")
        need(box.read("work/t.py") == script, f"{args}: {done}")
        need(args[0] == "plan" or done.code == 125 and "is no JSON" in done.err, f"{args}: {done}")
    done = box.launch("receipts", "export", "t.py")
    need(done.code == 125 and box.read("work/t.py") == script, repr(done))
    box.write("work/empty.json", "")
    for _ in range(2):
        done = box.launch("-q", "--json-file", "empty.json", "--", PYTHON, "t.py")
        need(done.code == 0 and json.loads(box.read("work/empty.json"))["ending"] == "succeeded", repr(done))
    done = box.run(["sh", "-c", f'"$0" -q --json-file /dev/stdout -- {PYTHON} t.py > log', box.binary])
    need(done.code == 0 and "step 1" in box.read("work/log"), repr(done))


@trial("3", "a sweep's file without an end takes no memory without an end")
def _(box):
    done = box.run(["sh", "-c", 'ulimit -v 4000000; exec "$0" sweep -f /dev/zero', box.binary])
    need(done.code == 125 and "more than" in done.err, repr(done))


def project(box):
    """A repository that tracks the trainer, and neither its declaration nor its settings."""
    box.trainer()
    box.write("work/.gitignore", ".launch*\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for args in ["init", "-q"], ["add", "."], ["commit", "-qm", "x"]:
        need(box.run([*git, *args]).code == 0, "no git")
    return ["--snapshot", "--name", "s", "--grid", "--steps=3,4", "--", PYTHON, "train.py", "--batch-size", "32", "--accum", "1",
            "--fits", "16", "--out", "runs/{name}"]


@trial("A", "rows of a copy of the code keep to the project's settings and its declaration")
def _(box):
    sweep = project(box)
    done = box.launch("sweep", *sweep)
    need(done.code == 0 and {r["cost"] for r in rows(box)} == {"speed"}, f"{done} {rows(box)}")
    sweep[2] = "none"
    box.write("work/.launch.yaml", "allow: none\n")
    done = box.launch("sweep", *sweep)
    need(done.code == 1 and {r["cost"] for r in rows(box, "none")} == {"none"}, f"{done} {rows(box, 'none')}")


@trial("1", "another's settings do not become the user's own by a copy of the code", second=True)
def _(box):
    sweep = project(box)
    box.write("work/.launch.yaml", "allow: recipe\n", who="other")
    done = box.launch("sweep", *sweep)
    need(done.code == 125 and "belongs to user" in done.err, repr(done))


@trial("A", "a copy of the code is refused where an absolute path names the code itself")
def _(box):
    sweep = project(box)
    done = box.launch("sweep", *[box.path("work/train.py") if a == "train.py" else a for a in sweep])
    need(done.code == 125 and "which is not of the copy" in done.err, repr(done))


@trial("6", "ulimit -d below what launch itself needs: the program runs in its place, also in a launch with --memory")
def _(box):
    for kib in 60_000, 100_000, 200_000:
        done = box.run(["sh", "-c", f'ulimit -d {kib}; exec "$0" -- sh -c "echo out; exit 3"', box.binary])
        need(done.code == 3 and done.out == "out\n" and "ulimit -d" in done.err, f"{kib}: {done}")
    done = box.launch("-q", "--memory", "64MiB", "--", "sh", "-c", f"{box.binary} -q -- echo out")
    need(done.code == 0 and done.out == "out\n", repr(done))


@trial("6", "ulimit -d that launch can live with costs no recovery")
def _(box):
    box.trainer()
    done = box.run(["sh", "-c", f'ulimit -d 270000; exec "$0" -- {PYTHON} train.py --batch-size 32 --accum 1 --fits 16 --oom-after 2', box.binary])
    need(done.code == 0 and "attempt 2" in done.err, repr(done))


@trial("A", "a row whose run was continued by hand, as its last lines advise, is not trained again")
def _(box):
    box.trainer(resume="{--resume: '{--out}/*.pt'}")
    done = box.launch("sweep", "--allow", "none", "--name", "s", "--grid", "--steps=3,4", "--", PYTHON, "train.py", "--accum", "1",
                      "--batch-size", "32", "--fits", "16", "--oom-after", "1", "--out", "runs/{name}")
    need(done.code == 1 and [r["state"] for r in rows(box)] == ["out of memory"] * 2, f"{done} {rows(box)}")
    first = rows(box)[0]["run"]
    need(box.launch("resume", first, "--allow", "speed").code == 0, "it was not resumed")
    done = box.launch("sweep", "resume", "s")
    found = rows(box)
    need([r["state"] for r in found] == ["succeeded", "out of memory"] and found[0]["run"] == first and found[0]["cost"] == "speed",
         f"{done} {found}")
