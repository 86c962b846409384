"""What a trial is made in: a folder of its own, two accounts, and the program under test.

A module of trials reads

    from box import need, trial

    @trial("1", "what must hold, in one line", second=True)
    def _(box):
        box.write("work/.launch.yaml", "json-file: thesis\\n", who="other")
        done = box.launch("--", "sh", "-c", "exit 3")
        need(done.code == 3, f"the program's code, not {done.code}: {done.err}")

A trial passes by returning and fails by raising; need() raises with its words. Nothing here is mocked: the accounts are
accounts, the program is the program. Linux, Python 3.9 or later, standard library only.
"""
import contextlib, ctypes, hashlib, json, os, pty, resource, select, shutil, signal, stat, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# Accounts without a name: no program that is installed runs as one of them.
ACCOUNTS = {"me": 64101, "other": 64102}

TRIALS = []


class Trial:
    def __init__(self, point, what, run, second, root, quick, victim):
        self.point, self.what, self.run = point, what, run
        self.second, self.root, self.quick, self.victim = second, root, quick, victim


def trial(point, what, second=False, root=False, quick=True, victim="me"):
    """Registers a trial of a point of the list: "A" to "F", "1" to "14".

    second: an account other than the victim's attacks, which needs root to set up. root: it needs root for another reason.
    quick: it takes a few seconds at most, so that the tests run it. victim: who runs launch, "me" or "root".
    """
    def keep(f):
        TRIALS.append(Trial(point, what, f, second, root or victim == "root", quick, victim))
        return f
    return keep


class Wrong(Exception):
    """What a trial found."""


class NotMade(Exception):
    """Why a trial could not be made here: it is neither right nor wrong."""


def need(holds, words):
    if not holds:
        raise Wrong(words)


class Done:
    """How a command ended: its code (negative: a signal; None: it hung and was killed) and what it printed."""

    def __init__(self, code, out, err, took):
        self.code, self.out, self.err, self.took = code, out, err, took

    def __repr__(self):
        return f"code {self.code}, stdout {self.out[-600:]!r}, stderr {self.err[-1500:]!r}"


