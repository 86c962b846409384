#!/usr/bin/env python3
"""Holds traces against the recorded rows of whole training steps: the same steps, as a script for a card.

    traced_rows.py FAMILY ROWS.json OUT.csv [NAME=DIR ...] [--only TEXT] [--trace DIR]

ROWS.json is what steps.py has recorded of FAMILY on the "meta" device, with CUDA's kernels written out by hand (track.py,
measure.py). Here each row's step runs as a script that asks for the card (step_FAMILY.py with "cuda" in the place of "meta",
torch's own autocast and attention) under core/trace/trace.py, to its end. OUT.csv has the parameters, the bytes of the
model, what the graph holds when the last backward pass begins, and the most that lives at once, recorded and traced.
Rows that it has are not traced again. Checkouts are those of the recording.

    traced_rows.py --one FAMILY ROWS.json INDEX [NAME=DIR ...]

is the script of a row.
"""
import argparse
import csv
import importlib.abc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = ["family", "row", "name", "precision", "params", "traced_params", "bytes", "traced_bytes", "saved", "traced_saved",
        "peak", "traced_peak", "why"]


class OnCard(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Loads the modules of the steps with the card in the place of the "meta" device."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("step_") or name == "basicsr" and path is None:
            return importlib.util.spec_from_loader(name, self, origin=self.get_filename(name))
        return None

    def get_filename(self, name):
        return os.path.join(HERE, name + ".py")

    def get_data(self, path):
        with open(path, encoding="utf-8") as f:
            return f.read().replace('"meta"', '"cuda"').encode()


def trainer(a, rec):
    """The row of a language model as a script has it: transformers' own Trainer."""
    import tempfile

    import torch
    import transformers

    import step_lm
    import step_lm_trainer as t

    fields = dict(a["config"])
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=a["attention"], **{step_lm.DTYPE: step_lm.TYPES[a["weights"]]})
    if a.get("lora"):
        import peft

        targets = a["lora"]["targets"]
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=a["lora"]["rank"], target_modules=targets[0] if targets == ["all-linear"] else targets, task_type="CAUSAL_LM",
            lora_dropout=a["lora"].get("dropout", 0.0), modules_to_save=a["lora"].get("whole")))
        model.to("cuda")
    t.Recorded.rec = rec
    n = a.get("accumulate", 1)
    with tempfile.TemporaryDirectory() as out:
        args = transformers.TrainingArguments(
            out, max_steps=3, per_device_train_batch_size=a["batch"], optim=a["optimizer"], report_to="none",
            gradient_accumulation_steps=n, gradient_checkpointing=bool(a.get("recompute")),
            gradient_checkpointing_kwargs={"use_reentrant": a.get("recompute") == "reentrant"}, bf16=a["precision"] == "bf16",
            fp16=a["precision"] == "fp16", save_strategy="no", logging_strategy="no", disable_tqdm=True)
        rec.roots(model)
        data = t.Tokens(a["batch"] * n * 3, a["length"], config.vocab_size, a.get("padded"))
        t.Recorded(model, args, train_dataset=data, callbacks=[t.Steps(rec, 3)]).train()
    return [model]


def one(family, rows, index, checkouts):
    """Runs a row's steps, and prints what the recorder itself sees of them."""
    import contextlib

    import torch

    import capture
    import steps
    import track

    with open(rows, encoding="utf-8") as f:
        row = json.load(f)["rows"][index]
    if family == "lm":
        if "evaluation" in row["args"]:
            raise SystemExit("an evaluation alone: no script of the Trainer's is one")
        print("\n" + json.dumps(steps.row(trainer, {"name": row["name"], **row["args"]}, "cuda")))
        return

    def autocast(precision):
        low = track.LOW[precision]
        return torch.autocast("cuda", low) if low else contextlib.nullcontext()

    track.autocast = autocast
    stub = capture.stub_losses

    def stub_losses():
        """Without the custom_fwd that goes with the autocast written out by hand."""
        real = torch.amp.custom_fwd
        stub()
        torch.amp.custom_fwd = real

    capture.stub_losses = stub_losses
    sys.meta_path.insert(0, OnCard())
    module = importlib.import_module("step_" + family)
    want = steps.identity({"name": row["name"], **row["args"]})
    case, args = next((c, a) for c, a in module.cases(checkouts) if steps.identity(json.loads(json.dumps(a))) == want)
    print("\n" + json.dumps(steps.row(case, args, "cuda")))


