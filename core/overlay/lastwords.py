"""launch: the part of its hook that saves the program's state when an out-of-memory ends it: its last words.

When PyTorch raises an out-of-memory in a forward or backward pass, the parameters and the optimizer's states are those of
the last finished step. The program ends, as it would without launch: it prints its traceback, and runs its functions of
atexit. After all of those, and only if nobody caught the error, this part calls the program's own function that saves a
whole state. What that function is, and where a step begins, is in FAMILY, the text of a family of programs, which launch
writes at the end of this file. It has these names:

  SEEN          {module: {function: names}}: when this function of that module begins, begun(*the values of these
                parameters) is called. The call is compiled into the function; there is no wrapper and no frame.
  begun(...)    returns (owner, step): the object that holds all, and the number of optimizer steps that it has finished.
  number(owner, where) is that number now.
  found(frames) returns the owner, instead of begun, from the frames that led to the failure. Such a family has no STEP.
  UNIT          is "epoch" if what is counted are those.
  models(owner) are its modules. Their tensors must not change between the beginning of a step and the failure.
  within(calls) says where the program failed, by the names of the functions that led there, outermost first: STEP, within
                the passes of a step; BETWEEN, in a validation, where the last step is finished and no other has begun;
                DONE, elsewhere between two steps; or None.
  refuse(owner, calls) is a reason not to save, or None.
  keep(owner)   is what a step changes before it fails, beside tensors and random numbers, and undo(owner, kept) sets it back.
  place(owner, step) is the path of the state of that step, as a resume is given it.
  aside(owner, step, path), where states of all steps have one path: where the one that lies there is kept, or None if it
                is of that step.
  ASKED         is there, and false, if launch is not to ask for a state between two steps.
  AGAIN         is there, and true, if a resume makes the validation of its step again.
  save(owner, step, into) has the program save into that empty folder, and returns [(path in it, path where it belongs)].
                They are moved in this order; the last one is the state.

A state is saved only if it is whole and true: a step has begun, which step is known, no tensor has changed since its
beginning (those that the passes themselves change, as the statistics of a batch norm, are set back from copies), all
values are finite, the process is the only one, there is room, and it takes no longer than LIMIT seconds. Else nothing is
written, and the reason is reported.

The same function saves while the program runs, where launch asks for it by a file beside this one: at the beginning of a
step, under the same conditions. The program then goes on.

A program that catches what ends its training, and saves by itself, may take the wrong number for its state, or save one that
is not whole. Its family has these names, too:

  ENDS          {module: {function: name}}: a method that saves, and the name of its parameter that is the state's number.
  ending(owner) is None unless the program saves because it ends. Else it returns the number of the step that is finished,
                or None where it is one that has begun; whether the program failed; and whether a validation is due. It
                raises Wrong where there is no whole state.
  JUDGES        is there, and true, if ending sees by itself whether an optimizer's step has begun. later() then has the program
                save before the next step: it does not end, but a signal asks for a state in the middle of one.
  record(owner, path, step, into) is there if the parameter is the state's path: it has the program save into that empty folder
                as of that step, and returns the path in it.

Such a method is given the right number, and returns at once where there is no whole state, where that one is there, and where
the family itself has recorded it.
"""
import os
import sys
import time

COPIES = 64 << 20  # bytes of tensors that the passes change, and that are kept
ONCE = 256 << 20  # bytes of other tensors without a gradient that are copied once, to see which of them change
SPARE = 64 << 20  # bytes of a disk that stay free
STEP, BETWEEN, DONE = "step", "between", "done"
WHOLE = "its states are of whole epochs"
HALF = "the optimizer's step may be half done, so the state that the program was about to save was not written"
NAME = ".launch-last-words-"
WORDS = "<last words>"  # the file name of FAMILY
REQUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "save-request")  # overlay.Overlay.AskToSave


def start(say, quiet, loader):
    family = type(sys)("_launch_words")
    family.STEP, family.BETWEEN, family.WHOLE, family.peek = STEP, BETWEEN, WHOLE, peek
    family.randoms, family.restore, family.DONE, family.frames = randoms, restore, DONE, frames
    family.Wrong, family.HALF, family.out_of_memory = Wrong, HALF, out_of_memory
    exec(compile(FAMILY, WORDS, "exec", dont_inherit=True), family.__dict__)
    Words(family, say, quiet).wait(loader)


