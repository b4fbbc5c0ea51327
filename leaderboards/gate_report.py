"""The gate's result: a `TaskVerdict` for each task in a `GateReport`, as text and as JSON.

`gate.check` makes the report; `gate_formats` writes it for other programs with the functions below,
which return its lines.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from shlex import quote
from urllib.parse import quote as quote_url
from urllib.parse import urlencode

from harness.errors import UsageError, counted, one_line
from harness.leaderboards import formatting
from harness.leaderboards.losses import false_alarms
from harness.leaderboards.naming import names
from harness.leaderboards.ranked_table import key
from harness.leaderboards.row import Row
from harness.leaderboards.sample_changes import SampleChanges
from harness.leaderboards.site.keys import keys
from harness.spec import parse
from harness.statistics.paired import Comparison, groups_text

MAX_WORST = 5
"""Largest number of worsened samples that the text names for each task."""
MAX_CHANGES = 6
"""Largest number of changes between baseline and candidate that the text names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """Verdict on one task."""

    task: str
    """Task, split and subset."""
    headline: str
    baseline: Row
    candidate: Row | None
    max_drop: float
    """Limit of a drop that is not significant, in the headline's unit."""
    candidate_folder: Path | None = None
    comparison: Comparison | None = None
    """The candidate (b) against the baseline (a); None if they cannot be compared in pairs."""
    changes: SampleChanges | None = None
    """Samples whose scores differ; None where the headline has no value of one sample."""
    change: float | None = None
    """Candidate minus baseline; None if they cannot be compared, or one has no number."""
    changed: tuple[str, ...] = ()
    """Differences between the records of the two runs, each as `name: before → after`."""
    tests: int = 1
    """Number of tasks whose p values are corrected together."""
    adjusted_p: float | None = None
    """The comparison's p value by Holm's correction over all tasks of the gate, which decides."""
    answers: Comparison | None = None
    """Comparison of the shares of answered samples; None where no unit's differs."""
    adjusted_answers_p: float | None = None
    """The answers' p value by Holm's correction over all tasks whose answers differ."""
    failures: tuple[str, ...] = ()
    """Reasons for which the candidate fails this task; empty if it passes."""
    notes: tuple[str, ...] = ()
    fail_on_inconclusive: bool = False
    """True if a task that could hide a drop of `max_drop` fails."""

    @property
    def is_passed(self) -> bool:
        """True if no rule fails on this task."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the gate fails on this task; empty if it passes."""
        fails = self.fail_on_inconclusive and self.inconclusive
        return (*self.failures, *([self.inconclusive] if fails else []))

    @property
    def sentence(self) -> str:
        """The comparison as one sentence, with the corrected p value; empty if there is none."""
        if self.comparison is None:
            return ""
        return self.comparison.verdict(
            "the candidate", tests=self.tests, adjusted_p=self.adjusted_p
        )

    @property
    def is_blind(self) -> bool:
        """True if the task has so few images or videos that no drop would be significant."""
        comparison = self.comparison
        return comparison is not None and comparison.n_groups < comparison.groups_needed(self.tests)

    @property
    def inconclusive(self) -> str:
        """Reason why a drop of `max_drop` may pass unseen on this task; empty if it would not."""
        comparison = self.comparison
        if comparison is None or self.failures or self.is_better:
            return ""
        if self.is_blind:
            return (
                "inconclusive: a drop of this task alone is not significant with "
                f"{groups_text(comparison.n_groups)}, "
                f"{comparison.groups_needed(self.tests)} are needed"
            )
        size = comparison.smallest_shown(self.tests)
        if not comparison.by_formula or (size is not None and size <= self.max_drop):
            return ""
        return f"inconclusive: a drop of --max-drop {self.max_drop:g} may be hidden"

    @property
    def is_better(self) -> bool:
        """True if the candidate is shown to be better, with the corrected p value."""
        comparison = self.comparison
        if comparison is None or self.failures or not comparison.is_better:
            return False
        return self.adjusted_p is None or self.adjusted_p <= 1 - comparison.level + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The gate's answer, task by task."""

    verdicts: tuple[TaskVerdict, ...]
    level: float
    ignored: tuple[str, ...] = ()
    """Tasks that only the candidate was run on."""
    site: str = ""
    """Address of a site of these runs, to which samples are linked; empty: there is none."""

    def link(self, verdict: TaskVerdict, sample: str) -> str:
        """Return the address of a sample's page with both runs; empty if there is no site.

        Names of tables and rows depend on all runs of a site, which must be the gate's runs alone.
        """
        if not self.site or verdict.candidate is None:
            return ""
        rows: list[Row] = []  # two for each task: the baseline's and the candidate's
        for task_verdict in self.verdicts:
            rows += [task_verdict.baseline, task_verdict.candidate or task_verdict.baseline]
        table_of_row = [key(row) for row in rows]
        row_of_table = dict(zip(table_of_row, rows, strict=True))
        page_keys = dict(zip(row_of_table, keys([*row_of_table.values()]), strict=True))
        table = page_keys[key(verdict.candidate)]
        row_names = names(rows, table_of_row)
        row_index = 2 * self.verdicts.index(verdict)
        query = urlencode({"a": row_names[row_index], "b": row_names[row_index + 1]})
        return f"{self.site}#/task/{quote_url(table)}/sample/{quote_url(sample, safe='')}?{query}"

    @property
    def is_passed(self) -> bool:
        """True if all tasks pass."""
        return all(verdict.is_passed for verdict in self.verdicts)

    @property
    def fails_on_inconclusive(self) -> bool:
        """True if a task fails that could hide a drop of the limit."""
        return any(verdict.fail_on_inconclusive for verdict in self.verdicts)

    @property
    def false_alarms(self) -> float | None:
        """Probability that this gate fails on losses if no model changed; None if not known.

        Losses of score and of answers are assumed to be independent; if they come together, this
        is more than the true rate. It is not known if inconclusive tasks fail too.
        """
        if self.fails_on_inconclusive:
            return None
        families = (
            [(verdict.comparison, verdict.max_drop) for verdict in self.verdicts],
            [(verdict.answers, verdict.max_drop) for verdict in self.verdicts],
        )
        tested = [
            [
                (comparison, max_drop)
                for comparison, max_drop in family
                if comparison is not None and comparison.interval is not None
            ]
            for family in families
        ]
        return 1 - prod(1 - false_alarms(family) for family in tested) if any(tested) else None

    def to_json(self) -> dict[str, object]:
        """Plain data, for programs."""
        return {
            "passed": self.is_passed,
            "level": self.level,
            "false_alarms": self.false_alarms,
            "ignored": list(self.ignored),
            "tasks": [
                {
                    "task": verdict.task,
                    "metric": verdict.headline,
                    "passed": verdict.is_passed,
                    "failures": list(verdict.reasons),
                    "notes": list(verdict.notes),
                    "max_drop": verdict.max_drop,
                    "models": [
                        None if row is None else model_at_commit(row)
                        for row in (verdict.baseline, verdict.candidate)
                    ],
                    "baseline": verdict.baseline.value,
                    "candidate": verdict.candidate.value if verdict.candidate else None,
                    "change": verdict.change,
                    "verdict": verdict.sentence,
                    "inconclusive": verdict.inconclusive,
                    "changed": list(verdict.changed),
                    "samples": asdict(verdict.changes) if verdict.changes else None,
                    "links": [
                        self.link(verdict, change.sample)
                        for change in (
                            verdict.changes.worst if verdict.changes and self.site else ()
                        )
                    ],
                    "adjusted_p": verdict.adjusted_p,
                    "comparison": verdict.comparison.to_json() if verdict.comparison else None,
                    "adjusted_answers_p": verdict.adjusted_answers_p,
                    "answers": verdict.answers.to_json() if verdict.answers else None,
                }
                for verdict in self.verdicts
            ],
        }

    def text(self) -> str:
        """Plain text of the report: the verdict, a line for each task, the power."""
        lines = [
            f"{'PASSED' if self.is_passed else 'FAILED'}  {sentence(self)}: {models(self)}",
            *changes(self),
        ]
        widths = [
            max((len(cell(verdict)) for verdict in self.verdicts), default=0)
            for cell in (lambda verdict: verdict.task, lambda verdict: verdict.headline, numbers)
        ]
        for verdict in self.verdicts:
            cells = zip((verdict.task, verdict.headline, numbers(verdict)), widths, strict=True)
            padded = "  ".join(f"{cell:<{width}}" for cell, width in cells)
            lines.append(f"  {symbol(verdict)} {padded}".rstrip())
            lines.extend(f"      {line}" for line in evidence(verdict))
            lines.extend(f"      {line}" for line in details(verdict, self))
        lines.extend(f"  – {name}: only in the candidate, not compared" for name in self.ignored)
        lines.append(rule(self))
        return "".join(f"{one_line(line)}\n" for line in lines)


