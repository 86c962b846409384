#!/usr/bin/env python3
"""Records what PyTorch keeps for backward, and its peaks, for the Go tests to compare the tape with.

    capture.py layers OUT.json                       small networks of our own, one for each kind of layer
    capture.py layers OUT.json --cases layers_attention   the same for the operations of attention networks
    capture.py nets OUT.json --checkout DIR ...      a project's own classes, from its checkout (never committed)
    capture.py losses OUT.json --checkout DIR ...    its losses, of an image that requires a gradient

"nets" and "losses" take "name;argument=value;..." with values in JSON, and import the file of the checkout's
archs or losses that registers the name. A net may also be "file.py:Class".

On the "meta" device nothing is computed, so large networks take seconds; but there some derivatives (mish) are put
together from several operations where a real device has one, so networks with these are recorded on the CPU. PyTorch
1.13 has no backward of convolutions there at all.
"""

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import types

import torch

import measure


def record(name, make, shape, device, sizes=(), default=False):
    """One row for each precision. default: the program makes the card the default device, as neosr's train.py does."""
    for amp in (False, True):
        torch.set_default_device("cpu")
        model = make().to(device)
        if default:
            keep_attributes(model)
            model.to(device)
            torch.set_default_device(device)
        x = torch.rand(*shape, device=device)
        params, buffers = measure.count(model)
        kept, casts, top = measure.saved(model, [x], amp)
        peak, op = measure.train_peak(model, [x], amp)
        row = {
            "name": name, "shape": list(shape), "amp": amp, "params": params, "buffers": buffers, "saved": kept,
            "casts": casts, "peak": peak, "peak_op": op,
        }
        evals = {}
        for size in sizes or [shape[-1]]:
            image = torch.rand(1, shape[1], size, size, device=device)
            evals[str(size)], row["largest"], row["largest_op"] = measure.eval_peak(model, [image], amp)
        row["eval"] = evals
        if os.environ.get("CAPTURE_TOP"):
            print(name, amp, kept, casts, peak, op)
            tally = {}
            for t in top:
                tally[t] = tally.get(t, 0) + 1
            for t, n in tally.items():
                print("   ", n, "x", t)
        yield row


# The packages of the projects, by the folder that each has in its checkout.
PACKAGES = ("traiNNer", "neosr")
SCALE = 4  # that neosr's networks read from the recipe while they are imported


def package(checkout):
    """The folder of a checkout that has the project's source."""
    return next(p for p in PACKAGES if os.path.isdir(os.path.join(checkout, p)))


def keep_attributes(model):
    """A table that a module keeps as a plain attribute lies where it was made: where the card is the default device, on the
    card, as a buffer does."""
    for m in model.modules():
        for k, v in list(vars(m).items()):
            if isinstance(v, torch.Tensor) and v.numel() > 1000 and k + "_orig" not in m._parameters:  # not spectral_norm's weight
                delattr(m, k)
                m.register_buffer(k, v)


def load(checkout, kind, file):
    """Imports one file of a checkout without its package's __init__, which wants everything."""
    top = package(checkout)
    for k in [k for k in sys.modules if k == top or k.startswith(top + ".")]:
        del sys.modules[k]
    for name in (top, f"{top}.utils", f"{top}.archs", f"{top}.losses", f"{top}.data"):
        m = types.ModuleType(name)
        m.__path__ = [os.path.join(checkout, *name.split("."))]
        sys.modules[name] = m
    if top == "neosr":
        stub_neosr()
    models = types.ModuleType(f"{top}.models.sr_model")  # where a loss with a network of its own looks for it
    models.build_network = build_network
    sys.modules[f"{top}.models"] = types.ModuleType(f"{top}.models")
    sys.modules[f"{top}.models.sr_model"] = models
    importlib.import_module(f"{top}.{kind}.{file}")
    return importlib.import_module(f"{top}.utils.registry")


def stub_neosr():
    """neosr's files read the recipe of the command, and its losses want the logger."""
    options = types.ModuleType("neosr.utils.options")
    opt = {"scale": SCALE, "datasets": {"train": {}}}
    options.parse_options = lambda *args, **kwargs: (opt, types.SimpleNamespace(input=None))
    sys.modules["neosr.utils.options"] = options
    utils = sys.modules["neosr.utils"]
    utils.get_root_logger = lambda *args, **kwargs: types.SimpleNamespace(info=print, warning=print)
    utils.tc = types.SimpleNamespace(red="", end="", light_yellow="", light_green="")


