"""Rollouts to rewards: whole groups to the method's reward, every term checked and logged."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from harness.errors import ModelError
from harness.model import ChatRequest
from harness.models.grammar import reasoning
from harness.plugins import blamed
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.values import TOTAL, Group, Reward, Rollout, SecondPass, Terms

Write = Callable[[Sequence[ChatRequest], Sequence[str]], list[Rollout]]
"""Lets the policy answer requests: one rollout a request, under the key beside it."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What became of a round's rollouts in this process, in their order."""

    totals: list[float]
    numbers: Mapping[str, list[float]]
    """What is logged, averaged over all processes: by name, one a rollout or a group."""
    groups: Sequence[Group]
    terms: Sequence[Sequence[Terms]]
    """One a rollout of each group."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Rewards the groups of a round."""

    name: str
    reward: Reward
    second: SecondPass | None
    count_tokens: Callable[[str], int]
    random: bool = False
    """Learn from a uniform number instead: the control of an experiment."""
    seed: int = 0

    def __call__(
        self,
        examples: Sequence[Example],
        rollouts: Sequence[Sequence[Rollout]],
        keys: Sequence[Sequence[str]],
        *,
        write: Write,
        asked: Mapping[str, ChatRequest] = MappingProxyType({}),
    ) -> Scored:
        """Score groups.

        Args:
            examples: One a group.
            rollouts: Those of each group.
            keys: What each rollout was drawn under.
            write: For second requests, all of which are written together, without gradients.
            asked: Second requests that rollouts have led to already, by `second_key`.

        Raises:
            ModelError: the reward or the second pass fails, or gives no number a rollout.
        """
        seconds = self._seconds(examples, rollouts, keys, write, asked)
        groups = [
            Group(
                sample=example.sample,
                rollouts=tuple(several),
                seconds=tuple(after),
                canvas=example.canvas,
                count_tokens=self.count_tokens,
                frames=example.frames,
            )
            for example, several, after in zip(examples, rollouts, seconds, strict=True)
        ]
        terms = [
            self._controlled(self._terms(group), named)
            for group, named in zip(groups, keys, strict=True)
        ]
        return Scored(
            totals=[one[TOTAL] for several in terms for one in several],
            numbers=numbers_of(groups, terms),
            groups=groups,
            terms=terms,
        )

    def _seconds(
        self,
        examples: Sequence[Example],
        rollouts: Sequence[Sequence[Rollout]],
        keys: Sequence[Sequence[str]],
        write: Write,
        asked: Mapping[str, ChatRequest],
    ) -> list[list[Rollout]]:
        if self.second is None:
            return [[] for _ in examples]
        seconds = [second_key(key) for several in keys for key in several]
        led = (
            (example, one)
            for example, several in zip(examples, rollouts, strict=True)
            for one in several
        )
        requests = [
            asked[key] if key in asked else self.asked_again(example, rollout, key)
            for key, (example, rollout) in zip(seconds, led, strict=True)
        ]
        written = iter(write(requests, seconds))
        return [[next(written) for _ in several] for several in rollouts]

    def asked_again(self, example: Example, rollout: Rollout, key: str) -> ChatRequest:
        """The second request that a rollout leads to, to be answered under a key.

        Raises:
            ModelError: the method's second pass fails.
        """
        assert self.second is not None, "there is a second pass"
        with blamed(f"second pass of {self.name}", ModelError):
            return replace(self.second(example.sample, rollout), key=key)

    def _terms(self, group: Group) -> list[dict[str, float]]:
        what = f"reward of {self.name}, sample {group.sample.id}"
        with blamed(what, ModelError):
            found: list[Terms] = list(self.reward(group))
        if len(found) != len(group.rollouts):
            raise ModelError(
                what,
                expected=f"terms for {len(group.rollouts)} rollouts",
                found=f"{len(found)} of them",
            )
        for terms in found:
            wrong = {name: value for name, value in terms.items() if not _number(value)}
            if TOTAL not in terms or wrong:
                raise ModelError(
                    what,
                    expected=f"finite numbers, {TOTAL!r} among them",
                    found=str(wrong or sorted(terms)),
                )
        return [{name: float(value) for name, value in terms.items()} for terms in found]

    def _controlled(
        self, terms: Sequence[dict[str, float]], keys: Sequence[str]
    ) -> list[dict[str, float]]:
        if not self.random:
            return list(terms)
        return [
            {**one, f"method_{TOTAL}": one[TOTAL], TOTAL: uniform(self.seed, key)}
            for one, key in zip(terms, keys, strict=True)
        ]


def numbers_of(groups: Sequence[Group], terms: Sequence[Sequence[Terms]]) -> dict[str, list[float]]:
    """What is logged of groups: every term, lengths, and how many groups teach nothing."""
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for group, several in zip(groups, terms, strict=True):
        totals = [one[TOTAL] for one in several]
        add("frac_groups_zero_variance", float(max(totals) == min(totals)))
        add("frac_groups_all_zero", float(not any(totals)))
        for rollout, one in zip(group.rollouts, several, strict=True):
            add("think_length", float(group.count_tokens(reasoning(rollout.text))))
            for name, value in one.items():
                add(f"rewards/{name}", value)
        for after in group.seconds:
            add("second_length", float(after.tokens))
    return found


def second_key(key: str) -> str:
    """What the reply to the second request of a rollout is drawn under."""
    return f"{key}/second"


def uniform(seed: int, key: str) -> float:
    """A number from 0 to 1 that depends on nothing but these."""
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
