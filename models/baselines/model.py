"""The plugins `random` and `whole_frame`: answers that do not depend on pixels or question.

Their scores are the floor that a model must exceed. A `Guess` holds an answer of every form, in
pixels of the image and seconds; `prediction` picks the forms that the query asks for.
"""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

from harness.masks import Rle
from harness.model import Model
from harness.models.factory import at_least
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Query,
    failed_prediction,
)

COUNT_RANGE = (2, 10)  # smallest and largest random count
NUMBER_RANGE = (0.1, 100.0)  # bounds of a random number, of metres, seconds or things
GUESSED_FORMS = frozenset(AnswerForm) - {AnswerForm.TEXT, AnswerForm.BOX_3D}
DRAWS = 11  # uniform numbers for each query; each has a fixed use, so that old scores stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A baseline's answers to one query, one of every form."""

    box: Box | None
    """Box in whole pixels of the image, not empty; None without an image."""
    point: Point | None
    """Point in pixels; None without an image."""
    interval: Interval | None
    """Start and end in seconds; None without media."""
    choice: str | None
    """Letter of an option; None without options."""
    count: int
    number: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesser(Model):
    """A model that answers each query by `guess`, independently of the other queries."""

    batch_size: int

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that this model can give."""
        return GUESSED_FORMS

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return one prediction for each query."""
        return [prediction(query, self.guess(query), self.name) for query in queries]

    @abstractmethod
    def guess(self, query: Query) -> Guess:
        """Return the guess for this query, whatever forms it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomBoxes(Guesser):
    """Draws a random answer that depends on the seed and the query's id only.

    Each form is uniform: the box over all boxes with integer edges (a mask is its rectangle, in a
    video the same in every frame), the point over the image, the interval over pairs of times, the
    count from 2 to 10, the choice over the options, the logarithm of the number from 0.1 to 100.
    There is no random text and no random 3-D box. The bits are Philox's (Salmon, Moraes, Dror,
    Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
    """

    seed: int

    name = "random"

    def describe(self) -> Mapping[str, object]:
        """Return the resolved arguments for the record; there are no weights."""
        return {"model": self.name, "seed": self.seed, "batch_size": self.batch_size}

    def guess(self, query: Query) -> Guess:
        """Draw the guess for this query, whatever forms it asks for."""
        draw = uniform(f"{self.seed} {query.id}", DRAWS)
        box = point = interval = None
        if query.media:
            width, height = query.size
            (left, right), (top, bottom) = _edges(draw[0:2], width), _edges(draw[2:4], height)
            box = Box(left, top, right, bottom)
            point = Point(float(draw[4]) * width, float(draw[5]) * height)
            times = query.media[0].times()
            start, end = np.sort(times[0] + draw[6:8] * (times[-1] - times[0]))
            interval = Interval(float(start), float(end))
        low, high = (math.log(bound) for bound in NUMBER_RANGE)
        return Guess(
            box=box,
            point=point,
            interval=interval,
            choice=_letter(query, float(draw[8])),
            count=COUNT_RANGE[0] + int(draw[9] * (COUNT_RANGE[1] - COUNT_RANGE[0] + 1)),
            number=math.exp(low + float(draw[10]) * (high - low)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeFrame(Guesser):
    """Gives every query the same answer, by its form.

    These are: a box or mask of the whole image in every frame, the middle point, the interval of
    the whole video, the number 1, the first option. There is no text and no 3-D box.
    """

    name = "whole_frame"

    def describe(self) -> Mapping[str, object]:
        """Return the resolved arguments for the record; there are no weights."""
        return {"model": self.name, "batch_size": self.batch_size}

    def guess(self, query: Query) -> Guess:
        """Return the constant guess for this query, whatever forms it asks for."""
        box = point = interval = None
        if query.media:
            width, height = query.size
            box, point = Box(0, 0, width, height), Point(width / 2, height / 2)
            interval = Interval(query.media[0].times()[0], query.media[0].times()[-1])
        choice = _letter(query, 0.0)
        return Guess(box=box, point=point, interval=interval, choice=choice, count=1, number=1.0)


def random_boxes(*, seed: int = 0, batch_size: int = 64) -> RandomBoxes:
    """A random box, mask, number or choice: a baseline."""
    at_least("random", 1, batch_size=batch_size)
    return RandomBoxes(seed=seed, batch_size=batch_size)


def whole_frame(*, batch_size: int = 64) -> WholeFrame:
    """The whole image, whatever the question: a baseline."""
    at_least("whole_frame", 1, batch_size=batch_size)
    return WholeFrame(batch_size=batch_size)


def prediction(query: Query, guess: Guess, name: str) -> Prediction:
    """Return the guess in the forms that the query asks for; a failure if a form has no guess."""
    parts: dict[str, Any] = {}
    for form in query.forms:
        output = fields(form, query, guess)
        if output is None:
            return failed_prediction(query, FailureKind.MODEL, f"{name} cannot answer this {form}")
        parts |= output
    return Prediction(query_id=query.id, answer=Answer(**parts))


def fields(form: AnswerForm, query: Query, guess: Guess) -> dict[str, Any] | None:
    """Return the fields of an `Answer` (by name) for one form; None if there is no guess for it."""
    simple = {
        AnswerForm.COUNT: ("count", guess.count),
        AnswerForm.NUMBER: ("number", guess.number),
        AnswerForm.CHOICE: ("choice", guess.choice),
        AnswerForm.INTERVAL: ("interval", guess.interval),
    }
    if form in simple:
        field, value = simple[form]
        return None if value is None else {field: value}
    if guess.box is None:
        return None
    frames = len(query.media[0])
    match form:
        case AnswerForm.MASK | AnswerForm.MASK_TRACK:
            return {"masks": (box_mask(guess.box, query.size),) * frames}
        case AnswerForm.BOXES:
            return {"boxes": (guess.box,), "box_scores": (1.0,)}
        case AnswerForm.BOX_TRACK:
            return {"box_track": (guess.box,) * frames}
        case AnswerForm.POINTS:
            return {"points": (guess.point,)}
    return None


def box_mask(box: Box, size: tuple[int, int]) -> Rle:
    """Return the mask of a box with integer edges (pixels) in an image of (width, height)."""
    mask = np.zeros((size[1], size[0]), dtype=np.bool_)
    mask[int(box.top) : int(box.bottom), int(box.left) : int(box.right)] = True
    return Rle.from_array(mask)


def uniform(key: str, n_numbers: int) -> NDArray[np.float64]:
    """Return `n_numbers` numbers in [0, 1) that depend on the key only.

    They are made of Philox's raw bits, because NumPy guarantees those across versions, but not the
    numbers that its Generator makes of them.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=16, person=b"harness-floors").digest()
    bits = Philox(key=int.from_bytes(digest, "little")).random_raw(n_numbers)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _edges(draw: NDArray[np.float64], length: int) -> tuple[float, float]:
    """Return two different integers from 0 to `length`, ascending; all pairs are equally likely."""
    first, second = int(draw[0] * (length + 1)), int(draw[1] * length)
    if second >= first:  # skip `first`, so that they differ
        second += 1
    return float(min(first, second)), float(max(first, second))


def _letter(query: Query, draw: float) -> str | None:
    """Return the letter of the option that `draw` in [0, 1) selects; None without options."""
    letters = ascii_uppercase[: len(query.options)]
    return letters[int(draw * len(letters))] if letters else None
