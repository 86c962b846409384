"""A plugin of launch for one family of trainers: train_newplugin.py and its like."""

import os

from launch_plugin import (
    ACCUMULATION, GRADIENTS, INPUTS, MICRO_BATCH, OPTIMIZER, PARAMETERS, SAVED, SAVED_STATE, SPEED, TRAINING, TRANSIENTS,
    Argv, Batch, Command, Device, Estimate, Item, Job, Knob, Ladder, LadderSet, Manifest, Mark, NotMine, Option, Plugin,
    Rehearsal, Resume, Rung, Sign, Signs, Split, WrongCommand, as_asked, descend, formula, same_global_batch, serve,
    slowdown,
)

# The file name by which the family is known. Choose a mark that no other project bears.
SCRIPT = "train_newplugin.py"

# The options of the program's parser, all of them: an edit of an argument goes where the program reads it.
OPTIONS = (
    Option(("--batch-size", "-b")),
    Option(("--accumulate",)),
    Option(("--width",)),
    Option(("--steps",)),
    Option(("--resume",)),
)


class Settings:
    """What the program would read."""

    def __init__(self, command: Command):
        program = command.program  # without launchers and shells; None where launch did not understand the command
        if program is None or os.path.basename(program.script) != SCRIPT:
            raise NotMine
        self.argv = Argv(program.args, OPTIONS)
        self.split = Split(self.number("--batch-size", 64), self.number("--accumulate", 1))
        self.width = self.number("--width", 512, 1 << 16)
        self.steps = self.number("--steps", 20, 1 << 40)

    def number(self, name: str, default: int, most: int = 1 << 20) -> int:
        """An option with a whole number. The program would refuse what is refused here."""
        n = self.argv.integer(name, default)
        if not 1 <= n <= most:
            raise WrongCommand(f"{name} is {n}: it is a whole number from 1 to {most}")
        return n

    def knob(self, name: str, option: str, value: int) -> Knob:
        return Knob(name, self.argv.address(option), str(value), default=not self.argv.has(option))


class Family(Plugin):
    manifest = Manifest("newplugin", "0.1.0", "a small training to begin with", marks=[Mark(SCRIPT)])

    def recognize(self, command: Command) -> Job:
        """What launch may change, what the program prints, and how it resumes."""
        s = Settings(command)
        return Job(
            dialect="newplugin",  # the project of the family
            name="mlp",  # the experiment
            arch="mlp",
            options=OPTIONS,
            batch=Batch(s.split.micro, s.split.accumulation, 1),
            steps=s.steps,
            knobs=[
                s.knob(MICRO_BATCH, "--batch-size", s.split.micro),
                s.knob(ACCUMULATION, "--accumulate", s.split.accumulation),
            ],
            ignore=["--steps"],  # it does not change the memory
            signs=Signs(
                lines=[
                    Sign("started", r"batch size \d+, accumulation \d+"),
                    Sign("setting", r"batch size (?P<value>\d+)", knob=MICRO_BATCH),
                    Sign("setting", r"accumulation (?P<value>\d+)", knob=ACCUMULATION),
                    Sign("progress", r"step (?P<iteration>\d+)/(?P<total>\d+)"),
                    Sign("saved", r"saved (?P<path>out/step_(?P<iteration>\d+)\.pt)"),
                    Sign("resumed", r"resumed at step (?P<iteration>\d+)"),
                    Sign("succeeded", r"training is over"),
                ],
                states=["out/step_*.pt"],
                state_iteration=r"step_(?P<iteration>\d+)",
            ),
            resume=Resume(edits=[s.argv.edit("--resume", SAVED_STATE, "resume", "", "goes on from the state")]),
            rehearsal=Rehearsal(none="it always writes to out/"),
            own=s,  # for ladders; it stays in this process
        )

    def ladders(self, job: Job, device: Device) -> LadderSet:
        """One rung for each other way to divide the same global batch."""
        s: Settings = job.own
        larger, smaller = s.split.others()
        above = [self.rung(s, to, device) for to in larger]
        asked = as_asked(self.training(s, s.split, device))
        below = descend(asked, [self.rung(s, to, device) for to in smaller])
        return LadderSet(
            phases=[Ladder(TRAINING, len(above), (*above, *below))],
            values={MICRO_BATCH: s.split.micro, ACCUMULATION: s.split.accumulation},
            invariants=same_global_batch(job.batch),
        )

    def rung(self, s: Settings, to: Split, device: Device) -> Rung:
        why = "the same global batch in pieces of another size"
        return Rung(
            f"micro-batch {to.micro} × accumulation {to.accumulation}",
            [
                s.argv.edit("--batch-size", to.micro, MICRO_BATCH, SPEED, why),
                s.argv.edit("--accumulate", to.accumulation, ACCUMULATION, SPEED, why),
            ],
            SPEED,  # "numerics" where batch normalisation sees the micro-batch
            slowdown(s.split.micro / to.micro),
            {MICRO_BATCH: to.micro, ACCUMULATION: to.accumulation},
            [self.training(s, to, device)],
        )

    def training(self, s: Settings, at: Split, device: Device) -> Estimate:
        """The memory of a training step, in bytes. A Formula counts an nn.Module of your own instead."""
        parameters = 8 * s.width * s.width + 5 * s.width
        sample = 4 * s.width  # bytes; the net is width → 4 × width → width, in float32
        return Estimate(
            [
                Item(PARAMETERS, "net", 4 * parameters, parameters, "two linear layers"),
                Item(GRADIENTS, "net", 4 * parameters, parameters, "one for each parameter"),
                Item(OPTIMIZER, "net", 8 * parameters, from_="AdamW: two for each parameter"),
                Item(INPUTS, "net", at.micro * sample, from_="the batch"),
                Item(SAVED, "net", 5 * at.micro * sample, from_="ReLU's result, and the output for the loss"),
                Item(TRANSIENTS, "net", 4 * at.micro * sample, from_="the gradient of ReLU's result"),
                *formula.process(device),  # what the process takes beside its tensors: the kit asks for it
            ]
        )


def main() -> None:
    serve(Family())


if __name__ == "__main__":
    main()
