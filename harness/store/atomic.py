"""Write a file whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import files
from harness.errors import StoreError


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step: a temporary file, fsync, rename, fsync the folder.

    Raises:
        StoreError: the disk is full or read-only. The earlier file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> StoreError:
    """The error for a file that could not be written."""
    return StoreError(
        f"file {path}",
        expected="to write it",
        found=error.strerror or str(error),
        fix="What was finished before is kept; run the same command again to go on.",
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into the StoreError of a file or folder that could not be written."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, keys in their given order: equal values, equal bytes."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """Return the bytes that `write_json` writes."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote.

    Raises:
        StoreError: missing or damaged.
    """
    try:
        return json.loads(files.read_bytes(path))
    except FileNotFoundError as error:
        raise StoreError(f"file {path}", expected="a file", found="none") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"file {path}", expected="JSON", found=str(error)) from error


def sync(path: Path) -> None:
    """Make durable what was written to a file, or renamed in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def forget(path: Path) -> None:
    """Remove a file durably, if it is there."""
    try:
        path.unlink()
        sync(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(path, error) from error
