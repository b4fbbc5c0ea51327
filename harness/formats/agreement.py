"""Evidence from the ground truth that a file's answers mean something else than they are read as.

A reading is another meaning of all answers of a file: boxes of a resized image, times in
milliseconds, letters of options that are counted from 1, masks of what is not meant, the answers of
the sample before. Where many answers are right in another reading and wrong as they are read, that
is hardly chance: how often the reading's answers fit the ground truth of *other* samples tells what
chance does.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.errors import DataError
from harness.formats.pairs import KINDS, Kind, pairs_of
from harness.formats.readings import CORNERS, SIZES, Pair, Reading, Rows, fitted, scaled
from harness.types import Answer, Prediction, Sample

MOST = 400
"""Samples with a ground truth that are looked at: the first ones."""
LEAST = 3
"""Answers that have to be right in another reading alone."""
TIMES = 4
"""Times as many answers as are right only as they are read."""
CHANCE = 1e-3
"""Probability of so many hits by chance up to which a reading is reported."""
OTHERS, PRIOR = 16, 10
"""Other samples that each answer is compared with for the chance of a hit, and comparisons without
a hit but one that are added, as few prove nothing."""
HALF = 0.5
"""Agreement that is a hit, and share of hits from which answers are right as they are read."""
MARGIN = 0.25
"""Mean agreement by which a reading is better."""
SURPLUS = 0.1
"""Mean agreement by which a reading is better than places that are moved as most of them are."""
TRIED = 5
"""Readings that are tested: those that agree best."""
SHARE = 0.3
"""Share of hits from which a reading explains a file."""
NEIGHBOURS = {
    -1: "those of the sample before: are ids shifted by one?",
    1: "those of the sample after: are ids shifted by one?",
}


@dataclass(slots=True)
class Agreement:
    """Pairs of a prediction and the ground truth of its sample, by the form of answer."""

    pairs: dict[str, list[Pair]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    seen: int = 0
    """Number of samples that were looked at, at most `MOST`."""
    said: int = 0
    """Number of answers that a model's text was read for: its mistakes are its own."""

    def add(self, samples: Iterable[Sample], predictions: Iterable[Prediction]) -> None:
        """Keep the pairs of the first samples that have a ground truth."""
        for sample, prediction in zip(samples, predictions, strict=True):
            if sample.target is None or self.seen == MOST:
                continue
            self.seen += 1
            self.said += bool(prediction.responses)
            answer = prediction.answer or Answer()
            for kind, pair in pairs_of(answer, sample.target.answer, sample):
                self.pairs[kind].append(pair)

    def notes(
        self, thing: str, file: str, *, sizes: bool = False, stated: bool = False
    ) -> Iterator[str]:
        """Yield a note on each form whose answers are right in another reading.

        Args:
            thing: What the file is, for messages.
            file: The file's name, for the command to type.
            sizes: True if its boxes were read as [left, top, width, height].
            stated: True if its author says what its coordinates mean.

        Raises:
            DataError: they are places in the file, whose meaning nobody has stated.
        """
        for name, kind in KINDS.items():
            orders = (SIZES if sizes else CORNERS) if name == "boxes" else ()
            answered = [pair for pair in self.pairs[name] if pair.predicted.size]
            scales = fitted(answered) if kind.is_place else ()
            likely = _likely(self.pairs[name], kind, (*orders, *kind.readings, *scales))
            if likely is None:
                continue
            right, before, meaning, reading = likely
            found = (
                f"{right} of {len(answered)} that agree with the ground truth if they are "
                f"{meaning}, and {before} as they are read"
            )
            if kind.is_place and reading and not stated and not self.said:
                fix = reading.fix(file)
                raise DataError(
                    f"{thing}: {kind.about}",
                    expected="pixels of the original image",
                    found=found,
                    fix=f"{fix}{'. ' if fix else ''}If they are as documented, say so: "
                    "--coordinates pixels.",
                )
            yield f"{kind.about}: {found}"


