"""Tasks and protocols: a `Task` holds samples and the `Protocol` that scores predictions for them.

Task plugins (`tasks/`) return a `Task`; `harness.run` reads its samples, asks a model, and scores
units of samples with `Protocol.score`. Metric plugins add to a task by `with_metrics`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from harness.errors import DataError, UsageError
from harness.scores import Mean, Metric, Ratio, Scores, Statistic
from harness.types import AnswerForm, Prediction, Sample, Target

T = TypeVar("T")

ScoreUnit: TypeAlias = Callable[[Sequence[Sample], Sequence[Prediction]], Scores]
"""Scores one unit: its samples, and the prediction for each in the same order."""
Reads: TypeAlias = Callable[[Sample, Prediction], object]
"""Function that returns True if the protocol's scorer can take an answer from the prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Score of perfect answers on the headline metric, and the reason if it is not simply 1."""

    value: float | Callable[[Iterable[Sample]], float] | None
    """A number, or a function of the samples where it depends on them; None: it is not known."""
    tolerance: float = 0.0
    """Distance by which perfect answers may stay below `value`, for the reason in `why`."""
    why: str = ""

    def value_over(self, samples: Callable[[], Iterable[Sample]]) -> float | None:
        """The number for these samples; None: it is not known."""
        return self.value(samples()) if callable(self.value) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A named scoring convention of a published scorer."""

    name: str
    score: ScoreUnit
    metrics: tuple[Metric, ...]
    headline: str
    ceiling: Ceiling
    about: str
    """Description in one line: whose scorer it is, and its particulars."""
    beside: tuple[str, ...] = ()
    """Metrics that are shown next to the headline, such as the one that papers print."""
    reads: Reads | None = None
    """Rule by which a sample counts as answered, where the protocol parses responses itself instead
    of using the model's parsed answer; None: any answer counts. It returns what it reads, or True;
    None or False: nothing."""
    least_score: float = -math.inf
    """Score below which the protocol leaves out predicted boxes; a note counts them."""
    rubric: str | None = None
    """Name of the rubric for free answers, where the protocol needs one (`harness.judging`)."""
    judged: Callable[[Any], ScoreUnit] | None = None
    """Function that scores with a `model.Judge`, given with `rubric`. `score` itself scores samples
    that need no judge, such as perfect answers, and raises UsageError for others."""

    @property
    def unread(self) -> str:
        """The reason why a response is a failure from which the rule reads nothing."""
        return f"{self.name} reads nothing from it ({self.about})"

    def metric(self, name: str) -> Metric:
        """The declared metric of this name."""
        return next(metric for metric in self.metrics if metric.name == name)


def official_and_strict(
    name: str,
    score: Callable[..., Scores],
    *,
    official: str,
    strict: str,
    reads: Callable[..., object] | None = None,
    published: str = "official",
    **fields: Any,
) -> dict[str, Protocol]:
    """Return the protocols `NAME/official` and `NAME/strict`, which differ in one rule.

    Args:
        name: The benchmark's name for protocols.
        score: Scores a unit; the keyword `strict` (a bool) chooses the rule.
        official: Field `about` of the official protocol.
        strict: Field `about` of the strict protocol.
        reads: Field `reads` of both; takes the keyword `strict` too.
        published: Word in place of `official`; `lmms` where the authors published no scorer.
        fields: Further fields of `Protocol`; without `ceiling`, a ceiling of 1.
    """
    fields = {"ceiling": Ceiling(value=1.0), **fields}
    protocols = {}
    for semantics, about in ((published, official), ("strict", strict)):
        rule = {"strict": semantics == "strict"}
        protocols[f"{name}/{semantics}"] = Protocol(
            name=f"{name}/{semantics}",
            score=partial(score, **rule),
            about=about,
            reads=reads and partial(reads, **rule),
            **fields,
        )
    return protocols


def ground_truth(sample: Sample) -> Target:
    """Return the ground truth of a sample whose ground truth is public."""
    assert sample.target is not None, "the ground truth is public"
    return sample.target


def single_answer(
    unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> tuple[Sample, Target, Prediction]:
    """Return the sample, the ground truth and the prediction of a unit that has one sample."""
    (sample,), (prediction,) = unit, predictions
    return sample, ground_truth(sample), prediction


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a benchmark's files."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A named, versioned set of samples with its protocol.

    `samples` is called again for each pass and yields the same samples in the same order; it reads
    as it goes, and decodes no image.
    """

    name: str
    version: int = 1
    """Raised when samples, question text or scoring change."""
    split: str
    forms: tuple[AnswerForm, ...]
    protocol: Protocol
    samples: Callable[[], Iterable[Sample]]
    annotations: Sequence[Path]
    """The files whose content decides samples and ground truth; they are hashed into the record."""
    check: Callable[[], Iterable[Problem]]
    """Looks at every file without decoding: missing, wrong size, duplicate, not in the layout."""
    check_samples: Callable[[Iterable[Sample]], Iterable[Problem]] | None = None
    """Checks the samples while they are read. Wherever `check` yields a problem, this yields one
    too, or reading raises. A run then calls `check` only if there is a problem, to list all of
    them, so that a sound benchmark's files are parsed once. None: a run calls `check` first."""
    submission: Callable[[Iterable[tuple[Sample, Prediction]], Path], Path] | None = None
    """Function that writes the file for the organisers' server, if they keep the ground truth."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the task, with defaults filled in: split, protocol, …"""
    extras: Sequence["ExtraMetric | CostMetric"] = ()
    """Metrics beside the protocol's own, which `with_metrics` added."""


