"""The gate's verdicts, as values and as plain text for the log of a CI job."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from harness.leaderboards import formatting
from harness.leaderboards.losses import false_alarms
from harness.leaderboards.row import Row
from harness.statistics.paired import Comparison

HEAD = (
    "task",
    "metric",
    "baseline",
    "candidate",
    "change",
    "interval",
    "p",
    "Holm",
    "could see",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """Verdict on one task."""

    task: str
    """Task, split and subset."""
    headline: str
    baseline: Row
    candidate: Row | None
    comparison: Comparison | None = None
    """The candidate (b) against the baseline (a); None if they cannot be compared in pairs."""
    change: float | None = None
    """Candidate minus baseline; None if they cannot be compared, or one has no number."""
    adjusted_p: float | None = None
    """The comparison's p value by Holm's correction over all tasks of the gate, which decides."""
    answers: Comparison | None = None
    """Comparison of the shares of answered samples; None where no unit's differs."""
    adjusted_answers_p: float | None = None
    """The answers' p value by Holm's correction over all tasks whose answers differ."""
    failures: tuple[str, ...] = ()
    """Reasons why the gate fails here; empty if it does not."""
    notes: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """True if nothing speaks against the candidate here."""
        return not self.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The gate's answer, task by task."""

    verdicts: tuple[TaskVerdict, ...]
    max_loss: float
    level: float
    ignored: tuple[str, ...] = ()
    """Tasks that only the candidate was run on."""

    @property
    def is_passed(self) -> bool:
        """True if nothing speaks against the candidate on any task."""
        return all(verdict.is_passed for verdict in self.verdicts)

    @property
    def false_alarms(self) -> float | None:
        """Probability that a gate like this fails on losses if no model changed; None if not known.

        Losses of score and of answers are taken for independent; where they come together, this
        is more than the true rate.
        """
        scores = _measured_only([verdict.comparison for verdict in self.verdicts])
        answers = _measured_only([verdict.answers for verdict in self.verdicts])
        if not scores and not answers:
            return None
        passing = (1 - false_alarms(each, self.max_loss) for each in (scores, answers))
        return 1 - prod(passing)

    def to_json(self) -> dict[str, object]:
        """Plain data, for programs."""
        return {
            "passed": self.is_passed,
            "max_loss": self.max_loss,
            "level": self.level,
            "false_alarms": self.false_alarms,
            "ignored": list(self.ignored),
            "tasks": [
                {
                    "task": verdict.task,
                    "metric": verdict.headline,
                    "passed": verdict.is_passed,
                    "failures": list(verdict.failures),
                    "notes": list(verdict.notes),
                    "baseline": verdict.baseline.value,
                    "candidate": verdict.candidate.value if verdict.candidate else None,
                    "change": verdict.change,
                    "adjusted_p": verdict.adjusted_p,
                    "comparison": verdict.comparison.to_json() if verdict.comparison else None,
                    "adjusted_answers_p": verdict.adjusted_answers_p,
                    "answers": verdict.answers.to_json() if verdict.answers else None,
                }
                for verdict in self.verdicts
            ],
        }

    def text(self) -> str:
        """Plain text of the report: a table, its explanation, and PASSED or FAILED as the end."""
        return text(self)


def _measured_only(comparisons: Sequence[Comparison | None]) -> list[Comparison]:
    return [one for one in comparisons if one is not None and one.interval is not None]


def text(report: GateReport) -> str:
    """The whole report, ending in PASSED or FAILED."""
    lines = grid([HEAD, *(_cells(verdict) for verdict in report.verdicts)])
    lines.append("")
    for verdict in report.verdicts:
        lines.extend(f"FAILED {verdict.task}: {reason}" for reason in verdict.failures)
        lines.extend(f"note   {verdict.task}: {note}" for note in verdict.notes)
        lines.extend(f"note   {verdict.task}: {line}" for line in power(verdict, report))
    lines.extend(f"note   {name}: only in the candidate, not looked at" for name in report.ignored)
    if (rate := report.false_alarms) is not None:
        lines.append(
            "note   false alarms: models that did not change fail "
            f"{rate * 100:.1f} % of gates like this one"
        )
    lines.append("PASSED" if report.is_passed else "FAILED")
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


def power(verdict: TaskVerdict, report: GateReport) -> list[str]:
    """Describe the loss that this comparison could have detected."""
    comparison = verdict.comparison
    if verdict.change is None:
        return []
    if comparison is None or comparison.interval is None:
        return ["without an interval, any loss beyond the limit fails"]
    groups = f"{comparison.n_groups:,} groups ({comparison.n_units:,} units)"
    if comparison.detectable is None:
        if comparison.difference:
            return [f"the difference is the same in all of {groups}"]
        return [f"the runs score alike on all of {groups}"]
    size = formatting.number(comparison.detectable)
    line = f"with {groups} a true loss of {size} is detected in 80 % of cases"
    if comparison.detectable > report.max_loss:
        line += f"; a smaller one may pass, also above {report.max_loss:g}"
    return [line]


def _cells(verdict: TaskVerdict) -> tuple[str, ...]:
    after, comparison = verdict.candidate, verdict.comparison
    detectable = comparison.detectable if comparison else None
    return (
        verdict.task,
        formatting.heading(verdict.headline, verdict.baseline.better[verdict.headline]),
        formatting.number(verdict.baseline.value),
        formatting.number(after.value if after else None),
        formatting.signed_number(verdict.change),
        formatting.signed_span(comparison.interval if comparison else None),
        _p_cell(comparison.p_value if comparison else None),
        _p_cell(verdict.adjusted_p),
        formatting.number(detectable),
        "ok" if verdict.is_passed else "FAILED",
    )


def _p_cell(p_value: float | None) -> str:
    if p_value is None:
        return formatting.NOTHING
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
