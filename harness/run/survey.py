"""Count and hash a run's samples in one walk over them, in which no image is decoded.

The hashes show whether two runs, or a resumed run, have the same data.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harness.errors import DataError
from harness.files import ReadHashes
from harness.formats.ground_truth import GroundTruthCount
from harness.image_file import read_header
from harness.media import Media, files_of
from harness.run.batching import Selection, lost_image
from harness.run.sample_cache import SampleCache
from harness.task import Task
from harness.types import AnswerForm, Sample


@dataclass(frozen=True, slots=True)
class Survey:
    """Counts and hashes of a run's samples, from one pass in which no image is decoded."""

    n_total: int
    fingerprint: str
    """A hash of the annotation files' content and of every sample's id, question and size."""
    images: str
    """A hash of every sample's group and its images' sizes in bytes.

    Separate from `fingerprint`, because a run may be resumed after an image was repaired, which it
    notes. Boards and gates compare both.
    """
    ids: str
    """A hash of the set of the samples' ids, which is equal for equal selections."""
    forms: Mapping[frozenset[AnswerForm], int] = field(default_factory=dict)
    """Number of samples by the set of answer forms that they ask for."""
    conversions: Mapping[str, int] = field(default_factory=dict)
    """Number of images and videos by the loss of their conversion, such as CMYK to RGB."""
    odd: tuple[str, ...] = ()
    """Notes on odd ground truth and options, for the user; not recorded."""


def survey(
    task: Task, selection: Selection, *, allow_missing: bool = False, every_frame: bool = False
) -> Survey:
    """Walk over the samples once, and return their counts and hashes.

    Args:
        task: The task.
        selection: The selected samples.
        allow_missing: Accept images that are lost.
        every_frame: Read the headers of all images of a video for losses of conversion, not only
            that of the first image.

    Raises:
        DataError: an id occurs twice, a unit's samples are not consecutive, there is no sample, an
            image is lost and that is not allowed, or masks of the ground truth are transposed.
    """
    fingerprint_hash, images_hash = (hashlib.blake2b(digest_size=16) for _ in range(2))
    hashes = ReadHashes()
    if isinstance(task.samples, SampleCache):
        task.samples.fill()
        hashes = task.samples.hashes
    for path in task.annotations:
        fingerprint_hash.update(hashes.content_hash(path))
    ids: set[str] = set()
    forms: Counter[frozenset[AnswerForm]] = Counter()
    conversions: Counter[str] = Counter()
    ground_truth_notes = GroundTruthCount(task.name)
    converted: set[tuple[str, int]] = set()
    """Group, and index among its media, of each medium whose conversions are counted."""
    for sample in _in_order(selection.samples(task), task.name, ids):
        forms[frozenset(sample.query.forms)] += 1
        ground_truth_notes.add(sample)
        if not allow_missing and (fault := lost_image(sample.query)):
            raise DataError(f"{task.name}, sample {sample.id!r}: {fault}")
        sizes = [(media.size, len(media)) for media in sample.query.media]
        fingerprint_hash.update(repr((sample.id, sample.query.text, sizes)).encode())
        file_sizes = [_file_bytes(media) for media in sample.query.media]
        for index, media in enumerate(sample.query.media):
            if (sample.group, index) not in converted:
                converted.add((sample.group, index))
                conversions.update(_conversions(media, every_frame=every_frame))
        images_hash.update(repr((sample.group, file_sizes)).encode())
    if not ids:
        raise DataError(
            f"{task.name}, split {task.split}", expected="at least one sample", found="none"
        )
    return Survey(
        n_total=len(ids),
        fingerprint=fingerprint_hash.hexdigest(),
        images=images_hash.hexdigest(),
        ids=hash_of_ids(ids),
        forms=forms,
        conversions=dict(sorted(conversions.items())),
        odd=ground_truth_notes.notes(),
    )


def _in_order(samples: Iterable[Sample], task: str, ids: set[str]) -> Iterator[Sample]:
    """Yield a task's samples, and add their ids to `ids`.

    Raises:
        DataError: an id occurs twice, or a unit's samples are not consecutive.
    """
    closed: set[str] = set()
    unit: str | None = None
    for sample in samples:
        if sample.id in ids:
            raise DataError(
                f"{task}: sample {sample.id!r}", expected="each id once", found="it twice"
            )
        if sample.unit != unit:
            if sample.unit in closed:
                raise DataError(
                    f"{task}: unit {sample.unit!r}",
                    expected="its samples in a row",
                    found="others between them",
                )
            if unit is not None:
                closed.add(unit)
            unit = sample.unit
        ids.add(sample.id)
        yield sample


def _conversions(media: Media, *, every_frame: bool) -> set[str]:
    """Return the losses of a medium when its frames are converted to RGB."""
    losses = set(media.conversions)
    if every_frame and len(paths := files_of(media)) > 1:
        for path in paths[1:]:
            with suppress(DataError):  # reported by the task's check
                losses |= {*read_header(path, str(path)).conversions}
    return losses


def odd_text(notes: Sequence[str]) -> str:
    """Return notes on the ground truth as a sentence; empty for none."""
    return f"ground truth: {'; '.join(notes)}" if notes else ""


def conversion_text(conversions: Mapping[str, int]) -> str:
    """Return the number of images and videos by loss, as a sentence; empty for none.

    >>> conversion_text({"CMYK, converted to RGB by Pillow": 2})
    'converted images or videos: 2 with CMYK, converted to RGB by Pillow'
    """
    losses = "; ".join(f"{count:,} with {loss}" for loss, count in conversions.items())
    return f"converted images or videos: {losses}" if losses else ""


def hash_of_ids(ids: Iterable[str]) -> str:
    """Return a hash of a set of ids, which identifies a selection of samples."""
    digest = hashlib.blake2b(digest_size=16)
    for sample_id in sorted(ids):
        digest.update(f"{sample_id}\n".encode())
    return digest.hexdigest()


def _file_bytes(media: Media) -> int:
    """Return the bytes of a medium's files; -1 if frames are missing."""
    try:
        return media.weight
    except OSError:  # frames are missing, which --allow-missing accepted
        return -1
