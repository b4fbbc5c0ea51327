"""Score predictions unit by unit, in the task's order, as they become complete.

`Scorer` collects the scores of a run; `RunningScorer` does so while predictions are made. The
functions score or count one unit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.errors import DataError, HarnessError
from harness.plugin_code import scoring_code
from harness.plugins import plugin_errors
from harness.run.batching import units
from harness.run.ledger import Ledger, unit_ledger
from harness.scores import UnitScore, check_scores, with_python_numbers
from harness.statistics.bootstrap import intervals
from harness.store.journal import JournalPosition
from harness.summary import summarise, values
from harness.task import Protocol, Task
from harness.types import FailureKind, Prediction, Sample


@dataclass
class Scorer:
    """The scores of a run's units so far, and its results."""

    task: Task
    samples: Callable[[], Iterable[Sample]]
    """Returns the selected samples."""
    done: list[UnitScore] = field(default_factory=list)
    """Scores of the units so far, in the task's order."""
    counted: "Tally" = field(default_factory=lambda: Tally())
    _stream: Iterator[Sequence[Sample]] | None = None
    _next: Sequence[Sample] | None = None

    def advance(self, lookup: Callable[[str], Prediction | None], limit: int | None = None) -> int:
        """Score the next units whose predictions are complete, and return their number.

        Args:
            lookup: Returns the prediction for a query id; None if there is none yet.
            limit: Maximum number of units; None: all.
        """
        if self._stream is None:
            self._stream = units(self.samples())
            self._next = next(self._stream, None)
        count = 0
        while self._next is not None and count != limit:
            stored = [lookup(sample.query.id) for sample in self._next]
            predictions = [prediction for prediction in stored if prediction is not None]
            if len(predictions) < len(self._next):
                break
            self.add(self._next, predictions)
            self._next = next(self._stream, None)
            count += 1
        return count

    def add(self, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> None:
        """Score one unit."""
        self.add_scored(
            score_unit(self.task, unit, predictions), tally(self.task, unit, predictions)
        )

    def add_scored(self, score: UnitScore, counted: "Tally") -> None:
        """Add a unit that was scored, perhaps by another process."""
        self.counted.add(counted, len(self.done), score)
        self.done.append(score)

    def headline(self) -> float | None:
        """Return the headline over the scored units; None for a metric of a corpus."""
        protocol = self.task.protocol
        parts = (protocol.headline, *protocol.metric(protocol.headline).inputs)
        if any(protocol.metric(name).corpus is not None for name in parts):
            return None  # it may take seconds, too long for a running score
        with plugin_errors(f"the metrics of {self.task.name}"):
            return values(self.task, self.done)[protocol.headline]

    def results(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of results.json."""
        task, done, counted = self.task, self.done, self.counted
        with plugin_errors(f"the metrics of {task.name}"):
            ceiling = task.protocol.ceiling.value_over(self.samples)
            bounds = intervals(task.protocol.metrics, done, seed=manifest["seed"])
            summary = summarise(
                task, manifest, done, counted.failures, counted.usage, bounds, ceiling
            )
            return {
                **summary,
                "ledger": counted.ledger.to_json(task, done, manifest["model"]),
                "scoring_code": scoring_code(_functions_of(task.protocol)),
            }


def _functions_of(protocol: Protocol) -> Iterator[object]:
    """Yield the functions that make a protocol's numbers; None for those that it does not have."""
    yield from (protocol.score, protocol.reads)
    for metric in protocol.metrics:
        yield from (metric.corpus, metric.derived)


@dataclass(kw_only=True)
class RunningScorer(Scorer):
    """Scores units while predictions are made; an error of the scorer does not stop predictions."""

    note: Callable[[str], None]
    """Receives the error as a note."""
    error: HarnessError | None = None
    """The first error, after which no more units are scored."""

    def advance(self, lookup: Callable[[str], Prediction | None], limit: int | None = None) -> int:
        """Score the next units as `Scorer` does; none after an error."""
        if self.error is not None:
            return 0
        try:
            return super().advance(lookup, limit)
        except HarnessError as error:
            self.error = error
            self.note(f"scoring failed, predictions go on: {error}")
            return 0

    def unanswered(self, places: Mapping[str, JournalPosition]) -> int:
        """Return the number of samples without an answer so far, counted as in the results.

        If the protocol reads responses itself, only scored units count; otherwise the model's
        parser has decided for each entry of the journal (`places`).
        """
        if self.task.protocol.reads is not None and self.task.submission is None:
            return self.counted.failures.total()
        return sum(position.failure is not None for position in places.values())


@dataclass(slots=True)
class Tally:
    """Usage and ledger of units, and the number of samples without an answer, by kind."""

    failures: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    ledger: Ledger = field(default_factory=Ledger)

    def add(self, unit: "Tally", unit_index: int = 0, score: UnitScore | None = None) -> None:
        """Add a unit; for `unit_index` and `score` see `Ledger.add`."""
        self.failures.update(unit.failures)
        self.usage.update(unit.usage)
        self.ledger.add(unit.ledger, unit_index, score)


def failure_of(task: Task, sample: Sample, prediction: Prediction) -> FailureKind | None:
    """Return the kind of failure of a sample without an answer; None if it has one.

    If the protocol reads responses itself, its rule decides, whatever the model's parser did. The
    parser decides for other protocols, and if the ground truth is hidden.

    Raises:
        DataError: the protocol's rule raises.
    """
    failure = prediction.failure
    if task.protocol.reads is not None and sample.target is not None:
        if reading_of(task, sample, prediction) is not None:
            return None
        return FailureKind.PARSE if failure is None else failure.kind
    return None if failure is None else failure.kind


def reading_of(task: Task, sample: Sample, prediction: Prediction) -> object | None:
    """Return the answer that the protocol's own rule reads in a prediction.

    None: it reads nothing, or the protocol has no rule. True: it reads an answer without giving it.

    Raises:
        DataError: the protocol's rule raises.
    """
    if (reads := task.protocol.reads) is None:
        return None
    with plugin_errors(f"the scorer of {task.name}, on {sample.id!r}"):
        reading = reads(sample, prediction)
    return (bool(reading) or None) if isinstance(reading, (bool, np.bool_)) else reading


def failures_and_usage(
    task: Task, samples: Sequence[Sample], predictions: Sequence[Prediction]
) -> tuple[Counter[str], Counter[str]]:
    """Return a unit's failures by kind, and its usage (tokens, frames)."""
    usage: Counter[str] = Counter(
        prompt_tokens=0, completion_tokens=0, reasoning_tokens=0, frames=0
    )
    for prediction in predictions:
        for name in usage:
            usage[name] += getattr(prediction.usage, name)
    kinds = (failure_of(task, *pair) for pair in zip(samples, predictions, strict=True))
    failures = Counter(kind.value for kind in kinds if kind is not None)
    return failures, usage


def tally(task: Task, samples: Sequence[Sample], predictions: Sequence[Prediction]) -> Tally:
    """Return a unit's counts and its ledger; the latter scores cut responses again."""
    return Tally(
        *failures_and_usage(task, samples, predictions), unit_ledger(task, samples, predictions)
    )


def score_unit(task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> UnitScore:
    """Score one unit by the task's protocol.

    Raises:
        DataError: its samples have different groups or no ground truth, or the scorer raises or
            returns invalid scores.
    """
    if any(sample.target is None for sample in unit):
        is_kept = task.submission is not None
        raise DataError(
            f"{task.name}, split {task.split}",
            expected="ground truth to score against",
            found="none: the organisers keep it" if is_kept else "none",
            fix="Run `harness eval` on it: that writes the file for their server."
            if is_kept
            else "The description of a table of your own names its field: field = … in [answer].",
        )
    if len({sample.group for sample in unit}) > 1:
        raise DataError(
            f"{task.name}: unit {unit[0].unit!r}", expected="one group", found="several"
        )
    where = f"the scorer of {task.name}, on {unit[0].unit!r}"
    with plugin_errors(where):
        try:
            scores = task.protocol.score(unit, predictions)
            check_scores(task.protocol.metrics, scores)
        except HarnessError as error:
            raise DataError(f"{where}: {error}") from error
    shared = set.intersection(*(set(sample.categories.items()) for sample in unit))
    return UnitScore(
        unit=unit[0].unit,
        group=unit[0].group,
        samples=tuple(sample.id for sample in unit),
        categories=dict(sorted(shared)),
        failed=sum(
            failure_of(task, *pair) is not None for pair in zip(unit, predictions, strict=True)
        ),
        scores={name: with_python_numbers(statistic) for name, statistic in scores.items()},
    )