class Wrong(BaseException):
    """Why there are no last words. A program's function that saves, and catches what goes wrong, does not catch this."""


class Words(object):
    def __init__(self, family, say, quiet):
        self.family, self.plainly = family, say
        self.owner = None  # a weak reference
        self.pid = os.getpid()
        self.step = self.began = None  # of the owner, when this one began, and when its first one in this process did
        self.quiet_end = quiet(self.end)
        self.model = ()  # whose tensors these are
        self.trained, self.still, self.moving, self.copies = [], [], [], []
        self.tracked = False  # the second step has shown which tensors the passes change
        self.made = self.left = 0  # calls of optimizers, each at its beginning and at its end; and at its end alone
        self.counts = False  # whether they are counted
        self.next, self.retries, self.known = 0.0, None, 0  # of the card's allocator
        self.spoken = False  # the program has saved by itself as it failed, or has been kept from that

    # --- while it runs

    def wait(self, loader):
        plain, seen, ends = loader.get_code, self.family.SEEN, getattr(self.family, "ENDS", {})

        def get_code(self_, fullname):
            if fullname in seen or fullname in ends:
                import gc

                collects = gc.isenabled()
                gc.disable()  # which would look through all modules at each thousand nodes of a tree
                try:
                    return self.probed(self_, fullname, seen.get(fullname, {}), ends.get(fullname, {}))
                except Exception as e:
                    self.plainly("words", why="%s could not be read: %s" % (fullname, e))
                finally:
                    if collects:
                        gc.enable()
            return plain(self_, fullname)

        get_code.__code__ = get_code.__code__.replace(co_filename=plain.__code__.co_filename)
        loader.get_code = get_code
        at_exit(self.quiet_end)

    def probed(self, loader, fullname, functions, ends):
        """The code of a module with a call in the first statement of each of the functions."""
        path = loader.get_filename(fullname)
        tree = compile(loader.get_data(path), path, "exec", 0x400, True)  # ast.PyCF_ONLY_AST
        first = {name: "__import__('_launch').begun(%s)" % ", ".join(functions[name]) for name in functions}
        for name in ends:
            first[name] = "{0} = __import__('_launch').ending(self, {0})\nif {0} is None: return".format(ends[name])
        for name in first:
            at, parts = tree, name.split(".")
            for part in parts:
                at = [s for s in at.body if getattr(s, "name", None) == part] or [None]
                at = at[-1]
            if at is None and name in ends:  # the method is inherited
                continue
            has = [a.arg for a in at.args.posonlyargs + at.args.args + at.args.kwonlyargs]
            for used in functions.get(name, []) + [ends[n] for n in ends if n == name]:
                if used.isidentifier() and used not in has + ["None"]:
                    raise ValueError("%s has no parameter %s" % (name, used))
            nodes = compile("def f():\n " + first[name].replace("\n", "\n "), path, "exec", 0x400, True).body[0].body
            for node in nodes:
                place(node, at.body[0].lineno)
            start = 1 if doc(at.body[0]) else 0
            at.body[start:start] = nodes
        code = compile(tree, path, "exec", dont_inherit=True)
        door = sys.modules.setdefault("_launch", type(sys)("_launch"))
        door.begun, door.ending = self.begun, self.ending
        return code

    def begun(self, *args):
        """A step begins, or another micro-batch of it. What goes wrong here ends here, but for what a signal's handler of
        the program raises."""
        try:
            self.note(*args)
        except Exception as e:
            file = innermost(e)
            if file not in (__file__, WORDS) and "/torch/" not in file and "/numpy/" not in file:
                raise

    def note(self, *args):
        found = self.family.begun(*args)
        if found is None or os.getpid() != self.pid:
            return
        owner, step = found
        again = self.owner is not None and self.owner() is owner
        if again and step == self.step:
            return
        if not again:
            import weakref

            self.owner, self.model, self.copies = weakref.ref(owner), (), []
            self.began = step
            self.count()
        self.step = None  # if this fails, it is not known what is true
        models = self.family.models(owner)
        if self.model != tuple(map(id, models)):
            self.tensors(models)
        elif not self.tracked:
            self.track()
        self.random = randoms()
        self.kept = self.family.keep(owner) if hasattr(self.family, "keep") else None
        torch = sys.modules["torch"]
        with torch.no_grad():
            for copy, tensor in zip(self.copies, self.moving):
                copy.copy_(tensor, non_blocking=True)
        self.versions = self.sum()
        self.step = step
        if torch.cuda.is_initialized() and time.monotonic() >= self.next:
            self.press(torch._C)
        if step > 0 and os.access(REQUEST, os.F_OK):  # one system call for a step
            self.answer(owner, step)

    def press(self, core):
        """Reports that the allocator has emptied its cache to try a refused request again. Those of the first steps do not
        count: a search for fast kernels asks for what there is. Each line is for twice as many as the one before."""
        self.next = time.monotonic() + 1
        count = core._cuda_memoryStats(core._cuda_getDevice()).get("num_alloc_retries", 0)
        if self.retries is None:
            self.retries = count
        if count - self.retries > 2 * self.known:
            self.known = count - self.retries
            self.plainly("retries", retries=self.known)

    def answer(self, owner, step):
        """Saves between two steps, because launch asks for it. Who removes the request is the one that answers it."""
        try:
            os.unlink(REQUEST)
        except OSError:
            return
        began, said = time.monotonic(), {"asked": 1, "why": ""}
        try:
            said["path"], said["kept"] = self.between(owner, step, began)
            said["step"] = step
        except Wrong as e:
            said["why"] = str(e)
        except BaseException as e:
            said["why"] = ("saving failed: %s: %s" % (type(e).__name__, e))[:300]
            if not isinstance(e, Exception) or handled(e.__traceback__):
                raise
        finally:
            self.alive = ()
            restore(self.random)
            self.plainly("words", ms=int(1000 * (time.monotonic() - began)), **said)

    def between(self, owner, step, began):
        import threading

        if threading.current_thread() is not threading.main_thread():
            raise Wrong("it trains in a thread, where no signal can end a saving that takes too long")
        calls, frame = [], sys._getframe(4)  # of the function that begins the step
        while frame is not None:
            calls.insert(0, (frame.f_code.co_filename, frame.f_code.co_name))
            frame = frame.f_back
        why = self.family.refuse(owner, calls) or several()
        if why:
            raise Wrong(why)
        path = os.path.abspath(self.family.place(owner, step))
        kept, older = self.there(owner, step, path)
        if not kept:
            self.alive = [owner] + self.family.models(owner)
            self.write(owner, step, path, older, began, asked=1)
        return path, int(kept)

    def ending(self, owner, value):
        """What the method goes on with by which a program saves because it ends; None: it is not to save."""
        changed = value
        try:
            changed, record = self.ended(owner, value)
            if record is not None:
                record()
        except Wrong as e:
            if str(e):
                self.spoken = True
                self.plainly("words", why=str(e))
            return None
        except Exception as e:
            if changed is None and innermost(e) not in (__file__, WORDS):
                raise  # the program itself could not save
            self.plainly("words", why=("launch could not judge what the program saves: %s: %s" % (type(e).__name__, e))[:300])
            return value
        return changed

    def ended(self, owner, value):
        """What the method goes on with; and what records the state in its place, or None."""
        if os.getpid() != self.pid or several():
            return value, None
        ends = self.family.ending(owner)
        if ends is None or self.owner is None or self.owner() is not owner:
            return value, None
        step, failed, due = ends
        passes, judges = step is None, getattr(self.family, "JUDGES", False)
        if passes:
            if failed and not self.counts and not judges:
                return value, None  # before torch 2 nothing shows whether an optimizer's step had begun
            # a pass may be within an optimizer's call; such a program changes others after each pass, and moves all as it ends
            seen = 2 if judges else None
            half = self.step is None or (failed or judges) and self.sum()[:seen] != self.versions[:seen]
            if judges and sys.exc_info()[1] is None and (half or self.moving or not self.tracked):
                self.family.later()  # the pass goes on, and needs what it has changed
                raise Wrong("")
            if half:
                raise Wrong(HALF)
            step = self.step
        said = {"step": step, "skips": int(due), "why": ""}
        if judges and step in (0, self.began):
            raise Wrong("no step was finished since the program started")
        if hasattr(self.family, "record"):
            return None, lambda: self.record(owner, value, passes, failed, said)
        if passes and self.tracked:
            self.back(owner)
        path = os.path.abspath(self.family.place(owner, step))
        kept = complete(path)
        if failed:
            self.plainly("words", path=path, kept=int(kept), **said)
        return None if kept else step, None

    def record(self, owner, path, passes, failed, said):
        """Has the family save what a program saves because it ends, or because a signal asks for it: then it goes on."""
        path, began = os.path.abspath(path), time.monotonic()
        into = os.path.join(os.path.dirname(path), NAME + str(os.getpid()))
        os.makedirs(into)
        drawn = randoms()
        try:
            if failed:
                self.plainly("words", writing=into)
            if passes and self.tracked:
                self.back(owner)
            os.replace(self.family.record(owner, path, said["step"], into), path)
        finally:
            remove(into)
            restore(drawn)
        if failed:
            self.spoken = True
            self.plainly("words", path=path, kept=0, ms=int(1000 * (time.monotonic() - began)), **said)

    def count(self):
        """Has the calls of all optimizers counted, where this torch can: kernels of other libraries change parameters
        without a trace, and an optimizer changes its own states first. The hooks stand in torch's tables themselves, as
        that of witness.py does."""
        optimizer = sys.modules.get("torch.optim.optimizer")
        tables = [getattr(optimizer, "_global_optimizer_%s_hooks" % when, None) for when in ("pre", "post")]
        compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", None)
        if None in tables or compiling is None:
            return

        def counting(ends):
            def stepped(optimizer, args, kwargs):
                if not compiling():
                    self.made += 1
                    self.left += ends

            return stepped

        for table, ends in zip(tables, (0, 1)):
            table[-2] = counting(ends)
        self.counts = True

    def tensors(self, models):
        self.model, self.tracked = tuple(map(id, models)), False
        self.moving, self.copies = [], []
        buffers = list({id(t): t for m in models for t in m.buffers()}.values())
        self.trained = list({id(t): t for m in models for t in m.parameters()}.values())
        self.still = buffers
        self.version = type(self.trained[0]).__mro__[-2].__dict__["_version"].__get__  # torch._C.TensorBase's
        self.first = list(map(self.version, buffers + self.trained))
        # a batch norm does not count what it changes in its statistics, so values are compared, too
        self.values = [t.detach().to("cpu", copy=True) for t in buffers] if size(buffers) <= ONCE else None

    def track(self):
        """Keeps copies of what the first step has changed, but the optimizer does not."""
        torch = sys.modules["torch"]
        if self.values is None:
            return
        every = self.still + self.trained
        changed = [t for t, v in zip(every, self.first) if not t.requires_grad and self.version(t) != v]
        changed += [t for t, v in zip(self.still, self.values) if not torch.equal(v, t.detach().cpu())]
        changed = {id(t): t for t in changed}
        if size(changed.values()) > COPIES:
            return
        self.tracked, self.values = True, None
        self.still, self.trained = [[t for t in group if id(t) not in changed] for group in (self.still, self.trained)]
        self.moving = list(changed.values())
        self.copies = [torch.empty_like(t, device="cpu", pin_memory=t.is_cuda) for t in self.moving]

    def sum(self):
        """What shows a change: optimizers were called; versions count what is done in place, but not by way of .data, and
        .data = changes the address."""
        versions = [sum(map(self.version, group)) for group in (self.trained, self.still)]
        return (self.left, *versions, self.made, sum([t.data_ptr() for t in self.trained + self.still]))

    # --- at the end

    def end(self):
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is None or not out_of_memory(error) or os.getpid() != self.pid or self.spoken:
            return
        began = time.monotonic()
        try:
            step, path, kept, where = self.speak(error, began)
            skips = where == BETWEEN and not getattr(self.family, "AGAIN", False)
            unit, ms = getattr(self.family, "UNIT", ""), int(1000 * (time.monotonic() - began))
            self.plainly("words", step=step, unit=unit, path=path, kept=int(kept), skips=int(skips), ms=ms, why="")
        except Wrong as e:
            self.plainly("words", why=str(e))
        except BaseException as e:  # Ctrl-C ends the saving
            self.plainly("words", why=("saving failed: %s: %s" % (type(e).__name__, e))[:300])

    def speak(self, error, began):
        if hasattr(self.family, "found"):
            owner = self.family.found(frames(error.__traceback__))
        else:
            owner = None if self.owner is None or self.step is None else self.owner()
        if owner is None:
            raise Wrong("launch saw no training step begin")
        calls = names(error.__traceback__)
        where = self.family.within(calls)
        if where is None:
            raise Wrong("launch cannot tell whether the last step was finished where the program failed")
        why = self.family.refuse(owner, calls)
        if why is None and any("/torch/optim/" in file for file, _ in calls):
            why = "the program failed in the step of the optimizer, which may be half done"
        if why is None:
            why = several()
        if why:
            raise Wrong(why)
        step = self.family.number(owner, where)
        if step in (0, self.began):
            raise Wrong("fewer than two steps were finished since the program started" if step else "no step was finished")
        path = os.path.abspath(self.family.place(owner, step))
        kept, older = self.there(owner, step, path)
        if kept:
            return step, path, True, where
        if where == STEP and not self.tracked:
            raise Wrong("fewer than two steps were finished since the program started, or a step changes too much beside the parameters")
        if where == STEP and (step != self.step or self.sum() != self.versions):
            raise Wrong("the parameters are no longer those of the last finished step")
        self.free(owner, error)
        if where == STEP:
            self.back(owner)
        self.write(owner, step, path, older, began)
        return step, path, False, where

    def there(self, owner, step, path):
        """Whether the state of a step is there, and where an older one is kept that has its path."""
        if not os.path.lexists(path):
            return False, None
        older = self.family.aside(owner, step, path) if hasattr(self.family, "aside") else None
        return older is None, older

    def free(self, owner, error):
        """Frees what the failed step held: its frames, its gradients, what the allocator has cached."""
        import gc
        import traceback

        self.alive = [owner] + self.family.models(owner)
        while error is not None:
            if error.__traceback__ is not None:
                traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        for model in self.alive[1:]:
            for p in model.parameters():
                p.grad = None
        gc.collect()
        torch = sys.modules["torch"]
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def back(self, owner):
        """Sets back what the failed step has changed."""
        torch = sys.modules["torch"]
        with torch.no_grad():
            for copy, tensor in zip(self.copies, self.moving):
                tensor.copy_(copy)
        restore(self.random)
        if self.kept is not None:
            self.family.undo(owner, self.kept)

    def write(self, owner, step, path, older, began, **said):
        torch, top = sys.modules["torch"], os.path.dirname(path)
        tensors = [t for m in self.alive[1:] for t in list(m.parameters()) + list(m.buffers())]
        for t in tensors:
            if t.is_floating_point() and not bool(t.detach().sum(dtype=torch.float32).isfinite()):
                raise Wrong("a parameter is not finite")
        os.makedirs(top, exist_ok=True)
        disk = os.statvfs(top)
        if disk.f_bavail * disk.f_frsize < 4 * size(tensors) + SPARE:  # the parameters, and up to three times as much of an optimizer
            raise Wrong("it might need more room on the disk than there is: %d MiB are free" % (disk.f_bavail * disk.f_frsize >> 20))
        if available() < 2 * size(tensors):
            raise Wrong("it might need more host memory than is free")
        into = os.path.join(top, NAME + str(os.getpid()))
        os.mkdir(into)
        self.plainly("words", writing=into, **said)
        try:
            with Silence(), Limit(LIMIT - (time.monotonic() - began)), Watched(torch):
                moves = self.family.save(owner, step, into)
            if any(os.path.lexists(target) for _, target in moves if older is None or target != path):
                raise Wrong("there is a part of that state already")
            if older is not None:
                preserve(path, older, into)
            for source, target in moves:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.rename(source, target)
        finally:
            remove(into)


