"""The lease of a run folder, by which only one process at a time writes to it.

The lock is `flock`, which the system releases whenever the process dies. Network file systems may
not support it, or not between machines: there `lease.json`, with host, process and the time of the
last heartbeat, decides.
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

HEARTBEAT_SECONDS = 10.0  # seconds between heartbeats
STALE_SECONDS = 60.0  # seconds without a heartbeat after which another machine's lease is void
NO_FLOCK_ERRORS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})
"""Errors of file systems without `flock`."""


@contextmanager
def lease(folder: Path, option: str = "--out") -> Iterator[None]:
    """Hold the folder for writing while the block runs; `option` names it on the command line.

    Raises:
        Locked: another process holds it; the message names it.
        StoreError: the folder cannot be written.
    """
    path = folder / "lease.json"
    with writing(folder / ".lock"):
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with writing(path):
            _take_lock(handle, folder, path, option)
            _write(path)
        try:
            with beating(partial(_write, path), HEARTBEAT_SECONDS):
                yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _take_lock(handle: int, folder: Path, path: Path, option: str) -> None:
    """Lock the open file `.lock` (`handle`); raise Locked if another process holds the folder.

    That is a process with the lock, or one on another machine whose lease at `path` is not stale.
    """
    holder = _holder(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_lock_enough = holder is None or holder.get("host") == socket.gethostname()
    except BlockingIOError:
        raise _locked_error(folder, holder, option) from None
    except OSError as error:
        if error.errno not in NO_FLOCK_ERRORS:
            raise
        is_lock_enough = False
    if holder is not None and not is_lock_enough and time() - holder["beat"] < STALE_SECONDS:
        raise _locked_error(folder, holder, option)


def _locked_error(folder: Path, holder: dict[str, object] | None, option: str) -> Locked:
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    return Locked(
        f"folder {folder}",
        expected="nobody else to write to it",
        found=who,
        fix=f"Wait for it, stop it, or choose another {option}.",
    )


def _holder(path: Path) -> dict[str, Any] | None:
    """Read "host", "pid" and "beat" (last heartbeat) of a lease; None: there is no valid one."""
    try:
        plain = json.loads(path.read_bytes())
        return {"host": plain["host"], "pid": plain["pid"], "beat": float(plain["beat"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None  # a lease that was not written whole does not count


def _write(path: Path) -> None:
    """Write the lease of this process, with the time as its heartbeat."""
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
    """Call `write` in a thread, once in `every` seconds, until the block ends."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(every):
            with suppress(OSError, StoreError):  # a full disk: the journal reports it
                write()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
