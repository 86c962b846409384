"""What trace.py knows of the values of tensors on the card, which loops end by values that it does not know, and which have
shown enough."""
import ast
import itertools
import sys
import threading
import time
import weakref


class Known:
    """Small tensors whose values are known, as they come from the CPU or are made alike: they are computed there, too."""
    MOST = 1 << 17  # bytes
    FRESH = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
    NONE, ALL = ("bitwise_and", "logical_and", "mul"), ("bitwise_or", "logical_or")

    def __init__(self, torch, FakeTensor):
        self.torch, self.FakeTensor = torch, FakeTensor
        self.of = weakref.WeakKeyDictionary()  # storage -> one on the CPU
        self.random = torch.Tag.nondeterministic_seeded

    def value(self, t):
        """A tensor's values, as a tensor on the CPU that shares them; None: not known."""
        if not isinstance(t, self.FakeTensor):
            return t if t.device.type == "cpu" and t.numel() * t.element_size() <= self.MOST else None
        real = self.of.get(t.untyped_storage())
        return None if real is None else self.view(real, t)

    def view(self, real, t):
        return self.torch.empty(0, dtype=t.dtype, device="cpu").set_(real, t.storage_offset(), tuple(t.shape), t.stride())

    def set(self, t, values):
        real = self.torch.UntypedStorage(t.untyped_storage().nbytes())
        self.view(real, t).copy_(values)
        self.of[t.untyped_storage()] = real

    def compute(self, func, args, kwargs):
        """What an operator gives on the CPU; None where something that it needs is not known."""
        class Unknown(Exception):
            pass

        def there(x):
            if isinstance(x, self.torch.Tensor):
                x = self.value(x)
                if x is None:
                    raise Unknown
            elif isinstance(x, self.torch.device):
                return self.torch.device("cpu")
            elif isinstance(x, (list, tuple)):
                return type(x)(map(there, x)) if type(x) in (list, tuple) else x
            return x

        try:
            a, k = [there(x) for x in args], {n: there(x) for n, x in kwargs.items() if n != "pin_memory"}
            return func(*a, **k)
        except (Unknown, RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            return None

    def follow(self, func, args, kwargs, made):
        """Notes the values of what an operator has made."""
        name, changes = func._schema.name.rpartition(":")[2].rstrip("_"), func._schema.is_mutable
        if changes:  # what else it changes, as a normalisation its averages
            made = [*made, *(x for x, a in zip(args, func._schema.arguments) if a.alias_info and a.alias_info.is_write
                             and isinstance(x, self.torch.Tensor) and not any(x is m for m in made))]
        if len(made) != 1 or not isinstance(made[0], self.FakeTensor) or made[0].untyped_storage().nbytes() > self.MOST:
            if changes:
                self.forget(made)
            return
        out = made[0]
        s = out.untyped_storage()
        if not changes and (s in self.of or name in self.FRESH):
            return
        whole = out.numel() * out.element_size() == s.nbytes()
        try:
            if changes and name in ("fill", "zero", "copy") and whole and s not in self.of:
                given = 0 if name == "zero" else self.value(args[1]) if isinstance(args[1], self.torch.Tensor) else args[1]
                if given is not None:
                    self.set(out, self.torch.as_tensor(given, device="cpu"))
                return
            absorbed = self.absorbs(name, args)
            if absorbed is not None and whole:
                self.set(out, self.torch.tensor(absorbed, dtype=out.dtype, device="cpu"))
                return
            values = None if self.random in func.tags else self.compute(func, args, kwargs)
            if values is None:
                if changes:
                    self.forget(made)
            elif not changes and isinstance(values, self.torch.Tensor) and values.shape == out.shape:
                self.set(out, values)
        except (RuntimeError, NotImplementedError):
            self.forget(made)

    def absorbs(self, name, args):
        """What one known side decides: nothing and anything is nothing, all or anything is all."""
        if name not in self.NONE + self.ALL:
            return None
        for x in args[:2]:
            if isinstance(x, self.torch.Tensor) and not x.is_floating_point():
                x = self.value(x)
                if x is not None and name in self.NONE and not x.any():
                    return 0
                if x is not None and name in self.ALL and x.dtype == self.torch.bool and x.all():
                    return True
        return None

    def forget(self, made):
        for t in made:
            if isinstance(t, self.FakeTensor):
                self.of.pop(t.untyped_storage(), None)


class Loops:
    """What a program decides by values that are not there. Where they decide how long a loop goes on it is let go on,
    and where one ends at such a value all the same, TELL is called with where that was."""
    MOST, SECONDS = 4096, 10
    SIZES = {"range", "zeros", "ones", "empty", "full", "arange", "randn", "rand", "new_zeros", "new_ones", "new_empty",
             "new_full", "expand", "repeat", "view", "reshape", "linspace"}

    def __init__(self, tell, ours):
        self.tell, self.ours = tell, ours
        self.trees, self.places = {}, {}
        self.lines = {}    # of each frame that was running at the last mark: its line
        self.pending = {}  # loops in which the last answer was not known
        self.asked = {}    # loop -> how often, since when

    def frames(self):
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename not in self.ours:
                yield frame
            frame = frame.f_back

    def mark(self):
        """A batch, a step: a loop around it may be of any length, as each round of it is alike."""
        self.lines = {id(f): f.f_lineno for f in itertools.islice(self.frames(), 100)}
        self.ended()

    def ended(self):
        """Tells of loops that have ended at a value that is not known."""
        if self.pending:
            running = {id(f): f.f_lineno for f in self.frames()}
            for key, (first, last, where) in list(self.pending.items()):
                if not first <= running.get(key[0], -1) <= last:
                    del self.pending[key]
                    self.tell("the length of a loop depends on values that are not there (%s)" % where)

    def bool(self, known, default):
        """The answer to a program that asks a tensor whether it is true; known: its value, or None."""
        self.ended()
        polarity = 1
        for frame in itertools.islice(self.frames(), 12):
            kind, loop, sign = self.place(frame)
            polarity *= sign
            if kind == "return":
                continue
            if kind is None or loop and loop.lineno <= self.lines.get(id(frame), -1) <= loop.end_lineno:
                break
            key = id(frame), loop.lineno
            if known is not None:
                self.pending.pop(key, None)
                break
            where = "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)
            if not polarity:
                self.pending[key] = loop.lineno, loop.end_lineno, where
                break
            on = (kind == "while") == (polarity > 0)
            n, since = self.asked.get(key, (0, time.process_time()))
            self.asked[key] = n + 1, since
            if n < self.MOST and time.process_time() - since < self.SECONDS:
                return on
            del self.asked[key]
            self.tell("a loop goes on until values are there (%s)" % where)
            return not on
        return default if known is None else known

    def size(self):
        """A number that is not known is asked for: what becomes a length or a size is told."""
        self.ended()
        for frame in itertools.islice(self.frames(), 1):
            kind = self.place(frame)[0]
            where = "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)
            if kind == "size":
                self.tell("a size depends on values that are not there (%s)" % where)
            elif kind in ("while", "if", "loop"):
                self.bool(None, True)

    def place(self, frame):
        key = frame.f_code, frame.f_lasti
        if key not in self.places:
            self.places[key] = self.found(frame)
        return self.places[key]

    def found(self, frame):
        """What the expression that a frame evaluates decides: (kind, loop, sign). while: its loop's going on; if: its end;
        loop: one or the other; return: what the function returns; size. A sign of 0: how is not clear."""
        path = self.path(frame)
        at = max((i for i, n in enumerate(path) if isinstance(n, ast.stmt)), default=None)
        if at is None:
            return None, None, 0
        stmt, inside = path[at], path[at + 1:]
        function = max((i for i, n in enumerate(path) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), default=0)
        loops = [n for n in path[function:at + 1] if isinstance(n, (ast.While, ast.For))]
        sign = 1
        for n in inside:
            if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not):
                sign = -sign
            elif not isinstance(n, ast.BoolOp) and n is not inside[-1]:
                sign = 0
        if isinstance(stmt, ast.For) and inside and within(stmt.iter, inside[0]) or any(
                isinstance(n, ast.Call) and name(n.func) in self.SIZES for n in inside[:-1]):
            return "size", stmt, 0
        if isinstance(stmt, ast.While):
            return "while", stmt, sign
        if isinstance(stmt, ast.If):
            return self.branch(stmt, loops, sign)
        if isinstance(stmt, ast.Return):
            return "return", None, sign
        if isinstance(stmt, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = {ast.unparse(t) for t in (stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target])}
            tests = [n.test for loop in loops for n in [loop, *ast.walk(loop)]
                     if isinstance(n, ast.While) or isinstance(n, ast.If) and leaves(n.body)]
            if loops and any(ast.unparse(n) in targets for t in tests for n in ast.walk(t)):
                return "loop", loops[-1], 0
            if any(isinstance(n, ast.Call) and name(n.func) in self.SIZES and any(
                    isinstance(x, ast.expr) and ast.unparse(x) in targets for y in [*n.args, *n.keywords] for x in ast.walk(y))
                    for n in ast.walk(path[function])):
                return "size", stmt, 0
        return None, None, 0

    def branch(self, stmt, loops, sign):
        for body, way in ((stmt.body, 1), (stmt.orelse, -1)):
            if loops and leaves(body):
                return "if", loops[-1], sign * way
            given = {n.value.value for b in body for n in ast.walk(b)
                     if isinstance(n, ast.Return) and isinstance(n.value, ast.Constant)}
            if given in ({True}, {False}):
                return "return", None, sign * way * (1 if True in given else -1)
        whiles = [n for n in loops if isinstance(n, ast.While)]
        set_ = {ast.unparse(t) for n in ast.walk(stmt) if isinstance(n, ast.Assign) for t in n.targets}
        if whiles and any(isinstance(n, ast.expr) and ast.unparse(n) in set_ for n in ast.walk(whiles[-1].test)):
            return "loop", whiles[-1], 0
        return None, None, 0

    def path(self, frame):
        """The nodes around what a frame evaluates, from the file's root to it."""
        code = frame.f_code
        if code.co_filename not in self.trees:
            try:
                with open(code.co_filename, "rb") as f:
                    self.trees[code.co_filename] = ast.parse(f.read())
            except (OSError, SyntaxError, ValueError):
                self.trees[code.co_filename] = None
        node, path = self.trees[code.co_filename], []
        span = frame.f_lineno, frame.f_lineno, None, None
        if hasattr(code, "co_positions"):
            span = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), span)
        while node is not None:
            path.append(node)
            node = next((n for n in ast.iter_child_nodes(node) if around(n, *span)), None)
        return path


