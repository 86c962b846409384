# What a script must not be able to do: its first argument says which. HOME holds data that it would spoil.
import os
import signal
import socket
import sys
import threading
import time

home = os.path.expanduser("~")
open(os.path.join(home, "mark"), "w").write("here I was")
os.remove(os.path.join(home, "data.bin"))
os.makedirs(os.path.join(home, "new", "folder"))
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1)
    print("connected")
except OSError:
    pass
threading.Thread(target=time.sleep, args=(1e6,)).start()
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1e6)
how = sys.argv[1]
print("begun", flush=True)
if how == "exit":
    os._exit(0)
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "loop":
    while True:
        pass
if how == "stop":
    os.kill(0, signal.SIGSTOP)
if how == "allocate":
    all = []
    while True:
        all.append(bytearray(1 << 24))
if how == "print":
    line = "x" * (1 << 20)
    for _ in range(1 << 10):
        print(line)
