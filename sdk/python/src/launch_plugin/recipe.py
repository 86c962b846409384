"""Reads a recipe: a file of nested settings in JSON, in TOML, or in YAML if the author's Python has PyYAML."""

import json
import os
import stat
from typing import Any, Dict

from ._json import fits, shown
from .documents import Address, Edit, File
from .plugin import Caution, Unread, WrongCommand

MAX_RECIPE = 4 << 20  # bytes


def join_path(*keys: object) -> str:
    """The path of an address: "train.optim_g.betas.1". A dot within a key is written with a backslash."""
    return ".".join(str(k).replace("\\", "\\\\").replace(".", "\\.") for k in keys)


def read_file(path: str, most: int = MAX_RECIPE) -> bytes:
    """The contents of an ordinary file. Raises Unread for anything else, which is not opened: a FIFO's data are the program's."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if stat.S_ISREG(os.stat(path).st_mode) else -1
    if fd < 0:
        raise Unread(f"{path} is not an ordinary file")
    with os.fdopen(fd, "rb") as f:
        text = f.read(most + 1)
    if len(text) > most:
        raise Unread(f"{path} has more than {most} bytes")
    return text


class Recipe:
    """A recipe that was read.

    path is the file as the command names it, dir the folder that a relative one starts from (Command.program.dir), and
    flag the option that names it.
    """

    def __init__(self, path: str, dir: str, flag: str):
        self.path, self.flag = path, flag
        self.contents = read_file(os.path.join(dir, path))
        self._spelled: Dict[str, str] = {}
        ending = os.path.splitext(path)[1].lower()
        try:
            self.data = {".json": self._json, ".toml": self._toml}.get(ending, self._yaml)(self.contents.decode("utf-8"))
        except UnicodeDecodeError:
            raise Unread(f"{path} is not UTF-8") from None
        except (ValueError, RecursionError) as e:
            raise WrongCommand(f"reading {path}: {e}") from None
        self.format = "toml" if ending == ".toml" else "yaml"  # launch edits JSON as the YAML that it is

    def _json(self, text: str) -> Any:
        class Float(float):
            spelled = ""

        def keep(spelled: str) -> Float:
            number = Float(spelled)
            number.spelled = spelled
            return number

        return json.loads(text, parse_float=keep)

    def _toml(self, text: str) -> Any:
        try:
            import tomllib  # Python 3.11
        except ImportError:
            raise Unread(f"{self.path}: the plugin's Python has no tomllib") from None
        return tomllib.loads(text)

    def _yaml(self, text: str) -> Any:
        try:
            import yaml
        except ImportError:
            raise Unread(f"{self.path}: the plugin's Python has no PyYAML") from None
        try:
            self._note(yaml.compose(text, yaml.SafeLoader), yaml)
            return yaml.safe_load(text)
        except yaml.YAMLError as e:
            raise WrongCommand(f"reading {self.path}: {e}") from None

    def _note(self, node: Any, yaml: Any, *keys: object) -> None:
        """Keeps how each scalar is spelled."""
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._note(value, yaml, *keys, getattr(key, "value", ""))
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                self._note(value, yaml, *keys, i)
        elif isinstance(node, yaml.ScalarNode):
            self._spelled[join_path(*keys)] = node.start_mark.buffer[node.start_mark.pointer : node.end_mark.pointer]

    def get(self, *keys: object, default: Any = None) -> Any:
        """The value at a path of keys and indices, or default."""
        value = self.data
        for key in keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return default
        return value

    def integer(self, *keys: object, default: int = 0) -> int:
        """The whole number at a path. Raises WrongCommand for anything else, and Caution for more than 64 bits."""
        value = self.get(*keys, default=default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongCommand(f"{self.path}: {join_path(*keys)} is {value!r:.80}, which is no whole number")
        if not fits(value):
            raise Caution(f"{self.path}: {join_path(*keys)} is {shown(value)}, which is more than 64 bits hold")
        return value

    def text(self, *keys: object, default: str = "") -> str:
        """The text at a path. Raises WrongCommand for anything else."""
        value = self.get(*keys, default=default)
        if not isinstance(value, str):
            raise WrongCommand(f"{self.path}: {join_path(*keys)} is {value!r:.80}, which is no text")
        return value

    def address(self, *keys: object) -> Address:
        """The address of a setting."""
        return Address(self.path, join_path(*keys))

    def edit(self, keys: "tuple[object, ...]", to: object, knob: str, cost: str, why: str) -> Edit:
        """The edit that sets a number, a truth value or a text."""
        missing = object()
        value = self.get(*keys, default=missing)
        before = None if value is missing else self._spelled.get(join_path(*keys), _spell(value))
        return Edit(knob, self.path, join_path(*keys), before, _spell(to), cost, why)

    def file(self) -> File:
        """The document for Job.files."""
        return File(self.path, self.format, self.flag, self.contents)


def _spell(value: Any) -> str:
    return getattr(value, "spelled", None) or json.dumps(value)
