"""What the author of a plugin for launch writes against.

    from launch_plugin import Job, LadderSet, Manifest, Mark, Plugin, serve

    class Mine(Plugin):
        manifest = Manifest("mine", "1", "my trainers", marks=[Mark(script="train*.py", flags=["--cfg"])])

        def recognize(self, command): ...   # a Job, or raise NotMine, Need, Caution, WrongCommand, Unread
        def ladders(self, job, device): ... # a LadderSet

    serve(Mine())

From the import of this package on, what the plugin prints goes to standard error: launch reads one line of its output.
"""

from . import _stdout

_stdout.claim()

__version__ = "0.1.0"

from ._json import Document  # noqa: E402
from . import formula  # noqa: E402
from .argv import Argv  # noqa: E402
from .documents import *  # noqa: E402,F403
from .ladders import Split, as_asked, descend, same_global_batch, slowdown  # noqa: E402
from .plugin import Caution, Need, NotMine, Plugin, Unread, WrongCommand  # noqa: E402
from .recipe import Recipe, join_path, read_file  # noqa: E402
from .units import GiB, KiB, MiB, TiB, parse, show  # noqa: E402


def serve(plugin: Plugin) -> None:
    """Answers launch's questions until launch ends the process. It is all that a plugin's main does."""
    from ._wire import serve as _serve  # grpc takes a tenth of a second to import: tests of a plugin do without

    _serve(plugin)
