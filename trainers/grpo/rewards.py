"""Reward a group of rollouts, and compute the numbers of a round that are logged.

The numbers go to the curve (`summary_of`) and to `rollouts.jsonl` (`log_rollouts`), which
`harness explain DIR` draws. Places in it are read as evaluation reads them, by the method's grammar
and coordinate rule, and are in pixels of the original image.
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
NGRAM_LENGTH = 8
"""Length of the n-grams of `completions/repetition`, in tokens."""
MAX_COMPONENT = 1e6
"""Largest absolute value of a component: its squares and sums stay exact enough in float32."""


def reward_group(
    method: GrpoMethod, group: Group, keys: Sequence[str], *, seed: int
) -> list[RewardComponents]:
    """Return the reward components of a group's rollouts, in order.

    With `reward=random`, the control of an experiment, the total is a uniform number from 0 to 1
    that only `seed` and the rollout's key decide; `method_total` is the method's own total.

    Raises:
        ModelError: the reward fails, or does not return one number, or dict of them, a rollout.
    """
    what = f"reward of {method.name}, sample {group.sample.id}"
    with plugin_errors(what, ModelError):
        results = list(method.reward(group))
    if len(results) != len(group.rollouts):
        raise ModelError(
            what, expected=f"{len(group.rollouts)} rewards", found=f"{len(results)} of them"
        )
    rewards = [components_of(result, what) for result in results]
    if method.settings.reward == RANDOM:
        for components, key in zip(rewards, keys, strict=True):
            drawn = float(uniforms(seed=seed, key=f"{key}/reward", block=0)[0])
            components[f"method_{TOTAL}"], components[TOTAL] = components[TOTAL], drawn
    return list(rewards)


def components_of(result: Any, what: str) -> dict[str, float]:
    """Return the components of a rollout's reward as plain numbers.

    A number is one of Python or NumPy, or a tensor of one element. A component of None does not
    apply to the sample, as in TRL, and is left out. A total of None becomes NaN: the rollout has no
    advantage and does not count in its group.

    Args:
        result: Return value of a reward for one rollout.
        what: Name of the reward and of the sample, for the error.

    Raises:
        ModelError: there is no total, or a number is NaN or its absolute value above MAX_COMPONENT.
    """
    components = result if isinstance(result, Mapping) else {}
    numbers = {name: plain_number(part) for name, part in components.items() if part is not None}
    # `not … <=` holds for NaN, too.
    wrong = [name for name, number in numbers.items() if not abs(number) <= MAX_COMPONENT]
    if TOTAL not in components or wrong:
        problem = f"{wrong[0]}={components[wrong[0]]!r}" if wrong else repr(result)
        raise ModelError(
            what,
            expected=f"a dict of numbers between -{MAX_COMPONENT:g} and {MAX_COMPONENT:g}, "
            f"{TOTAL!r} among them (None: a component that does not apply)",
            found=problem[:200],
        )
    return {**numbers, TOTAL: numbers.get(TOTAL, math.nan)}


def plain_number(value: Any) -> float:
    """Return a number of Python or NumPy, or a tensor of one element, as a float; else NaN."""
    if getattr(value, "ndim", None) == 0 or getattr(value, "shape", None) == (1,):
        value = value.item()
    return float(value) if isinstance(value, (Real, np.bool)) else math.nan


def losses(groups: Sequence[Group], rewards: Sequence[Sequence[RewardComponents]]) -> list[str]:
    """Return a reason for each rollout that used nodes, sandboxes or judges.

    The reason says why they failed it, so that its reward says nothing of the policy; empty text:
    they did not fail. Rollouts that used none of them are not listed.
    """
    first_reasons = []
    for group, group_rewards in zip(groups, rewards, strict=True):
        for rollout, components in zip(group.rollouts, group_rewards, strict=True):
            reasons = list(rollout.facts.get(INFRASTRUCTURE, ()))
            if components.get(UNJUDGED):
                reasons.append("the judge gave no answer")
            if reasons or INFRASTRUCTURE in rollout.facts:
                first_reasons.append(reasons[0] if reasons else "")
    return first_reasons


def refuse_losses(reasons: Sequence[str], *, limit: float, rollouts: int, number: int) -> None:
    """Raise Unavailable if a round lost too many rollouts to learn from it.

    Args:
        reasons: The `losses` of all processes; an empty text is not a loss.
        limit: Share of the rollouts that may be lost, from 0 to 1.
        rollouts: Number of rollouts of the round in all processes.
        number: Index of the round, from 0.
    """
    lost = Counter(filter(None, reasons))
    if lost.total() > limit * rollouts:
        reason, times = lost.most_common(1)[0]
        raise Unavailable(
            f"round {number + 1} of the training",
            expected=f"at most {limit:.1%} of its rollouts lost to nodes, sandboxes, servers and "
            "judges (infrastructure_limit)",
            found=f"{lost.total()} of {rollouts}, {times} of them because of: {reason[:300]}",
            fix="Nothing was learned from this round. Fix the cause and run the command again.",
        )


def numbers_of(
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    faults: Sequence[str] = (),
) -> dict[str, list[float]]:
    """Return, under each logged name, one number for each rollout or for each group.

    `faults` has a message for each group whose reward failed: its `frac_…` numbers are NaN.
    """
    numbers = defaultdict[str, list[float]](list)
    faults = faults or [""] * len(groups)
    for group, group_rewards, fault in zip(groups, rewards, faults, strict=True):
        totals = {terms[TOTAL] for terms in group_rewards if not math.isnan(terms[TOTAL])}
        flags = {"frac_reward_zero_std": len(totals) < 2, "frac_groups_all_zero": totals == {0.0}}
        for name, flag in flags.items():
            numbers[name].append(math.nan if fault else float(flag))
        for rollout, components in zip(group.rollouts, group_rewards, strict=True):
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
    faults: Sequence[str],
) -> tuple[dict[str, list[float]], list[str]]:
    """Return `numbers_of` and `losses` of a round, merged over all processes.

    Args:
        groups: The round's groups in this process.
        rewards: Their rewards.
        lengths: Number of tokens of each rollout's prompt.
        completions: Tokens that the policy wrote in each rollout.
        faults: Message of each group whose reward failed; empty for the others.
    """
    numbers = {
        **numbers_of(groups, rewards, faults),
        "prompts/mean_length": list(map(float, lengths)),
        "completions/repetition": list(map(repetition, completions)),
    }
    merged = defaultdict[str, list[float]](list)
    for numbers_of_process in gather([numbers]):
        for name, values in numbers_of_process.items():
            merged[name] += values
    if reasons := gather(losses(groups, rewards)):
        merged["frac_rollouts_lost"] = [float(bool(reason)) for reason in reasons]
    return dict(merged), reasons


def summary_of(
    numbers: Mapping[str, Sequence[float]], advantages: Sequence[float]
) -> dict[str, float]:
    """Return one number a name for the curve: means, deviations and extremes of a round.

    Names and meanings are TRL's where TRL has the number. Deviations are over all rewards of the
    round, with Bessel's correction. Lengths are in tokens.

    Args:
        numbers: Numbers of rollouts and groups in all processes (`statistics_of`).
        advantages: Advantages of all processes' rollouts.
    """
    dead = [flag != 0 for flag in numbers["frac_reward_zero_std"]]  # NaN: the reward failed
    numbers = {
        name: [value for value in values if not math.isnan(value)]
        for name, values in numbers.items()
    }
    totals, lengths = numbers[f"rewards/{TOTAL}"] or [math.nan], numbers["completions/mean_length"]
    cut = numbers["completions/clipped_ratio"]
    ended = [length for length, is_cut in zip(lengths, cut, strict=True) if not is_cut] or [0.0]
    prompts = numbers["prompts/mean_length"]
    rewards = {name: values for name, values in numbers.items() if name.startswith("rewards/")}
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
        "dead_tokens": sum(length for row, length in enumerate(lengths) if dead[row // size]),
        "reward": fmean(totals),
        "reward_std": deviation(totals),
        "reward/min": min(totals),
        "reward/max": max(totals),
        "advantages/min": min(advantages),
        "advantages/max": max(advantages),
    }


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation with Bessel's correction; 0 for a single number."""
    return stdev(values) if len(values) > 1 else 0.0