def sentence(report: GateReport) -> str:
    """Return how many tasks got worse, cannot be compared, are inconclusive or got better."""
    failed = [verdict for verdict in report.verdicts if verdict.failures]
    n_inconclusive = sum(bool(verdict.inconclusive) for verdict in report.verdicts)
    only_inconclusive = not failed and not report.is_passed
    verb = "is" if n_inconclusive == 1 else "are"
    inconclusive = f"{verb} inconclusive" if only_inconclusive else "inconclusive"
    n_by_outcome = {
        "got worse": sum(verdict.change is not None for verdict in failed),
        "cannot be compared": sum(verdict.change is None for verdict in failed),
        inconclusive: n_inconclusive,
        "got better": sum(verdict.is_better for verdict in report.verdicts),
    }
    outcomes = [(outcome, count) for outcome, count in n_by_outcome.items() if count]
    if not failed and not only_inconclusive:
        outcomes.insert(0, ("got worse", 0))
    (first, count), *further_outcomes = outcomes
    if len(report.verdicts) == 1:
        subject = "the task" if count else "no task"
    else:
        subject = f"{count or 'none'} of {counted(len(report.verdicts), 'task')}"
    return ", ".join([f"{subject} {first}", *(f"{n} {outcome}" for outcome, n in further_outcomes)])


