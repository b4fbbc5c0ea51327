"""`checksums.json`: hashes of a run folder's files at the end of the run, to find later changes.

It holds `{"version": 2, "files": {name: hash}, "journal": {name: hash}}`, with BLAKE2b hashes (16
bytes) of whole files. `journal` is null in copies of a run without its predictions. Files that are
written after the numbers (`LATER_FILES`) are added when they are written. Checksums guard against
changes by mistake only: someone who changes a file on purpose can change this one too, so boards
and the gate also compute their numbers from the scores again.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import StoreError, raised_as
from harness.files import content_hash
from harness.store.atomic import read_json, write_bytes, write_json
from harness.store.journal import files

VERSION = 2
CHECKSUMS = "checksums.json"
TRAINED_ON, TRAININGS, PROTOCOLS = "trained_on.json", "training.json", "protocols.json"
LATER_FILES = (TRAINED_ON, TRAININGS, PROTOCOLS)
"""Files of a run that not every run has, and that are written after its numbers."""


def write(folder: Path, contents: Mapping[str, bytes], *, journal: bool = True) -> None:
    """Write `checksums.json` with the hashes of these contents, and of the journal as it is now.

    The hashes of files of `LATER_FILES` stay if the files are unchanged.

    Args:
        folder: The run folder.
        contents: The content of each file by name; the files may be written afterwards.
        journal: False for a copy without predictions.
    """
    hashes = {name: _hash(content) for name, content in contents.items()}
    if (before := _read(folder)) is not None:
        for name in LATER_FILES:
            digest = before["files"].get(name)
            if digest and digest == _current_hash(folder / name):
                hashes[name] = digest
    write_json(
        folder / CHECKSUMS,
        {
            "version": VERSION,
            "files": hashes,
            "journal": journal_of(folder) if journal else None,
        },
    )


def write_later(folder: Path, name: str, content: bytes) -> None:
    """Write a file of `LATER_FILES` to a run folder, and keep its hash if the run is finished."""
    write_bytes(folder / name, content)
    if (plain := _read(folder)) is not None:
        plain["files"][name] = _hash(content)
        write_json(folder / CHECKSUMS, plain)


def journal_of(folder: Path) -> dict[str, str]:
    """Return the hash of each file of the journal by name, but for empty ones of killed writers."""
    hashes = {}
    for path in files(folder):
        if path.stat().st_size:
            hashes[path.name] = content_hash(path).hex()
    return hashes


def changed_files(folder: Path) -> dict[str, str]:
    """Return the files that differ from their record, each as `changed`, `missing` or `added`.

    Raises:
        StoreError: there is no `checksums.json`, or it is damaged.
    """
    path = folder / CHECKSUMS
    plain = read_json(path)
    unfit = (KeyError, TypeError, ValueError)
    with raised_as(StoreError, f"file {path}", "hashes of the run's files", *unfit):
        if plain["version"] != VERSION:
            raise ValueError(f"version {plain['version']!r:.40}, not {VERSION}")
        recorded, journal = dict(plain["files"]), plain["journal"]
        current: dict[str, object] = {name: _current_hash(folder / name) for name in recorded}
        if journal is not None:
            recorded |= journal
            current |= dict.fromkeys(journal) | journal_of(folder)
    return {
        name: "missing" if digest is None else "changed" if name in recorded else "added"
        for name, digest in current.items()
        if digest != recorded.get(name)
    }


def is_changed(folder: Path, name: str) -> bool:
    """Return True if a file differs from its checksum; False if the run has no checksum of it."""
    plain = _read(folder)
    recorded = None if plain is None else plain["files"].get(name)
    return recorded is not None and recorded != _current_hash(folder / name)


def _read(folder: Path) -> dict[str, Any] | None:
    """Read `checksums.json`; None if it is absent, damaged or of another version.

    For these faults `changed_files` raises an error.
    """
    try:
        plain = read_json(folder / CHECKSUMS)
    except StoreError:
        return None
    is_valid = isinstance(plain, dict) and isinstance(plain.get("files"), dict)
    return plain if is_valid and plain.get("version") == VERSION else None


def _current_hash(path: Path) -> str | None:
    """Return the hash of a file; None: it cannot be read."""
    with suppress(OSError):
        return content_hash(path).hex()
    return None


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
