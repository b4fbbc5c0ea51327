"""Ledger of a run: counts of responses that were cut off, repaired, or named places off the image.

A cut response was ended by the limit of new tokens, not by the VLM. Two more scores bound the cost
of this limit: with every cut sample right (`if_right`), and with none of them answered
(`if_wrong`). The ledger also counts the names under which a server answered: several names mean
that the weights changed during the run.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Names of the counts by form and category; `n` counts all."""

Counts: TypeAlias = Counter[tuple[str, ...]]
"""Numbers by keys such as `("mask", "cut")`, whose last part is one of `COUNTED`."""


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
    """Scores (without an answer, if right) of each unit with a cut response, by the unit's place.
    Empty if the ground truth is hidden."""

    def add(self, unit: "Ledger", unit_index: int = 0, score: UnitScore | None = None) -> None:
        """Add a unit.

        Args:
            unit: Its ledger.
            unit_index: Its place among the units.
            score: Its score; None if the ground truth is hidden.
        """
        self.samples.update(unit.samples)
        self.forms.update(unit.forms)
        self.limits.update(unit.limits)
        self.served.update(unit.served)
        if 0 in unit.otherwise:
            self.otherwise[unit_index] = unit.otherwise[0]
        if score is not None:
            n_by_mark = {"n": len(score.samples), "failed": score.failed, **unit.samples}
            for category in score.categories.items():
                self.categories.update({(*category, mark): n for mark, n in n_by_mark.items()})

    def to_json(
        self, task: Task, units: Sequence[UnitScore], model: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the ledger as plain data, for results.json.

        Args:
            task: The task, whose metrics give the bounds.
            units: The scores of all units, in order; empty if the ground truth is hidden.
            model: The manifest's model.
        """
        default = model.get("description", {}).get("max_new_tokens")
        limits = {default if limit is None else limit for limit in self.limits or {None}}
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
                for unit_index, scores in self.otherwise.items():
                    rescored[unit_index] = replace(units[unit_index], scores=scores[which])
                plain[name] = values(task, rescored)
        return plain


def _marks(parsed: Parsed) -> Iterator[str]:
    """Return the marks of one parsed response."""
    facts = (parsed.cut, parsed.outside, parsed.repairs)
    return (mark for mark, fact in zip(MARKS, facts, strict=True) if fact)


def unit_ledger(task: Task, unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Ledger:
    """Count a unit's marks; if a response was cut, score the unit in both other ways too.

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
        samples=Counter(mark for sample_marks in marks for mark in sample_marks),
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
    cut = ["cut" in sample_marks for sample_marks in marks]
    if any(cut) and all(sample.target is not None for sample in unit):

        def score_with(replacement: Callable[[Sample], Prediction]) -> Scores:
            """Score the unit with a replacement for each prediction that was cut."""
            replaced = [
                replacement(sample) if was_cut else prediction
                for sample, prediction, was_cut in zip(unit, predictions, cut, strict=True)
            ]
            return task.protocol.score(unit, replaced)

        with plugin_errors(f"the scorer of {task.name}, on {unit[0].unit!r}"):
            lower = score_with(_missing)
            if not lower and all(map(_shows_something, unit)):  # the scorer skips missing answers
                lower = score_with(_empty)
            ledger.otherwise[0] = lower, score_with(_right)
    return ledger


def _right(sample: Sample) -> Prediction:
    assert sample.target is not None, "hidden ground truth was left out"
    return Prediction(query_id=sample.query.id, answer=sample.target.answer)


def _missing(sample: Sample) -> Prediction:
    """Return a prediction without response; official code may guess for an unreadable one."""
    return Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "cut off"))


def _empty(sample: Sample) -> Prediction:
    """Return a prediction of empty masks, for official code that skips missing predictions."""
    assert sample.target is not None, "hidden ground truth was left out"
    masks = sample.target.answer.masks
    empty = None if masks is None else tuple(Rle.empty(*reversed(rle.size)) for rle in masks)
    return Prediction(query_id=sample.query.id, answer=Answer(masks=empty))


def _shows_something(sample: Sample) -> bool:
    """Return True if the true masks are not empty, so that empty masks are wrong."""
    masks = None if sample.target is None else sample.target.answer.masks
    return any(mask.area for mask in masks or ())


def _nested(n_by_path: Counts) -> dict[str, Any]:
    """Return numbers by key in nested objects, in the order of their first appearance."""
    plain: dict[str, Any] = {}
    for *path, _ in n_by_path:
        node = plain
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = {mark: n_by_path[(*path, mark)] for mark in COUNTED}
    return plain
