"""Samples of a benchmark that show the same image or video, or ask the same of it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from harness.media import Media
from harness.types import Sample


def same_media(samples: Iterable[Sample]) -> list[list[str]]:
    """Return groups of samples whose images or videos are equal, as lists of their names.

    Only files of equal length are read and compared.
    """
    by_weight: dict[tuple[object, ...], dict[str, Media]] = {}
    for sample in samples:
        for place, media in enumerate(sample.query.media):
            if media.fault is None and media.weight:
                key = (media.weight, media.size, len(media))
                name = f"{sample.group}, medium {place + 1}" if place else sample.group
                by_weight.setdefault(key, {}).setdefault(name, media)
    same: dict[str, list[str]] = {}
    for alike in by_weight.values():
        if len(alike) > 1:
            for group, media in alike.items():
                same.setdefault(media.id, []).append(group)
    return sorted(sorted(groups) for groups in same.values() if len(groups) > 1)


def same_samples(walk: Callable[[], Iterable[Sample]]) -> list[list[str]]:
    """Return groups of ids of samples that are the same: media, question and ground truth.

    So are those of a pair of files and of its copy beside it.

    Args:
        walk: Gives the samples, twice the same.
    """
    asked = Counter(map(_question, walk()))
    alike: dict[tuple[object, ...], dict[str, tuple[Media, ...]]] = {}
    for sample in walk():
        media = sample.query.media
        if asked[_question(sample)] > 1 and all(
            medium.fault is None and medium.weight for medium in media
        ):
            weights = tuple(medium.weight for medium in media)
            truth = hashlib.blake2b(repr(sample.target).encode()).digest()
            alike.setdefault((_question(sample), weights, truth), {})[sample.id] = media
    same: dict[tuple[object, ...], list[str]] = {}
    for key, by_id in alike.items():
        for id, media in by_id.items() if len(by_id) > 1 else ():
            same.setdefault((key, *(medium.id for medium in media)), []).append(id)
    return sorted(sorted(ids) for ids in same.values() if len(ids) > 1)


def _question(sample: Sample) -> int:
    """A hash of what is asked and of the media's sizes, for which no file is read."""
    query = sample.query
    sizes = tuple((medium.size, len(medium)) for medium in query.media)
    return hash((query.text, query.options, query.objects, query.forms, sizes))
