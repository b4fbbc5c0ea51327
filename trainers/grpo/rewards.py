"""Reward groups: rewards, numbers for the curve, rows of `rollouts.jsonl`.

`harness explain DIR` draws the rows. Places are read as evaluation reads them, by the method's own
grammar and coordinate rule, and kept in pixels of the image: to draw them, no network is needed.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from statistics import fmean, stdev
from typing import Any

import numpy as np

from harness.errors import ModelError, ParseError, Unavailable
from harness.models.backends.sampling import uniforms
from harness.models.canvas import Canvas
from harness.models.grammar import ParseResult
from harness.models.prompted_requests import LOCATED
from harness.plugins import plugin_errors
from harness.responses import storable
from harness.thoughts import reasoning
from harness.trainer import Curve
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents
from harness.trainers.grpo.settings import RANDOM
from harness.trainers.session import gather

ROLLOUTS = "rollouts.jsonl"
INFRASTRUCTURE = "infrastructure"
"""Key of a rollout's facts: the reasons why nodes or sandboxes failed it."""
UNJUDGED = "unjudged"
"""Component of a reward: 1 where a judge gave no answer."""
REPEATED = 8
"""Tokens in a row that are looked for again, for `completions/repetition`."""
LARGEST = 1e6
"""Size of a reward's component at most: squares and sums of it stay exact enough in float32."""


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
    if len(given) != len(group.rollouts):
        raise ModelError(
            what, expected=f"{len(group.rollouts)} rewards", found=f"{len(given)} of them"
        )
    rewards = [components_of(value, what) for value in given]
    for own, key in zip(rewards, keys, strict=True) if method.settings.reward == RANDOM else ():
        drawn = float(uniforms(seed=seed, key=f"{key}/reward", block=0)[0])
        own[f"method_{TOTAL}"], own[TOTAL] = own[TOTAL], drawn
    return list(rewards)


def components_of(given: Any, what: str) -> dict[str, float]:
    """Return the components of a rollout's reward as plain numbers.

    A number is one of Python or NumPy, or a tensor of one element; a component of None does not
    apply to the sample, as in TRL, and is left out. A total of None is NaN: the rollout has no
    advantage and does not count in its group.

    Raises:
        ModelError: there is no total, or a number is not finite or beyond LARGEST.
    """
    known = given if isinstance(given, Mapping) else {}
    numbers = {name: plain_number(value) for name, value in known.items() if value is not None}
    wrong = [name for name, number in numbers.items() if not abs(number) <= LARGEST]
    if TOTAL not in known or wrong:
        shown = f"{wrong[0]}={known[wrong[0]]!r}" if wrong else repr(given)
        raise ModelError(
            what,
            expected=f"a dict of numbers between -{LARGEST:g} and {LARGEST:g}, {TOTAL!r} among "
            "them (None: a component that does not apply)",
            found=shown[:200],
        )
    return {**numbers, TOTAL: numbers.get(TOTAL, math.nan)}


def plain_number(value: Any) -> float:
    """Return a component as a number; NaN if it is something else."""
    if getattr(value, "ndim", None) == 0 or getattr(value, "shape", None) == (1,):
        value = value.item()
    return float(value) if isinstance(value, (Real, np.bool)) else math.nan


def losses(groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]) -> list[str]:
    """Return why each rollout was lost to the infrastructure; empty for one that was not.

    Rewards of lost rollouts say nothing of the policy. Empty as a whole if no part that could fail
    is asked.
    """
    lost = []
    for group, several in zip(groups, rewards, strict=True):
        for rollout, components in zip(group.rollouts, several, strict=True):
            reasons = list(rollout.facts.get(INFRASTRUCTURE, ()))
            if components.get(UNJUDGED):
                reasons.append("the judge gave no answer")
            if reasons or INFRASTRUCTURE in rollout.facts:
                lost.append(reasons[0] if reasons else "")
    return lost


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
            fix="Nothing was learned from this round. Fix the cause and run the command again.",
        )


