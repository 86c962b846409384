"""Says what Python files assign to names, by their syntax trees. Nothing of a file is run or imported.

It runs in the interpreter that would run the files (3.8 or later), isolated. On standard input stands a JSON list of
texts; on standard output comes a line with the version and then one line of JSON for each text, in order, so that a
text that kills the interpreter costs no other its answer. The answers are config.PythonSource without path, hash and text.
"""
import sys


class Unfit(Exception):
    """A value that JSON cannot hold."""


def plain(value):
    """The value as JSON has it."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        if value - value != 0:  # 1e999 is an infinity
            raise Unfit
        return value
    if type(value) is str:
        value.encode("utf-8")  # a lone surrogate has no UTF-8
        return value
    if type(value) in (tuple, list):
        return [plain(v) for v in value]
    if type(value) in (set, frozenset):
        return [plain(v) for v in sorted(value, key=repr)]
    if type(value) is dict and all(type(k) is str for k in value):
        return {plain(k): plain(v) for k, v in value.items()}
    raise Unfit


def join(keys):
    """config.JoinPath"""
    return ".".join(k.replace("\\", "\\\\").replace(".", "\\.") for k in keys)


# What makes settings out of keywords, as a dict display does out of keys, by the last part of its name.
MAPPINGS = {"dict", "OrderedDict", "SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict", "ConfigDict", "CfgNode",
            "CN", "Box", "Munch", "DotMap"}
# What declares a field with a default, likewise: dataclasses, pydantic, attrs.
FIELDS = {"field", "Field", "ib", "attrib"}


def reader(ast, text):
    mark = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    starts = [mark]  # of the lines, as the tokenizer counts them: not at \f, as str.splitlines does
    for line in text[mark:].splitlines(True):
        starts.append(starts[-1] + len(line))

    class Reader(ast.NodeVisitor):
        def __init__(self):
            self.items, self.classes, self.imports, self.calls = [], [], [], {}
            self.scope, self.kind = [], "module"
            self.owner = None  # of a method: the name of its first parameter
            self.maybe = 0  # how many conditions stand around
            self.given = {}  # what calls are given by name: items by their paths
            self.done = set()  # calls of which the keywords are items already

        # --- where things stand, and what they say

        def span(self, node):
            return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

        def written(self, node):
            start, end = self.span(node)
            return " ".join(text[start:end].decode("utf-8").split())

        def literal(self, node, start, end):
            """The value, if the bytes of the span, read by themselves, are a literal of the same value."""
            try:
                value = ast.literal_eval(node)
                if repr(ast.literal_eval(text[start:end].decode("utf-8"))) != repr(value):
                    return False, None
                return True, plain(value)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, Unfit):
                return False, None

        def add(self, keys, node, known=True):
            start, end = self.span(node)
            ok, value = self.literal(node, start, end) if known else (False, None)
            item = {"path": join(keys), "value": value, "literal": ok, "start": start, "end": end, "line": node.lineno}
            self.items.append((item, self.maybe > 0))
            return item

        def put(self, keys, node, known=True):
            """Adds what is assigned: a value, or the entries of a mapping that is written out."""
            if isinstance(node, ast.Call):
                name = self.dotted(node.func).rpartition(".")[2]
                if name in FIELDS and self.kind == "class":
                    return self.declared(keys, node, name, known)
                if name in MAPPINGS:
                    return self.mapping(keys, node, known)
            if isinstance(node, ast.Dict):
                names = [k.value if isinstance(k, ast.Constant) and isinstance(k.value, str) else None for k in node.keys]
                if any(n is not None for n in names):
                    self.add(keys, node, False)
                    # a later **mapping, or a key that is computed, may replace what stands before it
                    last = max([i for i, n in enumerate(names) if n is None], default=-1)
                    for i, (name, value) in enumerate(zip(names, node.values)):
                        if name is not None:
                            self.put(keys + [name], value, known and i > last)
                    return
            self.add(keys, node, known)

        def mapping(self, keys, node, known):
            self.done.add(node)
            self.add(keys, node, False)
            for arg in node.args:
                if isinstance(arg, ast.Dict):
                    self.put(keys, arg, known and len(node.args) == 1)
            last = max([i for i, k in enumerate(node.keywords) if k.arg is None], default=-1)
            for i, k in enumerate(node.keywords):
                if k.arg is not None:
                    self.put(keys + [k.arg], k.value, known and i > last)

        def declared(self, keys, node, name, known):
            self.done.add(node)
            if name == "Field" and node.args:
                self.put(keys, node.args[0], known)
            for k in node.keywords:
                if k.arg == "default":
                    self.put(keys, k.value, known)
                elif k.arg in ("default_factory", "factory"):
                    self.put(keys, k.value.body if isinstance(k.value, ast.Lambda) else k.value, known)

        def dotted(self, node):
            """The name of what is called; one that begins with a dot is a method of some expression."""
            parts = []
            while isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            parts.append(node.id if isinstance(node, ast.Name) else "")
            return ".".join(reversed(parts))

        # --- assignments

        def assign(self, target, value, known=True):
            if isinstance(target, (ast.Tuple, ast.List)):
                pairs = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and \
                    not any(isinstance(e, ast.Starred) for e in target.elts + value.elts)
                for i, t in enumerate(target.elts):
                    self.assign(t, value.elts[i] if pairs else value, known and pairs)
                return
            if isinstance(target, ast.Starred):
                return self.assign(target.value, value, False)
            if isinstance(target, ast.Name):
                if self.kind != "function":
                    self.put(self.scope + [target.id], value, known)
                return
            keys = []
            while isinstance(target, (ast.Attribute, ast.Subscript)):
                if isinstance(target, ast.Attribute):
                    keys.append(target.attr)
                else:
                    key = getattr(target.slice, "value", None)  # before 3.9 the key stands in an Index
                    key = getattr(key, "value", key)
                    if not isinstance(key, str):
                        return
                    keys.append(key)
                target = target.value
            if not isinstance(target, ast.Name):
                return
            keys.reverse()
            if self.kind == "module":
                # what is assigned to a class from outside is not what its generated methods use
                ours = any(c["name"] == target.id for c in self.classes)
                self.put([target.id] + keys, value, known and not ours)
            elif self.kind == "function" and target.id == self.owner and len(keys) == 1:
                self.put(self.scope[:-1] + [self.scope[-1][:-2]] + keys, value, known)

        def visit_Assign(self, node):
            for t in node.targets:
                self.assign(t, node.value, len(node.targets) == 1)  # a = b = 1: no edit could tell them apart
            self.generic_visit(node)

        def visit_AnnAssign(self, node):
            if node.value is not None:
                self.assign(node.target, node.value)
            self.generic_visit(node)

        def visit_AugAssign(self, node):
            self.assign(node.target, node.value, False)
            self.generic_visit(node)

        def visit_NamedExpr(self, node):
            self.assign(node.target, node.value, False)
            self.generic_visit(node)

        # --- what stands around them

        def conditional(self, node):
            self.maybe += 1
            target = getattr(node, "target", None)  # of a loop
            if target is not None:
                self.assign(target, target, False)
            self.generic_visit(node)
            self.maybe -= 1

        visit_If = visit_For = visit_AsyncFor = visit_While = visit_Try = visit_TryStar = visit_Match = conditional

        def within(self, name, kind, body, owner=None):
            before = self.kind, self.owner, self.maybe
            self.scope.append(name)
            self.kind, self.owner = kind, owner
            if kind == "function":
                self.maybe = 0
            for node in body:
                self.visit(node)
            self.kind, self.owner, self.maybe = before
            self.scope.pop()

        def visit_ClassDef(self, node):
            self.classes.append({
                "name": ".".join(self.scope + [node.name]), "line": node.lineno,
                "bases": [self.written(b) for b in node.bases], "decorators": [self.written(d) for d in node.decorator_list],
            })
            for n in node.decorator_list + node.bases + node.keywords:
                self.visit(n)
            self.within(node.name, "class", node.body)

        def visit_FunctionDef(self, node):
            a, name = node.args, node.name + "()"
            params = a.posonlyargs + a.args
            pairs = list(zip(params[len(params) - len(a.defaults):], a.defaults)) + list(zip(a.kwonlyargs, a.kw_defaults))
            for param, default in pairs:
                if default is not None:
                    self.add(self.scope + [name, param.arg], default)
            for n in node.decorator_list + [d for _, d in pairs if d is not None]:
                self.visit(n)
            self.within(name, "function", node.body, params[0].arg if self.kind == "class" and params else None)

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_Call(self, node):
            name = self.dotted(node.func)
            if name.strip("."):
                self.calls.setdefault(name, []).append(node.lineno)
                if node not in self.done:
                    for k in node.keywords:
                        if k.arg is not None:
                            item = self.add(self.scope + [name + "()", k.arg], k.value)
                            self.given.setdefault(item["path"], []).append(item)
            self.generic_visit(node)

        def visit_Import(self, node):
            for a in node.names:
                self.imports.append({"module": a.name, "as": a.asname or a.name.partition(".")[0], "line": node.lineno})

        def visit_ImportFrom(self, node):
            for a in node.names:
                self.imports.append({"module": "." * node.level + (node.module or ""), "name": a.name,
                                     "as": a.asname or a.name, "line": node.lineno})

        def answer(self):
            # Which of several assignments counts, or which of several calls is meant, nobody can know from the text.
            unsure = [i for items in self.given.values() if len(items) > 1 for i in items]
            by_path = {}
            calls = {id(i) for items in self.given.values() for i in items}
            declared = {i["path"] for i, _ in self.items if id(i) not in calls}
            # build(size=1) is not what build().size means where build itself is declared
            self.items = [(i, m) for i, m in self.items if id(i) not in calls or i["path"] not in declared]
            for item, maybe in self.items:
                by_path.setdefault(item["path"], []).append((item, maybe))
            for items in by_path.values():
                if len(items) > 1 and items[-1][1]:
                    unsure += [i for i, _ in items]
            for item in unsure:
                item["literal"], item["value"] = False, None
            return {"items": [i for i, _ in self.items], "classes": self.classes, "imports": self.imports, "calls": self.calls}

    r = Reader()
    r.visit(ast.parse(text[mark:].decode("utf-8")))
    return r.answer()


def main():
    version = "%d.%d.%d" % sys.version_info[:3]
    sys.stdout.write('{"python": "%s"}\n' % version)
    sys.stdout.flush()
    if sys.version_info < (3, 8):  # older ones do not say where a value ends
        return
    import ast
    import json
    import warnings

    warnings.simplefilter("ignore")
    sys.setrecursionlimit(4000)
    for text in json.loads(sys.stdin.buffer.read().decode("utf-8")):
        try:
            out = reader(ast, text.encode("utf-8"))
        except SyntaxError as e:
            out = {"problem": "line %s is not Python %s: %s" % (e.lineno, version, e.msg)}
        except (ValueError, RecursionError, MemoryError) as e:
            out = {"problem": "Python %s cannot read it: %s" % (version, str(e) or type(e).__name__)}
        sys.stdout.write(json.dumps(out) + "\n")
        sys.stdout.flush()


main()
