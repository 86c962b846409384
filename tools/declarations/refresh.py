#!/usr/bin/env python3
"""Records the options, defaults and printed texts that the ready declarations (core/plugin/declared/ready) rely on.

    refresh.py --checkouts DIR   read DIR/nanoGPT, DIR/examples, … (git checkouts) and write the tables anew
    refresh.py --wheels DIR      the same for the projects that are packages, from DIR/*.whl
    refresh.py … --check         write nothing; print what differs from the recorded tables, and exit 1
    refresh.py --download        print the packages as pip's arguments, at their recorded versions (with --newest: without)

It parses Python source and YAML and imports none of it, so it needs neither torch nor the packages' dependencies. A fact that is not
found is an error: the project has changed, and its declaration has to be read again beside it.
"""
import argparse
import ast
import json
import pathlib
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parent.parent / "core/plugin/declared/testdata/ready"
SOURCES = HERE / "sources.json"


class Missing(Exception):
    """A fact is not where it was."""


def value(node):
    """A literal, or a sum or product of literals; any other expression as its text."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        pass
    text = ast.unparse(node)
    if re.fullmatch(r"[\d\s*+()-]+", text):
        return eval(text)  # digits and operators alone
    return text


def argparse_option(tree, name):
    """The default of the option in parser.add_argument(…)."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"):
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if name not in names:
            continue
        words = {k.arg: k.value for k in node.keywords}
        fact = {"names": names, "line": node.lineno}
        if "action" in words:
            fact["action"] = value(words["action"])
        if "type" in words:
            fact["type"] = ast.unparse(words["type"])
        if "nargs" in words:
            fact["nargs"] = value(words["nargs"])
        fact["default"] = value(words["default"]) if "default" in words else (False if fact.get("action") == "store_true" else None)
        return fact
    raise Missing(name)


def class_of(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise Missing("class " + name)


def named(owner, default):
    """The value that a variable of a class has last; any other default as it is."""
    if isinstance(default, ast.Name):
        for node in sorted((n for n in ast.walk(owner) if isinstance(n, ast.Assign)), key=lambda n: -n.lineno):
            if any(isinstance(t, ast.Name) and t.id == default.id for t in node.targets):
                return node.value
    return default


def field(tree, name):
    """The default of Class.field of a dataclass."""
    owner, _, attr = name.partition(".")
    for node in class_of(tree, owner).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == attr:
            default = node.value
            if isinstance(default, ast.Call):
                default = next((k.value for k in default.keywords if k.arg == "default"), None)
            default = named(class_of(tree, owner), default)
            return {"default": None if default is None else value(default), "line": node.lineno}
    raise Missing(name)


def parameter(tree, name):
    """The default of the parameter Class.parameter of __init__."""
    owner, _, attr = name.partition(".")
    for node in class_of(tree, owner).body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            args = node.args
            named = args.posonlyargs + args.args
            pairs = list(zip(named[len(named) - len(args.defaults):], args.defaults)) + list(zip(args.kwonlyargs, args.kw_defaults))
            for arg, default in pairs:
                if arg.arg == attr and default is not None:
                    return {"default": value(default), "line": arg.lineno}
    raise Missing(name)


def constant(tree, name):
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return {"default": value(node.value), "line": node.lineno}
    raise Missing(name)


def yaml_key(text, name):
    m = re.search(rf"^{re.escape(name)}:[ \t]*([^#\n]*)", text, re.M)
    if not m:
        raise Missing(name)
    word = m.group(1).strip()
    try:
        default = json.loads(word.lower() if word in ("True", "False") else word) if word else None
    except ValueError:
        default = word
    return {"default": default, "line": text.count("\n", 0, m.start()) + 1}


def literal(text, name):
    """The line of a text that the source holds, such as what it prints."""
    at = text.find(name)
    if at < 0:
        raise Missing(repr(name))
    return {"line": text.count("\n", 0, at) + 1}


KINDS = {"argparse": argparse_option, "field": field, "parameter": parameter, "constant": constant}


def facts_of(text, wanted):
    """The facts of one file: {kind: {name: fact}}."""
    out = {}
    tree = None
    for kind, names in wanted.items():
        for name in names:
            if kind in KINDS:
                tree = tree or ast.parse(text)
                fact = KINDS[kind](tree, name)
            else:
                fact = {"yaml": yaml_key, "text": literal}[kind](text, name)
            out.setdefault(kind, {})[name] = fact
    return out


class Checkout:
    def __init__(self, path):
        self.path = path

    def read(self, name):
        return (self.path / name).read_text()

    def about(self):
        hash_, date = subprocess.run(["git", "-C", self.path, "log", "-1", "--format=%H %cs"], check=True, capture_output=True,
                                     text=True).stdout.split()
        return {"commit": hash_, "date": date}


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path)
        self.version = path.name.split("-")[1]

    def read(self, name):
        return self.zip.read(name).decode()

    def about(self):
        return {"version": self.version}


def place_of(source, options):
    """The checkout or the wheel of a project; None if it was not asked for."""
    if "package" in source and options.wheels:
        found = sorted(options.wheels.glob(source["package"].replace("-", "_") + "-*.whl"))
        if not found:
            raise Missing(f"a wheel of {source['package']} in {options.wheels}")
        return Wheel(found[-1])
    if "checkout" in source and options.checkouts:
        path = options.checkouts / source["checkout"]
        if not path.is_dir():
            raise Missing(f"a checkout of {source['project']} at {path}")
        return Checkout(path)
    return None


def record(source, place):
    table = {"project": source["project"], **place.about(), "files": {}}
    for name, wanted in source["files"].items():
        try:
            table["files"][name] = facts_of(place.read(name), wanted)
        except (Missing, KeyError, FileNotFoundError) as e:
            raise Missing(f"{source['project']}: {name}: {e} is no longer there") from None
    return table


def flat(table):
    """What a declaration relies on: values and presence, not line numbers, commits or dates."""
    return {(f, kind, name): {k: v for k, v in fact.items() if k != "line"}
            for f, kinds in table["files"].items() for kind, names in kinds.items() for name, fact in names.items()}


def differences(old, new):
    was, now = flat(old), flat(new)
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            yield f"{' '.join(key)}: recorded {was.get(key)}, now {now.get(key)}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--checkouts", type=pathlib.Path)
    p.add_argument("--wheels", type=pathlib.Path)
    p.add_argument("--check", action="store_true")
    p.add_argument("--download", action="store_true")
    p.add_argument("--newest", action="store_true")
    options = p.parse_args()
    sources = json.loads(SOURCES.read_text())
    if options.download:
        for name, source in sources.items():
            if "package" in source:
                version = json.loads((TABLES / f"{name}.json").read_text())["version"] if not options.newest else ""
                print(source["package"] + (f"=={version}" if version else ""))
        return 0
    if not options.checkouts and not options.wheels:
        p.error("give --checkouts, --wheels, or both")
    bad = read = 0
    for name, source in sources.items():
        path = TABLES / f"{name}.json"
        try:
            place = place_of(source, options)
            if place is None:
                continue
            table = record(source, place)
        except Missing as e:
            print(f"{name}: {e}", file=sys.stderr)
            bad += 1
            continue
        read += 1
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
            continue
        for line in differences(json.loads(path.read_text()), table):
            print(f"{name}: {line}", file=sys.stderr)
            bad += 1
    print(f"{read} projects read, {bad} differences or errors")
    return 1 if bad or not read else 0


if __name__ == "__main__":
    sys.exit(main())
