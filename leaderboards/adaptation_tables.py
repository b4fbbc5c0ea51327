"""Tables (Markdown) and charts of the reports on test-time adaptation (`adaptation.reports`)."""

from collections.abc import Callable, Sequence
from statistics import fmean

from harness.errors import counted
from harness.leaderboards.adaptation_values import LOSSES, Gain, Report, Variant
from harness.leaderboards.figure import Panel, Points
from harness.leaderboards.formatting import (
    NOTHING,
    number,
    p_value,
    percent,
    signed_number,
    signed_span,
)
from harness.leaderboards.render.markdown import escape, grid

Get = Callable[[Gain], float | None]
"""Returns the number of a run that a table shows; None if it is not known."""
AS_IT_IS = "as it is"
COSTS = {"updates": "steps", "rollouts": "rollouts"}
"""Settings whose cost is drawn, by the name of the axis (VR-TTRL, Tables 4, 5, 7 and 8)."""


def to_markdown(reports: Sequence[Report]) -> str:
    """Return the tables of benchmarks together, of each one, and of the numbers by step."""
    sections = ["# Test-time adaptation\n"]
    for network in dict.fromkeys(report.network for report in reports):
        of_network = [report for report in reports if report.network == network]
        if len(of_network) > 1:
            sections += [f"## {network}, all benchmarks\n", *_across(of_network)]
        for report in of_network:
            sections += [
                f"## {report.title}, {counted(report.samples, 'sample')}\n",
                _variants(report),
            ]
            if any(len(variant.runs) > 1 for variant in report.variants):
                sections.append(_runs(report))
            for variant in report.variants:
                if any(run.curves for run in variant.runs):
                    sections.append(_steps(variant))
    return "\n".join(sections)


def charts(report: Report) -> list[Panel]:
    """Return a chart for each number by step, and of score and seconds by updates and rollouts."""
    names = dict.fromkeys(
        name for variant in report.variants for run in variant.runs for name in run.curves
    )
    by_step = [
        Panel(
            name,
            {
                variant.name: [run.curves[name] for run in variant.runs if name in run.curves]
                for variant in report.variants
                if any(name in run.curves for run in variant.runs)
            },
        )
        for name in names
    ]
    costs: dict[str, Get] = {
        report.metric: lambda run: run.value,
        "seconds": lambda run: run.seconds,
    }
    return by_step + [
        Panel(f"{title} by {axis}", lines, axis)
        for axis, setting in COSTS.items()
        for title, get in costs.items()
        if (lines := _by_setting(report, setting, get))
    ]


def _by_setting(report: Report, setting: str, get: Get) -> dict[str, list[Points]]:
    """Return a number by the values of one setting, for variants that differ in it alone.

    A line is named by its method; its x values are the setting's.
    """
    groups: dict[str, list[Variant]] = {}
    for variant in report.variants:
        if setting in variant.settings:
            # `budget` is a text with the numbers of updates and rollouts, so it differs, too.
            other_settings = {
                name: value
                for name, value in variant.settings.items()
                if name not in (setting, "budget")
            }
            groups.setdefault(repr(other_settings), []).append(variant)
    lines: dict[str, list[Points]] = {}
    for variants in groups.values():
        if len({variant.settings[setting] for variant in variants}) > 1:
            means = [(variant.settings[setting], variant.mean(get)) for variant in variants]
            points = {x: mean for x, mean in means if mean is not None}
            lines[variants[0].runs[0].method] = [points]
    return lines


def _across(reports: Sequence[Report]) -> list[str]:
    """Return tables of variants by benchmark: the score, and shares of units that got worse."""
    worse = [
        _by_benchmark(reports, f"worse > {limit:.0%}", _lost(limit), _percent) for limit in LOSSES
    ]
    return [_by_benchmark(reports, "score", lambda run: run.value, number, base=True), *worse]


def _lost(limit: float) -> Get:
    """Return a getter of the share of units that lost more than `limit`."""
    return lambda run: run.regressions.get(f"{limit:g}")


def _percent(fraction: float | None) -> str:
    return NOTHING if fraction is None else percent(fraction)


