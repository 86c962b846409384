#!/usr/bin/env python3
"""What becomes of a job of several processes when one of its ranks runs out of memory: bare, or under launch.

    python3 tools/ranks/ranks.py --launch bin/launch --python /usr/bin/python3 [--torchrun PYTHON] [--only TEXT]

It trains examples/ranks in every way in which ranks are started, lets one of them run out of memory, and prints who died,
how long after that all processes of the first attempt had ended, and what launch did. A collective ends after --timeout
seconds by itself: longer means that nobody ended the ranks that waited.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "ranks")
CALM = 'if args.on_oom == "die":'
NOTED = 'open(os.environ["RANKS_NOTE"], "a").write("%f\\n" % time.time())\n            ' + CALM


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class Case:
    def __init__(self, name, command, flags="", python="python", env=None, needs=""):
        self.name, self.command, self.flags, self.python, self.env, self.needs = name, command, flags, python, env or {}, needs


SHELL = """for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%(port)s %(python)s train.py %(args)s & done; wait"""


def cases():
    out = []
    for who in (0, 1):
        for waits in ("reduce", "store"):
            for end in ("", " --on-term save"):
                f = "--hungry %d --waits %s%s" % (who, waits, end)
                out.append(Case("mp.spawn", "%(python)s train.py %(args)s --by spawn", f))
                out.append(Case("Process, joined in order", "%(python)s train.py %(args)s --by processes", f))
                out.append(Case("torchrun", "%(python)s -m torch.distributed.run --nproc_per_node 2 --master_port %(port)s train.py %(args)s", f, "torchrun"))
                if end == "":
                    out.append(Case("a loop of a shell", ["sh", "-c", SHELL], f))
                    out.append(Case("accelerate launch", "%(python)s -m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 --main_process_port %(port)s train.py %(args)s",
                                    f, "torchrun", needs="accelerate"))
    for by in ("spawn", "processes"):
        out.append(Case("mp.spawn" if by == "spawn" else "Process, joined in order", "%(python)s train.py %(args)s --by " + by, "--on-oom linger --waits store"))
        out.append(Case("mp.spawn" if by == "spawn" else "Process, joined in order", "%(python)s train.py %(args)s --by " + by, "--on-oom skip"))
    out.append(Case("torchrun", "%(python)s -m torch.distributed.run --nproc_per_node 2 --master_port %(port)s train.py %(args)s", "--on-oom skip", "torchrun"))
    out.append(Case("torchrun", "%(python)s -m torch.distributed.run --nproc_per_node 2 --max_restarts 1 --master_port %(port)s train.py %(args)s", "--waits store", "torchrun"))
    return out


def has(python, module, env):
    return subprocess.run([python, "-c", "import " + module], env=env, stderr=subprocess.DEVNULL).returncode == 0


def run(case, a, python, limit):
    dir = tempfile.mkdtemp(prefix="launch-ranks-")
    note = os.path.join(dir, "note")
    try:
        shutil.copytree(EXAMPLE, dir, dirs_exist_ok=True)
        with open(os.path.join(EXAMPLE, "train.py")) as f:
            text = f.read()
        assert CALM in text
        with open(os.path.join(dir, "train.py"), "w") as f:
            f.write(text.replace(CALM, NOTED))
        env = dict(os.environ, HOME=dir, XDG_STATE_HOME=os.path.join(dir, "state"), OMP_NUM_THREADS="1", RANKS_NOTE=note, **case.env)
        fill = {"python": python, "port": port(), "args": "--batch 8 --accum 1 --timeout %g %s" % (a.timeout, case.flags)}
        command = [w % fill for w in (case.command if isinstance(case.command, list) else case.command.split())]
        command = [x for w in command for x in ([w] if isinstance(case.command, list) else w.split())]
        p = subprocess.Popen([a.launch, "--memory", "%dMiB" % limit, "--json-file", "out.json", "--", *command], cwd=dir, env=env, start_new_session=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        try:
            text, _ = p.communicate(timeout=6 * a.timeout + 60)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            return "hung", "", ""
        with open(os.path.join(dir, "out.json")) as f:
            j = json.load(f)
        if a.v:
            print(text)
        outcomes = [x["outcome"] for x in j.get("attempts") or []]
        first = outcomes[0] if outcomes else {}
        took = ""
        if os.path.exists(note) and first:
            with open(note) as f:
                oom = float(f.readline())
            began = re.sub(r"(\.\d{6})\d*", r"\1", first["began"])
            began = datetime.datetime.fromisoformat(began.replace("Z", "+00:00")).timestamp()
            took = "%.1f s" % (began + first["took_ns"] / 1e9 - oom)
        ends = ", ".join(o["ending"] for o in outcomes)
        resumed = "resumes" if "resumed from" in text else ""
        peers = "; launch ended ranks" if "launch: ended" in text or "launch ended" in text else ""
        left = subprocess.run(["pgrep", "-f", dir], stdout=subprocess.PIPE).stdout.split()
        return took, ends + peers, "exit %d %s%s" % (p.returncode, resumed, "; left processes" if left else "")
    finally:
        shutil.rmtree(dir, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--launch", default="launch")
    p.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    p.add_argument("--torchrun", metavar="PYTHON", help="one whose torchrun starts, if that of --python does not")
    p.add_argument("--limit", type=int, default=500, help="MiB for a rank of --python")
    p.add_argument("--torchrun-limit", type=int, default=0, help="MiB for a rank of --torchrun")
    p.add_argument("--timeout", type=float, default=40, help="of a collective, in seconds")
    p.add_argument("--only", default="")
    p.add_argument("-v", action="store_true")
    a = p.parse_args()
    a.launch = os.path.abspath(shutil.which(a.launch))
    row = "%-25s %-34s %-9s %-44s %s"
    print(row % ("started by", "how", "ended in", "attempts", "result"), flush=True)
    for c in cases():
        python, limit = (a.python, a.limit) if c.python == "python" else (a.torchrun or a.python, a.torchrun_limit or a.limit)
        if a.only not in c.name + " " + c.flags or c.needs and not has(python, c.needs, None):
            continue
        print(row % ((c.name, c.flags) + run(c, a, python, limit)), flush=True)


if __name__ == "__main__":
    main()
