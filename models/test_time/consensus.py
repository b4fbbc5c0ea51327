"""Compute how far responses agree with each other: pair scores, pseudo-label, rewards of a group.

VR-TTRL (2025), Section 3: VisionReasoner's accuracy scores each rollout with every other rollout as
the ground truth (`harness.models.visionreasoner.scoring`). The pseudo-label is the rollout against
which the others score most. All functions here are pure and see only responses.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.models.grammar import split_frame
from harness.models.visionreasoner.scoring import (
    BASE,
    Objects,
    Semantics,
    Thresholds,
    answer_format,
    non_repeat,
    object_accuracy,
    scaled_objects,
    thinking_format,
)

Label: TypeAlias = Literal["consensus", "anti_consensus", "random", "none"]
"""Choice of the pseudo-label: the rollout that the others agree with most (`consensus`) or least
(`anti_consensus`), a random rollout, or no label."""

SUM_DECIMALS = 9
"""Decimals of the sums of agreement: rounding keeps ties, whatever the order of addition."""


class Candidate(NamedTuple):
    """The objects of a response, in coordinates of an 840 × 840 image."""

    objects: Objects
    frame: int | None
    """The frame that the response names; None if it names no frame."""

    def score(self, label: "Candidate", thresholds: Thresholds, semantics: Semantics) -> float:
        """Return the accuracy against a pseudo-label, from 0 to 3; 0 if the frames differ."""
        if self.frame != label.frame:
            return 0.0
        return object_accuracy(
            self.objects, label.objects, semantics=semantics, thresholds=thresholds
        ).total

    @property
    def content(self) -> str:
        """The frame and the numbers as one text; responses with equal objects have equal texts."""
        return f"{self.frame} {[part.tolist() for part in self.objects]}"


@dataclass(frozen=True)
class Group:
    """Responses to one request."""

    texts: tuple[str, ...]
    canvas: tuple[int, int]
    """(width, height) of the frame that the responses' coordinates are in."""
    must_name_frame: bool = False
    """True if a response has to name a frame."""
    thresholds: Thresholds = BASE
    semantics: Semantics = "official"
    """Accuracy of a pair, as in VisionReasoner's code (`official`) or as Section 3.2.2 says
    (`paper`): a box's four differences are summed, points may lie outside boxes, and each term has
    its own matching."""

    @cached_property
    def candidates(self) -> list[Candidate | None]:
        """The objects of each response; None for a response that cannot be a label."""
        return [self._parse(text) for text in self.texts]

    @property
    def parsed(self) -> list[int]:
        """Indices of the responses that can be a label."""
        return [index for index, candidate in enumerate(self.candidates) if candidate is not None]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Accuracy of each response (row) against each response as the label (column), 0 to 3.

        The row and the column of an unreadable response are 0.
        """
        scores = np.zeros((len(self.texts), len(self.texts)))
        for row in self.parsed:
            for column in self.parsed:
                scores[row, column] = self._score_pair(row, column)
        return scores

    @cached_property
    def consensus(self) -> NDArray[np.float64]:
        """Sum of the other responses' accuracies against each response as the label."""
        others: NDArray[np.float64] = self.scores.sum(axis=0) - np.diagonal(self.scores)
        return others.round(SUM_DECIMALS)

    def label(self, choice: Label, *, number: float = 0.0) -> int | None:
        """Return the index of the pseudo-label, the lowest index at ties; None without a label.

        Args:
            choice: Rule that chooses the label.
            number: Random number from 0 to 1 that chooses the label if `choice` is `random`.
        """
        parsed = self.parsed
        if choice == "none" or not parsed:
            return None
        if choice == "random":
            return parsed[min(int(number * len(parsed)), len(parsed) - 1)]
        sums = self.consensus[parsed]
        return parsed[int(sums.argmin() if choice == "anti_consensus" else sums.argmax())]

    def agreement(self, label: int) -> float:
        """Return the mean accuracy of the other responses against a label; 0 if there are none."""
        return float(self.consensus[label]) / max(1, len(self.texts) - 1)

    def rewards(self, label: int | None) -> list[float]:
        """Return VisionReasoner's reward of each response, with the label as the ground truth.

        A reward is from 0 to 7: format (3), accuracy (3; 0 without a label), no repetition (1).
        """
        return [
            form + (0.0 if label is None else float(self.scores[index, label]))
            for index, form in enumerate(self.forms())
        ]

    def forms(self) -> list[float]:
        """Return each response's reward for format (3) and no repetition (1), from 0 to 4."""
        responses = [split_frame(text)[1] for text in self.texts]
        return [
            thinking_format(response) + answer_format(response) + non_repeat(response)
            for response in responses
        ]

    def frequency_rewards(self, alpha: float) -> list[float]:
        """Return TTRV's rewards: a content's share of the group, less alpha times the entropy.

        The entropy is that of the shares of all contents, divided by the logarithm of the group's
        size, so it is from 0 to 1; all responses have the same. Unreadable responses together are
        one content in the entropy, but the share in their own rewards is 0.
        """
        contents = [
            None if candidate is None else candidate.content for candidate in self.candidates
        ]
        content_counts, size = Counter(contents), len(contents)
        shares = [number / size for number in content_counts.values()]
        entropy = -sum(share * math.log(share) for share in shares) / math.log(max(2, size))
        return [
            (0.0 if content is None else content_counts[content] / size) - alpha * entropy
            for content in contents
        ]

    def _parse(self, text: str) -> Candidate | None:
        """Return the objects of a response; None if it cannot be read or lacks a required frame."""
        frame, response = split_frame(text)
        if self.must_name_frame and frame is None:
            return None
        objects = scaled_objects(response, self.canvas)
        return None if objects is None else Candidate(objects, frame)

    def _score_pair(self, row: int, column: int) -> float:
        """Return the accuracy of response `row` against response `column` as the label."""
        candidate, label = self.candidates[row], self.candidates[column]
        assert candidate is not None and label is not None, "they are parsed"
        return candidate.score(label, self.thresholds, self.semantics)
