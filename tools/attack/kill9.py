"""kill -9 of launch, its keeper, the program and the plugin at random moments: what may be lost, and what may be left?

    python3 kill9.py --launch PATH [-n 200] [--seed N] [--sisr] [--jobs N] [-v]

Each moment is a run of its own, in a fresh folder: every other one on a terminal, the others on pipes. Afterwards

    no file of the user's is another than before,
    no process of the run is left,
    the terminal is set as it was,
    and a run whose record says that it started is resumed to its end, if it had not come there.

By default the program is a stand-in that needs no torch, and runs out of memory once; --sisr takes examples/sisr, for real.
Linux, Python 3.9 or later, standard library only. It ends with 1 where anything is not so.
"""
import argparse, collections, concurrent.futures, contextlib, glob, hashlib, json, os, pty, random, select, shutil, signal, subprocess, sys, tempfile, termios, time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
TARGETS = ["launch", "keeper", "program", "plugin"]


def parents():
    """The parent, the name and the arguments of every process."""
    out = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    stat = f.read()
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    line = f.read().split(b"\0")
            except OSError:
                continue
            state, parent = stat.rsplit(")", 1)[1].split()[:2]
            if state not in "ZX":
                out[int(name)] = (int(parent), stat[stat.index("(") + 1:stat.rindex(")")], line)
    return out


def find(target, launch):
    if target == "launch":
        return launch
    all = parents()
    children = [pid for pid, (parent, _, _) in all.items() if parent == launch]
    if target == "plugin":
        return next((pid for pid in children if b"__plugin" in all[pid][2]), None)
    keeper = next((pid for pid in children if all[pid][1] == "launch-keeper"), None)
    if target == "keeper" or keeper is None:
        return keeper
    return next((pid for pid, (parent, _, _) in all.items() if parent == keeper), None)


def left(mark):
    """The processes that bear the mark in their environment."""
    out = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            if mark.encode() in f.read():
                pid = int(path.split("/")[2])
                if pid in parents():
                    out.append(pid)
    return out


def hashes(folder, names):
    out = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as f:
            out[name] = hashlib.sha256(f.read()).hexdigest()
    return out


def lay(folder, a):
    """Lays a project; returns the user's files, the command, launch's flags, and how its last state is found."""
    if not a.sisr:
        shutil.copy(os.path.join(HERE, "train.py"), folder)
        with open(folder + "/.launch-job.yaml", "w") as f:
            f.write("script: train.py\nmicro-batch: --batch-size\naccumulation: --accum\nprogress: 'step (?P<iteration>\\d+)'\n"
                    "saved: 'saved (?P<path>\\S+)'\nsucceeded: 'training is over'\nresume: {--resume: 'runs/*/*.pt'}\n")
        command = [PYTHON, "train.py", "--batch-size", "32", "--fits", "16", "--oom-after", "2", "--steps", "6", "--slow", "0.08"]
        return ["train.py", ".launch-job.yaml"], command, [], "runs/a/0006.pt"
    shutil.copytree(a.data, folder, dirs_exist_ok=True)
    files = [os.path.relpath(os.path.join(d, f), folder) for d, _, names in os.walk(folder) for f in names if "__pycache__" not in d]
    return files, [PYTHON, "train.py", "-opt", "options/tiny.yml"], ["--memory", "3GiB"], "experiments/tiny/models/*latest*"


