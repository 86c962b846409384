"""The documents that launch and a plugin exchange. docs/plugins.md describes each, and docs/protocol has their schemas.

Amounts of memory are whole bytes. Whole numbers have at most 64 bits. Paths are as the command names them, relative to the command's folder unless a field
asks for an absolute one. A field that is left out has the zero value of its type. New fields are added after the others.
"""

import json
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ._json import Document, Strings, always, mapping, named, private

# The documents of an address that are no file.
ARGV = "argv"
ENV = "env"

# Costs of a rung, mildest first.
NONE, SPEED, NUMERICS, METRICS, RECIPE, MODEL = "none", "speed", "numerics", "metrics", "recipe", "model"
COSTS = (NONE, SPEED, NUMERICS, METRICS, RECIPE, MODEL)

# Ladders with a meaning of their own. Any other phase is named by the plugin.
SHARED, TRAINING, VALIDATION = "shared", "training", "validation"

# Knobs that make up the global batch, and their product as a program prints it.
MICRO_BATCH, ACCUMULATION, GLOBAL_BATCH = "micro-batch", "accumulation", "global batch"

# Kinds of an estimate's lines.
PARAMETERS, GRADIENTS, OPTIMIZER, BUFFERS = "parameters", "gradients", "optimizer states", "buffers"
INPUTS, SAVED, TRANSIENTS, WORKSPACE = "inputs", "saved tensors", "transients", "workspace"
CONTEXT, SLACK, RUNTIME, LATE = "CUDA context", "allocator slack", "runtime", "late growth"
# Kinds of a host ladder's lines.
LOADERS, PINNED, DECODED, WORKERS = "loader batches", "pinned copies", "decoded images", "worker processes"

# What an option takes, as argparse's nargs.
ONE, NO_VALUE, MAYBE, ANY, SOME = 0, 1, 2, 3, 4

# Placeholders in the values of edits.
SAVED_STATE = "{saved state}"  # of Resume.edits: the path of the state to resume from
FREE_PORT = "{free port}"  # of Resume.always: a free TCP port
SCRATCH = "{scratch}"  # of Rehearsal.edits: a folder of launch's
SCRATCH_NAME = "{scratch name}"  # of Rehearsal.edits: a name that is not in use


@dataclass(frozen=True)
class Mark(Document):
    """What a command of the plugin's family looks like from outside. Every field that is set must hold."""

    script: str = ""  # a pattern for the base name of the script: "train.py", "train*"
    flags: Strings = ()  # options; one of them must be among the script's arguments
    beside: Strings = ()  # paths; one must exist in the script's or the command's folder
    contains: Strings = ()  # texts; the script's first MiB must hold all. "a|b" is one of them


@dataclass(frozen=True)
class Manifest(Document):
    """What can be known of a plugin without asking it about a command."""

    name: str = always()  # the NAME of the program launch-plugin-NAME
    version: str = always()  # of the plugin
    about: str = always()  # one line
    archs: Strings = ()  # networks that estimate() prices
    projects: Dict[str, str] = mapping()  # by network: the projects that have it
    marks: Tuple[Mark, ...] = always(())  # a command that bears one of these is worth asking about
    env: Strings = ()  # variables that the plugin reads; "NAME*" is a prefix; () is a default list
    sdk: str = ""  # set by serve(): "python 0.1.0"


@dataclass(frozen=True)
class PythonItem(Document):
    """One value that Python source assigns to a name."""

    path: str = always()  # "Config.batch_size", "LIMIT", "build().size"
    value: Any = always(None)  # the literal; None with literal False where it is an expression
    literal: bool = always(False)
    start: int = always(0)  # offsets in bytes of the text that spells it
    end: int = always(0)
    line: int = always(0)


@dataclass(frozen=True)
class PythonClass(Document):
    """A class, and the names of its bases as written."""

    name: str = always()
    bases: Strings = ()
    decorators: Strings = ()
    line: int = always(0)


@dataclass(frozen=True)
class PythonImport(Document):
    """A name that a file binds by importing."""

    module: str = always()  # with its leading dots, if it is relative
    name: str = ""
    as_: str = named("as", "", always=True)
    line: int = always(0)


