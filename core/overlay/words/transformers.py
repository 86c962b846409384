"""How Hugging Face's Trainer saves a whole state, for launch's last words: transformers 4.36 to 5.24, trainer.py.

A resume within an epoch sets the random state after it has fetched the batch, so it needs the one where the step's passes
begin. One at the end of an epoch sets it before the next epoch draws its order, so it needs the one before that.
"""

SEEN = {
    "transformers.trainer": {"Trainer.training_step": ["self"]},
    "transformers.trainer_callback": {"CallbackHandler.on_epoch_begin": ["None"]},
}

now = {}  # step: which has begun; drawn: the random state with which its epoch began, if it is the first one of it


def begun(trainer):
    if trainer is None:
        now["epoch"] = randoms()
        return None
    step = trainer.state.global_step
    if now.get("step") != step:
        epoch = now.pop("epoch", None)
        epochs = float(getattr(trainer.state, "epoch", None) or 0)
        begins = "step" in now and epochs.is_integer()  # else it has resumed within an epoch
        now["step"], now["drawn"] = step, epoch if begins else None
    return trainer, step


def number(trainer, where):
    return trainer.state.global_step


def models(trainer):
    return [trainer.model]


def within(calls):
    mine = [name for file, name in calls if file.endswith("transformers/trainer.py")]
    if "_save_checkpoint" in mine:
        return None  # a state is being written
    if "evaluate" in mine:
        return BETWEEN
    if "get_batch_samples" in mine:
        return DONE  # all passes of a step are fetched before its first one
    return STEP if "training_step" in mine else None


def refuse(trainer, calls):
    args = trainer.args
    if args.save_only_model:
        return "save_only_model is set, so a state has no optimizer"
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return "DeepSpeed and FSDP save from all ranks"
    if within(calls) == BETWEEN and (args.load_best_model_at_end or args.save_strategy == "best"):
        return "the validation that failed decides which model is the best"


def place(trainer, step):
    return trainer.args.output_dir + "/checkpoint-%d" % step


def save(trainer, step, into):
    args, where = trainer.args, trainer._get_output_dir
    hub, most = args.push_to_hub, args.save_total_limit
    trainer._get_output_dir = lambda trial: into
    drawn = now["epoch"] if "epoch" in now else now["drawn"] if now.get("step") == step else None
    if drawn is not None:
        restore(drawn)
    args.push_to_hub, args.save_total_limit = False, None  # nothing is sent, and no older state removed
    try:
        trainer._save_checkpoint(trainer.model, None)
    finally:
        del trainer._get_output_dir
        args.push_to_hub, args.save_total_limit = hub, most
    return [(into + "/checkpoint-%d" % step, place(trainer, step))]
