"""Groups to rewards: every component checked, and the numbers that are logged of them."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from harness.errors import ModelError
from harness.models.grammar import reasoning
from harness.plugins import plugin_errors
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.grpo.types import TOTAL, Group, RewardComponents


def reward_group(
    method: GrpoMethod, group: Group, keys: Sequence[str], *, seed: int
) -> list[RewardComponents]:
    """Reward a group by its method, or, for a control, at random.

    Args:
        method: Its reward, and the setting that puts a uniform number in its place.
        group: The rollouts of one prompt.
        keys: Those that its rollouts were drawn under.
        seed: Of the uniform numbers.

    Raises:
        ModelError: the reward fails, or gives no number a rollout.
    """
    what = f"reward of {method.name}, sample {group.sample.id}"
    with plugin_errors(what, ModelError):
        given = list(method.reward(group))
    if len(given) != len(group.rollouts):
        raise ModelError(
            what,
            expected=f"components of {len(group.rollouts)} rollouts",
            found=f"{len(given)} of them",
        )
    found: list[RewardComponents] = []
    for components in given:
        if not isinstance(components, Mapping):
            raise ModelError(
                what,
                expected="a dict of components a rollout",
                found=repr(components)[:80],
                fix=f"Return [{{{TOTAL!r}: number, …}}, …].",
            )
        wrong = {name: value for name, value in components.items() if not _number(value)}
        if TOTAL not in components or wrong:
            raise ModelError(
                what,
                expected=f"finite numbers, {TOTAL!r} among them",
                found=str(wrong or sorted(components)),
            )
        found.append({name: float(value) for name, value in components.items()})
    if method.settings.reward == "method":
        return found
    return [
        {**one, f"method_{TOTAL}": one[TOTAL], TOTAL: uniform(seed, key)}
        for one, key in zip(found, keys, strict=True)
    ]


def numbers_of(
    groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]
) -> dict[str, list[float]]:
    """Return what is logged of groups, one number a rollout or a group under each name."""
    found: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for group, several in zip(groups, rewards, strict=True):
        totals = [one[TOTAL] for one in several]
        add("frac_groups_zero_variance", float(max(totals) == min(totals)))
        add("frac_groups_all_zero", float(not any(totals)))
        for rollout, components in zip(group.rollouts, several, strict=True):
            add("think_length", float(group.count_tokens(reasoning(rollout.text))))
            for name, value in components.items():
                add(f"rewards/{name}", value)
        for second in group.seconds:
            add("second_length", float(second.tokens))
    return found


def uniform(seed: int, key: str) -> float:
    """Return a number from 0 to 1 that depends on nothing but these."""
    digest = hashlib.blake2b(f"{seed}\x00{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def _number(value: Any) -> bool:
    return isinstance(value, (Real, np.bool)) and math.isfinite(value)
