"""What families share in making ladders."""

from typing import Callable, Iterable, List, NamedTuple, Sequence, Tuple

from .documents import ACCUMULATION, COSTS, GLOBAL_BATCH, MICRO_BATCH, Batch, Estimate, Invariant, Rung

MAX_BATCH = 1 << 14  # the largest global batch of one rank whose divisions are looked at


def as_asked(*estimates: Estimate) -> Rung:
    """The rung of the job as it was typed, with one estimate for each rung of the shared ladder."""
    return Rung("as asked", slowdown=1.0, estimates=estimates)


class Split(NamedTuple):
    """One way to make up a global batch on one rank."""

    micro: int  # samples in a forward pass
    accumulation: int  # passes before an optimizer step

    def others(self, takes: Callable[["Split"], bool] = lambda _: True) -> Tuple[List["Split"], List["Split"]]:
        """The other ways that takes accepts: those with a larger micro-batch, and those with a smaller, largest first."""
        larger: List[Split] = []
        smaller: List[Split] = []
        total = self.micro * self.accumulation
        if self.micro <= 0 or self.accumulation <= 0 or total > MAX_BATCH:
            return larger, smaller
        for micro in range(total, 0, -1):
            other = Split(micro, total // micro)
            if total % micro == 0 and micro != self.micro and takes(other):
                (larger if micro > self.micro else smaller).append(other)
        return larger, smaller


def slowdown(times: float) -> float:
    """The time expected of a step in so many times as many pieces. It orders rungs, and promises nothing."""
    return 1 / (1 + 0.02 * (1 / times - 1)) if times <= 1 else 1 + 0.02 * (times - 1)


def descend(asked: Rung, below: Iterable[Rung], shared: int = 0) -> Tuple[Rung, ...]:
    """asked and the rungs below it, by cost and then by slowdown. A rung that needs no less than one before is left out.

    shared is the index of the shared ladder's rung that is asked for.
    """
    rungs, least = [asked], asked
    for rung in sorted(below, key=lambda r: (COSTS.index(r.cost), r.slowdown)):
        here, there = _price(rung, shared), _price(least, shared)
        if not here.unknown and not there.unknown and here.total >= there.total:
            continue
        rungs.append(rung)
        if not here.unknown:
            least = rung
    return tuple(rungs)


def _price(rung: Rung, shared: int) -> Estimate:
    return rung.estimates[shared] if shared < len(rung.estimates) else Estimate(unknown="not priced")


def same_global_batch(batch: Batch, until: str = "recipe", ranks: Sequence[str] = ()) -> Tuple[Invariant, ...]:
    """The invariant that micro-batch × accumulation stays what it is, for plans that cost less than until."""
    if batch.micro <= 0 or batch.accumulation <= 0:
        return ()
    return (Invariant(GLOBAL_BATCH, (MICRO_BATCH, ACCUMULATION, *ranks), batch.micro * batch.accumulation, until=until),)
