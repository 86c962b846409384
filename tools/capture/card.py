#!/usr/bin/env python3
"""A card day: everything that is worth measuring on an NVIDIA card, in pieces, with PyTorch 2.0 or later and no Go.

    card.py FOLDER [--minutes 9]     one piece; run it again until it prints that nothing is left
    card.py FOLDER --device cpu      a rehearsal without a card: the same steps at tiny sizes
    card.py --list                   the steps, in their order

The steps, most valuable first: what NVML reports; gpu.py's first rows; a run with --inside; out-of-memory logs, one of each kind
(provoke.py); two trainings that share the card; the demos; the rest of gpu.py's rows. A piece starts a step only if its time
allows, and ends by itself. FOLDER has two files, card.json and gpu.json, written after each step; each record has the device, the
driver, torch's version and the date. `go run ./tools/truth -take FOLDER` makes rows, logs and priors of them.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import gpu
import provoke

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = 1
MOST = 40_000  # characters of a step's output that are kept: its end


def beside(*names):
    """A file of the pack that this script lies in, or else of the repository."""
    for root in (os.path.dirname(HERE), os.path.join(HERE, "..", "..")):
        for name in names:
            if os.path.exists(os.path.join(root, name)):
                return os.path.abspath(os.path.join(root, name))
    return ""


class Step:
    """One step: its name, the seconds that it usually takes, the seconds that it may take at most, and what it does."""

    def __init__(self, name, usual, most, do):
        self.name, self.usual, self.most, self.do = name, usual, most, do


class TooLong(Exception):
    pass


class Day:
    def __init__(self, args):
        self.a = args
        self.cuda = args.device == "cuda"
        self.end = time.monotonic() + 60 * args.minutes
        self.path = os.path.join(args.folder, "card.json")
        self.rows_path = os.path.join(args.folder, "gpu.json")
        os.makedirs(args.folder, exist_ok=True)
        self.book = {"schema": SCHEMA, "device": args.device, "spent_s": 0.0, "steps": {}}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                self.book = json.load(f)
            if self.book["device"] != args.device:
                raise ValueError(f"{self.path} is of the device {self.book['device']}: use another folder")
        self.rows = gpu.opened(self.rows_path, args.device)
        self.work = tempfile.mkdtemp(prefix="card-")
        self.env = {**os.environ, "XDG_STATE_HOME": os.path.join(self.work, "state"), "LAUNCH": args.launch, "PYTHON": sys.executable,
                    "PYTHONUNBUFFERED": "1"}
        self.limit = 0.0  # when the step that runs must be over
        self.facts = None

    # --- what steps do

    def run(self, *command, env=None, cwd=None, check=False, plain=False):
        """Runs a command to its end or to the step's, and returns its exit code and output, without this machine's names unless it
        is to be parsed."""
        with tempfile.TemporaryFile() as out:
            p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                                 env={**self.env, **(env or {})}, cwd=cwd or self.work)
            try:
                while p.poll() is None:
                    if time.monotonic() > self.limit:
                        raise TooLong(" ".join(command)[:200])
                    time.sleep(0.05)
            finally:
                end(p)
            out.seek(0)
            text = out.read().decode(errors="replace")
            if not plain:
                text = self.scrub(text)
        if check and p.returncode:
            raise RuntimeError(f"{os.path.basename(command[0])} ended with {p.returncode}: {text[-500:]}")
        return p.returncode, text

    def scrub(self, text, most=MOST):
        """The text without what is this machine's own: its folders and its name."""
        for path, name in ((self.work, "/job"), (os.path.dirname(HERE), "/card"), (sys.prefix, "/python"), (os.path.expanduser("~"), "/home/user")):
            if len(path) > 4:
                text = text.replace(path, name)
        text = re.sub(rf"\b{re.escape(os.uname().nodename)}\b", "machine", text)
        return text[-most:] if most else text

    def launch(self, *arguments, **kwargs):
        return self.run(self.a.launch, *arguments, **kwargs)

    def json(self, *arguments):
        """What launch prints as JSON, or, where it does not, what it printed."""
        code, text = self.launch(*arguments, plain=True)
        with contextlib.suppress(ValueError):
            return json.loads("\n".join(line for line in text.splitlines() if not line.startswith("launch:")))
        return {"exit": code, "text": self.scrub(text)}

    def document(self, *path):
        """A JSON document that launch has written, or None."""
        with contextlib.suppress(OSError, ValueError), open(os.path.join(*path), encoding="utf-8") as f:
            return json.loads(self.scrub(f.read(), most=None))  # paths are its values, and its keys have none
        return None

    def device(self):
        return () if self.cuda else ("--device", "cpu")

    def example(self, name, copy="job"):
        """A copy of an example in a folder of its own, with its data."""
        at = os.path.join(self.work, copy)
        shutil.copytree(os.path.join(self.a.examples, name), at)
        if os.path.exists(os.path.join(at, "gen_data.py")):
            self.run(sys.executable, "gen_data.py", cwd=at, check=True)
        return at

    # --- the steps

    def nvml(self):
        """What the driver reports of an idle card, and of one on which a process holds 1 GiB."""
        out = {"launch": self.launch("version")[1], "idle": self.json("gpus", "--json"), "asked": 2**30}
        holder = subprocess.Popen([sys.executable, os.path.join(HERE, "provoke.py"), "hold", "--bytes", str(2**30), "--device", self.a.device],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env=self.env)
        try:
            while not select.select([holder.stdout], [], [], 0.1)[0]:
                if time.monotonic() > self.limit:
                    raise TooLong("a process that holds 1 GiB")
            out["held"] = int(holder.stdout.readline() or 0)
            out["pid"], out["busy"] = holder.pid, self.json("gpus", "--json")
            for name, query in (("smi", "--query-gpu=name,driver_version,memory.total,memory.reserved,memory.used,memory.free"),
                                ("smi_apps", "--query-compute-apps=pid,used_memory")):
                if shutil.which("nvidia-smi"):
                    out[name] = self.run("nvidia-smi", query, "--format=csv")[1]
        finally:
            end(holder)
        return out

    def row(self, row):
        def do():
            wish = argparse.Namespace(device=self.a.device, checkout=self.a.checkout, trace=None, row_timeout=max(10, self.limit - time.monotonic()))
            got = gpu.child(wish, row)
            if "took longer" in got.get("error", "") and self.limit >= self.end:
                raise TooLong(gpu.key(row))
            self.rows["rows"].append(got)
            gpu.save(self.rows_path, self.rows)
            return {"ok": "error" not in got, "note": gpu.note(got)}

        return do

    def inside(self):
        """A short training with --inside, whose hook reads the allocator's counters in the program."""
        at = self.example("sisr", "inside")
        code, text = self.launch("--inside", "--receipts=false", *self.device(), "--json-file", "result.json", "--", sys.executable, "train.py", "-opt",
                                 "options/tiny.yml", cwd=at)
        return {"ok": code == 0, "exit": code, "text": text[-8000:], "result": self.document(at, "result.json"), "receipts": self.json("receipts", "--json")}

    def share(self):
        """Two trainings at once on one card, each under launch, which promises neither what the other holds."""
        jobs, samples = [], []
        for n in (1, 2):
            at = self.example("sisr", f"share{n}")
            recipe = os.path.join(at, "options", "tiny.yml")
            with open(recipe, encoding="utf-8") as f:
                text = f.read()
            with open(recipe, "w", encoding="utf-8") as f:
                f.write(text.replace("total_iter: 12", "total_iter: 400") if self.cuda else text)
            out = open(os.path.join(at, "out.txt"), "wb")
            jobs.append((at, out, subprocess.Popen([self.a.launch, *self.device(), "--json-file", "result.json", "--", sys.executable, "train.py", "-opt",
                                                    "options/tiny.yml"], cwd=at, env=self.env, stdout=out, stderr=subprocess.STDOUT,
                                                   stdin=subprocess.DEVNULL, start_new_session=True)))
        try:
            while any(p.poll() is None for _, _, p in jobs):
                if time.monotonic() > self.limit:
                    raise TooLong("two trainings")
                if len(samples) < 30:
                    samples.append({"at": datetime.datetime.now().isoformat(timespec="milliseconds"), "gpus": self.json("gpus", "--json")})
                time.sleep(1 if self.cuda else 0.1)
        finally:
            for _, out, p in jobs:
                end(p)
                out.close()
        ends = []
        for at, _, p in jobs:
            with open(os.path.join(at, "out.txt"), encoding="utf-8", errors="replace") as f:
                ends.append({"exit": p.returncode, "result": self.document(at, "result.json"), "text": self.scrub(f.read())[-8000:]})
        return {"ok": all(e["exit"] == 0 for e in ends), "jobs": ends, "samples": samples if self.cuda else samples[:2]}

    def demo(self, name):
        def do():
            code, text = self.run("bash", os.path.join(self.a.examples, name, "demo.sh"), "gpu" if self.cuda else "cpu")
            return {"ok": code == 0, "exit": code, "text": text}

        return do

    def oom(self, kind):
        def do():
            _, _, expect, env = provoke.KINDS[kind]
            command = [sys.executable, os.path.join(HERE, "provoke.py"), kind, "--device", self.a.device]
            if kind == "torchrun":
                command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "1", os.path.join(HERE, "provoke.py"), "capacity"]
            code, text = self.run(*command, env=env)
            if code == provoke.SKIPPED:
                return {"ok": True, "skipped": text.strip()}
            if code < 0 and "Killed" not in text:
                text += f"{signal.Signals(-code).name}\n"
            log = os.path.join(self.work, "log.txt")
            with open(log, "w", encoding="utf-8") as f:
                f.write(text)
            said = self.json("explain", "--json", log)
            brief = {k: said.get(k) for k in ("oom", "fatal", "kind", "phase", "confidence")}
            return {"ok": all(brief.get(k) == v for k, v in expect.items()), "kind": kind, "exit": code, "env": env, "expect": expect, "said": brief, "text": text}

        return do

    def steps(self):
        tiny = self.a.tiny or not self.cuda
        checkouts = dict(c.split("=", 1) for c in self.a.checkout)
        first, rows = gpu.first(tiny), gpu.grid(checkouts, tiny)
        valuable = {gpu.key(r) for r in first}
        named = [Step("row " + gpu.key(r), 12, 120, self.row(r)) for r in first]
        rest = [Step("row " + gpu.key(r), 12, 120, self.row(r)) for r in rows if gpu.key(r) not in valuable]
        kinds = [Step("oom " + k, 15, 90, self.oom(k)) for k, (_, devices, _, _) in provoke.KINDS.items() if self.a.device in devices]
        demos = [Step("demo " + d, 120, 480, self.demo(d)) for d in ("sisr", "dualattn", "stablesr", "moco")
                 if os.path.exists(os.path.join(self.a.examples, d, "demo.sh"))]
        steps = [Step("nvml", 15, 60, self.nvml), *named, Step("inside", 30, 180, self.inside), *kinds, Step("share", 60, 240, self.share), *demos, *rest]
        return [s for s in steps if re.search(self.a.only, s.name)]

    # --- one piece

    def done(self, step):
        if step.name.startswith("row "):
            return step.name[4:] in self.measured or self.book["steps"].get(step.name, {}).get("tries", 0) >= 2
        return "took_s" in self.book["steps"].get(step.name, {}) or self.book["steps"].get(step.name, {}).get("tries", 0) >= 2

    @property
    def measured(self):
        return {gpu.key(r["row"]) for r in self.rows["rows"]}

    def piece(self):
        """Runs steps until the piece's time or the day's is used up. Returns how many are left."""
        while True:
            left = [s for s in self.steps() if not self.done(s)]
            now = time.monotonic()
            over = 60 * self.a.total - self.book["spent_s"]
            fits = [s for s in left if s.usual * self.a.pace <= min(self.end - now, over)]
            if not fits:
                if left and min(s.usual for s in left) * self.a.pace > over:
                    print(f"the {self.a.total:g} minutes of this card day are used up; {len(left)} steps were not made", file=sys.stderr)
                    return 0
                return len(left)
            self.make(fits[0], now)

    def make(self, step, began):
        if self.facts is None:
            self.limit = self.end
            code, text = self.run(sys.executable, os.path.join(HERE, "gpu.py"), "--facts", "--device", self.a.device, plain=True)
            if code:
                raise ValueError(f"torch sees no device {self.a.device} here: {text[-300:]}")
            self.facts = json.loads(text.strip().splitlines()[-1])
        self.limit = min(began + step.most, self.end)
        record = {"tries": self.book["steps"].get(step.name, {}).get("tries", 0) + 1, "facts": self.facts}
        try:
            record.update({"ok": True, **step.do()})
            record["took_s"] = round(time.monotonic() - began, 1)
        except TooLong as e:
            record.update(ok=False, error=f"took longer than {time.monotonic() - began:.0f} s: {e}")
            if began + step.most <= self.end:
                record["took_s"] = round(time.monotonic() - began, 1)
        except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as e:
            record.update(ok=False, error=f"{type(e).__name__}: {e}"[-2000:], took_s=round(time.monotonic() - began, 1))
        for name in os.listdir(self.work):
            if name != "state":
                at = os.path.join(self.work, name)
                shutil.rmtree(at, ignore_errors=True) if os.path.isdir(at) else os.remove(at)
        self.book["spent_s"] = round(self.book["spent_s"] + time.monotonic() - began, 1)
        self.book["steps"][step.name] = record
        gpu.save(self.path, self.book)
        what = record.get("error") or record.get("note") or record.get("skipped") or ("ok" if record["ok"] else "not as expected")
        print(f"{step.name}: {what.splitlines()[0] if what else ''} ({time.monotonic() - began:.1f} s)", file=sys.stderr)


