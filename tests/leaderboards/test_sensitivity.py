"""Sensitivities of sweeps that were worked by hand."""

from types import SimpleNamespace

import pytest

from harness.leaderboards.sensitivity import setting_notes
from harness.run.sweep import Sweep
from harness.spec import parse

BASE = parse("m")
VARIED = {"frames": (2, 8), "prompt": ("short", "long")}
GRID = {(2, "short"): 0.50, (8, "short"): 0.60, (2, "long"): 0.30, (8, "long"): 0.45}
"""Frames give 0.10 with short and 0.15 with long prompts; prompts 0.20 with 2 and 0.15 with 8."""


def said(plan, scores, *, compare=lambda a, b: None, lower=False):
    """The notes on a sweep whose models, in their order, have these scores."""
    made = [(str(spec), given) for spec, given in plan.models()]
    models = {spec: {key: str(value) for key, value in given.items()} for spec, given in made}
    rows = [
        SimpleNamespace(
            model="m",
            model_spec=spec,
            headline="giou",
            value=value,
            quality=float("-inf") if value is None else -value if lower else value,
        )
        for (spec, _), value in zip(made, scores, strict=True)
    ]
    return list(setting_notes(rows, [{"base": "m", "models": models}] * len(rows), compare))


def grid(scores=GRID, **given):
    plan = Sweep(BASE, VARIED, grid=True)
    ordered = [scores[one["frames"], one["prompt"]] for _, one in plan.models()]
    return said(plan, ordered, **given)


def test_of_every_combination_only_rows_that_differ_in_one_setting_are_compared():
    assert grid() == [
        "Sensitivity of m: giou from 0.300 (frames=2) to 0.450 (frames=8) over 2 settings of "
        "frames, with prompt=long. That is the largest of 2 spreads, one for each combination of "
        "the other settings; their mean is 0.125.",
        "Sensitivity of m: giou from 0.300 (prompt=long) to 0.500 (prompt=short) over 2 settings "
        "of prompt, with frames=2. That is the largest of 2 spreads, one for each combination of "
        "the other settings; their mean is 0.175.",
    ]


def test_a_setting_that_does_nothing_is_not_blamed_for_another():
    frames, prompt = grid({(n, text): n / 10 for n in (2, 8) for text in ("short", "long")})
    assert "from 0.200 (frames=2) to 0.800 (frames=8)" in frames and "0.600." in frames
    assert "2 settings of prompt" in prompt and "0.000." in prompt
    for value in ("0.200", "0.800"):
        assert prompt.count(value) in (0, 2), "both ends are of the same number of frames"


def test_the_interval_is_of_the_two_rows_that_are_named():
    pairs = []

    def compare(worst, best):
        pairs.append((worst, best))
        return SimpleNamespace(difference=0.15, interval=(0.05, 0.25))

    frames, prompt = grid(compare=compare)
    assert pairs == [(1, 3), (1, 0)]  # rows: 2 short, 2 long, 8 short, 8 long
    assert "prompt=long; " in frames and "+0.150 (+0.050 to +0.250)" in frames
    assert "frames=2; " in prompt


def test_where_less_is_better_the_worst_is_the_highest():
    frames, _ = grid(lower=True)
    assert "from 0.450 (frames=8) to 0.300 (frames=2)" in frames and "0.125." in frames


def test_rows_without_a_number_and_those_left_alone_are_not_compared():
    frames, prompt = grid({**GRID, (8, "long"): None})
    assert frames == (
        "Sensitivity of m: giou from 0.500 (frames=2) to 0.600 (frames=8) over 2 settings of "
        "frames, with prompt=short."
    )
    assert "from 0.300 (prompt=long) to 0.500 (prompt=short)" in prompt and "mean" not in prompt
    assert grid(dict.fromkeys(GRID)) == []


@pytest.mark.parametrize("turned", [False, True])
def test_one_at_a_time_each_setting_is_compared_with_the_base(turned):
    plan = Sweep(BASE, dict(reversed(VARIED.items())) if turned else VARIED)
    base, frames, prompt = 0.5, [0.4, 0.6], [0.55, 0.1]
    info = said(plan, [base, *prompt, *frames] if turned else [base, *frames, *prompt])
    assert sorted(info) == [
        "Sensitivity of m: giou from 0.100 (prompt=long) to 0.550 (prompt=short) over 3 settings "
        "of prompt.",
        "Sensitivity of m: giou from 0.400 (frames=2) to 0.600 (frames=8) over 3 settings of "
        "frames.",
    ]
    (line,) = said(Sweep(BASE, {"frames": (2,)}), [0.7, 0.6])
    assert "0.600 (frames=2) to 0.700 (frames " in line
