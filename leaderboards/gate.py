"""The gate: check that a candidate is not worse than its baseline (`harness board check`).

Runs of equal tasks are compared in pairs of units, clustered by image or video, on the headline and
on the share of answered samples. A task fails on a significant loss of either, on a loss larger
than both the limit and the detectable loss, if it is missing, and if it cannot be compared. A task
with too few samples to show a loss of the limit is inconclusive.

A loss is significant if its p value, by Holm's correction over the tasks of the baseline, is at
most `1 - level`; so more tasks do not make more false alarms, and further tasks of the candidate
are ignored. Headlines and answers are two families of tests. Each is two-sided and only losses
fail, so that each has a rate of `(1 - level) / 2` and both together keep to `1 - level`.
"""

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from harness.errors import DataError, HarnessError, MissingBaseline, UsageError, counted
from harness.leaderboards.baseline import Key, by_task, task_key, task_text
from harness.leaderboards.differences.changed import changed
from harness.leaderboards.formatting import older_scorer_note
from harness.leaderboards.gate_report import GateReport, TaskVerdict
from harness.leaderboards.losses import SLACK, compare_answers, is_significant, limit
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import check_numbers, metrics_for, open_runs
from harness.leaderboards.sample_changes import sample_changes
from harness.record import Run, runs_below, unfinished_below
from harness.statistics.holm import holm
from harness.statistics.paired import Comparison, check_same_units, compare
from harness.statistics.quantiles import check_level

__all__ = ["GateReport", "TaskVerdict", "check", "drops"]

MAX_DROP = 0.02  # in the headline's unit, or as a share of answers
MAX_CUT = 0.05  # as a share of samples


def drops(texts: Sequence[str] | None) -> dict[str, float]:
    """Return the limits of `--max-drop` by task, from `TASK=X`; `X` alone has the name "".

    Raises:
        UsageError: a limit is not a number from 0 on.
    """
    limits = {}
    for text in texts or ():
        task, _, number = text.rpartition("=")
        try:
            limits[task] = float(number)
        except ValueError:
            limits[task] = math.nan
        if not limits[task] >= 0:
            raise UsageError(
                f"--max-drop {text}", expected="X or TASK=X, X a number from 0 on", found=number
            )
    return limits


