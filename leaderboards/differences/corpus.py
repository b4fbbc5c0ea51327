"""Small adversarial cases for scorers: empty and missing answers, single pixels, odd sizes, texts.

A case is a whole evaluation of one or two samples, so that it also shows how a scorer treats a
sample without an answer. `conform` gives the cases to an external scorer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from harness.masks import BoolArray, Rle
from harness.media import pixels
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Prediction,
    Query,
    Sample,
    Target,
    query_id,
)

SEED = 7
BESIDE_ID = query_id("s-beside")  # of the second sample in a case of two
SIZES = ((1, 1), (1, 7), (9, 1), (3, 4), (17, 23), (33, 65))
"""(height, width) of the cases' masks."""
TEXTS = (
    *("A", "a", "(A)", "A.", " A", "The answer is A.", "Answer: A", "**A**", "<answer>A</answer>"),
    *("B", "A or B", "B, not A", "Because it is red, A.", "I do not know.", ""),
)
"""Responses to a question whose right letter is A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One evaluation: its samples, and a prediction for each."""

    name: str
    samples: tuple[Sample, ...]
    predictions: tuple[Prediction, ...]
    """The predictions in the order of the samples; a failure has no line in a predictions file."""
    is_perfect: bool = False
    """True if every protocol gives this case the highest score."""
    is_missed: bool = False
    """True if an object is there and the only prediction is empty."""

    @property
    def size(self) -> int:
        """Number of pixels of all true masks, plus the number of samples; sorts the cases."""
        masks = (
            sample.target.answer.masks or () for sample in self.samples if sample.target is not None
        )
        return len(self.samples) + sum(
            mask.height * mask.width for track in masks for mask in track
        )

    def beside(self, case: "Case") -> "Case":
        """Return one evaluation with the samples of both cases."""
        return Case(
            name=f"{self.name}, beside {case.name}",
            samples=(*self.samples, *case.samples),
            predictions=(*self.predictions, *case.predictions),
            is_perfect=self.is_perfect and case.is_perfect,
        )


def corpus(form: AnswerForm) -> list[Case]:
    """Return the cases for questions of one form, the smallest first.

    Raises:
        KeyError: there are no cases for this form.
    """
    makers = {
        AnswerForm.MASK: lambda: _masks(1),
        AnswerForm.MASK_TRACK: lambda: _masks(3),
        AnswerForm.COUNT: _counts,
        AnswerForm.CHOICE: _choices,
    }
    single = list(makers[form]())
    right = next(case for case in single if case.is_perfect)
    perfect = replace(
        right,
        samples=tuple(map(_renamed, right.samples)),
        predictions=tuple(
            replace(prediction, query_id=BESIDE_ID) for prediction in right.predictions
        ),
    )
    pairs = [case.beside(perfect) for case in single]
    return sorted([*single, *pairs], key=lambda case: case.size)


def _renamed(sample: Sample) -> Sample:
    """Return a sample with another id, unit and group, to stand beside another case's sample."""
    name = f"{sample.id}-beside"
    return replace(
        sample, id=name, query=replace(sample.query, id=BESIDE_ID), unit=name, group=name
    )


def _case(
    name: str, form: AnswerForm, truth: Answer, answer: Answer | str | None, **target: object
) -> Case:
    """Return a case of one sample.

    Args:
        name: Name of the case.
        form: Form of answer that the question asks for.
        truth: The right answer.
        answer: The predicted answer or response; None: the sample has no prediction.
        target: Further fields of the sample's `Target`.
    """
    height, width = (truth.masks[0].height, truth.masks[0].width) if truth.masks else (4, 4)
    frames = [np.zeros((height, width, 3), np.uint8)] * len(truth.masks or (None,))
    media = pixels(
        frames, times=range(len(frames)), is_video=len(frames) > 1, id=f"{height}x{width}"
    )
    options = ("red", "green", "blue", "white") if form is AnswerForm.CHOICE else ()
    target.setdefault("extra", {"counted": range(len(frames))})  # frames that ReasonVOS scores
    query = Query(id=query_id("s"), text="?", media=(media,), forms=(form,), options=options)
    sample = Sample(id="s", query=query, target=Target(answer=truth, **target))  # type: ignore[arg-type]
    missing = Failure(FailureKind.INFRASTRUCTURE, "no line for this sample")
    if answer is None:
        prediction = Prediction(query_id=query.id, failure=missing)
    elif isinstance(answer, str):
        said = Answer(text=answer)
        prediction = Prediction(query_id=query.id, answer=said, responses=(answer,))
    else:
        prediction = Prediction(query_id=query.id, answer=answer)
    return Case(name=name, samples=(sample,), predictions=(prediction,))


