"""SpaceR's reward: accuracy of the answer and of its map, and the other terms of Video-R1.

Semantics of `SG-RLVR.py` and `extract_map.py` (OuyangKun10/SpaceR, commit b623af5). Two things
differ: a true number of 0 or below, which the official code cannot score or always takes as right,
is scored by its size; and free texts are compared without stemming.
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

KEY = "map"  # of the true map in a target's `extra`, and of its score among the components
Map: TypeAlias = Mapping[str, Sequence[Sequence[float]]]
"""Cells `[column, row]` of the GRID × GRID grid, by category."""
MIN_MAP_ACCURACY = 0.5  # accuracy of a number above which its map counts
DIAGONAL = GRID * math.sqrt(2.0)  # in cells

WORDS: Mapping[str, int] = {
    word: number
    for word, number in NUMBER_WORDS.items()
    if word not in ("zero", "hundred", "thousand")
} | {"zero": 0, "a": 1, "an": 1}
"""Number words in the order in which the official code looks for them."""


def spoken_number(predicted: str) -> float | None:
    """Return the number of an answer: the first word of WORDS that is in it, else its first digits.

    None if it has neither.

    >>> spoken_number("about -3.5 m"), spoken_number("two or one"), spoken_number("a lot")
    (3.5, 1.0, 1.0)
    """
    text = predicted.strip().lower()
    for word, number in WORDS.items():
        if re.search(rf"\b{word}\b", text):
            return float(number)
    match = re.search(r"\d+(\.\d+)?", text)  # "3" or "3.5"; a sign is ignored
    value = float(match[0]) if match else math.inf
    return value if math.isfinite(value) else None


def map_score(predicted: GridMap, ground_truth: Map) -> float:
    """Return the agreement of a map's cells with the true ones, from 0 to 1.

    It is the mean of `_category_score` over categories, weighted by their number of true cells.
    Without true cells, an empty map scores 1 and any other 0.
    """
    total = sum(map(len, ground_truth.values()))
    if not total:
        return float(not predicted)
    weighted = [
        len(cells) * _category_score(predicted.get(name, ()), cells)
        for name, cells in ground_truth.items()
        if cells
    ]
    return math.fsum(weighted) / total


def _category_score(
    predicted: Sequence[Sequence[float]], ground_truth: Sequence[Sequence[float]]
) -> float:
    """Return the agreement of two lists of cells, from 0 to 1.

    Cells are paired greedily, the nearest first. A pair scores 1 minus its distance over the
    grid's diagonal; the sum is divided by the larger number of cells.
    """
    pairs = sorted(
        (math.dist(cell, true_cell), cell_index, true_index)
        for cell_index, cell in enumerate(predicted)
        for true_index, true_cell in enumerate(ground_truth)
    )
    scores: list[float] = []
    used, used_true = set[int](), set[int]()
    for distance, cell_index, true_index in pairs:
        if cell_index not in used and true_index not in used_true:
            used.add(cell_index)
            used_true.add(true_index)
            scores.append(max(0.0, 1.0 - distance / DIAGONAL))
    return math.fsum(scores) / max(len(predicted), len(ground_truth))


def score_drawn(response: str, ground_truth: Map) -> float | None:
    """Return the score of a response's map: 0 if it cannot be read, None if there is no map."""
    if not has_map(response):
        return None
    try:
        return map_score(grid_map(response, tuple(ground_truth)), ground_truth)
    except ParseError:
        return 0.0


def with_map(accuracy: float, response: str, ground_truth: Map) -> float:
    """Return the accuracy of a right answer plus the score of its map; 0 if that score is 0.

    A response without a map keeps its accuracy.
    """
    score = score_drawn(response, ground_truth)
    if score is None:
        return accuracy
    return accuracy + score if score > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SpacerAccuracy:
    """SpaceR's accuracy of one rollout, with its map, from 0 to 2.

    The true map is the target's `extra["map"]`. A sample without one is scored by its answer alone
    (the official code gives 0 to a right answer with a map if there is no true map).
    """

    other: VideoR1Accuracy = field(default_factory=VideoR1Accuracy)
    """Accuracy for the forms that SpaceR scores as Video-R1 does."""
    maps: bool = True

    def __call__(self, group: Group, rollout: Rollout) -> float:
        """Return the accuracy, plus the score of the map if the answer is right."""
        answer_accuracy = self._answer_accuracy(group, rollout)
        if answer_accuracy is None:
            return self.other(group, rollout)
        accuracy, ground_truth = answer_accuracy
        return accuracy if ground_truth is None else with_map(accuracy, rollout.text, ground_truth)

    def map_counted(self, group: Group, rollout: Rollout) -> float | None:
        """Return the score of the map, from 0 to 1; None if the accuracy does not use it."""
        answer_accuracy = self._answer_accuracy(group, rollout)
        if answer_accuracy is None or answer_accuracy[1] is None:
            return None
        return score_drawn(rollout.text, answer_accuracy[1])

    def _answer_accuracy(self, group: Group, rollout: Rollout) -> tuple[float, Map | None] | None:
        """Return the accuracy of the answer alone, and the true map if the answer is right.

        None for forms that SpaceR scores as Video-R1 does.
        """
        target, form = ground_truth_of(group.sample), group.sample.query.form
        predicted = answer(rollout.text)
        if form is AnswerForm.CHOICE:
            accuracy, limit = float(predicted == target.answer.choice), 0.0
        elif form is AnswerForm.NUMBER and target.extra.get("problem_type") != "regression":
            ground_truth = float(target.answer.number or 0.0)
            accuracy = mean_relative_accuracy(spoken_number(predicted), ground_truth)
            limit = MIN_MAP_ACCURACY
        else:
            return None
        ground_truth_map = map_of(group.sample)
        return accuracy, ground_truth_map if self.maps and accuracy > limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacerReward(ComponentReward):
    """SpaceR's terms. A map that counts is part of the accuracy, and is logged as `map`, too."""

    compares_rollouts = True

    accuracy: SpacerAccuracy
    temporal: TemporalReward
    """Video-R1's reward with this accuracy: computes the terms and their total."""

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the terms of each rollout."""
        components = self.temporal.components(group)
        return [
            {**terms, **self._map(group, rollout)}
            for rollout, terms in zip(group.rollouts, components, strict=True)
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the sum of Video-R1's terms of each rollout."""
        return self.temporal.totals(components)

    def _map(self, group: Group, rollout: Rollout) -> RewardComponents:
        score = self.accuracy.map_counted(group, rollout)
        return {} if score is None else {KEY: score}


def map_of(sample: Sample) -> Map | None:
    """Return the true map in a sample's target; None: there is none.

    Raises:
        DataError: it is not a dict of cells by category.
    """
    plain: object = sample.target.extra.get(KEY) if sample.target is not None else None
    return None if plain is None else check_map(plain, f"map of sample {sample.id!r}")


def check_map(plain: object, where: str) -> Map:
    """Return `plain` if it is a map; else raise a DataError that names it as `where`."""
    if not isinstance(plain, Mapping) or not all(
        isinstance(cells, (list, tuple)) and all(_is_cell(cell) for cell in cells)
        for cells in plain.values()
    ):
        raise DataError(where, expected='{"table": [[0, 3], …], …}', found=repr(plain)[:60])
    return plain


def _is_cell(cell: object) -> bool:
    """Return True for two finite numbers, such as [3, 0]."""
    return (
        isinstance(cell, (list, tuple))
        and len(cell) == 2
        and all(type(part) in (int, float) and math.isfinite(part) for part in cell)
    )
