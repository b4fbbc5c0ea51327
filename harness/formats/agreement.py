"""Evidence from the ground truth that a file's answers mean something else than they are read as.

A reading is another meaning of all answers of a file, or of those of one type of question: boxes of
a resized image, times in milliseconds, masks of what is not meant. Where many answers are right in
another reading and wrong as they are read, that is hardly chance: how often the reading's answers
fit the ground truth of *other* samples tells what chance does.
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
"""Samples with a ground truth that are looked at, and those of letters and numbers: the first."""
OF_TYPE, LEAST_OF_TYPE, MOST_OF_TYPES = 100, 5, 20_000
"""Samples of each type of question that are looked at, how many of them have to be answered, and
those among which they are."""
MANY = 10
"""Answers of which a poor model hardly makes one mistake alike."""
NEARLY = 0.85
"""Agreement of a mask in its right reading."""
OTHERS = 16
"""Other samples that each answer is compared with for the chance of a hit."""


@dataclass(slots=True)
class Agreement:
    """Pairs of a prediction and the ground truth of its sample, by the form of answer."""

    pairs: dict[str, list[Pair]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    ids: list[str] = field(default_factory=list)
    """The ids of all samples."""
    seen: int = 0
    """Number of samples with a ground truth."""
    said: int = 0
    """Number of answers that a model's text was read for: its mistakes are its own."""
    frames: FrameOrder = field(default_factory=FrameOrder)
    of_type: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of samples of each type that were looked at."""

    def add(self, samples: Iterable[Sample], predictions: Iterable[Prediction]) -> None:
        """Keep the pairs of the first samples, and of each type, that have a ground truth."""
        for sample, prediction in zip(samples, predictions, strict=True):
            place = len(self.ids)
            self.ids.append(sample.id)
            if sample.target is None:
                continue
            types = frozenset(sample.categories.items())
            is_rare = any(self.of_type[label] < OF_TYPE for label in types)
            self.seen += 1
            if self.seen > (MOST_OF_TYPES if is_rare else MOST_PLAIN):
                continue
            self.of_type.update(types)
            self.said += bool(prediction.responses)
            answer = prediction.answer or Answer()
            is_plain = self.seen > MOST
            self.frames.add(answer.masks, sample.target.answer.masks)
            for kind, pair in pairs_of(answer, sample.target.answer, sample, plain=is_plain):
                self.pairs[kind].append(pair._replace(place=place, types=types))

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
            pairs = self.pairs[name]
            orders = (SIZES if sizes else CORNERS) if name == "boxes" else ()
            readings = (*orders, *kind.readings)
            finding = self._finding(name, readings)
            if finding and kind.is_place and finding.reading and not stated and not self.said:
                fix = finding.reading.fix(file)
                raise DataError(
                    f"{thing}: {kind.about}",
                    expected="pixels of the original image",
                    found=str(finding),
                    fix=f"{fix}{'. ' if fix else ''}If they are as documented, say so: "
                    "--coordinates pixels.",
                )
            parts = {}
            if finding is None or (finding.reading and finding.before):
                # Answers that are right as they are read may be those of other questions.
                sure = [reading for reading in readings if reading.share < ALL]
                parts = _by_type(pairs, kind, sure)
            for (category, value), part in parts.items():
                yield f"{kind.about} of {category} {value!r}: {part}"
            if finding and not parts:
                yield f"{kind.about}: {finding}"
            if name == "interval" and not finding and (shift := constant_shift(pairs)):
                yield f"{kind.about}: {shift}"
        if order := self.frames.finding():
            yield f"masks of videos: {order}"

    def _finding(self, name: str, readings: Sequence[Reading]) -> Finding | None:
        """Return another meaning or order of all answers of a form that is right, if any is."""
        kind = KINDS[name]
        first = [pair for pair in self.pairs[name] if pair.place < MOST_PLAIN]
        answered = [pair for pair in first if pair.predicted.size]
        if len(answered) < LEAST:
            return None
        scales = fitted(answered[:MOST]) if kind.is_place else ()
        finding = _likely(answered[:MOST], kind, (*readings, *scales))
        return finding or likeliest_order(first, kind, self.ids, _biased(answered, kind))


def _by_type(
    pairs: Sequence[Pair], kind: Kind, readings: Sequence[Reading]
) -> dict[tuple[str, str], Finding]:
    """Return the findings by category and value, of the category that explains most answers."""
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
    """Return the likeliest reading of answers.

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
        read = [reading.of(pair) for pair in pairs]
        tried.append((kind.paired(read), reading, read))
    tried.sort(key=lambda trial: -trial[0].mean())
    can_be_moved = kind.is_place or kind is KINDS["interval"]
    biased = _biased(pairs, kind) if can_be_moved else 0
    for after, likely, read in tried[:TRIED]:
        if after.mean() >= biased and _is_evidence(
            before, after, read, kind, chance, likely.share, level
        ):
            hits = [int((agreement >= level).sum()) for agreement in (after, before)]
            return Finding(hits[0], hits[1], len(pairs), likely.name, likely)
    return None


