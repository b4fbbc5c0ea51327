"""The program of a worker: a process that has imported the packages, and forks for each execution.

The worker runs in a fresh Python, has one thread, and does not run code itself. Every execution is
a child process that gives up its rights before it parses the code, and ends afterwards, so that no
execution sees another. A child starts with a copy of the worker's memory; therefore the worker
never reads a request (the child does), and wipes the output of each execution. `protocol` has the
messages to harness.
"""

import gc
import importlib
import io
import json
import os
import platform
import random
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.sandbox import kernel
from harness.sandbox.protocol import (
    ERROR,
    FRAME,
    HELLO,
    MAX_ERROR,
    REQUEST,
    RESPONSE,
    VALUE,
    Ended,
    Limits,
)
from harness.sandbox.syscalls import Architecture, this_architecture

PRELOADED = (
    *("bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions"),
    *("functools", "heapq", "itertools", "math", "operator", "re", "statistics", "string"),
    "typing",
)
PACKAGES = ("numpy", "cv2")  # preloaded too, if they are installed
INPUT, OUTPUT, FRAMES, CONTROL = 0, 1, 3, 4
"""Descriptors of an execution; 2 is /dev/null, and 4 is closed before the code is read."""
SETUP_SECONDS = 10.0
"""Seconds in which a child must have read its request and given up its rights."""
READ_BYTES = 1 << 16
"""Most bytes that are read at once."""
CONFINED_MESSAGE = b"confined"
"""Message of a child that has given up its rights, sent with the filter's listener."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The rights that each child gives up, and how."""

    limits: Limits
    architecture: Architecture
    ruleset: int | None
    """Descriptor of Landlock's rules; None where the kernel has no Landlock."""
    program: Sequence[tuple[int, int, int, int]]
    """Filter of system calls; see `kernel.filter_program`."""
    flags: int
    """Flags of `kernel.seccomp`."""
    null: int
    """Descriptor of /dev/null."""

    def enter(self, seconds: float) -> None:
        """Give up every right that the code does not need, for good."""
        limits = (
            (resource.RLIMIT_AS, self.limits.memory),
            (resource.RLIMIT_CPU, int(seconds) + 2),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, 64),
        )
        for resource_name, limit in limits:
            resource.setrlimit(resource_name, (limit, limit))
        kernel.no_new_privileges()
        if self.ruleset is not None:
            kernel.landlock(self.ruleset)
        os.closerange(CONTROL + 1, 256)
        control = socket.socket(fileno=CONTROL)
        listener = kernel.seccomp(self.architecture, self.program, self.flags)
        socket.send_fds(control, [CONFINED_MESSAGE], [listener] if self.flags else [])
        if self.flags:
            os.close(listener)
        control.close()


def main() -> None:
    """Serve requests until harness closes its end; `sys.argv[1]` has the settings in JSON."""
    settings = json.loads(sys.argv[1])
    architecture = this_architecture()
    assert architecture is not None, "harness starts no worker on another machine"
    # Imported C code may print: its output must not mix with the responses.
    responses = os.dup(OUTPUT)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, OUTPUT)
    environment = dict(os.environ)
    versions = _preload()
    os.environ.clear()  # OpenCV sets variables when it is imported
    os.environ.update(environment)
    landlock = kernel.landlock_version() if settings["landlock"] else 0
    flags = kernel.NEW_LISTENER if _notifies(architecture) else 0
    refusal = kernel.NOTIFY if flags else kernel.REFUSE
    confinement = Confinement(
        Limits(**settings["limits"]),
        architecture,
        kernel.landlock_ruleset(settings["readable"]) if landlock else None,
        kernel.filter_program(architecture, refusal=refusal, sendmsg=CONTROL),
        flags,
        null,
    )
    hello = {"landlock": landlock, "names": bool(flags), "versions": versions}
    content = json.dumps(hello).encode()
    _write(responses, HELLO.pack(len(content)) + content)
    gc.collect()
    gc.freeze()
    printed, emitted = _Output(confinement.limits.printed), _Output(confinement.limits.emitted)
    while header := _read(INPUT, REQUEST.size):
        seconds, size = REQUEST.unpack(header)
        _write(responses, _execute(confinement, size, seconds, printed, emitted))
        for output in printed, emitted:
            _write(responses, output.content)
            output.wipe()


