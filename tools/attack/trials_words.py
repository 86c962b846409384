"""Point A: a process is killed while it saves its last words."""
import glob
import os
import random
import signal
import time

from box import HERE, PYTHON, need, trial

# The trainer of examples/lastwords, which fails in its seventh step, and whose state has several files that take their time.
TRAIN = r'''
import argparse, glob, os, time
import torch
from transformers.trainer import Trainer

p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
p.add_argument("--passes", type=int, default=1)
p.add_argument("--resume")
a = p.parse_args()


class Slow(Trainer):
    def _save_checkpoint(self, model, trial):
        super()._save_checkpoint(model, trial)
        if ".launch" in self._get_output_dir(trial):
            folder = glob.glob(os.path.join(self._get_output_dir(trial), "checkpoint-*"))[0]
            for i in range(4):
                with open(os.path.join(folder, "part-%d.bin" % i), "wb") as f:
                    f.write(os.urandom(1 << 18))
                time.sleep(0.01)


class Net(torch.nn.Linear):
    def forward(self, x):
        if trainer.state.global_step == 6 and a.batch > 4:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 5.00 GiB already "
                               "allocated; 1.00 GiB free; 6.00 GiB reserved in total by PyTorch)")
        return super().forward(x).square().mean()


torch.manual_seed(0)
torch.set_num_threads(1)
texts = list(torch.rand(8, 8, 16, generator=torch.Generator().manual_seed(1)))
trainer = Slow(Net(16, 16), texts, output_dir=os.path.abspath("out"), save_steps=4, per_device_train_batch_size=a.batch)
trainer.train(a.resume)
'''
DECLARED = r'''
script: train.py
micro-batch: --batch
accumulation: --passes
batch-norm: false
progress: '^step (?P<iteration>\d+) of (?P<total>\d+)'
last-words: transformers
resume: {--resume: 'out/checkpoint-*'}
'''


def lines(text):
    """The steps and their losses, to the digits that a sum in another order keeps."""
    return [line[:-2] for line in text.split("\n") if line.startswith("step ")]


def killed(box, rounds):
    """Kills the process at a random moment while it saves, so many times. Returns from which states was gone on."""
    box.write("work/train.py", TRAIN)
    box.write("work/.launch-job.yaml", DECLARED)
    example = os.path.join(HERE, "../../examples/lastwords/transformers")
    box.mkdir("work/transformers")
    for name in "__init__.py", "trainer.py":
        with open(os.path.join(example, name), encoding="utf-8") as f:
            box.write("work/transformers/" + name, f.read())
    whole = box.run([PYTHON, "train.py", "--batch", "4"], cwd=box.path("work"))
    need(whole.code == 0 and len(lines(whole.out)) == 8, repr(whole))
    went, chance, takes = {}, random.Random(1), 0.0
    for n in range(rounds + 1):  # the first one is not killed, and shows how long the writing takes
        box.run(["rm", "-rf", "out"], cwd=box.path("work"))
        p = box.start([box.binary, "--", PYTHON, "train.py"])
        box.wait(lambda: p.poll() is not None or glob.glob(box.path("work/out/.launch-last-words-*")), 60, "the last words never began")
        begun, since = glob.glob(box.path("work/out/.launch-last-words-*")), time.time()
        need(begun, f"round {n}: nothing was saved when memory ran out: {p.poll()}")
        if n == 0:
            box.wait(lambda: not glob.glob(box.path("work/out/.launch-last-words-*")), 60, "the last words never ended")
            begun, takes = [], time.time() - since
        time.sleep(chance.uniform(0, 2 * takes))
        for folder in begun:
            try:
                os.kill(int(folder.rsplit("-", 1)[1]), signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was sooner
        done = box.finish(p)
        states = sorted(os.listdir(box.path("work/out")))
        state = 6 if "resumes from checkpoint-6" in done.err else 4 if "resumes from checkpoint-4" in done.err else None
        went[state] = went.get(state, 0) + (n > 0)
        need(n > 0 or state == 6, f"the last words do not save: {done}")
        need(done.code == 0 and state, f"round {n}: {states}: {done}")
        need(states in (["checkpoint-4", "checkpoint-6", "checkpoint-8"], ["checkpoint-4", "checkpoint-8"]), f"round {n}: it leaves {states}")
        need(("checkpoint-6" in states) == (state == 6) or state == 4, f"round {n}: {states}, and it went on from {state}")
        parts = glob.glob(box.path("work/out/checkpoint-6/part-*.bin"))
        need("checkpoint-6" not in states or len(parts) == 4 and {os.path.getsize(f) for f in parts} == {1 << 18},
             f"round {n}: half of a state: {parts}")
        steps = lines(done.out)
        need(steps == lines(whole.out)[:6] + lines(whole.out)[state:], f"round {n}: from {state}: {steps}, and never interrupted {lines(whole.out)}")
    return went


@trial("A", "a process that is killed while it saves its last words leaves its older state, and none that is half written: five times")
def _(box):
    killed(box, 5)


@trial("A", "the same a hundred times, at random moments", quick=False)
def _(box):
    went = killed(box, 100)
    print("gone on from step:", went, flush=True)
    need(went.get(4, 0) > 10 and went.get(6, 0) > 10, f"the moments were not spread: {went}")
