"""DR2Seg's reward: (format + no repetition + accuracy + description) × gated length.

He et al., "DR2Seg" (arXiv:2601.09981), Eq. 2 to 8. The terms of Eq. 6 are VisionReasoner's
(`trainers/visionreasoner`). A response is `<think>…</think><description>…</description>
<answer>…</answer>`; its description is put to the same policy as a question, whose response is the
second one. Every function is pure and takes whatever a network writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from harness.errors import UsageError
from harness.models.dr2seg.grammar import TAGS, Form, description, reasoning_text
from harness.models.grammar import frame_tag, split_frame, take_apart, well_formed
from harness.models.visionreasoner.scoring import (
    BOX,
    Semantics,
    answer_format,
    answer_value,
    non_repeat,
)
from harness.options import Only
from harness.thoughts import after_thought
from harness.trainers.dr2seg.second_pass import LONGEST, description_of
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import (
    TOTAL,
    ComponentReward,
    Group,
    RewardComponents,
    Rollout,
)
from harness.trainers.visionreasoner.objects import target_objects
from harness.trainers.visionreasoner.rewards import location_accuracy

ANCHOR = 45
"""N0 of Eq. 5: tokens of reasoning that cost nothing."""
GAMMA = 0.05
"""γ of Eq. 5: penalty for each further token."""

FORMATS: Mapping[Form, tuple[str, ...]] = {
    "sam2": ("thinking_format", "answer_format"),
    "sam3": ("thinking_format", "description_format", "answer_format"),
}
"""Components of R_format, see `format_terms`."""


class Accuracy(Protocol):
    """R_acc of several responses about one sample: named parts, of which `accuracy` is the sum."""

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class LocationAccuracy:
    """VisionReasoner's accuracy of boxes and points, from 0 to 3."""

    semantics: Semantics = "official"

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]:
        """Three parts and their sum, one mapping a response."""
        target = target_objects(group.sample)
        parts = map(take_apart, responses)
        texts = [f"{frame_tag(part.frame)}{part.said}" for part in parts]
        scores = [
            location_accuracy(group, text, target, semantics=self.semantics) for text in texts
        ]
        return [{**score._asdict(), "accuracy": score.total} for score in scores]


