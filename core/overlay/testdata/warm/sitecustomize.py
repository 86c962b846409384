"""Starts programs that find torch imported: reading torch takes most of the time of the small programs of these tests.

Python imports this file before it opens its script, /proc/self/cwd/main.py. It imports torch, and answers requests: a line of JSON on its
standard input names a folder, an environment, and where the output goes. For each it forks. The fork takes the request's
environment and folder, imports the sitecustomize that this environment would have had it import, and returns. So Python
goes on there as it does at any start: it opens main.py in that folder, runs it, prints what ended it, and runs atexit.
Lines of JSON on the standard output give a program's process, and how it ended.
"""
import gc
import json
import os
import signal
import sys

import torch  # noqa: F401


def requests():
    rest = b""
    while True:
        data = os.read(0, 1 << 16)
        if not data:
            os._exit(0)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def become(request):
    for fd, name, flags in ((0, os.devnull, os.O_RDONLY), (1, request["stdout"], os.O_WRONLY), (2, request["stderr"], os.O_WRONLY)):
        file = os.open(name, flags | os.O_APPEND)
        os.dup2(file, fd)
        os.close(file)
    os.environ.clear()
    os.environ.update(kv.split("=", 1) for kv in request["env"])
    os.chdir(request["dir"])
    sys.argv[0] = "main.py"
    sys.path[:0] = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]


def serve():
    replies = os.dup(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the process that waits
    for request in requests():
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pid = os.fork()
        if pid == 0:
            os.close(replies)
            return request
        say = lambda **reply: os.write(replies, (json.dumps(dict(reply, id=request["id"])) + "\n").encode())
        say(pid=pid)
        say(status=os.waitpid(pid, 0)[1], ended=True)
        os._exit(0)


sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
gc.freeze()
become(serve())
del sys.modules["sitecustomize"]
try:
    import sitecustomize
except ImportError as e:
    if e.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = type(sys)("sitecustomize")  # which the import of this file ends with
again = [n for n in sys.modules if (n + ".").startswith("torch.optim.")] + ["torch.nn.utils", "torch.nn.utils.clip_grad"]
for name in again:
    del sys.modules[name]
import torch.nn.utils  # noqa: E402,F401  once more: a hook that is there now may put a call into these
import torch.optim  # noqa: E402,F401
