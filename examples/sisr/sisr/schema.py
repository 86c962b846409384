"""Reads a recipe strictly: what options.py does not name, or names with another type, is an error."""

import os
from typing import Any, Dict, List, Literal, Type, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from .options import Options, Strict

S = TypeVar("S", bound=Strict)


class ValidationError(ValueError):
    """The recipe is no recipe. The message says what is wrong and where, as msgspec's do."""


def load_recipe(path: str) -> Options:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"Options file does not exist: {path}")
    with open(path, encoding="utf-8") as f:
        return decode_section(Options, yaml.safe_load(f), "$")


def decode_section(cls: Type[S], value: Any, where: str) -> S:
    if not isinstance(value, dict):
        raise _error(f"Expected `object`, got `{_name(value)}`", where)
    hints = get_type_hints(cls)
    fields: Dict[str, Any] = {}
    for key, item in value.items():
        if key not in hints:
            raise _error(f"Object contains unknown field `{key}`", where)
        fields[key] = _decode(hints[key], item, f"{where}.{key}")
    for key in hints:
        if key not in fields and not hasattr(cls, key):
            raise _error(f"Object missing required field `{key}`", where)
    return cls(**fields)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    alternatives = get_args(kind) if get_origin(kind) is Union else (kind,)
    for alternative in alternatives:
        origin = get_origin(alternative)
        if origin is Literal:
            if value in get_args(alternative):
                return value
        elif origin is dict:
            if isinstance(value, dict):
                item = get_args(alternative)[1]
                return {k: _decode(item, v, f"{where}[...]") for k, v in value.items()}
        elif origin is list:
            if isinstance(value, list):
                item = get_args(alternative)[0]
                return [_decode(item, v, f"{where}[...]") for v in value]
        elif issubclass(alternative, Strict):
            if isinstance(value, dict):
                return decode_section(alternative, value, where)
        elif alternative is float:
            # An integer is a float, `true` is neither.
            if type(value) in (int, float):
                return value
        elif type(value) is alternative:
            return value
    if len(alternatives) == 1 and get_origin(kind) is Literal and isinstance(value, str):
        raise _error(f"Invalid enum value '{value}'", where)
    expected = " | ".join(_kind_name(a) for a in alternatives)
    raise _error(f"Expected `{expected}`, got `{_name(value)}`", where)


def _error(what: str, where: str) -> ValidationError:
    return ValidationError(what if where == "$" else f"{what} - at `{where}`")


def _kind_name(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return _name(get_args(kind)[0])
    if origin in (dict, list):
        return {dict: "object", list: "array"}[origin]
    return {type(None): "null"}.get(kind, "object" if issubclass(kind, Strict) else kind.__name__)


def _name(value: Any) -> str:
    names: List[Any] = [(dict, "object"), (list, "array"), (type(None), "null")]
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)
