"""An Optuna study whose objective is `launch -- python train.py …`.

launch carries a trial that runs out of memory down its ladder, so many of them have a value all the same. One that cannot
fit at all is told apart from a bad one. Needs optuna 5 or newer.

    study.py --trials 30 --seed 1                        a study through the real launch
    study.py --trials 100 --seeds 20 --modelled          compares, by a function that answers as launch would
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import optuna

sys.path.insert(0, str(Path(__file__).parent))
import train  # noqa: E402

# How a trial is run, and what becomes of one that cannot fit: TrialPruned, as without launch; a constraint that is not
# kept; or a constraint, and one more trial in its place, because it has trained nothing.
MODES = ("bare, pruned", "bare, constraint", "launch, pruned", "launch, constraint", "launch, replaced")


def by_launch(values: dict, ladder: bool) -> dict:
    """Runs a trial; returns launch's result. Without the ladder it runs as asked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, "train.py", "--lr", repr(values["lr"]), "--width", str(values["width"]), "--depth",
                   str(values["depth"]), "--batch-size", str(values["batch"]), "--accumulation", "1"]
        flags = ["--quiet", "--json-file", str(path)] + ([] if ladder else ["--allow", "none"])
        done = subprocess.run(["launch", *flags, "--", *command], cwd=Path(__file__).parent, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode == 125 or not path.exists():
            raise RuntimeError(done.stderr)
        return json.loads(path.read_text())


def modelled(values: dict, ladder: bool) -> dict:
    """What by_launch returns, without a process."""
    micro = values["batch"]
    while ladder and micro > 1 and train.memory(values["width"], values["depth"], micro) > train.WALL:
        micro //= 2
    need = train.memory(values["width"], values["depth"], micro)
    if need > train.WALL:
        return {"ending": "out of memory", "infeasible": {"peak_bytes": need, "room_bytes": train.WALL}}
    value = train.loss(values["lr"], values["width"], values["depth"], values["batch"])
    return {"ending": "succeeded", "metrics": {"loss": {"best": {"value": value}}}}


def study(mode: str, seed: int, trials: int, run) -> optuna.Study:
    ladder, constrained = mode.startswith("launch"), not mode.endswith("pruned")

    def objective(trial: optuna.Trial) -> float:
        values = {"lr": trial.suggest_float("lr", 1e-6, 1e-1, log=True), "width": trial.suggest_int("width", 128, 4096, log=True),
                  "depth": trial.suggest_int("depth", 2, 24), "batch": 2 ** trial.suggest_int("log2_batch", 2, 7)}
        result = run(values, ladder)
        short = result.get("infeasible")
        # Over the room by this share; below zero: it fits. Unknown amounts count as a little over.
        over = -1.0 if short is None else 0.01
        if short and short["peak_bytes"] and short["room_bytes"]:
            over = max(over, short["peak_bytes"] / short["room_bytes"] - 1)
        trial.set_user_attr("over", over)
        if constrained:
            trial.set_constraint("memory", over)
        if short:
            raise optuna.TrialPruned
        if result["ending"] != "succeeded":
            raise RuntimeError(f"the trial ended as {result['ending']}: that is a bug, and no bad trial")
        return result["metrics"]["loss"]["best"]["value"]

    s = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    if mode.endswith("replaced"):
        complete = optuna.study.MaxTrialsCallback(trials, states=(optuna.trial.TrialState.COMPLETE,))
        s.optimize(objective, n_trials=3 * trials, callbacks=[complete])
    else:
        s.optimize(objective, n_trials=trials)
    return s


def optimum(ladder: bool) -> float:
    """The best loss that fits, by a fine grid; the learning rate is at its best for each width."""
    best = float("inf")
    for width in range(128, 4097, 8):
        for depth in range(2, 25):
            for batch in (2**k for k in range(2, 8)):
                if train.memory(width, depth, 1 if ladder else batch) <= train.WALL:
                    best = min(best, train.loss(10 ** (-3 - 0.5 * math.log10(width / 128)), width, depth, batch))
    return best


def agree(seed: int, trials: int) -> None:
    """Fails unless launch answers each trial as the function does."""
    real, model = (study("launch, constraint", seed, trials, run) for run in (by_launch, modelled))
    short = 0
    for x, y in zip(real.trials, model.trials, strict=True):
        same = x.params == y.params and x.state == y.state and abs(x.user_attrs["over"] - y.user_attrs["over"]) < 0.01
        if not same or x.value is not None and abs(x.value - y.value) > 1e-5:
            sys.exit(f"trial {x.number} differs:\n{x}\n{y}")
        short += x.user_attrs["over"] > 0
    print(f"{trials} trials agree, {short} of them infeasible")


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--trials", type=int, default=30)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seeds", type=int, default=1, help="from --seed on")
    p.add_argument("--mode", choices=MODES)
    p.add_argument("--agree", action="store_true", help="run a study by launch and one by the function: are they the same?")
    p.add_argument("--modelled", action="store_true", help="answer as launch would, without a process")
    a = p.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if a.agree:
        agree(a.seed, a.trials)
        return
    best_of_all = optimum(ladder=True)
    print(f"optuna {optuna.__version__}; optimum {best_of_all:.4f} with the ladder, {optimum(ladder=False):.4f} as asked")
    seeds = range(a.seed, a.seed + a.seeds)
    for mode in [a.mode] if a.mode else MODES:
        gaps, short, total = [], [], []
        for seed in seeds:
            s = study(mode, seed, a.trials, modelled if a.modelled else by_launch)
            gaps.append(s.best_value - best_of_all)
            short.append(sum(t.user_attrs["over"] > 0 for t in s.trials))
            total.append(len(s.trials))
        spread = statistics.quantiles(gaps, n=4) if len(gaps) > 1 else gaps * 3
        print(f"{mode:19}  above the optimum: median {spread[1]:.4f}, quartiles {spread[0]:.4f} to {spread[2]:.4f};"
              f"  without a value: {statistics.mean(short):.1f} of {statistics.mean(total):.1f}", flush=True)


if __name__ == "__main__":
    main()