def format_terms(response: str, *, form: Form = "sam2") -> dict[str, float]:
    """R_format, part by part.

    `sam2`: 1 for the three parts in their order and nothing else, and VisionReasoner's 0 to 2 for
    boxes and points. `sam3`: 1 for the parts, 1 for a description that is not empty, and 0 to 1
    for boxes, since that form has no points.

    >>> format_terms("<think>a</think><description>b</description><answer>[]</answer>")
    {'thinking_format': 1.0, 'answer_format': 0.0}
    """
    whole, said = float(well_formed(response, TAGS[form])), after_thought(response)
    if form == "sam2":
        return {"thinking_format": whole, "answer_format": answer_format(said)}
    return {
        "thinking_format": whole,
        "description_format": float(bool(description(said, form=form))),
        "answer_format": box_format(said),
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


@dataclass(frozen=True, kw_only=True)
class DR2SegReward(ComponentReward):
    """The reward of a group; its settings are those of the plugin `dr2seg`."""

    compares_rollouts = True

    form: Form = "sam2"
    """`sam2`: rewards of boxes and points. `sam3`: of the mask that the model's segmenter makes of
    boxes and description."""
    r_desc: bool = True
    """Reward descriptions from which the same model finds the objects again."""
    r_len: bool = True
    """Multiply by the reward of short reasoning. The paper's zero-shot setting does not."""
    n0: Annotated[int, Only(r_len=True), OF_REWARD] = ANCHOR
    """Tokens of reasoning that cost nothing."""
    gamma: Annotated[float, Only(r_len=True), OF_REWARD] = GAMMA
    """Cost of each further token."""
    gate_threshold: Annotated[float, Only(r_len=True), OF_REWARD] = 0.0
    """The length counts only in groups where some accuracy is above this. The paper's is 0, which
    in the `sam3` form one overlapping pixel passes; 0.5 is sensible."""
    len_floor: Annotated[float, Only(r_len=True), OF_REWARD] = 0.0
    """The least that length leaves of a reward. The paper's is 0; more than that is a deviation,
    for models whose reasoning begins at N0 + 1 / γ tokens or more."""
    longest_description: Annotated[int, Only(r_desc=True) | Only(r_len=True)] = LONGEST
    """Tokens; a longer one earns nothing."""
    second_temperature: Annotated[float | None, Only(r_desc=True) | Only(r_len=True)] = None
    """Temperature of the second pass; 0 is greedy, which halves the noise of its reward. None: as
    the first pass, which keeps that reward a chance."""
    semantics: Annotated[Semantics, Only(form="sam2"), OF_REWARD] = "official"
    """Metric of the accuracy in the `sam2` form, as of `visionreasoner`."""
    accuracy: Accuracy | None = None
    """R_acc; None: `LocationAccuracy`."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and not value >= 0:
                raise UsageError(f"dr2seg({name}=…)", expected="at least 0", found=str(value))
        if self.len_floor > 1:
            raise UsageError("dr2seg(len_floor=…)", expected="at most 1", found=str(self.len_floor))

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        accuracy = self.accuracy or LocationAccuracy(self.semantics)
        seconds = self._seconds(group)
        right = accuracy(group, [rollout.text for rollout in group.rollouts])
        texts = [second.text for second in seconds if second is not None]
        again = iter(accuracy(group, texts))
        # R_desc (Eq. 2) is the accuracy of the second responses.
        return [
            self._terms(
                group, first, terms, second, 0.0 if second is None else next(again)["accuracy"]
            )
            for first, terms, second in zip(group.rollouts, right, seconds, strict=True)
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the product of Eq. 7 for each rollout, and its second factor."""
        factors = [1.0] * len(components)
        if self.r_len:
            floored = [max(own["length"], self.len_floor) for own in components]
            accuracies = [own["accuracy"] for own in components]
            factors = gate_lengths(floored, accuracies, threshold=self.gate_threshold)
        bases = [
            sum(own[name] for name in FORMATS[self.form])
            + own["non_repeat"]
            + own["accuracy"]
            + (own["description"] if self.r_desc else 0.0)
            for own in components
        ]
        return [
            {"length_factor": factor, TOTAL: base * factor}
            for base, factor in zip(bases, factors, strict=True)
        ]

    def _terms(
        self,
        group: Group,
        first: Rollout,
        right: RewardComponents,
        second: Rollout | None,
        desc: float,
    ) -> RewardComponents:
        """Return the components of one rollout."""
        response = split_frame(first.text)[1]
        count = self._tokens(group, first)
        # Where nothing was described there was no second pass, of no length.
        again = None if second is None else self._tokens(group, second)
        return {
            **format_terms(response, form=self.form),
            **right,
            "non_repeat": non_repeat(response),
            "description": desc,
            "described": float(second is not None),
            "length": length_reward(count, again, anchor=self.n0, gamma=self.gamma),
            "tokens_first": float(count),
            **({} if again is None else {"tokens_second": float(again)}),
        }

    def _seconds(self, group: Group) -> list[Rollout | None]:
        """The second responses that count: those to a description that is one."""
        if not group.seconds:
            return [None] * len(group.rollouts)
        form, longest = self.form, self.longest_description
        return [
            after
            if description_of(first.text, group.count_tokens, form=form, longest=longest)
            else None
            for first, after in zip(group.rollouts, group.seconds, strict=True)
        ]

    def _tokens(self, group: Group, rollout: Rollout) -> int:
        return group.count_tokens(reasoning_text(split_frame(rollout.text)[1], form=self.form))