def check(
    baseline: Path | Iterable[Path],
    candidate: Path | Iterable[Path],
    *,
    max_drop: float = MAX_DROP,
    max_drops: Mapping[str, float] | None = None,
    tasks: Collection[str] | None = None,
    max_cut: float = MAX_CUT,
    fail_on_inconclusive: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    data_root: Path | None = None,
    site: str = "",
) -> GateReport:
    """Compare a candidate's runs with a baseline's, task by task, on each task's headline.

    Args:
        baseline: Run folders, or folders of them; each task once.
        candidate: The same of the candidate. Tasks that the baseline lacks are ignored.
        max_drop: A loss that is not significant, in the headline's own unit or as a share of
            answers, fails if it is larger than this and than the detectable loss.
        max_drops: The same for single tasks, by their names.
        tasks: Names of the baseline's tasks to compare; None: all.
        max_cut: Runs are not compared if the shares of samples whose responses were cut off by the
            limit of new tokens differ by more than this, and by more than one sample.
        fail_on_inconclusive: A task that passed fails if its samples could hide a drop of
            `max_drop`.
        level: Confidence level of the paired intervals, and of significance.
        resamples: Bootstrap draws and, at most, swaps.
        seed: Seeds the draws; equal runs give an equal report.
        data_root: Where the benchmarks lie now; needed only for derived headlines.
        site: Address or folder of a site of both, to which the report links samples; empty: there
            is none.

    Raises:
        MissingBaseline: a folder of the baseline holds no finished run.
        StoreError: one of the candidate holds none, or a record is not as it should be.
        UsageError: two runs of one side are of the same task, or the baseline has no task of a
            name that was given.
    """
    check_level(level)
    max_drops = max_drops or {}
    drops = (max_drop, *max_drops.values())
    for name, value in (("max_cut", max_cut), *(("max_drop", drop) for drop in drops)):
        if not value >= 0:
            raise UsageError(name, expected="a number from 0 on", found=str(value))
    baseline, candidate = (
        [side] if isinstance(side, Path) else list(side) for side in (baseline, candidate)
    )
    for folder in baseline:
        if not folder.is_dir() or not runs_below(folder):
            raise MissingBaseline(
                f"the baseline {folder}",
                expected="finished runs to compare with",
                found="none in it" if folder.is_dir() else "no such folder",
                fix="Make one from runs that you trust: "
                f"harness board keep --runs RUNS --out {folder}",
            )
    before, after = (
        by_task(open_runs(folders), side)
        for folders, side in ((baseline, "baseline"), (candidate, "candidate"))
    )
    baseline_tasks = sorted({key[0] for key in before})
    if unknown := sorted({*max_drops, *(tasks or ())} - set(baseline_tasks)):
        raise UsageError(
            f"task {', '.join(unknown)}",
            expected=f"tasks of the baseline, {', '.join(baseline_tasks)}",
            found="others",
        )
    if tasks is not None:
        before, after = (
            {key: run for key, run in side.items() if key[0] in tasks} for side in (before, after)
        )
    draws = _Draws(level=level, resamples=resamples, seed=seed)
    rules = _Rules(max_drop, max_drops, max_cut, fail_on_inconclusive, draws, data_root)
    unfinished = _unfinished(candidate) if before.keys() - after.keys() else {}
    verdicts = [rules.judge(run, _counterpart(run, after, unfinished)) for run in before.values()]
    return GateReport(
        verdicts=tuple(_with_losses(verdicts)),
        level=level,
        ignored=tuple(task_text(key) for key in after if key not in before),
        site=_address(site),
    )


def _address(site: str) -> str:
    """Return the address of a site's start page, from it or from the site's folder."""
    start = Path(site, "index.html")
    return start.resolve().as_uri() if site and start.is_file() else site


class _Draws(TypedDict):
    """Settings of all comparisons."""

    level: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class _Rules:
    """Settings of the gate; `check` documents them."""

    max_drop: float
    max_drops: Mapping[str, float]
    max_cut: float
    fail_on_inconclusive: bool
    draws: _Draws
    data_root: Path | None

    def judge(self, baseline: Run, candidate: Run | str) -> TaskVerdict:
        """Compare the runs of one task; a text says why the candidate has no run.

        The p values are not yet corrected, nor losses judged (`_with_losses`).
        """
        before = row(baseline)
        verdict = TaskVerdict(
            task=task_text(_key(before)),
            headline=before.headline,
            baseline=before,
            candidate=None,
            max_drop=self.max_drops.get(before.task, self.max_drop),
            fail_on_inconclusive=self.fail_on_inconclusive,
        )
        if isinstance(candidate, str):
            return replace(verdict, failures=(candidate,))
        after = row(candidate)
        verdict = replace(verdict, candidate=after, changed=tuple(changed(baseline, candidate)))
        different = differences(before, after) or other_cuts(before, after, self.max_cut)
        if different:
            return replace(verdict, failures=tuple(different))
        comparison, changes, notes = None, None, _unknown_cuts(before, after)
        name = before.headline
        try:
            a, b = tuple(baseline.units()), tuple(candidate.units())
            check_same_units(a, b)
            try:
                metrics = metrics_for(baseline, a, name=name, data_root=self.data_root)
            except HarnessError as error:
                notes = [f"{name} cannot be computed from the scores again: {error}", *notes]
            else:
                check_numbers(baseline, a, metrics)
                check_numbers(candidate, b, metrics)
                comparison = compare(metrics, a, b, name=name, **self.draws)
                changes = sample_changes(metrics, a, b)
        except DataError as error:
            return replace(verdict, failures=(f"cannot be compared: {error}",))
        return replace(
            verdict,
            comparison=comparison,
            changes=changes,
            candidate_folder=candidate.folder,
            answers=compare_answers(a, b, **self.draws),
            change=None
            if before.value is None or after.value is None
            else after.value - before.value,
            failures=tuple(_lost_number(before, after)),
            notes=(*notes, *filter(None, [older_scorer_note([before, after])])),
        )


