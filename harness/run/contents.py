"""Content hashes of a run's images and videos, so that a run is not resumed on changed media.

`media.jsonl` in the run folder has a line for each image or video: the paths of its files,
relative to the data root, and a hash of each file's content. Each share of a run has its own file
until the run is resumed, so that folders that are copied together can be compared.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from harness.errors import ResumeMismatch, StoreError, raised_as
from harness.files import CONTENTS, digest
from harness.media import Media, files_of
from harness.plain import from_plain
from harness.run.batching import Selection, is_done
from harness.store.atomic import forget, write_bytes
from harness.store.journal import JournalPosition
from harness.task import Task
from harness.types import Sample

MEDIA = "media.jsonl"
SHARE_FILE = "media.{}-{}.jsonl"
"""Name of the file of share i of n."""
SHOWN = 5  # changed files that an error names
HASH_DIGITS = 16  # hexadecimal digits of a hash: 64 bits detect accidents, not malice


@dataclass(frozen=True, slots=True)
class MediaContent:
    """File names and content hashes of one image or video."""

    sources: tuple[str, ...]
    """Paths of its files relative to the data root; without files, a name with the sample's id."""
    content: tuple[str, ...]
    """A hash of each file's content, `HASH_DIGITS` characters; empty if the file cannot be read."""


def write_contents(
    folder: Path,
    task: Task,
    selection: Selection,
    root: str,
    places: Mapping[str, JournalPosition],
    *,
    retry_failed: bool = False,
    shard: tuple[int, int] | None = None,
) -> str | None:
    """Write the content hashes of a new run's media, or compare them with the stored ones.

    Media that no finished sample depends on may have changed, such as a repaired file.

    Args:
        folder: The run folder.
        task: The task that the media belong to.
        selection: The samples of the run.
        root: The data root, resolved.
        places: The journal's entry of each prediction, by query id.
        retry_failed: Failed samples are predicted again, so their media may have changed.
        shard: The share of the run that is predicted; None: the whole run.

    Returns:
        A note that names changed media, or says that the hashes of a finished run were missing;
        None if there is nothing to note.

    Raises:
        ResumeMismatch: media of finished samples have changed, or differ between shares, or
            `media.jsonl` is missing although a part of the samples is finished.
    """
    contents = dict(_contents(task, selection, root))
    CONTENTS.save()
    path = folder / (SHARE_FILE.format(*shard) if shard else MEDIA)
    stored = [
        path,
        *sorted({*folder.glob(MEDIA), *folder.glob(SHARE_FILE.format("*", "*"))} - {path}),
    ]
    old = _stored_contents(stored)
    finished = {
        query_id for query_id, entry in places.items() if is_done(entry, retry_failed=retry_failed)
    }
    changed = {}
    if old is not None:
        changed = {key: content for key, content in contents.items() if old.get(key) != content}
        if changed:
            _refuse_answered(task, selection, root, finished, old, changed)
    if old is None and finished:
        _refuse_unknown(path, task, selection, finished)
    if old is None or changed or not path.exists():
        lines = [json.dumps(asdict(content)) for content in contents.values()]
        write_bytes(path, "".join(line + "\n" for line in lines).encode("utf-8", "replace"))
    for stale in stored[1:]:
        forget(stale)
    if changed:
        names = _changes_text(changed, old or {})
        return f"changed since the run began, before anything was answered for it: {names}"
    if old is None and finished:
        return (
            f"{MEDIA} was missing: whether the images are those that were answered is not known. "
            "It is written from today's"
        )
    return None


def _contents(task: Task, selection: Selection, root: str) -> Iterator[tuple[str, MediaContent]]:
    """Yield (key, content) of each image or video, once if several samples show its files."""
    hashed: set[tuple[Path, ...]] = set()
    for sample in selection.samples(task):
        for medium_index, media in enumerate(sample.query.media):
            paths = files_of(media)
            if paths not in hashed:
                names = _names(sample, medium_index, paths, root)
                hashes = tuple(map(_content, paths)) or (_content_of(media),)
                yield _key(names), MediaContent(names, hashes)
            if paths:
                hashed.add(paths)


