"""A training that speaks as the sisr family's do (its words are those of examples/sisr, whose plugin therefore knows it),
and fails in the way that HOW names. It needs nothing but Python, save where a loader's workers are to be torch's own.

    HOW=validation launch -- python3 train.py -opt x.yml
"""

import os
import re
import signal
import sys
import time

HOW = os.environ.get("HOW", "")
HERE = os.path.dirname(os.path.abspath(__file__))


def knob(name, otherwise):
    with open(sys.argv[sys.argv.index("-opt") + 1]) as f:
        found = re.search(r"\b%s: (\d+)" % name, f.read())
    return int(found.group(1)) if found else otherwise


def say(text):
    print("2026-01-01 00:00:00,000 INFO: " + text, flush=True)


def wait(how, seconds=60):
    """Is found here by whoever is to stop it."""
    if HOW == how:
        print("HERE", os.getpid(), flush=True)
        time.sleep(seconds)


def eat(mib=4096):
    """Takes memory until somebody objects."""
    held = []
    for _ in range(mib // 8):
        held.append(b"\1" * (8 << 20))


def last_to_be_spared():
    """Of a group that has run out, the kernel kills this process first: without it the choice is the kernel's."""
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("1000")


def build_network():
    say("Network: Compact, with parameters: 1,000")
    wait("build")
    if HOW == "eats while it builds":
        eat()


def save_state(iteration):
    folder = os.path.join(HERE, "experiments", "fed", "training_states")
    os.makedirs(folder, exist_ok=True)
    say("Saving models and training states to models. Free space: 1.00 GB")
    with open(os.path.join(folder, "%d.state" % iteration), "wb") as f:
        f.write(b"a state")
        f.flush()
        wait("saving")
        if HOW == "disk full":
            f.write(b"0" * (16 << 20))


def nondist_validation():
    say("Saving 1 validation images to images")
    wait("validation")
    if HOW == "eats while it validates":
        eat()
    say("Validation fed")


def optimize_parameters(iteration):
    micro = knob("batch_size_per_gpu", 4)
    card = int(os.environ.get("CARD", "99"))
    if HOW == "assertion":
        assert iteration < 11, "the crop is larger than the image"
    if HOW == "nan" and iteration > 10:
        raise RuntimeError("Training failed: NaN/Inf found in loss. Try reducing the learning rate.")
    if HOW == "replaced message" and iteration > 10 and micro > card:
        raise RuntimeError("Ran out of VRAM during training. Reduce lq_size or batch_size_per_gpu and try again.")
    if HOW == "segfault" and iteration > 10:
        held = []
        try:
            while True:
                held.append(b"\1" * (1 << 20))
        except MemoryError:
            os.kill(os.getpid(), signal.SIGSEGV)  # as code does that does not look at what malloc has answered
    if HOW == "eats when it trains" and iteration > 10:
        eat()


def plain_worker(room):
    """A loader's worker without torch: dead, its parent raises what torch's signal handler raises."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    print("HERE", os.getpid(), "WORKER", pid, flush=True)
    _, status = os.waitpid(pid, 0)
    raise RuntimeError("DataLoader worker (pid %d) is killed by signal: %s. " % (pid, {9: "Killed", 15: "Terminated"}[status & 127]))


def loader():
    """torch's own: every worker holds as many samples of 8 MiB ahead as the recipe lets it, in shared memory."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __len__(self):
            return 4 * 48

        def __getitem__(self, i):
            last_to_be_spared()
            return torch.full((2 << 20,), 1, dtype=torch.float32)

    workers = knob("num_worker_per_gpu", 0)
    ahead = {"prefetch_factor": knob("prefetch_factor", 2)} if workers else {}
    first = True
    for batch in DataLoader(Images(), batch_size=knob("batch_size_per_gpu", 4), num_workers=workers, **ahead):
        if first and workers:
            if HOW == "worker killed by hand":
                with open("/proc/self/task/%d/children" % os.getpid()) as f:
                    print("HERE", os.getpid(), "WORKER", f.read().split()[0], flush=True)
                time.sleep(60)
            time.sleep(2)  # a step that takes longer than the workers need
        first = False


def main():
    heard = []
    if HOW.startswith("deaf"):
        signal.signal(signal.SIGINT, lambda *_: heard.append(1) if not heard else sys.exit(3))
    if HOW == "preempted":
        words = b"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***\n"
        signal.signal(signal.SIGTERM, lambda *_: (os.write(2, words), os._exit(143)))
    build_network()
    say("Start training from epoch: 0, iter: 0.")
    began = time.time()
    try:
        for iteration in (10, 20):
            optimize_parameters(iteration)
            say("[epoch:  0, iter:      %d, lr:(1.000e-03,)] [eta: 0:00:01] l_g_pix: 1.0000e-01" % iteration)
            if iteration == 10:
                save_state(iteration)
                wait("training")
                wait("preempted")
        if HOW.startswith("deaf"):
            print("HERE", os.getpid(), flush=True)
            while not heard:
                time.sleep(0.01)
            say("will stop at the end of the epoch; once more to stop now")
            print("HEARD", flush=True)
            if HOW == "deaf to the first":
                time.sleep(60)
            say("[epoch:  0, iter:     100, lr:(1.000e-03,)] [eta: 0:00:00] l_g_pix: 1.0000e-01")  # its last step
        if HOW == "a worker's kill":
            plain_worker(None)
        if HOW.startswith("worker"):
            loader()
        nondist_validation()
    except Exception:
        import traceback

        traceback.print_exc(file=sys.stdout)  # the family logs it,
        say("Training stopped. Time consumed: 0:00:01")
        sys.exit(0)  # and its exit code says nothing
    say("End of training. Time consumed: 0:00:01")


main()
