"""The plugin's side of the wire: go-plugin's handshake, and JSON documents in a google.protobuf.BytesValue over gRPC."""

import json
import os
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, NoReturn, Optional

import grpc

from . import _stdout
from ._json import TooLarge
from .documents import Bare, Command, Device, Job
from .plugin import Caution, Need, NotMine, Plugin, Unread, WrongCommand

PROTOCOLS = (1,)  # of launch's documents that this SDK speaks
MAX_MESSAGE = 16 << 20  # bytes
MAX_VALUES = 200_000  # of one document
MAX_TEXT = 4000  # of an answer that a person reads; gRPC has it in a header

Method = Callable[[Any], Any]


def wrap(document: bytes) -> bytes:
    """A google.protobuf.BytesValue: field 1, length-delimited."""
    length, out = len(document), bytearray(b"\x0a")
    while length >= 0x80:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out) + document


def unwrap(message: bytes) -> bytes:
    """The bytes of a google.protobuf.BytesValue. Other fields are skipped; the last value counts."""
    at, value = 0, b""

    def varint() -> int:
        nonlocal at
        n = shift = 0
        while True:
            byte = message[at]
            at += 1
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n
            if shift > 63:
                raise ValueError("a number of the message is too long")

    try:
        while at < len(message):
            tag = varint()
            kind = tag & 7
            if kind == 0:
                varint()
                continue
            size = {1: 8, 5: 4}.get(kind, -1)
            if kind == 2:
                size = varint()
            if size < 0 or at + size > len(message):
                raise ValueError("the message is cut short")
            if tag == 0x0A:
                value = message[at : at + size]
            at += size
    except IndexError:
        raise ValueError("the message is cut short") from None
    return value


def protocol(offered: str) -> int:
    """The protocol that the plugin prints, of those that launch offers: the highest that both speak, else its lowest."""
    theirs = {int(n) for n in offered.split(",") if n.strip().isdigit()}
    common = theirs & set(PROTOCOLS)
    return max(common) if common else min(PROTOCOLS)


class Keeper:
    """Asks the plugin one question at a time, and keeps what it has recognised last."""

    def __init__(self, plugin: Plugin):
        self.plugin = plugin
        self.lock = threading.RLock()
        self.command: Optional[Dict[str, Any]] = None  # the document
        self.job: Optional[Job] = None

    def methods(self) -> Dict[str, Method]:
        """The methods of the service, each from a document to a document."""
        out: Dict[str, Method] = {"Manifest": self.manifest, "Recognize": self.recognize, "Ladders": self.ladders}
        if type(self.plugin).estimate is not Plugin.estimate:
            out["Estimate"] = self.estimate
        return out

    def manifest(self, _: Any) -> Any:
        return {**self.plugin.manifest.to_json(), "sdk": "python " + version()}

    def recognize(self, question: Any) -> Any:
        try:
            return self.recognized(question).to_json()
        except Need as need:
            return {"need": need.to_json()}
        except Caution as caution:
            return {"caution": str(caution)}
        except TooLarge as e:
            return {"caution": str(e)}

    def recognized(self, question: Any) -> Job:
        with self.lock:
            if self.job is not None and question == self.command:
                return self.job
            job = self.plugin.recognize(read(Command, question))
            if "torch" in sys.modules:
                sys.stderr.write("the plugin has imported torch, which takes seconds: use a Formula (docs/writing-a-plugin.md)\n")
            if not isinstance(job, Job):
                raise TypeError(f"recognize returned {type(job).__name__}, and no Job")
            self.command, self.job = question, job
            return job

    def ladders(self, question: Any) -> Any:
        if not isinstance(question, dict) or not isinstance(question.get("job"), dict):
            raise WrongCommand("there is no job in the question")
        device = read(Device, question.get("device") or {})
        with self.lock:
            job = self.recognized(question["job"].get("command"))
            return self.plugin.ladders(job, device).to_json()

    def estimate(self, question: Any) -> Any:
        if not isinstance(question, dict):
            raise WrongCommand("there is no network in the question")
        bare, device = read(Bare, question.get("bare") or {}), read(Device, question.get("device") or {})
        with self.lock:
            return [phase.to_json() for phase in self.plugin.estimate(bare, device)]


