"""Points A to F: a wrong result that would be called a success."""
import json, os, signal

from box import PYTHON, need, trial


@trial("A", "a run that saved nothing does not go on from another run's state")
def _(box):
    box.trainer()
    other = box.start([PYTHON, "train.py", "--out", "runs/a", "--steps", "400", "--slow", "0.05"])
    box.wait(lambda: os.path.exists(box.path("work/runs/a/0003.pt")))
    done = box.launch("--", PYTHON, "train.py", "--out", "runs/b", "--batch-size", "32", "--fits", "16", "--said", "said.json")
    other.terminate()
    need(os.path.exists(box.path("work/said.json")), repr(done))
    said = json.loads(box.read("work/said.json"))
    need(said["resume"] == "" and said["first"] == 0, f"it went on from {said['resume']}: {done}")
    need(done.code == 0 and os.path.exists(box.path("work/runs/b/0004.pt")), repr(done))