def _preload() -> dict[str, str]:
    """Import the modules that code is likely to import; return the versions of packages."""
    versions = {"python": platform.python_version()}
    for name in (*PRELOADED, *PACKAGES):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name in PACKAGES:
            versions[name] = str(module.__version__)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)  # the same code draws the same numbers in every execution
    if cv2 := sys.modules.get("cv2"):
        cv2.setNumThreads(0)  # no child can start a thread
        cv2.ocl.setUseOpenCL(False)
    # Libraries need it when they are imported, and Python would search for a writable folder.
    tempfile.tempdir = "/tmp"
    return versions


def _notifies(architecture: Architecture) -> bool:
    """Return True if the kernel can report refused calls to a listener (not in gVisor and LXD)."""
    child = os.fork()
    if not child:
        try:
            kernel.no_new_privileges()
            kernel.seccomp(architecture, [(kernel.RETURN, 0, 0, kernel.ALLOW)], kernel.NEW_LISTENER)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child must end here
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


class _Output:
    """Output of an execution, in memory that is wiped, as the next child gets a copy of it."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self._memory = memoryview(bytearray(limit + READ_BYTES))

    @property
    def content(self) -> memoryview:
        """All bytes so far."""
        return self._memory[: self.size]

    def read(self, descriptor: int) -> bool:
        """Read available bytes, at most `READ_BYTES`; return False at the end."""
        count = os.readv(descriptor, [self._memory[self.size : self.size + READ_BYTES]])
        self.size += count
        return count > 0

    def wipe(self) -> None:
        """Overwrite the bytes with zeros."""
        self._memory[: self.size] = bytes(self.size)
        self.size = 0


def _execute(
    confinement: Confinement, size: int, seconds: float, printed: _Output, emitted: _Output
) -> bytes:
    """Run the next request, of `size` bytes, in a child; return the header of the response."""
    began = time.monotonic()
    (out, out_end), (frames, frames_end) = os.pipe(), os.pipe()
    control, control_end = socket.socketpair()
    child = os.fork()
    if not child:
        _child(confinement, size, seconds, (out_end, frames_end, control_end.fileno()))
    os.close(out_end)
    os.close(frames_end)
    control_end.close()
    watched = _Watched(child, {out: printed, frames: emitted}, control)
    reason = watched.until_end(seconds)
    os.close(out)
    os.close(frames)
    control.close()
    spent = time.monotonic() - began
    return RESPONSE.pack(reason, watched.status, watched.refused, spent, printed.size, emitted.size)


class _Watched:
    """A child as the worker watches it: its output, its refused calls, its end."""

    def __init__(self, child: int, outputs: dict[int, _Output], control: socket.socket) -> None:
        self.child, self.outputs, self.control = child, outputs, control
        self.printed, self.emitted = outputs.values()
        self.refused, self.status, self.listener = -1, -1, -1
        self.began = time.monotonic()
        self.confined = False
        self.open = set(outputs)
        self.poll = select.poll()
        self.poll.register(INPUT, 0)  # reports only that harness has closed its end
        for handle in (*outputs, control.fileno()):
            self.poll.register(handle, select.POLLIN)

    def until_end(self, seconds: float) -> Ended:
        """Watch until the child has ended, or end it; return the reason.

        Raises:
            RuntimeError: the child could not give up its rights; no code was run.
        """
        reason = self._watch(seconds)
        if reason is not Ended.BY_ITSELF:
            os.kill(self.child, signal.SIGKILL)
            self.status = os.waitpid(self.child, 0)[1]
        if self.listener >= 0:
            os.close(self.listener)
        if not self.confined:
            raise RuntimeError(f"the child was not confined within {SETUP_SECONDS:g} s")
        return reason

    def _watch(self, seconds: float) -> Ended:
        """Serve the child's pipes until it ends, writes too much or exceeds `seconds`."""
        while True:
            allowed = seconds if self.confined else SETUP_SECONDS
            remaining = self.began + allowed - time.monotonic()
            if remaining <= 0:
                return Ended.TIMED_OUT
            # A child that has closed its pipes causes no event when it ends: look every 1 ms.
            for descriptor, event in self.poll.poll(1e3 * remaining if self.open else 1):
                self._handle_event(descriptor, event)
            if self.printed.size > self.printed.limit:
                return Ended.PRINTED_TOO_MUCH
            if self.emitted.size > self.emitted.limit:
                return Ended.EMITTED_TOO_MUCH
            if not self.open:
                ended, status = os.waitpid(self.child, os.WNOHANG)
                if ended:
                    self.status = status
                    return Ended.BY_ITSELF

    def _handle_event(self, descriptor: int, event: int) -> None:
        """Handle an event: harness's end, the control socket, a refused call or a pipe."""
        if descriptor == INPUT:  # harness has closed its end
            os.kill(self.child, signal.SIGKILL)
            os._exit(0)
        elif descriptor == self.control.fileno():
            self._read_control()
        elif descriptor == self.listener:
            number = kernel.refuse_call(descriptor) if event & select.POLLIN else -1
            self.refused = number if number >= 0 else self.refused
            if event & select.POLLHUP:
                self.poll.unregister(descriptor)
        elif not self.outputs[descriptor].read(descriptor):
            self.open.discard(descriptor)
            self.poll.unregister(descriptor)

    def _read_control(self) -> None:
        """Read that the child is confined, and start its time; raise RuntimeError if not."""
        self.poll.unregister(self.control.fileno())
        message, sent, _, _ = socket.recv_fds(self.control, 1000, 1)
        if message != CONFINED_MESSAGE:
            raise RuntimeError(f"the child was not confined: {message.decode(errors='replace')}")
        # No code was run so far: its time begins here.
        self.confined, self.began = True, time.monotonic()
        if sent:
            self.listener = sent[0]
            self.poll.register(self.listener, select.POLLIN)


