"""Rewards as plain functions: plugins of the group `harness.rewards`.

    def shorter(response, sample, *, rewards, **facts):
        return {**rewards, "length": 0.5 * rewards["length"]}

`reward=NAME` puts one into any method; the trainer `grpo` has no other. It is called once a
rollout, and may read the method's own reward of it. Whole groups, second responses and settings
want the next step: a `Reward` and a trainer function (docs/plugins.md).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, TypeAlias

from harness import plugins
from harness.errors import ModelError, UnknownPlugin
from harness.options import Only
from harness.trainers.grpo.method import TOTAL, ComponentReward, Group, Reward, RewardComponents
from harness.trainers.grpo.rewards import plain_number
from harness.trainers.grpo.settings import METHOD, RANDOM

RewardFunction: TypeAlias = Callable[..., float | Mapping[str, float | None] | None]
"""Function of a response, its sample, and facts by keyword.

It returns a number, or named components whose sum is learned from (`total`, if one is called so).
A component of None does not apply and is left out; a rollout of which nothing applies has no
advantage and does not count in its group, as in TRL. If it returns components of the method that
it read, the total is the method's own rule on them, plus the sum of further ones.
"""
FACTS = ("task", "canvas", "frames", "tokens", "cut", "second")
"""Facts of every rollout, called as in `Group` and `Rollout`; `second` is the text of its second
response, or None. An environment adds its own."""
REWARDS = "rewards"
"""Fact of every method that has a reward: `MethodRewards`."""


def no_reward(group: Group) -> list[RewardComponents]:
    """Reward of the trainer `grpo`, in whose place a function stands."""
    return [{TOTAL: 0.0}] * len(group.rollouts)


class MethodReward:
    """A method's own reward of a group, computed when a function first reads it."""

    def __init__(self, reward: Reward, group: Group) -> None:
        self.reward = reward
        self.group = group

    @cached_property
    def components(self) -> Sequence[RewardComponents]:
        """Components of each rollout, without what their totals are computed by."""
        if isinstance(self.reward, ComponentReward):
            return self.reward.components(self.group)
        return [
            {name: value for name, value in own.items() if name != TOTAL} for own in self._whole
        ]

    @cached_property
    def totals(self) -> Sequence[float]:
        """Total of each rollout."""
        if isinstance(self.reward, ComponentReward):
            return [own[TOTAL] for own in self.reward.totals(self.components)]
        return [own[TOTAL] for own in self._whole]

    @cached_property
    def _whole(self) -> Sequence[RewardComponents]:
        return self.reward(self.group)

    def total_again(self, given: Sequence[Any], reads: Sequence[bool]) -> list[Any]:
        """Return what a function returned, with totals by the method's rule where it kept parts.

        Args:
            given: What the function returned for each rollout.
            reads: Whether it reads the method's own reward of this rollout; else parts of the same
                names are its own.

        Raises:
            ModelError: the total does not follow from the components of a rollout.
        """
        uses = [
            reading
            and isinstance(parts, Mapping)
            and TOTAL not in parts
            and bool(parts.keys() & self.components[place].keys())
            for place, (parts, reading) in enumerate(zip(given, reads, strict=True))
        ]
        if not any(uses):
            return list(given)
        if not isinstance(self.reward, ComponentReward):
            raise ModelError(
                "components that a reward function returns",
                expected=f"{TOTAL!r} among them: this method does not say how they make its total",
                found=", ".join(given[uses.index(True)]),
            )
        changed = [
            _Components({name: parts.get(name, own[name]) for name in own} if kept else own)
            for parts, own, kept in zip(given, self.components, uses, strict=True)
        ]
        totals = self.reward.totals(changed)
        return [
            self._with_total(parts, own, terms.read, total) if kept else parts
            for parts, own, terms, total, kept in zip(
                given, self.components, changed, totals, uses, strict=True
            )
        ]

    def _with_total(
        self,
        parts: Mapping[str, float | None],
        own: RewardComponents,
        terms: set[str],
        total: RewardComponents,
    ) -> dict[str, float | None]:
        """Return a rollout's components with the method's total of them, plus further ones."""
        logged = own.keys() - terms
        idle = [name for name in parts if name in logged and parts[name] != own[name]]
        idle += [name for name in parts if name in total]
        lacking = sorted(terms - parts.keys())
        if idle or lacking:
            raise ModelError(
                "components that a reward function returns",
                expected=f"the components that make the method's total ({', '.join(sorted(terms))})"
                f", any of them changed, or {TOTAL!r} beside others",
                found=f"{idle[0]!r}, on which that total does not depend"
                if idle
                else f"no {lacking[0]!r}",
            )
        further = [plain_number(parts[name] or 0.0) for name in parts if name not in own]
        return {**parts, **total, TOTAL: total[TOTAL] + sum(further)}