def _masks(frames: int) -> Iterator[Case]:
    """Yield the cases of masks, each in every size and with the same mask in all frames."""
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    random = np.random.default_rng(SEED)
    for height, width in SIZES:
        where = f"{height} × {width}" + (f" × {frames} frames" if frames > 1 else "")
        full = np.ones((height, width), bool)
        nothing = np.zeros_like(full)
        corner = nothing.copy()
        corner[: (height + 1) // 2, : (width + 1) // 2] = True
        dot = nothing.copy()
        dot[0, -1] = True
        noise = random.random((height, width)) < 0.5
        pairs: dict[str, tuple[BoolArray, BoolArray | None]] = {
            "right": (corner, corner),
            "both empty": (nothing, nothing),
            "nothing is there, something is said": (nothing, corner),
            "something is there, nothing is said": (corner, nothing),
            "no answer": (corner, None),
            "no answer, and nothing is there": (nothing, None),
            "one pixel": (dot, corner),
            "all of the image": (corner, full),
            "moved by one pixel": (corner, np.roll(corner, 1, axis=1)),
            "noise": (noise, corner),
        }
        for name, (ground_truth, predicted) in pairs.items():
            true_answer = Answer(masks=_track(ground_truth, frames), no_target=False)
            answer = None if predicted is None else Answer(masks=_track(predicted, frames))
            yield replace(
                _case(f"{name}, {where}", form, true_answer, answer),
                is_perfect=ground_truth is corner and predicted is corner,
                is_missed=ground_truth is corner and predicted is nothing,
            )
        if frames == 1:
            ignored = (Rle.from_array(full & ~corner),)
            yield _case(
                f"a region to ignore under a false positive, {where}",
                form,
                Answer(masks=_track(corner, 1)),
                Answer(masks=_track(full, 1)),
                ignore=ignored,
            )
        else:
            gone = (*_track(corner, frames - 1), Rle.from_array(nothing))
            for name, masks in (("stays", _track(corner, frames)), ("goes as well", gone)):
                answer = Answer(masks=masks)
                text = f"the object is gone in the last frame, the answer {name}, {where}"
                yield _case(text, form, Answer(masks=gone), answer)


def _track(mask: BoolArray, frames: int) -> tuple[Rle, ...]:
    return (Rle.from_array(mask),) * frames


def _counts() -> Iterator[Case]:
    for truth, count in ((3, 3), (3, 2), (0, 0), (0, 1), (3, None), (0, None)):
        answer = None if count is None else Answer(count=count)
        outcome = "right" if truth == count else "wrong" if count is not None else "no answer"
        name = f"{outcome}: {truth} are there, said {count}"
        case = _case(name, AnswerForm.COUNT, Answer(count=truth), answer)
        yield replace(case, is_perfect=truth == count)


def _choices() -> Iterator[Case]:
    for text in (*TEXTS, None):
        name = "right" if text == "A" else "no answer" if text is None else "a response"
        letters = {"letter": "A", "letters": "ABCD"}  # as the tasks' readers leave them
        truth = Answer(choice="A")
        case = _case(f"{name}: {text!r}", AnswerForm.CHOICE, truth, text, extra=letters)
        yield replace(case, is_perfect=text == "A")
