"""Search for the changes of requests (`suspects`) that explain another backend's responses.

Greedy: the suspect that lessens the distances most is accepted as a cause, and the search goes on
with it applied, until the mean distance is small or no suspect explains it.
"""

from collections.abc import Iterator, Sequence

from harness.leaderboards.certification.questions import Questions
from harness.leaderboards.certification.suspects import Change, suspects

SCREENING_QUESTIONS = 3  # on which each suspect is tried first
MAX_TRIED = 3  # suspects that are then tried on all questions
MAX_CAUSES = 3
MAX_REMAINING, MIN_IMPROVED, MIN_QUESTIONS = 0.7, 0.75, 2
"""A suspect is a cause if at most this share of the distance remains, and if it lessens the
distance of this share of the questions that it changes, and of this number of questions."""


def explain(questions: Questions, *, floor: float) -> Iterator[str]:
    """Yield each cause as text.

    Args:
        questions: The questions, with a reference network.
        floor: Mean distance that needs no explanation.
    """
    accepted: list[Change] = []
    changes, indices = suspects(), range(len(questions.pairs))
    before = [questions.distance(index) or 0.0 for index in indices]
    while len(accepted) < MAX_CAUSES and sum(before) > floor * len(before):
        worst = sorted(indices, key=lambda index: -before[index])
        remaining: dict[str, float] = {}
        for suspect, change in changes.items():
            remaining_share = _remaining_share(questions, worst, before, [*accepted, change])
            if remaining_share is not None:
                remaining[suspect] = remaining_share
        after: dict[str, list[float]] = {}
        for suspect in sorted(remaining, key=remaining.__getitem__)[:MAX_TRIED]:
            tried = [*accepted, changes[suspect]]
            distances = [questions.distance(index, *tried) for index in indices]
            after[suspect] = [
                old if new is None else new for old, new in zip(before, distances, strict=True)
            ]
        cause = min(after, key=lambda suspect: sum(after[suspect]), default=None)
        if cause is None or not _explains(before, after[cause]):
            return
        before = after[cause]
        accepted.append(changes[cause])
        yield cause


def _remaining_share(
    questions: Questions, worst: Sequence[int], before: Sequence[float], changes: Sequence[Change]
) -> float | None:
    """Return the share of the distance that remains after changes, on the first few questions.

    These are the first of `worst` that the changes apply to. None: the changes leave more than
    MAX_REMAINING of the distance of one of them, or apply to none.
    """
    old, new, count = 0.0, 0.0, 0
    for index in worst:
        value = questions.distance(index, *changes)
        if value is None:
            continue
        if value > MAX_REMAINING * before[index]:
            return None
        old, new, count = old + before[index], new + value, count + 1
        if count == SCREENING_QUESTIONS:
            break
    return new / old if old else None


def _explains(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return True if changes explain most of the distance, in nearly all questions they change."""
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    lessened = sum(new < old for old, new in changed)
    enough = lessened >= max(MIN_QUESTIONS, MIN_IMPROVED * len(changed))
    return enough and sum(after) <= MAX_REMAINING * sum(before)