def over(folder, place):
    """Lays a folder over another, for this process and those that it starts; None: takes it away again. False where it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    newns, bind, detach, private, recursive = 0x20000, 0x1000, 2, 1 << 18, 0x4000
    if folder is None:
        return libc.umount2(place.encode(), detach) == 0
    return (libc.unshare(newns) == 0 and libc.mount(None, b"/", None, ctypes.c_ulong(private | recursive), None) == 0
            and libc.mount(folder.encode(), place.encode(), None, ctypes.c_ulong(bind), None) == 0)


def plain():
    """Takes back what whoever started the trials has set for this process: ignored and blocked signals (a shell's "&" ignores SIGINT
    and SIGQUIT, nohup SIGHUP) and core files, which would lie in the folders that trials compare. Only ever called in a child."""
    for sig in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCHLD:
        signal.signal(sig, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class Box:
    def __init__(self, top, launch, victim="me"):
        self.dir = tempfile.mkdtemp(prefix="box-", dir=top)
        os.chmod(self.dir, 0o755)
        self.binary = launch
        self.victim = victim
        self.started = []
        self.home, self.work, self.tmp = (os.path.join(self.dir, d) for d in ("home", "work", "tmp"))
        for d in (self.home, self.work, self.tmp):
            os.mkdir(d)
        os.chmod(self.home, 0o700)
        os.chmod(self.work, 0o755)
        os.chmod(self.tmp, 0o1777)
        self.own(self.home, self.work)
        self.shared = bool(os.environ.get("ATTACK_ALONE")) and over(self.tmp, "/tmp")
        self.state = os.path.join(self.home, ".local/state/launch")

    # Accounts.

    def uid(self, who):
        if who == "victim":
            who = self.victim
        if who == "root" or os.getuid() != 0:
            return os.getuid()
        return ACCOUNTS[who]

    def own(self, *paths, who="victim"):
        if os.getuid() == 0:
            for path in paths:
                os.lchown(path, self.uid(who), self.uid(who))

    def become(self, who):
        """Makes this process one of the account's; only ever called in a child."""
        if os.getuid() == 0 and self.uid(who) != 0:
            os.setgroups([])
            os.setgid(self.uid(who))
            os.setuid(self.uid(who))
        os.umask(0o022)

    def as_(self, who, f):
        """Runs f() as the account, in a process of its own, and returns the text that it returns. What it raises is
        raised here, too."""
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(r)
                self.become(who)
                out = f()
                os.write(w, b"ok" + str(out).encode())
                code = 0
            except BaseException as e:  # noqa: the child reports and ends, whatever it was
                os.write(w, b"no" + f"{type(e).__name__}: {e}".encode())
            finally:
                os._exit(code)
        os.close(w)
        with os.fdopen(r, "rb") as pipe:
            said = pipe.read().decode(errors="replace")
        os.waitpid(pid, 0)
        if said[:2] != "ok":
            raise RuntimeError(f"as {who}: {said[2:]}")
        return said[2:]

    # Files. A relative path is below the box's folder.

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def mkdir(self, path, who="victim", mode=0o755):
        path = self.path(path)
        missing = []
        at = path
        while not os.path.lexists(at):
            missing.append(at)
            at = os.path.dirname(at)
        for d in reversed(missing):
            os.mkdir(d)
            os.chmod(d, mode)
            self.own(d, who=who)
        return path

    def write(self, path, text, who="victim", mode=0o644):
        path = self.path(path)
        self.mkdir(os.path.dirname(path), who=who)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        self.own(path, who=who)
        return path

    def read(self, path):
        with open(self.path(path), "rb") as f:
            return f.read().decode(errors="replace")

    def copy(self, source, path, who="victim"):
        with open(source, "rb") as f:
            return self.write(path, f.read(), who=who, mode=stat.S_IMODE(os.stat(source).st_mode))

    def trainer(self, folder="work", **declared):
        """Lays the trainer of this folder into a project, with a declaration; further keys are added to it, and None
        takes a key out. Returns the project's path."""
        self.mkdir(folder)
        self.copy(os.path.join(HERE, "train.py"), f"{folder}/train.py")
        keys = {"script": "train.py", "micro-batch": "--batch-size", "accumulation": "--accum",
                "progress": r"'step (?P<iteration>\d+)'", "succeeded": "'training is over'",
                "resume": "{--resume: 'runs/*/*.pt'}"}
        keys.update({k.replace("_", "-"): v for k, v in declared.items()})
        self.write(f"{folder}/.launch-job.yaml", "".join(f"{k}: {v}\n" for k, v in keys.items() if v is not None))
        return self.path(folder)

    def plugin(self, name, folder="home/.local/share/launch/plugins", who="victim", trusted=True, **answers):
        """Lays the hostile plugin into a folder, with what it answers and does (plugin/main.go), and lets launch run it. Returns its
        path. It takes the commands whose script is NAME.py, unless it is given a manifest."""
        program = os.path.join(os.path.dirname(self.binary), "plugin")
        if not os.path.exists(program):
            raise NotMade("the hostile plugin could not be built: there is no Go, and no --plugin")
        answers = {k.capitalize(): v for k, v in answers.items()}
        answers.setdefault("Manifest", {"name": name, "marks": [{"script": name + ".py"}]})
        self.mkdir(folder)
        path = self.path(folder, "launch-plugin-" + name)
        shutil.copy(program, path)
        os.chmod(path, 0o755)
        self.own(path, who=who)
        self.write(f"{folder}/launch-plugin-{name}.json", json.dumps(answers), who=who)
        if who == "victim" and trusted:
            done = self.launch("plugins", "trust", path)
            if done.code != 0:
                raise RuntimeError(f"the plugin cannot be trusted: {done!r}")
        return path

    def tree(self, path):
        """Everything below a path: what each is, its mode, owner and content. Two that are equal: nothing was changed."""
        out = {}
        top = self.path(path)
        for folder, dirs, files in os.walk(top):
            for name in dirs + files:
                full = os.path.join(folder, name)
                info = os.lstat(full)
                what = ""
                if stat.S_ISLNK(info.st_mode):
                    what = os.readlink(full)
                elif stat.S_ISREG(info.st_mode):
                    with open(full, "rb") as f:
                        what = hashlib.sha256(f.read()).hexdigest()
                out[os.path.relpath(full, top)] = (info.st_mode, info.st_uid, what)
        return out

    # Commands.

    def environment(self, more=None):
        env = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": self.tmp, "PYTHONUNBUFFERED": "1"}
        env.update(more or {})
        return {k: v for k, v in env.items() if v is not None}

    def start(self, command, who="victim", cwd=None, env=None, **more):
        """Starts a command on pipes, and returns it; it is killed with the box."""
        cwd = self.path(cwd) if cwd else self.work

        def before():
            os.setsid()
            plain()
            with contextlib.suppress(ProcessLookupError):
                self.become(who)
            os.chdir(cwd)

        for key in ("stdin", "stdout", "stderr"):
            more.setdefault(key, subprocess.DEVNULL if key == "stdin" else subprocess.PIPE)
        p = subprocess.Popen(command, env=self.environment(env), preexec_fn=before, **more)
        self.started.append(p)
        return p

    def finish(self, p, seconds=60, stdin=None):
        began = time.time()
        try:
            out, err = p.communicate(stdin, timeout=seconds)
            code = p.returncode
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            code = None
        return Done(code, (out or b"").decode(errors="replace"), (err or b"").decode(errors="replace"), time.time() - began)

    def run(self, command, seconds=60, text=None, **more):
        if text is not None:
            more["stdin"] = subprocess.PIPE
        return self.finish(self.start(command, **more), seconds, text)

    def launch(self, *args, **more):
        """Runs launch, as the victim, with that command line."""
        return self.run([self.binary, *args], **more)

    def terminal(self, command, seconds=60, keys=b"", who="victim", cwd=None, env=None):
        """Runs a command in a fresh pseudo-terminal; what it showed is both outputs. keys are typed at its start."""
        pid, fd = pty.fork()
        if pid == 0:
            try:
                plain()
                self.become(who)
                os.chdir(self.path(cwd) if cwd else self.work)
                os.execvpe(command[0], command, self.environment(env))
            finally:
                os._exit(127)
        began, seen, code = time.time(), b"", None
        os.write(fd, keys)
        while time.time() - began < seconds:
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    chunk = os.read(fd, 65536)
                except OSError:
                    chunk = b""
                if not chunk:
                    break
                seen += chunk
        else:
            os.kill(pid, signal.SIGKILL)
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        if time.time() - began < seconds:
            code = os.waitstatus_to_exitcode(status)
        return Done(code, seen.decode(errors="replace"), "", time.time() - began)

    # What launch recorded.

    def runs(self, state=None):
        """The events of every recorded run, the oldest first: a list of lists."""
        top = os.path.join(state or self.state, "runs")
        out = []
        for name in sorted(os.listdir(top)) if os.path.isdir(top) else []:
            path = os.path.join(top, name, "events.jsonl")
            if os.path.exists(path):
                with open(path) as f:
                    out.append([json.loads(line) for line in f if line.strip().endswith("}")])
        return out

    def attempts(self, state=None):
        """The attempts of the newest run that ended, as its record has them."""
        runs = self.runs(state)
        return [e["attempt"] for e in runs[-1] if e["event"] == "ended"] if runs else []

    def wait(self, condition, seconds=20, what="what was awaited never came"):
        end = time.time() + seconds
        while time.time() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise Wrong(what)

    def need_shared(self):
        """Of trials that look into /tmp itself: it has to be the box's own."""
        if not self.shared:
            raise NotMade("/tmp cannot be made a folder of the trial's own here")

    def close(self):
        for p in self.started:
            if p.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
                with contextlib.suppress(Exception):
                    p.communicate(timeout=5)
        if self.shared:
            over(None, "/tmp")
        shutil.rmtree(self.dir, ignore_errors=True)
