"""What a reward sees and says: rollouts of one prompt, the truth, and named terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from harness.model import ChatRequest
from harness.types import Sample

Terms: TypeAlias = Mapping[str, float]
"""A rollout's reward, term by term, under the paper's names; `total` is what is learned from."""

TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One completion of a prompt."""

    text: str
    """Decoded, special tokens removed."""
    tokens: int
    """Completion tokens, the end token included."""
    cut: bool = False
    """It reached the limit of new tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rollouts of one prompt, and what is known of its sample.

    A reward of one rollout may look at the whole group (DR2Seg's gate does), never at another.
    """

    sample: Sample
    """Query and target, in original pixels."""
    rollouts: tuple[Rollout, ...]
    seconds: tuple[Rollout, ...] = ()
    """What the same policy said to the second request of each rollout; empty: none was made."""
    canvas: tuple[int, int]
    """(width, height) of the picture in the numbers of replies: its pixels as the network saw it,
    (1000, 1000), (100, 100), … (`harness.model.Coordinates`); x is before y."""
    count_tokens: Callable[[str], int]
    """Tokens of a text, without special ones."""
    frames: tuple[tuple[int, ...], ...] = ()
    """The frames that were shown, one tuple a medium."""


class Reward(Protocol):
    """Scores a group: one `Terms` a rollout, in order. It is a pure function of the group.

    It never raises on what a network wrote: a malformed reply is worth what the method's paper
    says. What it raises is a fault of the method, and ends the training.
    """

    def __call__(self, group: Group) -> list[Terms]: ...  # noqa: D102


class SecondPass(Protocol):
    """The second request that a rollout leads to (DR2Seg asks again with its description).

    Always one a rollout, also of a malformed one: with several devices all must generate the same
    number of times. The reward decides what it is worth. Rollouts come in the order in which they
    end, so that a request has to depend on nothing but sample and rollout.
    """

    def __call__(self, sample: Sample, rollout: Rollout) -> ChatRequest: ...  # noqa: D102