class Rounds:
    """The `for` loops of the project's own files (see wrapped), for scripts without a data loader, whose batches would be
    few. The loop that trains is left once it has shown enough, so that what follows it is seen; one that only evaluates is
    left after ALIKE rounds of the same shapes, each of which has left as many bytes alive as the one before."""
    ALIKE = 3

    class Round:
        def __init__(self):
            self.trains = self.leave = False
            self.evaluated = self.count = self.before = self.live = 0
            self.shapes = set()

    def __init__(self, trace):
        self.trace, self.running, self.left, self.main = trace, [], False, threading.get_ident()
        self.learned = None  # the innermost one of the last backward pass

    def of(self, iterable):
        if threading.get_ident() != self.main:
            yield from iterable
            return
        mine = self.Round()
        self.running.append(mine)
        try:
            for x in iterable:
                yield x
                mine.before, mine.live = mine.live, self.trace.live
                if mine.leave or self.alike(mine):
                    return
                mine.count = 0
        finally:
            self.running.remove(mine)

    def alike(self, mine):
        mine.evaluated = mine.evaluated + 1 if mine.count else 0
        return (self.trace.steps > 0 and not self.trace.batches and not mine.trains and mine.evaluated >= self.ALIKE
                and len(mine.shapes) == 1 and mine.before == mine.live)

    def forward(self, shapes):
        if self.running:
            self.running[-1].count += 1
            self.running[-1].shapes.add(shapes)

    def backward(self):
        if self.running:
            self.learned = self.running[-1]
            self.learned.trains = True

    def leave(self):
        """Leaves the loop that trains, once. Tells whether there is one to leave."""
        if self.left or self.trace.batches or not self.running:
            return False
        loop = self.learned if self.learned in self.running else self.running[-1]  # there may be another, of the parameters
        self.left = loop.leave = True
        return True