def end(p):
    """Ends a process and those that it started."""
    if p.stdin:
        with contextlib.suppress(OSError):
            p.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(10)
    if p.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
    p.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", help="where the records are")
    p.add_argument("--minutes", type=float, default=9, help="of this piece (9)")
    p.add_argument("--total", type=float, default=40, help="minutes of all pieces together (40)")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--only", default="", help="steps whose names match this expression")
    p.add_argument("--checkout", action="append", default=[], help="redux=DIR: a project's own classes too")
    p.add_argument("--launch", default=beside("launch", "bin/launch"), help="the binary")
    p.add_argument("--examples", default=beside("examples"), help="the folder of the examples")
    p.add_argument("--tiny", action="store_true", help="small sizes (always so on the CPU)")
    p.add_argument("--pace", type=float, default=1, help="how much slower than usual this machine is (1)")
    p.add_argument("--list", action="store_true", help="print the steps and run none")
    a = p.parse_args()
    if not a.folder and not a.list:
        p.error("name the folder of the records, such as: card.py records")
    if not os.access(a.launch, os.X_OK):
        p.error(f"{a.launch or 'launch'} cannot be run: make card-pack builds it, --launch names another")
    a.launch, a.examples = os.path.abspath(a.launch), os.path.abspath(a.examples)
    if a.list:
        a.folder = tempfile.mkdtemp()
    try:
        day = Day(a)
        if a.list:
            print("\n".join(s.name for s in day.steps()))
            return
        left = day.piece()
    except ValueError as e:
        p.error(str(e))
    finally:
        with contextlib.suppress(NameError):
            shutil.rmtree(day.work, ignore_errors=True)
    print(f"{left} steps are left: run the same command again" if left else "nothing is left: take the folder's records with go run ./tools/truth -take FOLDER")


if __name__ == "__main__":
    main()
