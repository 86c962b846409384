"""How nanoGPT saves a whole state: train.py at 3adf61e1 (llama2.c's at 350e04f).

All of it is at the top level of the script: iter_num counts, a dict that is named checkpoint becomes out_dir/ckpt.pt. Both
expressions are taken from the script itself, so a state has what that script writes. A step ends with optimizer.zero_grad,
where iter_num does not count it yet; the forward pass may be compiled, and is left alone. The first one of a process is seen
where its gradients are clipped, too: two steps have to be seen.
"""
import os
import sys

SEEN = {
    "torch.optim.optimizer": {"Optimizer.zero_grad": ["self"]},
    "torch.nn.utils.clip_grad": {"clip_grad_norm_": ["None"]},
}
AGAIN = True  # a resume makes the validation of its step first

now = {}  # the expressions, and the step that has begun


def begun(optimizer):
    main = sys.modules["__main__"].__dict__
    clips = optimizer is None
    if clips:
        optimizer = None if "step" in now else main.get("optimizer")
    if optimizer is None or main.get("optimizer") is not optimizer or not now and not read(main["__file__"]):
        return None
    now["step"] = main["iter_num"] + (not clips)
    return optimizer, now["step"]


def read(path):
    """Whether the script has one dict that it saves, and one place for it."""
    ast = sys.modules["ast"]
    with open(path, "rb") as f:
        nodes = list(ast.walk(ast.parse(f.read())))
    states = [n.value for n in nodes if isinstance(n, ast.Assign) and is_name(n.targets[0], "checkpoint") and isinstance(n.value, ast.Dict)]
    saves = [n.args[1] for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "save" and len(n.args) > 1 and is_name(n.args[0], "checkpoint")]
    if len(states) != 1 or len(saves) != 1:
        return False
    now["state"], now["path"] = [compile(ast.Expression(e), path, "eval", dont_inherit=True) for e in (states[0], saves[0])]
    return True


def is_name(node, name):
    return getattr(node, "id", "") == name


def value(what, **other):
    return eval(now[what], dict(sys.modules["__main__"].__dict__, **other))


def number(optimizer, where):
    return sys.modules["__main__"].iter_num


def models(optimizer):
    return [sys.modules["__main__"].model]


def within(calls):
    names = [name for _, name in calls]
    if "<module>" not in names or {"save", "state_dict", "model_export"} & set(names):
        return None
    return BETWEEN if "estimate_loss" in names else STEP


def refuse(optimizer, calls):
    main = sys.modules["__main__"].__dict__
    ended = calls[-1][1] == "zero_grad"  # a save is asked for where iter_num does not count the step yet
    if main["iter_num"] != now["step"] - ended:
        return "the step that failed is not the one after the last finished one"
    if not main.get("always_save_checkpoint"):
        return "ckpt.pt is the best state only, as always_save_checkpoint is False"


def place(optimizer, step):
    return os.path.abspath(value("path"))


def aside(optimizer, step, path):
    """Where an older ckpt.pt is kept; None: it has this step."""
    saved = sys.modules["__main__"].checkpoint
    if saved is not None and saved["iter_num"] == step:
        return None
    try:
        of = "%d" % peek(path)["iter_num"]
    except Exception:  # it may be a torn one
        of = "of-%d" % os.stat(path).st_mtime
    stem, end = os.path.splitext(path)
    return stem + "-" + of + end


def save(optimizer, step, into):
    path = os.path.join(into, "ckpt.pt")
    sys.modules["torch"].save(value("state", iter_num=step), path)
    return [(path, place(optimizer, step))]
