"""Find duplicates in a benchmark: equal images or videos, and equal samples (`harness data`).

Files are compared by content, but only those of equal size are read.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from harness.media import Media
from harness.types import Sample, Target


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


def same_questions(walk: Callable[[], Iterable[Sample]]) -> tuple[list[list[str]], list[list[str]]]:
    """Find samples with equal media and question.

    Args:
        walk: Returns the samples; it is called twice.

    Returns:
        Lists of ids of those with equal ground truth, and lists of those with different answers.
    """
    n_by_question = Counter(map(_question, walk()))
    alike: dict[tuple[object, ...], dict[str, tuple[Media, ...]]] = {}
    """Media by sample id, for samples with equal question and equal sizes of files."""
    truths: dict[str, tuple[bytes, bytes | None]] = {}
    """Hashes of the whole ground truth and of its answer, by sample id."""
    for sample in walk():
        media = sample.query.media
        if n_by_question[_question(sample)] > 1 and all(
            medium.fault is None and medium.weight for medium in media
        ):
            weights = tuple(medium.weight for medium in media)
            truths[sample.id] = _hash(sample.target), _answer(sample.target)
            alike.setdefault((_question(sample), weights), {})[sample.id] = media
    groups: dict[tuple[object, ...], list[str]] = {}
    """Ids of samples with equal question and content of media."""
    for key, by_id in alike.items():
        if len(by_id) > 1:
            for id, media in by_id.items():
                groups.setdefault((key, *(medium.id for medium in media)), []).append(id)
    same: dict[tuple[object, ...], list[str]] = {}
    for group, ids in groups.items():
        for id in ids:
            same.setdefault((group, truths[id][0]), []).append(id)
    differing = []
    for ids in groups.values():
        answers = {truths[id][1] for id in ids} - {None}
        if len(answers) > 1:
            differing.append(sorted(ids))
    return sorted(sorted(ids) for ids in same.values() if len(ids) > 1), sorted(differing)


def _answer(target: Target | None) -> bytes | None:
    """Return a hash of an answer; the order of several right texts does not count."""
    if target is None:
        return None
    texts = sorted({target.answer.text or "", *target.references}) if target.references else None
    return _hash(texts or target.answer)


def _hash(value: object) -> bytes:
    return hashlib.blake2b(repr(value).encode()).digest()


def _question(sample: Sample) -> int:
    """Return a hash of the question and of the media's sizes, without reading files."""
    query = sample.query
    sizes = tuple((medium.size, len(medium)) for medium in query.media)
    return hash((query.text, query.options, query.objects, query.forms, sizes))
