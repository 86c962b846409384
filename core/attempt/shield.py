"""launch: the part of its hook that keeps a scheduler's notice from ending the program before its state is saved.

Slurm sends SIGTERM to every process of a job that it preempts, and Python's default is to end at once. launch has asked
for the notice (--save-on), lets the program save, and then stops it; so the first process of the program ignores the
notice until launch has written the file that allows the end. A program that sets a handler of its own keeps that.
"""
import os
import signal


def start(say, quiet, loader):
    told = os.environ.pop("LAUNCH_SHIELD", "")  # its own children have the usual action
    numbers, _, over = told.partition(":")
    if not numbers:
        return
    me = os.getpid()
    shielded = []

    def notice(number, frame):
        if os.getpid() != me or os.path.exists(over):
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def usual():
        for number in shielded:
            if signal.getsignal(number) is notice:
                signal.signal(number, signal.SIG_DFL)

    for number in map(int, numbers.split(",")):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, notice)
            shielded.append(number)
    os.register_at_fork(after_in_child=usual)
