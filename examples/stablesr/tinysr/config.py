"""Recipes: YAML files laid over one another from left to right, then key=value words."""

import copy
import importlib
import re

import yaml


class Loader(yaml.SafeLoader):
    """YAML in which 1e-4 is a number, as a person who writes it means."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+|\.\d[\d_]*(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)


def load(path):
    with open(path) as f:
        return yaml.load(f, Loader) or {}


def merge(base, over):
    """Lays one mapping over another; everything but mappings is replaced whole."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        if isinstance(old, dict) and isinstance(value, list) or isinstance(old, list) and isinstance(value, dict):
            raise TypeError(f"{key}: a mapping and a list do not merge")
        out[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else copy.deepcopy(value)
    return out


def dotlist(words):
    """Makes a mapping of a.b.c=value; a word without "=" has no value."""
    out = {}
    for word in words:
        key, _, text = word.partition("=")
        at = out
        *path, last = key.split(".")
        for name in path:
            at = at.setdefault(name, {})
        at[last] = yaml.load(text, Loader) if text else None
    return out


def dump(config):
    return yaml.safe_dump(config, sort_keys=False)


def build(section, **more):
    """Makes an object of a section with a target and its params."""
    module, name = section["target"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**section.get("params") or {}, **more)
