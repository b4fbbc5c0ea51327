"""Video-R1's rewards: accuracy by type of question, format, length, and T-GRPO's contrast.

Semantics of `src/r1-v/src/open_r1/grpo.py` and `trainer/grpo_trainer.py` (tulerfeng/Video-R1,
commit 59d65c3). The paper asks that the share of right answers with frames in order be above mu
times the share with frames shuffled; the code has `>=` and mu = 0.8 on mean accuracies, and so do
we. SpaceR shares all but the accuracy. Both score the first `<answer>` of the whole response, the
thought included, as their code does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from harness.models.grammar import well_formed
from harness.models.pipeline import PromptedModel
from harness.models.video_str.answer_prompts import digits
from harness.options import Only
from harness.trainers.grpo.functions import OF_REWARD
from harness.trainers.grpo.method import (
    TOTAL,
    ComponentReward,
    Group,
    RewardComponents,
    Rollout,
    SecondPass,
)
from harness.trainers.video_r1.shuffled import ShuffledFrames
from harness.trainers.video_str.answers import answer, answer_reward, ground_truth_of
from harness.types import AnswerForm, Sample

Numbers: TypeAlias = Literal["regression", "numerical"]
"""Rule for numbers: a score by relative error, or 1 if two decimals agree, else 0."""
Accuracy: TypeAlias = Callable[[Group, Rollout], float]

TERMS = ("accuracy", "format", "temporal", "length")
"""Components that the total adds."""
QUALIFIES = 0.1  # accuracy above which a rollout earns a bonus


def format_reward(response: str) -> float:
    """Return 1 if the whole response is reasoning and answer; unlike Video-STR's, it is not
    stripped.
    """
    return float(well_formed(response))


def temporal_reward(
    ordered: Sequence[float], shuffled: Sequence[float], *, mu: float = 0.8, alpha: float = 0.3
) -> list[float]:
    """The bonus of T-GRPO for each rollout of a group.

    `alpha` for those that are right (accuracy above 0.1), if the mean accuracy with frames in
    order is at least `mu` times the mean with frames shuffled; none where nothing was shuffled.

    >>> temporal_reward([1, 0], [1, 1]), temporal_reward([1, 0], [0.5, 0])
    ([0.0, 0.0], [0.3, 0.0])
    """
    if not ordered or not shuffled:
        return [0.0] * len(ordered)
    means = [math.fsum(accuracies) / len(accuracies) for accuracies in (ordered, shuffled)]
    helps = means[0] >= mu * means[1]
    return [alpha * float(helps and accuracy > QUALIFIES) for accuracy in ordered]


def length_rewards(
    accuracies: Sequence[float],
    tokens: Sequence[int],
    *,
    omega: float = 0.2,
    shortest: int = 320,
    longest: int = 512,
) -> list[float]:
    """`omega` for right rollouts of a length within the bounds, if at least two are right.

    >>> length_rewards([1, 1, 0], [400, 600, 400]), length_rewards([1, 0], [400, 400])
    ([0.2, 0.0, 0.0], [0.0, 0.0])
    """
    right = [accuracy > QUALIFIES for accuracy in accuracies]
    return [
        omega * float(sum(right) > 1 and good and shortest <= length <= longest)
        for good, length in zip(right, tokens, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class VideoR1Accuracy:
    """The accuracy of Video-R1 by the type of a question.

    `extra["problem_type"]` of a target may name the type (`numerical`, `regression`, `OCR`,
    `free-form`); without it numbers are of the type set here, and texts are free answers. Forms
    that Video-R1 does not ask for score as in Video-STR. `extra["solution"]` may hold a true
    number as it was written, with its decimals.
    """

    numbers: Numbers = "regression"

    def __call__(self, group: Group, rollout: Rollout) -> float:
        """Return the accuracy from 0 to 1."""
        target, predicted = ground_truth_of(group.sample), answer(rollout.text)
        form, kind = group.sample.query.form, target.extra.get("problem_type")
        if form is AnswerForm.CHOICE:
            return float(predicted == target.answer.choice)
        if form is AnswerForm.NUMBER:
            ground_truth = str(
                target.extra.get("solution", digits(float(target.answer.number or 0.0)))
            )
            exact = (kind or self.numbers) == "numerical"
            return (
                numerical(predicted, ground_truth) if exact else regression(predicted, ground_truth)
            )
        return answer_reward(group, rollout.text)


@dataclass(frozen=True, kw_only=True)
class TemporalReward(ComponentReward):
    """Accuracy and format, with the bonuses for length and for the order of frames."""

    compares_rollouts = True

    temporal: bool = True
    """Ask each question a second time with shuffled frames (T-GRPO); without, GRPO."""
    alpha: Annotated[float, Only(temporal=True), OF_REWARD] = 0.3
    """The bonus where the order of frames is of use."""
    mu: Annotated[float, Only(temporal=True), OF_REWARD] = 0.8
    """Share of the shuffled frames' accuracy that the ordered ones' has to reach."""
    length: Annotated[bool, OF_REWARD] = True
    """Reward the length of right answers."""
    omega: Annotated[float, Only(length=True), OF_REWARD] = 0.2
    """Size of that reward."""
    shortest: Annotated[int, Only(length=True), OF_REWARD] = 320
    """Fewest completion tokens that are rewarded."""
    longest: Annotated[int, Only(length=True), OF_REWARD] = 512
    """Most completion tokens that are rewarded."""
    order_seed: Annotated[int, Only(temporal=True)] = 0
    """Seed of the shuffled orders."""
    accuracy: Accuracy = VideoR1Accuracy()

    def components(self, group: Group) -> list[RewardComponents]:
        """Return the terms of each rollout; `seconds` of the group saw the frames shuffled."""
        accuracies = [self.accuracy(group, rollout) for rollout in group.rollouts]
        video = any(len(media) > 1 for media in group.sample.query.media)
        shuffled = [self.accuracy(group, rollout) for rollout in group.seconds] if video else []
        temporal = temporal_reward(accuracies, shuffled, mu=self.mu, alpha=self.alpha)
        length = length_rewards(
            accuracies,
            [rollout.tokens for rollout in group.rollouts],
            omega=self.omega if self.length else 0.0,
            shortest=self.shortest,
            longest=self.longest,
        )
        formats = [format_reward(rollout.text) for rollout in group.rollouts]
        return [
            dict(zip(TERMS, terms, strict=True))
            for terms in zip(accuracies, formats, temporal, length, strict=True)
        ]

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the sum of the TERMS of each rollout."""
        return [{TOTAL: math.fsum(own[name] for name in TERMS)} for own in components]

    def contrast(self, max_new_tokens: int) -> Callable[[PromptedModel], SecondPass] | None:
        """Return what makes the second request of rollouts; None: there is none."""
        if not self.temporal:
            return None
        return lambda model: ShuffledFrames(model, self.order_seed, max_new_tokens)

    def record(self) -> dict[str, object]:
        """Return the options as they count, for the record."""
        plain = {**vars(self), "omega": self.omega if self.length else 0.0}
        return {name: plain[name] for name in plain if name not in ("length", "accuracy")}