class _Components(Mapping[str, float]):
    """Components of a rollout; notes which of them a total is computed from."""

    def __init__(self, values: Mapping[str, float | None]) -> None:
        self.values_by_name = values
        self.read = set[str]()

    def __getitem__(self, name: str) -> float:
        self.read.add(name)
        value = self.values_by_name[name]
        return 0.0 if value is None else plain_number(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


class MethodRewards(Mapping[str, float]):
    """The components of the method's own reward of one rollout, as a function sees them."""

    def __init__(self, method: MethodReward, place: int) -> None:
        self._method = method
        self._place = place
        self.was_read = False

    @property
    def total(self) -> float:
        """The method's own reward of the rollout."""
        self.was_read = True
        return self._method.totals[self._place]

    def __getitem__(self, name: str) -> float:
        return self._components[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._components)

    def __len__(self) -> int:
        return len(self._components)

    @property
    def _components(self) -> RewardComponents:
        self.was_read = True
        return self._method.components[self._place]


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """The reward of a group: a function of each rollout by itself."""

    name: str
    function: RewardFunction
    facts: frozenset[str] | None
    """Facts that the function takes; None: all."""
    method: Reward | None = None
    """The method's own reward, which the function may read; None: it has none."""
    names_rewards: bool = False
    """True if the function names `rewards`: it may leave them unread for some rollouts, whose parts
    mean the same as those of the others."""

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        places = range(len(group.rollouts))
        if self.method is None:
            given = [self._call(group, place, None) for place in places]
        else:
            own = MethodReward(self.method, group)
            of_method = [MethodRewards(own, place) for place in places]
            calls = [self._call(group, place, of_method[place]) for place in places]
            reads = [self.names_rewards or rewards.was_read for rewards in of_method]
            given = own.total_again(calls, reads)
        return [self._with_total(value) for value in given]

    def _call(self, group: Group, place: int, rewards: MethodRewards | None) -> Any:
        rollout = group.rollouts[place]
        facts = {
            **rollout.facts,
            "task": group.task,
            "canvas": group.canvas,
            "frames": group.frames,
            "tokens": rollout.tokens,
            "cut": rollout.cut,
            "second": group.seconds[place].text if group.seconds else None,
            **({} if rewards is None else {REWARDS: rewards}),
        }
        if self.facts is not None:
            facts = {name: value for name, value in facts.items() if name in self.facts}
        return self.function(rollout.text, group.sample, **facts)

    def _with_total(self, given: Any) -> Any:
        if isinstance(given, Mapping):
            parts = [plain_number(part) for part in given.values() if part is not None]
            return {**given, TOTAL: given.get(TOTAL, sum(parts) if parts else None)}
        return {TOTAL: None} if given is None else {self.name: given, TOTAL: given}


def named_reward(name: str, method: Reward | None, *, of_environment: bool) -> FunctionReward:
    """Return the reward of an installed function.

    Args:
        name: Of the plugin.
        method: The reward in whose place it stands; None: there is none.
        of_environment: Whether an environment adds facts that are not known before it runs.

    Raises:
        UnknownPlugin: none is installed by this name.
        ModelError: it cannot be called with a response, a sample and these facts.
    """
    function, parameters = _function(name)
    known = FACTS if method is None else (*FACTS, REWARDS)
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    named = frozenset(
        parameter.name
        for parameter in parameters[2:]
        if parameter.kind is not Parameter.VAR_KEYWORD
    )
    given = named if of_environment else named & set(known)
    try:
        signature(function).bind("", None, **dict.fromkeys(given))
    except TypeError as error:
        raise ModelError(f"reward {name!r}", expected=_form(known), found=str(error)) from error
    return FunctionReward(
        name, function, None if takes_all else named, method, names_rewards=REWARDS in named
    )


def reads_method_reward(name: object) -> bool:
    """Return True if the method's own reward counts, or may, with this value of `reward`."""
    if name in (METHOD, RANDOM):
        return True
    _, parameters = _function(str(name))
    return any(
        parameter.name == REWARDS or parameter.kind is Parameter.VAR_KEYWORD
        for parameter in parameters[2:]
    )


OF_REWARD = Only(reward=reads_method_reward)
"""Mark of a setting that counts only in the method's own reward."""


def settings_of_reward(trainer: str) -> frozenset[str]:
    """Return the settings of an installed trainer that are marked OF_REWARD."""
    try:
        parameters = signature(plugins.load("trainers", trainer)).parameters
    except UnknownPlugin:  # one that a program has put together
        return frozenset()
    return frozenset(
        name
        for name, parameter in parameters.items()
        if OF_REWARD in getattr(parameter.annotation, "__metadata__", ())
    )


def _function(name: str) -> tuple[RewardFunction, list[Parameter]]:
    function: RewardFunction = plugins.load("rewards", name)
    if not callable(function) or iscoroutinefunction(function):
        raise ModelError(f"reward {name!r}", expected=_form(FACTS), found=repr(function)[:80])
    return function, list(signature(function).parameters.values())


def _form(facts: Sequence[str]) -> str:
    return "a function (response, sample, *, FACT, …, **facts), facts of " + ", ".join(facts)
