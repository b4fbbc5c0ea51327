"""DR2Seg's reward: (format + no repetition + accuracy + description) × gated length.

He et al., "DR2Seg" (arXiv:2601.09981), Eq. 2 to 8. The terms of Eq. 6 are VisionReasoner's
(`trainers/visionreasoner`). A response is `<think>…</think><description>…</description>
<answer>…</answer>`; its description is put to the same policy as a question, whose response is the
second one. Every function is pure and takes whatever a network writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.models.dr2seg.grammar import TAGS, Form, description, reasoning_text
from harness.models.grammar import split_frame, well_formed
from harness.models.visionreasoner.scoring import (
    BOX,
    Semantics,
    answer_format,
    answer_value,
    non_repeat,
)
from harness.trainers.dr2seg.second_pass import LONGEST, description_of
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents, Rollout
from harness.trainers.visionreasoner.objects import TargetObjects
from harness.trainers.visionreasoner.rewards import location_accuracy

ANCHOR = 45
"""N0 of Eq. 5: tokens of reasoning that cost nothing."""
GAMMA = 0.05
"""γ of Eq. 5: penalty for each further token."""


class Accuracy(Protocol):
    """R_acc of several responses about one sample: named parts, of which `accuracy` is the sum."""

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class LocationAccuracy:
    """VisionReasoner's accuracy of boxes and points, from 0 to 3."""

    semantics: Semantics = "official"

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]:
        """Three parts and their sum, one mapping a response."""
        target = TargetObjects(group.sample)
        found = [
            location_accuracy(group, text, target, semantics=self.semantics) for text in responses
        ]
        return [{**right._asdict(), "accuracy": right.total} for right in found]


def format_terms(response: str, *, form: Form = "sam2") -> dict[str, float]:
    """R_format, part by part.

    `sam2`: 1 for the three parts in their order and nothing else, and VisionReasoner's 0 to 2 for
    boxes and points. `sam3`: 1 for the parts, 1 for a description that is not empty, and 0 to 1
    for boxes, since that form has no points.

    >>> format_terms("<think>a</think><description>b</description><answer>[]</answer>")
    {'thinking_format': 1.0, 'answer_format': 0.0}
    """
    whole = float(well_formed(response, TAGS[form]))
    if form == "sam2":
        return {"thinking_format": whole, "answer_format": answer_format(response)}
    return {
        "thinking_format": whole,
        "description_format": float(bool(description(response, form=form))),
        "answer_format": box_format(response),
    }


def box_format(response: str) -> float:
    """Return, from 0 to 1, the share of the answer's objects that have a box of four numbers."""
    value = answer_value(response)
    if not isinstance(value, list) or not value:
        return 0.0
    boxes = [entry.get(BOX) if isinstance(entry, dict) else None for entry in value]
    return sum(isinstance(box, list) and len(box) == 4 for box in boxes) / len(value)


def length_reward(
    first: int, second: int | None, *, anchor: int = ANCHOR, gamma: float = GAMMA
) -> float:
    """Return R_len (Eq. 5): 1 if the second pass reasons less, minus the excess of the first.

    Args:
        first: N1, tokens of the first pass's reasoning.
        second: N2, of the second's; None if there was no description to ask with.
        anchor: N0, tokens that cost nothing.
        gamma: What each further token costs.

    >>> [length_reward(*pair) for pair in ((45, 44), (46, 45), (55, 1), (65, 1), (44, 44))]
    [1.0, 0.95, 0.5, 0.0, 0.0]
    """
    shorter = second is not None and second < first
    return min(max(float(shorter) - gamma * max(0, first - anchor), 0.0), 1.0)


