"""How BasicSR and neosr save a whole state: basicsr/train.py and models/base_model.py at 8d56e3a0, neosr's train.py and
models/image.py at 31c70226.

An iteration of BasicSR begins with update_learning_rate, which moves the schedulers on before anything is trained; they are
set back. One of neosr begins with feed_data; it counts micro-batches, and a state names steps, so only a step that ends with
a whole number of them has one. A state is two kinds of files: networks in path.models, and what a resume is given, N.state,
in path.training_states.
"""
import os
import sys

SEEN = {
    "basicsr.models.base_model": {"BaseModel.update_learning_rate": ["self", "current_iter"]},
    "neosr.models.image": {"image.feed_data": ["self"]},
    "neosr.models.otf": {"otf.feed_data": ["self"]},
}

now = {}  # the iteration that has begun, how many of them a step has, and the epoch


def begun(model, iteration=None):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "train_pipeline":
        frame = frame.f_back
    names = {} if frame is None else frame.f_locals
    if iteration is None:
        iteration = names.get("current_iter", 0)
    if not 0 < iteration <= names.get("total_iters", iteration):  # the last validation of all
        return None
    now["iteration"], now["epoch"] = iteration, names["epoch"]
    now["passes"] = names.get("accumulate", 1)
    return model, number(model, STEP)


def number(model, where):
    return (now["iteration"] - (1 if where == STEP else 0)) // now["passes"]


def models(model):
    return [v for k, v in sorted(vars(model).items()) if k.startswith("net_") and hasattr(v, "parameters")]


def within(calls):
    names = [name for _, name in calls]
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
    model.is_train = True  # a validation of neosr changes that
    try:
        model.save(now["epoch"], step)
    finally:
        paths.update(before)
    names = sorted(os.listdir(into), key=lambda name: name.endswith(".state"))
    return [(os.path.join(into, n), os.path.join(paths["training_states" if n.endswith(".state") else "models"], n)) for n in names]