class Silence(object):
    """The program has said all that it prints."""

    def __enter__(self):
        import logging

        self.streams, self.level = (sys.stdout, sys.stderr), logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        sys.stdout = sys.stderr = self.null = open(os.devnull, "w")

    def __exit__(self, *ended):
        import logging

        sys.stdout, sys.stderr = self.streams
        self.null.close()
        logging.disable(self.level)


class Watched(object):
    """Sees a torch.save that fails, though the program goes on without it."""

    def __init__(self, torch):
        self.torch, self.plain, self.wrong = torch, torch.save, None

    def __enter__(self):
        def save(*args, **named):
            try:
                return self.plain(*args, **named)
            except BaseException as e:
                self.wrong = e
                raise

        self.torch.save = save

    def __exit__(self, kind, *ended):
        self.torch.save = self.plain
        if kind is None and self.wrong is not None:
            raise self.wrong


class Limit(object):
    """Ends what takes longer than so many seconds."""

    def __init__(self, seconds):
        self.seconds = max(seconds, 0.01)

    def __enter__(self):
        import signal

        def over(number, frame):
            raise Wrong("it took longer than --last-words allows")

        self.before, self.began = signal.signal(signal.SIGALRM, over), time.monotonic()
        self.left, self.every = signal.setitimer(signal.ITIMER_REAL, self.seconds)  # the program's own timer

    def __exit__(self, *ended):
        import signal

        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.before is not None:  # one that C code has set
            signal.signal(signal.SIGALRM, self.before)
        if self.left > 0:
            left = max(self.left - (time.monotonic() - self.began), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, self.every)