def models(report: GateReport) -> str:
    """Return the candidate's models and commits against the baseline's, as text."""
    candidates: list[str] = []
    baselines: list[str] = []
    for verdict in report.verdicts:
        # The candidate's row comes first, as the order decides which row gets a number.
        rows = [row for row in (verdict.candidate, verdict.baseline) if row is not None]
        specs = {row.model_spec for row in rows}
        # Models with one name get the settings that differ; equal models need none.
        row_names = names(rows, [0] * len(rows)) if len(specs) > 1 else [row.name for row in rows]
        baselines.append(model_at_commit(rows[-1], row_names[-1]))
        if verdict.candidate is not None:
            candidates.append(model_at_commit(rows[0], row_names[0]))
    new, old = (", ".join(dict.fromkeys(side)) or "nothing" for side in (candidates, baselines))
    return f"{new} against {old}"


def changes(report: GateReport) -> list[str]:
    """Return the changes from baseline to candidate as lines; one line if the records are equal."""
    compared = [verdict for verdict in report.verdicts if verdict.candidate is not None]
    if not compared:
        return []
    lines = list(dict.fromkeys(line for verdict in compared for line in verdict.changed))
    if not lines:
        pairs = [(verdict.baseline, verdict.candidate) for verdict in compared]
        arguments = dict.fromkeys(name for old, new in pairs for name in _differing(old, new))
        beside = f" beside {', '.join(arguments)}" if arguments else ""
        alike = f"same {'' if arguments else 'settings, '}weights, code and packages"
        return [f"changed: nothing on record{beside} ({alike})"]
    changed = [f"changed: {line}" for line in lines[:MAX_CHANGES]]
    if len(lines) > MAX_CHANGES:
        changed.append(f"changed: {len(lines) - MAX_CHANGES} more (--format json lists them)")
    return changed


