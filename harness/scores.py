"""Scorers' values: statistics that merge, and metrics that turn merged statistics into numbers.

A scorer looks at one *unit* (the smallest group of samples that the official scorer treats as
one) and returns a `Mean`, a `Ratio` or a `Corpus` for each metric. Statistics of any number of
units merge in any order to the same number, because sums are exactly rounded (`math.fsum`).
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from harness.errors import HarnessError
from harness.plain import unboxed


@dataclass(frozen=True, slots=True)
class Mean:
    """One value that counts `weight` times in an average."""

    value: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """A part of a quotient of sums, such as cIoU's intersection and union."""

    numerator: float
    denominator: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """Items that only mean something together: captions for CIDEr, detections for COCO AP.

    Each item is plain JSON data.
    """

    items: tuple[object, ...]


Statistic: TypeAlias = Mean | Ratio | Corpus
Scores: TypeAlias = Mapping[str, Statistic]
"""The statistics of one unit, by metric name. A metric that is left out does not count there."""

Better: TypeAlias = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Metric:
    """Rule that turns merged statistics into one number.

    Exactly one of three kinds: a quotient (the default), a `corpus` function, or a `derived`
    function of other metrics, given in `inputs`. Derived functions are applied to arrays of
    resamples as well, so they are written with numpy operators.
    """

    name: str
    better: Better = "higher"
    epsilon: float = 0.0
    """Added to the denominator, as some official scorers do."""
    corpus: Callable[[Sequence[Any]], float] | None = None
    """Function that turns all items into a number. If it also has a method `over(blocks, kept)`,
    that gives the numbers of many subsets at once; see `harness.statistics.jackknife`."""
    inputs: tuple[str, ...] = ()
    derived: Callable[..., Any] | None = None
    is_partial: bool = False
    """True if `derived` takes NaN for a part in which nothing counts; without it, the number is
    None."""
    about: str = ""
    """Description of the number in one line, for cards and boards."""

    def __post_init__(self) -> None:
        if bool(self.inputs) != (self.derived is not None) or (self.corpus and self.derived):
            raise HarnessError(
                f"metric {self.name}",
                expected="a quotient, `corpus=`, or both `inputs=` and `derived=`",
                found="another combination",
            )

    def of_parts(self, parts: Sequence[float | None]) -> float | None:
        """Return a derived metric's number from the numbers of its `inputs`; None: it has none."""
        assert self.derived is not None, "only derived metrics have parts"
        if None in parts and not self.is_partial:
            return None
        number = float(self.derived(*(math.nan if part is None else part for part in parts)))
        return None if self.is_partial and math.isnan(number) else number


@dataclass(slots=True)
class Totals:
    """The merged statistics of many units, for a list of metrics."""

    metrics: tuple[Metric, ...]
    units: int = 0
    _numerators: dict[str, list[float]] = field(default_factory=dict)
    _denominators: dict[str, list[float]] = field(default_factory=dict)
    _items: dict[str, list[object]] = field(default_factory=dict)

    def add(self, scores: Scores) -> None:
        """Merge one unit's statistics."""
        check_scores(self.metrics, scores)
        self.units += 1
        for name, statistic in scores.items():
            if isinstance(statistic, Corpus):
                self._items.setdefault(name, []).extend(statistic.items)
            else:
                numerator, denominator = quotient(statistic)
                self._numerators.setdefault(name, []).append(numerator)
                self._denominators.setdefault(name, []).append(denominator)

    def values(self) -> dict[str, float | None]:
        """Every metric's number; None where nothing counted (nothing to divide by)."""
        numbers: dict[str, float | None] = {}
        for metric in self.metrics:
            if metric.derived is not None:
                numbers[metric.name] = metric.of_parts([numbers[name] for name in metric.inputs])
            elif metric.corpus is not None:
                items = self._items.get(metric.name, [])
                numbers[metric.name] = float(metric.corpus(items)) if items else None
            else:
                denominator = math.fsum(self._denominators.get(metric.name, ()))
                numerator = math.fsum(self._numerators.get(metric.name, ()))
                counted = (
                    bool(self._denominators.get(metric.name)) and denominator + metric.epsilon > 0
                )
                numbers[metric.name] = (
                    numerator / (denominator + metric.epsilon) if counted else None
                )
        return numbers


def quotient(statistic: Mean | Ratio) -> tuple[float, float]:
    """Return (numerator, denominator) of a statistic."""
    if isinstance(statistic, Mean):
        return statistic.value * statistic.weight, statistic.weight
    return statistic.numerator, statistic.denominator