def doc(statement):
    return type(statement).__name__ == "Expr" and isinstance(getattr(statement.value, "value", None), str)


def place(node, line):
    for name in node._attributes:
        setattr(node, name, line if name.endswith("lineno") else 0)
    for name in node._fields:
        for child in getattr(node, name) if isinstance(getattr(node, name), list) else [getattr(node, name)]:
            if hasattr(child, "_fields"):
                place(child, line)


def frames(at):
    """The frames of a traceback, outermost first."""
    all = []
    while at is not None:
        all.append(at.tb_frame)
        at = at.tb_next
    return all


def innermost(e):
    """The file in which an exception was raised."""
    return frames(e.__traceback__)[-1].f_code.co_filename


def names(at):
    """The files and functions of a traceback, outermost first."""
    return [(f.f_code.co_filename, f.f_code.co_name) for f in frames(at)]


def handled(at):
    """Whether a signal's handler of the program has raised what has this traceback."""
    import signal

    handlers = [getattr(signal.getsignal(n), "__code__", None) for n in signal.valid_signals()]
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at = at.tb_next
    return False


def size(tensors):
    """Bytes."""
    return sum(t.numel() * t.element_size() for t in tensors)


def several():
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return "several processes train together, and a state needs all of them"


def available():
    """Bytes of host memory that are free for this process, as the kernel counts them."""
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 62


