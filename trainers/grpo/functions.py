"""Rewards as plain functions of one response: plugins of the entry-point group `harness.rewards`.

    def shorter(response, sample, *, rewards, **facts):
        return {**rewards, "length": 0.5 * rewards["length"]}

`reward=NAME` uses one in any method; the trainer `grpo` needs one. It is called once a rollout and
may read the method's own reward of it (`rewards`). `named_reward` turns it into a `Reward` of
groups. A reward that needs whole groups, second responses or settings is a `Reward` with a trainer
function of its own (docs/plugins.md).
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
"""Function of a response (text), its sample, and facts by keyword.

It returns a number, or a dict of named components. The total is the component `total`, else the sum
of all. A component of None does not apply and is left out; a rollout without any component has no
advantage and does not count in its group, as in TRL. If the function returns components that it
read from the method's reward, the method's own rule makes the total of them, and further components
are added to it.
"""
FACTS = ("task", "canvas", "frames", "tokens", "cut", "second")
"""Facts of every rollout, named as in `Group` and `Rollout`; `second` is the text of its second
response, or None. An environment adds its own."""
REWARDS = "rewards"
"""Name of the fact that holds the method's own reward of the rollout, a `MethodRewards`."""


def no_reward(group: Group) -> list[RewardComponents]:
    """Return 0 for each rollout: placeholder of the trainer `grpo`, replaced by `reward=NAME`."""
    return [{TOTAL: 0.0}] * len(group.rollouts)


class GroupMethodReward:
    """A method's own reward of a group, computed when a function first reads it."""

    def __init__(self, reward: Reward, group: Group) -> None:
        self.reward = reward
        self.group = group

    @cached_property
    def components(self) -> Sequence[RewardComponents]:
        """Components of each rollout, without the total."""
        if isinstance(self.reward, ComponentReward):
            return self.reward.components(self.group)
        return [
            {name: value for name, value in terms.items() if name != TOTAL}
            for terms in self._results
        ]

    @cached_property
    def totals(self) -> Sequence[float]:
        """Total of each rollout."""
        if isinstance(self.reward, ComponentReward):
            return [terms[TOTAL] for terms in self.reward.totals(self.components)]
        return [terms[TOTAL] for terms in self._results]

    @cached_property
    def _results(self) -> Sequence[RewardComponents]:
        return self.reward(self.group)

    def total_again(self, results: Sequence[Any], reads: Sequence[bool]) -> list[Any]:
        """Return a function's results; where it changed components, with the method's total.

        Args:
            results: The function's return value for each rollout.
            reads: True for each rollout whose own reward the function read. In the others,
                components with the method's names are the function's own.

        Raises:
            ModelError: the method's total cannot be computed from the components of a rollout.
        """
        changes = list[bool]()
        for index, (result, was_read) in enumerate(zip(results, reads, strict=True)):
            may_change = was_read and isinstance(result, Mapping) and TOTAL not in result
            # `self.components` computes the method's reward: read only where it is needed.
            changes.append(may_change and bool(result.keys() & self.components[index].keys()))
        if not any(changes):
            return list(results)
        if not isinstance(self.reward, ComponentReward):
            raise ModelError(
                "components that a reward function returns",
                expected=f"{TOTAL!r} among them: this method does not say how they make its total",
                found=", ".join(results[changes.index(True)]),
            )
        changed = [
            _ReadRecorder(
                {name: result.get(name, own[name]) for name in own} if changes_it else own
            )
            for result, own, changes_it in zip(results, self.components, changes, strict=True)
        ]
        totals = self.reward.totals(changed)
        return [
            self._with_total(result, method_terms, terms.read, total) if changes_it else result
            for result, method_terms, terms, total, changes_it in zip(
                results, self.components, changed, totals, changes, strict=True
            )
        ]

    def _with_total(
        self,
        parts: Mapping[str, float | None],
        method_terms: RewardComponents,
        terms: set[str],
        total: RewardComponents,
    ) -> dict[str, float | None]:
        """Return a rollout's components with their total: the method's, plus further components.

        Args:
            parts: Components that the function returned.
            method_terms: The method's components before.
            terms: Names of the components that the method's total was computed from.
            total: The method's total of the changed components, with its intermediate results.

        Raises:
            ModelError: a term is missing, or a changed component does not enter the total.
        """
        logged = method_terms.keys() - terms
        idle = [name for name in parts if name in logged and parts[name] != method_terms[name]]
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
        added = [plain_number(parts[name] or 0.0) for name in parts if name not in method_terms]
        return {**parts, **total, TOTAL: total[TOTAL] + sum(added)}


