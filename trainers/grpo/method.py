"""The parts by which methods with GRPO differ: settings, a reward, a prompt, a second pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from harness.errors import DataError
from harness.model import ChatRequest
from harness.models.pipeline import PromptedModel
from harness.models.rollout import Environment
from harness.trainer import Trainer
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.types import Reward, SecondPass
from harness.types import Sample

Ask: TypeAlias = Callable[[PromptedModel, Sample], ChatRequest]
"""Words a method's request; `request_of` unless a method's training asks something else."""


def request_of(model: PromptedModel, sample: Sample) -> ChatRequest:
    """Return the request that evaluation makes of a sample that has one form of answer.

    Raises:
        DataError: it has several, so that there is no one response to reward.
    """
    requests = model.requests(sample.query)
    if len(requests) != 1:
        raise DataError(
            f"sample {sample.id}", expected="one form of answer", found=f"{len(requests)} of them"
        )
    return requests[0]


def keep_model(model: PromptedModel) -> PromptedModel:
    """Return the model as it was given."""
    return model


def any_target(sample: Sample) -> object:
    """Take every sample that has a target."""
    return sample.target


@dataclass(frozen=True, kw_only=True)
class GrpoMethod(Trainer):
    """The parts of a method: its reward, and what it asks beside evaluation's own request."""

    needs_model: ClassVar[bool] = True
    model_kind: ClassVar[type[Any]] = PromptedModel
    """Class of the model that training starts from."""

    name: str
    settings: Settings
    reward: Reward
    environment: Environment | None = None
    """Answers the policy's turns, for rollouts of several."""
    second: SecondPass | None = None
    """The second request that each rollout leads to."""
    second_temperature: float | None = None
    """Temperature of its response; 0: greedy. None: that of rollouts."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """The method's own settings, plain data, for the record."""
    with_prompt: Callable[[PromptedModel], PromptedModel] = keep_model
    """Puts the method's prompt into the model that training starts from."""
    ask: Ask = request_of
    """Words the request of a sample, if it is not evaluation's."""
    usable: Callable[[Sample], object] = any_target
    """Raises a HarnessError for a sample without ground truth for the reward: it is left out."""
    unlabelled: bool = False
    """True if the reward needs no target: samples without one are taken, and none is seen."""

    def describe(self) -> Mapping[str, Any]:
        """Return every setting."""
        return {**self.own, **self.settings.describe()}
