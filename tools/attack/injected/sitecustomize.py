"""Raises an out-of-memory in a chosen operator of a training step, and notes the losses, for seeds_words.py.

It changes no file of the program, and is in place with launch and without. SEEDS_PLAN is a JSON document: "script" is the
program's name; "trace" the file for what was seen; "place", "at" and "operator", if they are there, say where to fail: after so
many optimizer steps of this process, in that operator of the forward passes, the backward passes, the optimizer's step,
what lies between those two ("clip"), or the next validation; "drawn": a pass without gradients is one, too; "once" is a file
that stands for a failure already made. A program that does not seed its random numbers begins with the same ones each time.
"""
import json
import os
import sys

PLAN = json.loads(os.environ.get("SEEDS_PLAN", "{}"))


def inject():
    import atexit
    import hashlib

    import torch
    from torch.nn.modules import module
    from torch.optim import optimizer as optim
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.manual_seed(0)
    out = open(PLAN["trace"], "a", buffering=1)
    place, at = PLAN.get("place"), PLAN.get("at")
    failing = place is not None and not os.path.exists(PLAN["once"])
    now = {"phase": None, "steps": 0, "first": None, "inside": 0, "top": None, "pushed": False, "quiet": False}
    counts, seen = {}, []

    def note(**said):
        out.write(json.dumps(said) + "\n")

    def fail():
        open(PLAN["once"], "w").close()
        names, frame = [], sys._getframe(1)
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        note(failed=place, steps=now["steps"], stack=names[::-1][-12:])
        kind = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
        raise kind("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 GiB is free. "
                   "Of the allocated memory 5.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.")

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, f, types, args=(), kwargs=None):
            if now["phase"] is not None and not now["quiet"]:
                key = "%s %d" % (now["phase"], now["steps"])
                counts[key] = counts.get(key, 0) + 1
                if failing and now["phase"] == place and now["steps"] == at and counts[key] == PLAN["operator"] \
                        and not os.path.exists(PLAN["once"]):
                    fail()
            return f(*args, **(kwargs or {}))

    operators = Operators()

    def push():
        if not now["pushed"] and (PLAN.get("count") or failing and now["steps"] == at):
            now["pushed"] = True
            operators.__enter__()

    def pop():
        if now["pushed"]:
            now["pushed"] = False
            operators.__exit__(None, None, None)

    def before(m, args):
        if torch.is_grad_enabled():
            if now["phase"] != "forward":
                now["phase"], now["top"] = "forward", None
        elif not m.training or PLAN.get("drawn"):
            if now["phase"] != "validation":
                now["phase"], now["top"] = "validation", None
        if now["top"] is None:
            now["top"] = m

    def first(of):
        if isinstance(of, torch.Tensor):
            return of
        for value in of.values() if hasattr(of, "values") else of if isinstance(of, (list, tuple)) else ():
            found = first(value)
            if found is not None:
                return found

    def after(m, args, result):
        if now["phase"] == "validation" and m is now["top"]:
            value = first(result)
            if value is not None:
                now["quiet"] = True
                note(validation=float(value.double().sum()).hex(), steps=now["steps"])
                now["quiet"] = False

    plain = torch.autograd.backward

    def backward(tensors, *args, **named):
        now["quiet"] = True
        for t in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
            note(loss=float(t.detach().double().sum()).hex(), steps=now["steps"])
        now["quiet"] = False
        now["phase"] = "backward"
        plain(tensors, *args, **named)
        now["phase"] = "optimizer" if now["inside"] else "clip"

    def begins(o, args, kwargs):
        now["phase"], now["inside"] = "optimizer", 1
        if now["first"] is None:
            now["first"] = o
        if o not in seen:
            seen.append(o)

    def ends(o, args, kwargs):
        now["phase"], now["inside"] = None, 0
        if o is now["first"]:
            if failing and now["steps"] == at and PLAN["place"] != "validation":
                pop()
            now["steps"] += 1
            push()

    def end():
        pop()
        digest = hashlib.sha256()
        for o in seen:
            for group in o.param_groups:
                for p in group["params"]:
                    for t in [p] + [v for _, v in sorted(o.state.get(p, {}).items()) if isinstance(v, torch.Tensor)]:
                        digest.update(t.detach().cpu().contiguous().view(-1).double().numpy().tobytes())
        note(end=digest.hexdigest(), steps=now["steps"], counts=counts, failed=getattr(sys, "last_value", None) is not None)

    atexit.register(end)
    torch.autograd.backward = backward
    module.register_module_forward_pre_hook(before)
    module.register_module_forward_hook(after)
    optim.register_optimizer_step_pre_hook(begins)
    optim.register_optimizer_step_post_hook(ends)
    push()


if PLAN and any(a.endswith(PLAN["script"]) for a in getattr(sys, "orig_argv", [])):
    inject()
