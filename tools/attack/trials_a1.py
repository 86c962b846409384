"""Points A, B and D: a run and what goes on from it."""
import json, os, re, signal

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
