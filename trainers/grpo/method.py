"""`GrpoMethod`, the parts that make a GRPO method, and `Group`, the value that its reward scores.

A method is settings, a reward, and changes to evaluation's requests. `GrpoTrainer` trains it.
"""

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
"""Components of a rollout's reward under the paper's names; only `total` enters the advantage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One completion of a prompt."""

    text: str
    """Decoded text of all turns and of texts injected between, special tokens removed."""
    tokens: int
    """Number of tokens that the policy wrote, with end tokens, without injected ones."""
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
    """Responses of the same policy to the second request of each rollout; empty: there was none."""
    canvas: tuple[int, int]
    """(width, height) of the coordinate frame of responses, x before y: the pixels of the image as
    the VLM saw it, (1000, 1000), (100, 100), … (`harness.coordinates.Coordinates`). (0, 0) without
    media."""
    count_tokens: Callable[[str], int]
    """Counts the tokens of a text, without special ones."""
    frames: tuple[tuple[int, ...], ...] = ()
    """Indices of the frames that were shown, one tuple a medium."""


Reward: TypeAlias = Callable[[Group], list[RewardComponents]]
"""Pure function of a group that returns the components of each rollout, in order.

It never raises an error because of a response: a malformed response gets the reward that the
method's paper says. An error is a fault of the method and ends the training, unless
`reward_errors=drop`.
"""


class ComponentReward(ABC):
    """A reward in two steps: the components, then the totals that follow from them.

    Between the two, a user's function can change components (`harness.trainers.grpo.functions`).
    """

    __slots__ = ()
    compares_rollouts: ClassVar[bool] = False
    """True if a rollout's components depend on the others of its group, or on second responses."""

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout, with its total."""
        components = self.components(group)
        totals = self.totals(components)
        return [{**terms, **total} for terms, total in zip(components, totals, strict=True)]

    @abstractmethod
    def components(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout, without a total."""

    def totals(self, components: Sequence[RewardComponents]) -> list[RewardComponents]:
        """Return the total of each rollout of a group, with intermediate results to log.

        Reads no component that is only logged: those that are read count as parts of the total.
        """
        return [{TOTAL: sum(terms.values())} for terms in components]


SecondPass: TypeAlias = Callable[[Sample, Rollout], ChatRequest]
"""Builds the second request of a rollout (DR2Seg: a question about the rollout's description).

It returns a request for a malformed rollout, too: all devices must generate equally often. Rollouts
come in the order in which they end, so that only the sample and the rollout may decide.
"""


def request_of(model: PromptedModel, sample: Sample) -> ChatRequest:
    """Return evaluation's request for a sample with one form of answer.

    Raises:
        DataError: it has several forms, so that there are several responses to reward.
    """
    requests = model.requests(sample.query)
    if len(requests) != 1:
        raise DataError(
            f"sample {sample.id}", expected="one form of answer", found=f"{len(requests)} of them"
        )
    return requests[0]


@dataclass(frozen=True, kw_only=True)
class GrpoMethod(Trainer):
    """The parts of a method: settings, reward, and changes to evaluation's requests."""

    needs_model: ClassVar[bool] = True
    needs_tasks: ClassVar[bool] = True
    model_kind: ClassVar[type[Any]] = PromptedModel
    """Class of the model that training starts from."""

    name: str
    settings: Settings
    reward: Reward
    environment: Environment | None = None
    """Responds to each turn of the policy; None: a rollout is one turn."""
    second: SecondPass | None = None
    """Builds the second request of each rollout; None: there is no second response."""
    second_tokens: int = 0
    """Most tokens that a second prompt has beyond the first."""
    second_temperature: float | None = None
    """Temperature of the second response; 0: greedy. None: that of rollouts."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """The method's own settings, plain data, for the record."""
    with_prompt: Callable[[PromptedModel], PromptedModel] = lambda model: model
    """Puts the method's prompt into the model that training starts from."""
    request: Callable[[PromptedModel, Sample], ChatRequest] = request_of
    """Builds the request of a sample; by default evaluation's."""
    usable: Callable[[Sample], object] = lambda sample: sample.target
    """Raises a HarnessError for a sample without ground truth for the reward: it is left out."""
    unlabelled: bool = False
    """True if the reward needs no target. Samples without one are taken, and targets are hidden."""

    def may_change(self, name: str, old: object, new: object) -> bool:
        """Return True for settings that do not alter what is learned, and for larger totals."""
        return self.settings.may_change(name, old, new)

    def describe(self) -> Mapping[str, Any]:
        """Return every setting."""
        return {**self.own, **self.settings.describe()}
