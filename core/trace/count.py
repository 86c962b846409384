"""Counts what a PyTorch module keeps and needs in one step, on the meta device: nothing is computed.

It runs in the command's own Python. On standard input comes JSON: {"memory": bytes, "seconds": n, "path": [folders],
"formulas": [{"file", "function", "config"}]}. On standard output goes one line of JSON for each formula, in order,
{"counted": job.Counted without its formula, "files": [what was read]}; what the module's own code prints goes to
standard error.
"""
import json
import os
import resource
import signal
import sys

FACTORIES = (
    "empty empty_strided full ones zeros arange eye linspace logspace rand randn randint randperm tensor as_tensor "
    "tril_indices triu_indices normal hann_window hamming_window range scalar_tensor"
)
KEYS = {"module", "inputs", "forward", "loss", "train"}


class Opened:
    """The files that are opened for reading, outside of Python's own folders."""

    def __init__(self):
        self.paths, self.known = set(), set(sys.modules)
        self.skip = tuple(os.path.realpath(p) + os.sep for p in {sys.prefix, sys.base_prefix, "/proc", "/sys", "/dev", "/etc"})
        sys.addaudithook(self.hook)

    def hook(self, event, args):
        if event == "open" and isinstance(args[0], str) and args[1] in ("r", "rb", "rt", None):
            if not args[0].endswith((".pyc", ".so")):
                self.paths.add(os.path.abspath(args[0]))

    def files(self):
        """What was read, and the source of every module but those that torch brings, and Python's own."""
        stdlib = os.path.dirname(os.__file__) + os.sep
        found = {p for p in self.paths if os.path.isfile(p) and not os.path.realpath(p).startswith(self.skip)}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            foreign = not path.startswith(stdlib) or "-packages" in path
            if path.endswith(".py") and foreign and name not in self.known and name.partition(".")[0] != "torch":
                found.add(os.path.abspath(path))
        torch = sys.modules.get("torch")
        if torch is not None:
            found.add(os.path.join(os.path.dirname(torch.__file__), "version.py"))
        return sorted(found)


def storage(t):
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()


def key(t):
    return storage(t)._cdata


def nbytes(t):
    return storage(t).nbytes()


