"""Hashes of a run folder's files at the end of the run, so that a later change is named.

`checksums.json`: `{"version": 2, "files": {name: hash}, "journal": {name: hash}}`, BLAKE2b of whole
files. `journal` is null in copies of a run that are made without its predictions. It guards against
changes by mistake: who changes a file on purpose can change this one as well, so boards and the
gate besides compute their numbers from the scores again.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from harness.errors import StoreError
from harness.files import read_bytes
from harness.store.atomic import read_json, write_json
from harness.store.journal import files

VERSION = 2
CHECKSUMS = "checksums.json"


def write(folder: Path, contents: Mapping[str, bytes], *, journal: bool = True) -> None:
    """Keep the hashes of some files' contents, and of the journal as it is now.

    Args:
        folder: The run folder.
        contents: The content of each file, now or after the writing.
        journal: False for a copy without predictions.
    """
    write_json(
        folder / CHECKSUMS,
        {
            "version": VERSION,
            "files": {name: _hash(content) for name, content in contents.items()},
            "journal": journal_of(folder) if journal else None,
        },
    )


def journal_of(folder: Path) -> dict[str, str]:
    """The hash of each file of the journal; empty files, which a writer leaves, are none."""
    found = {}
    for path in files(folder):
        if path.stat().st_size:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, _blake).hexdigest()
    return found


def changed_files(folder: Path) -> dict[str, str]:
    """Return the files that differ from their record: each `changed_files`, `missing` or `added`.

    Raises:
        StoreError: there is no `checksums.json`, or it is damaged.
    """
    path = folder / CHECKSUMS
    plain = read_json(path)
    try:
        if plain["version"] != VERSION:
            raise StoreError(
                f"file {path}", expected=f"version {VERSION}", found=repr(plain["version"])[:40]
            )
        kept, journal = dict(plain["files"]), plain["journal"]
        now: dict[str, object] = {name: _current_hash(folder / name) for name in kept}
        if journal is not None:
            kept |= journal
            now |= dict.fromkeys(journal) | journal_of(folder)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"file {path}",
            expected="hashes of the run's files",
            found=f"{type(error).__name__}: {error}",
        ) from error
    return {
        name: "missing" if one is None else "changed" if name in kept else "added"
        for name, one in now.items()
        if one != kept.get(name)
    }


def _current_hash(path: Path) -> str | None:
    try:
        return _hash(read_bytes(path))
    except OSError:
        return None


def _hash(content: bytes) -> str:
    return str(_blake(content).hexdigest())


def _blake(content: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=16)