@dataclass(frozen=True)
class PythonSource(Document):
    """A Python file that the plugin asked for (Need.sources). launch has read it, and has not run it."""

    path: str = always()  # absolute, as it was asked for
    sha256: str = always("")
    text: Optional[bytes] = always(None)
    items: Tuple[PythonItem, ...] = ()
    classes: Tuple[PythonClass, ...] = ()
    imports: Tuple[PythonImport, ...] = ()
    calls: Dict[str, Tuple[int, ...]] = mapping()  # dotted names of what is called, with their lines
    problem: str = ""  # why it could not be read; everything else is then empty

    def value(self, path: str) -> Any:
        """The literal at a path, or None where there is none or it is an expression."""
        for item in reversed(self.items):
            if item.path == path:
                return item.value if item.literal else None
        return None


@dataclass(frozen=True)
class Formula(Document):
    """A question: what does an nn.Module of the author's own keep and need? See launch_plugin.formula."""

    file: str = always()  # absolute: a Python file of the plugin's own, or below the command's or the script's folder
    function: str = always()  # in that file: takes the config, returns the module and its inputs
    config: Any = None  # what the function is given: anything that JSON can hold

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "config", json.loads(json.dumps(self.config, allow_nan=False)))  # as launch sends it back


@dataclass(frozen=True)
class CountedPart(Document):
    """One part of a module: a child of the outermost module, or "" for what belongs to none."""

    name: str = always("")
    parameters: int = 0  # elements
    parameter_bytes: int = 0
    trainable: int = 0  # elements of those that require a gradient
    trainable_bytes: int = 0
    buffers: int = 0  # elements
    buffer_bytes: int = 0
    saved_bytes: int = 0  # kept by autograd from forward until backward


@dataclass(frozen=True)
class Counted(Document):
    """The answer to a Formula: what the module keeps and needs in one step, counted on PyTorch's meta device."""

    formula: Formula = always()
    problem: str = ""  # why nothing is known; everything else is then empty
    torch: str = ""  # the version that counted
    parts: Tuple[CountedPart, ...] = ()
    input_bytes: int = 0
    output_bytes: int = 0
    saved_bytes: int = 0  # without parameters, buffers and inputs; each storage once
    forward_peak_bytes: int = 0  # live at the forward's peak, without parameters, buffers and inputs
    peak_bytes: int = 0  # the same for forward and backward, gradients included; 0 if there was no backward
    peak_saved_bytes: int = 0  # of peak_bytes: saved tensors
    peak_gradient_bytes: int = 0  # of peak_bytes: gradients of parameters
    peak_at: str = ""  # the operation at the peak
    largest_bytes: int = 0  # the largest single tensor that is made
    largest_at: str = ""
    no_backward: str = ""  # why there was no backward; the peak is then the forward's


@dataclass(frozen=True)
class Program(Document):
    """The Python program that a command starts, as launch has understood the command."""

    script: str = ""  # absolute path; "" for a module or code
    module: str = ""  # for python -m
    args: Strings = ()  # its own arguments
    dir: str = ""  # the folder that it runs in
    interpreter: str = ""  # as typed; "" where a launcher chooses it
    ranks: int = 0  # processes that its launchers start in all; 1 without a launcher, 0 if unknown


@dataclass(frozen=True)
class ShellScript(Document):
    """A shell script that the command names, as launch has first read it."""

    path: str = always()
    text: str = always()


@dataclass(frozen=True)
class Command(Document):
    """A training command as typed after "launch --"."""

    args: Strings = always()
    dir: str = always()  # absolute
    env: Strings = ()  # "NAME=value", the variables that the manifest lists
    devices: int = 0  # GPUs that it would see; 0: not asked for (Need.devices); -1: launch does not know
    sources: Tuple[PythonSource, ...] = ()
    formulas: Tuple[Counted, ...] = ()
    program: Optional[Program] = None  # None where launch does not understand the command
    texts: Tuple[ShellScript, ...] = ()

    def source(self, path: str) -> Optional[PythonSource]:
        """The Python file at an absolute path, or None if it was not read yet."""
        return next((s for s in self.sources if s.path == path), None)

    def counted(self, formula: Formula) -> Optional[Counted]:
        """The answer to a formula, or None if it was not asked for yet."""
        return next((c for c in self.formulas if c.formula == formula), None)

    def variable(self, name: str, default: str = "") -> str:
        """A variable of the environment."""
        for entry in reversed(self.env):
            key, _, value = entry.partition("=")
            if key == name:
                return value
        return default