def tensors(value):
    """Every tensor in a result: lists, dictionaries, dataclasses such as those of transformers."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)
    elif hasattr(value, "__dict__"):
        for v in vars(value).values():
            if isinstance(v, torch.Tensor):
                yield v


def on_meta():
    """A context in which tensors are made on meta."""
    import torch
    from torch.overrides import TorchFunctionMode

    device = torch.device("meta")
    if hasattr(device, "__enter__"):  # from 2.0 on
        return device
    made = {getattr(torch, n) for n in FACTORIES.split() if hasattr(torch, n)}

    class Meta(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func in made and kwargs.get("device") is None:
                kwargs["device"] = device
            return func(*args, **kwargs)

    return Meta()


def live_mode():
    """The class of the mode that follows storages; torch is imported by now."""
    import weakref

    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Live(TorchDispatchMode):
        """The bytes of live storages on meta, their peak, and what the peak is made of."""

        def __init__(self, exclude):
            super().__init__()
            self.exclude, self.live, self.now, self.peak = exclude, {}, 0, 0
            self.largest, self.largest_at, self.at = 0, "", ""
            self.nodes, self.sizes, self.saved = {}, {}, 0
            self.gradients, self.done = 0, set()
            self.at_peak = (0, 0)
            self.part, self.by_part = "", {}

        def track(self, t, op):
            k, n = key(t), nbytes(t)
            if k in self.exclude or n == 0 or t.device.type != "meta":
                return
            entry = self.live.setdefault(k, [n, 0])
            entry[1] += 1
            if entry[1] == 1:
                self.now += n
                if n > self.largest:
                    self.largest, self.largest_at = n, op
            self.mark(op)
            weakref.finalize(t, self.drop, k).atexit = False

        def mark(self, op):
            if self.now > self.peak:
                self.peak, self.at, self.at_peak = self.now, op, (self.saved, self.gradients)

        def drop(self, k):
            entry = self.live[k]
            entry[1] -= 1
            if entry[1] == 0:
                self.now -= entry[0]
                del self.live[k]

        def pack(self, t):
            """Called for each tensor that a node of the graph keeps."""
            if t.device.type == "meta":
                kept = Kept(t.detach())  # a result would hold its own node otherwise
            else:  # a number that multiplies, which is no tensor to a mode
                kept = Kept(torch.empty(t.shape, dtype=t.dtype, device=t.device))
            k = key(t)
            if k not in self.exclude and t.device.type == "meta" and nbytes(t) > 0:
                self.track(kept.t, "saved")
                if self.nodes.get(k, 0) == 0:
                    self.sizes[k] = (nbytes(t), self.part)
                    self.saved += nbytes(t)
                    self.by_part[self.part] = self.by_part.get(self.part, 0) + nbytes(t)
                self.nodes[k] = self.nodes.get(k, 0) + 1
                weakref.finalize(kept, self.unpack, k).atexit = False
            return kept

        def unpack(self, k):
            self.nodes[k] -= 1
            if self.nodes[k] == 0:
                n, part = self.sizes.pop(k)
                self.saved -= n
                self.by_part[part] -= n

        def graded(self, p):
            """A parameter's gradient was computed: it stays until the optimizer's step."""
            if id(p) not in self.done:
                self.done.add(id(p))
                self.gradients += nbytes(p)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in tensors(out):
                self.track(t, str(func))
            if str(func) == "aten._softmax_backward_data.default":  # a card's kernel makes their product, too (SoftMax.cu)
                product = nbytes(args[1])
                self.now += product
                self.mark(str(func))
                self.now -= product
            return out

    class Kept:
        def __init__(self, t):
            self.t = t

    return Live


def asked(result):
    """What the function has returned, as a dictionary."""
    if not isinstance(result, dict):
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError("the function returns a pair (module, inputs), or a dictionary")
        result = {"module": result[0], "inputs": result[1]}
    unknown = set(result) - KEYS
    if unknown or not {"module", "inputs"} <= set(result):
        raise TypeError("the keys of what the function returns are %s" % ", ".join(sorted(KEYS)))
    return result


def loss_of(out):
    """One number of everything that the module returns. The mean keeps nothing and makes nothing."""
    given = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    if given is not None:
        return given
    grown = [t for t in tensors(out) if t.requires_grad]
    if not grown:
        raise RuntimeError("nothing of what the module returns requires a gradient")
    return sum(t.mean() for t in grown)


def parts(module):
    """The bytes and elements of each child, and of what belongs to none."""
    found, seen = {}, set()
    for name, child in [*module.named_children(), ("", module)]:
        row = found.setdefault(name, {"name": name})
        for kind, several in (("parameter", child.parameters()), ("buffer", child.buffers())):
            for t in several:
                if key(t) in seen:
                    continue
                seen.add(key(t))
                count(row, kind + "s", t.numel())
                count(row, kind + "_bytes", nbytes(t))
                if kind == "parameter" and t.requires_grad:
                    count(row, "trainable", t.numel())
                    count(row, "trainable_bytes", nbytes(t))
    return found


def count(row, name, n):
    row[name] = row.get(name, 0) + n


def follow(module, live):
    """Notes which child runs."""

    def enter(name):
        def hook(*_):
            live.part = name

        return hook

    def leave(*_):
        live.part = ""

    for name, child in module.named_children():
        child.register_forward_pre_hook(enter(name))
        child.register_forward_hook(leave)


def counted(function, config):
    """job.Counted of one formula."""
    import gc

    import torch

    with on_meta():
        given = asked(function(config))
    module, inputs = given["module"].to("meta"), given["inputs"]
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    if isinstance(inputs, dict):
        inputs = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    else:
        inputs = tuple(v.to("meta") if isinstance(v, torch.Tensor) else v for v in inputs)
    forward, train = given.get("forward", module), given.get("train", True)
    module.train(train)
    found = parts(module)
    model = {key(t): t for t in [*module.parameters(), *module.buffers()]}
    batch = {key(t): nbytes(t) for t in tensors(inputs)}
    live = live_mode()({*model, *batch})
    follow(module, live)
    answer = {"torch": torch.__version__, "input_bytes": sum(batch.values())}
    gc.collect()
    gc.disable()

    def run():
        return forward(**inputs) if isinstance(inputs, dict) else forward(*inputs)

    if train:
        for p in module.parameters():
            if p.requires_grad:
                p.register_hook(lambda _, p=p: live.graded(p))
        with live:
            with torch.autograd.graph.saved_tensors_hooks(live.pack, lambda kept: kept.t):
                out = run()
                answer.update(saved_bytes=live.saved, forward_peak_bytes=live.peak)
                saved = dict(live.by_part)
                loss = (given.get("loss") or loss_of)(out)
            answer["output_bytes"] = sum({key(t): nbytes(t) for t in tensors(out)}.values())
            del out
            backward(loss, live, answer)
        for name, n in saved.items():
            count(found.setdefault(name, {"name": name}), "saved_bytes", n)
    else:
        with torch.no_grad(), live:
            out = run()
        answer.update(forward_peak_bytes=live.peak, no_backward="it is a forward without gradients")
        answer["output_bytes"] = sum({key(t): nbytes(t) for t in tensors(out)}.values())
    answer.update(largest_bytes=live.largest, largest_at=live.largest_at)
    answer["parts"] = [row for row in found.values() if len(row) > 1]
    return answer


def backward(loss, live, answer):
    """The peak of forward and backward. Some operations have no backward on meta, all convolutions of torch 1.13 among them."""
    try:
        loss.backward()
        answer.update(peak_bytes=live.peak, peak_saved_bytes=live.at_peak[0], peak_gradient_bytes=live.at_peak[1], peak_at=live.at)
    except (RuntimeError, NotImplementedError) as e:
        answer["no_backward"] = text(e)


def text(e):
    """An exception for a person: its last line."""
    last = (str(e).strip() or "no message").splitlines()[0]
    return ("%s: %s" % (type(e).__name__, last))[:500]


def load(path):
    """The module in a file, imported by itself: not as a part of its package, which may need what is not here."""
    import importlib.util

    name = "launch_formula_" + os.path.basename(path)[:-3]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    spec.loader.exec_module(module)
    return module


def warm():
    """Loads what torch itself loads: it is no part of a formula. Returns the exception, or None."""
    try:
        import torch

        counted(lambda _: (torch.nn.Linear(1, 1), torch.empty(1, 1)), None)
    except Exception as e:
        return e
    return None


def main():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], request["memory"]))
    signal.alarm(request["seconds"])  # should launch be killed meanwhile
    sys.path[0:1] = request["path"]
    sys.dont_write_bytecode = True
    problem, modules = warm(), {}
    opened = Opened()
    for f in request["formulas"]:
        try:
            if problem:
                raise problem
            if f["file"] not in modules:
                folder = os.path.dirname(f["file"])
                if folder not in sys.path:
                    sys.path.append(folder)
                modules[f["file"]] = load(f["file"])
            answer = counted(getattr(modules[f["file"]], f["function"]), f.get("config"))
        except MemoryError:
            answer = {"problem": "it needs more than %d MiB of host memory, though nothing is computed" % (request["memory"] >> 20)}
        except ModuleNotFoundError as e:
            answer = {"problem": "%s has no module %s" % (sys.executable, e.name)}
        except (Exception, SystemExit) as e:
            answer = {"problem": text(e)}
        json.dump({"counted": answer, "files": opened.files()}, out)
        out.write("\n")
        out.flush()


main()
