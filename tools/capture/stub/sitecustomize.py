"""A card that is none, for rehearsals of card.py: torch's CPU build behind the calls of torch.cuda that the scripts here make, with
a card of 1 GiB. What is alive is counted, and what does not fit is refused in the words of torch 1.13.

    PYTHONPATH=tools/capture/stub python3 tools/capture/card.py records --only 'row|oom (capacity|request|limit)'

It has neither a context nor a caching allocator: nothing that it says is a figure of a card.
"""

import os
import sys
import types

TOTAL = 1 << 30


def install():
    import torch

    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import measure

    def size(n):
        return f"{n / 2**30:.2f} GiB" if n >= 2**30 else f"{n / 2**20:.2f} MiB"

    class Card(measure.Live):
        """Live bytes, and the most that were alive since the cache was emptied in place of what is reserved."""

        def __init__(self):
            super().__init__(set(), "cpu")
            self.limit, self.reserved, self.most = TOTAL, 0, 0

        def track(self, t, op):
            before = self.now
            super().track(t, op)
            if self.now > self.limit:
                wanted = self.now - before
                raise torch.cuda.OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {size(wanted)} (GPU 0; {size(TOTAL)} total capacity; {size(before)} already allocated; "
                    f"{size(max(0, TOTAL - before))} free; {size(before)} reserved in total by PyTorch) If reserved memory is >> allocated memory try "
                    "setting max_split_size_mb to avoid fragmentation.")
            self.reserved = max(self.reserved, self.now)
            self.most = max(self.most, self.reserved)

    card = Card()

    def here(f):
        def call(*args, **kwargs):
            return f(*("cpu" if isinstance(a, str) and a.startswith("cuda") else a for a in args),
                     **{k: "cpu" if k == "device" and str(v).startswith("cuda") else v for k, v in kwargs.items()})

        return call

    for name in ("empty", "zeros", "ones", "rand", "full"):
        setattr(torch, name, here(getattr(torch, name)))
    torch.nn.Module.to = here(torch.nn.Module.to)
    torch.nn.Module.cuda = lambda self, device=None: self
    torch.Tensor.cuda = lambda self, device=None: self
    autocast = torch.autocast
    torch.autocast = lambda kind, dtype=None: autocast("cpu", dtype=torch.bfloat16)

    def reset():
        card.peak, card.most = card.now, card.reserved

    def empty():
        card.reserved = card.now

    def fraction(share, device=None):
        card.limit = int(share * TOTAL)

    answers = {
        "init": lambda: None, "is_available": lambda: True, "is_bf16_supported": lambda: True, "synchronize": lambda device=None: None,
        "memory_allocated": lambda device=None: card.now, "max_memory_allocated": lambda device=None: card.peak,
        "memory_reserved": lambda device=None: card.reserved, "max_memory_reserved": lambda device=None: card.most,
        "memory_stats": lambda device=None: {"requested_bytes.all.peak": card.peak, "num_alloc_retries": 0}, "reset_peak_memory_stats": reset,
        "empty_cache": empty, "set_per_process_memory_fraction": fraction,
        "mem_get_info": lambda device=None: (TOTAL - card.reserved, TOTAL),
        "get_device_properties": lambda device=0: types.SimpleNamespace(name="A stub of 1 GiB", total_memory=TOTAL, major=8, minor=9),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    card.__enter__()


if os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "") != "card.py":
    install()