def lost_media(samples: Iterable[Sample]) -> Iterator[Problem]:
    """Name the samples with an image or a video that cannot be read; a task's `check_samples`."""
    for sample in samples:
        for media in sample.query.media:
            if media.fault:
                yield Problem(f"sample {sample.id!r}", media.fault)


def check_by_reading(samples: Callable[[], Iterable[Sample]], path: Path) -> Iterator[Problem]:
    """Yield the lost media of all samples; the first sample that cannot be read ends it.

    A `check` for tasks that have nothing to check but that samples can be read from `path`.
    """
    try:
        yield from lost_media(samples())
    except DataError as error:
        yield Problem(str(path), str(error))


@dataclass(frozen=True, slots=True)
class ExtraMetric:
    """A metric from a plugin that can score any task, besides its protocol's own."""

    metric: Metric
    score: ScoreUnit
    """Function that returns the statistic of `metric` alone, or nothing where it does not apply."""


@dataclass(frozen=True, slots=True)
class CostMetric:
    """Cost of the answers for each that is right by the protocol's headline metric, as a plugin.

    The headline has to be a mean of values from 0 to 1, which then count as parts of a right
    answer. Without a right answer there is no number.
    """

    metric: Metric
    cost: Callable[[Sequence[Prediction]], float]
    """Function that returns the cost of all predictions of a unit together."""

    def score(self, headline: Statistic | None, predictions: Sequence[Prediction]) -> Scores:
        """The statistic of `metric` for a unit with this headline; none if it has no headline.

        Raises:
            UsageError: the headline is not a mean of values from 0 to 1.
        """
        if headline is None:
            return {}
        if not isinstance(headline, Mean) or not 0 <= headline.value <= 1:
            raise self.unfit(repr(headline))
        n_right = headline.value * headline.weight
        return {self.metric.name: Ratio(self.cost(predictions), n_right)}

    def unfit(self, described: str) -> UsageError:
        """Return the error for a headline that does not measure how many answers are right."""
        return UsageError(
            f"metric {self.metric.name!r}",
            expected="a headline metric that is a mean of values from 0 to 1",
            found=described,
        )


def with_metrics(task: Task, extras: Sequence[ExtraMetric | CostMetric]) -> Task:
    """Return the same task with further metrics; its headline and ceiling do not change.

    Raises:
        UsageError: a name is taken, or a cost needs another kind of headline.
    """
    if not extras:
        return task
    protocol = task.protocol
    names = [metric.name for metric in protocol.metrics]
    for extra in extras:
        if extra.metric.name in names:
            raise UsageError(
                f"metric {extra.metric.name!r}",
                expected=f"a name that the protocol {protocol.name} does not use",
                found="one that it does",
            )
        headline = protocol.metric(protocol.headline)
        if isinstance(extra, CostMetric) and (headline.derived or headline.corpus):
            raise extra.unfit(f"{headline.name}, which is computed over all samples")
        names.append(extra.metric.name)

    def with_extra_metrics(inner: ScoreUnit) -> ScoreUnit:
        def score(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
            scores = dict(inner(unit, predictions))
            for extra in extras:
                if isinstance(extra, CostMetric):
                    scores.update(extra.score(scores.get(protocol.headline), predictions))
                else:
                    scores.update(extra.score(unit, predictions))
            return scores

        return score

    judged = protocol.judged
    return replace(
        task,
        protocol=replace(
            protocol,
            score=with_extra_metrics(protocol.score),
            judged=None if judged is None else lambda judge: with_extra_metrics(judged(judge)),
            metrics=(*protocol.metrics, *(extra.metric for extra in extras)),
        ),
        extras=(*task.extras, *extras),
    )


def choose(what: str, options: Mapping[str, T], name: str) -> T:
    """Return `options[name]`; raise UsageError that lists the names if there is none."""
    if name not in options:
        raise UsageError(f"{what} {name!r}", expected=" or ".join(options), found=repr(name))
    return options[name]