def _biased(pairs: Sequence[Pair], kind: Kind) -> float:
    """Return the mean agreement that answers need so as not to be merely moved or scaled.

    A poor model's constant error is no other meaning. Masks are not moved.
    """
    if kind is KINDS["masks"]:
        return 0.0
    ways = [[np.maximum(pair.size, 1) if kind.is_place else np.ones(1) for pair in pairs]]
    if kind.is_place and all(pair.truth.shape[1] == 4 for pair in pairs):
        ways.append([np.maximum(_extent(pair.truth), 1) for pair in pairs])
    agreements = [kind.paired(_centred(pairs, kind, sides)).mean() for sides in ways]
    if kind is KINDS["number"]:
        agreements.append(kind.paired(_rescaled(pairs)).mean())
    return float(max(agreements)) + MARGIN


def _extent(boxes: Rows) -> Rows:
    """Return the mean width and height of boxes."""
    sides: Rows = (boxes[:, 2:] - boxes[:, :2]).mean(0)
    return sides


def _centred(pairs: Sequence[Pair], kind: Kind, sides: Sequence[Rows]) -> list[Pair]:
    """Return answers without the median of their errors, as parts of these sides."""
    errors = [_middle(pair.truth, kind) - _middle(pair.predicted, kind) for pair in pairs]
    bias = np.median([error / side for error, side in zip(errors, sides, strict=True)], axis=0)
    moved = []
    for side, pair in zip(sides, pairs, strict=True):
        offset = np.tile(bias * side, pair.predicted.shape[1] // bias.size)
        moved.append(pair._replace(predicted=pair.predicted + offset))
    return moved


def _middle(rows: Rows, kind: Kind) -> Rows:
    """Return the mean x and y of places, the middle of an interval, or a number."""
    middle: Rows = rows.reshape(-1, 2).mean(0) if kind.is_place else np.array([rows.mean()])
    return middle


def _rescaled(pairs: Sequence[Pair]) -> list[Pair]:
    """Return numbers times the median factor by which they are too small."""
    ratios = [(pair.truth / pair.predicted).item() for pair in pairs if pair.predicted.all()]
    factor = float(np.median(ratios)) if ratios else 1.0
    return [pair._replace(predicted=pair.predicted * factor) for pair in pairs]


def _is_evidence(
    before: Rows,
    after: Rows,
    read: Sequence[Pair],
    kind: Kind,
    limit: float,
    share: float,
    level: float,
) -> bool:
    """Return True if hits in a reading are not by chance and explain the misses as it is read."""
    was, now = before >= level, after >= level
    alone, lost = int((now & ~was).sum()), int((was & ~now).sum())
    is_better = after.mean() >= before.mean() + MARGIN
    least = LEAST if share < ALL else MANY
    if alone < max(least, TIMES * lost) or now.mean() < share or not is_better:
        return False
    chance = _chance(read, kind)
    return tail(int(now.sum()), len(read), chance) <= limit


def _chance(read: Sequence[Pair], kind: Kind) -> float:
    """Return how often answers agree with the ground truths of other samples."""
    if not kind.is_place:
        agreements = kind.agreements(*zip(*(pair[:3] for pair in read), strict=True))
        others = agreements[~np.eye(len(read), dtype=bool)]
        return float(((others >= HALF).sum() + 1) / (others.size + PRIOR))
    hits, compared = 1.0, PRIOR
    for offset in range(2, 2 + min(OTHERS, len(read) - 2)):
        for place, pair in enumerate(read):
            neighbour = read[(place + offset) % len(read)]
            truth = neighbour.truth
            if 0 not in (*pair.size, *neighbour.size):
                (width, height), (its_width, its_height) = pair.size, neighbour.size
                truth = scaled(width / its_width, height / its_height, truth)
            hits += kind.agreements([pair.predicted], [truth], [pair.size]).item() >= HALF
            compared += 1
    return hits / compared