def with_python_numbers(statistic: Statistic) -> Statistic:
    """Return a statistic in which scalars of NumPy and torch are Python's numbers."""
    if isinstance(statistic, Corpus):
        return statistic
    numbers = (unboxed(getattr(statistic, field.name)) for field in fields(statistic))
    return type(statistic)(*numbers)


def check_scores(metrics: Iterable[Metric], scores: Scores) -> None:
    """Raise HarnessError if a scorer returned an undeclared metric, or NaN, or another kind."""
    declared = {metric.name: metric for metric in metrics}
    for name, statistic in scores.items():
        if name not in declared or declared[name].derived is not None:
            raise HarnessError(
                f"score {name!r}",
                expected=f"one of {sorted(declared)}, not derived",
                found=repr(name),
                fix="Declare it in the protocol's metrics.",
            )
        if isinstance(statistic, Corpus) != (declared[name].corpus is not None):
            raise HarnessError(
                f"score {name!r}",
                expected="a Corpus exactly where the metric has a corpus function",
                found=type(statistic).__name__,
            )
        if not isinstance(statistic, Corpus) and not all(map(math.isfinite, quotient(statistic))):
            raise HarnessError(f"score {name!r}", expected="finite numbers", found=repr(statistic))


def to_json(scores: Scores) -> dict[str, object]:
    """Return a unit's statistics as plain data, for `from_json`.

    A metric has `[value, weight]`, `{"ratio": [numerator, denominator]}` or `{"corpus": [items]}`.
    """
    plain: dict[str, object] = {}
    for name, statistic in scores.items():
        if isinstance(statistic, Mean):
            plain[name] = [statistic.value, statistic.weight]
        elif isinstance(statistic, Ratio):
            plain[name] = {"ratio": [statistic.numerator, statistic.denominator]}
        else:
            plain[name] = {"corpus": list(statistic.items)}
    return plain


def from_json(plain: Mapping[str, Any]) -> dict[str, Statistic]:
    """Return the statistics that `to_json` wrote.

    Raises:
        ValueError, TypeError, KeyError: the data is not in the form, or a number is not finite.
    """
    scores: dict[str, Statistic] = {}
    for name, value in plain.items():
        if isinstance(value, list):
            scores[name] = Mean(*map(_number, value))
        elif "ratio" in value:
            scores[name] = Ratio(*map(_number, value["ratio"]))
        else:
            scores[name] = Corpus(tuple(value["corpus"]))
    return scores


def _number(plain: object) -> float:
    """Return a number; raise ValueError unless it is finite and a float can hold it."""
    if type(plain) is int and abs(plain) <= sys.float_info.max:
        return plain
    if type(plain) is float and math.isfinite(plain):
        return plain
    raise ValueError(f"expected a finite number, found {repr(plain)[:40]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitScore:
    """Statistics of one scored unit, as in a run's record (a line of `scores.jsonl`)."""

    unit: str
    group: str
    samples: tuple[str, ...]
    """Official ids of the unit's samples."""
    categories: Mapping[str, str]
    failed: int
    """Number of the unit's samples without an answer that the protocol can read."""
    scores: Scores

    def to_json(self) -> dict[str, object]:
        """Plain data, in a fixed order of keys."""
        return {
            "unit": self.unit,
            "group": self.group,
            "samples": list(self.samples),
            "categories": dict(self.categories),
            "failed": self.failed,
            "scores": to_json(self.scores),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "UnitScore":
        """Return the score that `to_json` wrote; raise like the function `from_json`."""
        score = cls(
            unit=plain["unit"],
            group=plain["group"],
            samples=tuple(plain["samples"]),
            categories=plain["categories"],
            failed=plain["failed"],
            scores=from_json(plain["scores"]),
        )
        texts = (score.unit, score.group, *score.samples, *score.categories.values())
        if not all(isinstance(text, str) for text in texts) or type(score.failed) is not int:
            raise TypeError("a name that is not a string, or a count that is not a number")
        return score


def value_of(metrics: Sequence[Metric], units: Sequence[UnitScore], name: str) -> float | None:
    """Return the number of metric `name` over these units; None if nothing counts."""
    totals = Totals(tuple(metrics))
    names = {metric.name for metric in metrics}
    for unit in units:
        totals.add({key: statistic for key, statistic in unit.scores.items() if key in names})
    return totals.values()[name]
