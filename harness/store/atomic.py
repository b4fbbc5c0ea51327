"""Writing of whole files that survive a crash: a file has either its old or its new content.

Records, manifests and results are written and read here. A full or read-only disk is a StoreError.
"""

import json
import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import StoreError, raised_as
from harness.plain import json_scalar
from harness.responses import STRICT


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a temporary file, fsync, rename, fsync the folder.

    Raises:
        StoreError: the disk is full or read-only. The earlier file is unchanged.
    """
    temporary = files.temporary_beside(path)
    try:
        with writing(path):
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync(path.parent)
    except StoreError:
        with suppress(OSError):  # on a read-only disk
            temporary.unlink()
        raise


def writing(path: Path) -> AbstractContextManager[None]:
    """Return a context that turns an OSError into a StoreError about writing `path`."""
    fix = "Finished work is kept; run the same command again to continue."
    missing = "no folder to write it into"
    return raised_as(StoreError, f"file {path}", "to write it", OSError, fix=fix, missing=missing)


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, keys in their given order: equal values, equal bytes."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """Return the bytes that `write_json` writes."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=json_scalar)
    return text.encode("utf-8", "replace") + b"\n"


def read_json(path: Path, *, fix: str = "") -> Any:
    """Read what `write_json` wrote.

    Raises:
        StoreError: the file is missing or damaged; `fix` is its remedy.
    """
    what, unfit = f"file {path}", (OSError, ValueError, RecursionError)
    with raised_as(StoreError, what, "JSON", *unfit, fix=fix):
        return json.loads(files.read_bytes(path), **STRICT)


def sync(path: Path) -> None:
    """Force to disk what was written to a file, or renamed in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def forget(path: Path) -> None:
    """Remove a file, if it is there, so that it does not come back after a crash."""
    with writing(path), suppress(FileNotFoundError):
        path.unlink()
        sync(path.parent)
