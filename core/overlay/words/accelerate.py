"""How diffusers' training scripts save a whole state, by accelerate: examples/text_to_image/train_text_to_image.py at 58eb52c080.

Their loop is in main(args), which counts global_step; a step's passes begin with Accelerator.accumulate. By then the step has
drawn its batch, its noise and its timesteps, so the random state that a resume needs is the one when the optimizer stepped
last; that is the one of the program's own states. Where main has counted the step that began last, no other has begun: a
validation fails there, or what is drawn for the next step.
"""
import os
import sys

SEEN = {
    "accelerate.accelerator": {"Accelerator.accumulate": ["self"]},
    "accelerate.optimizer": {"AcceleratedOptimizer.step": ["self", "'steps'"], "AcceleratedOptimizer.zero_grad": ["self", "'stepped'"]},
    "accelerate.scheduler": {"AcceleratedScheduler.step": ["self", "'stepped'"]},
}

now = {}  # of: the accelerator; step: which has begun; folder: of the states; finished: the step that main has counted
ends = {}  # of the step before: random: its random state; still: what shows that a parameter has changed since


def begun(it, part=""):
    if part:
        return passed(it, part)
    names = loop(sys._getframe())
    if "global_step" not in names or not hasattr(names.get("args"), "checkpointing_steps"):
        return None
    now["of"], now["step"], now["folder"] = sys.modules["weakref"].ref(it), names["global_step"], names["args"].output_dir
    return it, now["step"]


def loop(frame):
    """The names of main, which has the loop."""
    while frame is not None and frame.f_code.co_name != "main":
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def passed(it, part):
    """The optimizer begins its step, or has ended it."""
    if "of" not in now or not it.gradient_state.sync_gradients:
        return
    if part == "steps":
        ends["random"] = randoms()
        return
    of = tuple(map(id, models(now["of"]())))
    if ends.get("of") != of:  # to list them takes milliseconds
        ends["all"] = parameters(now["of"]())
        ends["least"] = min([p for p in ends["all"] if p.requires_grad], key=lambda p: p.numel())
        ends["copy"], ends["of"] = ends["least"].detach().clone(), of
    ends["copy"].copy_(ends["least"].detach())
    ends["still"] = still(ends["all"])


def parameters(accelerator):
    return [p for m in models(accelerator) for p in m.parameters()]


def still(tensors):
    return sum([t._version for t in tensors]), sum([t.data_ptr() for t in tensors])


def number(accelerator, where):
    return now["step"] if where == STEP else now["finished"]


def models(accelerator):
    return list(accelerator._models)


def failed():
    """The names of main when it failed."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    at = getattr(error, "__traceback__", None)
    while at is not None and at.tb_frame.f_code.co_name != "main":
        at = at.tb_next
    return {} if at is None else at.tb_frame.f_locals


def within(calls):
    if "save_state" in [name for _, name in calls]:
        return None
    now["finished"] = failed().get("global_step")
    if now["finished"] == now["step"]:
        return STEP
    if now["finished"] != now["step"] + 1:
        return None
    return BETWEEN if {"log_validation", "__call__"} & {name for _, name in calls} else DONE  # or what the next one draws


def refuse(accelerator, calls):
    if str(getattr(accelerator.distributed_type, "value", "")) not in ("NO", "MULTI_GPU"):
        return "accelerate saves from all ranks"
    if now.get("finished") == now["step"] + 1 and not trained(accelerator):
        return "the parameters are no longer those of the last finished step"


def trained(accelerator):
    """Whether the parameters are those that the last step has left. A validation may have put the averaged ones in their place
    (EMAModel.store, copy_to), and does that by way of .data, so values are compared; those that it has stored are put back."""
    torch = sys.modules["torch"]
    for average in [v for v in failed().values() if getattr(v, "temp_stored_params", None)]:
        stored = [p.shape for p in average.temp_stored_params]
        of = [m for m in models(accelerator) if [p.shape for p in m.parameters()] == stored]
        if len(of) != 1:
            return False
        average.restore(of[0].parameters())
    return "still" in ends and ends["still"] == still(parameters(accelerator)) and torch.equal(ends["copy"], ends["least"].detach())


def keep(accelerator):
    return accelerator.step  # counts passes, and a state has it


def undo(accelerator, kept):
    accelerator.step = kept


def place(accelerator, step):
    return os.path.join(os.path.abspath(now["folder"]), "checkpoint-%d" % step)


def save(accelerator, step, into):
    path = os.path.join(into, "checkpoint-%d" % step)
    if "random" in ends:
        restore(ends["random"])
    passes, accelerator.step = accelerator.step, 0  # a whole group: a resume may have groups of another size
    try:
        accelerator.save_state(path)
    finally:
        accelerator.step = passes
    return [(path, place(accelerator, step))]