def moment(i, seed, a):
    """One kill. Returns what was done and what is wrong."""
    rnd = random.Random(f"{seed}-{i}")
    target, terminal = TARGETS[i // 2 % len(TARGETS)], i % 2 == 1
    at = rnd.uniform(0, 0.06 if target == "plugin" else a.span)
    top = tempfile.mkdtemp(prefix="kill9-", dir=a.top)
    folder, home = top + "/project", top + "/home"
    os.mkdir(folder)
    os.mkdir(home)
    with open(home + "/thesis", "w") as f:
        f.write("years of work")
    files, command, flags, last = lay(folder, a)
    before = hashes(folder, files)
    mark = f"KILL9_MARK={os.path.basename(top)}"
    env = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1",
           "PYTHONDONTWRITEBYTECODE": "1", **dict([mark.split("=")])}
    wrong = []
    master = slave = settings = None
    try:
        if terminal:
            master, slave = pty.openpty()
            settings = termios.tcgetattr(slave)
            files3 = dict(stdin=slave, stdout=slave, stderr=slave)
        else:
            files3 = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def session():
            os.setsid()
            if terminal:
                import fcntl
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        p = subprocess.Popen([a.launch, *flags, "--", *command], cwd=folder, env=env, preexec_fn=session, **files3)
        source = master if terminal else p.stdout.fileno()
        seen = b""

        def drain(seconds, until):
            nonlocal seen
            end = time.time() + seconds
            while time.time() < end and not until():
                if select.select([source], [], [], 0.005)[0]:
                    with contextlib.suppress(OSError):
                        seen += os.read(source, 65536)
        drain(at, lambda: p.poll() is not None)
        pid, end = None, time.time() + 1
        while pid is None and p.poll() is None and time.time() < end:
            pid = find(target, p.pid)
            drain(0.001, lambda: False)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        drain(a.patience, lambda: p.poll() is not None)
        if p.poll() is None:
            wrong.append("launch does not end")
            p.kill()
        code = p.wait()
        end = time.time() + 5
        while left(mark) and time.time() < end:
            drain(0.02, lambda: False)
        if rest := left(mark):
            wrong.append(f"{len(rest)} processes left: " + "; ".join(b" ".join(parents().get(x, (0, "", [b"?"]))[2]).decode(errors="replace") for x in rest))
            for x in rest:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(x, signal.SIGKILL)
        if terminal and termios.tcgetattr(slave) != settings:
            wrong.append("the terminal is set otherwise")
        events = []
        for path in glob.glob(home + "/.local/state/launch/runs/*/events.jsonl"):
            with open(path) as f:
                for line in f:
                    with contextlib.suppress(ValueError):
                        events.append(json.loads(line))
        resumes = from_start = 0
        ended = [e["attempt"]["outcome"]["ending"] for e in events if e["event"] == "ended" and e.get("attempt")]
        if ended[-1:] == ["succeeded"]:
            code = 0  # launch was killed when it had no more to do than to end
        if any(e["event"] == "started" for e in events):
            while code != 0 and resumes < 3:
                resumes += 1
                how = [a.launch, "resume", "last"]
                r = subprocess.run(how, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=a.patience)
                if b" cannot resume: " in r.stdout:  # it had saved nothing: it starts over only where it is told to
                    from_start += 1
                    r = subprocess.run([*how, "--from-start"], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, timeout=a.patience)
                if r.returncode == 0 or resumes == 3:
                    code = r.returncode
                    seen += r.stdout
            if code != 0:
                wrong.append(f"resumed {resumes} times, it ends with {code}")
            elif not glob.glob(os.path.join(folder, last)):
                wrong.append("it came to its end without its last state")
        if hashes(folder, files) != before or open(home + "/thesis").read() != "years of work":
            wrong.append("a file of the user's was changed")
        started = bool([e for e in events if e["event"] == "started"])
        return i, target, terminal, at, pid is not None, started, resumes, wrong, seen.decode(errors="replace")[-1500:] if wrong else ""
    except Exception as e:  # noqa: a moment that breaks is reported as such
        return i, target, terminal, at, False, False, 0, [f"{type(e).__name__}: {e}"], ""
    finally:
        for fd in (master, slave):
            if fd is not None:
                os.close(fd)
        shutil.rmtree(top, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--launch", default=os.path.join(HERE, "../../bin/launch"))
    p.add_argument("-n", type=int, default=200)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--sisr", action="store_true", help="examples/sisr instead of the stand-in")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("--span", type=float, help="the seconds within which the moments lie")
    p.add_argument("-v", action="store_true", help="a line for each moment")
    a = p.parse_args()
    a.launch = os.path.abspath(a.launch)
    a.patience = 300 if a.sisr else 60
    a.span = a.span or (4.0 if a.sisr else 0.9)
    a.top = tempfile.mkdtemp(prefix="kill9-", dir="/var/tmp")
    print(f"{a.n} moments, --seed {a.seed}", flush=True)
    began = time.time()
    counts, bad = collections.Counter(), 0
    try:
        if a.sisr:
            a.data = a.top + "/data"
            shutil.copytree(os.path.join(HERE, "../../examples/sisr"), a.data, ignore=shutil.ignore_patterns("experiments", "datasets", "tb_logger", "__pycache__"))
            subprocess.run([PYTHON, "gen_data.py"], cwd=a.data, check=True, stdout=subprocess.DEVNULL)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for i, target, terminal, at, hit, started, resumes, wrong, seen in pool.map(lambda i: run_moment(i, a), range(a.n)):
                counts[target] += hit
                counts["terminal" if terminal else "pipes"] += 1
                counts["started"] += started
                counts["resumed"] += resumes > 0
                bad += bool(wrong)
                if wrong or a.v:
                    print(f"{i:4} {target:8} {'terminal' if terminal else 'pipes':8} at {at:.3f} s: {'; '.join(wrong) or 'as it must be'}", flush=True)
                    if seen:
                        print("".join(f"        {line}\n" for line in seen.splitlines()), flush=True)
    finally:
        shutil.rmtree(a.top, ignore_errors=True)
    hit = ", ".join(f"{t} {counts[t]}" for t in TARGETS)
    print(f"{a.n} moments in {time.time() - began:.0f} s ({counts['pipes']} on pipes, {counts['terminal']} on a terminal; killed: {hit}): {counts['started']} runs had "
          f"started, {counts['resumed']} were resumed to their end; {bad} not as they must be")
    return 1 if bad else 0


def run_moment(i, a):
    """A moment in a process of its own: threads and fork do not go together."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.close(r)
            out = json.dumps(moment(i, a.seed, a)).encode()
            while out:
                out = out[os.write(w, out):]
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        got = f.read()
    os.waitpid(pid, 0)
    return json.loads(got) if got else (i, "?", False, 0, False, False, 0, ["the trial itself died"], "")


if __name__ == "__main__":
    sys.exit(main())