class Moments:
    """What is done every so many steps, `if step % 500 == 0` (see wrapped): a trace does not come so far, and
    it may be the validation. Once enough was seen of the training, each such condition holds once, unless it has held
    before. It has to be of a number that grows, or of an epoch, and outside of modules: there it is of a size."""

    def __init__(self, trace):
        self.trace, self.open, self.held, self.last = trace, False, set(), {}

    def of(self, where, count, held):
        grown = type(count) is int and count > self.last.get(where, count) or "epoch" in where
        self.last[where] = count
        if self.open and grown and where not in self.held and not self.trace.depth and not self.trace.backwards:
            held = True
        if held:
            self.held.add(where)
        return held


def wrapped(tree, path, rounds, moments):
    """A file's code in which the function rounds, if any, is handed what each `for` goes through, and moments each condition on
    the remainder of a number."""
    def call(function, *args):
        return ast.Call(ast.Name(function, ast.Load()), list(args), [])

    for node in list(ast.walk(tree)):
        if isinstance(node, ast.For) and rounds:
            new = call(rounds, node.iter)
            node.iter = ast.fix_missing_locations(ast.copy_location(new, node.iter))
        for field in ("test", "value") if isinstance(node, (ast.If, ast.Assign, ast.Return)) else ():
            if isinstance(getattr(node, field, None), ast.expr):
                setattr(node, field, due(getattr(node, field), path, lambda *args: call(moments, *args)))
    return tree


