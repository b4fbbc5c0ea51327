"""The gate: a check that a candidate is not worse than its baseline.

Sample by sample on the headline of each task and on the share of samples that are answered,
clustered by image or video. It fails on a loss of either that is significant, on one that is
larger than both the limit and the detectable loss, on anything that hides a loss (missing tasks),
and on runs that cannot be compared. A task that could hide a loss of the limit is inconclusive,
because a gate on few samples passes almost anything.

A loss is significant if its p value by Holm's correction over the tasks of the baseline is at most
`1 - level`, so that a model that did not change fails no more often with more tasks. A candidate
cannot hide a loss behind further tasks, which are ignored. Where so few groups differ that no p
value is small enough, the second rule still sees that all of them got worse.

Headlines and answers are two families of tests, each at `level`. The tests are two-sided and only
losses fail, which is half of `1 - level` for either family, so that both together keep to
`1 - level`.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from harness.errors import DataError, HarnessError, MissingBaseline, UsageError, counted
from harness.leaderboards.baseline import Key, task_key
from harness.leaderboards.differences.changed import changed
from harness.leaderboards.gate_report import GateReport, TaskVerdict
from harness.leaderboards.losses import SLACK, compare_answers, is_significant, limit
from harness.leaderboards.row import Row, row
from harness.leaderboards.runs import check_numbers, metrics_for, open_runs
from harness.leaderboards.sample_changes import sample_changes
from harness.record import Run, runs_below, unfinished_below
from harness.statistics.holm import holm
from harness.statistics.paired import Comparison, check_same_units, compare
from harness.statistics.quantiles import check_level

__all__ = ["GateReport", "TaskVerdict", "check"]

MAX_DROP = 0.02
MAX_CUT = 0.05


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
        candidate: The same of the candidate. Tasks beyond the baseline's are not looked at.
        max_drop: A loss that is not significant, in the headline's own unit or as a share of
            answers, fails if it is larger than this and than what the comparison can detect.
        max_drops: The same for single tasks, by their names.
        tasks: Names of the baseline's tasks to compare; None: all.
        max_cut: Runs are not compared if the shares of samples whose responses were cut off by the
            limit of new tokens differ by more than this, and by more than one sample.
        fail_on_inconclusive: A task that passed fails if its samples could hide a drop of
            `max_drop`.
        level: Of the paired intervals; a loss is significant if its p value, corrected for the
            number of tasks, is at most `1 - level`.
        resamples: Bootstrap draws and, at most, swaps.
        seed: Seeds the draws; equal runs give an equal report.
        data_root: Where the benchmarks lie now; needed only for derived headlines.
        site: Address of a site of both, to which the report links samples; empty: there is none.

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
                fix="Keep runs that you trust as one: "
                f"harness board keep --runs RUNS --out {folder}",
            )
    before, after = _by_task(baseline, "baseline"), _by_task(candidate, "candidate")
    known = sorted({key[0] for key in before})
    if unknown := sorted({*max_drops, *(tasks or ())} - set(known)):
        raise UsageError(
            f"task {', '.join(unknown)}",
            expected=f"tasks of the baseline, {', '.join(known)}",
            found="others",
        )
    if tasks is not None:
        before, after = (
            {key: run for key, run in side.items() if key[0] in tasks} for side in (before, after)
        )
    draws = _Draws(level=level, resamples=resamples, seed=seed)
    rules = _Rules(max_drop, max_drops, max_cut, fail_on_inconclusive, draws, data_root)
    half = _unfinished(candidate) if before.keys() - after.keys() else {}
    verdicts = [rules.judge(run, _counterpart(run, after, half)) for run in before.values()]
    return GateReport(
        verdicts=tuple(_with_losses(verdicts)),
        level=level,
        ignored=tuple(_name(key) for key in after if key not in before),
        site=site,
    )


class _Draws(TypedDict):
    """Settings of all comparisons."""

    level: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class _Rules:
    max_drop: float
    max_drops: Mapping[str, float]
    max_cut: float
    fail_on_inconclusive: bool
    draws: _Draws
    data_root: Path | None

    def judge(self, baseline: Run, candidate: Run | str) -> TaskVerdict:
        before = row(baseline)
        verdict = TaskVerdict(
            task=_name(_key(before)),
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
            notes=tuple(notes),
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
    every: Sequence[float | None],
) -> str | None:
    """Return why a loss fails the gate, if it does; `every` has the corrected p of all tasks."""
    tasks = sum(p is not None for p in every)
    if comparison is not None and is_significant(comparison, adjusted_p):
        return f"a significant drop of {loss:.4f}"
    if loss <= limit(comparison, max_drop, tasks=max(tasks, 1)) + SLACK:
        return None
    measured = comparison is not None and comparison.interval is not None
    return f"a drop of {loss:.4f}, more than --max-drop {max_drop:g}" + (
        " and than chance explains" if measured else ""
    )


def _adjusted(comparisons: Sequence[Comparison | None]) -> list[float | None]:
    """The p values, each adjusted for all of them."""
    p_values = holm(
        {i: comparison.p_value if comparison else None for i, comparison in enumerate(comparisons)}
    )
    return [p_values[place] for place in range(len(comparisons))]


def differences(before: Row, after: Row) -> list[str]:
    """Return what keeps two runs of a task from being compared: differences, or no answers."""
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
        f"cannot be compared: {what} was {old}, is {new}"
        for what, (old, new) in pairs.items()
        if old != new
    ]
    if not different and not before.n_scored and not after.n_scored:
        different = [
            f"cannot be compared: neither run answered any of {counted(before.n_total, 'sample')}"
        ]
    return different


def other_cuts(before: Row, after: Row, max_cut: float) -> list[str]:
    """Return why two runs are not compared whose responses were cut off in other shares."""
    old, new = before.cut, after.cut
    if old is None or new is None or abs(new - old) <= max(max_cut * after.n_total, 1):
        return []
    return [
        "cannot be compared: the limit of new tokens cut off "
        f"{old} of {counted(before.n_total, 'sample')}, now {new} of {after.n_total}: "
        f"they differ by more than --max-cut {max_cut:g}"
    ]


def _unknown_cuts(before: Row, after: Row) -> list[str]:
    known = [run_row.cut for run_row in (before, after) if run_row.cut is not None]
    if len(known) != 1:
        return []
    side = "candidate" if before.cut is None else "baseline"
    return [
        f"--max-cut was not applied: {known[0]} responses of the {side} were cut off, and the "
        "other run has no record of it"
    ]


def _lost_number(before: Row, after: Row) -> list[str]:
    gone = before.value is not None and after.value is None
    return [f"{after.headline} has no number any more"] if gone else []


def changed_answers(verdict: TaskVerdict) -> str | None:
    """Describe the change in answers and in the kinds of failures; None if nothing changed."""
    before, after = verdict.baseline, verdict.candidate
    if after is None or (verdict.change is None and verdict.answers is None):
        return None
    kinds = ", ".join(
        f"{kind} {before.failures.get(kind, 0)} → {count}"
        for kind, count in after.failures.items()
        if count != before.failures.get(kind, 0)
    )
    line = f"answered {before.n_scored} → {after.n_scored} of {after.n_total}"
    return f"{line} ({kinds})" if kinds else None


def _by_task(folders: Path | Iterable[Path], side: str) -> dict[Key, Run]:
    runs: dict[Key, Run] = {}
    for run in open_runs(folders):
        key = _key(row(run))
        if key in runs:
            raise UsageError(
                f"the {side}",
                expected=f"one run of {_name(key)}",
                found=f"{runs[key].folder} and {run.folder}",
                fix="Name the run folders themselves.",
            )
        runs[key] = run
    return runs


def _unfinished(folders: Iterable[Path]) -> dict[Key, Path]:
    """The folders of runs that were begun and have no results."""
    unfinished = {}
    for folder in folders:
        for path in unfinished_below(folder):
            unfinished[task_key(Run.open(path))] = path
    return unfinished


def _counterpart(baseline: Run, runs: Mapping[Key, Run], half: Mapping[Key, Path]) -> Run | str:
    """Return the candidate's run of a task, or why there is none and what to do.

    A run of the same task that is not finished, or of another split or subset, is not a
    counterpart, but worth naming.
    """
    key = task_key(baseline)
    if key in runs:
        return runs[key]
    if key in half:
        return f"not finished in the candidate: {half[key]} has no results.json"
    near = {run_key: run for run_key, run in runs.items() if run_key[0] == key[0]}
    listed = f", which has {', '.join(map(_name, near))}" if near else ""
    same_split = [run for run_key, run in near.items() if run_key[:2] == key[:2]]
    fix = same_samples(baseline, same_split[0]) if same_split else ""
    return f"missing in the candidate{listed}{fix and f'. {fix}'}"


def same_samples(baseline: Run, candidate: Run) -> str:
    """Return what to type where two runs of a task are of different subsets."""
    subset = baseline.manifest["subset"]
    option = f"with --subset {subset}, the baseline's" if subset else "without --subset"
    fix = f"Evaluate the candidate {option}"
    if not baseline.manifest["data"]["root"]:  # kept as a baseline, without its predictions
        return fix
    command = shlex.join(["harness", "diff", str(baseline.folder), str(candidate.folder)])
    return f"{fix}, or compare the samples that both have: {command}"


def _key(row: Row) -> Key:
    return row.task, row.split, row.subset or ""


def _name(key: Key) -> str:
    task, split, subset = key
    return f"{task} {split}" + (f" ({subset})" if subset else "")
