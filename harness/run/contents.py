"""What the images and videos of a run hold, so that a run is not gone on with on others.

`media.jsonl` in the run folder has a line an image or video: where its files lie, from the data
root, and a hash of each one's content.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.errors import ResumeMismatch, StoreError
from harness.files import CONTENTS, digest
from harness.media import Media, files_of
from harness.run.plan import Selection
from harness.run.resume import is_done
from harness.store.atomic import write_bytes
from harness.store.journal import Place
from harness.task import Task
from harness.types import Sample

MEDIA = "media.jsonl"
SHOWN = 5  # changed files that an error names
LENGTH = 16  # letters of a hash: 64 bits, against accidents and not against malice


@dataclass(frozen=True, slots=True)
class Held:
    """What one image or video holds."""

    of: tuple[str, ...]
    """Its files, from the data root; a sample's id where it lies in an annotation."""
    content: tuple[str, ...]
    """A hash of each; empty if it cannot be read."""


def hold(
    folder: Path,
    task: Task,
    selection: Selection,
    root: str,
    places: Mapping[str, Place],
    *,
    retry_failed: bool = False,
) -> str | None:
    """Write what the images and videos of a new run hold, or compare it with what they held.

    What no finished sample has seen may have changed: a file that was missing or damaged, and is
    mended. That is returned in words, for a note.

    Args:
        folder: The run's.
        task: Whose images they are.
        selection: The samples of the run.
        root: The data root, resolved.
        places: Where the journal has predictions, by query id.
        retry_failed: Samples that failed are asked again, so that their images may be mended.

    Raises:
        ResumeMismatch: other images than those that finished samples were answered for, or no
            record of them although a part of the samples is finished.
    """
    found = dict(_contents(task, selection, root))
    CONTENTS.save()
    path = folder / MEDIA
    old = _read(path)
    finished = {one for one, place in places.items() if is_done(place, retry_failed=retry_failed)}
    changed = {} if old is None else {of: one for of, one in found.items() if old.get(of) != one}
    if changed:
        assert old is not None, "something has changed"
        _refuse_answered(task, selection, root, finished, old, changed)
    if old is None and finished:
        _refuse_unknown(path, task, selection, finished)
    if old is None or changed:
        lines = [json.dumps({"of": one.of, "content": one.content}) for one in found.values()]
        write_bytes(path, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    return _told(changed, old or {}) if changed else None


def _contents(task: Task, selection: Selection, root: str) -> Iterator[tuple[str, Held]]:
    known: set[tuple[Path, ...]] = set()
    for sample in selection.samples(task):
        for place, media in enumerate(sample.query.media):
            paths = files_of(media)
            if paths not in known:
                names = _names(sample, place, paths, root)
                hashes = tuple(map(_content, paths)) or (_held(media),)
                yield _key(names), Held(names, hashes)
            if paths:
                known.add(paths)


def _refuse_answered(
    task: Task,
    selection: Selection,
    root: str,
    finished: Collection[str],
    old: Mapping[str, Held],
    changed: Mapping[str, Held],
) -> None:
    for sample in selection.samples(task):
        if sample.query.id not in finished:
            continue
        for place, media in enumerate(sample.query.media):
            key = _key(_names(sample, place, files_of(media), root))
            if key in changed:
                raise ResumeMismatch(
                    f"sample {sample.id!r} was answered for other images: since then "
                    f"{_told({key: changed[key]}, old)} has changed. Put the data back, choose "
                    "another --out, or pass --restart to set the old run aside and begin anew"
                )


def _refuse_unknown(
    path: Path, task: Task, selection: Selection, finished: Collection[str]
) -> None:
    """Refuse to go on where nobody knows what finished samples were answered for."""
    if any(sample.query.id not in finished for sample in selection.samples(task)):
        raise ResumeMismatch(
            f"file {path} is missing, which says what the images held that finished samples were "
            "answered for. Put it back, choose another --out, or pass --restart to set the old run "
            "aside and begin anew"
        )


def _told(changed: Mapping[str, Held], old: Mapping[str, Held]) -> str:
    names = [name for key, one in changed.items() for name in _differing(one, old.get(key))]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _differing(now: Held, before: Held | None) -> list[str]:
    if before is None or len(before.content) != len(now.content):
        return [now.of[0] if len(now.of) == 1 else f"{now.of[0]} to {now.of[-1]}"]
    both = zip(now.of, now.content, before.content, strict=True)
    return [name for name, one, other in both if one != other]


def _names(sample: Sample, place: int, paths: tuple[Path, ...], root: str) -> tuple[str, ...]:
    if not paths:
        return (f"image {place} of sample {sample.id!r}",)
    return tuple(_below(path, root + os.sep) for path in paths)


def _below(path: Path, base: str) -> str:
    """Return a file's path below the data root, however that was spelled on the command line."""
    real = _real(path.parent) / path.name
    for full in (path.absolute(), real):
        if str(full).startswith(base):
            return str(full).removeprefix(base)
    return str(real)


@lru_cache(maxsize=1024)
def _real(folder: Path) -> Path:
    return folder.resolve()


def _key(names: tuple[str, ...]) -> str:
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _content(path: Path) -> str:
    try:
        return digest(path).hex()[:LENGTH]
    except OSError:  # some are missing, which --allow-missing has let pass
        return ""


def _held(media: Media) -> str:
    return "" if media.fault else media.id[:LENGTH]


def _read(path: Path) -> dict[str, Held] | None:
    """What is written there; None if nothing is.

    Raises:
        StoreError: it is damaged.
    """
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        held = [Held(tuple(one["of"]), tuple(one["content"])) for one in lines]
        return {_key(one.of): one for one in held}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"file {path}",
            expected="what the run's images hold",
            found=str(error)[:80],
            fix="`harness eval … --restart` sets the folder aside and begins anew.",
        ) from error
