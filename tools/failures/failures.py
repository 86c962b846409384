"""Provokes real failures under the real `launch`, and checks what it makes of each: the verdict and the decision.

    python3 failures.py [--quick] [--launch PATH] [--python PATH] [--only WORD] [-v]

A table comes of it: the failure, what launch said, how it says that the training ended, which memory ran out, what it
decided. It ends with 1 where any row is not as it must be. What this machine cannot provoke (a limit on memory needs
root and a cgroup, a small /dev/shm needs root and a mount namespace) stands at the end as not provoked, never as right.

--quick provokes only what needs neither root nor torch: the suite runs that.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_MIB = 400  # of a group: torch, its workers and a few batches fit; what eats does not

# Programs that no plugin knows: of these the verdict matters. Each is a whole program.
PROGRAMS = {
    "eats": """
held = []
for _ in range(512): held.append(b"\\1" * (8 << 20))
""",
    "waits": """
import os, time
print("HERE", os.getpid(), flush=True)
time.sleep(60)
""",
    "child by pipe": """
import multiprocessing, os, time
def work(pipe):
    open("/proc/self/oom_score_adj", "w").write("1000")
    held = [b"\\1" * (8 << 20) for _ in range(512)]
if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    p = multiprocessing.Process(target=work, args=(theirs,))
    p.start()
    theirs.close()
    print(ours.recv())
""",
    "child by exit": """
import multiprocessing, sys
def work():
    open("/proc/self/oom_score_adj", "w").write("1000")
    held = [b"\\1" * (8 << 20) for _ in range(512)]
if __name__ == "__main__":
    p = multiprocessing.Process(target=work)
    p.start(); p.join()
    sys.exit(1 if p.exitcode else 0)
""",
    "child outlived": """
import multiprocessing
def work():
    open("/proc/self/oom_score_adj", "w").write("1000")
    held = [b"\\1" * (8 << 20) for _ in range(512)]
if __name__ == "__main__":
    p = multiprocessing.Process(target=work)
    p.start(); p.join()
    print("one process the fewer; done without it")
""",
    "rank": """
import os, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    dist.barrier()
    train_step(rank)
def train_step(rank):
    if rank == 1 and sys.argv[1] == "refused": torch.empty(1 << 50)
    if rank == 1 and sys.argv[1] == "eats":
        open("/proc/self/oom_score_adj", "w").write("1000")
        held = [b"\\1" * (8 << 20) for _ in range(512)]
    if rank == 1 and sys.argv[1] == "waits":
        print("HERE", os.getpid(), "WORKER", os.getpid(), flush=True)
        time.sleep(60)
    dist.all_reduce(torch.ones(4))
if __name__ == "__main__":
    mp.spawn(main, args=(2,), nprocs=2)
""",
    "torchrun": """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
def train_step():
    if dist.get_rank() == 1 and sys.argv[1] == "refused": torch.empty(1 << 50)
    if dist.get_rank() == 1 and sys.argv[1] == "eats":
        open("/proc/self/oom_score_adj", "w").write("1000")
        held = [b"\\1" * (8 << 20) for _ in range(512)]
    if dist.get_rank() == 1 and sys.argv[1] == "waits":
        print("HERE", os.getpid(), "WORKER", os.getpid(), flush=True)
        time.sleep(60)
    dist.all_reduce(torch.ones(4))
train_step()
""",
    "saves": """
import sys, torch
for step in range(1, 4): print("step", step, "loss 0.5", flush=True)
def save_checkpoint(path): torch.save({"w": torch.ones(4 << 20)}, path)
save_checkpoint(sys.argv[1])
""",
    "loads": """
import torch
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.ones(1 << 20)
if __name__ == "__main__":
    for batch in DataLoader(Images(), num_workers=2, prefetch_factor=4): pass
""",
    "asserts": """
def train():
    for step in range(1, 4): print("step", step, "loss 0.5", flush=True)
    assert step > 3, "labels out of range"
train()
""",
    "stops at nan": """
import math, sys
for step in range(1, 4):
    loss = float("nan") if step == 3 else 0.5
    print("step", step, "loss", loss, flush=True)
    if not math.isfinite(loss):
        print("Loss is nan, stopping training")
        sys.exit(1)
