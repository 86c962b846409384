"""How timm's train.py saves a whole state: timm/utils/checkpoint_saver.py at aa4b5850.

Its states are of the ends of epochs, and are written after the validation. They have nothing of it but its figure, which a
resume does not read, so where the validation fails, the state of the epoch before it is whole. What is best stays as it is.
"""
import os

SEEN = {}
UNIT = "epoch"

now = {}  # the epoch, counted from 0


def found(frames):
    for frame in frames:
        if frame.f_code.co_name == "main" and {"saver", "epoch"} <= set(frame.f_locals):
            now["epoch"] = frame.f_locals["epoch"]
            return frame.f_locals["saver"]


def number(saver, where):
    return now["epoch"] + (1 if where == BETWEEN else 0)


def models(saver):
    return [saver.model]


def within(calls):
    names = [name for _, name in calls]
    if "main" not in names or "save_checkpoint" in names:
        return None
    return BETWEEN if "validate" in names else STEP


def refuse(saver, calls):
    if within(calls) == STEP:
        return WHOLE


def place(saver, step):
    return os.path.abspath(os.path.join(saver.checkpoint_dir, "last" + saver.extension))


def aside(saver, step, path):
    return path[: -len(saver.extension)] + "-%s" % peek(path)["epoch"] + saver.extension


def save(saver, step, into):
    path = os.path.join(into, "last" + saver.extension)
    saver._save(path, now["epoch"])
    return [(path, place(saver, step))]