def due(test, path, call):
    """A condition in which each `count % period == number` or `not count % period` is told of; it may be one of several."""
    if isinstance(test, ast.BoolOp):
        test.values = [due(v, path, call) for v in test.values]
    of = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        of = test.left
    if not isinstance(of, ast.BinOp) or not isinstance(of.op, ast.Mod):
        return test
    plain = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)
    if not all(isinstance(n, plain) for n in ast.walk(of.left)):
        return test  # it is computed twice
    where = "%s:%d:%d: %s" % (path, test.lineno, test.col_offset, ast.unparse(of.left))
    return ast.fix_missing_locations(ast.copy_location(call(ast.Constant(where), of.left, test), test))


def around(node, line, last, column, end):
    if not hasattr(node, "lineno"):
        return isinstance(node, (ast.withitem, ast.comprehension, ast.match_case if hasattr(ast, "match_case") else ast.withitem)) and any(
            around(n, line, last, column, end) for n in ast.iter_child_nodes(node))
    if None in (column, end):
        return node.lineno <= line <= node.end_lineno
    return (node.lineno, node.col_offset) <= (line, column) and (last, end) <= (node.end_lineno, node.end_col_offset)


def within(node, inner):
    return any(n is inner for n in ast.walk(node))


def name(func):
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def leaves(body):
    """Whether statements leave the loop that they are in."""
    for n in body:
        if isinstance(n, (ast.Break, ast.Return)):
            return True
        if isinstance(n, ast.If) and (leaves(n.body) or leaves(n.orelse)):
            return True
        if isinstance(n, (ast.With, ast.Try)) and leaves(n.body):
            return True
    return False
