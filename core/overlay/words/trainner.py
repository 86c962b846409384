"""How traiNNer-redux saves a whole state: train.py, models/base_model.py and models/sr_model.py at 68629319, and the same
files of the forks at b676e3a5 and 2f64430b.

It catches what ends its training, and saves by itself under the number of the iteration before. That is right where the
passes of a step failed. After a failure of the validation, or between the passes of an accumulated step, it is one too few;
after one of an optimizer's step there is no whole state to save. An interrupt between the passes has one too few, too.
"""
import os
import sys

BASE = "traiNNer.models."
SEEN = {
    BASE + "base_model": {"BaseModel.update_learning_rate": ["self", "current_iter"]},
    BASE + "sr_model": {"SRModel.feed_data": ["self"]},
    BASE + "con_sr_model": {"SRModel.feed_data": ["self"]},
    BASE + "ae_model": {"AEModel.feed_data": ["self"]},
    BASE + "realesrgan_model": {"RealESRGANModel.feed_data": ["self"]},
    BASE + "realesrgan_paired_model": {"RealESRGANPairedModel.feed_data": ["self"]},
}
ENDS = {
    BASE + "sr_model": {"SRModel.save": "current_iter"},
    BASE + "con_sr_model": {"SRModel.save": "current_iter"},
    BASE + "ae_model": {"AEModel.save": "current_iter"},
}
FOLDERS = "models", "resume_models", "training_states"  # a resume is given the last one's file

now = {"trained": None}  # the iteration whose step is finished, until the next one begins; and the epoch


def loop(within):
    """The names of the training loop, if the function that calls launch was called by it, perhaps through others of these."""
    frame = sys._getframe(4)
    while frame is not None and frame.f_code.co_name in within:
        frame = frame.f_back
    return frame.f_locals if frame is not None and frame.f_code.co_name == "train_pipeline" else None


def begun(model, trained=None):
    if trained is not None:
        now["trained"] = trained
        return None
    names = loop(["feed_data"])
    if names is None or "apply_gradient" not in names:  # a validation's
        return None
    now["trained"], now["epoch"] = None, names["epoch"]
    return model, names["current_iter"] - (1 if names["apply_gradient"] else 0)


def ending(model):
    names = loop(["save"])
    if names is None or not (names.get("crashed") or names.get("interrupt_received")):
        return None
    val, trained = model.opt.val, now["trained"]
    due = trained is not None and val is not None and bool(val.val_freq) and trained % val.val_freq == 0
    return trained, bool(names.get("crashed")), due


def number(model, where):
    names = loop(["feed_data"])
    return names["current_iter"] - (1 if names["apply_gradient"] else 0)


def models(model):
    return [v for k, v in sorted(vars(model).items()) if k.startswith("net_") and hasattr(v, "parameters")]


def within(calls):
    return None  # what it does not catch comes before its training, or after it


def refuse(model, calls):
    return None


def place(model, step):
    return os.path.join(model.opt.path.training_states, "%d.state" % step)


def save(model, step, into):
    paths = model.opt.path
    folders = {name: getattr(paths, name) for name in FOLDERS if getattr(paths, name, None)}
    try:
        for name in folders:
            os.mkdir(os.path.join(into, name))
            setattr(paths, name, os.path.join(into, name))
        model.save(now["epoch"], step)
    finally:
        for name, folder in folders.items():
            setattr(paths, name, folder)
    return [(os.path.join(into, name, file), os.path.join(folders[name], file))
            for name in FOLDERS if name in folders for file in sorted(os.listdir(os.path.join(into, name)))]
