"""Rewards as plain functions: plugins of the group `harness.rewards`.

    def brevity(response, sample, *, tokens, **facts):
        return 1.0 / tokens

`reward=NAME` puts one into any method; the trainer `grpo` has no other. It is called once a
rollout. Whole groups, second responses and settings want the next step: a `Reward` and a trainer
function (docs/plugins.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, TypeAlias

from harness import plugins
from harness.errors import ModelError
from harness.trainers.grpo.method import TOTAL, Group, RewardComponents
from harness.trainers.grpo.rewards import plain_number

RewardFunction: TypeAlias = Callable[..., float | Mapping[str, float | None] | None]
"""Function of a response, its sample, and facts by keyword.

It returns a number, or named components whose sum is learned from (`total`, if one is called so).
A component of None does not apply and is left out; a rollout of which nothing applies has no
advantage and does not count in its group, as in TRL.
"""
FACTS = ("task", "canvas", "frames", "tokens", "cut", "second")
"""Facts of every rollout, called as in `Group` and `Rollout`; `second` is the text of its second
response, or None. An environment adds its own."""


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """The reward of a group: a function of each rollout by itself."""

    name: str
    function: RewardFunction
    facts: frozenset[str] | None
    """Facts that the function takes; None: all."""

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        return [self._components(group, place) for place in range(len(group.rollouts))]

    def _components(self, group: Group, place: int) -> Any:
        rollout = group.rollouts[place]
        facts = {
            **rollout.facts,
            "task": group.task,
            "canvas": group.canvas,
            "frames": group.frames,
            "tokens": rollout.tokens,
            "cut": rollout.cut,
            "second": group.seconds[place].text if group.seconds else None,
        }
        if self.facts is not None:
            facts = {name: value for name, value in facts.items() if name in self.facts}
        given = self.function(rollout.text, group.sample, **facts)
        if isinstance(given, Mapping):
            parts = [plain_number(part) for part in given.values() if part is not None]
            return {**given, TOTAL: given.get(TOTAL, sum(parts) if parts else None)}
        return {TOTAL: None} if given is None else {self.name: given, TOTAL: given}


def named_reward(name: str, *, of_environment: bool) -> FunctionReward:
    """Return the reward of an installed function.

    Args:
        name: Of the plugin.
        of_environment: Whether an environment adds facts that are not known before it runs.

    Raises:
        UnknownPlugin: none is installed by this name.
        ModelError: it cannot be called with a response, a sample and these facts.
    """
    function = plugins.load("rewards", name)
    expected = "a function (response, sample, *, FACT, …, **facts), facts of " + ", ".join(FACTS)
    if not callable(function) or iscoroutinefunction(function):
        raise ModelError(f"reward {name!r}", expected=expected, found=repr(function)[:80])
    parameters = list(signature(function).parameters.values())
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    named = frozenset(one.name for one in parameters[2:] if one.kind is not Parameter.VAR_KEYWORD)
    given = named if of_environment else named & set(FACTS)
    try:
        signature(function).bind("", None, **dict.fromkeys(given))
    except TypeError as error:
        raise ModelError(f"reward {name!r}", expected=expected, found=str(error)) from error
    return FunctionReward(name, function, None if takes_all else named)