def numbers_of(
    groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]
) -> dict[str, list[float]]:
    """Return what is logged of groups, one number a rollout or a group under each name."""
    numbers = defaultdict[str, list[float]](list)
    for group, several in zip(groups, rewards, strict=True):
        totals = [own[TOTAL] for own in several if not math.isnan(own[TOTAL])]
        numbers["frac_reward_zero_std"].append(float(len(set(totals)) < 2))
        numbers["frac_groups_all_zero"].append(float(set(totals) == {0.0}))
        for rollout, components in zip(group.rollouts, several, strict=True):
            numbers["completions/mean_length"].append(float(rollout.tokens))
            numbers["completions/clipped_ratio"].append(float(rollout.cut))
            numbers["think_length"].append(float(group.count_tokens(reasoning(rollout.text))))
            for name, value in components.items():
                numbers[f"rewards/{name}"].append(value)
        numbers["second_length"] += [float(second.tokens) for second in group.seconds]
    return {name: values for name, values in numbers.items() if values}


def statistics_of(
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    lengths: Sequence[int],
    completions: Sequence[Sequence[int]],
) -> tuple[dict[str, list[float]], list[str]]:
    """Return `numbers_of` a round in all processes, and the reasons of all `losses`.

    Here what is only logged of a round begins.

    Args:
        groups: The round's groups in this process.
        rewards: Their rewards.
        lengths: Number of tokens of each rollout's prompt.
        completions: Tokens that the policy wrote in each rollout.
    """
    numbers = {
        **numbers_of(groups, rewards),
        "prompts/mean_length": list(map(float, lengths)),
        "completions/repetition": list(map(repetition, completions)),
    }
    merged = defaultdict[str, list[float]](list)
    for name, values in (pair for process in gather([numbers]) for pair in process.items()):
        merged[name] += values
    if reasons := gather(losses(groups, rewards)):
        merged["frac_rollouts_lost"] = [float(bool(reason)) for reason in reasons]
    return dict(merged), reasons


def summary_of(numbers: Mapping[str, Sequence[float]], gains: Sequence[float]) -> dict[str, float]:
    """Return a round's numbers for the log, from those of all processes and all advantages.

    Names and meanings are TRL's where it has the number: deviations are of all rewards of the
    round, with Bessel's correction.
    """
    numbers = {
        name: [value for value in values if not math.isnan(value)]
        for name, values in numbers.items()
    }
    totals, lengths = numbers[f"rewards/{TOTAL}"] or [math.nan], numbers["completions/mean_length"]
    cut = numbers["completions/clipped_ratio"]
    ended = [length for length, is_cut in zip(lengths, cut, strict=True) if not is_cut] or [0.0]
    prompts = numbers["prompts/mean_length"]
    rewards = {name: values for name, values in numbers.items() if name.startswith("rewards/")}
    dead = numbers["frac_reward_zero_std"]
    size = len(lengths) // len(dead)
    return {
        **{name: fmean(values) for name, values in numbers.items() if values},
        **{f"{name}/std": deviation(values) for name, values in rewards.items() if values},
        "prompts/min_length": min(prompts),
        "prompts/max_length": max(prompts),
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/mean_terminated_length": fmean(ended),
        "completions/min_terminated_length": min(ended),
        "completions/max_terminated_length": max(ended),
        "dead_tokens": sum(length for at, length in enumerate(lengths) if dead[at // size]),
        "reward": fmean(totals),
        "reward_std": deviation(totals),
        "reward/min": min(totals),
        "reward/max": max(totals),
        "advantages/min": min(gains),
        "advantages/max": max(gains),
    }


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation with Bessel's correction; 0 for a single number."""
    return stdev(values) if len(values) > 1 else 0.0


def repetition(tokens: Sequence[int]) -> float:
    """Return the share of a completion's 8-grams that occurred in it before; 0 for a short one.

    Keys of JSON and set phrases are shorter, so that several objects of an answer do not count.

    >>> repetition(range(20)), repetition([1, 2] * 10)
    (0.0, 0.8461538461538461)
    """
    several = [tuple(tokens[at : at + REPEATED]) for at in range(len(tokens) - REPEATED + 1)]
    return 1 - len(set(several)) / len(several) if several else 0.0


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