class _ReadRecorder(Mapping[str, float]):
    """Components of a rollout that record in `read` which of them a total is computed from."""

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
    """The method's own reward components of one rollout, as a user's function sees them."""

    def __init__(self, method: GroupMethodReward, rollout_index: int) -> None:
        self._method = method
        self._place = rollout_index
        self.was_read = False

    @property
    def total(self) -> float:
        """The method's own reward of the rollout."""
        self.was_read = True
        return self._method.totals[self._place]

    def __getitem__(self, name: str) -> float:
        return self._terms[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)

    @property
    def _terms(self) -> RewardComponents:
        self.was_read = True
        return self._method.components[self._place]


@dataclass(frozen=True, slots=True)
class FunctionReward:
    """A `Reward` that calls a user's function for each rollout of a group."""

    name: str
    function: RewardFunction
    facts: frozenset[str] | None
    """Facts that the function takes; None: all."""
    method: Reward | None = None
    """The method's own reward, which the function may read; None: it has none."""
    names_rewards: bool = False
    """True if the function names `rewards`. Its components with the method's names are then the
    method's for all rollouts, also for those whose `rewards` it did not read."""

    def __call__(self, group: Group) -> list[RewardComponents]:
        """Return the components of each rollout."""
        indices = range(len(group.rollouts))
        if self.method is None:
            results = [self._call(group, index, None) for index in indices]
        else:
            method_reward = GroupMethodReward(self.method, group)
            method_rewards = [MethodRewards(method_reward, index) for index in indices]
            calls = [self._call(group, index, method_rewards[index]) for index in indices]
            reads = [self.names_rewards or rewards.was_read for rewards in method_rewards]
            results = method_reward.total_again(calls, reads)
        return [self._with_total(result) for result in results]

    def _call(self, group: Group, index: int, rewards: MethodRewards | None) -> Any:
        """Call the function for the rollout at a place, with those facts that it takes."""
        rollout = group.rollouts[index]
        facts = {
            **rollout.facts,
            "task": group.task,
            "canvas": group.canvas,
            "frames": group.frames,
            "tokens": rollout.tokens,
            "cut": rollout.cut,
            "second": group.seconds[index].text if group.seconds else None,
            **({} if rewards is None else {REWARDS: rewards}),
        }
        if self.facts is not None:
            facts = {name: value for name, value in facts.items() if name in self.facts}
        return self.function(rollout.text, group.sample, **facts)

    def _with_total(self, result: Any) -> Any:
        """Return a function's result as components with a total; the total is None for none."""
        if isinstance(result, Mapping):
            parts = [plain_number(part) for part in result.values() if part is not None]
            return {**result, TOTAL: result.get(TOTAL, sum(parts) if parts else None)}
        return {TOTAL: None} if result is None else {self.name: result, TOTAL: result}


def named_reward(name: str, method: Reward | None, *, of_environment: bool) -> FunctionReward:
    """Return the reward of an installed function.

    Args:
        name: Name of the plugin.
        method: The method's own reward, which the function replaces; None: it has none.
        of_environment: True if an environment adds facts whose names are unknown before it runs.

    Raises:
        UnknownPlugin: no reward of this name is installed.
        ModelError: the function cannot be called with a response, a sample and these facts.
    """
    function, parameters = _function(name)
    facts = FACTS if method is None else (*FACTS, REWARDS)
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    names = frozenset(
        parameter.name
        for parameter in parameters[2:]
        if parameter.kind is not Parameter.VAR_KEYWORD
    )
    passed = names if of_environment else names & set(facts)
    try:
        signature(function).bind("", None, **dict.fromkeys(passed))
    except TypeError as error:
        raise ModelError(f"reward {name!r}", expected=_form(facts), found=str(error)) from error
    return FunctionReward(
        name, function, None if takes_all else names, method, names_rewards=REWARDS in names
    )


def reads_method_reward(name: object) -> bool:
    """Return True if the method's own reward counts, or may count, with this value of `reward`."""
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
    except UnknownPlugin:  # a trainer that a program made without a plugin
        return frozenset()
    return frozenset(
        name
        for name, parameter in parameters.items()
        if OF_REWARD in getattr(parameter.annotation, "__metadata__", ())
    )


def _function(name: str) -> tuple[RewardFunction, list[Parameter]]:
    """Return an installed reward function and its parameters; ModelError if it is not callable."""
    function: RewardFunction = plugins.load("rewards", name)
    if not callable(function) or iscoroutinefunction(function):
        raise ModelError(f"reward {name!r}", expected=_form(FACTS), found=repr(function)[:80])
    return function, list(signature(function).parameters.values())


def _form(facts: Sequence[str]) -> str:
    """Return the expected signature in words, for errors."""
    return "a function (response, sample, *, FACT, …, **facts), facts of " + ", ".join(facts)
