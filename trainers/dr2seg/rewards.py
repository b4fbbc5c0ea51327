"""DR2Seg's reward: (format + no repetition + accuracy + description) × gated length.

He et al., "DR2Seg" (arXiv:2601.09981), Eq. 2 to 8. The terms of Eq. 6 are VisionReasoner's
(`trainers/visionreasoner`). A response is `<think>…</think><description>…</description>
<answer>…</answer>`. In a second pass, the same policy answers the description as its question. All
functions are pure and accept any text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

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
from harness.trainers.dr2seg.second_pass import MAX_TOKENS, description_of
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
"""N0 of Eq. 5: number of reasoning tokens without a penalty."""
GAMMA = 0.05
"""γ of Eq. 5: penalty for each further token."""

FORMATS: Mapping[Form, tuple[str, ...]] = {
    "sam2": ("thinking_format", "answer_format"),
    "sam3": ("thinking_format", "description_format", "answer_format"),
}
"""Components of R_format, see `format_terms`."""


Accuracy: TypeAlias = Callable[[Group, Sequence[str]], list[RewardComponents]]
"""R_acc of several responses to one sample: named parts, and their sum `accuracy`."""


@dataclass(frozen=True, slots=True)
class LocationAccuracy:
    """VisionReasoner's accuracy of boxes and points, from 0 to 3."""

    semantics: Semantics = "official"

    def __call__(self, group: Group, responses: Sequence[str]) -> list[RewardComponents]:
        """Return, per response, the three parts of the accuracy and their sum."""
        target = target_objects(group.sample)
        parts = map(take_apart, responses)
        texts_after_thought = [f"{frame_tag(part.frame)}{part.text}" for part in parts]
        scores = [
            location_accuracy(group, text, target, semantics=self.semantics)
            for text in texts_after_thought
        ]
        return [{**score._asdict(), "accuracy": score.total} for score in scores]


def format_terms(response: str, *, form: Form = "sam2") -> dict[str, float]:
    """Return the components of R_format.

    In both forms a response earns 1 if it consists of exactly its three parts in order. `sam2` adds
    VisionReasoner's 0 to 2 for boxes and points. `sam3` adds 1 for a description that is not empty,
    and 0 to 1 for boxes, because this form has no points.

    >>> format_terms("<think>a</think><description>b</description><answer>[]</answer>")
    {'thinking_format': 1.0, 'answer_format': 0.0}
    """
    has_all_parts, answer_part = float(well_formed(response, TAGS[form])), after_thought(response)
    if form == "sam2":
        return {"thinking_format": has_all_parts, "answer_format": answer_format(answer_part)}
    return {
        "thinking_format": has_all_parts,
        "description_format": float(bool(description(answer_part, form=form))),
        "answer_format": box_format(answer_part),
    }


def box_format(response: str) -> float:
    """Return the share (0 to 1) of the answer's objects whose box is a list of four values."""
    value = answer_value(response)
    if not isinstance(value, list) or not value:
        return 0.0
    boxes = [entry.get(BOX) if isinstance(entry, dict) else None for entry in value]
    return sum(isinstance(box, list) and len(box) == 4 for box in boxes) / len(value)


def length_reward(
    first: int, second: int | None, *, anchor: int = ANCHOR, gamma: float = GAMMA
) -> float:
    """Return R_len (Eq. 5): 1 if the second pass reasons less, minus a penalty, at least 0.

    Args:
        first: N1, number of reasoning tokens of the first pass.
        second: N2, number of reasoning tokens of the second pass; None without a second pass.
        anchor: N0, number of tokens of the first pass without a penalty.
        gamma: Penalty for each further token.

    >>> [length_reward(*pair) for pair in ((45, 44), (46, 45), (55, 1), (65, 1), (44, 44))]
    [1.0, 0.95, 0.5, 0.0, 0.0]
    """
    shorter = second is not None and second < first
    return min(max(float(shorter) - gamma * max(0, first - anchor), 0.0), 1.0)


