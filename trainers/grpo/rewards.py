"""Groups to rewards: every component checked, and the numbers that are logged of them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from harness.errors import ModelError
from harness.models.backends.sampling import uniforms
from harness.models.grammar import reasoning
from harness.plugins import plugin_errors
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents


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
    wrong = next((one for one in given if not _are_components(one)), None)
    if wrong is not None or len(given) != len(group.rollouts):
        raise ModelError(
            what,
            expected=f"{len(group.rollouts)} dicts of finite numbers, {TOTAL!r} among them",
            found=f"{len(given)} of them" if wrong is None else repr(wrong)[:200],
            fix=f"Return [{{{TOTAL!r}: number, …}}, …], one a rollout.",
        )
    found = [{name: float(value) for name, value in one.items()} for one in given]
    if method.settings.reward == "random":
        for one, key in zip(found, keys, strict=True):
            one[f"method_{TOTAL}"], one[TOTAL] = one[TOTAL], uniform(seed, key)
    return list(found)


def numbers_of(
    groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]
) -> dict[str, list[float]]:
    """Return what is logged of groups, one number a rollout or a group under each name."""
    found = defaultdict[str, list[float]](list)
    for group, several in zip(groups, rewards, strict=True):
        totals = [one[TOTAL] for one in several]
        found["frac_groups_zero_variance"].append(float(max(totals) == min(totals)))
        found["frac_groups_all_zero"].append(float(not any(totals)))
        for rollout, components in zip(group.rollouts, several, strict=True):
            found["think_length"].append(float(group.count_tokens(reasoning(rollout.text))))
            for name, value in components.items():
                found[f"rewards/{name}"].append(value)
        for second in group.seconds:
            found["second_length"].append(float(second.tokens))
    return found


def uniform(seed: int, key: str) -> float:
    """Return a number from 0 to 1 that depends on nothing but these."""
    return float(uniforms(seed=seed, key=f"{key}/reward", block=0)[0])


def _are_components(given: Any) -> bool:
    return (
        isinstance(given, Mapping)
        and TOTAL in given
        and all(isinstance(one, (Real, np.bool)) and math.isfinite(one) for one in given.values())
    )
