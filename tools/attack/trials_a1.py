"""Points A, B and D: a run and what goes on from it."""
import json, os, shutil, signal

from box import PYTHON, need, trial

# It finds its newest state by itself, and each step of the state says which code made it.
ITSELF = """import json, os, sys
trail = json.load(open("runs/last.json")) if os.path.exists("runs/last.json") else []
os.makedirs("runs", exist_ok=True)
for step in range(len(trail) + 1, 9):
    if step == 5 and not os.path.exists("mended"):
        sys.exit("ValueError: once")
    trail.append("one")
    print(f"step {step}/8 loss {1 / step:.3f}", flush=True)
    json.dump(trail, open("runs/last.json", "w"))
print("training is over", flush=True)
"""
DECLARED = r"""script: train.py
micro-batch: {at: --batch, default: 8}
progress: 'step (?P<iteration>\d+)/(?P<total>\d+)'
succeeded: 'training is over'
"""


@trial("A", "resume --from-start of a program that finds its state by itself mixes nothing, or is no success")
def _(box):
    for resume in "{automatic: 'runs/last.json'}", "none":
        box.write("work/train.py", ITSELF)
        box.write("work/.launch-job.yaml", DECLARED + f"resume: {resume}\n")
        box.launch("--", PYTHON, "train.py")
        box.write("work/train.py", ITSELF.replace("one", "two"))
        box.write("work/mended", "")
        done = box.launch("resume", "last", "--from-start")
        made = set(json.loads(box.read("work/runs/last.json")))
        need(made == {"two"} and "succeeded" in done.err or "doubtful" in done.err and "did not start over" in done.err,
             f"{resume}: {made} {done}")
        for name in "mended", "runs/last.json":
            os.remove(box.path("work", name))


# It leaves its loop when it is told to stop, and prints its last line as ever.
LEAVES = """import signal, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
for step in range(1, 61):
    if told:
        break
    time.sleep(0.1)
    print(f"step {step}/60", flush=True)
print("training is over", flush=True)
"""


def steps(box, n):
    log = lambda: [p for p in (os.path.join(d, f) for d, _, fs in os.walk(box.state) for f in fs) if p.endswith("output.log")]
    box.wait(lambda: any(f"step {n}/" in open(p).read() for p in log()))


@trial("D", "a program that leaves its loop at a signal has not succeeded, whatever its last line is")
def _(box):
    box.write("work/train.py", LEAVES)
    box.write("work/.launch-job.yaml", DECLARED)
    for stop in (lambda p: box.launch("stop", "last"), lambda p: p.send_signal(signal.SIGTERM)):
        p = box.start([box.binary, "--", PYTHON, "train.py"])
        steps(box, 3)
        stop(p)
        done = box.finish(p)
        need("interrupted" in done.err and "succeeded" not in done.err, repr(done))
        shutil.rmtree(box.state)


@trial("D", "a program that launch does not know, and that ends by itself while its next state is awaited, has succeeded")
def _(box):
    box.write("work/train.py", LEAVES.replace("61", "31"))
    p = box.start([box.binary, "--", PYTHON, "train.py"])
    steps(box, 3)
    box.launch("stop", "--save", "last")
    done = box.finish(p)
    need(done.code == 0 and "succeeded" in box.launch("runs").out, repr(done))


@trial("D", "launch stop stops a run that is suspended")
def _(box):
    box.write("work/train.py", LEAVES)
    box.write("work/.launch-job.yaml", DECLARED)
    p = box.start([box.binary, "--", PYTHON, "train.py"])
    steps(box, 3)
    p.send_signal(signal.SIGSTOP)
    done = box.launch("stop", "last", seconds=20)
    need(done.code == 0 and "suspended" in done.err, repr(done))
    need(box.finish(p).code == 75, "it was not stopped")


@trial("D", "an exit of 0 behind an error, or behind an out-of-memory that is only told of, is no success")
def _(box):
    told = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.76 GiB total capacity; 8.50 GiB already allocated; 1.12 GiB free)"
    for last, declared in (("try: 1 / 0\nexcept Exception: traceback.print_exc()\n", False), (f"print('Error during training: {told}', flush=True)\n", True)):
        box.write("work/train.py", "import time, traceback\nfor step in range(1, 4):\n    print(f'step {step}/8', flush=True)\ntime.sleep(0.3)\n" + last)
        if declared:
            box.write("work/.launch-job.yaml", DECLARED.replace("succeeded: 'training is over'\n", "").replace("/(?P<total>\\d+)", ""))
        done = box.launch("--", PYTHON, "train.py")
        need("doubtful" in box.launch("runs").out.splitlines()[0], repr(done))


@trial("A", "LMDB's table of readers is no data; data and modules that the code names are")
def _(box):
    code = "import json, os, sys\nsys.path.insert(0, 'common')\nimport util\nx = open('set/data.mdb').read(), open('words.txt').read()\n" + ITSELF.replace(
        "import json, os, sys\n", "").replace('"runs/last.json"', "sys.argv[1]")
    for change, code_of in (("work/set/lock.mdb", 0), ("work/words.txt", 125), ("work/common/util.py", 125)):
        shutil.rmtree(box.path("work"))
        for name in "set/lock.mdb", "set/data.mdb", "words.txt", "common/util.py":
            box.write("work/" + name, "1\n")
        box.write("work/train.py", code)
        box.write("work/.launch-job.yaml", DECLARED + "resume: {automatic: 'runs/last.json'}\n")
        box.own(box.work)
        box.launch("--", PYTHON, "train.py", "runs/last.json", "--data", "set")
        box.write(change, "2\n")
        box.write("work/mended", "")
        done = box.launch("resume", "last")
        need(done.code == code_of, f"{change}: {done}")