def _likely(
    given: Sequence[Pair], kind: Kind, readings: Sequence[Reading]
) -> tuple[int, int, str, Reading | None] | None:
    """Return the hits in the likeliest reading, the hits as read, its name, and the reading.

    None: the answers are right as they are read, or no reading explains them.
    """
    pairs = [pair for pair in given if pair.predicted.size]
    before = _agreements(pairs, kind)
    if len(pairs) < LEAST or (before >= HALF).mean() >= HALF:
        return None
    tried: list[tuple[Rows, str, Reading | None, list[Pair]]] = []
    for step, name in NEIGHBOURS.items():
        moved = [pair for pair in _moved(given, step) if pair.predicted.size]
        tried.append((_agreements(moved, kind), name, None, moved))
    for reading in readings:
        read = [pair._replace(predicted=reading.turn(pair.predicted, pair.size)) for pair in pairs]
        tried.append((_agreements(read, kind), reading.name, reading, read))
    tried.sort(key=lambda one: -one[0].mean())
    biased = _agreements(_centred(pairs), kind).mean() + SURPLUS if kind.is_place else 0
    for after, name, likely, read in tried[:TRIED]:
        if after.mean() >= biased and _is_evidence(before, after, read, kind):
            return int((after >= HALF).sum()), int((before >= HALF).sum()), name, likely
    return None


def _centred(pairs: Sequence[Pair]) -> list[Pair]:
    """Return places without what moves most of them: a poor model's bias is no other meaning."""
    bias = np.median(
        [
            (_middle(pair.truth) - _middle(pair.predicted)) / np.maximum(pair.size, 1)
            for pair in pairs
        ],
        axis=0,
    )
    moved = []
    for pair in pairs:
        offset = np.tile(bias * pair.size, pair.predicted.shape[1] // 2)
        moved.append(pair._replace(predicted=pair.predicted + offset))
    return moved


def _middle(rows: Rows) -> Rows:
    """Return the mean x and y of places."""
    return np.array([rows[:, 0::2].mean(), rows[:, 1::2].mean()])


def _agreements(pairs: Iterable[Pair], kind: Kind) -> Rows:
    return np.array([kind.agreement(*pair[:3]) for pair in pairs])


def _moved(pairs: Sequence[Pair], step: int) -> list[Pair]:
    """Return each prediction with the ground truth `step` samples later; none of the same image."""
    moved = []
    for place, pair in enumerate(pairs):
        other = pairs[place + step] if 0 <= place + step < len(pairs) else None
        is_other = other is not None and (not pair.group or other.group != pair.group)
        nothing = np.full_like(pair.truth, np.nan)
        moved.append(pair._replace(truth=other.truth if other and is_other else nothing))
    return moved


def _is_evidence(before: Rows, after: Rows, read: Sequence[Pair], kind: Kind) -> bool:
    """Return True if hits in a reading are no chance and explain the misses as it is read."""
    was, now = before >= HALF, after >= HALF
    alone, lost = int((now & ~was).sum()), int((was & ~now).sum())
    is_better = after.mean() >= before.mean() + MARGIN
    if alone < max(LEAST, TIMES * lost) or now.mean() < SHARE or not is_better:
        return False
    count = len(read)
    hits, compared = 1.0, PRIOR
    for offset in range(2, 2 + min(OTHERS, count - 2)):
        for place, pair in enumerate(read):
            other = read[(place + offset) % count]
            truth = other.truth
            if kind.is_place and 0 not in (*pair.size, *other.size):
                (width, height), (its_width, its_height) = pair.size, other.size
                truth = scaled(width / its_width, height / its_height, truth)
            hits += kind.agreement(pair.predicted, truth, pair.size) >= HALF
            compared += 1
    return _tail(int(now.sum()), count, hits / compared) <= CHANCE


def _tail(hits: int, count: int, chance: float) -> float:
    """Return the probability of at least so many hits, of `count` with this chance each.

    >>> round(_tail(2, 3, 0.5), 6)
    0.5
    """
    return sum(
        math.comb(count, k) * chance**k * (1 - chance) ** (count - k)
        for k in range(hits, count + 1)
    )
