"""A method with GRPO: its settings, its reward, its requests, and the values that these see."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from harness.chat import ChatRequest
from harness.errors import DataError
from harness.models.pipeline import PromptedModel
from harness.models.rollout import Environment
from harness.trainer import Trainer
from harness.trainers.grpo.settings import Settings
from harness.types import Sample

TOTAL = "total"
RewardComponents: TypeAlias = Mapping[str, float]
"""A rollout's reward, part by part, under the paper's names; `total` is what is learned from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One completion of a prompt."""

    text: str
    """Decoded text of all turns and of texts injected between, special tokens removed."""
    tokens: int
    """Number of tokens that the policy wrote, end tokens included, injected ones not."""
    cut: bool = False
    """True if it reached the limit of new tokens."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that its environment noted beside the text, such as an exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rollouts of one prompt, and its sample."""

    sample: Sample
    """Query and target, in original pixels."""
    task: str = ""
    """Name of the sample's task."""
    rollouts: tuple[Rollout, ...]
    seconds: tuple[Rollout, ...] = ()
    """Responses of the same policy to the second request of each rollout; empty: none was made."""
    canvas: tuple[int, int]
    """(width, height) of the frame that the numbers of responses are in: its pixels as the
    VLM saw it, (1000, 1000), (100, 100), … (`harness.coordinates.Coordinates`); x before y. (0, 0)
    without media."""
    count_tokens: Callable[[str], int]
    """Counts the tokens of a text, without special ones."""
    frames: tuple[tuple[int, ...], ...] = ()
    """Frames that were shown, one tuple a medium."""


Reward: TypeAlias = Callable[[Group], list[RewardComponents]]
"""Scores the rollouts of a group, in order, by a pure function of the whole group.

It never raises on what a network wrote: a malformed response is worth what the method's paper
says. What it raises is a fault of the method, and ends the training, unless `reward_errors` says
otherwise.
"""


class ComponentReward(ABC):
    """A reward in two steps: components, and the totals that follow from them.

    Between the two a plain function can change a component (`harness.trainers.grpo.functions`).
    """

    __slots__ = ()
    compares_rollouts: ClassVar[bool] = False
    """True if a rollout's components depend on the others of its group, or on second responses."""

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout, with its total."""
        components = self.components(group)
        totals = self.totals(components)
        return [{**own, **total} for own, total in zip(components, totals, strict=True)]

    @abstractmethod
    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout, without a total."""

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the total of each rollout of a group, and what is computed on the way to it.

        Components that are only logged are not read here.
        """
        return [{TOTAL: sum(own.values())} for own in components]


SecondPass: TypeAlias = Callable[[Sample, Rollout], ChatRequest]
"""Words the second request that a rollout leads to (DR2Seg: with its description).

Always one a rollout, also of a malformed one: with several devices all must generate equally often.
Rollouts come in the order in which they end: nothing but sample and rollout may decide.
"""


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


@dataclass(frozen=True, kw_only=True)
class GrpoMethod(Trainer):
    """The parts of a method: its reward, and its requests beside evaluation's own."""

    needs_model: ClassVar[bool] = True
    needs_tasks: ClassVar[bool] = True
    model_kind: ClassVar[type[Any]] = PromptedModel
    """Class of the model that training starts from."""

    name: str
    settings: Settings
    reward: Reward
    environment: Environment | None = None
    """Answers the policy's turns, for rollouts of several."""
    second: SecondPass | None = None
    """Words the second request that each rollout leads to."""
    second_tokens: int = 0
    """Most tokens that a second prompt has beyond the first."""
    second_temperature: float | None = None
    """Temperature of its response; 0: greedy. None: that of rollouts."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """The method's own settings, plain data, for the record."""
    with_prompt: Callable[[PromptedModel], PromptedModel] = lambda model: model
    """Puts the method's prompt into the model that training starts from."""
    request: Callable[[PromptedModel, Sample], ChatRequest] = request_of
    """Words the request of a sample, if it is not evaluation's."""
    usable: Callable[[Sample], object] = lambda sample: sample.target
    """Raises a HarnessError for a sample without ground truth for the reward: it is left out."""
    unlabelled: bool = False
    """True if the reward needs no target: samples without one are taken, and none is seen."""

    def may_change(self, name: str, old: object, new: object) -> bool:
        """Return True for settings that do not alter what is learned, and for larger totals."""
        return self.settings.may_change(name, old, new)

    def describe(self) -> Mapping[str, Any]:
        """Return every setting."""
        return {**self.own, **self.settings.describe()}
