"""Hashes of a run folder's files at the end of the run, so that a later change is named.

`checksums.json`: `{"version": 2, "files": {name: hash}, "journal": {name: hash}}`, BLAKE2b of whole
files. `journal` is null in copies of a run that are made without its predictions. What is written
after the numbers (`LATER`) is among the files as soon as it is there. It guards against changes by
mistake: who changes a file on purpose can change this one as well, so boards and the
gate besides compute their numbers from the scores again.
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
LATER = (TRAINED_ON, TRAININGS, PROTOCOLS)
"""Files of a run that not every run has, and that are written after its numbers."""


def write(folder: Path, contents: Mapping[str, bytes], *, journal: bool = True) -> None:
    """Keep the hashes of some files' contents, and of the journal as it is now.

    Those of files of `LATER` stay if the files are unchanged.

    Args:
        folder: The run folder.
        contents: The content of each file, now or after the writing.
        journal: False for a copy without predictions.
    """
    hashes = {name: _hash(content) for name, content in contents.items()}
    if (before := _read(folder)) is not None:
        later = {name: before["files"].get(name) for name in LATER}
        hashes |= {
            name: digest
            for name, digest in later.items()
            if digest and digest == _current_hash(folder / name)
        }
    write_json(
        folder / CHECKSUMS,
        {
            "version": VERSION,
            "files": hashes,
            "journal": journal_of(folder) if journal else None,
        },
    )


def write_later(folder: Path, name: str, content: bytes) -> None:
    """Write a file of `LATER` to a run folder, and keep its hash if the run is finished."""
    write_bytes(folder / name, content)
    if (plain := _read(folder)) is not None:
        plain["files"][name] = _hash(content)
        write_json(folder / CHECKSUMS, plain)


def journal_of(folder: Path) -> dict[str, str]:
    """Return the hash of each file of the journal but for empty ones, which a writer leaves."""
    hashes = {}
    for path in files(folder):
        if path.stat().st_size:
            hashes[path.name] = content_hash(path).hex()
    return hashes


def changed_files(folder: Path) -> dict[str, str]:
    """Return the files that differ from their record: each `changed_files`, `missing` or `added`.

    Raises:
        StoreError: there is no `checksums.json`, or it is damaged.
    """
    path = folder / CHECKSUMS
    plain = read_json(path)
    unfit = (KeyError, TypeError, ValueError)
    with raised_as(StoreError, f"file {path}", "hashes of the run's files", *unfit):
        if plain["version"] != VERSION:
            raise ValueError(f"version {plain['version']!r:.40}, not {VERSION}")
        kept, journal = dict(plain["files"]), plain["journal"]
        now: dict[str, object] = {name: _current_hash(folder / name) for name in kept}
        if journal is not None:
            kept |= journal
            now |= dict.fromkeys(journal) | journal_of(folder)
    return {
        name: "missing" if digest is None else "changed" if name in kept else "added"
        for name, digest in now.items()
        if digest != kept.get(name)
    }


def is_changed(folder: Path, name: str) -> bool:
    """Return True if a file is not what the run's checksums say; False if they do not name it."""
    plain = _read(folder)
    kept = None if plain is None else plain["files"].get(name)
    return kept is not None and kept != _current_hash(folder / name)


def _read(folder: Path) -> dict[str, Any] | None:
    """Read `checksums.json`; None if there is none, or another one (`changed_files` tells)."""
    try:
        plain = read_json(folder / CHECKSUMS)
    except StoreError:
        return None
    usable = isinstance(plain, dict) and isinstance(plain.get("files"), dict)
    return plain if usable and plain.get("version") == VERSION else None


def _current_hash(path: Path) -> str | None:
    with suppress(OSError):
        return content_hash(path).hex()
    return None


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