def repetition(tokens: Sequence[int]) -> float:
    """Return the share of a completion's 8-grams that occurred in it before; 0 below 8 tokens.

    Keys of JSON and set phrases are shorter than 8 tokens, so that a list of objects is not a
    repetition.

    >>> repetition(range(20)), repetition([1, 2] * 10)
    (0.0, 0.8461538461538461)
    """
    starts = range(len(tokens) - NGRAM_LENGTH + 1)
    ngrams = [tuple(tokens[start : start + NGRAM_LENGTH]) for start in starts]
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def log_rollouts(
    file: Curve,
    step: int,
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    advantages: Sequence[float],
    parse: Callable[[str], ParseResult],
) -> None:
    """Add a row for each rollout to `rollouts.jsonl`.

    Args:
        file: The file.
        step: The first optimiser step that learns from the rollouts, from 1.
        groups: The groups to log: all of a round, or its first ones.
        rewards: Components of the round's groups.
        advantages: Advantages of the round's rollouts.
        parse: The method's grammar, with the repairs of inference.
    """
    learned = iter(advantages)
    for group, group_rewards in zip(groups, rewards, strict=False):
        for number, rollout in enumerate(group.rollouts):
            row: dict[str, Any] = {
                "task": group.task,
                "sample": group.sample.id,
                "rollout": number,
                "canvas": list(group.canvas),
                "text": rollout.text,
                "tokens": rollout.tokens,
                "cut": rollout.cut,
                "components": dict(group_rewards[number]),
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
    """Return the places that a response names, as fields of a row of `rollouts.jsonl`.

    `boxes` are [left, top, right, bottom] and `points` [x, y], in pixels of the original image.
    `frame` is the index of their frame in the first medium: the only frame that was shown, or the
    frame that the response names, or the middle one. `unread` is the error of a response outside
    the grammar. Empty for a question that is answered in words.
    """
    query = group.sample.query
    if len(query.forms) != 1 or query.form not in LOCATED or not group.frames:
        return {}
    try:
        result = parse(storable(response))
    except ParseError as error:
        result = ParseResult(error=str(error))
    frames_shown, total = group.frames[0], len(query.media[0])
    named_frame = result.frame if result.frame is not None and result.frame < total else total // 2
    canvas = Canvas(group.canvas, query.size)
    items = [canvas.to_image(item) for item in result.items]
    return {
        "frame": frames_shown[0] if len(frames_shown) == 1 else named_frame,
        "boxes": [list(item.box) for item in items if item.box is not None],
        "points": [list(item.point) for item in items if item.point is not None],
        **({} if result.error is None else {"unread": result.error}),
    }
