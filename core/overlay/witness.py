"""launch: the part of its hook that says what this process knows of its memory.

sitecustomize.py loads it where launch or a plugin asked for it, and hands it say(), which appends a line to the report.
Beside the rules that stand there: nothing is asked of CUDA that the program has not begun, no counter is reset, no thread
is started, and what is called often does next to nothing.

How it comes to know:
  - torch: the next module that is read after torch.cuda was imported leads here, from then on no other does; what is to
    happen when the program itself initialises CUDA is left with torch.cuda._lazy_call. A process that is forked from one
    that trains, as loader workers are, has no CUDA and says nothing of it.
  - what the card's allocator refused: torch._C._cuda_attach_out_of_memory_observer. An observer is called before the
    exception is made, so also for one that will be caught, and for those that torch catches itself (cuDNN's search for an
    algorithm). It is called with the GIL. Until torch 2.0 the allocator holds its own lock meanwhile, so a thread that
    has the GIL and allocates would wait for ever (pytorch#97833): no observer is attached before 2.2.
  - peaks: the allocator's own counters after an optimizer step (a global hook of torch.optim), after a refusal, and at
    the end. They are read from a dict that torch._C makes, which asks nothing of the driver.
  - what ended the program: the interpreter leaves it in sys.last_value before it runs the functions of atexit. Whoever
    leaves by os._exit or a signal says nothing here. The children of multiprocessing catch what ended them: their
    finalizers run meanwhile, and one of those is the hook's.
"""
import os
import sys
import time

FRAMES = 60  # of a stack, the innermost
PATH = 300  # characters of a path or a name
LINES = 300  # of peaks that one process says
FIRST = 20  # refusals that are all said; after those each that doubles their number
DEVICES = 16  # that are looked at
SHARE = 200  # of the time, one part at the most is spent on looks at the counters
SINCE = (2, 2)  # the first torch of which the observer is trusted

# What counts calls, or lines, and prints them, would count the hook's too.
PROFILERS = ("cProfile", "profile", "trace", "pdb", "coverage", "kernprof", "line_profiler", "scalene", "viztracer", "pyinstrument", "memory_profiler")


own = [__file__]  # whose calls are none of the program's


def start(say, quiet, loader):
    own.append(quiet.__code__.co_filename)
    for word in getattr(sys, "orig_argv", [])[1:]:
        if word.startswith("-") and word != "-m":
            continue
        name = os.path.basename(word)
        if name in PROFILERS:
            say("witness", why="it runs under " + name + ", which would count what the hook does")
            return
        if word != "-m":
            break
    Witness(say, quiet).wait(loader)