def _refuse_answered(
    task: Task,
    selection: Selection,
    root: str,
    finished: Collection[str],
    old: Mapping[str, MediaContent],
    changed: Mapping[str, MediaContent],
) -> None:
    """Raise ResumeMismatch if a finished sample shows media that have changed."""
    for sample in selection.samples(task):
        if sample.query.id not in finished:
            continue
        for medium_index, media in enumerate(sample.query.media):
            key = _key(_names(sample, medium_index, files_of(media), root))
            if key in changed:
                raise ResumeMismatch(
                    f"sample {sample.id!r} was answered for other images: since then "
                    f"{_changes_text({key: changed[key]}, old)} has changed. Put the data back, "
                    "choose another --out, or pass --restart to set the old run aside "
                    "and start again"
                )


def _refuse_unknown(
    path: Path, task: Task, selection: Selection, finished: Collection[str]
) -> None:
    """Raise ResumeMismatch if unfinished samples are left; the finished ones' media are unknown."""
    if any(sample.query.id not in finished for sample in selection.samples(task)):
        raise ResumeMismatch(
            f"file {path} is missing, which has the content of the images of finished samples. "
            "Restore it, choose another --out, or pass --restart to rename the old run and start "
            "again"
        )


def _changes_text(changed: Mapping[str, MediaContent], old: Mapping[str, MediaContent]) -> str:
    """Return the names of changed files, the first `SHOWN` of them."""
    names = [
        name for key, content in changed.items() for name in _differences(content, old.get(key))
    ]
    more_text = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more_text


def _differences(now: MediaContent, before: MediaContent | None) -> list[str]:
    if before is None or len(before.content) != len(now.content):
        return [
            now.sources[0] if len(now.sources) == 1 else f"{now.sources[0]} to {now.sources[-1]}"
        ]
    files = zip(now.sources, now.content, before.content, strict=True)
    return [name for name, new, old in files if new != old]


def _names(sample: Sample, index: int, paths: tuple[Path, ...], root: str) -> tuple[str, ...]:
    if not paths:
        return (f"image {index} of sample {sample.id!r}",)
    return tuple(_relative_path(path, root + os.sep) for path in paths)


def _relative_path(path: Path, base: str) -> str:
    """Return a file's path below the data root, also through symbolic links."""
    real = _real_path(path.parent.absolute()) / path.name
    for full in (path.absolute(), real):
        if str(full).startswith(base):
            return str(full).removeprefix(base)
    return str(real)


@lru_cache(maxsize=1024)
def _real_path(folder: Path) -> Path:
    return folder.resolve()


def _key(names: tuple[str, ...]) -> str:
    """Return a hash of a medium's names, which is shorter than the names of a video's frames."""
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _content(path: Path) -> str:
    try:
        return digest(path).hex()[:HASH_DIGITS]
    except OSError:  # a missing file that --allow-missing accepted
        return ""


def _content_of(media: Media) -> str:
    return "" if media.fault else media.id[:HASH_DIGITS]


def _stored_contents(paths: Sequence[Path]) -> dict[str, MediaContent] | None:
    """Return the content that the files of a folder record; None if there are no files.

    Raises:
        ResumeMismatch: the files of two shares contradict each other.
        StoreError: a file is damaged.
    """
    stored: dict[str, MediaContent] | None = None
    for path in paths:
        contents = _read_contents(path)
        if stored is None or contents is None:
            stored = stored or contents
            continue
        changed = {
            key: content for key, content in contents.items() if stored.get(key, content) != content
        }
        if changed:
            raise ResumeMismatch(
                f"shares in {path.parent} were predicted on other images (according to "
                f"{path.name}): {_changes_text(changed, stored)}. Predict the wrong ones again, on "
                "the same data, and copy the folders together again"
            )
    return stored


def _read_contents(path: Path) -> dict[str, MediaContent] | None:
    """Read `media.jsonl` into a mapping by key of the names; None if there is no file.

    Raises:
        StoreError: the file is damaged.
    """
    if not path.exists():
        return None
    fix = "`harness eval … --restart` renames the folder and starts again."
    expected = "what the run's images hold"
    with raised_as(StoreError, f"file {path}", expected, OSError, ValueError, fix=fix):
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        contents = [from_plain(MediaContent, line) for line in lines]
        return {_key(content.sources): content for content in contents}
