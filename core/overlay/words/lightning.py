"""How Lightning saves a whole state: Trainer.save_checkpoint of pytorch_lightning from 1.4 on, and of lightning.pytorch.

A resume does not go on at the next batch: it begins the epoch's data again. So there is a state only where the validation
fails that follows the last batch of an epoch. That state says that the validation has not begun, so a resume makes all of it,
and what is best is decided as ever. That needs Lightning 2.

A program may save by itself when its training fails, or at a signal: latent-diffusion's main.py does (melk), and all that are
built on it. Such a state has no parameters of which an optimizer has changed some, and the number of the steps that are in it.
Before 1.6 Lightning writes one more than it counts, which is right where it saves by itself, and nowhere else; and the next
epoch, from whose first batch a resume goes on. That is right unless no step of this one is in the state.
"""
import os
import sys

SEEN = {
    "pytorch_lightning.loops.epoch.training_epoch_loop": {"TrainingEpochLoop.advance": ["self"]},
    "pytorch_lightning.loops.training_epoch_loop": {"_TrainingEpochLoop.advance": ["self"]},
    "lightning.pytorch.loops.training_epoch_loop": {"_TrainingEpochLoop.advance": ["self"]},
}
ENDS = {
    "pytorch_lightning.trainer.properties": {"TrainerProperties.save_checkpoint": "filepath"},  # 1.4
    "pytorch_lightning.trainer.trainer": {"Trainer.save_checkpoint": "filepath"},
    "lightning.pytorch.trainer.trainer": {"Trainer.save_checkpoint": "filepath"},
}
ASKED = False  # launch asks for no state in the middle of an epoch
AGAIN = True
JUDGES = True
FIT = "fit", "_run_train", "_run_stage", "_run_sanity_check", "run"
PASSES = {"training_step_and_backward", "_training_step", "training_step", "closure", "_wrap_closure", "pre_optimizer_step"}
NONE = "no step was finished since the program started"

now = {}  # step, trained: of the batch that has begun: the steps and the batches before it; epoch: its epoch, and the steps before that


def begun(loop):
    trainer, progress = loop.trainer, loop.batch_progress
    step = now["step"] = trainer.global_step
    now["trained"] = progress.total.processed
    if progress.current.processed == 0:
        now["epoch"] = trainer.current_epoch, step
    if "later" in now and step > now["later"][0]:
        now["between"] = True
        try:
            trainer.save_checkpoint(*now.pop("later")[1])
        finally:
            del now["between"]
    return trainer, step


def ending(trainer):
    if "saving" in now:
        return None
    if "between" in now:
        return now["step"], False, False
    error = sys.exc_info()[1]
    failure = fit(trainer, frames(error.__traceback__)) if error is not None else []
    stack = failure or fit(trainer, interrupted())
    if not stack or "://" in str(arguments()[0]):
        return None
    failed, names = bool(failure) and bool(out_of_memory(error)), [f.f_code.co_name for f in stack]
    if "step" not in now:
        if loop(trainer).batch_progress.total.ready == 0:
            raise Wrong(NONE)
        return None
    if loop(trainer).batch_progress.total.processed > now["trained"]:
        return finished(trainer), failed, failed and counted(trainer) and "_run_validation" in names
    last = max([i for i, name in enumerate(names) if name in PASSES], default=-1)
    if any("/torch/optim/" in f.f_code.co_filename or f.f_code.co_name == "optimizer_step" for f in stack[last + 1 :]):
        if failure:
            raise Wrong(HALF)
        later()
        raise Wrong("")
    return None, failed, False


def later():
    now["later"] = now["step"], arguments()


def fit(trainer, frames):
    """The frames of a training, if it is this one's."""
    owners = trainer, trainer.fit_loop
    for n, frame in enumerate(frames):
        if frame.f_code.co_name in FIT and any(frame.f_locals.get("self") is o for o in owners):
            return frames[n:]
    return []