@dataclass(frozen=True)
class Address(Document):
    """One setting: the document that it is in, and its path there."""

    doc: str = always()  # a file's path, ARGV or ENV
    path: str = always()  # "train.batch", "--batch-size", "PYTORCH_ALLOC_CONF"


@dataclass(frozen=True)
class Edit(Document):
    """One change of one knob. from_ and to are spelled as in the document."""

    knob: str = always()
    doc: str = always()  # as in an Address
    path: str = always()
    from_: Optional[str] = named("from", None, always=True)  # None: the setting is not there yet, and is added
    to: Optional[str] = always(None)  # None: it is removed. Only arguments can be
    cost: str = always("")
    why: str = always("")  # printed with the edit


@dataclass(frozen=True)
class Knob(Document):
    """A setting of the recipe that costs memory."""

    name: str = always()  # the field's name for it: MICRO_BATCH
    at: Address = always()
    value: str = always()  # as the program reads it
    default: bool = False  # the recipe does not set it
    dead: str = ""  # why the running code does not read it; launch never turns it


@dataclass(frozen=True)
class Option(Document):
    """An option that the program declares: all its names, and what it takes (ONE, NO_VALUE, MAYBE, ANY, SOME)."""

    names: Strings = always()
    takes: int = 0
    joined: bool = False  # the program reads a value only where "=" joins it to the option


@dataclass(frozen=True)
class BytesAt(Document):
    """Bytes that are written at an offset."""

    at: int = always()
    new: bytes = always()


@dataclass(frozen=True)
class Patch(Document):
    """Replaces one value in a binary file by another one of the same number of bytes."""

    path: str = always()  # of an edit's address
    from_: str = named("from", always=True)
    to: str = always()
    bytes: Tuple[BytesAt, ...] = always()


@dataclass(frozen=True)
class File(Document):
    """A document of the recipe, as it was when the plugin read it. launch edits a copy of it."""

    path: str = always()  # as the command names it
    format: str = always()  # "yaml" (also for JSON), "toml", "python", "binary"
    flag: str = ""  # the option that names the file, or the key of KEY=VALUE; "" with argument and for Python source
    text: bytes = b""  # its contents; empty for Python source
    added: bool = False  # the user has no such file: launch adds one if there are edits
    source: Optional[PythonSource] = None  # of Python source: as launch has read it
    patches: Tuple[Patch, ...] = ()
    from_: str = named("from", "")  # set by launch
    argument: bool = False  # a positional argument names the file, as in path


@dataclass(frozen=True)
class Batch(Document):
    """The division of the global batch, which is micro × accumulation × ranks. 0 is unknown."""

    micro: int = always(0)  # samples in one forward pass of one rank
    accumulation: int = always(0)  # forward passes for each optimizer step
    ranks: int = always(0)  # processes that share a step
    replicas: bool = False  # the ranks are cards of one process (torch.nn.DataParallel)


@dataclass(frozen=True)
class Sign(Document):
    """A pattern over the lines that the program prints, or writes to its log.

    kind is "started", "progress" (group iteration; total), "saved" (iteration, path), "resumed" (iteration), "phase",
    "phase-end", "memory" (bytes, unit; reserved), "oom", "survived", "interrupted", "succeeded", "failed",
    "setting" (value) or "metric" (value; step).
    """

    kind: str = always()
    pattern: str = always()  # an RE2 expression: no lookahead, no backreference
    phase: str = ""  # for "phase", "phase-end"; and "oom", if the line implies a phase
    knob: str = ""  # for "setting"
    name: str = ""  # for "metric"
    direction: str = ""  # for "metric": "minimise" or "maximise"


@dataclass(frozen=True)
class Check(Document):
    """One line of the checklist at the end of a run. It changes neither the run's verdict nor its exit code."""

    name: str = always()  # what is true if it is met: "the loss moves"
    pattern: str = always()  # an RE2 expression with a group value; perhaps step and series
    rule: str = always()  # "finite", "within" (min and max) or "moving"
    min: Optional[float] = None
    max: Optional[float] = None
    last: int = 0  # only the last so many values count; 0: all
    after: int = 0  # values of earlier steps do not count
    least: int = 0  # with fewer values it could not be checked; 0: one, and two of "moving"
    hint: str = ""  # what to look at if it is not met


