"""A progress line on standard error that is drawn over itself, in the form of the usual package."""
import sys
import time


class Bar:
    def __init__(self, total: int, title: str) -> None:
        self.total, self.title, self.done, self.values = total, title, 0, ""
        self.began = time.time()
        self.draw()

    def step(self, **values: str) -> None:
        self.done += 1
        self.values = "".join(f", {k}={v}" for k, v in values.items())
        self.draw()

    def draw(self) -> None:
        took = time.time() - self.began
        share = self.done / max(self.total, 1)
        left = took / self.done * (self.total - self.done) if self.done else 0.0
        rate = f"{self.done / took:.2f}it/s" if self.done and took > 0 else "?it/s"
        bar = ("█" * int(10 * share)).ljust(10)
        text = f"{self.title}: {100 * share:3.0f}%|{bar}| {self.done}/{self.total} [{clock(took)}<{clock(left)}, {rate}{self.values}]"
        sys.stderr.write("\r" + text)
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
