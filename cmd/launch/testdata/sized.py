# A training on a fake card: sized.py LOG SECONDS MIB. It takes MIB of the card that it sees, a half at first, has the fake
# driver tell so, and writes what happens, with the time, into LOG. It does not end before the file all-asked is
# beside LOG.
import os, sys, time

from fakecard import card, me, take

log, seconds, mib = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])


def note(what, **more):
    line = " ".join([what, "%.6f" % time.time(), me] + ["%s=%s" % kv for kv in more.items()]) + "\n"
    with open(log, "a") as f:
        f.write(line)


note("start", card=card, mib=mib, smaller=os.environ.get("SMALLER"), launch=os.getppid())
for part in (2, 1):
    over = take((mib << 20) // part)[0]
    if over > 0:
        note("over", card=card, by=over)
    time.sleep(seconds / 2)
    while not os.path.exists(os.path.join(os.path.dirname(log), "all-asked")):
        time.sleep(0.02)
take(0)
note("end", card=card)