def traced(tracer, argv):
    """The events of a script under the tracer, and what it printed. argv has the script first."""
    ask = {"kind": "script", "target": argv[0], "args": argv[1:], "nocard": os.path.join(tracer, "nocard.so"),
           "card": {"name": "NVIDIA H100", "memory": 80 << 30, "capability": [9, 0]}, "world": 1, "steps": 1000}
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as events:
        run = ["sh", "-c", 'exec "$@" 3>"$0"', events.name, sys.executable, "-B", "-W", "ignore", os.path.join(tracer, "trace.py")]
        done = subprocess.run(run, input=json.dumps(ask).encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return events.read().splitlines(), done.stdout.decode()


def fullest(events):
    """The most bytes that live at once from the first forward pass on, without the kernels' workspaces."""
    guessed = {line.split()[1] for line in events if line.startswith("K ") and line.endswith(" workspace")}
    sizes, live, most, begun = {}, 0, 0, False
    for line in events:
        what, *rest = line.split(" ", 3)
        if what == "A" and rest[0] not in guessed:
            sizes[rest[0]] = int(rest[1])
            live += sizes[rest[0]]
        elif what == "F":
            live -= sizes.pop(rest[0], 0)
        elif what == "M" and rest[0] == "forward":
            begun = True
        most = max(most, live) if begun else 0
    return most


def held(family, rows, index, row, checkouts, tracer):
    argv = [os.path.abspath(__file__), "--one", family, rows, str(index)] + ["%s=%s" % c for c in checkouts.items()]
    events, printed = traced(tracer, argv)
    out = dict(family=family, row=index, name=row["name"], precision=row["args"].get("precision", ""), params=row["params"],
               bytes=row["bytes"], saved=row.get("saved", ""), peak=max(row["first"], row["peak"]))
    try:
        inside = json.loads(printed.strip().splitlines()[-1])
    except (ValueError, IndexError):
        end = json.loads(events[-1][2:]) if events and events[-1].startswith("E ") else {}
        out["why"] = (end.get("why", "") + " " + printed[-300:]).replace("\n", " ").strip()
        return out
    out.update(traced_params=inside["params"], traced_bytes=inside["bytes"], traced_saved=inside.get("saved", ""),
               traced_peak=fullest(events))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("rows")
    parser.add_argument("out")
    parser.add_argument("checkouts", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--trace", default=os.path.join(HERE, "..", "..", "core", "trace"))
    if sys.argv[1:2] == ["--one"]:
        family, rows, index, *more = sys.argv[2:]
        return one(family, rows, int(index), dict(c.split("=", 1) for c in more))
    a = parser.parse_args()
    checkouts = dict(c.split("=", 1) for c in a.checkouts)
    with open(a.rows, encoding="utf-8") as f:
        rows = json.load(f)["rows"]
    have = {}
    if os.path.exists(a.out):
        with open(a.out, newline="") as f:
            have = {(r["family"], int(r["row"])): r for r in csv.DictReader(f)}
    with tempfile.TemporaryDirectory() as tracer:
        shutil.copy(os.path.join(a.trace, "trace.py"), tracer)
        for part in ("values", "kernels"):
            shutil.copy(os.path.join(a.trace, part + ".py"), os.path.join(tracer, "launch_%s.py" % part))
        with open(os.path.join(tracer, "launch_kernels.py"), "a", encoding="utf-8") as f:
            f.write("\n\nscratch = lambda torch: {}  # what a recording does not see\n")
        shutil.copy(os.path.join(a.trace, "driver", "nocard_amd64.so"), os.path.join(tracer, "nocard.so"))
        for i, row in enumerate(rows):
            if (a.family, i) in have or a.only not in json.dumps(row):
                continue
            have[a.family, i] = got = held(a.family, os.path.abspath(a.rows), i, row, checkouts, tracer)
            ratios = [got[k] and got.get("traced_" + k) and got["traced_" + k] / got[k] for k in ("params", "bytes", "saved", "peak")]
            print(i, row["name"], row["args"].get("precision"), ratios, got.get("why", ""), file=sys.stderr)
            with open(a.out, "w", newline="") as f:
                table = csv.DictWriter(f, HEAD, lineterminator="\n", restval="")
                table.writeheader()
                table.writerows(have[k] for k in sorted(have))


if __name__ == "__main__":
    main()