""",
    "catches": """
class OutOfMemoryError(RuntimeError): pass
for step in range(1, 9):
    try:
        if step == 3: raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 12.00 GiB total capacity; 10.00 GiB already allocated; 1.00 GiB free; 10.50 GiB reserved in total by PyTorch)")
    except RuntimeError as e:
        print("WARNING:", e, "| skipping batch", flush=True)
        continue
    print("step", step, "loss 0.5", flush=True)
""",
    "halves": """
batch = 16
for step in range(1, 9):
    while True:
        try:
            if batch > 4: held = bytearray(1 << 55)
            break
        except MemoryError as e:
            batch //= 2
            print("MemoryError: reducing batch size to", batch, flush=True)
    print("step", step, "loss 0.5", flush=True)
""",
    "says": """
for step in range(1, 9): print("step", step, "loss 0.5", flush=True)
print("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 12.00 GiB total capacity; 10.00 GiB already allocated; 1.00 GiB free; 10.50 GiB reserved in total by PyTorch)")
""",
    "hides": """
def forward(): return bytearray(1 << 55)
def train():
    try: forward()
    except MemoryError as e: raise ValueError("the training step failed") from e
train()
""",
    "hides and logs": """
import sys, traceback
def forward(): return bytearray(1 << 55)
def train():
    try: forward()
    except MemoryError:
        traceback.print_exc()
        raise SystemExit("the training step failed")
train()
""",
    "thread": """
import sys, threading
def load_images(): bytearray(1 << 55)
t = threading.Thread(target=load_images); t.start(); t.join()
sys.exit("the loader thread is gone")
""",
    "segfaults": """
