"""The gate's report in plain text, for the log of a CI job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.leaderboards.render import wording

if TYPE_CHECKING:
    from harness.leaderboards.gate import GateReport, TaskVerdict

HEAD = ("task", "metric", "baseline", "candidate", "change", "interval", "p", "could see", "")


def text(report: "GateReport") -> str:
    """The whole report, ending in PASSED or FAILED."""
    lines = grid([HEAD, *(_cells(verdict) for verdict in report.verdicts)])
    lines.append("")
    for verdict in report.verdicts:
        lines.extend(f"FAILED {verdict.task}: {reason}" for reason in verdict.failures)
        lines.extend(f"note   {verdict.task}: {note}" for note in verdict.notes)
        lines.extend(f"note   {verdict.task}: {line}" for line in power(verdict, report))
    lines.extend(f"note   {name}: only in the candidate, not looked at" for name in report.ignored)
    compared = sum(verdict.comparison is not None for verdict in report.verdicts)
    if compared > 1:
        chance = 1 - ((1 + report.level) / 2) ** compared
        lines.append(
            f"note   {compared} tasks at a level of {report.level:g} each: where nothing changed "
            f"but noise, about {chance:.0%} of gates fail."
        )
    lines.append("PASSED" if report.passed else "FAILED")
    return "\n".join(lines) + "\n"


def grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells in columns, text to the left, numbers (from the third column on) to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def power(verdict: "TaskVerdict", report: "GateReport") -> list[str]:
    """How large a loss this comparison could have seen."""
    comparison = verdict.comparison
    if comparison is None or comparison.difference is None:
        return []
    if comparison.interval is None:
        return ["without an interval, only a loss beyond the limit is seen"]
    groups = f"{comparison.n_groups:,} groups ({comparison.n_units:,} units)"
    if comparison.detectable is None:
        return [f"the runs score alike on all of {groups}"]
    size = wording.number(comparison.detectable)
    line = f"with {groups} a true loss of {size} would be shown in 80 % of cases"
    if comparison.detectable > report.max_loss:
        line += f"; a smaller one, also above {report.max_loss:g}, may not be"
    return [line]


def _cells(verdict: "TaskVerdict") -> tuple[str, ...]:
    after, comparison = verdict.candidate, verdict.comparison
    detectable = comparison.detectable if comparison else None
    return (
        verdict.task,
        wording.heading(verdict.headline, verdict.baseline.better[verdict.headline]),
        wording.number(verdict.baseline.value),
        wording.number(after.value if after else None),
        wording.signed(comparison.difference if comparison else None),
        wording.signed_span(comparison.interval if comparison else None),
        (wording.p_value(comparison) if comparison else "").removeprefix("p ").removeprefix("= ")
        or wording.NOTHING,
        wording.number(detectable),
        "ok" if verdict.passed else "FAILED",
    )
