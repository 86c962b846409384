"""Keeps standard output for the one line that launch reads there.

What the plugin's own code prints goes to standard error, from the import of launch_plugin on: launch shows the first and
the last lines of it if the plugin fails.
"""

import os
import sys
from typing import Optional

COOKIE, VALUE = "LAUNCH_PLUGIN", "launch-plugin-v1"

_kept: Optional[int] = None


def claim() -> None:
    """In a process that launch has started, leads standard output to standard error, and keeps the original."""
    global _kept
    if _kept is None and os.environ.get(COOKIE) == VALUE:
        _kept = os.dup(1)
        os.dup2(2, 1)
        del os.environ[COOKIE]  # a process that the plugin starts is no plugin


def started_by_launch() -> bool:
    """Whether launch has started this process."""
    return _kept is not None


def handshake(line: str) -> None:
    """Writes the line. launch reads it alone."""
    if _kept is not None:
        sys.stdout.flush()
        os.write(_kept, line.encode() + b"\n")
