"""SpaceR's accuracy: an answer, and the map that it was read from.

Semantics of `SG-RLVR.py` and `extract_map.py` (OuyangKun10/SpaceR, commit b623af5), whose other
terms are those of Video-R1. Two things are otherwise: a true number of 0 or below, which the
official code cannot score or always holds right, is scored by its size; and free texts are
compared without stemming.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.errors import DataError, ParseError
from harness.metrics.numeric import NUMBER_WORDS, mean_relative_accuracy
from harness.models.spacer.grammar import GRID, GridMap, grid_map, has_map
from harness.trainers.grpo.method import ComponentReward, Group, RewardComponents, Rollout
from harness.trainers.video_r1.rewards import TemporalReward, VideoR1Accuracy
from harness.trainers.video_str.answers import answer, ground_truth_of
from harness.types import AnswerForm, Sample

KEY = "map"
Map: TypeAlias = Mapping[str, Sequence[Sequence[float]]]
"""Cells `[column, row]` of the grid by category."""
RIGHT = 0.5  # accuracy of a number above which its map counts
DIAGONAL = GRID * math.sqrt(2.0)

WORDS: Mapping[str, int] = {
    **{
        word: NUMBER_WORDS[word]
        for word in NUMBER_WORDS
        if word not in ("zero", "hundred", "thousand")
    },
    **{"zero": 0, "a": 1, "an": 1},
}


def spoken_number(predicted: str) -> float | None:
    """The number of an answer: the first number word *of this order* in it, else its first digits.

    >>> spoken_number("about -3.5 m"), spoken_number("two or one"), spoken_number("a lot")
    (3.5, 1.0, 1.0)
    """
    text = predicted.strip().lower()
    for word, number in WORDS.items():
        if re.search(rf"\b{word}\b", text):
            return float(number)
    match = re.search(r"\d+(\.\d+)?", text)
    value = float(match[0]) if match else math.inf
    return value if math.isfinite(value) else None


def map_score(predicted: GridMap, ground_truth: Map) -> float:
    """Return the agreement of a map's cells with the true ones, from 0 to 1.

    Of each category cells are paired greedily, the nearest first; a pair is worth 1 minus its
    distance over the grid's diagonal, a category the mean over the larger number of cells, the map
    the mean over categories, weighted by their true cells. Without true cells an empty map is
    worth 1.
    """
    total = sum(map(len, ground_truth.values()))
    if not total:
        return float(not predicted)
    worth = [
        len(cells) * _category(predicted.get(name, ()), cells)
        for name, cells in ground_truth.items()
        if cells
    ]
    return math.fsum(worth) / total


def _category(
    predicted: Sequence[Sequence[float]], ground_truth: Sequence[Sequence[float]]
) -> float:
    apart = sorted(
        (math.dist(cell, true_cell), place, true)
        for place, cell in enumerate(predicted)
        for true, true_cell in enumerate(ground_truth)
    )
    worth: list[float] = []
    used: tuple[set[int], set[int]] = set(), set()
    for distance, place, true in apart:
        if place not in used[0] and true not in used[1]:
            used[0].add(place)
            used[1].add(true)
            worth.append(max(0.0, 1.0 - distance / DIAGONAL))
    return math.fsum(worth) / max(len(predicted), len(ground_truth))


def score_drawn(response: str, ground_truth: Map) -> float | None:
    """The score of a response's map: 0 for one that cannot be read, None for a response without
    one.
    """
    if not has_map(response):
        return None
    try:
        return map_score(grid_map(response, tuple(ground_truth)), ground_truth)
    except ParseError:
        return 0.0


def with_map(accuracy: float, response: str, ground_truth: Map) -> float:
    """Return the accuracy of a right answer with its map's score added; 0 if the map's score is 0.

    A response without a map keeps its accuracy.
    """
    score = score_drawn(response, ground_truth)
    if score is None:
        return accuracy
    return accuracy + score if score > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SpacerAccuracy:
    """SpaceR's accuracy of one rollout, its map included, from 0 to 2.

    A target carries its map as `extra["map"]`, cells by category; a sample without one is scored
    by its answer alone (the official code stops at a right answer with a map that it has no ground
    truth for, and gives 0).
    """

    other: VideoR1Accuracy = field(default_factory=VideoR1Accuracy)
    """Accuracy for the forms that SpaceR scores as Video-R1 does."""
    maps: bool = True

    def __call__(self, group: Group, rollout: Rollout) -> float:
        """The accuracy, and the score of the map if the answer is right."""
        own = self._answer_accuracy(group, rollout)
        if own is None:
            return self.other(group, rollout)
        accuracy, ground_truth = own
        return accuracy if ground_truth is None else with_map(accuracy, rollout.text, ground_truth)

    def map_counted(self, group: Group, rollout: Rollout) -> float | None:
        """Return the score of the map, from 0 to 1; None where the accuracy does not use it."""
        own = self._answer_accuracy(group, rollout)
        if own is None or own[1] is None:
            return None
        return score_drawn(rollout.text, own[1])

    def _answer_accuracy(self, group: Group, rollout: Rollout) -> tuple[float, Map | None] | None:
        """Return the accuracy of the answer alone, and the true map if a map counts beside it.

        None for forms that SpaceR scores as Video-R1 does.
        """
        target, form = ground_truth_of(group.sample), group.sample.query.form
        predicted = answer(rollout.text)
        if form is AnswerForm.CHOICE:
            accuracy, right = float(predicted == target.answer.choice), 0.0
        elif form is AnswerForm.NUMBER and target.extra.get("problem_type") != "regression":
            ground_truth = float(target.answer.number or 0.0)
            accuracy, right = mean_relative_accuracy(spoken_number(predicted), ground_truth), RIGHT
        else:
            return None
        ground_truth_map = map_of(group.sample)
        return accuracy, ground_truth_map if self.maps and accuracy > right else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacerReward(ComponentReward):
    """SpaceR's terms; where a map counts, its score is logged beside the accuracy that has it."""

    compares_rollouts = True

    accuracy: SpacerAccuracy
    temporal: TemporalReward
    """Makes the total, of this accuracy."""

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the terms of each rollout."""
        several = self.temporal.components(group)
        return [
            {**terms, **self._map(group, rollout)}
            for rollout, terms in zip(group.rollouts, several, strict=True)
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the sum of Video-R1's terms of each rollout."""
        return self.temporal.totals(components)

    def _map(self, group: Group, rollout: Rollout) -> RewardComponents:
        score = self.accuracy.map_counted(group, rollout)
        return {} if score is None else {KEY: score}


def map_of(sample: Sample) -> Map | None:
    """The true map that a sample's target carries, if it carries one.

    Raises:
        DataError: it is something else than cells by category.
    """
    plain: object = sample.target.extra.get(KEY) if sample.target is not None else None
    return None if plain is None else check_map(plain, f"map of sample {sample.id!r}")


def check_map(plain: object, where: str) -> Map:
    """Return a map if it is one; a DataError that names its place if not."""
    if not isinstance(plain, Mapping) or not all(
        isinstance(cells, (list, tuple)) and all(_is_cell(cell) for cell in cells)
        for cells in plain.values()
    ):
        raise DataError(where, expected='{"table": [[0, 3], …], …}', found=repr(plain)[:60])
    return plain


def _is_cell(cell: object) -> bool:
    return (
        isinstance(cell, (list, tuple))
        and len(cell) == 2
        and all(type(part) in (int, float) and math.isfinite(part) for part in cell)
    )