def interrupted():
    """The frames of what a signal's handler, which saves, has interrupted, outermost first."""
    import signal

    handlers = [signal.getsignal(n) for n in signal.valid_signals()]
    codes = {getattr(h, "__code__", None) or getattr(getattr(type(h), "__call__", None), "__code__", None) for h in handlers}
    frame, before = sys._getframe(), []
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    while frame is not None:
        frame = frame.f_back
        before.insert(0, frame)
    return before[1:]


def arguments():
    """What the method was called with."""
    frame = sys._getframe()
    while frame.f_code.co_name != "save_checkpoint":
        frame = frame.f_back
    return [frame.f_locals[name] for name in ("filepath", "weights_only", "storage_options") if name in frame.f_locals]


def counted(trainer):
    """Whether a step counts only after its validation, and a state has one more than is counted: before 1.6."""
    return "global_step" in vars(loop(trainer))


def finished(trainer):
    """The steps that are finished, where a batch is; None: others of its step have not begun."""
    within = getattr(loop(trainer), "_should_accumulate", None) or loop(trainer).batch_loop.should_accumulate
    return None if within() else now["step"] + 1 if counted(trainer) else trainer.global_step


def record(trainer, path, step, into):
    at, path, older = trainer.fit_loop, os.path.join(into, "state.ckpt"), counted(trainer)
    if older:
        before, (epoch, steps) = (at.global_step, at.current_epoch), now["epoch"]
        at.global_step, at.current_epoch = step - 1, epoch - (step == steps)  # it writes one more of each
    now["saving"] = True
    try:
        trainer.save_checkpoint(path, *arguments()[1:])
    finally:
        del now["saving"]
        if older:
            at.global_step, at.current_epoch = before
    return path


def found(frames):
    for frame in frames:
        code = frame.f_code
        if code.co_filename.endswith("loops/training_epoch_loop.py") and code.co_name in ("on_advance_end", "advance"):
            return frame.f_locals["self"].trainer


def loop(trainer):
    return trainer.fit_loop.epoch_loop


def number(trainer, where):
    return trainer.global_step


def models(trainer):
    return [trainer.lightning_module]


def within(calls):
    names = [name for file, name in calls if "/loops/" in file]
    if "save_checkpoint" in [name for _, name in calls]:
        return None
    validates = "on_advance_end" in names and {"_evaluation_step", "__next__"} & set(names)  # or reads its next batch
    return BETWEEN if validates else STEP if "advance" in names else None


def refuse(trainer, calls):
    if within(calls) == STEP or not loop(trainer)._num_ready_batches_reached():
        return "Lightning resumes an epoch at its first batch, so a state in the middle of one would not be a true one"
    if not hasattr(loop(trainer).val_loop, "batch_progress"):
        return "this is a Lightning before 2.0"
    if not getattr(trainer.checkpoint_callback, "dirpath", None):
        return "there is no ModelCheckpoint, which says where a state belongs"
    for schedule in trainer.lr_scheduler_configs:
        if schedule.reduce_on_plateau:
            return "a resume at the end of an epoch leaves out a step of the schedule that follows the validation"
        if schedule.interval == "epoch" and not hasattr(loop(trainer), "_restart_stage"):
            return "before 2.5, a resume at the end of an epoch makes a step of the schedule twice"
    names = [item.meta.name for item in loop(trainer)._results.values()]
    watched = [getattr(c, "monitor", None) for c in trainer.callbacks + trainer.lr_scheduler_configs]
    if any(m and m.startswith(n) for m in watched for n in names):
        return "what decides on the best state is a figure of the epoch's training, which a resume does not have"


def place(trainer, step):
    name = "epoch=%d-step=%d-before-validation.ckpt" % (trainer.current_epoch, step)
    return os.path.join(str(trainer.checkpoint_callback.dirpath), name)


def save(trainer, step, into):
    progress = loop(trainer).val_loop.batch_progress
    earlier = progress.total.completed - progress.current.completed  # of validations within the epoch
    for counts, done in ((progress.total, earlier), (progress.current, 0)):
        counts.ready = counts.started = done + 1
        counts.processed = counts.completed = done
    progress.is_last_batch = False
    path = os.path.join(into, "state.ckpt")
    trainer.save_checkpoint(path)
    return [(path, place(trainer, step))]