def _by_benchmark(
    reports: Sequence[Report],
    title: str,
    get: Get,
    show: Callable[[float | None], str],
    *,
    base: bool = False,
) -> str:
    """Return a table: a row for each variant, a column for each benchmark and each metric's mean.

    A mean is shown only if the number is known on all benchmarks. `base` adds rows of the unchanged
    model and of the numbers of samples.
    """
    metrics = list(dict.fromkeys(report.metric for report in reports))
    columns = [f"{report.benchmark}, {report.metric}" for report in reports]
    rows = [[title, *columns, *(f"mean of {name}" for name in metrics)]]
    names = dict.fromkeys(variant.name for report in reports for variant in report.variants)
    for name in ([AS_IT_IS] if base else []) + list(names):
        values = [_value(report, name, get) for report in reports]
        means = []
        for metric in metrics:
            of_metric = [
                value
                for report, value in zip(reports, values, strict=True)
                if report.metric == metric
            ]
            known_values = [value for value in of_metric if value is not None]
            means.append(fmean(known_values) if len(known_values) == len(of_metric) else None)
        rows.append([name, *map(show, [*values, *means])])
    if base:
        samples = [str(report.samples) for report in reports]
        rows.append(["samples", *samples, *("" for _ in metrics)])
    return _table(rows)


def _value(report: Report, name: str, get: Get) -> float | None:
    """Return the number of a variant, or the score of the unchanged model; None if unknown."""
    if name == AS_IT_IS:
        return None if report.base is None else report.base.metrics[report.metric]
    return next((variant.mean(get) for variant in report.variants if variant.name == name), None)


def _variants(report: Report) -> str:
    """Return the table of a report's variants: score, gain, regressions, cost; means over seeds."""
    losses = [f"worse > {limit:.0%}" for limit in LOSSES]
    head = ["method", "seeds", report.metric, "gain", "95 %", "of the base", *losses]
    rows = [[*head, "s a sample", "tokens a sample"]]
    if report.base is not None:
        rows.append(
            [AS_IT_IS, "", number(report.base.metrics[report.metric]), *[""] * (len(rows[0]) - 3)]
        )
    for variant in report.variants:
        gain, seconds = variant.gain, variant.mean(lambda run: run.seconds)
        relative = variant.mean(lambda run: run.relative)
        rows.append(
            [
                variant.name,
                str(len(variant.runs)),
                number(variant.mean(lambda run: run.value)),
                signed_number(None if gain is None else gain.value),
                signed_span(None if gain is None else gain.interval),
                NOTHING if relative is None else f"{signed_number(100 * relative)} %",
                *(_percent(variant.mean(_lost(limit))) for limit in LOSSES),
                NOTHING if seconds is None else f"{seconds:.2f}",
                f"{variant.mean(lambda run: run.tokens):.0f}",
            ]
        )
    return _table(rows)


def _runs(report: Report) -> str:
    """Return the table of a report's runs, each against the unchanged model."""
    rows = [["run", "seed", report.metric, "gain", "95 %", "p"]]
    for variant in report.variants:
        for run in variant.runs:
            versus = run.comparison
            rows.append(
                [
                    variant.name,
                    NOTHING if run.seed is None else str(run.seed),
                    number(run.value),
                    signed_number(None if versus is None else versus.difference),
                    signed_span(None if versus is None else versus.interval),
                    p_value(None if versus is None else versus.p_value),
                ]
            )
    return _table(rows)


def _steps(variant: Variant) -> str:
    """Return the table of a variant's curves: a row for each number, a column for each step."""
    names = dict.fromkeys(name for run in variant.runs for name in run.curves)
    steps = sorted(
        {step for run in variant.runs for points in run.curves.values() for step in points}
    )
    rows = [[name, *(number(variant.mean(_at(name, step))) for step in steps)] for name in names]
    return _table([[variant.name, *(f"step {step}" for step in steps)], *rows])


def _at(name: str, step: int) -> Get:
    return lambda run: run.curves.get(name, {}).get(step)


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ([escape(cell) for cell in row] for row in rows)
    return "\n".join((*grid(head, body, left=1), ""))
