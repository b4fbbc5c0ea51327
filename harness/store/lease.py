"""One writer a run folder.

The lock is `flock`, which the system drops when the process dies, however it dies. Network file
systems may not have it, or not between machines: there a lease file with a heartbeat decides.
"""

import errno
import fcntl
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from harness.errors import Locked, StoreError
from harness.files import temporary_beside
from harness.store.atomic import writing

HEARTBEAT = 10.0  # seconds between signs of life
STALE = 60.0  # a lease of another machine without a sign of life for so long is void
NO_FLOCK = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})


@contextmanager
def lease(folder: Path) -> Iterator[None]:
    """Hold the folder for writing while the block runs.

    Raises:
        Locked: another process holds it; says which.
        StoreError: the folder cannot be written.
    """
    path = folder / "lease.json"
    with writing(folder / ".lock"):
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with writing(path):
            _take_lock(handle, folder, path)
            _write(path)
        try:
            with beating(partial(_write, path), HEARTBEAT):
                yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _take_lock(handle: int, folder: Path, path: Path) -> None:
    holder = _holder(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        same_machine = holder is None or holder.get("host") == socket.gethostname()
    except BlockingIOError:
        raise _locked_error(folder, holder) from None
    except OSError as error:
        if error.errno not in NO_FLOCK:
            raise
        same_machine = False
    if holder is not None and not same_machine and time() - holder["beat"] < STALE:
        raise _locked_error(folder, holder)


def _locked_error(folder: Path, holder: dict[str, object] | None) -> Locked:
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    return Locked(
        f"run folder {folder}",
        expected="nobody else to write to it",
        found=who,
        fix="Wait for it, stop it, or choose another --out.",
    )


def _holder(path: Path) -> dict[str, Any] | None:
    try:
        plain = json.loads(path.read_bytes())
        return {"host": plain["host"], "pid": plain["pid"], "beat": float(plain["beat"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None  # a lease that was never written whole is nobody's


def _write(path: Path) -> None:
    text = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "beat": time()})
    temporary = temporary_beside(path)
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def beating(write: Callable[[], None], every: float) -> Iterator[None]:
    """Give a sign of life in every so many seconds until the block ends."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(every):
            with suppress(OSError, StoreError):  # a full disk: the journal will say it
                write()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