@dataclass(frozen=True)
class Signs(Document):
    """The output, the files and the exit codes of the program. Globs are relative to the command's folder."""

    lines: Tuple[Sign, ...] = ()
    log: Strings = ()  # globs of the program's own log files
    recipes: Strings = ()  # globs of the copies that the program saves of its recipe
    states: Strings = ()  # globs of what a resume reads
    state_iteration: str = ""  # an RE2 expression over a state's base name, with a group iteration
    state_after: int = 0  # iterations that must be reported before a state counts
    counts_micro: bool = False  # the iterations are forward passes, not optimizer steps
    may_count_micro: bool = False  # they may be either: the program groups passes into steps by its accumulation
    benchmark: bool = False  # the program sets torch.backends.cudnn.benchmark
    every: int = 0  # iterations between two reports of progress; 0: unknown
    takes_argv: bool = False  # the program takes the edited options only from its arguments
    codes: Dict[int, str] = mapping()  # unusual exit codes: "succeeded", "interrupted", or a cause of failure
    must_succeed: bool = False  # a program that exits 0 without a "succeeded" sign has failed
    checks: Tuple[Check, ...] = ()  # the checklist at the end of a run


@dataclass(frozen=True)
class Resume(Document):
    """How the command resumes from its newest saved state. Set edits, automatic, or none."""

    edits: Tuple[Edit, ...] = ()  # with SAVED_STATE for the state's path
    aside: Strings = ()  # globs of saved states that a retry from the start would overwrite
    in_the_way: Strings = ()  # globs of files that a failed attempt leaves and the next one stops at
    always: Tuple[Edit, ...] = ()  # edits of every attempt after the first, with FREE_PORT
    on_card: bool = False  # the loaded state stays on the card
    none: str = ""  # why a retry starts over
    automatic: bool = False  # the program finds its newest state by itself: no edit is needed


@dataclass(frozen=True)
class Put(Document):
    """A file with a text, or a link with an absolute target, below the folder SCRATCH."""

    path: str = always()
    link: str = ""
    text: bytes = b""


@dataclass(frozen=True)
class Rehearsal(Document):
    """How to shorten the command so that it goes through every phase once and leaves nothing behind."""

    edits: Tuple[Edit, ...] = ()
    largest: Tuple[Edit, ...] = ()  # in rehearsals alone: put the largest batch first
    unordered: str = ""  # why no setting does that, though shapes vary or may vary
    steps: int = 0  # iterations after which launch ends it; 0: it ends by itself
    leaves: Strings = ()  # paths with SCRATCH_NAME that it writes in the project
    puts: Tuple[Put, ...] = ()
    away: bool = False  # it starts in the folder SCRATCH
    paths: Tuple[int, ...] = ()  # with away: indices of arguments that are paths
    partial: str = ""  # why it does not reach some phase
    none: str = ""  # why the program cannot be shortened


@dataclass(frozen=True)
class Data(Document):
    """A file or a folder of data."""

    at: Address = always()  # the setting that names it
    path: str = always()  # relative to the command's folder, or absolute
    what: str = always("")  # "training images"


@dataclass(frozen=True)
class Save(Document):
    """The program's own way to save its state when it is asked to."""

    signal: str = ""  # "SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1" or "SIGUSR2"
    stops: bool = False  # it ends after it has saved


