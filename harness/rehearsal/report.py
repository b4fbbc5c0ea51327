"""The report of a rehearsal: for each row of the papers' tables its state, time and memory.

`command` makes a `RehearsedRow` of each row from the outcomes of its stages; `as_text` and
`as_markdown` print them.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harness.errors import MissingDependency, counted
from harness.leaderboards.definitions import BoardRow, Definition
from harness.leaderboards.published_results import PAPERS, title_of
from harness.rehearsal.amounts import Replaced
from harness.rehearsal.stages import Outcome, Stage
from harness.summary import is_unanswered
from harness.types import FailureKind

LEFT_OUT = Path(__file__).with_name("left_out.toml")
"""File of the rows that are not run, with their reasons."""
NOT_SHOWN = (
    "A rehearsal shows that the commands run. It does not show the tables' numbers, the time and "
    "memory of the real networks, or that the published weights load."
)
HOW_TO_READ = """\
A line has the rows of one name that ran with the same trainings and memory: in **bold** their
tables, then the setting that a row has in brackets, then its evaluations. `50: 7` is the stage
`eval 50`, which took 7 seconds; what it printed is in `logs`. Below are the rows that did not run,
with their tables."""
State: TypeAlias = Literal["ran", "failed", "left out", "undeclared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedRow:
    """A row of a paper's table, and its state after the rehearsal."""

    paper: str
    table: str
    row: str
    stages: tuple[tuple[Stage, Outcome], ...] = ()
    reason: str = ""
    state: State = "ran"

    @property
    def peak(self) -> int:
        """Largest resident memory of one of its processes, in bytes."""
        return max((outcome.peak for _, outcome in self.stages), default=0)

    @property
    def timing(self) -> str:
        """The row's stages with their seconds, `train 1 20 s, eval 3 7 s`."""
        return ", ".join(f"{stage.name} {outcome.seconds:.0f} s" for stage, outcome in self.stages)

    def seconds_of(self, command: str) -> str:
        """The row's stages of one command, `train` or `eval`, with their seconds: `50: 7`."""
        return ", ".join(
            f"{stage.name.removeprefix(f'{command} ')}: {outcome.seconds:.0f}"
            for stage, outcome in self.stages
            if stage.arguments[0] == command
        )


def left_out(definition: Definition, row: BoardRow, reason: str = "") -> RehearsedRow:
    """Return the record of a row that is not run; `undeclared` without a reason.

    The reason is the one given, or that in `LEFT_OUT`.
    """
    reason = reason or _reasons().get(row.row.partition(" [")[0], "")
    return RehearsedRow(
        paper=definition.paper,
        table=definition.table,
        row=_label(row),
        reason=reason or f"no SPEC, and no reason in {LEFT_OUT.name}",
        state="left out" if reason else "undeclared",
    )


def rehearsed(
    definition: Definition, row: BoardRow, stages: Sequence[tuple[Stage, Outcome]]
) -> RehearsedRow:
    """Return the record of a row whose stages were run.

    The row ran if every command ended with 0, at least one sample was answered, and no sample
    failed for another reason than its response. If all problems are missing dependencies, and
    `LEFT_OUT` has the row, the row counts as left out.
    """
    problems = [outcome.reason for _, outcome in stages if outcome.code != 0]
    tasks = [task for stage, outcome in stages for task in tasks_of(stage, outcome)]
    n_failed = sum(task.get("failures", {}).get(FailureKind.INFRASTRUCTURE, 0) for task in tasks)
    if n_failed:
        problems.append(
            f"{counted(n_failed, 'sample')} failed, and not by their responses (infrastructure)"
        )
    if not problems and tasks and all(map(is_unanswered, tasks)):
        problems.append("no sample has an answer")
    are_missing = all(
        problem.startswith(f"code {MissingDependency.exit_code}:") for problem in problems
    )
    reason = _reasons().get(row.row.partition(" [")[0], "") if problems and are_missing else ""
    return RehearsedRow(
        paper=definition.paper,
        table=definition.table,
        row=_label(row),
        stages=tuple(stages),
        reason=reason or "; ".join(dict.fromkeys(problems)),
        state="left out" if reason else "failed" if problems else "ran",
    )


