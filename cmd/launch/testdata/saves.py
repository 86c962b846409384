# A training on a fake card that saves when it is asked to: saves.py OUT MIB. It takes a half of MIB of the
# card that it sees before its first step and all of it after that, writes that into the state of the fake driver, and what
# happens into OUT. It makes 6 steps, and then more until there is a file named "go". With REAL it takes so many MIB, whatever MIB is;
# if the card has less, it runs out of memory.
import json, os, signal, sys, time

import fakecard
from fakecard import card

out, mib = sys.argv[1], int(sys.argv[2])
real = int(os.environ.get("REAL", mib))
step, asked = 0, False


def note(what, **more):
    with open(out, "a") as f:
        f.write(" ".join([what, "%.6f" % time.time()] + ["%s=%s" % kv for kv in more.items()]) + "\n")


def take(share):
    short = []

    def unless(share, total, free):
        if real != mib and share > free:
            short.append(True)
        return short

    over, total, free = fakecard.take(share, unless)
    if over > 0:
        note("over", card=card, by=over)
    if short:
        note("short", card=card)
        gib = 1 << 30
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f GiB. GPU 0 has a total capacity of %.2f GiB "
              "of which %.2f GiB is free. Of the allocated memory 1.00 GiB is allocated by PyTorch, and 0.00 MiB is reserved "
              "by PyTorch but unallocated." % (real / 1024 - 1.5, total / gib, free / gib), flush=True)
        sys.exit(1)


def ask(number, frame):
    global asked
    asked = True


signal.signal(signal.SIGUSR1, ask)
if os.environ.get("RESUME"):
    with open(os.environ["RESUME"]) as f:
        step = json.load(f)["step"]
note("start", card=card, step=step, smaller=os.environ.get("SMALLER"))
take((real << 20) // 2)
while step < 6 or not os.path.exists("go"):
    time.sleep(0.1)
    step += 1
    print("step", step, flush=True)
    take(real << 20)
    if asked:
        take(0)
        state = os.path.abspath(out + ".json")
        with open(state, "w") as f:
            json.dump({"step": step}, f)
        print("saved", state, flush=True)
        note("saved", step=step)
        sys.exit(0)
take(0)
note("end", card=card)
print("training is over", flush=True)
