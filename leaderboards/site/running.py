"""Score an unfinished run unit by unit as its journal grows, for the live site (`live`)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HarnessError
from harness.leaderboards.ranked_table import Entry
from harness.leaderboards.row import row
from harness.leaderboards.runs import task_of
from harness.leaderboards.unit_values import unit_failures, unit_values
from harness.record import Run
from harness.run.batching import Selection, select, units
from harness.run.scoring import failures_and_usage, score_unit
from harness.scores import Metric, UnitScore
from harness.statistics.clusters import dependencies_of
from harness.summary import summarise
from harness.task import Task
from harness.types import Sample


@dataclass
class Running:
    """An unfinished run, with the scores of the units whose samples are all answered."""

    run: Run
    task: Task
    selection: Selection
    total: int
    """Number of samples that the run will have."""
    entry: Entry | None = None
    """The row so far, without a rank; None before the first complete unit."""
    scores: dict[str, UnitScore] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)

    @classmethod
    def open(cls, folder: Path, data_root: Path | None) -> "Running":
        """Open a run; raise HarnessError if its task cannot be built here."""
        run = Run.open(folder)
        task, subset = task_of(run, data_root), run.manifest["subset"]
        # The ids of a subset from a file are not recorded; its answered samples are found anyway.
        is_from_file = subset is not None and subset.startswith("ids-")
        total = int(run.manifest["data"]["n_total"])
        return cls(run, task, select(task, None if is_from_file else subset), total)

    @property
    def answered(self) -> int:
        """Number of samples in the journal."""
        return len(self.run.journal.places)

    def refresh(self) -> bool:
        """Read the journal again, and score complete units; return True if it has grown."""
        before = self.answered
        self.run.journal.refresh()
        if self.answered == before and self.scores:  # without scores: this may be the first call
            return False
        for unit in self.units():
            answered_ids = self.run.journal.places
            if unit[0].unit not in self.scores and all(
                sample.query.id in answered_ids for sample in unit
            ):
                self._score(unit)
        self.entry = self._entry()
        return True

    def units(self) -> Iterator[Sequence[Sample]]:
        """Yield the units of samples that the run evaluates."""
        return units(self.selection.samples(self.task))

    def _score(self, unit: Sequence[Sample]) -> None:
        """Score a complete unit; without judge or ground truth it counts, but has no scores."""
        predictions = [self.run.prediction(sample.id) for sample in unit]
        failures, usage = failures_and_usage(self.task, unit, predictions)
        self.failures.update(failures)
        self.usage.update(usage)
        try:
            unit_score = score_unit(self.task, unit, predictions)
        except HarnessError:
            unit_score = UnitScore(
                unit=unit[0].unit,
                group=unit[0].group,
                samples=tuple(sample.id for sample in unit),
                categories={},
                failed=failures.total(),
                scores={},
            )
        self.scores[unit_score.unit] = unit_score

    def _entry(self) -> Entry | None:
        """Return the row of the units so far, as if they were all."""
        scores = list(self.scores.values())
        if not scores:
            return None
        run = Run(self.run.folder)
        intervals = dict.fromkeys(metric.name for metric in self.task.protocol.metrics)
        # The cached property `Run.results` would read results.json, which is not written yet.
        run.__dict__["results"] = summarise(
            self.task, run.manifest, scores, self.failures, self.usage, intervals, None
        )
        run_row = row(run)
        return Entry(
            row=run_row,
            rank=None,
            basis=None,
            to_best=None,
            run=run,
            unit_values=unit_values(self.metrics, scores),
            unit_failures=unit_failures(scores),
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The headline last, after the metrics that it is derived from."""
        protocol = self.task.protocol
        return dependencies_of(protocol.metrics, protocol.headline)