def _with_losses(verdicts: Sequence[TaskVerdict]) -> Iterator[TaskVerdict]:
    """Yield the verdicts, with corrected p values and the failures that losses cause."""
    scores = _adjusted([verdict.comparison for verdict in verdicts])
    answers = _adjusted([verdict.answers for verdict in verdicts])
    for verdict, p, answers_p in zip(verdicts, scores, answers, strict=True):
        after = verdict.candidate
        score = answered = None
        if after is not None and verdict.change is not None:
            loss = verdict.baseline.quality - after.quality
            score = _fault(verdict.max_drop, loss, verdict.comparison, p, scores)
        if verdict.answers is not None:
            loss = verdict.answers.loss or 0.0
            answered = _fault(verdict.max_drop, loss, verdict.answers, answers_p, answers)
        line = changed_answers(verdict)
        yield replace(
            verdict,
            adjusted_p=p,
            tests=max(1, sum(p_value is not None for p_value in scores)),
            adjusted_answers_p=answers_p,
            failures=(
                *([score] if score else []),
                *verdict.failures,
                *([f"{line}: {answered}"] if answered else []),
            ),
            notes=(
                *verdict.notes,
                *([f"{line}: no drop that fails"] if line and not answered else []),
            ),
        )


def _fault(
    max_drop: float,
    loss: float,
    comparison: Comparison | None,
    adjusted_p: float | None,
    all_p_values: Sequence[float | None],
) -> str | None:
    """Return why a loss fails the gate; None if it passes.

    Args:
        max_drop: Limit of the task.
        loss: Baseline minus candidate, so that a positive loss is worse.
        comparison: Comparison of the two runs of the task.
        adjusted_p: Corrected p value of the comparison.
        all_p_values: Corrected p values of all tasks; None for tasks without a test.
    """
    tasks = sum(p is not None for p in all_p_values)
    if comparison is not None and is_significant(comparison, adjusted_p):
        return f"a significant drop of {loss:.4f}"
    if loss <= limit(comparison, max_drop, tasks=max(tasks, 1)) + SLACK:
        return None
    measured = comparison is not None and comparison.interval is not None
    return f"a drop of {loss:.4f}, more than --max-drop {max_drop:g}" + (
        " and than chance explains" if measured else ""
    )


def _adjusted(comparisons: Sequence[Comparison | None]) -> list[float | None]:
    """Return the p value of each comparison by Holm's correction over all of them."""
    p_values = holm(
        {i: comparison.p_value if comparison else None for i, comparison in enumerate(comparisons)}
    )
    return [p_values[i] for i in range(len(comparisons))]


def differences(before: Row, after: Row) -> list[str]:
    """Return the reasons why two runs of a task cannot be compared; empty if they can."""
    pairs: Mapping[str, tuple[object, object]] = {
        "protocol": (before.protocol, after.protocol),
        "task version": (before.task_version, after.task_version),
        "split": (before.split, after.split),
        "subset": (before.subset or "none", after.subset or "none"),
        "headline": (before.headline, after.headline),
        "data fingerprint": (before.data[:12], after.data[:12]),
        "number of samples": (before.n_total, after.n_total),
        "adaptation": (before.adaptation or "none", after.adaptation or "none"),
    }
    different = [
        f"cannot be compared: {setting} was {old}, is {new}"
        for setting, (old, new) in pairs.items()
        if old != new
    ]
    if not different and not before.n_scored and not after.n_scored:
        different = [
            f"cannot be compared: neither run answered any of {counted(before.n_total, 'sample')}"
        ]
    return different


