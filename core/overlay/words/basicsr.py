"""How BasicSR saves a whole state: basicsr/train.py and models/base_model.py at 8d56e3a0.

An iteration begins with update_learning_rate, which moves the schedulers on before anything is trained; they are set back.
A state is two kinds of files: networks in path.models, and what a resume is given, N.state, in path.training_states.
"""
import os
import sys

SEEN = {"basicsr.models.base_model": {"BaseModel.update_learning_rate": ["self", "current_iter"]}}

now = {}  # the iteration that has begun, and its epoch


def begun(model, iteration):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "train_pipeline":
        frame = frame.f_back
    if frame is None:
        return None
    now["iteration"], now["epoch"] = iteration, frame.f_locals["epoch"]
    return model, iteration - 1


def number(model, where):
    return now["iteration"] - (1 if where == STEP else 0)


def models(model):
    return [v for k, v in sorted(vars(model).items()) if k.startswith("net_") and hasattr(v, "parameters")]


def within(calls):
    names = [name for file, name in calls if "/basicsr/" in file or file.startswith("basicsr/")]
    if "train_pipeline" not in names or "save" in names:
        return None
    if "validation" in names:
        return BETWEEN
    return STEP if "optimize_parameters" in names or "feed_data" in names else None


def refuse(model, calls):
    return None


def keep(model):
    return [s.state_dict() for s in model.schedulers], [[g["lr"] for g in o.param_groups] for o in model.optimizers]


def undo(model, kept):
    for scheduler, state in zip(model.schedulers, kept[0]):
        scheduler.load_state_dict(state)
    for optimizer, rates in zip(model.optimizers, kept[1]):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate


def place(model, step):
    return os.path.join(model.opt["path"]["training_states"], "%d.state" % step)


def save(model, step, into):
    paths = model.opt["path"]
    before = dict(paths)
    paths["models"] = paths["training_states"] = into
    try:
        model.save(now["epoch"], step)
    finally:
        paths.update(before)
    names = sorted(os.listdir(into), key=lambda name: name.endswith(".state"))
    return [(os.path.join(into, n), os.path.join(paths["training_states" if n.endswith(".state") else "models"], n)) for n in names]
