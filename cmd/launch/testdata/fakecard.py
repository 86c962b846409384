# The memory of a fake card that a program takes, as its driver tells of it: NVIDIA's, whose state is the file $FAKE_NVML_STATE,
# or the kernel's files of AMD's below $KERNEL_FOR_TEST.
import fcntl, os

kernel, state, me = os.environ.get("KERNEL_FOR_TEST"), os.environ.get("FAKE_NVML_STATE"), str(os.getpid())
card = os.environ["HIP_VISIBLE_DEVICES" if kernel else "CUDA_VISIBLE_DEVICES"]


def alive(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def put(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def take(share, unless=lambda share, total, free: False):
    """Takes that much of the card and gives back what it had before; nothing if unless says so. It returns by how much
    the card is over its memory, that memory, and what others leave of it."""
    with open((kernel or state) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        at, total, holds, write = amd() if kernel else nvidia()
        holds = [h for h in holds if h[1] != me and alive(h[1])]
        free = total - sum(b for i, _, b in holds if i == at)
        if share and not unless(share, total, free):
            holds.append((at, me, share))
        write(holds)
        return sum(b for i, _, b in holds if i == at) - total, total, free


def nvidia():
    with open(state) as f:
        words = [line.split() for line in f]
    cards = [w for w in words if w[0] == "gpu"]
    at = [w[2] for w in cards].index(card)

    def write(holds):
        lines = [" ".join(w) for w in cards] + ["use %d %s %d" % h for h in holds]
        put(state, "".join(line + "\n" for line in lines))

    return at, int(cards[at][3]), [(int(w[1]), w[2], int(w[3])) for w in words if w[0] == "use"], write


def amd():
    procs = os.path.join(kernel, "sys/class/kfd/kfd/proc")
    device = os.path.join(kernel, "sys/class/drm/card%d/device/mem_info_vram_")

    def read(path):
        with open(path) as f:
            return int(f.read())

    holds = []
    for pid in os.listdir(procs):
        for name in os.listdir(os.path.join(procs, pid)):
            if name.startswith("vram_") and not name.endswith(".new"):
                holds.append((int(name[5:]) - 100, pid, read(os.path.join(procs, pid, name))))

    def write(after):
        for i, pid, _ in holds:
            if (i, pid) not in [h[:2] for h in after]:
                os.remove(os.path.join(procs, pid, "vram_%d" % (100 + i)))
                os.rmdir(os.path.join(procs, pid))
        for i, pid, b in after:
            os.makedirs(os.path.join(procs, pid), exist_ok=True)
            put(os.path.join(procs, pid, "vram_%d" % (100 + i)), str(b))
        for i in range(4):
            put(device % i + "used", str(sum(b for at, _, b in after if at == i)))

    return int(card), read(device % int(card) + "total"), holds, write
