"""Test against the ground truth whether a file's answers have another meaning than the one read.

A reading is another meaning of all answers of a file, or of those of one type of question: boxes of
a resized image, times in milliseconds, inverted masks. If many answers are right in another reading
and wrong as they are read, chance is tested: how often do the reading's answers fit the ground
truth of *other* samples? Scoring calls `Agreement.add` with samples and predictions, then `notes`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.errors import DataError
from harness.formats.evidence import (
    CHANCE,
    HALF,
    LEAST,
    MARGIN,
    PRIOR,
    TIMES,
    TRIED,
    Finding,
    tail,
)
from harness.formats.frames import FrameOrder
from harness.formats.orders import likeliest_order
from harness.formats.pairs import KINDS, Kind, pairs_of
from harness.formats.readings import ALL, CORNERS, SIZES, Pair, Reading, Rows, fitted, scaled
from harness.formats.shifts import constant_shift
from harness.types import Answer, Prediction, Sample

MOST, MOST_PLAIN = 400, 2000
"""Number of first samples with a ground truth that are compared: in any kind of answer, and in
letters and numbers."""
OF_TYPE, LEAST_OF_TYPE, MOST_OF_TYPES = 100, 5, 20_000
"""Most samples compared of each type of question; least of them that must be answered; and number
of samples from the beginning among which they are taken."""
MANY = 10
"""Number of answers in all of which a poor model hardly makes the same mistake."""
SAME = 0.01
"""Agreement by which a shift that is fitted to the answers exceeds the right one by its fit."""
NEARLY = 0.85
"""Agreement that a mask reaches in its right reading."""
OTHERS = 16
"""Number of other samples that each answer is compared with to estimate the chance of a hit."""


@dataclass(slots=True)
class Agreement:
    """Pairs of a prediction and its sample's ground truth, by the kind of answer (`KINDS`)."""

    pairs: dict[str, list[Pair]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    ids: list[str] = field(default_factory=list)
    """The ids of all samples."""
    seen: int = 0
    """Number of samples with a ground truth."""
    n_texts: int = 0
    """Number of answers that were read from a model's text, whose mistakes are the model's own."""
    frames: FrameOrder = field(default_factory=FrameOrder)
    of_type: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of samples of each type that were compared."""

    def add(self, samples: Iterable[Sample], predictions: Iterable[Prediction]) -> None:
        """Keep the pairs of the first samples with a ground truth, in all and of each type."""
        for sample, prediction in zip(samples, predictions, strict=True):
            index = len(self.ids)
            self.ids.append(sample.id)
            if sample.target is None:
                continue
            types = frozenset(sample.categories.items())
            is_rare = any(self.of_type[label] < OF_TYPE for label in types)
            self.seen += 1
            if self.seen > (MOST_OF_TYPES if is_rare else MOST_PLAIN):
                continue
            self.of_type.update(types)
            if prediction.responses:
                self.n_texts += 1
            answer = prediction.answer or Answer()
            is_plain = self.seen > MOST
            self.frames.add(answer.masks, sample.target.answer.masks)
            for kind_name, pair in pairs_of(answer, sample.target.answer, sample, plain=is_plain):
                self.pairs[kind_name].append(pair._replace(sample_index=index, types=types))

    def notes(
        self, thing: str, file: str, *, sizes: bool = False, stated: bool = False
    ) -> Iterator[str]:
        """Yield a note on each kind of answer that is right in another reading.

        Args:
            thing: The kind of file and its path, for messages.
            file: The file's name, for the command to type.
            sizes: True if its boxes were read as [left, top, width, height].
            stated: True if the user states what its coordinates mean.

        Raises:
            DataError: boxes or points are right in another reading, and `stated` is False.
        """
        for name, kind in KINDS.items():
            pairs = self.pairs[name]
            orders = (SIZES if sizes else CORNERS) if name == "boxes" else ()
            readings = (*orders, *kind.readings)
            finding = self._finding(name, readings)
            if (
                finding
                and kind.has_coordinates
                and finding.reading
                and not stated
                and not self.n_texts
            ):
                fix = finding.reading.fix(file)
                of_truth = " on both sides" if finding.reading.turns_truth else ""
                raise DataError(
                    f"{thing}: {kind.about}",
                    expected=f"pixels of the original image{of_truth}",
                    found=str(finding),
                    fix=f"{fix}{'. ' if fix else ''}If they are in pixels{of_truth}, state it: "
                    "--coordinates pixels.",
                )
            parts = {}
            if finding is None or (finding.reading and finding.before):
                # Answers that are right as they are read may be those of other questions.
                distinct_readings = [reading for reading in readings if reading.share < ALL]
                parts = _by_type(pairs, kind, distinct_readings)
            for (category, value), part in parts.items():
                yield f"{kind.about} of {category} {value!r}: {part}"
            if finding and not parts:
                reading = None if kind.has_coordinates else finding.reading
                fix = "" if reading is None else reading.fix(file)
                yield f"{kind.about}: {finding}{f'. {fix}' if fix else ''}"
            if name == "interval" and not finding and (shift := constant_shift(pairs)):
                yield f"{kind.about}: {shift}"
        if order := self.frames.finding():
            yield f"masks of videos: {order}"

    def _finding(self, name: str, readings: Sequence[Reading]) -> Finding | None:
        """Return the reading, or the order of samples, in which a kind's answers are right."""
        kind = KINDS[name]
        first = [pair for pair in self.pairs[name] if pair.sample_index < MOST_PLAIN]
        answered = [pair for pair in first if pair.predicted.size]
        if len(answered) < LEAST:
            return None
        scales = fitted(answered[:MOST]) if kind.has_coordinates else ()
        finding = _likely(answered[:MOST], kind, (*readings, *scales))
        return finding or likeliest_order(first, kind, self.ids, _least_mean(answered, kind))


def _by_type(
    pairs: Sequence[Pair], kind: Kind, readings: Sequence[Reading]
) -> dict[tuple[str, str], Finding]:
    """Return findings by (category, value), for the one category that explains most answers."""
    members: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        for label in pair.types if pair.predicted.size else ():
            members.setdefault(label, []).append(pair)
    tested = {
        label: answered[:OF_TYPE]
        for label, answered in members.items()
        if len(answered) >= LEAST_OF_TYPE
    }
    chance = CHANCE / max(len(tested) * TRIED, 1)
    findings: dict[str, dict[tuple[str, str], Finding]] = {}
    for label in sorted(tested):
        if finding := _likely(tested[label], kind, readings, chance):
            findings.setdefault(label[0], {})[label] = finding
    return max(
        findings.values(),
        key=lambda parts: sum(part.right - part.before for part in parts.values()),
        default={},
    )


def _likely(
    pairs: Sequence[Pair], kind: Kind, readings: Sequence[Reading], chance: float = CHANCE
) -> Finding | None:
    """Return the reading that explains answers best.

    None: the answers are right as they are read, or no reading explains them.
    """
    before = kind.paired(pairs)
    # Half of a mask's pixels can be right in a wrong reading; hardly nearly all.
    is_half = (before >= HALF).mean() >= HALF and kind is KINDS["masks"]
    level = NEARLY if is_half else HALF
    if (before >= level).mean() >= HALF:
        return None
    tried: list[tuple[Rows, Reading, list[Pair]]] = []
    for reading in readings:
        converted = [reading.of(pair) for pair in pairs]
        tried.append((kind.paired(converted), reading, converted))
    tried.sort(key=lambda trial: trial[1].margin - trial[0].mean())
    can_be_moved = kind.has_coordinates or kind is KINDS["interval"]
    least_mean = _least_mean(pairs, kind) if can_be_moved else 0
    for after, likely, converted in tried[:TRIED]:
        # A reading that is a shift itself cannot exceed the fitted shift by `MARGIN`; it has to
        # equal it, but for what fitting gains.
        needed = least_mean - MARGIN - SAME if likely.is_shift else least_mean
        if after.mean() >= needed and _is_evidence(
            before, after, converted, kind, chance, likely.share, level
        ):
            hits = [int((agreement >= level).sum()) for agreement in (after, before)]
            return Finding(hits[0], hits[1], len(pairs), likely.name, likely)
    return None


def _least_mean(pairs: Sequence[Pair], kind: Kind) -> float:
    """Return the mean agreement that a reading has to reach to explain more than a constant error.

    It is `MARGIN` above that of the answers from which their median shift or factor was removed,
    because such an error may be a poor model's own. It is 0 for masks.
    """
    if kind is KINDS["masks"]:
        return 0.0
    scales = [[np.maximum(pair.size, 1) if kind.has_coordinates else np.ones(1) for pair in pairs]]
    if kind.has_coordinates and all(pair.truth.shape[1] == 4 for pair in pairs):
        scales.append([np.maximum(_extent(pair.truth), 1) for pair in pairs])
    agreements = [kind.paired(_centred(pairs, kind, sides)).mean() for sides in scales]
    if kind is KINDS["number"]:
        agreements.append(kind.paired(_rescaled(pairs)).mean())
    return float(max(agreements)) + MARGIN


def _extent(boxes: Rows) -> Rows:
    """Return the mean width and height of boxes, shape (2,)."""
    sides: Rows = (boxes[:, 2:] - boxes[:, :2]).mean(0)
    return sides


def _centred(pairs: Sequence[Pair], kind: Kind, sides: Sequence[Rows]) -> list[Pair]:
    """Return answers minus the median of their errors; errors are fractions of `sides`."""
    errors = [_middle(pair.truth, kind) - _middle(pair.predicted, kind) for pair in pairs]
    bias = np.median([error / side for error, side in zip(errors, sides, strict=True)], axis=0)
    moved = []
    for side, pair in zip(sides, pairs, strict=True):
        offset = np.tile(bias * side, pair.predicted.shape[1] // bias.size)
        moved.append(pair._replace(predicted=pair.predicted + offset))
    return moved


def _middle(rows: Rows, kind: Kind) -> Rows:
    """Return the mean x and y of boxes or points, the middle of an interval, or the number."""
    middle: Rows = rows.reshape(-1, 2).mean(0) if kind.has_coordinates else np.array([rows.mean()])
    return middle


def _rescaled(pairs: Sequence[Pair]) -> list[Pair]:
    """Return numbers multiplied by the median ratio of the ground truth to them."""
    ratios = [(pair.truth / pair.predicted).item() for pair in pairs if pair.predicted.all()]
    factor = float(np.median(ratios)) if ratios else 1.0
    return [pair._replace(predicted=pair.predicted * factor) for pair in pairs]


def _is_evidence(
    before: Rows,
    after: Rows,
    converted: Sequence[Pair],
    kind: Kind,
    limit: float,
    share: float,
    level: float,
) -> bool:
    """Return True if a reading's hits are more than chance and explain the misses as read.

    Args:
        before: Agreement of each answer as it is read.
        after: Agreement of each answer in the reading.
        converted: The pairs in the reading.
        kind: Their kind.
        limit: Largest probability of so many hits by chance.
        share: Least share of hits in the reading.
        level: Agreement from which an answer is a hit.
    """
    was_hit, is_hit = before >= level, after >= level
    n_gained, n_lost = int((is_hit & ~was_hit).sum()), int((was_hit & ~is_hit).sum())
    is_better = after.mean() >= before.mean() + MARGIN
    min_gained = LEAST if share < ALL else MANY
    if n_gained < max(min_gained, TIMES * n_lost) or is_hit.mean() < share or not is_better:
        return False
    chance = _chance(converted, kind)
    return tail(int(is_hit.sum()), len(converted), chance) <= limit


def _chance(converted: Sequence[Pair], kind: Kind) -> float:
    """Return the share of hits when answers are compared with other samples' ground truths."""
    if not kind.has_coordinates:
        agreements = kind.agreements(*zip(*(pair[:3] for pair in converted), strict=True))
        others = agreements[~np.eye(len(converted), dtype=bool)]
        return float(((others >= HALF).sum() + 1) / (others.size + PRIOR))
    hits, compared = 1.0, PRIOR
    for offset in range(2, 2 + min(OTHERS, len(converted) - 2)):
        for index, pair in enumerate(converted):
            neighbour = converted[(index + offset) % len(converted)]
            truth = neighbour.truth
            if 0 not in (*pair.size, *neighbour.size):
                (width, height), (its_width, its_height) = pair.size, neighbour.size
                truth = scaled(width / its_width, height / its_height, truth)
            hits += kind.agreements([pair.predicted], [truth], [pair.size]).item() >= HALF
            compared += 1
    return hits / compared
