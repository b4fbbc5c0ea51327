"""Video-R1's rewards: accuracy by type of question, format, length, and T-GRPO's contrast.

Semantics of `src/r1-v/src/open_r1/grpo.py` and `trainer/grpo_trainer.py` (tulerfeng/Video-R1,
commit 59d65c3). For the contrast the paper compares shares of right answers by `>`; the code, and
we, compare mean accuracies by `>=` with mu = 0.8. SpaceR shares all terms but the accuracy. Both
score the first `<answer>` of the whole response, even inside the thought, as their code does.
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
MIN_BONUS_ACCURACY = 0.1  # accuracy above which a rollout earns a bonus


def format_reward(response: str) -> float:
    """Return 1 if the response is exactly reasoning and answer (spaces around them are not allowed,
    unlike in Video-STR), else 0.
    """
    return float(well_formed(response))


def temporal_reward(
    ordered: Sequence[float], shuffled: Sequence[float], *, mu: float = 0.8, alpha: float = 0.3
) -> list[float]:
    """Return the bonus of T-GRPO for each rollout of a group.

    It is `alpha` for rollouts with an accuracy above MIN_BONUS_ACCURACY, if the mean accuracy with
    frames in order is at least `mu` times the mean with frames shuffled. Otherwise, and if no
    frames were shuffled, it is 0.

    >>> temporal_reward([1, 0], [1, 1]), temporal_reward([1, 0], [0.5, 0])
    ([0.0, 0.0], [0.3, 0.0])
    """
    if not ordered or not shuffled:
        return [0.0] * len(ordered)
    mean, shuffled_mean = math.fsum(ordered) / len(ordered), math.fsum(shuffled) / len(shuffled)
    helps = mean >= mu * shuffled_mean
    return [alpha * float(helps and accuracy > MIN_BONUS_ACCURACY) for accuracy in ordered]


def length_rewards(
    accuracies: Sequence[float],
    tokens: Sequence[int],
    *,
    omega: float = 0.2,
    shortest: int = 320,
    longest: int = 512,
) -> list[float]:
    """Return the length reward of each rollout of a group.

    It is `omega` for a right rollout of `shortest` to `longest` tokens, if at least two rollouts
    are right (accuracy above MIN_BONUS_ACCURACY); else 0.

    >>> length_rewards([1, 1, 0], [400, 600, 400]), length_rewards([1, 0], [400, 400])
    ([0.2, 0.0, 0.0], [0.0, 0.0])
    """
    right = [accuracy > MIN_BONUS_ACCURACY for accuracy in accuracies]
    if right.count(True) < 2:
        return [0.0] * len(right)
    return [
        omega * float(is_right and shortest <= length <= longest)
        for is_right, length in zip(right, tokens, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class VideoR1Accuracy:
    """Video-R1's accuracy of one rollout, by the type of its question.

    A target's `extra["problem_type"]` may name the type (`numerical`, `regression`, `OCR`,
    `free-form`); without it, numbers have the type `numbers` and texts are free answers. Forms
    that Video-R1 does not have are scored as in Video-STR. `extra["solution"]` may hold the true
    number as a text, with its decimals.
    """

    numbers: Numbers = "regression"

    def __call__(self, group: Group, rollout: Rollout) -> float:
        """Return the accuracy from 0 to 1."""
        target, predicted = ground_truth_of(group.sample), answer(rollout.text)
        form, problem_type = group.sample.query.form, target.extra.get("problem_type")
        if form is AnswerForm.CHOICE:
            return float(predicted == target.answer.choice)
        if form is AnswerForm.NUMBER:
            ground_truth = str(
                target.extra.get("solution", digits(float(target.answer.number or 0.0)))
            )
            rule = numerical if (problem_type or self.numbers) == "numerical" else regression
            return rule(predicted, ground_truth)
        return answer_reward(group, rollout.text)


@dataclass(frozen=True, kw_only=True)
class TemporalReward(ComponentReward):
    """Accuracy and format, with the bonuses for length and for the order of frames."""

    compares_rollouts = True

    temporal: bool = True
    """True: ask each question a second time with shuffled frames (T-GRPO). False: GRPO."""
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
        return [{TOTAL: math.fsum(terms[name] for name in TERMS)} for terms in components]

    def contrast(self, max_new_tokens: int) -> Callable[[PromptedModel], SecondPass] | None:
        """Return a function from the trained model to its second pass; None: there is none."""
        if not self.temporal:
            return None
        return lambda model: ShuffledFrames(model, self.order_seed, max_new_tokens)

    def record(self) -> dict[str, object]:
        """Return the settings for the record; omega is 0 if the length is not rewarded."""
        settings = {**vars(self), "omega": self.omega if self.length else 0.0}
        return {name: settings[name] for name in settings if name not in ("length", "accuracy")}


def check_sample(sample: Sample) -> None:
    """Raise a HarnessError if a sample's form of answer has no accuracy, or no ground truth."""
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
    """Return 1 minus the relative error, at least 0; 1e-9 is added to error and true number.

    A text that is not a number scores 0; so does `nan`, which the official code takes as right.
    """
    number, true = plain_number(predicted), plain_number(ground_truth)
    if number is None or true is None or not math.isfinite(number):
        return 0.0
    error = (abs(number - true) + 1e-9) / (abs(true) + 1e-9)
    return 1 - min(1.0, max(0.0, error))


def plain_number(text: str) -> float | None:
    """Return a text without its commas as a number, by Python's `float`; None: it is not one."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