def read(kind: Any, document: Any) -> Any:
    """A document of the question. One that cannot be read is the asker's mistake."""
    try:
        return kind.from_json(document)
    except (ValueError, TypeError) as e:
        raise WrongCommand(f"reading the question: {e}") from None


def version() -> str:
    """The SDK's version."""
    from . import __version__

    return __version__


def answer(method: Method, message: bytes, context: grpc.ServicerContext) -> bytes:
    """Answers one question. The status codes are docs/plugins.md's."""

    def abort(code: grpc.StatusCode, why: str) -> NoReturn:
        context.abort(code, why.encode("utf-8", "replace")[:MAX_TEXT].decode("utf-8", "ignore"))
        raise AssertionError("abort returned")

    try:
        text = unwrap(message)
        if text.count(b"{") + text.count(b",") // 8 > MAX_VALUES:
            raise ValueError(f"it has more than {MAX_VALUES} values")
        question = json.loads(text or b"{}")
    except (ValueError, RecursionError) as e:
        abort(grpc.StatusCode.INVALID_ARGUMENT, f"reading the question: {e}")
    try:
        document = json.dumps(method(question), allow_nan=False).encode("ascii")
    except NotMine as e:
        abort(grpc.StatusCode.FAILED_PRECONDITION, str(e) or "not a command of this plugin")
    except WrongCommand as e:
        abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
    except (Unread, TooLarge) as e:
        abort(grpc.StatusCode.OUT_OF_RANGE, str(e))
    except OSError as e:
        abort(grpc.StatusCode.OUT_OF_RANGE, f"{e.filename or 'a file'}: {e.strerror or e}")
    except Exception as e:  # a mistake in the plugin: launch shows the last lines of the traceback
        traceback.print_exc()
        abort(grpc.StatusCode.INTERNAL, f"{type(e).__name__}: {e}".rstrip(": "))
    return wrap(document)


def serve(plugin: Plugin) -> NoReturn:
    """Answers launch's questions until launch ends the process. It is all that a plugin's main does."""
    _stdout.claim()
    if not _stdout.started_by_launch():
        name = getattr(getattr(plugin, "manifest", None), "name", "NAME")
        sys.stderr.write(
            f"This program is a plugin of launch, which starts it. Its file is named launch-plugin-{name}:\n"
            f"`launch plugins trust PATH` lets launch run it, and `launch plugins test PATH` tests it.\n"
        )
        sys.exit(1)
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(prefix="launch-plugin-")
    path = os.path.join(folder, f"plugin{os.getpid()}")
    ended = threading.Event()
    server = start(Keeper(plugin).methods(), "unix:" + path, ended.set)
    _stdout.handshake(f"1|{protocol(os.environ.get('PLUGIN_PROTOCOL_VERSIONS', ''))}|unix|{path}|grpc")
    ended.wait()
    server.stop(0.2).wait()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of the plugin's own do not keep it


def start(methods: Dict[str, Method], address: str, shutdown: Callable[[], None]) -> grpc.Server:
    """Starts the services that go-plugin's host asks of a plugin, and the plugin's own."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=8),
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE + 1024),
            ("grpc.max_send_message_length", MAX_MESSAGE + 1024),
        ],
    )

    def service(name: str, calls: Dict[str, Callable[[bytes, grpc.ServicerContext], bytes]]) -> None:
        handlers = {n: grpc.unary_unary_rpc_method_handler(f) for n, f in calls.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))

    def end(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(shutdown)  # after the answer is on its way
        return b""

    def asked(method: Method) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        return lambda message, context: answer(method, message, context)

    service("launch.v1.Plugin", {name: asked(m) for name, m in methods.items()})
    service("grpc.health.v1.Health", {"Check": lambda _request, _context: b"\x08\x01"})  # SERVING
    service("plugin.GRPCController", {"Shutdown": end})
    if server.add_insecure_port(address) == 0:
        raise OSError(f"no socket can be made at {address}")
    server.start()
    return server