def tasks_of(stage: Stage, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the results of the tasks that an evaluation printed; empty for other stages."""
    if stage.arguments[0] != "eval" or outcome.code != 0:
        return []
    return list(json.loads(outcome.output)["tasks"].values())


def _label(row: BoardRow) -> str:
    where = [text for text in (row.backbone, ", ".join(row.tasks)) if text]
    return f"{row.row} ({'; '.join(where)})" if where else row.row


@cache
def _reasons() -> Mapping[str, str]:
    """Return the reason of each row that is left out, by its name."""
    plain = tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))
    return {name: entry["reason"] for entry in plain["left_out"] for name in entry["rows"]}


def as_text(rows: Sequence[RehearsedRow]) -> str:
    """Return the table for a terminal."""
    lines = []
    for row in rows:
        about = row.reason if row.state != "ran" else f"{row.timing}; {_memory(row.peak)}"
        table = f"{row.paper} {row.table}"
        lines.append(f"{table:<16} {row.row[:44]:<45} {row.state:<9} {about}")
    return "\n".join([*lines, "", _counts(rows), NOT_SHOWN])


def as_markdown(
    rows: Sequence[RehearsedRow], parts: Sequence[str], replaced: Sequence[Replaced]
) -> str:
    """Return the report as a Markdown page, which groups rows by name, or by reason.

    Args:
        rows: Records of the rows of the papers' tables.
        parts: Lines on the replaced checkpoints, servers, devices and data.
        replaced: Replaced amounts and settings of trainings.
    """
    published: dict[tuple[str, str], dict[str, None]] = {}
    for amount in replaced:
        published.setdefault((amount.name, amount.here), {})[amount.published] = None
    lines = [
        *("# Rehearsal of the papers' tables", ""),
        *("`harness reproduce --all --rehearse` makes this page. Replaced were only:", ""),
        *(f"- {part}" for part in parts),
        *("", "| amount | here | published |", "|---|---|---|"),
        *(_cells(name, here, ", ".join(values)) for (name, here), values in published.items()),
        *("", f"{NOT_SHOWN} {_counts(rows)}", "", HOW_TO_READ),
    ]
    rehearsed = {row.paper for row in rows}
    for paper in [
        *(paper for paper in PAPERS if paper in rehearsed),
        *sorted(rehearsed - {*PAPERS}),
    ]:
        rows_of_paper = [row for row in rows if row.paper == paper]
        lines += ["", f"## {title_of(paper)}", ""]
        lines += [*_ran(rows_of_paper), "", *_did_not_run(rows_of_paper)]
    return "\n".join(lines).rstrip() + "\n"


def _ran(rows: Sequence[RehearsedRow]) -> Iterator[str]:
    """Yield the table of a paper's rows that ran: a line for each name, trainings and memory."""
    # Lines hold, for each (setting in brackets, evaluations), the numbers of their tables.
    lines: dict[tuple[str, str, str], dict[tuple[str, str], list[str]]] = {}
    for row in rows:
        if row.state == "ran":
            name, bracket, setting = row.row.partition(" [")
            key = name, row.seconds_of("train"), f"{row.peak / 2**30:.1f}"
            part = bracket.strip() + setting, row.seconds_of("eval")
            lines.setdefault(key, {}).setdefault(part, []).append(row.table)
    if lines:
        yield from ("| row | trainings, s | **table** evaluations, s | GB |", "|---|---|---|---|")
    names = list(dict.fromkeys(name for name, _, _ in lines))
    for name, trainings, memory in sorted(lines, key=lambda line: names.index(line[0])):
        by_tables: dict[str, list[str]] = {}
        for part, numbers in lines[name, trainings, memory].items():
            by_tables.setdefault(", ".join(numbers), []).append(" ".join(filter(None, part)))
        parts = (f"**{numbers}** {'; '.join(alike)}" for numbers, alike in by_tables.items())
        yield _cells(name, trainings, "; ".join(parts), memory)


def _did_not_run(rows: Sequence[RehearsedRow]) -> Iterator[str]:
    """Yield a line for each state and reason of a paper's rows that did not run."""
    by_reason: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        if row.state != "ran":
            name = f"{row.row} ({row.timing}; {_memory(row.peak)})" if row.stages else row.row
            rows_of_reason = by_reason.setdefault((row.state, row.reason), {})
            rows_of_reason.setdefault(name, []).append(row.table)
    for (state, reason), tables_by_name in by_reason.items():
        names: dict[str, list[str]] = {}
        for name, numbers in tables_by_name.items():
            names.setdefault(", ".join(numbers), []).append(name)
        listed = "; ".join(f"{', '.join(alike)} ({numbers})" for numbers, alike in names.items())
        yield f"- {state}: {reason}. Rows: {listed}"


def _cells(*cells: str) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _counts(rows: Sequence[RehearsedRow]) -> str:
    states: dict[str, int] = {}
    for row in rows:
        states[row.state] = states.get(row.state, 0) + 1
    return (
        f"{counted(len(rows), 'row')}: "
        + ", ".join(f"{n} {state}" for state, n in states.items())
        + "."
    )


def _memory(peak: int) -> str:
    return f"{peak / 2**30:.1f} GB" if peak else ""
