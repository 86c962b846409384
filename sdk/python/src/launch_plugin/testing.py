"""Checks of a plugin that need neither launch nor a process: for the author's own quick tests.

`launch plugins test` asks far more. These find a mistake at the line where it is.
"""

import json
import os
import sys
from dataclasses import replace
from typing import Optional, Sequence, Tuple

from .documents import Command, Counted, Device, Job, LadderSet, Program
from .plugin import Need, NotMine, Plugin
from .units import GiB

CARD = Device("cuda", name="a card of 24 GiB", total_bytes=24 * GiB, capability="8.6", planned=True)
ROUNDS = 6  # how often launch answers a Need


def command(args: Sequence[str], dir: str, env: Sequence[str] = ()) -> Command:
    """A command as launch would send it: args are python3, a script and its arguments."""
    script = os.path.join(dir, args[1]) if len(args) > 1 else ""
    return Command(tuple(args), dir, tuple(env), program=Program(script, "", tuple(args[2:]), dir, args[0], 1))


def recognize(plugin: Plugin, question: Command) -> Tuple[Command, Job]:
    """Asks as launch does, until there is a job: one GPU, and no formula can be run."""
    for _ in range(ROUNDS):
        try:
            return question, plugin.recognize(Command.from_json(json.loads(json.dumps(question.to_json()))))
        except Need as need:
            if need.sources:
                raise AssertionError("testing.recognize reads no Python source: use `launch plugins test`") from need
            formulas = [Counted(f, problem="testing runs no formula") for f in need.formulas if not question.counted(f)]
            if not formulas and not need.devices:
                raise AssertionError("it asks for what it has been told") from need
            question = replace(question, devices=1 if need.devices else question.devices, formulas=question.formulas + tuple(formulas))
    raise AssertionError("it asks for more and more")


def check(plugin: Plugin, question: Command, device: Optional[Device] = None) -> LadderSet:
    """Raises AssertionError for the first promise that the plugin breaks; returns the ladders.

    It answers the same twice, without torch, for its own command alone; its documents survive the wire.
    """
    question, job = recognize(plugin, question)
    assert "torch" not in sys.modules, "torch was imported: a module of the author's own is a Formula"
    assert recognize(plugin, question)[1].to_json() == job.to_json(), "asked the same, it recognises another job"
    for args in (["python3", "-c", "pass"], ["python3", "no_such_script.py"]):
        try:
            plugin.recognize(command(args, question.dir))
        except NotMine:
            continue
        raise AssertionError(f"it takes {args} for its own")
    ladders = plugin.ladders(job, device or CARD)
    assert plugin.ladders(job, device or CARD).to_json() == ladders.to_json(), "asked the same, it has other ladders"
    for document in (plugin.manifest, job, ladders):
        sent = json.loads(json.dumps(document.to_json(), allow_nan=False))
        assert type(document).from_json(sent).to_json() == sent, f"launch would read another {type(document).__name__}"
    assert job.resume.edits or job.resume.none, "it neither resumes (Resume.edits) nor names a reason (Resume.none)"
    for ladder in ladders.phases:
        for rung in ladder.rungs:
            for estimate in rung.estimates:
                for item in estimate.items:
                    assert item.from_, f"{ladder.phase}: {rung.name}: {item.kind} of {item.what} has no source"
    return ladders