def gate_lengths(
    lengths: Sequence[float], accuracies: Sequence[float], *, threshold: float = 0.0
) -> list[float]:
    """R̃_len (Eq. 8) of a group: R_len if some first response is right at all, else 1.

    `threshold` is what an accuracy must exceed for that. The paper's is 0.

    >>> gate_lengths([0.5, 0.0], [0.0, 1.0]), gate_lengths([0.5, 0.0], [0.0, 0.0])
    ([0.5, 0.0], [1.0, 1.0])
    """
    solved = any(accuracy > threshold for accuracy in accuracies)
    return list(lengths) if solved else [1.0] * len(lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class DR2SegReward:
    """The reward of a group; its settings are those of the plugin `dr2seg`."""

    form: Form = "sam2"
    accuracy: Accuracy = field(default_factory=LocationAccuracy)
    describes: bool = True
    """True if R_desc is part of the reward."""
    shortens: bool = True
    """True if R_len is part of the reward: not in the zero-shot setting."""
    anchor: int = ANCHOR
    gamma: float = GAMMA
    gate_threshold: float = 0.0
    len_floor: float = 0.0
    """Minimum factor of the length reward, of a right answer's or a wrong one's, in a group that
    passes the gate; the paper's is 0."""
    longest: int = LONGEST

    def __call__(self, group: Group) -> list[RewardComponents]:
        """RewardComponents of every rollout; `total` is the product of Eq. 7."""
        firsts = [split_frame(rollout.text)[1] for rollout in group.rollouts]
        seconds = self._seconds(group)
        right = self.accuracy(group, [rollout.text for rollout in group.rollouts])
        again = self._second_pass_rewards(group, seconds)
        counts = [self._tokens(group, first) for first in firsts]
        counts_again = [
            None if one is None else self._tokens(group, split_frame(one.text)[1])
            for one in seconds
        ]
        lengths = [
            length_reward(one, other, anchor=self.anchor, gamma=self.gamma)
            for one, other in zip(counts, counts_again, strict=True)
        ]
        factors = self._factors(lengths, [one["accuracy"] for one in right])
        return [
            self._terms(response, terms, desc, count, other, length, factor)
            for response, terms, desc, count, other, length, factor in zip(
                firsts, right, again, counts, counts_again, lengths, factors, strict=True
            )
        ]

    def _factors(self, lengths: Sequence[float], accuracies: Sequence[float]) -> list[float]:
        if not self.shortens:
            return [1.0] * len(lengths)
        floored = [max(length, self.len_floor) for length in lengths]
        return gate_lengths(floored, accuracies, threshold=self.gate_threshold)

    def _terms(
        self,
        response: str,
        right: RewardComponents,
        desc: float,
        first: int,
        second: int | None,
        length: float,
        factor: float,
    ) -> RewardComponents:
        formats = format_terms(response, form=self.form)
        unrepeated = non_repeat(response)
        base = sum(formats.values()) + unrepeated + right["accuracy"]
        return {
            **formats,
            **right,
            "non_repeat": unrepeated,
            "description": desc,
            "described": float(second is not None),
            "length": length,
            "length_factor": factor,
            "tokens_first": float(first),
            # Where nothing was described there was no second pass, of no length.
            **({} if second is None else {"tokens_second": float(second)}),
            TOTAL: (base + (desc if self.describes else 0.0)) * factor,
        }

    def _seconds(self, group: Group) -> list[Rollout | None]:
        """The second responses that count: those to a description that is one."""
        if not group.seconds:
            return [None] * len(group.rollouts)
        return [
            after
            if description_of(first.text, group.count_tokens, form=self.form, longest=self.longest)
            else None
            for first, after in zip(group.rollouts, group.seconds, strict=True)
        ]

    def _second_pass_rewards(self, group: Group, seconds: Sequence[Rollout | None]) -> list[float]:
        """R_desc (Eq. 2): the accuracy of the second responses, 0 where there is none."""
        found = iter(self.accuracy(group, [one.text for one in seconds if one is not None]))
        return [0.0 if one is None else next(found)["accuracy"] for one in seconds]

    def _tokens(self, group: Group, response: str) -> int:
        return group.count_tokens(reasoning_text(response, form=self.form))
