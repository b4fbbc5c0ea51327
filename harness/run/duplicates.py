"""Find duplicates in a benchmark: equal images or videos, and equal samples (`harness data`).

Files are compared by content, but only those of equal size are read.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from harness.media import Media
from harness.types import Sample


def same_media(samples: Iterable[Sample]) -> list[list[str]]:
    """Return lists of the names of samples' groups whose images or videos are equal."""
    by_weight: dict[tuple[object, ...], dict[str, Media]] = {}
    for sample in samples:
        for index, media in enumerate(sample.query.media):
            if media.fault is None and media.weight:
                key = (media.weight, media.size, len(media))
                name = f"{sample.group}, medium {index + 1}" if index else sample.group
                by_weight.setdefault(key, {}).setdefault(name, media)
    same: dict[str, list[str]] = {}
    for alike in by_weight.values():
        if len(alike) > 1:
            for group, media in alike.items():
                same.setdefault(media.id, []).append(group)
    return sorted(sorted(groups) for groups in same.values() if len(groups) > 1)


def same_samples(walk: Callable[[], Iterable[Sample]]) -> list[list[str]]:
    """Return lists of ids of samples with equal media, question and ground truth.

    Args:
        walk: Returns the samples; it is called twice.
    """
    n_by_question = Counter(map(_question, walk()))
    alike: dict[tuple[object, ...], dict[str, tuple[Media, ...]]] = {}
    for sample in walk():
        media = sample.query.media
        if n_by_question[_question(sample)] > 1 and all(
            medium.fault is None and medium.weight for medium in media
        ):
            weights = tuple(medium.weight for medium in media)
            truth = hashlib.blake2b(repr(sample.target).encode()).digest()
            alike.setdefault((_question(sample), weights, truth), {})[sample.id] = media
    same: dict[tuple[object, ...], list[str]] = {}
    for key, by_id in alike.items():
        if len(by_id) > 1:
            for id, media in by_id.items():
                same.setdefault((key, *(medium.id for medium in media)), []).append(id)
    return sorted(sorted(ids) for ids in same.values() if len(ids) > 1)


def _question(sample: Sample) -> int:
    """Return a hash of the question and of the media's sizes, without reading files."""
    query = sample.query
    sizes = tuple((medium.size, len(medium)) for medium in query.media)
    return hash((query.text, query.options, query.objects, query.forms, sizes))