def randoms():
    """The states of the generators that programs draw from, as far as they are there."""
    torch = sys.modules["torch"]
    kept = {"torch": torch.get_rng_state()}
    if "random" in sys.modules:
        kept["random"] = sys.modules["random"].getstate()
    if "numpy.random" in sys.modules:
        kept["numpy"] = sys.modules["numpy.random"].get_state()
    if torch.cuda.is_initialized():
        kept["cuda"] = torch.cuda.get_rng_state_all()
    return kept


def restore(kept):
    torch = sys.modules["torch"]
    torch.set_rng_state(kept["torch"])
    if "random" in kept:
        sys.modules["random"].setstate(kept["random"])
    if "numpy" in kept:
        sys.modules["numpy.random"].set_state(kept["numpy"])
    if "cuda" in kept:
        torch.cuda.set_rng_state_all(kept["cuda"])


def preserve(path, older, into):
    """Gives a file a second name, so that it is not lost when another takes its place. At each moment it has one."""
    if os.path.islink(path) or not os.path.isfile(path):
        raise Wrong("the older state is not a plain file")
    stem, end = os.path.splitext(older)
    for n in range(1, 100):
        target = older if n == 1 else "%s-%d%s" % (stem, n, end)
        try:
            return os.link(path, target)
        except FileExistsError:
            continue
        except OSError:  # a disk without such links
            if os.path.lexists(target):
                continue
            import shutil

            copy = os.path.join(into, "older")
            shutil.copy2(path, copy)
            return os.rename(copy, target)
    raise Wrong("there are too many older states")


def peek(path):
    """What torch.save has written to a file, without its tensors, and with nothing of it run."""
    import pickle
    import zipfile

    class Nothing(dict):
        def __init__(self, *args, **named):
            dict.__init__(self)

        def __setstate__(self, state):
            pass

    class Plain(pickle.Unpickler):
        def find_class(self, module, name):
            return Nothing

        def persistent_load(self, of):
            return None

    with zipfile.ZipFile(path) as z:
        name, = [n for n in z.namelist() if n.count("/") == 1 and n.endswith("/data.pkl")]
        with z.open(name) as f:
            return Plain(f).load()


def complete(path):
    """Whether torch.save has written that file to its end."""
    try:
        peek(path)
    except Exception:  # it is not there, or its end is not
        return False
    return True


def remove(folder):
    for at, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(at, name))
        for name in folders:
            path = os.path.join(at, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)
    os.rmdir(folder)