def gate_lengths(
    lengths: Sequence[float], accuracies: Sequence[float], *, threshold: float = 0.0
) -> list[float]:
    """Return R̃_len (Eq. 8) of a group: R_len if an accuracy exceeds `threshold`, else 1 for all.

    The paper's threshold is 0.

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
    """`sam2`: reward boxes and points. `sam3`: reward the mask that the model's segmenter makes of
    boxes and description."""
    r_desc: bool = True
    """Reward descriptions from which the same model finds the objects again."""
    r_len: bool = True
    """Multiply by the reward of short reasoning. The paper's zero-shot setting does not."""
    n0: Annotated[int, Only(r_len=True), OF_REWARD] = ANCHOR
    """Number of reasoning tokens without a penalty."""
    gamma: Annotated[float, Only(r_len=True), OF_REWARD] = GAMMA
    """Penalty for each further token."""
    gate_threshold: Annotated[float, Only(r_len=True), OF_REWARD] = 0.0
    """The length counts only in groups with an accuracy above this. The paper's is 0, which in the
    `sam3` form one overlapping pixel passes; 0.5 is sensible."""
    len_floor: Annotated[float, Only(r_len=True), OF_REWARD] = 0.0
    """Smallest length factor. The paper's is 0; a larger one is a deviation, for models that start
    with N0 + 1 / γ reasoning tokens or more."""
    longest_description: Annotated[int, Only(r_desc=True) | Only(r_len=True)] = MAX_TOKENS
    """Largest number of tokens of a description; a longer one earns nothing."""
    second_temperature: Annotated[float | None, Only(r_desc=True) | Only(r_len=True)] = None
    """Temperature of the second pass; None: that of the first pass. 0 (greedy) halves the noise of
    the second pass's reward."""
    semantics: Annotated[Semantics, Only(form="sam2"), OF_REWARD] = "official"
    """Accuracy in the `sam2` form, as in `visionreasoner`."""
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
        first_accuracies = accuracy(group, [rollout.text for rollout in group.rollouts])
        second_texts = [second.text for second in seconds if second is not None]
        second_accuracies = iter(accuracy(group, second_texts))
        # R_desc (Eq. 2) is the accuracy of the second responses.
        return [
            self._terms(
                group,
                first,
                terms,
                second,
                0.0 if second is None else next(second_accuracies)["accuracy"],
            )
            for first, terms, second in zip(group.rollouts, first_accuracies, seconds, strict=True)
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return, for each rollout, the product of Eq. 7 and its length factor."""
        factors = [1.0] * len(components)
        if self.r_len:
            floored = [max(terms["length"], self.len_floor) for terms in components]
            accuracies = [terms["accuracy"] for terms in components]
            factors = gate_lengths(floored, accuracies, threshold=self.gate_threshold)
        bases = [
            sum(terms[name] for name in FORMATS[self.form])
            + terms["non_repeat"]
            + terms["accuracy"]
            + (terms["description"] if self.r_desc else 0.0)
            for terms in components
        ]
        return [
            {"length_factor": factor, TOTAL: base * factor}
            for base, factor in zip(bases, factors, strict=True)
        ]

    def _terms(
        self,
        group: Group,
        first: Rollout,
        accuracy: RewardComponents,
        second: Rollout | None,
        desc: float,
    ) -> RewardComponents:
        """Return the components of one rollout.

        Args:
            group: The rollout's group.
            first: The rollout.
            accuracy: The components of its accuracy.
            second: The response of the second pass; None if the rollout has no description.
            desc: R_desc.
        """
        response = split_frame(first.text)[1]
        n_tokens = self._tokens(group, first)
        n_second_tokens = None if second is None else self._tokens(group, second)
        return {
            **format_terms(response, form=self.form),
            **accuracy,
            "non_repeat": non_repeat(response),
            "description": desc,
            "described": float(second is not None),
            "length": length_reward(n_tokens, n_second_tokens, anchor=self.n0, gamma=self.gamma),
            "tokens_first": float(n_tokens),
            **({} if n_second_tokens is None else {"tokens_second": float(n_second_tokens)}),
        }

    def _seconds(self, group: Group) -> list[Rollout | None]:
        """Return the second response of each rollout; None if the rollout has no description."""
        if not group.seconds:
            return [None] * len(group.rollouts)
        form, longest = self.form, self.longest_description
        return [
            second
            if description_of(first.text, group.count_tokens, form=form, longest=longest)
            else None
            for first, second in zip(group.rollouts, group.seconds, strict=True)
        ]

    def _tokens(self, group: Group, rollout: Rollout) -> int:
        """Return the number of reasoning tokens of a response."""
        return group.count_tokens(reasoning_text(split_frame(rollout.text)[1], form=self.form))
