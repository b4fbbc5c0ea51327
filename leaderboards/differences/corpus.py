"""Small adversarial cases for scorers: empty and missing answers, single pixels, odd sizes, texts.

A case is a whole evaluation of one or two samples, so that it also shows how a scorer treats a
sample without an answer.
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
BESIDE = query_id("s-beside")
SIZES = ((1, 1), (1, 7), (9, 1), (3, 4), (17, 23), (33, 65))
"""(height, width) of the cases' masks."""
MISSED = "something is there, nothing is said"
"""Name of the cases with an empty prediction for an object."""
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
    perfect = next(case for case in single if case.name.startswith("right"))
    perfect = replace(
        perfect,
        samples=tuple(map(_renamed, perfect.samples)),
        predictions=tuple(
            replace(prediction, query_id=BESIDE) for prediction in perfect.predictions
        ),
    )
    both = [case.beside(perfect) for case in single]
    return sorted([*single, *both], key=lambda case: case.size)


def _renamed(sample: Sample) -> Sample:
    name = f"{sample.id}-beside"
    return replace(sample, id=name, query=replace(sample.query, id=BESIDE), unit=name, group=name)


def _case(
    name: str, form: AnswerForm, truth: Answer, answer: Answer | str | None, **target: object
) -> Case:
    height, width = (truth.masks[0].height, truth.masks[0].width) if truth.masks else (4, 4)
    frames = [np.zeros((height, width, 3), np.uint8)] * len(truth.masks or (None,))
    media = pixels(
        frames, times=range(len(frames)), is_video=len(frames) > 1, id=f"{height}x{width}"
    )
    options = ("red", "green", "blue", "white") if form is AnswerForm.CHOICE else ()
    target.setdefault("extra", {"counted": range(len(frames))})  # by ReasonVOS' protocols
    query = Query(id=query_id("s"), text="?", media=(media,), forms=(form,), options=options)
    sample = Sample(id="s", query=query, target=Target(answer=truth, **target))  # type: ignore[arg-type]
    missing = Failure(FailureKind.INFRASTRUCTURE, "no line for this sample")
    prediction = (
        Prediction(query_id=query.id, failure=missing)
        if answer is None
        else Prediction(query_id=query.id, answer=Answer(text=answer), responses=(answer,))
        if isinstance(answer, str)
        else Prediction(query_id=query.id, answer=answer)
    )
    return Case(name=name, samples=(sample,), predictions=(prediction,))


def _masks(frames: int) -> Iterator[Case]:
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    random = np.random.default_rng(SEED)
    for height, width in SIZES:
        where = f"{height} × {width}" + f" × {frames} frames" * (frames > 1)
        full = np.ones((height, width), bool)
        nothing = full & False
        part = nothing.copy()
        part[: (height + 1) // 2, : (width + 1) // 2] = True
        dot = nothing.copy()
        dot[0, -1] = True
        noise = random.random((height, width)) < 0.5
        pairs: dict[str, tuple[BoolArray, BoolArray | None]] = {
            "right": (part, part),
            "both empty": (nothing, nothing),
            "nothing is there, something is said": (nothing, part),
            MISSED: (part, nothing),
            "no answer": (part, None),
            "no answer, and nothing is there": (nothing, None),
            "one pixel": (dot, part),
            "all of the image": (part, full),
            "moved by one pixel": (part, np.roll(part, 1, axis=1)),
            "noise": (noise, part),
        }
        for name, (truth, said) in pairs.items():
            true_answer = Answer(masks=_track(truth, frames), no_target=False)
            answer = None if said is None else Answer(masks=_track(said, frames))
            yield _case(f"{name}, {where}", form, true_answer, answer)
        if frames == 1:
            ignored = (Rle.from_array(full & ~part),)
            yield _case(
                f"a region to ignore under a false positive, {where}",
                form,
                Answer(masks=_track(part, 1)),
                Answer(masks=_track(full, 1)),
                ignore=ignored,
            )
        else:
            gone = (*_track(part, frames - 1), Rle.from_array(nothing))
            for name, said_masks in (("stays", _track(part, frames)), ("goes as well", gone)):
                answer = Answer(masks=said_masks)
                text = f"the object is gone in the last frame, the answer {name}, {where}"
                yield _case(text, form, Answer(masks=gone), answer)


def _track(mask: BoolArray, frames: int) -> tuple[Rle, ...]:
    return (Rle.from_array(mask),) * frames


def _counts() -> Iterator[Case]:
    for truth, said in ((3, 3), (3, 2), (0, 0), (0, 1), (3, None), (0, None)):
        answer = None if said is None else Answer(count=said)
        name = "right" if truth == said else "wrong" if said is not None else "no answer"
        yield _case(
            f"{name}: {truth} are there, said {said}", AnswerForm.COUNT, Answer(count=truth), answer
        )


def _choices() -> Iterator[Case]:
    for text in (*TEXTS, None):
        name = "right" if text == "A" else "no answer" if text is None else "a response"
        letters = {"letter": "A", "letters": "ABCD"}  # as the tasks' readers leave them
        truth = Answer(choice="A")
        yield _case(f"{name}: {text!r}", AnswerForm.CHOICE, truth, text, extra=letters)