@dataclass(frozen=True)
class Job(Document):
    """A command that the plugin has recognised. launch fills in command, plugin, asked and fixed."""

    command: Command = always(Command((), ""))
    plugin: str = always("")
    dialect: str = always("")  # the project of the family
    name: str = always("")  # of the experiment, from the recipe
    arch: str = always("")
    generation: str = ""  # tells networks of one name apart
    knobs: Tuple[Knob, ...] = ()
    options: Tuple[Option, ...] = ()  # those that the program declares, for edits of arguments
    files: Tuple[File, ...] = ()
    batch: Batch = always(Batch())
    asked: Tuple[Edit, ...] = ()
    merged: bytes = b""  # the whole recipe, where the program merges files and takes arguments KEY=VALUE
    steps: int = 0  # optimizer steps of the whole training; 0 if unknown
    signs: Signs = always(Signs())
    resume: Resume = always(Resume())
    fixed: str = ""
    rehearsal: Rehearsal = always(Rehearsal())
    save: Save = always(Save())
    exclusive: str = ""  # absolute path of a folder that two runs must not use at once
    warnings: Strings = ()
    faults: Strings = ()  # those of warnings at which the program will stop
    data: Tuple[Data, ...] = ()  # what it reads; launch check looks whether it is there
    states: int = 0  # how many saved states the whole training leaves; 0 if unknown
    truths: Strings = ()  # statements of the project's guides that its code contradicts
    inside: bool = False  # asks for a hook in the program's processes that reports memory
    last_words: str = ""  # the library that saves the state after an out-of-memory: "transformers", "basicsr", "accelerate"
    preferred: bool = False  # the user wants this plugin, also where another one knows the command
    ignore: Strings = ()  # paths of settings that do not change the memory: "--lr", "train.lr"
    own: Any = private()  # whatever ladders() needs of recognize(); it stays in the plugin's process


@dataclass(frozen=True)
class Process(Document):
    """A process that holds memory on a device."""

    pid: int = always(0)
    used_bytes: int = always(0)  # -1 where the driver does not report it
    name: str = ""
    user: str = ""


@dataclass(frozen=True)
class Device(Document):
    """A GPU, a MIG slice of one, or the host (kind "cpu")."""

    kind: str = always("")  # "cuda", "hip" (AMD's), "xpu" (Intel's) or "cpu"
    index: int = always(0)
    uuid: str = ""
    name: str = always("")
    total_bytes: Optional[int] = always(None)  # None where that is not known
    used_bytes: Optional[int] = always(None)
    reserved_bytes: Optional[int] = always(None)  # by the driver for itself; None where that is not known
    shared: bool = False  # its memory is the host's: of a Jetson, a GB10, or the graphics of a processor
    capability: str = ""  # the CUDA compute capability, "8.6"
    arch: str = ""  # the architecture of an AMD card, "gfx1100"
    driver: str = ""
    mig: bool = False
    parent: str = ""
    processes: Tuple[Process, ...] = ()
    processes_unknown: bool = False  # the driver lists none, which proves nothing
    fault: str = ""  # what the driver says of a card that no longer answers
    planned: bool = False  # the card is not in this machine (--vram)
    total_from: str = ""  # where the total of a planned card is from, if the card was named
    total_source: str = ""  # the log that prints it


@dataclass(frozen=True)
class Item(Document):
    """One line of an estimate."""

    kind: str = always()  # PARAMETERS, SAVED, …
    what: str = always()  # the part, under the recipe's own name
    bytes: int = always()
    count: int = 0  # elements, for parameters and buffers
    from_: str = named("from", "", always=True)  # how the number was reached: a formula, a file, a measurement
    guess: bool = False  # nothing vouches for it. Guesses never refuse a job


@dataclass(frozen=True)
class Alloc(Document):
    """A single request to the allocator."""

    bytes: int = always()
    what: str = always()


@dataclass(frozen=True)
class Estimate(Document):
    """The itemised memory of one phase on one device, at the phase's peak: the sum of its items."""

    items: Tuple[Item, ...] = ()
    allocs: Tuple[Alloc, ...] = ()  # requests larger than every earlier one, in order of time
    unknown: str = ""  # why there is no estimate; items are then at most a lower bound
    reserved_bytes: int = 0
    learned: Strings = ()
    at_most: str = ""  # why the need may well be smaller: the lines that nothing vouches for are for the largest case

    @property
    def total(self) -> int:
        """The peak in bytes: the sum of the lines."""
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True)
class Rung(Document):
    """One way to run a phase: a whole alternative, a set of edits from the job as asked, not cumulative."""

    name: str = always()
    edits: Tuple[Edit, ...] = ()
    cost: str = always(NONE)
    slowdown: float = 0.0  # expected time relative to the job as asked; 0: unknown
    values: Dict[str, int] = mapping()  # the knobs that it sets, for the invariants
    estimates: Tuple[Estimate, ...] = ()  # one for each rung of the shared ladder
    new_state: bool = False  # a state saved without this rung cannot be read with it: the attempt starts over
    why: str = ""  # the reason of a cost that its name does not show