def check_sample(sample: Sample) -> None:
    """Raise a HarnessError for a sample whose form of answer has no accuracy."""
    ground_truth_of(sample)


def numerical(predicted: str, ground_truth: str) -> float:
    """Return 1 if both numbers agree to two decimals, and both or neither have a decimal.

    >>> numerical("3.14", "3.141"), numerical("3", "3.0")
    (1.0, 0.0)
    """
    if any(mark in predicted for mark in ".,") != any(mark in ground_truth for mark in ".,"):
        return 0.0
    number, true = plain_number(predicted), plain_number(ground_truth)
    if number is None or true is None or not (math.isfinite(number) and math.isfinite(true)):
        return 0.0
    return float(round(number, 2) == round(true, 2))


def regression(predicted: str, ground_truth: str) -> float:
    """1 minus the relative error, at least 0; 1e-9 is added to both parts of the quotient.

    No number scores 0, `nan` included, which the official code always holds right.
    """
    number, true = plain_number(predicted), plain_number(ground_truth)
    if number is None or true is None or not math.isfinite(number):
        return 0.0
    error = (abs(number - true) + 1e-9) / (abs(true) + 1e-9)
    return 1 - min(1.0, max(0.0, error))


def plain_number(text: str) -> float | None:
    """Return the number that Python parses once commas are out; None for all else."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
