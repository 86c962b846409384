"""How Lightning saves a whole state: Trainer.save_checkpoint of lightning.pytorch and pytorch_lightning, from 2.0 on.

A resume does not go on at the next batch: it begins the epoch's data again. So there is a state only where the validation
fails that follows the last batch of an epoch. That state says that the validation has not begun, so a resume makes all of it,
and what is best is decided as ever.
"""
import os

SEEN = {}
AGAIN = True


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
    return BETWEEN if "on_advance_end" in names and "_evaluation_step" in names else STEP if "advance" in names else None


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
