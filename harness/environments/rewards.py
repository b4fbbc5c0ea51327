"""Rewards of an episode's responses: a metric of the task's protocol, or a method's reward.

A reward is a function of a unit's samples and predictions that returns the reward and further
numbers by name; `session` calls it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from harness import plugins
from harness.errors import ModelError, UnknownPlugin, UsageError
from harness.models.multi_turn import ConversingModel
from harness.models.pipeline import PromptedModel
from harness.models.propagators.still import still
from harness.models.segmenters.box import box
from harness.run.scoring import score_unit
from harness.run.verify import perfect
from harness.scores import Totals
from harness.spec import parse
from harness.task import Task
from harness.trainers.grpo.examples import example_of
from harness.trainers.grpo.functions import FunctionReward
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, Rollout
from harness.trainers.grpo.rewards import components_of
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.types import FailureKind, Prediction, Sample, failed_prediction

N_TRIED = 32
"""Number of first units on which `headline_over_units` tries the headline."""


@dataclass(frozen=True)
class ProtocolReward:
    """A metric of the task's protocol over one unit, or the mean of several."""

    task: Task
    metrics: tuple[str, ...]

    def __call__(
        self, unit: Sequence[Sample], predictions: Sequence[Prediction]
    ) -> tuple[float, dict[str, float]]:
        """Return (mean of `metrics` over the unit, all metrics' numbers by name).

        A metric without a value in the unit is left out of the mean. The mean of none is 0: some
        protocols leave out a response without an answer, and giving no answer must not pay.
        """
        numbers = numbers_of(self.task, unit, predictions)
        rewards = [numbers[name] for name in self.metrics if name in numbers]
        return math.fsum(rewards) / max(len(rewards), 1), numbers


def numbers_of(
    task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> dict[str, float]:
    """Return the numbers of a protocol's metrics over one unit; metrics without one are left out.

    Raises:
        DataError: the scorer cannot score it.
    """
    totals = Totals(task.protocol.metrics)
    totals.add(score_unit(task, unit, predictions).scores)
    return {name: value for name, value in totals.values().items() if value is not None}


def headline_over_units(task: Task, units: Iterable[Sequence[Sample]]) -> ProtocolReward:
    """Return the protocol's headline as a reward of single units.

    A headline that is a mean over categories, or a product with a number of the whole benchmark
    (SA-Co's cgF1), may not distinguish a perfect from a missing answer in a single unit. Then the
    reward is the mean of those of its input metrics that do.

    Raises:
        UsageError: none of them does in the first `N_TRIED` units.
    """
    of_perfect: list[dict[str, float]] = []
    of_missing: list[dict[str, float]] = []

    def distinguishes(name: str) -> bool:
        pairs = zip(of_perfect, of_missing, strict=True)
        return any(name in best and best[name] != worst.get(name) for best, worst in pairs)

    def distinguishing(name: str) -> tuple[str, ...]:
        """Return the metric, or those metrics that it is computed from, at any depth."""
        inputs = task.protocol.metric(name).inputs
        has_value = any(name in numbers for numbers in of_perfect)
        # A metric without a value in all these units may still have one in a later unit.
        if distinguishes(name) or not (inputs or has_value):
            return (name,)
        return tuple(found for input_name in inputs for found in distinguishing(input_name))

    headline = task.protocol.headline
    for unit in islice(units, N_TRIED):
        of_perfect.append(numbers_of(task, unit, [perfect(sample) for sample in unit]))
        missing = [failed_prediction(sample.query, FailureKind.MODEL, "none") for sample in unit]
        of_missing.append(numbers_of(task, unit, missing))
        if distinguishes(headline):
            break
    metrics = tuple(dict.fromkeys(distinguishing(headline)))
    if not metrics:
        raise UsageError(
            f"the reward of {task.name}",
            expected=f"a sample that {headline} tells right from missing",
            found=f"none among the first {len(of_perfect)}",
            fix="Name a metric: reward=" + ", ".join(m.name for m in task.protocol.metrics),
        )
    return ProtocolReward(task, metrics)


@dataclass(frozen=True)
class MethodReward:
    """The reward that a method's training gives to a rollout."""

    method: GrpoTrainer
    model: PromptedModel
    task: str

    def __call__(
        self, unit: Sequence[Sample], predictions: Sequence[Prediction]
    ) -> tuple[float, dict[str, float]]:
        """Return (total reward, its components by name) of a unit, which has one sample.

        The total is 0 without a response: the episode was aborted, and some components would
        reward an empty text.

        Raises:
            DataError: the sample has no ground truth for this reward.
            ModelError: the reward fails, or nothing of it applies to the sample.
        """
        (sample,), (prediction,) = unit, predictions
        if not prediction.responses:
            return 0.0, {}
        example = example_of(self.method, self.model, self.task, sample)
        rollout = Rollout(
            text=prediction.responses[0],
            tokens=prediction.usage.completion_tokens,
            cut=any(read.cut for read in prediction.parsed),
        )
        group = Group(
            sample=sample,
            task=self.task,
            rollouts=(rollout,),
            canvas=example.canvas,
            count_tokens=self.model.chat.count_tokens,
            frames=example.frames,
        )
        what = f"reward of {self.method.name}, sample {sample.id}"
        with plugins.plugin_errors(what, ModelError):
            (reward,) = self.method.reward(group)
        components = components_of(reward, what)
        if math.isnan(total := components.pop(TOTAL)):
            raise ModelError(what, expected="a number", found="no component that applies")
        return total, components


def named_reward(
    name: str, task: Task, model: ConversingModel[Any]
) -> tuple[ProtocolReward | MethodReward, ConversingModel[Any]]:
    """Return (the reward of this name, the model with the prompt of the reward's method).

    Args:
        name: A metric of the protocol, or the SPEC of a trainer.
        task: The task whose answers are rewarded.
        model: The model that makes requests; a metric leaves it unchanged.

    Raises:
        UsageError: the name is neither, or the trainer does not reward each response by itself.
    """
    metrics = [metric.name for metric in task.protocol.metrics if metric.better == "higher"]
    if name in metrics:
        return ProtocolReward(task, (name,)), model
    try:
        method = plugins.build("trainers", parse(name))
    except UnknownPlugin as error:
        raise UsageError(
            f"reward={name}",
            expected=f"{', '.join(metrics)}, or the SPEC of a trainer",
            found="neither",
        ) from error
    if isinstance(method, GrpoTrainer) and isinstance(model, PromptedModel):
        # The reward needs no masks, so the cheapest segmenter and propagator make them.
        model = method.with_prompt(model).with_perception(box(), still())
        bound = method.bound(model).rewarded
        if bound.second is None and not bound.unlabelled and _is_of_rollout(bound.reward):
            return MethodReward(bound, model, task.name), model
    raise UsageError(
        f"reward={name}",
        expected="a method that rewards each response by itself, with a model of one request",
        found=f"{name} with {model.name}: a second response, a whole group, several turns, or no "
        "reward",
        fix="Use the protocol's metrics, or `harness train`.",
    )


def _is_of_rollout(reward: object) -> bool:
    """Return True if a rollout's reward does not depend on the other rollouts of its group."""
    if isinstance(reward, FunctionReward):
        return reward.method is None or _is_of_rollout(reward.method)
    return isinstance(reward, ComponentReward) and not reward.compares_rollouts
