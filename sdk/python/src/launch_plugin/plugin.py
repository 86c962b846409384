"""The class that a plugin derives from, and the exceptions by which it answers."""

from typing import Any, Dict, List, Sequence

from .documents import Bare, Command, Device, Formula, Job, LadderSet, Manifest, Phase


class NotMine(Exception):
    """The command is of another family."""


class Caution(Exception):
    """The command is of this family, and launch should leave it alone. The text is why; launch prints it once."""


class WrongCommand(Exception):
    """The command is of this family and wrong: the program would refuse it. launch prints the text and starts nothing."""


class Unread(Exception):
    """The plugin cannot read a file that the program perhaps can. The command runs as typed."""


class Need(Exception):
    """What the plugin cannot find out by itself because it takes a process. launch finds it out and asks again.

    sources: absolute paths of Python files, which launch parses with the command's own interpreter: Command.sources.
    devices: how many GPUs the command would see: Command.devices.
    formulas: modules of the author's own, counted on PyTorch's meta device: Command.formulas.
    """

    def __init__(self, sources: Sequence[str] = (), devices: bool = False, formulas: Sequence[Formula] = ()):
        super().__init__("needs to know more of the command")
        self.sources, self.devices, self.formulas = list(sources), devices, list(formulas)

    def to_json(self) -> Dict[str, Any]:
        """The document of the wire."""
        out: Dict[str, Any] = {}
        if self.sources:
            out["sources"] = self.sources
        if self.devices:
            out["devices"] = True
        if self.formulas:
            out["formulas"] = [f.to_json() for f in self.formulas]
        return out


class Plugin:
    """One family of models. It reads and counts, and gives the same answer each time it is asked the same.

    It does not write files, start processes, connect, look at a GPU or import torch. What takes a process it asks for by
    raising Need. An exception of another class than those of this module is a failure of the plugin itself: the command
    runs as typed.
    """

    manifest: Manifest

    def recognize(self, command: Command) -> Job:
        """Reads what the command asks for. Raises NotMine for a command of another family."""
        raise NotImplementedError

    def ladders(self, job: Job, device: Device) -> LadderSet:
        """Prices the job on the device, as asked and in every other way that the family knows.

        job is what recognize returned for this command, with its own.
        """
        raise NotImplementedError

    def estimate(self, bare: Bare, device: Device) -> List[Phase]:
        """Prices a network of manifest.archs without a command. Optional."""
        raise NotImplementedError