def _differing(old: Row, new: Row | None) -> list[str]:
    """Return the arguments in which the SPECs of two rows' models differ."""
    if new is None or old.model_spec == new.model_spec:
        return []
    with suppress(UsageError):  # the name of a ready model, which is not a SPEC
        a, b = (parse(row.model_spec).arguments for row in (old, new))
        return [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return []


def model_at_commit(row: Row, name: str = "") -> str:
    """Return a run's model and the commit of its code, with `+` if files had uncommitted changes.

    An example is `qwen_vl @1a2b3c4+`.
    """
    commit = row.commit[:7] if row.commit else "unknown"
    return f"{name or row.name} @{commit}{'+' if row.dirty else ''}"


def symbol(verdict: TaskVerdict) -> str:
    """Return ✗ for a failed task, ↑ for a better task, ? for an inconclusive task, otherwise ✓."""
    if verdict.failures:
        return "✗"
    return "↑" if verdict.is_better else "?" if verdict.inconclusive else "✓"


def numbers(verdict: TaskVerdict) -> str:
    """Return the two numbers and the change, such as `0.500 → 0.480  −0.020`."""
    after = verdict.candidate.value if verdict.candidate else None
    return (
        f"{formatting.number(verdict.baseline.value)} → {formatting.number(after)}  "
        f"{formatting.signed_number(verdict.change)}"
    )


def evidence(verdict: TaskVerdict) -> list[str]:
    """Return the verdict's sentence and the number of samples that changed, if they are known."""
    changes, lines = verdict.changes, [verdict.sentence]
    if changes is not None and (changes.worst or changes.better or not verdict.sentence):
        lines.append(str(changes))
    return [line for line in lines if line]


def details(
    verdict: TaskVerdict, report: GateReport, *, with_samples: bool = True
) -> Iterator[str]:
    """Yield the reasons of a failure, the notes, and the worst samples of a failed task."""
    yield from verdict.failures
    if verdict.inconclusive:
        yield verdict.inconclusive
    yield from (f"note: {note}" for note in verdict.notes)
    changes, comparison = verdict.changes, verdict.comparison
    if comparison is not None and comparison.by_formula and verdict.is_blind:
        yield "note: with so few, a drop fails only if it is nearly the same in all of them"
    elif (
        not verdict.failures
        and comparison is not None
        and (comparison.loss or 0) > verdict.max_drop
    ):
        yield (
            "note: the drop is larger than --max-drop, but chance can explain it "
            f"({groups_text(comparison.n_groups)})"
        )
    if not with_samples or verdict.is_passed or changes is None or not changes.worst:
        return
    worst = [
        f"{change.sample} {change.before:.2f} → {change.after:.2f}"
        for change in changes.worst[:MAX_WORST]
    ]
    yield f"worst: {', '.join(worst)}{', …' if changes.worse > MAX_WORST else ''}"
    yield f"look:  {explain_command(verdict)}"
    if report.site:
        yield f"look:  {report.link(verdict, changes.worst[0].sample)}"


def explain_command(verdict: TaskVerdict, rank: int = 0) -> str:
    """Return the command that shows the candidate's answer to a worsened sample (0: the worst)."""
    assert verdict.changes is not None, "some sample got worse"
    sample = verdict.changes.worst[rank].sample
    return f"harness explain {quote(str(verdict.candidate_folder))} {quote(sample)}"


def rule(report: GateReport) -> str:
    """Describe in one line when this gate fails, and its rate of false alarms."""
    rate = report.false_alarms
    drop, limit = f"a significant drop (--level {report.level:g})", _limits(report.verdicts)
    larger = f"one of more than --max-drop {limit} that chance cannot explain"
    if report.fails_on_inconclusive:
        return (
            f"Fails on {drop}, on {larger}, and on a task whose samples could hide a drop of "
            "--max-drop (--fail-on-inconclusive)."
        )
    return f"Fails on {drop}, and on {larger}." + (
        f" With an unchanged model, this gate fails in {rate * 100:.1f} % of cases." if rate else ""
    )


def _limits(verdicts: Sequence[TaskVerdict]) -> str:
    """Return the limit of all tasks as text, or each one with its task if they differ."""
    limits = {verdict.task: verdict.max_drop for verdict in verdicts}
    if len(set(limits.values())) == 1:
        return f"{verdicts[0].max_drop:g}"
    return ", ".join(f"{limit:g} ({task})" for task, limit in limits.items())
