"""Reward groups: rewards, numbers for the curve, rows of `rollouts.jsonl`.

`harness explain DIR` draws the rows. Places are read as evaluation reads them, by the method's own
grammar and coordinate rule, and kept in pixels of the image: to draw them, no network is needed.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from harness.errors import ModelError, ParseError, Unavailable
from harness.models.backends.sampling import uniforms
from harness.models.canvas import Canvas
from harness.models.grammar import ParseResult
from harness.models.pipeline import LOCATED
from harness.plugins import plugin_errors
from harness.responses import storable
from harness.thoughts import reasoning
from harness.trainer import Curve
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents

ROLLOUTS = "rollouts.jsonl"
INFRASTRUCTURE = "infrastructure"
"""Key of a rollout's facts: the reasons why nodes or sandboxes failed it."""
UNJUDGED = "unjudged"
"""Component of a reward: 1 where a judge gave no answer."""


def reward_group(
    method: GrpoMethod, group: Group, keys: Sequence[str], *, seed: int
) -> list[RewardComponents]:
    """Reward a group by its method, or, for a control, by uniform numbers of seed and key alone.

    Raises:
        ModelError: the reward fails, or gives no number a rollout.
    """
    what = f"reward of {method.name}, sample {group.sample.id}"
    with plugin_errors(what, ModelError):
        given = list(method.reward(group))
    wrong = [one for one in given if not _are_components(one)]
    if wrong or len(given) != len(group.rollouts):
        raise ModelError(
            what,
            expected=f"{len(group.rollouts)} dicts of finite numbers, {TOTAL!r} among them",
            found=repr(wrong[0])[:200] if wrong else f"{len(given)} of them",
        )
    found = [{name: float(value) for name, value in one.items()} for one in given]
    for one, key in zip(found, keys, strict=True) if method.settings.reward == "random" else ():
        drawn = float(uniforms(seed=seed, key=f"{key}/reward", block=0)[0])
        one[f"method_{TOTAL}"], one[TOTAL] = one[TOTAL], drawn
    return list(found)


def _are_components(given: Any) -> bool:
    return (
        isinstance(given, Mapping)
        and TOTAL in given
        and all(isinstance(one, (Real, np.bool)) and math.isfinite(one) for one in given.values())
    )


def losses(groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]) -> list[str]:
    """Return why each rollout was lost to the infrastructure; empty for one that was not.

    Rewards of lost rollouts say nothing of the policy. Empty as a whole if no part that could fail
    is asked.
    """
    found = []
    for group, several in zip(groups, rewards, strict=True):
        for rollout, components in zip(group.rollouts, several, strict=True):
            reasons = list(rollout.facts.get(INFRASTRUCTURE, ()))
            if components.get(UNJUDGED):
                reasons.append("the judge gave no answer")
            if reasons or INFRASTRUCTURE in rollout.facts:
                found.append(reasons[0] if reasons else "")
    return found


def refuse_losses(reasons: Sequence[str], *, limit: float, rollouts: int, number: int) -> None:
    """Raise Unavailable if a round lost too many rollouts to learn from it.

    Args:
        reasons: Of lost rollouts in all processes (`losses`).
        limit: Share of the rollouts that may be lost.
        rollouts: Rollouts of the round in all processes.
        number: Of the round, from 0.
    """
    lost = Counter(filter(None, reasons))
    if lost.total() > limit * rollouts:
        ((reason, times),) = lost.most_common(1)
        raise Unavailable(
            f"round {number + 1} of the training",
            expected=f"at most {limit:.1%} of its rollouts lost to nodes, sandboxes, servers and "
            "judges (infrastructure_limit)",
            found=f"{lost.total()} of {rollouts}, {times} of them because of: {reason[:300]}",
            fix="Nothing was learned from it. Mend that and go on with --resume.",
        )


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
            found["completions/mean_length"].append(float(rollout.tokens))
            found["completions/clipped_ratio"].append(float(rollout.cut))
            found["think_length"].append(float(group.count_tokens(reasoning(rollout.text))))
            for name, value in components.items():
                found[f"rewards/{name}"].append(value)
        found["second_length"] += [float(second.tokens) for second in group.seconds]
    return {name: values for name, values in found.items() if values}


def log_rollouts(
    file: Curve,
    step: int,
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    advantages: Sequence[float],
    parse: Callable[[str], ParseResult],
) -> None:
    """Add a row for each rollout of groups, from which the optimiser's `step` (from 1) learns.

    `rewards` and `advantages` are of at least these groups; `parse` is the method's grammar, with
    the repairs of inference.
    """
    learned = iter(advantages)
    for group, several in zip(groups, rewards, strict=False):
        for number, rollout in enumerate(group.rollouts):
            row: dict[str, Any] = {
                "task": group.task,
                "sample": group.sample.id,
                "rollout": number,
                "canvas": list(group.canvas),
                "text": rollout.text,
                "tokens": rollout.tokens,
                "cut": rollout.cut,
                "components": dict(several[number]),
                **places_of(parse, group, rollout.text),
            }
            if rollout.facts:
                row["facts"] = dict(rollout.facts)
            if group.seconds:
                row["second"] = group.seconds[number].text
            file.append(step, {**row, "advantage": next(learned)})


def places_of(
    parse: Callable[[str], ParseResult], group: Group, response: str
) -> Mapping[str, Any]:
    """Return the places that a response names, and `unread` where it is outside the grammar.

    `boxes` are [left, top, right, bottom] and `points` [x, y], in pixels of the original image,
    `frame` the frame of the first medium that they are in: the one that was shown alone, or is
    named. Empty for a question that is answered in words.
    """
    query = group.sample.query
    if len(query.forms) != 1 or query.form not in LOCATED or not group.frames:
        return {}
    try:
        read = parse(storable(response))
    except ParseError as error:
        read = ParseResult(error=str(error))
    shown, total, canvas = group.frames[0], len(query.media[0]), Canvas(group.canvas, query.size)
    named = read.frame if read.frame is not None and read.frame < total else total // 2
    items = [canvas.to_image(item) for item in read.items]
    return {
        "frame": shown[0] if len(shown) == 1 else named,
        "boxes": [list(item.box) for item in items if item.box is not None],
        "points": [list(item.point) for item in items if item.point is not None],
        **({} if read.error is None else {"unread": read.error}),
    }
