"""Search for the changes of requests that explain what the other side says."""

from collections.abc import Iterator, Sequence

from harness.leaderboards.certification.questions import Questions
from harness.leaderboards.certification.suspects import Change, suspects

SCREENED, TRIED, CAUSES = 3, 3, 3
"""Questions that a suspect is tried on first, suspects that are then tried on all, and causes."""
EXPLAINED, IMPROVED, FEWEST = 0.7, 0.75, 2
"""A suspect is a cause if it leaves at most this share of the distance, and lessens it for this
share of the questions that it changes, and for so many."""


def explain(questions: Questions, *, floor: float) -> Iterator[str]:
    """Yield each cause in words.

    Args:
        questions: With a network that can be examined.
        floor: Mean distance that needs no explanation.
    """
    accepted: list[Change] = []
    known, places = suspects(), range(len(questions.pairs))
    before = [questions.distance(place) or 0.0 for place in places]
    while len(accepted) < CAUSES and sum(before) > floor * len(before):
        worst = sorted(places, key=lambda place: -before[place])
        left = {
            words: share
            for words, change in known.items()
            if (share := _screened(questions, worst, before, [*accepted, change])) is not None
        }
        tried = {}
        for words in sorted(left, key=lambda words: left[words])[:TRIED]:
            changes = [*accepted, known[words]]
            values = [questions.distance(place, *changes) for place in places]
            tried[words] = [b if v is None else v for b, v in zip(before, values, strict=True)]
        cause = min(tried, key=lambda words: sum(tried[words]), default=None)
        if cause is None or not _explains(before, tried[cause]):
            return
        before = tried[cause]
        accepted.append(known[cause])
        yield cause


def _screened(
    questions: Questions, worst: Sequence[int], before: Sequence[float], changes: Sequence[Change]
) -> float | None:
    """Return the share of the distance that changes leave of the first questions that they change.

    None: they leave too much of one, or change none.
    """
    old, new, count = 0.0, 0.0, 0
    for place in worst:
        value = questions.distance(place, *changes)
        if value is None:
            continue
        if value > EXPLAINED * before[place]:
            return None
        old, new, count = old + before[place], new + value, count + 1
        if count == SCREENED:
            break
    return new / old if old else None


def _explains(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return True if changes explain most of the distance, and of nearly all that they change."""
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    lessened = sum(new < old for old, new in changed)
    enough = lessened >= max(FEWEST, IMPROVED * len(changed))
    return enough and sum(after) <= EXPLAINED * sum(before)
