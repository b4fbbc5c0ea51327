"""Compare a running evaluation with a finished run until the comparison is decided.

`harness eval --against RUN` calls an `Against` with the units scored so far; it returns True when
the evaluation may stop. The sequential test adds up differences of groups of units.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError, counted
from harness.leaderboards.runs import check_numbers, metrics_for
from harness.record import Run
from harness.run.rescore import selected
from harness.scores import Corpus, Mean, Ratio, UnitScore, value_of
from harness.statistics.paired import Comparison, compare
from harness.statistics.quantiles import check_level
from harness.statistics.sequential import Decision, decide
from harness.store.atomic import write_json
from harness.task import Task

DECISION = "decision.json"


class Against:
    """The comparison of a running evaluation with a finished run; call it with the scored units."""

    def __init__(
        self, baseline: Run, task: Task, *, subset: str | None, margin: float, level: float
    ) -> None:
        """Check that the runs can be compared.

        Raises:
            UsageError: the headline is not a mean of scores from 0 to 1, or the subset differs.
            StoreError, DataError: the baseline is of another task, protocol or data.
        """
        check_level(level)
        old_subset = baseline.manifest["subset"]
        if subset != old_subset:
            raise UsageError(
                f"--against {baseline.folder}",
                expected=f"a run of {f'the subset {subset}' if subset else 'all samples'}",
                found=f"one of {f'the subset {old_subset}' if old_subset else 'all samples'}",
                fix=f"Type --subset {old_subset}." if old_subset else "Leave out --subset.",
            )
        baseline.check_files()
        next(iter(selected(task, baseline)))  # raises the errors of task, protocol and data
        units = list(baseline.units())
        name = task.protocol.headline
        self._metrics = metrics_for(baseline, units, name=name)
        check_numbers(baseline, units, self._metrics)
        self._sign = 1 if self._metrics[-1].better == "higher" else -1
        self._name = name
        self.baseline = baseline.folder
        self._scores = {unit.unit: self._score(unit) for unit in units}
        self._units = units
        self._sizes = Counter(unit.group for unit in units)
        mean = sum(self._scores.values()) / len(units)
        # A number that is added to a mean's count changes one sample's score and all samples' mean.
        slack = 1e-9 + max(metric.epsilon for metric in self._metrics)
        scores = [[unit.scores.get(metric.name) for unit in units] for metric in self._metrics]
        weighted = any(len({_weight(score) for score in column}) > 1 for column in scores)
        if weighted or abs(mean - baseline.results["metrics"][name]) > slack:
            raise UsageError(
                f"--against on {task.name}",
                expected="a headline that is the mean of the samples' scores",
                found=f"{name}, whose samples have different weights",
                fix="Evaluate all samples, and compare by `harness board check`.",
            )
        self._margin, self._level = margin, level
        self.decision: Decision | None = None
        # Of each compared group: the sum of its units' differences, and their number.
        self._totals: list[float] = []
        self._counts: list[int] = []
        self.samples = 0
        self._waiting: list[UnitScore] = []  # units of a group that is not complete
        self._seen = 0  # units that were taken from those scored so far

    def __call__(self, done: Sequence[UnitScore]) -> bool:
        """Test after each group that is complete now; return True if the comparison is decided."""
        for unit in done[self._seen :]:
            self._seen += 1
            self._waiting.append(unit)
            if len(self._waiting) < self._sizes[unit.group] or self.decision is not None:
                continue
            members, self._waiting = self._waiting, []
            self._totals.append(
                sum(
                    self._sign * (self._score(member) - self._scores[member.unit])
                    for member in members
                )
            )
            self._counts.append(len(members))
            self.samples += sum(len(member.samples) for member in members)
            self.decision, _ = decide(
                self._totals,
                self._counts,
                largest=max(self._sizes.values()),
                margin=self._margin,
                level=self._level,
            )
        return self.decision is not None

    def _score(self, unit: UnitScore) -> float:
        """Return one unit's headline; raise UsageError unless it is from 0 to 1."""
        if any(metric.corpus is not None for metric in self._metrics):
            described = "a number of the whole set"
        else:
            value = value_of(self._metrics, [unit], self._name)
            if value is not None and 0 <= value <= 1:
                return value
            described = f"{value} of {unit.unit}"
        raise UsageError(
            f"--against, metric {self._name}",
            expected="a score from 0 to 1 of each sample",
            found=described,
            fix="Evaluate all samples, and compare by `harness board check`.",
        )

    def to_json(self) -> dict[str, object]:
        """Return the current state of the comparison as plain data."""
        return {
            "against": str(self.baseline),
            "decision": self.decision,
            "groups": len(self._totals),
            "groups_total": len(self._sizes),
            "samples": self.samples,
            "margin": self._margin,
            "level": self._level,
        }

    def compare(self, run: Run) -> Comparison:
        """Compare the finished run with the baseline, by the test that boards and the gate use."""
        return compare(
            self._metrics, self._units, list(run.units()), name=self._name, level=self._level
        )

    def sentence(self) -> str:
        """Return the decision, or that there is none yet, as a sentence."""
        progress = f"{len(self._totals)} of {counted(len(self._sizes), 'group')}"
        progress += f" ({counted(self.samples, 'sample')})"
        if self.decision is None:
            return f"not decided after {progress}"
        margin = "" if self.decision == "worse" else f" by {self._margin:g} or more"
        return f"decided after {progress}: {self.decision}{margin}, at level {self._level:g}"


def _weight(score: Mean | Ratio | Corpus | None) -> float | None:
    """Return the weight of a score in an average; None for a derived score."""
    if isinstance(score, Ratio):
        return score.denominator
    return score.weight if isinstance(score, Mean) else None


def write_decision(folder: Path, comparison: Against) -> None:
    """Write `decision.json` into the folder of a run that was stopped."""
    write_json(folder / DECISION, comparison.to_json())
