"""Dataclasses to and from the JSON documents of the wire. Unknown fields are ignored; wrong types are errors with a path."""

import base64
import dataclasses
import functools
import operator
import sys
import typing
from typing import Any, Dict, Tuple, Type, TypeVar

D = TypeVar("D", bound="Document")


def named(name: str, default: Any = dataclasses.MISSING, always: bool = False) -> Any:
    """A field that has another name in JSON."""
    return dataclasses.field(default=default, metadata={"json": name, "always": always})


def always(default: Any = dataclasses.MISSING, factory: Any = dataclasses.MISSING) -> Any:
    """A field that is written even if it has its default value."""
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata={"always": True})
    return dataclasses.field(default=default, metadata={"always": True})


def mapping() -> Any:
    """A field that is a dict, empty by default."""
    return dataclasses.field(default_factory=dict)


def private() -> Any:
    """A field of the plugin's own, which never leaves its process."""
    return dataclasses.field(default=None, compare=False, repr=False, metadata={"json": None})


class TooLarge(TypeError):
    """A number that the wire cannot hold. The answer names its field: it comes from the command, not from a mistake."""


def fits(number: int) -> bool:
    """Whether a document can hold the number."""
    return -(1 << 63) <= number < 1 << 63


class Document:
    """A value of the wire: a frozen dataclass. Lists that it is made with become tuples."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, list):
                object.__setattr__(self, f.name, tuple(value))

    def to_json(self) -> Dict[str, Any]:
        """The document as json.dumps takes it. Fields with their default value are left out."""
        return _write_document(self, type(self).__name__)

    @classmethod
    def from_json(cls: Type[D], document: Any) -> D:
        """The document as json.loads gives it. Unknown fields are ignored, missing ones have their default value."""
        return _read_document(cls, document, cls.__name__)


def json_name(field: "dataclasses.Field[Any]") -> str:
    """A field's name in JSON, "" for one that is not in it."""
    name = field.metadata.get("json", field.name)
    return name or ""


def _default(f: "dataclasses.Field[Any]") -> Any:
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return f.default


@functools.lru_cache(maxsize=None)
def _types(cls: type) -> Dict[str, Any]:
    """The types of a class's fields. A class that is defined later stands there by its name."""
    return typing.get_type_hints(cls)


def _write_document(doc: Any, path: str) -> Dict[str, Any]:
    out: Dict[str, Any] = {}
    types = _types(type(doc))
    for f in dataclasses.fields(doc):
        name, value = json_name(f), getattr(doc, f.name)
        if name and (f.metadata.get("always") or value != _default(f)):
            out[name] = _write(value, types[f.name], path + "." + f.name)
    return out


def _write(value: Any, kind: Any, path: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is typing.Union:  # Optional
        return None if value is None else _write(value, args[0], path)
    if origin is tuple:
        _expect(isinstance(value, (tuple, list)), value, "a list", path)
        return [_write(v, args[0], f"{path}[{i}]") for i, v in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, dict), value, "a dict", path)
        return {str(k): _write(v, args[1], f"{path}[{k!r}]") for k, v in value.items()}
    if isinstance(kind, type) and issubclass(kind, Document):
        _expect(isinstance(value, kind), value, "a " + kind.__name__, path)
        return _write_document(value, path)
    return _plain(value, kind, path)


def _plain(value: Any, kind: Any, path: str) -> Any:
    if kind is bool or kind is str:
        _expect(isinstance(value, kind), value, "a truth value" if kind is bool else "a text", path)
        return value
    if kind is bytes:
        _expect(isinstance(value, bytes), value, "bytes", path)
        return base64.b64encode(value).decode("ascii")
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), value, "a number", path)
        if not -sys.float_info.max <= value <= sys.float_info.max:  # nan, too
            raise TooLarge(f"{path} is {shown(value)}, which is no finite number")
        return value
    _expect(kind is int and not isinstance(value, bool) and hasattr(value, "__index__"), value, "a whole number", path)
    number = operator.index(value)
    if not fits(number):
        raise TooLarge(f"{path} is {shown(number)}, which is more than 64 bits hold")
    return number


def shown(number: Any) -> str:
    """A number for a sentence. Python refuses to spell out one of thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 200:
        return f"a number of {number.bit_length()} bits"
    return repr(number)


def _expect(holds: bool, value: Any, what: str, path: str) -> None:
    if not holds:
        raise TypeError(f"{path} is {value!r:.80}: it has to be {what}")


def _read_document(cls: Type[D], document: Any, path: str) -> D:
    if not isinstance(document, dict):
        raise ValueError(f"{path} is {type(document).__name__}, and no object")
    values = {}
    types = _types(cls)
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = json_name(f)
        if not name:
            continue
        value = document.get(name)
        if value is not None:
            values[f.name] = _read(value, types[f.name], path + "." + name)
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            values[f.name] = zero(types[f.name])
    return cls(**values)


def zero(kind: Any) -> Any:
    """The value of a field that the other side did not send."""
    origin = typing.get_origin(kind)
    if origin is typing.Union or kind is Any:
        return None
    if origin is tuple or origin is dict:
        return origin()
    if isinstance(kind, type) and issubclass(kind, Document):
        return _read_document(kind, {}, kind.__name__)
    return kind()


def _read(value: Any, kind: Any, path: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is typing.Union:
        return _read(value, args[0], path)
    if origin is tuple:
        _expect_read(isinstance(value, list), path, "list")
        return tuple(_read(v, args[0], f"{path}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        _expect_read(isinstance(value, dict), path, "object")
        return {args[0](k): _read(v, args[1], f"{path}.{k}") for k, v in value.items()}
    if isinstance(kind, type) and issubclass(kind, Document):
        return _read_document(kind, value, path)
    if kind is bytes:
        _expect_read(isinstance(value, str), path, "text")
        return base64.b64decode(value)
    if kind is float:
        _expect_read(isinstance(value, (int, float)) and not isinstance(value, bool), path, "number")
        return float(value)
    _expect_read(type(value) is kind, path, {bool: "truth value", str: "text", int: "whole number"}.get(kind, str(kind)))
    return value


def _expect_read(holds: bool, path: str, what: str) -> None:
    if not holds:
        raise ValueError(f"{path} is no {what}")


Strings = Tuple[str, ...]
