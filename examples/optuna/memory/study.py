"""How often does a study run out of memory? Each trial is a `launch -- python train.py …`.

The space: the learning rate, log-uniform from 1e-4 to 1e-1, and the batch, one of 8, 16, 32, 64, 128 and 256, with an
accumulation of 1. The room is so small that the largest do not fit. A study starts without receipts.

    study.py --trials 20 --seeds 3             Optuna's TPE sampler
    study.py --trials 20 --seeds 3 --random    random draws, without Optuna

It fails if a micro-batch ran out of memory more than twice, or if a trial did so that has the batch of an earlier one: then
a new learning rate was the reason.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

BATCHES = [8, 16, 32, 64, 128, 256]


def launched(number: int, lr: float, batch: int, room: str, state: Path) -> dict:
    """Runs a trial; returns launch's result."""
    out = state / f"trial-{number}"
    out.mkdir()
    path = out / "result.json"
    command = [sys.executable, "train.py", "--batch-size", str(batch), "--accumulation", "1", f"--lr={lr:g}", "--seed",
               str(number), "--out", str(out)]
    done = subprocess.run(["launch", "--quiet", "--memory", room, "--json-file", str(path), "--", *command],
                          cwd=Path(__file__).parent, env=os.environ | {"XDG_STATE_HOME": str(state)}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    return json.loads(path.read_text())


def study(seed: int, trials: int, room: str, by_optuna: bool) -> bool:
    failed, again, seen = collections.Counter(), 0, set()
    with tempfile.TemporaryDirectory() as state:

        def value(number: int, lr: float, batch: int) -> float:
            nonlocal again
            result = launched(number, lr, batch, room, Path(state))
            ran_out = [a["plan"]["batch"]["micro"] for a in result["attempts"] if a["outcome"]["ending"] == "out of memory"]
            failed.update(ran_out)
            again += len(ran_out) if batch in seen else 0
            seen.add(batch)
            micro = result["attempts"][-1]["plan"]["batch"]["micro"]
            loss = result["metrics"]["loss"]["best"]["value"]
            print(f"trial {number:2}: lr {lr:.5f}, batch {batch:3} = {micro:3} × {batch // micro}, loss {loss:.4f}"
                  + "".join(f", out of memory at {m}" for m in ran_out), flush=True)
            return loss

        if by_optuna:
            import optuna
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            s = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
            s.optimize(lambda t: value(t.number, t.suggest_float("lr", 1e-4, 1e-1, log=True),
                                       t.suggest_categorical("batch", BATCHES)), n_trials=trials)
        else:
            draw = random.Random(seed)
            for number in range(trials):
                value(number, 10 ** draw.uniform(-4, -1), draw.choice(BATCHES))
    print(f"seed {seed}, {trials} trials: out of memory "
          + (", ".join(f"{n} × at micro-batch {m}" for m, n in sorted(failed.items())) or "never")
          + f"; {again} × with a batch that ran before", flush=True)
    return max(failed.values(), default=0) <= 2 and again == 0


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--trials", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seeds", type=int, default=1, help="from --seed on")
    p.add_argument("--memory", default="230MiB", help="the room")
    p.add_argument("--random", action="store_true", help="draw at random, without Optuna")
    a = p.parse_args()
    if not all([study(a.seed + i, a.trials, a.memory, not a.random) for i in range(a.seeds)]):
        sys.exit("more out-of-memories than promised")


if __name__ == "__main__":
    main()
