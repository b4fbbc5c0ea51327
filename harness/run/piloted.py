"""A run's pilot and budget: predict a sample first, forecast the cost of all, stop at the limit.

    pilot (`count` samples by length) ─▶ tokens, money, memory ─▶ the rest, until a limit is reached

If the model works on one thing at a time, the pilot itself gives the seconds of a sample. Otherwise
they are measured on the samples after it, with as many at work as in the whole run; those are drawn
by length too. `evaluate` takes its outcomes from `PilotedRun.outcomes`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from time import perf_counter, time
from typing import Any

from harness.errors import BudgetReached, HarnessError, UsageError, counted
from harness.run.batch_plan import BatchPlan
from harness.run.batching import Batch, units
from harness.run.budget import Budget
from harness.run.forecast import (
    Rates,
    mean_by_length,
    standard_error,
    uneven_end,
)
from harness.run.options import Options
from harness.run.pilot import Draw, Piece, draw, without
from harness.run.predict import Outcome
from harness.run.scoring import score_unit, tally
from harness.run.timing import Stage, gpu_peak, memory_peak, process_peaks
from harness.run.workers import WorkerInfo, Workers
from harness.store.journal import Journal
from harness.summary import price, prices
from harness.task import Task
from harness.types import Prediction, Sample

DEFAULT_PILOT = 8
"""Number of samples of a pilot if only a budget is given."""
MIN_WINDOW = 64
"""Smallest number of samples after the pilot on which seconds are measured."""
ROUNDING = 1e-9  # added before rounding down, so that an exact number stays
SCORED_UNITS = 4
"""Number of units that are scored to measure the seconds of scoring."""


@dataclass(kw_only=True)
class PilotedRun:
    """The batches of one run, a pilot's first, and their measured cost."""

    task: Task
    folder: Path
    options: Options
    info: WorkerInfo
    manifest: Mapping[str, Any]
    journal: Journal
    samples: Callable[[], Iterable[Sample]]
    """Returns the run's samples."""
    lookup: Callable[[str], Prediction | None]
    """Returns the prediction for a query by its id; None if there is none yet."""
    stages: Callable[[], Mapping[str, Stage]]
    """Returns the cost of the stages so far."""
    note: Callable[[str], None]
    n_left: int = 0
    """Number of unfinished samples of the plan; 0 without a pilot."""
    rates: Rates | None = None
    """Cost of a sample as measured so far; None before the pilot has ended."""
    _draw: Draw | None = None
    _drawn: list[Piece] = field(default_factory=list)
    """Pieces of the pilot, and of the samples after it on which seconds are measured."""
    _tokens: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens of (prompt, completion) of each finished sample, by query id."""
    _moments: dict[str, float] = field(default_factory=dict)
    """Time of each sample's end, by query id, of the current measurement (`_begin`)."""
    _began: float = 0.0
    """Time at which the current measurement began, in seconds since 1970."""
    _older: frozenset[Path] = frozenset()
    """Files of the journal that earlier commands wrote."""
    _handed: int = 0
    """Number of samples that workers were given and have not finished."""
    _refused: bool = False
    """True: no money was left for a batch; those in progress are finished."""
    _due: int = 0
    """Number of samples after the pilot after which seconds are stated; 0: done, or never."""
    _spent: float = 0.0
    """Money that the run has cost."""
    _token_seconds: float = 0.0
    """Seconds of each token of the pilot's answers, while the model works on few samples."""
    _scoring: float = 0.0
    """Seconds of scoring a sample."""
    _judging: float = 0.0
    """Money that judging a sample costs."""
    _judged: float = 0.0
    """Money that the judge has cost."""

    def __post_init__(self) -> None:
        self._judged = self.options.judge_cost()
        self._older = frozenset(entry.path for entry in self.journal.places.values())

    @cached_property
    def _prices(self) -> tuple[float, float] | None:
        return prices(self.manifest["model"])

    @property
    def _n_slots(self) -> int:
        """Number of samples at work at once, or of batches if batches are not divided."""
        return self.options.workers * (self.info.at_once if self.info.by_sample else 1)

    def outcomes(self, workers: Workers, batches: BatchPlan) -> Iterator[Outcome]:
        """Predict the unfinished batches of this command's share: a pilot, then all others."""

        def plan() -> Iterator[Batch]:
            part, parts = self.options.shard or (1, 1)
            remaining = batches.remaining(dict(self.journal.places))
            return (batch for batch in remaining if batch.index % parts == part - 1)

        count = self.options.pilot or (DEFAULT_PILOT if self.options.budget else 0)
        if count:
            self._draw = draw(plan(), by_sample=self.info.by_sample, seed=self.options.seed)
        if self._draw is None:
            yield from workers.run(plan())
            return
        self.n_left = self._draw.samples
        self._drawn = self._draw.pilot(count)
        self._begin()
        split = {
            "size": self.options.batch_size or self.info.batch_size,
            "workers": self.options.workers,
        }
        first = self._draw.batches(self._drawn, **split)
        yield from workers.run(self._within(first))
        if not self.n_left or self.is_over:
            return
        self._token_seconds = sum(ended - self._began for ended in self._moments.values()) / sum(
            self._answer_tokens()
        )
        self._measure_scoring()
        if self.info.by_sample:
            window = max(MIN_WINDOW, 2 * self._n_slots)
            # Two ends of samples are needed to measure the time between them.
            self._due = min(window + self._n_slots, self.n_left // 2)
            self._due = self._due if self._due > 1 else 0
        if self._n_slots == 1 or not self.info.by_sample:
            self._state(*self._seconds_by_piece())
        else:  # seconds are stated later, when all slots have been at work
            self._state(None)
        if not self.info.by_sample:
            yield from workers.run(self._within(plan()))
            return
        further_pieces = self._draw.further(window + 2 * self._n_slots, self._tokens.keys())
        self._drawn += further_pieces
        self._begin()
        ahead = self._draw.batches(further_pieces, **split, first=len(first))
        ids_ahead = {query.id for batch in ahead for query in batch.queries}
        yield from workers.run(self._within(chain(ahead, without(plan(), ids_ahead))))

    def finished(self, queries: Iterable[str], ended: float) -> None:
        """Count journalled samples, and state the seconds once enough samples were measured.

        Args:
            queries: Query ids.
            ended: Time of their end, in seconds since 1970.
        """
        if self._draw is None:
            return
        judged = self.options.judge_cost()
        spent, self._judged = judged - self._judged, judged
        for query in queries:
            prompt, completion, *_ = self.journal.record(query)["prediction"]["usage"]
            self._tokens[query], self._moments[query] = (prompt, completion), ended
            spent += price(self._prices, prompt, completion) or 0.0
            self.n_left -= 1
            self._handed -= 1
        self._spent += spent
        if self.options.budget is not None:
            self.options.budget.spent += spent
        if self._due and len(self._moments) >= self._due:
            self._due = 0
            if self.n_left:
                is_one_by_one = self._n_slots == 1
                measure = self._seconds_by_piece if is_one_by_one else self._seconds_by_flow
                self._state(*measure())

    @property
    def is_over(self) -> bool:
        """True if the run must stop at once: its time is over, and samples are left."""
        budget = self.options.budget
        if budget is None or budget.seconds is None:
            return False
        return self.n_left > 0 and not budget.left

    def end(self) -> BudgetReached | None:
        """Return the error to raise if the budget has ended the run; None otherwise."""
        budget = self.options.budget
        if budget is None or not self.n_left or not (self._refused or self.is_over):
            return None
        self.journal.refresh()  # answered samples are finished when a run stops
        new = [entry for entry in self.journal.places.values() if entry.path not in self._older]
        assert self._draw is not None, "samples are left of its plan"
        done, n_remaining = counted(len(new), "sample"), self._draw.samples - len(new)
        outlook = (
            f"{counted(n_remaining, 'sample')} left"
            if self.rates is None
            else self.rates.text(n_remaining, budget.currency)
        )
        return BudgetReached(
            f"budget {budget.text}: reached; run {self.folder} keeps {done} of this command; "
            f"{outlook}"
        )

    def _begin(self) -> None:
        """Begin a measurement of seconds."""
        self._moments.clear()
        self._began = time()

    def _within(self, plan: Iterable[Batch]) -> Iterator[Batch]:
        """Yield batches while the budget has time, and money by a sample's mean cost so far."""
        budget = self.options.budget
        for batch in plan:
            if self.is_over:  # seen here too: many samples can end before the run's loop looks
                return
            size = len(batch.queries)
            if budget is not None and budget.money is not None and self._spent:
                paid = self._spent / len(self._tokens)
                size = min(size, int(budget.left / paid + ROUNDING) - self._handed)
            self._refused = size < len(batch.queries)
            if size < 1 or (self._refused and not self.info.by_sample):
                return
            self._handed += size
            yield replace(batch, queries=batch.queries[:size])
            if self._refused:  # the rest of this batch is left for the next command
                return

    def _state(self, seconds: float | None, error: float = 0.0) -> None:
        """Compute the rates from the finished samples, store them, and note the forecast.

        Args:
            seconds: Seconds a sample; None: not known yet.
            error: Standard error of the seconds, as a share of them.
        """
        lengths, tokens = self._lengths, self._tokens
        measured = [query for query in tokens if query in lengths]

        def mean_tokens(kind: int) -> float:
            """Return the mean number of prompt (0) or completion (1) tokens of the samples left."""
            return mean_by_length(
                [tokens[query][kind] for query in measured],
                [lengths[query] for query in measured],
                self._length_left(),
            )

        prompt, completion = mean_tokens(0), mean_tokens(1)
        cost = price(self._prices, prompt, completion)
        peaks = process_peaks(self.stages())
        this_process = (memory_peak(), gpu_peak()) if self.options.in_process else (0, 0)
        self.rates = Rates(
            samples=len(measured),
            prompt_tokens=prompt,
            completion_tokens=completion,
            seconds=seconds,
            error=error,
            cost=None if cost is None and not self._judging else (cost or 0.0) + self._judging,
            memory=max(this_process[0], *peaks.get("process_peak_bytes", [0])),
            gpu_memory=max(this_process[1], *peaks.get("process_gpu_peak_bytes", [0])),
            device=self.manifest["provenance"]["device"],
        )
        self.rates.write(self.folder)
        text = f"{self.task.name}, after a pilot of {counted(len(measured), 'sample')}: "
        budget = self.options.budget
        text += self.rates.text(self.n_left, "" if budget is None else budget.currency)
        if seconds is None and self._due:
            text += f"; the time is stated after {self._due} more, with as many at once as later"
        self.note(text + self._shortage(self.rates))

    def _shortage(self, rates: Rates) -> str:
        """Return a sentence on the samples that the budget suffices for; empty if for all."""
        if (budget := self.options.budget) is None:
            return ""
        need = rates.cost if budget.seconds is None else rates.seconds
        fitting = self.n_left if not need else int(budget.left / need + ROUNDING)
        if fitting >= self.n_left:
            return ""
        return (
            f". The budget of {budget.text} is enough for about {fitting:,} of them: the run stops "
            "there, and the same command goes on"
        )

    @property
    def _lengths(self) -> dict[str, float]:
        """Predicted length of each drawn query, by its id."""
        return {query.id: piece.length for piece in self._drawn for query in piece.batch.queries}

    def _seconds_by_piece(self) -> tuple[float, float]:
        """Return seconds a sample and their error, by the times between ends of the pilot's pieces.

        The first piece of each worker does not count, because it loads the model; nor does the time
        from its end, because the segmenter is loaded late.
        """
        ends: list[tuple[float, Piece]] = []
        for piece in self._drawn:
            queries = piece.batch.queries
            if queries[-1].id in self._moments:
                ends.append((max(self._moments.get(query.id, 0.0) for query in queries), piece))
        ends.sort(key=itemgetter(0))
        workers = self.options.workers
        first = min(2 * workers if len(ends) > 4 * workers else workers, len(ends) - 1)
        if first == 0:  # a pilot of one piece
            return (ends[0][0] - self._began) / len(self._moments) + self._scoring, 0.0
        values = [
            (end - before) / len(piece.batch.queries)
            for (before, _), (end, piece) in pairwise(ends[first - 1 :])
        ]
        lengths = [piece.length for _, piece in ends[first:]]
        seconds = mean_by_length(values, lengths, self._length_left())
        return self._with_scoring(seconds), standard_error(values)

    def _seconds_by_flow(self) -> tuple[float | None, float]:
        """Return seconds a sample and their error, by the rate of ends with all slots taken.

        None if all measured samples ended at the same time.
        """
        ends = sorted(self._moments.values())
        first = max(1, min(self._n_slots, len(ends) // 2))
        seconds = (ends[-1] - ends[first - 1]) / max(1, len(ends) - first)
        if seconds <= 0:
            return None, 0.0
        tokens = self._answer_tokens()
        if self.info.ahead > 2:  # a server: empty slots do not make other requests faster
            # By Little's law, the requests that it works on; others wait in its queue.
            served = round(self._token_seconds * fmean(tokens) / seconds)
            slots = max(1, min(self._n_slots, served))
            seconds *= uneven_end(tokens, slots, self.n_left, seed=self.options.seed)
        return self._with_scoring(seconds), standard_error(tokens)

    def _length_left(self) -> float:
        """Return the mean predicted length of the unfinished samples."""
        assert self._draw is not None, "it is called after a pilot"
        done = [length for query, length in self._lengths.items() if query in self._tokens]
        total = self._draw.mean_length * self._draw.samples
        n_remaining = self._draw.samples - len(done)
        return max(0.0, total - sum(done)) / max(1, n_remaining)

    def _answer_tokens(self) -> list[int]:
        """Return the completion tokens of each finished sample, at least 1."""
        return [max(completion, 1) for _, completion in self._tokens.values()]

    def _with_scoring(self, seconds: float) -> float:
        """Return seconds with scoring: the sum if one thread does both, else the larger."""
        if self.options.in_process and self.info.ahead <= 2:
            return seconds + self._scoring
        return max(seconds, self._scoring)

    def _measure_scoring(self) -> None:
        """Score a few of the pilot's units, and measure their time and the judge's cost.

        The scores are discarded; a judge's verdicts are stored.
        """
        judged, seconds, scored = self.options.judge_cost(), list[float](), 0
        with suppress(HarnessError):  # the run itself reports it
            for unit in units(self.samples()):
                if not all(sample.query.id in self._tokens for sample in unit):
                    continue
                start = perf_counter()
                stored = [self.lookup(sample.query.id) for sample in unit]
                predictions = [prediction for prediction in stored if prediction is not None]
                if len(predictions) < len(unit):  # the ground truth is hidden
                    break
                score_unit(self.task, unit, predictions)
                tally(self.task, unit, predictions)
                seconds.append((perf_counter() - start) / len(unit))
                scored += len(unit)
                if len(seconds) == SCORED_UNITS:
                    break
        if seconds:
            self._scoring = fmean(seconds[1:] or seconds)  # the first loads what scoring needs
            self._judging = (self.options.judge_cost() - judged) / scored


def refuse_unpriced(budget: Budget | None, model: Mapping[str, Any]) -> None:
    """Raise UsageError for a budget of money if the model has no prices."""
    if budget is not None and budget.seconds is None and prices(model) is None:
        raise UsageError(
            f"--budget {budget.text}",
            expected="the prices of the model's tokens",
            found="none",
            fix="Give what a million of them cost, backend=openai(…,prompt_price=2,"
            "completion_price=10), or a time, such as --budget 2h",
        )
