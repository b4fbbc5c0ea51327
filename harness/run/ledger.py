"""Ledger of a run: responses that were cut off, repaired, or named places beyond the image.

It counts the names under which a server answered, too: more than one says that the weights behind
a name changed while the run went on.

A response that reached the limit of new tokens was ended by a setting and not by the network. What
that may have cost is bounded by two more scores of the run: if every sample that was cut off had
been right, and if none of them had an answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from harness.masks import Rle
from harness.plugins import plugin_errors
from harness.scores import Scores, UnitScore
from harness.summary import values
from harness.task import Task
from harness.types import Answer, Failure, FailureKind, Parsed, Prediction, Sample

MARKS = ("cut", "outside", "repaired")
"""Marks of a sample: a response reached its limit, named places beyond the image, was repaired."""
COUNTED = ("n", "failed", *MARKS)

Counts: TypeAlias = Counter[tuple[str, ...]]
"""Numbers by the parts of a key, of which the last is one of `COUNTED`."""


@dataclass(slots=True)
class Ledger:
    """Ledger of one unit, or of the units that were scored so far."""

    samples: Counter[str] = field(default_factory=Counter)
    """Number of samples by mark."""
    forms: Counts = field(default_factory=Counter)
    """Number of responses by form and mark."""
    categories: Counts = field(default_factory=Counter)
    """Number of samples by category, its value, and mark."""
    limits: set[int | None] = field(default_factory=set)
    """Limits of new tokens of its calls; None: the model's own."""
    served: Counter[str] = field(default_factory=Counter)
    """Number of responses by the name under which a server gave them."""
    otherwise: dict[int, tuple[Scores, Scores]] = field(default_factory=dict)
    """By place of units of which something was cut off: the scores if that had no answer, and if it
    had been right. None where the truth is hidden."""

    def add(self, unit: "Ledger", place: int = 0, score: UnitScore | None = None) -> None:
        """Add a unit.

        Args:
            unit: Its ledger.
            place: Its place among the units.
            score: Its score; None where the ground truth is hidden.
        """
        self.samples.update(unit.samples)
        self.forms.update(unit.forms)
        self.limits.update(unit.limits)
        self.served.update(unit.served)
        if 0 in unit.otherwise:
            self.otherwise[place] = unit.otherwise[0]
        if score is not None:
            counts = {"n": len(score.samples), "failed": score.failed, **unit.samples}
            for category in score.categories.items():
                self.categories.update({(*category, mark): n for mark, n in counts.items()})

    def to_json(
        self, task: Task, units: Sequence[UnitScore], model: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the ledger as plain data, for results.json.

        Args:
            task: The task, whose metrics give the bounds.
            units: The scores of all units, in order; none where the ground truth is hidden.
            model: The manifest's model.
        """
        own = model.get("description", {}).get("max_new_tokens")
        limits = {own if limit is None else limit for limit in self.limits or {None}}
        limit = limits.pop() if len(limits) == 1 else None
        limit = limit if type(limit) is int else None
        plain: dict[str, Any] = {
            **{mark: self.samples[mark] for mark in MARKS},
            "forms": _nested(self.forms),
            "categories": _nested(self.categories),
            "limit": limit,
            "if_wrong": None,
            "if_right": None,
            **({"served": dict(sorted(self.served.items()))} if self.served else {}),
        }
        if self.otherwise and units:
            for which, name in enumerate(("if_wrong", "if_right")):
                rescored = list(units)
                for place, scores in self.otherwise.items():
                    rescored[place] = replace(units[place], scores=scores[which])
                plain[name] = values(task, rescored)
        return plain


def _marks(parsed: Parsed) -> Iterator[str]:
    facts = (parsed.cut, parsed.outside, parsed.repairs)
    return (mark for mark, fact in zip(MARKS, facts, strict=True) if fact)


def unit_ledger(task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Ledger:
    """Count a unit's marks; score it as if what was cut off had no answer, and had been right.

    Raises:
        DataError: the scorer raises.
    """
    marks = [
        {mark for parsed in prediction.parsed for mark in _marks(parsed)}
        for prediction in predictions
    ]
    forms: Counts = Counter()
    for parsed in (parsed for prediction in predictions for parsed in prediction.parsed):
        names = ["n", *_marks(parsed), *(["failed"] if parsed.error else [])]
        forms.update((str(parsed.form), mark) for mark in names)
    ledger = Ledger(
        samples=Counter(mark for own in marks for mark in own),
        forms=forms,
        limits={
            None if call.request.generation is None else call.request.generation.max_new_tokens
            for prediction in predictions
            for call in prediction.calls
        },
        served=Counter(
            call.model for prediction in predictions for call in prediction.calls if call.model
        ),
    )
    cut = ["cut" in own for own in marks]
    if any(cut) and all(sample.target is not None for sample in unit):
        wrong, empty, right = (
            [
                instead(sample) if was_cut else prediction
                for sample, prediction, was_cut in zip(unit, predictions, cut, strict=True)
            ]
            for instead in (_missing, _empty, _right)
        )
        with plugin_errors(f"the scorer of {task.name}, on {unit[0].unit!r}"):
            lower = task.protocol.score(unit, wrong)
            if not lower and all(map(_shows_something, unit)):  # it left out what has no answer
                lower = task.protocol.score(unit, empty)
            ledger.otherwise[0] = lower, task.protocol.score(unit, right)
    return ledger


def _right(sample: Sample) -> Prediction:
    assert sample.target is not None, "hidden ground truth was left out"
    return Prediction(query_id=sample.query.id, answer=sample.target.answer)


def _missing(sample: Sample) -> Prediction:
    """No response at all: one that cannot be read is guessed or left out by some official code."""
    return Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "cut off"))


def _empty(sample: Sample) -> Prediction:
    """Masks of nothing, for official code that leaves out what has no prediction."""
    assert sample.target is not None, "hidden ground truth was left out"
    masks = sample.target.answer.masks
    empty = None if masks is None else tuple(Rle.empty(*reversed(rle.size)) for rle in masks)
    return Prediction(query_id=sample.query.id, answer=Answer(masks=empty))


def _shows_something(sample: Sample) -> bool:
    """Return True if masks of nothing are a wrong answer."""
    return any(mask.area for mask in (sample.target and sample.target.answer.masks) or ())


def _nested(counts: Counts) -> dict[str, Any]:
    """Return numbers by key in nested objects, in the order of their first appearance."""
    plain: dict[str, Any] = {}
    for *path, _ in counts:
        place = plain
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = {mark: counts[(*path, mark)] for mark in COUNTED}
    return plain