AS_ASKED = Rung("as asked", slowdown=1.0)


@dataclass(frozen=True)
class Ladder(Document):
    """The rungs of one phase, the one that needs most first. rungs[asked] is the job as asked."""

    phase: str = always()
    asked: int = always(0)
    rungs: Tuple[Rung, ...] = always(())


@dataclass(frozen=True)
class Invariant(Document):
    """What every plan keeps: the product of the factors equals a number, or divides the value of a knob."""

    name: str = always()
    factors: Strings = always()
    equals: int = 0
    divides: str = ""
    until: str = always(NONE)  # it holds for plans that cost less than this; NONE: for every plan


@dataclass(frozen=True)
class HostLine(Document):
    """One line of what a job needs of host memory, all its processes together."""

    kind: str = always()
    what: str = always()
    bytes: int = always(0)  # what does not depend on the micro-batch
    count: int = 0
    from_: str = named("from", "", always=True)
    guess: bool = False
    per_sample: int = 0  # and this for every sample of one process's micro-batch
    shm: bool = False  # it lies in /dev/shm
    apart: bool = False  # it lies outside the processes that train
    when: str = ""  # "": throughout; "starting"; "training"


@dataclass(frozen=True)
class HostRung(Document):
    """One way to feed the job, at the cost NONE."""

    name: str = always()
    edits: Tuple[Edit, ...] = ()
    lines: Tuple[HostLine, ...] = ()


@dataclass(frozen=True)
class HostLadder(Document):
    """The ways to feed a job, from the one asked for, rungs[0], downward."""

    rungs: Tuple[HostRung, ...] = always(())
    unknown: str = ""


@dataclass(frozen=True)
class LadderSet(Document):
    """All ladders of a job. A knob belongs to exactly one of them."""

    shared: Ladder = always(Ladder(SHARED, 0, (AS_ASKED,)))
    phases: Tuple[Ladder, ...] = always(())
    values: Dict[str, int] = mapping()  # the knobs as asked, for the invariants
    invariants: Tuple[Invariant, ...] = ()
    host: Optional[HostLadder] = None
    absent: Optional["Absent"] = None


@dataclass(frozen=True)
class Absent(Document):
    """The ladders that a job would have with one package more. No rung of them is taken: where a run is refused,
    launch names the first with which it would fit."""

    package: str = always()  # as pip installs it: "bitsandbytes"
    set: LadderSet = always(LadderSet())


@dataclass(frozen=True)
class Bare(Document):
    """A network by its name, with settings as they were typed (launch estimate)."""

    arch: str = always()
    settings: Dict[str, str] = mapping()


@dataclass(frozen=True)
class Phase(Document):
    """One phase's estimate of a bare network."""

    phase: str = always()
    estimate: Estimate = always(Estimate())
    allocated_bytes: int = 0
    warnings: Strings = ()


__all__ = [
    "ARGV", "ENV", "NONE", "SPEED", "NUMERICS", "METRICS", "RECIPE", "MODEL", "COSTS", "SHARED", "TRAINING",
    "VALIDATION", "MICRO_BATCH", "ACCUMULATION", "GLOBAL_BATCH", "PARAMETERS", "GRADIENTS", "OPTIMIZER",
    "BUFFERS", "INPUTS", "SAVED", "TRANSIENTS", "WORKSPACE", "CONTEXT", "SLACK", "RUNTIME", "LATE", "LOADERS",
    "PINNED", "DECODED", "WORKERS", "ONE", "NO_VALUE", "MAYBE", "ANY", "SOME", "SAVED_STATE", "FREE_PORT",
    "SCRATCH", "SCRATCH_NAME", "Mark", "Manifest", "PythonItem", "PythonClass", "PythonImport",
    "PythonSource", "Formula", "CountedPart", "Counted", "Program", "ShellScript", "Command", "Address", "Edit", "Knob",
    "Option", "BytesAt", "Patch", "File", "Batch", "Sign", "Check", "Signs", "Resume", "Put", "Rehearsal", "Data", "Save",
    "Job", "Process", "Device", "Item", "Alloc", "Estimate", "Rung", "AS_ASKED", "Ladder", "Invariant",
    "HostLine", "HostRung", "HostLadder", "LadderSet", "Absent", "Bare", "Phase",
]