class Witness(object):
    def __init__(self, say, quiet):
        self.plainly, self.quiet = say, quiet
        self.core = None  # torch._C, once the program has initialised CUDA
        self.pid = 0  # of the process that did
        self.torch = ""  # its version
        self.refused = self.steps = self.lines = self.devices = 0
        self.next = 0.0
        self.known = {}  # the peaks that were said: {device: (allocated, reserved)}

    def say(self, event, **fields):
        self.plainly(event, ms=int(time.time() * 1000), **fields)

    # --- until torch is there

    def wait(self, loader):
        at_exit(self.quiet(self.exit))
        plain = loader.get_code
        waiting = [True]

        def get_code(self_, fullname):
            if waiting and "torch.cuda" in sys.modules:
                seen(sys.modules["torch.cuda"])
            return plain(self_, fullname)

        @self.quiet
        def seen(cuda):
            if getattr(cuda.__spec__, "_initializing", False) or not waiting:
                return
            waiting.clear()
            if loader.get_code is get_code:
                loader.get_code = plain
            self.imported(cuda)

        # By this file name Python leaves the frames of its own import system out of tracebacks.
        get_code.__code__ = get_code.__code__.replace(co_filename=plain.__code__.co_filename)
        loader.get_code = get_code
        self.plainly("witness", why="")

    def imported(self, cuda):
        self.torch = str.__str__(getattr(sys.modules.get("torch.version"), "__version__", ""))[:PATH] or "?"
        call = getattr(cuda, "_lazy_call", None)
        if call is None:
            self.plainly("torch", version=self.torch, why="it has no torch.cuda._lazy_call")
            return
        self.plainly("torch", version=self.torch, why="")
        call(self.quiet(self.begun))
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            last = lambda _: util.Finalize(None, self.quiet(self.child), exitpriority=1000)  # before all others
            last(self)
            util.register_after_fork(self, last)  # which forgets the finalizers of its parent

    # --- when the program initialises CUDA

    def begun(self):
        core = sys.modules["torch"]._C
        self.pid, self.core = os.getpid(), core
        self.devices = min(core._cuda_getDeviceCount(), DEVICES)
        why = self.attach(core)
        self.plainly("cuda", devices=self.devices, observer=0 if why else 1, steps=self.count(), why=why)

    def attach(self, core):
        if not self.recent():
            return "torch %s may call an observer with the allocator's lock held" % self.torch
        try:
            core._cuda_attach_out_of_memory_observer(self.quiet(self.observe))
        except Exception as e:  # another allocator than torch's own has none
            return ("%s: %s" % (type(e).__name__, e))[:PATH]
        return ""

    def recent(self):
        parts = self.torch.split("+")[0].split(".")
        return len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() and (int(parts[0]), int(parts[1])) >= SINCE

    def count(self):
        """Has steps counted; 1 if it is so. The hook stands in torch's table itself: a handle would take one of the
        numbers that the program's own hooks get."""
        hooks = getattr(sys.modules.get("torch.optim.optimizer"), "_global_optimizer_post_hooks", None)
        compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", None)
        if hooks is None or compiling is None or not self.recent() or sys.getprofile() or sys.gettrace():
            return 0
        step = self.quiet(self.step)

        def stepped(optimizer, args, kwargs):
            if not compiling():  # what is traced for a compiler ends here
                step()

        hooks[-1] = stepped
        return 1

    # --- while it runs

    def step(self):
        self.steps += 1
        began = time.monotonic()
        if began >= self.next:
            self.look()
            now = time.monotonic()
            self.next = now + SHARE * (now - began)

    def look(self):
        """Says the peaks of devices where they have grown. A program may reset the counters, so what is said is the highest."""
        if self.core is None or os.getpid() != self.pid:
            return
        for d in range(self.devices):
            before = self.known.get(d, (0, 0))
            after = tuple(map(max, self.stats(d, "peak"), before))
            if after != before and self.lines < LINES:
                self.known[d] = after
                self.lines += 1
                self.say("peak", device=d, allocated=after[0], reserved=after[1])

    def stats(self, device, which):
        s = self.core._cuda_memoryStats(device)
        return s["allocated_bytes"]["all"][which], s["reserved_bytes"]["all"][which]

    def observe(self, device, requested, limit, free):
        if os.getpid() != self.pid:
            return
        self.refused += 1
        if self.refused > FIRST and self.refused & (self.refused - 1):
            return
        allocated, reserved = self.stats(device, "current")
        fields = {"n": self.refused, "device": device, "requested": requested, "limit": limit, "free": free,
                  "allocated": allocated, "reserved": reserved, "total": 0, "frames": stack(sys._getframe())}
        try:
            fields["total"] = self.core._cuda_getDeviceProperties(device).total_memory
        finally:
            self.say("refused", **fields)
        self.look()

    # --- at the end

    def child(self):
        """A child of multiprocessing ends, maybe by an exception. torch.multiprocessing.spawn handles that by sys.exit."""
        ended = sys.exc_info()[1]
        if isinstance(ended, SystemExit):
            ended = ended.__context__ if ended.code else None
        if ended is not None:
            self.failed(ended)

    def failed(self, ended):
        kind, held = type(ended), [self.stats(d, "current") for d in self.known] if os.getpid() == self.pid else []
        name = kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__name__)
        frames, t = [], ended.__traceback__
        while t is not None:
            frames.append((t.tb_frame.f_code, t.tb_lineno))
            t = t.tb_next
        allocated, reserved = max(held, default=(0, 0))  # of the fullest card
        frames = [frame(code, line) for code, line in frames[-FRAMES:]]
        self.say("failed", type=name[:PATH], oom=out_of_memory(ended), frames=frames, allocated=allocated, reserved=reserved, **memory())

    def exit(self):
        ended = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if ended is not None:
            self.failed(ended)
        if self.torch:
            self.lines = 0
            self.look()
            self.say("exit", steps=self.steps, refused=self.refused, **memory())


def frame(code, line):
    return [code.co_filename[-PATH:], line or 0, code.co_name[:PATH]]


def stack(at):
    """The calls that led here, outermost first. A backward pass on a card runs in a thread of torch's own, which has no
    Python calls of its own: it was the one that waits in autograd that asked."""
    while at is not None and at.f_code.co_filename in own:
        at = at.f_back
    if at is None:
        main = getattr(getattr(sys.modules.get("threading"), "_main_thread", None), "ident", 0)
        threads = sys._current_frames()
        waiting = [t for t in threads.values() if "/torch/autograd/" in t.f_code.co_filename]
        at = waiting[0] if waiting else threads.get(main)
    frames = []
    while at is not None and len(frames) < FRAMES:
        frames.append(frame(at.f_code, at.f_lineno))
        at = at.f_back
    return frames[::-1]


def memory():
    """What the kernel counts of this process, in bytes: data, resident, its peak."""
    found = {}
    try:
        fd = os.open("/proc/self/status", os.O_RDONLY)
        try:
            text = os.read(fd, 8192).decode("ascii", "replace")
        finally:
            os.close(fd)
    except OSError:
        return found
    for line in text.split("\n"):
        for key, name in (("VmData:", "data"), ("VmRSS:", "resident"), ("VmHWM:", "resident_peak")):
            if line.startswith(key):
                found[name] = int(line.split()[1]) * 1024
    return found