def other_cuts(before: Row, after: Row, max_cut: float) -> list[str]:
    """Return a reason if two runs differ too much in the share of responses that were cut off."""
    old, new = before.cut, after.cut
    if old is None or new is None or abs(new - old) <= max(max_cut * after.n_total, 1):
        return []
    return [
        "cannot be compared: the limit of new tokens cut off "
        f"{old} of {counted(before.n_total, 'sample')}, now {new} of {after.n_total}: "
        f"they differ by more than --max-cut {max_cut:g}"
    ]


def _unknown_cuts(before: Row, after: Row) -> list[str]:
    """Return a note if one run had responses cut off and the other has no record of it."""
    recorded = [run_row.cut for run_row in (before, after) if run_row.cut is not None]
    if len(recorded) != 1 or not recorded[0]:
        return []
    side = "candidate" if before.cut is None else "baseline"
    return [
        f"--max-cut was not applied: {recorded[0]} responses of the {side} were cut off, and the "
        "other run has no record of it"
    ]


def _lost_number(before: Row, after: Row) -> list[str]:
    """Return a failure if only the baseline's headline has a number."""
    is_lost = before.value is not None and after.value is None
    return [f"{after.headline} has no value any more"] if is_lost else []


def changed_answers(verdict: TaskVerdict) -> str | None:
    """Describe the change in answers and in the kinds of failures; None if nothing changed."""
    before, after = verdict.baseline, verdict.candidate
    if after is None or (verdict.change is None and verdict.answers is None):
        return None
    changed_kinds = ", ".join(
        f"{kind} {before.failures.get(kind, 0)} → {count}"
        for kind, count in after.failures.items()
        if count != before.failures.get(kind, 0)
    )
    line = f"answered {before.n_scored} → {after.n_scored} of {after.n_total}"
    return f"{line} ({changed_kinds})" if changed_kinds else None


def _unfinished(folders: Iterable[Path]) -> dict[Key, Path]:
    """Return the folders of runs that were begun and have no results, by task."""
    unfinished = {}
    for folder in folders:
        for path in unfinished_below(folder):
            unfinished[task_key(Run.open(path))] = path
    return unfinished


def _counterpart(
    baseline: Run, runs: Mapping[Key, Run], unfinished: Mapping[Key, Path]
) -> Run | str:
    """Return the candidate's run of a baseline's task, or a text on why there is none.

    The text names an unfinished run of the task, or runs of the task on another split or subset.
    """
    key = task_key(baseline)
    if key in runs:
        return runs[key]
    if key in unfinished:
        return f"not finished in the candidate: {unfinished[key]} has no results.json"
    same_task = {run_key: run for run_key, run in runs.items() if run_key[0] == key[0]}
    listed = f", which has {', '.join(map(task_text, same_task))}" if same_task else ""
    same_split = [run for run_key, run in same_task.items() if run_key[:2] == key[:2]]
    fix = same_samples(baseline, same_split[0]) if same_split else ""
    return f"missing in the candidate{listed}" + (f". {fix}" if fix else "")


def same_samples(baseline: Run, candidate: Run) -> str:
    """Return what to do if the runs of a task have different subsets."""
    subset = baseline.manifest["subset"]
    option = f"with --subset {subset}, the baseline's" if subset else "without --subset"
    fix = f"Evaluate the candidate {option}"
    if not baseline.manifest["data"]["root"]:  # kept as a baseline, without its predictions
        return fix
    command = shlex.join(["harness", "diff", str(baseline.folder), str(candidate.folder)])
    return f"{fix}, or compare the samples that both have: {command}"


def _key(run_row: Row) -> Key:
    return run_row.task, run_row.split, run_row.subset or ""
