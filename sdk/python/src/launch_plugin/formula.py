"""Lines of an estimate, made of what launch has counted of the author's own nn.Module.

The plugin asks by raising Need(formulas=[Formula(file, function, config)]), and finds the answers on the next call of
recognize: command.counted(formula). The function lies in a file that may import torch, and not launch_plugin, and not by a
relative import: launch imports it by itself, in the Python of the user's command.

    def build(config):                       # config is the formula's, as JSON has it
        model = Net(**config["net"])         # made on the meta device: nothing is computed or allocated
        return model, torch.empty(config["batch"], 3, 64, 64)

It returns the module and its inputs: a tensor, a tuple of arguments, or a dictionary of keywords. In place of the pair
it may return a dictionary with the keys module and inputs, and if needed forward (called instead of the module), loss
(from the module's result to one number), and train (False: a forward without gradients).
"""

from typing import Iterable, List, Optional, Tuple, Union

from .documents import (
    BUFFERS, CONTEXT, GRADIENTS, INPUTS, OPTIMIZER, PARAMETERS, RUNTIME, SAVED, TRANSIENTS, WORKSPACE, Counted,
    CountedPart, Device, Estimate, Item,
)
from .units import GiB, KiB, MiB

# Copies of the trainable parameters that an optimizer keeps as its states (torch.optim's defaults).
STATES = {"sgd": 0, "momentum": 1, "adagrad": 1, "lion": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "nadam": 2, "radam": 2}


def training(
    counted: Optional[Counted],
    optimizer: Union[str, int] = "adamw",
    accumulation: int = 1,
    device: Optional[Device] = None,
) -> Estimate:
    """The memory of a training step: model states, the batch, and forward and backward at their peak, in bytes.

    optimizer is a key of STATES, or how many copies of the trainable parameters it keeps. With accumulation, and before
    torch 2, gradients stay from one forward to the next. A module that could not be counted makes the estimate unknown.
    """
    unknown = _unknown(counted)
    if unknown or counted is None:
        return Estimate(unknown=unknown)
    source = _source(counted)
    copies = STATES.get(optimizer.lower()) if isinstance(optimizer, str) else optimizer
    items = _states(counted, source)
    items += [
        Item(OPTIMIZER, _name(p), copies * p.trainable_bytes, from_=f"{optimizer}: {copies} × the trainable parameters")
        for p in counted.parts
        if copies
    ]
    kept = accumulation > 1 or counted.torch.startswith("1.")
    items += _step(counted, source, kept)
    why = "" if copies is not None else f"how much the optimizer {optimizer} keeps is not known"
    return Estimate(_nonzero([*items, *process(device, counted.torch)]), unknown=why)


def inference(counted: Optional[Counted], device: Optional[Device] = None, what: str = "the forward") -> Estimate:
    """The memory of a forward without gradients, such as a validation's, in bytes. what names its tensors.

    The optimizer's states of a training in the same process are not in it: add them.
    """
    unknown = _unknown(counted)
    if unknown or counted is None:
        return Estimate(unknown=unknown)
    source = _source(counted)
    items = _states(counted, source)
    items.append(Item(TRANSIENTS, what, counted.forward_peak_bytes, from_=source))
    return Estimate(_nonzero([*items, *process(device, counted.torch)]))


def process(device: Optional[Device], torch: str = "") -> List[Item]:
    """What a process takes beside its tensors: guesses, until launch has measured the device.

    torch is the version with its build, "2.5.1+cu124"; "" where it is not known.
    """
    if device is None:
        return []
    if device.kind == "cpu":
        return [_runtime(torch)]
    context, blas = 300 * MiB, 8320 * KiB
    major = int(device.capability.partition(".")[0] or 0)
    if major >= 9:
        context, blas = 750 * MiB, 32 * MiB
    elif (device.total_bytes or 0) > 24.5 * GiB:
        context = 500 * MiB
    return [
        Item(CONTEXT, CONTEXT, context, from_="prior for cards of this size: torch 2.1 to 2.9", guess=True),
        Item(WORKSPACE, "cuBLAS", blas, from_="cuBLAS's default workspace", guess=True),
    ]


def _runtime(torch: str) -> Item:
    """The interpreter, torch and their libraries, as a limit on a process counts them (RLIMIT_DATA), on x86-64."""
    amount, source = GiB, "torch 2.15, CUDA build, with a trainer's imports and threads"
    if torch.startswith("1."):
        cuda = "+cu" in torch
        amount, source = (384 if cuda else 192) * MiB, f"torch 1.13, {'CUDA' if cuda else 'CPU'} build, with a trainer's imports"
    elif torch.endswith("+cpu"):
        amount, source = 640 * MiB, "torch 2.15 without the data of CUDA's libraries"
    return Item(RUNTIME, "Python and torch", amount, from_=source, guess=True)


def _unknown(counted: Optional[Counted]) -> str:
    if counted is None:
        return "the module was not counted"
    return f"the module could not be counted: {counted.problem}" if counted.problem else ""


def _source(counted: Counted) -> str:
    name = counted.formula.file.rpartition("/")[2]
    return f"{counted.formula.function} of {name}, on the meta device of torch {counted.torch}"


def _name(part: CountedPart) -> str:
    return part.name or "model"


def _states(counted: Counted, source: str) -> List[Item]:
    items = []
    for p in counted.parts:
        items.append(Item(PARAMETERS, _name(p), p.parameter_bytes, p.parameters, source))
        items.append(Item(BUFFERS, _name(p), p.buffer_bytes, p.buffers, source))
    items.append(Item(INPUTS, "the batch", counted.input_bytes, from_=source))
    return items


def _step(counted: Counted, source: str, kept: bool) -> List[Item]:
    """Gradients, saved tensors and transients at the peak of forward and backward, or where the optimizer steps."""
    if not counted.peak_bytes:
        rest = max(counted.forward_peak_bytes - counted.saved_bytes, 2 * counted.largest_bytes)
        why = f"twice the largest tensor: there is no backward on the meta device ({counted.no_backward:.100})"
        return [*_gradients(counted, source), *_saved(counted, source), Item(TRANSIENTS, "backward", rest, 0, why, guess=True)]
    rest = counted.peak_bytes - counted.peak_saved_bytes - counted.peak_gradient_bytes
    whole = sum(p.trainable_bytes for p in counted.parts)
    if not kept and whole > counted.peak_bytes:
        return [Item(i.kind, i.what, i.bytes, i.count, "where the optimizer steps; " + i.from_) for i in _gradients(counted, source)]
    at = f"{source}, at {counted.peak_at}"
    lines = _gradients(counted, source) if kept else [Item(GRADIENTS, "model", counted.peak_gradient_bytes, from_=at)]
    same = counted.peak_saved_bytes == counted.saved_bytes
    lines += _saved(counted, source) if same else [Item(SAVED, "model", counted.peak_saved_bytes, from_=at)]
    return [*lines, Item(TRANSIENTS, "model", rest, from_=at)]


def _gradients(counted: Counted, source: str) -> List[Item]:
    return [Item(GRADIENTS, _name(p), p.trainable_bytes, p.trainable, source) for p in counted.parts]


def _saved(counted: Counted, source: str) -> List[Item]:
    lines = [Item(SAVED, _name(p), p.saved_bytes, from_=source) for p in counted.parts]
    rest = counted.saved_bytes - sum(p.saved_bytes for p in counted.parts)
    return [*lines, Item(SAVED, "model", rest, from_=source)]


def _nonzero(items: Iterable[Item]) -> Tuple[Item, ...]:
    return tuple(i for i in items if i.bytes)