def _child(confinement: Confinement, size: int, seconds: float, ends: tuple[int, int, int]) -> None:
    """Read the request, give up every right, run the code and end this process."""
    try:
        request = _read(INPUT, size)
        places = (INPUT, 2, OUTPUT, FRAMES, CONTROL)
        for source, number in zip((confinement.null, confinement.null, *ends), places, strict=True):
            os.dup2(source, number)
        try:
            confinement.enter(seconds)
        except Exception as error:  # noqa: BLE001 - the worker ends with it
            os.write(CONTROL, repr(error).encode()[:1000])
        else:
            _send(ERROR, _run(json.loads(request)))
    finally:
        os._exit(0)


def _run(request: dict[str, Any]) -> bytes:
    """Run the code in a namespace of its own; return its error in one line, empty without one."""
    raw = io.BufferedWriter(io.FileIO(OUTPUT, "w"))
    out = io.TextIOWrapper(raw, encoding="utf-8", errors="replace", line_buffering=True)
    sys.stdout = out
    namespace = {"__name__": "__main__", "data": request["data"], "emit": _emit}
    error = b""
    random.seed(0)  # Python seeds it randomly after a fork
    try:
        for name, code in (("<prelude>", request["prelude"]), ("<code>", request["code"])):
            exec(compile(code, name, "exec", dont_inherit=True), namespace)
    except BaseException as raised:  # noqa: BLE001 - the boundary to the code
        error = _last_line(raised)
    for stream in (sys.stdout, out):
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001 - the code may have put anything there
            continue
    return error


def _emit(value: Any) -> None:
    """Send a value to harness as JSON; arrays and NumPy's numbers become lists and numbers.

    Raises:
        ValueError: NaN and infinity are not JSON.
    """
    _send(VALUE, json.dumps(value, default=_plain, allow_nan=False).encode())


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _last_line(error: BaseException) -> bytes:
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return b""
    try:
        line = " ".join(traceback.format_exception_only(error)[-1].split())
        return line[:MAX_ERROR].encode("utf-8", "replace")
    except BaseException:  # noqa: BLE001 - its text may be computed by the code, or memory be full
        return type(error).__name__.encode("utf-8", "replace")[:MAX_ERROR]


def _send(frame_type: bytes, content: bytes) -> None:
    _write(FRAMES, FRAME.pack(frame_type, len(content)) + content)


def _write(descriptor: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, size: int) -> bytes:
    """Read `size` bytes; return none if the other end is closed."""
    parts, remaining = [], size
    while remaining:
        if not (part := os.read(descriptor, remaining)):
            return b""
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)