def build_network(opt):
    """traiNNer.archs.build_network, of the one file that registers the name."""
    opt = dict(opt)
    name = opt.pop("type").lower()
    folder = sys.modules["traiNNer.archs"].__path__[0]
    for f in sorted(os.listdir(folder)):
        with open(os.path.join(folder, f), encoding="utf-8") as text:
            if f.endswith("_arch.py") and f"def {name}(" in text.read().lower():
                importlib.import_module(f"traiNNer.archs.{f[:-3]}")
                reg = sys.modules["traiNNer.utils.registry"]
                return next(r for r in (reg.SPANDREL_REGISTRY, reg.ARCH_REGISTRY) if name in r).get(name)(**opt)
    raise SystemExit(f"{name}: no file of {folder} registers it")


def plain(path, name):
    """A class of a file that needs no package."""
    spec = importlib.util.spec_from_file_location("plain", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def find(checkout, name, kind="archs"):
    """What a file of the checkout registers under a name: a class or a function."""
    folder = os.path.join(checkout, package(checkout), kind)
    for f in sorted(os.listdir(folder)):
        if not f.endswith("_%s.py" % {"archs": "arch", "losses": "loss"}[kind]):
            continue
        with open(os.path.join(folder, f), encoding="utf-8") as text:
            source = text.read().lower()
        if f"def {name.lower()}(" in source or f"class {name.lower()}(" in source:
            reg = load(checkout, kind, f[:-3])
            names = ("SPANDREL_REGISTRY", "ARCH_REGISTRY", "TESTARCH_REGISTRY", "LOSS_REGISTRY")
            for r in (getattr(reg, n) for n in names if hasattr(reg, n)):
                if name in r:
                    return r.get(name)
    raise SystemExit(f"{name}: no file of {folder} registers it")


def arguments(text):
    name, *rest = text.split(";")
    return name, {k: json.loads(v) for k, _, v in (a.partition("=") for a in rest)}


def stub_losses():
    """Losses want weights from the network and a package that few have; neither changes what is saved."""
    import torchvision

    for name in ("vgg16", "vgg19"):
        real = getattr(torchvision.models, name)
        setattr(torchvision.models, name, lambda weights=None, real=real: real(weights=None))
        setattr(torchvision.models.vgg, name, getattr(torchvision.models, name))
    sys.modules.setdefault("antialiased_cnns", types.ModuleType("antialiased_cnns"))
    torch.nn.Module.load_state_dict = lambda self, *args, **kwargs: None
    torch.load = torch.hub.load_state_dict_from_url = lambda *args, **kwargs: {}
    try:
        import safetensors.torch
    except ImportError:
        pass
    else:
        safetensors.torch.load_file = lambda *args, **kwargs: {}
    try:
        import timm
    except ImportError:
        pass
    else:
        create = timm.create_model
        timm.create_model = lambda name, pretrained=False, **kw: create(name, pretrained=False, **kw)
    try:
        from transformers import CLIPConfig, CLIPModel
    except ImportError:
        pass
    else:
        CLIPModel.from_pretrained = classmethod(lambda cls, *args, **kwargs: cls(CLIPConfig()))
    torch.amp.custom_fwd = float32_forward


def stub_hub(folder):
    """torch.hub.load of a project that has been cloned to a folder, without its weights."""
    sys.path.insert(0, folder)

    def load(_repo, name, **_kwargs):
        model = getattr(importlib.import_module("hubconf"), name)(pretrained=False)
        model.to = lambda *args, **kwargs: model  # which the loss says to the card
        return model

    torch.hub.load = load


def stub_cuda():
    """Some files say cuda() or device="cuda" where they stand; here that is where everything else is."""
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self
    move = torch.Tensor.to
    torch.Tensor.to = lambda self, *args, **kwargs: self if args and args[0] == "cuda" else move(self, *args, **kwargs)
    for name in ("zeros", "ones", "randn", "tensor"):
        real = getattr(torch, name)

        def make(*args, device=None, pin_memory=None, real=real, **kwargs):  # nothing is pinned without a card
            return real(*args, device=None if device == "cuda" else device, **kwargs)

        setattr(torch, name, make)


def float32_forward(*_args, **_kwargs):
    """torch.amp.custom_fwd(cast_inputs=torch.float32) under the emulated autocast."""

    def wrap(f):
        def forward(self, *xs):
            modes = [m for m in measure.ACTIVE if m.on]
            for m in modes:
                m.on = False
            try:
                return f(self, *(x.float() for x in xs)) if modes else f(self, *xs)
            finally:
                for m in modes:
                    m.on = True

        return forward

    return wrap


class Clip(torch.nn.Module):
    """A network of clips (b, t, c, h, w), called with (b, t * c, h, w)."""

    def __init__(self, net, frames):
        super().__init__()
        self.net, self.frames = net, frames

    def forward(self, x):
        return self.net(x.view(x.shape[0], self.frames, -1, *x.shape[2:]))


class Judged(torch.nn.Module):
    """A loss of an image, as a module whose one input is the target."""

    def __init__(self, loss, shape):
        super().__init__()
        self.image = torch.nn.Parameter(torch.rand(shape))
        self.loss = loss
        if type(loss).__name__ == "ContrastiveLoss":  # whose network is made in the first step
            loss._ensure_clip_model(self.image.device)
            self.register_buffer("lq", torch.rand(shape)[:, :, ::4, ::4].contiguous())  # of the batch

    def train(self, mode=True):  # which no training does to its losses: they stay as they are made
        self.training = mode
        return self

    def forward(self, target):
        if type(self.loss).__name__ == "consistency_loss":  # a term of it counts where the two are alike
            self.image.data.copy_(target)
        if type(self.loss).__name__ == "LDLLoss":  # which wants what the averaged network made, too
            out = self.loss(self.image, target.clone(), target)
        elif type(self.loss).__name__ == "ContrastiveLoss":  # and the low resolution
            out = self.loss(self.image, target, self.lq)
        elif type(self.loss).__name__ == "ContextualLoss":  # which asks for a plain tensor by its type
            out = self.loss(self.image.view_as(self.image), target)
        else:
            out = self.loss(self.image, target)
        out = sum(out.values()) if isinstance(out, dict) else out
        return out if out.requires_grad or not torch.is_grad_enabled() else out + 0 * self.image.mean()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["layers", "nets", "losses"])
    p.add_argument("out")
    p.add_argument("nets", nargs="*")
    p.add_argument("--checkout", help="the project's root, with traiNNer/ or neosr/ in it")
    p.add_argument("--commit", default="", help="its commit, recorded beside the numbers")
    p.add_argument("--device", default="", help='"cpu" or "meta"; layers run on the first, nets on the second')
    p.add_argument("--cases", default="layers", help="the file here that has the layers: layers, layers_rearrange or layers_attention")
    p.add_argument("--hub", help="a clone of the project whose network a loss takes from torch.hub: facebookresearch/dinov2")
    p.add_argument("--efficient", action="store_true", help="a mask goes to the memory-efficient kernel of attention, as on a card")
    p.add_argument("--scale", type=int, default=4, help="of neosr's recipe")
    p.add_argument("--crop", type=int, default=64)
    p.add_argument("--batch", type=int, default=1, help="some copies are made of several images only")
    p.add_argument("--eval", type=int, nargs="*", default=[128, 256])
    p.add_argument("--frames", type=int, default=1, help="of a network of clips, whose frames count as channels here")
    a = p.parse_intermixed_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    measure.patch_attention()
    measure.patch_rms_norm()
    measure.patch_flex_attention()
    measure.patch_checkpoint()
    measure.patch_convolution()
    measure.patch_mish()
    stub_cuda()
    rows = []
    if a.what == "layers":
        device = a.device or "cpu"
        for name, make in importlib.import_module(a.cases).cases():
            try:
                rows += record(name, make, (2, 3, 32, 32), device)
            except Exception as e:  # noqa: BLE001
                print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
    else:
        device = a.device or "meta"
        shape = (a.batch, 3 * a.frames, a.crop, a.crop)
        default = package(a.checkout) == "neosr" if a.checkout else False
        global SCALE
        SCALE = a.scale
        if a.what == "losses":
            stub_losses()
        if a.hub:
            stub_hub(a.hub)
        if a.efficient:
            torch.backends.cuda.enable_math_sdp(False)
        for text in a.nets:
            name, kw = arguments(text)
            if a.what == "losses":
                cls = find(a.checkout, name, "losses")
            elif ".py:" in name:
                path, name = name.rsplit(":", 1)
                cls, name = plain(path, name), name.lower()
            else:
                cls = find(a.checkout, name)

            def make(cls=cls, kw=kw):
                if a.what == "losses":
                    return Judged(cls(loss_weight=1.0, **kw), shape)
                return Clip(cls(**kw), a.frames) if a.frames > 1 else cls(**kw)

            try:
                got = [dict(row, args=kw) for row in record(name, make, shape, device, a.eval, default)]
            except Exception as e:  # noqa: BLE001
                print(f"{text}: {type(e).__name__}: {e}", file=sys.stderr)
                continue
            rows += got
            for r in got:
                print(text, r["amp"], r["params"], r["saved"], r["peak"], r["eval"], file=sys.stderr)
    commit = a.commit
    if a.checkout and not commit:
        head = subprocess.run(["git", "-C", a.checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        commit = head.stdout.strip()
    out = {"torch": torch.__version__, "device": device, "commit": commit, "rows": rows}
    if a.checkout and package(a.checkout) == "neosr":
        out["project"] = "neosr"
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
