# A training on a fake card: sized.py LOG SECONDS MIB. It takes MIB of the card that it sees, a half at first, writes that
# into the state of the fake driver, and what happens, with the time, into LOG. It does not end before the file all-asked is
# beside LOG.
import fcntl, os, sys, time

log, seconds, mib = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
path, me, card = os.environ["FAKE_NVML_STATE"], str(os.getpid()), os.environ["CUDA_VISIBLE_DEVICES"]


def locked(change):
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return change()


def note(what, **more):
    line = " ".join([what, "%.6f" % time.time(), me] + ["%s=%s" % kv for kv in more.items()]) + "\n"
    with open(log, "a") as f:
        f.write(line)


def alive(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def take(share):
    """Takes that much of the card, gives back what it had before, and returns by how much the card is over its memory."""
    def change():
        with open(path) as f:
            words = [line.split() for line in f]
        cards = [w for w in words if w[0] == "gpu"]
        at = [w[2] for w in cards].index(card)
        words = [w for w in words if w[0] == "gpu" or w[2] != me and alive(w[2])]
        if share:
            words.append(["use", str(at), me, str(share)])
        with open(path + ".new", "w") as f:
            f.writelines(" ".join(w) + "\n" for w in words)
        os.replace(path + ".new", path)
        used = sum(int(w[3]) for w in words if w[0] == "use" and w[1] == str(at)) + int(cards[at][5])
        return used - int(cards[at][3])
    return locked(change)


note("start", card=card, mib=mib, smaller=os.environ.get("SMALLER"), launch=os.getppid())
for part in (2, 1):
    over = take((mib << 20) // part)
    if over > 0:
        note("over", card=card, by=over)
    time.sleep(seconds / 2)
    while not os.path.exists(os.path.join(os.path.dirname(log), "all-asked")):
        time.sleep(0.02)
take(0)
note("end", card=card)
