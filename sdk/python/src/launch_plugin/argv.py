"""Reads the arguments of a program that takes them with argparse."""

from typing import Dict, List, Optional, Sequence, Tuple

from ._json import fits, shown
from .documents import ARGV, MAYBE, NO_VALUE, ONE, SOME, Address, Edit, Option
from .plugin import Caution


class Argv:
    """The arguments behind a script's name, by the options that the program declares.

    Long options may be shortened to a unique prefix, and given as --name=value, as argparse takes them. An unknown
    option takes nothing. Arguments that argparse would refuse raise Caution: launch leaves the command alone.
    """

    def __init__(self, args: Sequence[str], options: Sequence[Option]):
        self.options = tuple(options)
        self.positionals: List[str] = []
        self._uses: Dict[Option, List[List[str]]] = {}
        self._names: Dict[str, Option] = {name: o for o in options for name in o.names}
        self._names.setdefault("-h", Option(("-h", "--help"), NO_VALUE))
        self._names.setdefault("--help", self._names["-h"])
        self._scan(list(args))

    def option(self, name: str) -> Option:
        """The declared option of that name."""
        return self._names[name]

    def has(self, name: str) -> bool:
        """Whether the option is given, under any of its names."""
        return self.option(name) in self._uses

    def values(self, name: str) -> List[str]:
        """What the last use of the option gives it."""
        return self._uses.get(self.option(name), [[]])[-1]

    def value(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """The option's value, or default where it is not given."""
        values = self.values(name)
        return values[0] if values else default

    def integer(self, name: str, default: int = 0) -> int:
        """The option's value as a whole number of 64 bits. Raises Caution for a text that is none."""
        text = self.value(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:  # int also refuses thousands of digits
            raise Caution(f"{name} is {text!r:.80}, which is no whole number") from None
        if not fits(number):
            raise Caution(f"{name} is {shown(number)}, which is more than 64 bits hold")
        return number

    def address(self, name: str) -> Address:
        """The address of the option."""
        return Address(ARGV, self.option(name).names[0])

    def edit(self, name: str, to: object, knob: str, cost: str, why: str) -> Edit:
        """The edit that gives the option another value."""
        before = self.value(name, "") if self.has(name) else None
        return Edit(knob, ARGV, self.option(name).names[0], before, str(to), cost, why)

    def _match(self, arg: str) -> Tuple[Optional[Option], Optional[str]]:
        """The option that an argument names, and the value that is joined to it."""
        name, joined, value = arg.partition("=")
        if arg in self._names:
            return self._names[arg], None
        if name in self._names:
            return self._names[name], value if joined else None
        hits = {self._names[n] for n in self._names if n.startswith(name)} if name.startswith("--") else set()
        if not hits and not arg.startswith("--") and arg[:2] in self._names:
            return self._names[arg[:2]], arg[2:]
        if len(hits) > 1:
            raise Caution(f"{arg} could be {' or '.join(sorted(o.names[0] for o in hits))}")
        return (hits.pop(), value if joined else None) if hits else (None, None)

    def _is_option(self, arg: str) -> bool:
        if len(arg) < 2 or not arg.startswith("-") or arg == "--":
            return False
        return self._match(arg)[0] is not None or not (_number(arg) or " " in arg)

    def _scan(self, args: List[str]) -> None:
        i = 0
        while i < len(args):
            arg = args[i]
            i += 1
            if arg == "--":
                self.positionals += args[i:]
                return
            if not self._is_option(arg):
                self.positionals.append(arg)
                continue
            option, joined = self._match(arg)
            if option is None:
                continue
            values = [] if joined is None else [joined]
            if joined is None:
                most = {NO_VALUE: 0, ONE: 1, MAYBE: 1}.get(option.takes, len(args))
                while len(values) < most and i < len(args) and args[i] != "--" and not self._is_option(args[i]):
                    values.append(args[i])
                    i += 1
                if not values and option.takes in (ONE, SOME):
                    raise Caution(f"{arg} has no value, and the program takes one")
            elif option.takes == NO_VALUE:
                raise Caution(f"{arg} has a value, and the program takes none")
            self._uses.setdefault(option, []).append(values)


def _number(text: str) -> bool:
    try:
        float(text)
        return True
    except ValueError:
        return False

