"""ReVSI: spatial questions on videos of 16, 32 or 64 frames, or all, whose truth is of that many.

A row of `<budget>_frame/test-*.parquet`, and the video `<budget>_frame/<scene_id>.mp4`:

    {"scene_id": "scene0011_00", "num_frames": "16", "question_type": "object_counting_single",
     "question": "…", "options": null, "ground_truth": "4"}
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.metrics import vsi
from harness.metrics.averages import mean_in_order
from harness.metrics.choices import strict_choice
from harness.metrics.numeric import mean_relative_accuracy, only_number
from harness.scores import Mean, Metric, Scores
from harness.task import Ceiling, Protocol, Task, choose
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.images import parts
from harness.tasks.qa.questions import Fields, Question, read_records
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks revsi` says where the data is had."
DIRECTIONS = tuple(f"{way}_{how}" for how in ("easy", "hard") for way in ("forward", "backward"))
GROUPS: Mapping[str, tuple[str, ...]] = {
    "object_abs_distance": (),
    "object_size_estimation": (),
    "route_planning": (),
    "object_rel_direction": tuple(f"object_rel_direction_{one}" for one in DIRECTIONS),
    "object_rel_distance": ("object_rel_distance_closest", "object_rel_distance_farthest"),
    "object_counting": ("object_counting_single", "object_counting_multiple"),
    "room_size_estimation": ("room_size_estimation_single", "room_size_estimation_multiple"),
}
"""Types of questions, in the order in which the official code adds them up; some have two or more
kinds, whose mean is the type's."""
KINDS = tuple(kind for name, kinds in GROUPS.items() for kind in kinds or (name,))
CHOICES = tuple(kind for kind in KINDS if kind.startswith(("object_rel", "route")))
FIELDS = Fields(
    id="{scene_id}/{_index}",
    media="{scene_id}.mp4",
    answer="ground_truth",
    options="options",
    lettered=True,
    categories={"type": "question_type"},
    allowed_values={"question_type": KINDS},
)
NUMBERS = replace(FIELDS, options="", form="number", positive=True)


def revsi(
    data: Path,
    *,
    split: Literal["frames16", "frames32", "frames64", "all"] = "frames16",
    protocol: str = "revsi/official",
) -> Task:
    """One sample a question; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: How many frames the videos have. The right answers differ between splits, so a model
            has to see all frames of its split, and there is no `frames=`.
        protocol: `revsi/official` or `revsi/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = data / "revsi" / f"{split.removeprefix('frames')}_frame"
    files = parts(place, "test*.parquet", fix=FIX)
    videos = Videos((place,))
    layout = QuestionFormat(
        files=files,
        read=partial(read_records, files, FIELDS.columns, _question),
        open=videos.open,
        problems=videos.problems,
    )
    forms = (AnswerForm.CHOICE, AnswerForm.NUMBER)
    return question_task(layout, "revsi", protocol=scoring, split=split, forms=forms, arguments={})


def _question(row: Mapping[str, object], where: str) -> Question:
    return (FIELDS if row["question_type"] in CHOICES else NUMBERS).read_record(row, where)


def score(unit: Sequence[Sample], predictions: Sequence[Prediction], *, strict: bool) -> Scores:
    """The letter, or the mean relative accuracy of the number, under the name of the kind."""
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the ground truth is public"
    target, text = sample.target.answer, (answer_text(prediction) or "").strip()
    if target.number is not None:
        read = mean_relative_accuracy(only_number(text), target.number)
        value = read if strict else vsi.number_score(text, target.number)
    elif strict:
        letter = strict_choice(text, letters=sample.target.extra["letters"])
        value = float(letter == target.choice)
    else:
        value = vsi.choice_score(text, target.choice or "")
    return {sample.categories["type"]: Mean(value)}


def reads(sample: Sample, text: str, *, strict: bool) -> object:
    """Return the letter or the number of a response; None where it has none."""
    assert sample.target is not None, "the ground truth is public"
    if sample.target.answer.number is not None:
        return only_number(text) if strict else vsi.leading_number(text.strip())
    letters = sample.target.extra["letters"]
    if strict:
        return strict_choice(text, letters=letters)
    return vsi.first_word(text.strip()).upper() in tuple(letters) or None


def _protocol(name: str, about: str, *, strict: bool) -> Protocol:
    metrics = (
        *(Metric(kind, about="accuracy or mean relative accuracy") for kind in KINDS),
        *(
            Metric(name, inputs=kinds, derived=mean_in_order, about="mean of its kinds")
            for name, kinds in GROUPS.items()
            if kinds
        ),
        Metric("overall", inputs=tuple(GROUPS), derived=mean_in_order, about="mean of seven types"),
    )
    return Protocol(
        name=name,
        score=partial(score, strict=strict),
        metrics=metrics,
        headline="overall",
        ceiling=Ceiling(value=1.0),
        about=about,
        reads=read_by(partial(reads, strict=strict)),
    )


PROTOCOLS = {
    "revsi/official": _protocol(
        "revsi/official", "lmms-eval: what stands before the first space counts", strict=False
    ),
    "revsi/strict": _protocol(
        "revsi/strict", "only a stated letter, or the only number in a response", strict=True
    ),
}
