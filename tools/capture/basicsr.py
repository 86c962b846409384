#!/usr/bin/env python3
"""Records the networks, discriminators and losses of BasicSR and of the projects that are built on it.

    basicsr.py nets OUT.json --project BasicSR --checkout DIR [--base DIR] NAME;argument=value;...
    basicsr.py losses OUT.json --project BasicSR --checkout DIR NAME;argument=value;...

A name is a class of a *_arch.py or a *_loss.py anywhere below the checkout. --base is a checkout of BasicSR, for a project
that installs it beside its own. Rows are those of capture.py, with the project in the file.
"""

import argparse
import importlib
import itertools
import json
import os
import subprocess
import sys
import types

import torch

import capture
import measure

PARTS = ("", ".archs", ".losses", ".ops", ".utils", ".models", ".models.archs", ".models.losses", ".data")


class Quiet:
    def __getattr__(self, _):
        return lambda *args, **kwargs: None


def packages(*roots):
    """Stands in for every package's __init__, which wants everything; files are imported by their own names."""
    for root in roots:
        for top in sorted(os.listdir(root)):
            if not any(os.path.isdir(os.path.join(root, top, d)) for d in ("archs", "models/archs")):
                continue
            for part in PARTS:
                name, folder = top + part, os.path.join(root, *(top + part).split("."))
                if os.path.isdir(folder) and name not in sys.modules:
                    m = types.ModuleType(name)
                    m.__path__ = [folder]
                    sys.modules[name] = m
    for name in [n for n in sys.modules if n.endswith(".utils") and n.count(".") == 1 and "__path__" in vars(sys.modules[n])]:
        sys.modules[name].get_root_logger = lambda *args, **kwargs: Quiet()
    fairscale = types.ModuleType("fairscale.nn")  # which ATD asks for, to checkpoint
    fairscale.checkpoint_wrapper = lambda module, *args, **kwargs: module
    sys.modules.setdefault("fairscale", types.ModuleType("fairscale"))
    sys.modules.setdefault("fairscale.nn", fairscale)
    torch.meshgrid = lambda *args, real=torch.meshgrid, **kwargs: real(*args, **{"indexing": "ij", **kwargs})


def find(root, name, suffix):
    """The class of that name in a file of the checkout."""
    for folder, _, files in sorted(os.walk(root)):
        for f in sorted(files):
            path = os.path.join(folder, f)
            if not f.endswith(suffix) or f"class {name}(" not in open(path, encoding="utf-8").read():
                continue
            module = os.path.relpath(path, root)[:-3].replace(os.sep, ".")
            return getattr(importlib.import_module(module), name)
    raise SystemExit(f"{name}: no file of {root} has it")


class Judged(torch.nn.Module):
    """A loss of an image, as a module whose one input is the target."""

    def __init__(self, loss, shape):
        super().__init__()
        self.image = torch.nn.Parameter(torch.rand(shape))
        self.loss = loss

    def forward(self, target):
        out = self.loss(self.image, target)
        if isinstance(out, tuple):  # the content's and the style's
            out = sum(o for o in out if o is not None)
        return out


def stub_vgg():
    """torchvision's VGGs without their weights, whatever they are asked for."""
    import torchvision

    for name in ("vgg11", "vgg13", "vgg16", "vgg19"):
        real = getattr(torchvision.models.vgg, name)
        setattr(torchvision.models.vgg, name, lambda pretrained=False, weights=None, real=real: real())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["nets", "losses"])
    p.add_argument("out")
    p.add_argument("names", nargs="+")
    p.add_argument("--project", required=True)
    p.add_argument("--checkout", required=True)
    p.add_argument("--base", default="")
    p.add_argument("--device", default="meta")
    p.add_argument("--crop", type=int, default=64)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--channels", type=int, default=3)
    p.add_argument("--frames", type=int, default=1, help="of a network of clips (b, t, c, h, w)")
    p.add_argument("--eval", type=int, nargs="*", default=[128])
    p.add_argument("--precisions", type=int, default=2, help="1 leaves out the rows under autocast")
    a = p.parse_intermixed_args()

    torch.set_num_threads(1)
    measure.patch_attention()
    measure.patch_checkpoint()
    measure.patch_convolution()
    capture.stub_cuda()
    sys.path[:0] = [r for r in (a.checkout, a.base) if r]
    packages(*(r for r in (a.checkout, a.base) if r))
    if a.what == "losses":
        capture.stub_losses()
        stub_vgg()
    rows, shape = [], (a.batch, a.channels * a.frames, a.crop, a.crop)
    for text in a.names:
        name, kw = capture.arguments(text)
        cls = find(a.checkout, name, "_arch.py" if a.what == "nets" else ("_loss.py", "losses.py"))

        def make(cls=cls, kw=kw):
            if a.what == "losses":
                return Judged(cls(**kw), shape)
            return capture.Clip(cls(**kw), a.frames) if a.frames > 1 else cls(**kw)

        for row in itertools.islice(capture.record(name.lower(), make, shape, a.device, a.eval), a.precisions):
            r = dict(row, args=kw)
            rows.append(r)
            print(text, r["amp"], r["params"], r["saved"], r["peak"], r["eval"], file=sys.stderr)
    head = subprocess.run(["git", "-C", a.checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    out = {"torch": torch.__version__, "device": a.device, "project": a.project, "commit": head.stdout.strip(), "rows": rows}
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