import os, signal
print("step 1 loss 0.5", flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
""",
    "out of time": """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("HERE", os.getpid(), flush=True)
end = time.time() + 60
while time.time() < end:
    time.sleep(0.02)
    if os.path.exists("limit"):
        print(open("limit").read(), flush=True)
        os.remove("limit")
""",
}

TIME_LIMIT = "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n"

COUNTED = "oom_kill" in open("/proc/vmstat").read() if os.path.exists("/proc/vmstat") else False


class Row:
    """A failure, and what must come of it. What is None is not compared; cause, decision and why are patterns."""

    def __init__(self, name, how, ending, kind="none", stage=None, sure=None, cause="", code=None, lied=False, decision="", needs=(), not_said=None):
        self.name, self.how, self.needs = name, how, needs
        self.ending, self.kind, self.stage, self.sure, self.cause = ending, kind, stage, sure, cause
        self.code, self.lied, self.decision, self.not_said = code, lied, decision, not_said

    def wrong(self, v):
        out = []
        for what in ("ending", "kind", "stage", "sure", "code", "lied"):
            want, got = getattr(self, what), getattr(v, what)
            if want is not None and want != got:
                out.append("%s is %r, must be %r" % (what, got, want))
        for what in ("cause", "decision"):
            if not re.search(getattr(self, what), getattr(v, what)):
                out.append("%s is %r, must match %r" % (what, getattr(v, what), getattr(self, what)))
        if self.not_said and re.search(self.not_said, v.decision):
            out.append("decision is %r, must not match %r" % (v.decision, self.not_said))
        return out


class Verdict:
    """What launch made of it, by the document that it writes for scripts, and how launch itself ended."""

    def __init__(self, code, doc, stderr):
        self.code = code
        attempts = doc.get("attempts") or []
        out = attempts[0]["outcome"] if attempts else doc["outcome"]  # the failure is the first; what follows is the decision
        report = out["report"]
        self.ending, self.kind, self.sure = out["ending"], report["kind"], report.get("confidence", "")
        self.stage, self.cause, self.lied = out.get("phase", ""), out.get("cause", ""), out.get("lied", False)
        self.survived = report.get("survived", 0)
        said = [l[len("launch: "):] for l in stderr.splitlines() if l.startswith("launch: " + self.ending)]
        self.said = said[0] if said else self.cause
        steps = []
        for a in attempts:
            p = a["plan"]
            names = [c["name"] for c in [p["shared"]] + p["choices"] if c["name"] != "as asked"]
            steps.append("; ".join(["card " + (", ".join(names) or "as asked"), "host " + (p.get("host") or {"name": "as asked"})["name"]]
                                   + (["resumes"] if p.get("resume") else [])))
        if not attempts:
            self.decision = "one attempt, as typed"
        else:
            self.decision = " → ".join(steps) + " → " + doc["ending"]
            if doc.get("stop", {}).get("why", doc["ending"]) != doc["ending"]:
                self.decision += ": " + doc["stop"]["why"]
        if self.survived:
            self.decision += " (outlived %d)" % self.survived


class Session:
    """One launch under way."""

    def __init__(self, args, dir, env, tty):
        self.text, self.more, self.dir = "", threading.Condition(), dir
        self.master = None
        if tty:
            self.master, slave = pty.openpty()
            # A terminal of its own to control, as a user's shell would give it.
            args = [sys.executable, "-c", "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"] + args
            self.p = subprocess.Popen(args, cwd=dir, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
            os.close(slave)
            source = self.master
        else:
            self.p = subprocess.Popen(args, cwd=dir, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, start_new_session=True)
            source = self.p.stdout.fileno()
        self.reader = threading.Thread(target=self.read, args=(source,), daemon=True)
        self.reader.start()

    def read(self, source):
        while True:
            try:
                b = os.read(source, 65536)
            except OSError:
                b = b""
            with self.more:
                if not b:
                    self.more.notify_all()
                    return
                self.text += b.decode("utf-8", "replace").replace("\r\n", "\n")
                self.more.notify_all()

    def until(self, pattern, seconds=60):
        """The match of a pattern in what was printed."""
        end = time.time() + seconds
        with self.more:
            while True:
                found = re.search(pattern, self.text)
                if found:
                    return found
                if not self.more.wait(max(0, end - time.time())) and time.time() >= end:
                    raise RuntimeError("%r was not printed:\n%s" % (pattern, self.text[-2000:]))
                if not self.reader.is_alive() and not re.search(pattern, self.text):
                    raise RuntimeError("it ended before %r was printed:\n%s" % (pattern, self.text[-2000:]))

    def here(self):
        return int(self.until(r"HERE (\d+)").group(1))

    def worker(self):
        return int(self.until(r"HERE \d+ WORKER (\d+)").group(1))

    def interrupt(self):
        """Ctrl-C: the key in a terminal; in a pipe what a terminal sends to all of its foreground."""
        if self.master is not None:
            os.write(self.master, b"\x03")
        else:
            os.killpg(self.p.pid, signal.SIGINT)

    def end(self):
        code = self.p.wait(120)
        self.reader.join(10)
        if self.master is not None:
            os.close(self.master)
        return code


class Machine:
    """What can be provoked here, and the means."""

    def __init__(self, launch, python, torchrun, quick):
        self.launch, self.python, self.torchrun, self.n = launch, python, torchrun, 0
        self.lock = threading.Lock()
        self.lacks = {}
        if quick:
            return
        self.groups, self.no_group = self.find_groups()
        if self.no_group:
            self.lacks["cgroup"] = self.no_group
        if subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=8m tmpfs /dev/shm"], stderr=subprocess.DEVNULL).returncode:
            self.lacks["mount"] = "no mount namespace: it needs root (unshare -m, mount -t tmpfs)"
        if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
            self.lacks["torch"] = "%s has no torch" % python
        trial = subprocess.run([torchrun, "-m", "torch.distributed.run", "--no_python", "--nproc_per_node", "1", "--master_port", port(), "true"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if trial.returncode:
            self.lacks["torchrun"] = "torchrun does not start with %s: %s" % (torchrun, trial.stdout.strip().rpartition("\n")[2])

    def find_groups(self):
        """The folder below which groups with a limit can be made, and why there is none."""
        for root, controller in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            trial = os.path.join(root, "launch-failures-%d" % os.getpid())
            try:
                os.mkdir(trial)
            except OSError as e:
                why = "no cgroup with a limit on memory can be made here: %s" % e
                continue
            try:
                if os.path.exists(os.path.join(trial, controller)):
                    return (root, controller), ""
                why = "%s: its groups have no %s" % (root, controller)
            finally:
                os.rmdir(trial)
        return None, why

    @contextlib.contextmanager
    def group(self, mib=LIMIT_MIB):
        """A group with a limit: its cgroup.procs."""
        with self.lock:
            self.n += 1
            path = os.path.join(self.groups[0], "launch-failures-%d-%d" % (os.getpid(), self.n))
        os.mkdir(path)
        try:
            with open(os.path.join(path, self.groups[1]), "w") as f:
                f.write(str(mib << 20))
            for swap, value in (("memory.memsw.limit_in_bytes", str(mib << 20)), ("memory.swap.max", "0")):
                try:
                    with open(os.path.join(path, swap), "w") as f:
                        f.write(value)
                except OSError:
                    pass  # a kernel without swap accounting
            yield os.path.join(path, "cgroup.procs")
        finally:
            for _ in range(200):
                try:
                    os.rmdir(path)
                    break
                except OSError:  # whom a killed launcher has left, such as a rank in a session of its own
                    with contextlib.suppress(OSError), open(os.path.join(path, "cgroup.procs")) as f:
                        for pid in f.read().split():
                            os.kill(int(pid), signal.SIGKILL)
                    time.sleep(0.05)


class Stage:
    """A folder with the programs, and how a launch is started in it."""

    def __init__(self, machine, dir):
        self.m, self.dir = machine, dir
        for name, text in PROGRAMS.items():
            with open(os.path.join(dir, name.replace(" ", "_") + ".py"), "w") as f:
                f.write(text)
        for name in ("train.py", "x.yml"):
            shutil.copy(os.path.join(HERE, name), dir)

    def session(self, args, flags=(), before=(), tty=False, **env):
        env = dict(os.environ, HOME=self.dir, XDG_STATE_HOME=os.path.join(self.dir, "state"), OMP_NUM_THREADS="1", **env)
        return Session([*before, self.m.launch, "-q", *flags, "--json-file", "out.json", "--", *args], self.dir, env, tty)

    def verdict(self, s):
        code = s.end()
        with open(os.path.join(self.dir, "out.json")) as f:
            return Verdict(code, json.load(f), s.text)

    def run(self, args, act=None, **kwargs):
        s = self.session(args, **kwargs)
        try:
            if act:
                act(s)
            return self.verdict(s)
        except Exception as e:
            raise RuntimeError("%s\n%s" % (e, s.text[-3000:])) from e
        finally:
            with contextlib.suppress(OSError):
                s.p.kill()

    def plain(self, name, *args, act=None, **kwargs):
        return self.run([self.m.python, name.replace(" ", "_") + ".py", *args], act, **kwargs)

    def train(self, how, act=None, **kwargs):
        return self.run([self.m.python, "train.py", "-opt", "x.yml"], act, HOW=how, **kwargs)

    def grouped(self, method, *args, mib=LIMIT_MIB, **kwargs):
        """The same with launch in a group."""
        with self.m.group(mib) as procs:
            return method(*args, before=("sh", "-c", "echo $$ > %s && exec \"$@\"" % procs, "sh"), **kwargs)

    def torchrun(self, *args, **kwargs):
        return self.run([self.m.torchrun, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port(), "torchrun.py", *args], **kwargs)

    def example(self, name, command, until=None, prepare=None, **kwargs):
        """A trainer of examples/, interrupted when it has printed something."""
        source = os.path.join(HERE, "..", "..", "examples", name)
        shutil.copytree(source, self.dir, dirs_exist_ok=True)
        if os.path.exists(os.path.join(self.dir, "gen_data.py")):
            subprocess.run([self.m.python, "gen_data.py"], cwd=self.dir, check=True, stdout=subprocess.DEVNULL)
        if prepare:
            prepare(self.dir)

        def act(s):
            s.until(until)
            s.interrupt()

        return self.run([self.m.python, *command.split()], act if until else None, **kwargs)

    def alone(self, name):
        """The program in a group of its own, which launch is not in."""
        with self.m.group() as procs:
            return self.run(["sh", "-c", "echo $$ > %s && exec \"$@\"" % procs, "sh", self.m.python, name + ".py"])


def small(path, mib, *more):
    """Puts a small file system at a path, for what it runs alone."""
    return ("unshare", "-m", "sh", "-c", "mkdir -p %s && mount -t tmpfs -o size=%dk tmpfs %s && exec \"$@\"" % (path, mib * 1024, path), "sh", *more)


def recipe(dir, pattern, to):
    path = os.path.join(dir, "options", "tiny.yml")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(re.sub(pattern, to, text))


def longer(dir):
    recipe(dir, r"total_iter: \d+", "total_iter: 100000")


def steep(dir):
    longer(dir)
    recipe(dir, r"lr: !!float \S+", "lr: !!float 1e+30")


def kill_worker(s):
    pid = s.worker()
    time.sleep(1)  # a person takes longer
    os.kill(pid, signal.SIGKILL)


def kill_program(sig):
    return lambda s: os.kill(s.here(), sig)


def kill_launch(sig):
    def act(s):
        s.here()
        os.kill(s.p.pid, sig)
    return act


def interrupt(s):
    s.here()
    s.interrupt()


def interrupt_twice(s):
    interrupt(s)
    s.until("HEARD")
    s.interrupt()


def time_limit(s):
    """What a scheduler does: it tells everybody and says so; who is still there after a while is killed."""
    pid = s.here()
    with open(os.path.join(s.dir, "limit~"), "w") as f:
        f.write(TIME_LIMIT)
    os.rename(os.path.join(s.dir, "limit~"), os.path.join(s.dir, "limit"))
    os.kill(s.p.pid, signal.SIGTERM)
    s.until("DUE TO TIME LIMIT")
    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)


def preempted(s):
    """As a scheduler that says so through the program's own output, and tells the program alone."""
    os.kill(s.here(), signal.SIGTERM)


NOBODY = "the kernel of this machine killed nothing for memory" if COUNTED else "SIGKILL, sender unknown"
ONCE = "^one attempt, as typed$"
AS_ASKED = r"^card as asked; host as asked → "


def rows():
    quick = [
        Row("kill -9 of the program", lambda t: t.plain("waits", act=kill_program(9)), "failed", cause=NOBODY, code=-9, decision=ONCE),
        Row("kill -9 of a training", lambda t: t.train("training", act=kill_program(9)), "failed", stage="training", cause=NOBODY, code=-9,
            decision=AS_ASKED + "failed$"),
        Row("kill -9 of a loader's worker", lambda t: t.train("a worker's kill", act=kill_worker), "failed", stage="data",
            cause="a loader worker was killed by SIGKILL, and the kernel", code=1, lied=True, decision=AS_ASKED + "failed$") if COUNTED else
        Row("kill -9 of a loader's worker", lambda t: t.train("a worker's kill", act=kill_worker), "out of memory", "host_oom", "data", sure="likely",
            decision="host prefetch 1; resumes"),
        Row("assertion", lambda t: t.plain("asserts"), "failed", cause="AssertionError: labels out of range", code=1, decision=ONCE),
        Row("assertion, and exit 0", lambda t: t.train("assertion"), "failed", stage="training", cause="AssertionError: the crop is larger", code=1,
            lied=True, decision=AS_ASKED + "failed$"),
        Row("NaN stop", lambda t: t.plain("stops at nan"), "failed", cause="no longer a finite number", code=1, decision=ONCE),
        Row("NaN stop, and exit 0", lambda t: t.train("nan"), "failed", stage="training", cause="no longer a finite number", code=1, lied=True,
            decision=AS_ASKED + "failed$"),
        Row("out of memory, message replaced, exit 0", lambda t: t.train("replaced message", CARD="2"), "out of memory", "gpu_unspecified", "training",
            code=0, lied=True, decision=r"^card as asked; host as asked → card micro-batch 2 × accumulation 2; host as asked; resumes → succeeded$"),
        Row("the same at the end of the ladder", lambda t: t.train("replaced message", CARD="0"), "out of memory", "gpu_unspecified", "training",
            code=1, lied=True, decision="out of memory: no .*change is left"),
        Row("catches it and goes on", lambda t: t.plain("catches"), "succeeded", code=0, kind=None, decision=r"^one attempt, as typed \(outlived 1\)$"),
        Row("catches it, halves its batch, goes on", lambda t: t.plain("halves"), "succeeded", code=0, kind=None, decision=r"outlived \d\)$"),
        Row("prints the message and succeeds", lambda t: t.plain("says"), "succeeded", code=0, kind=None, decision="one attempt"),
        Row("hides it behind another exception", lambda t: t.plain("hides"), "out of memory", "cpu_alloc", "training", code=1, decision=ONCE),
        Row("logs it and exits with words of its own", lambda t: t.plain("hides and logs"), "out of memory", "cpu_alloc", "training", code=1, decision=ONCE),
        Row("in a thread", lambda t: t.plain("thread"), "out of memory", "cpu_alloc", "data", code=1, decision=ONCE),
        Row("segfault, no limit near", lambda t: t.plain("segfaults"), "failed", cause="signal 11", code=-11, decision=ONCE),
        Row("segfault near a limit", lambda t: t.train("segfault", flags=("--as-asked", "--device", "cpu", "--memory", "256MiB")), "out of memory", "cpu_alloc",
            "training", "likely", cause="killed by signal 11 with .* in use, under a limit of 256 MiB", decision=AS_ASKED + r"card micro-batch \d × accumulation \d; host as asked; resumes → "),
        Row("SIGTERM to launch", lambda t: t.plain("waits", act=kill_launch(15)), "interrupted", cause="SIGTERM, which was sent to launch", code=-15, decision=ONCE),
        Row("SIGTERM to the program", lambda t: t.plain("waits", act=kill_program(15)), "failed", cause="terminated by SIGTERM", code=-15, decision=ONCE),
        Row("SIGTERM to launch, training", lambda t: t.train("training", act=kill_launch(15)), "interrupted", stage="training", cause="SIGTERM", code=-15,
            decision=AS_ASKED + "interrupted$"),
        Row("SIGTERM to a training's program", lambda t: t.train("training", act=kill_program(15)), "failed", stage="training", cause="terminated by SIGTERM",
            code=-15, decision=AS_ASKED + "failed$"),
        Row("time limit: SIGTERM, then SIGKILL", lambda t: t.plain("out of time", act=time_limit), "interrupted", cause="time limit", code=-9, decision=ONCE),
        Row("preempted", lambda t: t.train("preempted", act=preempted), "interrupted", stage="training", cause="preempted by the scheduler", code=75,
            decision=AS_ASKED + "interrupted: preempted by the scheduler$"),
        Row("Ctrl-C that it ignores to the end", lambda t: t.train("deaf", act=interrupt), "succeeded", code=0, decision=AS_ASKED + "succeeded$"),
        Row("Ctrl-C twice, the first ignored", lambda t: t.train("deaf to the first", act=interrupt_twice, tty=True), "interrupted", stage="training", code=3,
            decision=AS_ASKED + "interrupted$"),
    ]
    for phase, stage in (("build", "build"), ("training", "training"), ("validation", "validation"), ("saving", "checkpoint")):
        for tty in (True, False):
            quick.append(Row("Ctrl-C, %s, %s" % (phase, "terminal" if tty else "pipe"),
                             lambda t, phase=phase, tty=tty: t.train(phase, act=interrupt, tty=tty), "interrupted", stage=stage,
                             cause="interrupted by the user", code=-2, decision=AS_ASKED + "interrupted$"))
    count = "by its own count"
    group, torch, mount = ("cgroup",), ("torch",), ("mount",)
    full = [
        Row("cgroup: the program", lambda t: t.grouped(t.plain, "eats"), "out of memory", "host_oom", sure="certain", cause=count, code=-9,
            decision=ONCE, needs=group),
        Row("cgroup: the program in a group of its own", lambda t: t.alone("eats"), "out of memory", "host_oom", sure="certain", cause=count, code=-9,
            decision=ONCE, needs=group),
        Row("cgroup: a child, the parent reads its pipe", lambda t: t.grouped(t.plain, "child by pipe"), "out of memory", "host_oom", sure="certain",
            cause="a process of the program was killed by the kernel", code=1, decision=ONCE, needs=group),
        Row("cgroup: a child, the parent exits 1", lambda t: t.grouped(t.plain, "child by exit"), "out of memory", "host_oom", sure="certain", cause=count,
            code=1, decision=ONCE, needs=group),
        Row("cgroup: a child, the parent lives on", lambda t: t.grouped(t.plain, "child outlived"), "succeeded", code=0, decision=r"outlived 1\)$", needs=group),
        Row("cgroup: a rank of two (mp.spawn, gloo)", lambda t: t.grouped(t.plain, "rank", "eats", port()), "out of memory", "host_oom", sure="certain",
            cause=count, code=1, decision=ONCE, needs=group + torch),
        Row("cgroup: while it builds", lambda t: t.grouped(t.train, "eats while it builds", flags=("--as-asked",)), "out of memory", "host_oom", "build", "certain", count, code=-9,
            decision=AS_ASKED + "out of memory: .*no loader was running yet", needs=group),
        Row("cgroup: when it trains", lambda t: t.grouped(t.train, "eats when it trains", flags=("--as-asked",)), "out of memory", "host_oom", "training",
            "certain", count, decision=AS_ASKED + "card as asked; host [^a;][^;]*; resumes → ", not_said="card [^a]", needs=group),
        Row("cgroup: while it validates", lambda t: t.grouped(t.train, "eats while it validates", flags=("--as-asked",)), "out of memory", "host_oom",
            "validation", "certain", count, decision=AS_ASKED + "card as asked; host [^a;][^;]*; resumes → ", not_said="card [^a]", needs=group),
        Row("cgroup: a loader's worker", lambda t: t.grouped(t.train, "worker", flags=("--as-asked",)), "out of memory", "host_oom", "data", "certain",
            "a loader worker was killed for lack of host memory", code=0, lied=True,
            decision=AS_ASKED + "card as asked; host [^a;][^;]*; resumes → .*succeeded$", not_said="card [^a]", needs=group + torch),
        Row("kill -9 of torch's loader worker", lambda t: t.train("worker killed by hand", act=kill_worker), "failed", stage="data",
            cause="a loader worker was killed by SIGKILL, and the kernel", code=1, lied=True, decision=AS_ASKED + "failed$", needs=torch + ("count",)),
        Row("kill -9 of a rank of two", lambda t: t.plain("rank", "waits", port(), act=kill_worker), "failed", cause="a process of the program was killed by SIGKILL",
            code=1, decision=ONCE, needs=torch + ("count",)),
        Row("/dev/shm full", lambda t: t.plain("loads", before=small("/dev/shm", 8)), "out of memory", "shm", "data", code=1, decision=ONCE, needs=mount + torch),
        Row("/dev/shm full, training", lambda t: t.train("worker", before=small("/dev/shm", 200), flags=("--as-asked",)), "out of memory", "shm", "data",
            code=0, lied=True, decision=AS_ASKED + "card as asked; host [^a;][^;]*; resumes → .*succeeded$", not_said="card [^a]", needs=mount + torch),
        Row("disk full, torch.save", lambda t: t.plain("saves", os.path.join(t.dir, "full", "c.pth"), before=small(os.path.join(t.dir, "full"), 4)), "failed",
            stage="checkpoint", cause="the disk or a quota is full", decision=ONCE, needs=mount + torch),
        Row("disk full while a training saves, and exit 0", lambda t: t.train("disk full", before=small(os.path.join(t.dir, "experiments"), 4)), "failed",
            stage="checkpoint", cause="the disk or a quota is full", code=1, lied=True, decision=AS_ASKED + "failed$", needs=mount),
        Row("one rank of two out of memory (mp.spawn, gloo)", lambda t: t.plain("rank", "refused", port()), "out of memory", "cpu_alloc", "training",
            "certain", "out of host memory", 1, decision=ONCE, needs=torch),
        Row("one rank of two out of memory (torchrun, gloo)", lambda t: t.torchrun("refused"), "out of memory", "cpu_alloc", "training", "certain",
            "out of host memory", 1, decision=ONCE, needs=("torchrun",)),
        Row("cgroup: a rank of two (torchrun, gloo)", lambda t: t.grouped(t.torchrun, "eats", mib=2048), "out of memory", "host_oom", sure="certain", cause=count,
            code=1, decision=ONCE, needs=group + ("torchrun",)),
        Row("kill -9 of a rank of two (torchrun, gloo)", lambda t: t.torchrun("waits", act=kill_worker), "failed",
            cause="a process of the program was killed by SIGKILL", code=1, decision=ONCE, needs=("torchrun", "count")),
        Row("example: Ctrl-C in sisr, which saves and exits 0", lambda t: t.example("sisr", 'train.py -opt options/tiny.yml', "iter: +2,", prepare=longer),
            "interrupted", stage="training", cause="interrupted by the user", code=0, decision=AS_ASKED + "interrupted$", needs=torch),
        Row("example: NaN in sisr, which exits 0", lambda t: t.example("sisr", 'train.py -opt options/tiny.yml', prepare=steep), "failed", stage="training",
            cause="no longer a finite number", code=1, lied=True, decision=AS_ASKED + "failed$", needs=torch),
        Row("example: a full disk in sisr", lambda t: t.example("sisr", 'train.py -opt options/tiny.yml', before=small("experiments", 1 / 16)),
            "failed", stage="checkpoint", cause="the disk or a quota is full", lied=None, decision=AS_ASKED + "failed$", needs=torch + mount), # torch 1.13 aborts
        Row("example: Ctrl-C in stablesr, which exits 0", lambda t: t.example("stablesr", 'main.py --train --base configs/tiny.yaml --gpus 0,', r"Epoch 0:.*\b1/"),
            "interrupted", cause="interrupted by the user", code=0, decision=AS_ASKED + "interrupted$", needs=torch),
        Row("example: no GPU in moco, which exits 0", lambda t: t.example("moco", 'main.py --multiprocessing-distributed --world-size 1 --rank 0'), "failed",
            cause="never printed its success line", code=1, lied=True, decision=AS_ASKED + "failed$", needs=torch),
    ]
    return quick, full


def port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def attempt(machine, row):
    lacking = [machine.lacks[n] for n in row.needs if n in machine.lacks]
    if lacking:
        return "not here", None, lacking
    dir = tempfile.mkdtemp(prefix="launch-failures-")
    try:
        v = row.how(Stage(machine, dir))
        wrong = row.wrong(v)
        return ("NOT SO" if wrong else "ok"), v, wrong
    except Exception as e:
        return "NOT SO", None, [str(e)]
    finally:
        shutil.rmtree(dir, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--launch", default="launch")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--torchrun", metavar="PYTHON", help="an interpreter whose torchrun starts, if that of --python does not")
    p.add_argument("--quick", action="store_true", help="only what needs neither root nor torch")
    p.add_argument("--only", default="", help="only the rows with this in their names")
    p.add_argument("-v", action="store_true", help="say what launch made of each, in full")
    a = p.parse_args()
    launch = shutil.which(a.launch)
    if not launch:
        sys.exit("there is no %s: `make build` makes bin/launch" % a.launch)
    quick, full = rows()
    table = [r for r in quick + ([] if a.quick else full) if a.only in r.name]
    machine = Machine(os.path.abspath(launch), a.python, a.torchrun or a.python, a.quick)
    if not COUNTED:
        machine.lacks["count"] = "the kernel does not count its kills in /proc/vmstat (it does since Linux 4.13)"
    columns = "%-48s %-14s %-16s %-11s %-9s %-8s %s"
    print(columns % ("failure", "ending", "memory", "stage", "sure", "", "launch ended; what it decided; what it said"))
    tally = {"ok": 0, "NOT SO": 0, "not here": 0}
    # A kill for memory is counted machine-wide, so beside one nobody's kill -9 can be told: one after another, but for the quick.
    with concurrent.futures.ThreadPoolExecutor(4 if a.quick else 1) as pool:
        for row, (state, v, notes) in zip(table, pool.map(lambda r: attempt(machine, r), table)):
            tally[state] += 1
            if v:
                print(columns % (row.name, v.ending, v.kind, v.stage, v.sure, state, "%d; %s" % (v.code, v.decision)))
                print("%48s   %s" % ("", v.said[:170] or "(nothing)"))
            else:
                print(columns % (row.name, "", "", "", "", state, ""))
            for n in notes:
                print("%48s   %s" % ("", n))
            sys.stdout.flush()
    print("\n%(ok)d as they must be, %(NOT SO)d not so, %(not here)d could not be provoked on this machine" % tally)
    if a.quick and not a.only:
        print("left out by --quick, because they need root, cgroups, namespaces or torch: %d" % len(full))
    sys.exit(1 if tally["NOT SO"] else 0)


main()
