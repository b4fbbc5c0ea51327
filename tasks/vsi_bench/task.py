"""VSI-Bench: ten types of spatial questions about indoor scenes that a video walks through.

The answer is a letter or a number. A record belongs to the video `<dataset>/<scene_name>.mp4`:

    {"id": 0, "dataset": "arkitscenes", "scene_name": "41069025", "question_type":
     "object_counting", "question": "How many table(s) are in this room?", "ground_truth": "4",
     "options": null}
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.layout import folder
from harness.media import Media
from harness.metrics import vsi
from harness.metrics.choices import strict_choice
from harness.metrics.numeric import first_number, mean_relative_accuracy, only_number
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.task import Ceiling, Protocol, Task, ground_truth, single_answer
from harness.tasks.qa.answer_text import answer_text, has_number, read_by, with_whole_responses
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.tasks.spatial.numeric import score_numeric, scoring_of_form
from harness.tasks.vsi_bench.records import Split, find_listing, read_questions
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks vsi_bench` prints the source of the data."

Form = Literal["mixed", "numeric"]
Prompt = Literal["question", "official"]


def vsi_bench(
    data: Path,
    *,
    split: Split = "full",
    protocol: str = "vsi/official",
    form: Form = "mixed",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        split: `full`, `debiased`, `pruned` (the questions that `debiased` lacks) or `tiny`.
        protocol: `vsi/official`, `vsi/lmms2026` or `vsi/strict`; with `form=numeric` always
            `vsi/numeric`.
        form: `mixed`, or `numeric`: only the questions for a number.
        prompt: `question`: the official first line and the question, options apart; `official`:
            all of the official text.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
    """
    scoring = scoring_of_form("vsi_bench", PROTOCOLS, form, protocol)
    root = folder(data / "vsi_bench", fix=FIX)
    listing = find_listing(root, split)
    if listing is None:
        raise DataError(
            f"folder {root}",
            expected=f"the files of the subset {split}",
            found="no such files",
            fix=FIX,
        )
    videos = Videos((root,), frames)
    forms = (AnswerForm.NUMBER,) if form == "numeric" else (AnswerForm.CHOICE, AnswerForm.NUMBER)
    question_format = QuestionFormat(
        files=listing.annotations,
        read=partial(read_questions, listing, only_numbers=form == "numeric"),
        open=videos.open,
        problems=videos.problems,
        text=partial(_text, prompt),
        separate_options=prompt == "question",
    )
    return question_task(
        question_format,
        "vsi_bench",
        version=3,
        protocol=scoring,
        split=split,
        forms=forms,
        arguments={"form": form, "prompt": prompt, "frames": str(videos.selection)},
    )


def _text(prompt: Prompt, question: Question, media: Media) -> str:
    """Return the text of a question for the model; `official` has the options in the text."""
    name = "question"
    if prompt == "official":
        name = "official_choice" if question.options else "official_number"
    options = "\n".join(question.row["options"] or ())
    return templates("harness.tasks.vsi_bench")[name].format(
        question=question.text, options=options
    )


def official_value(sample: Sample, text: str) -> float:
    """Score the letter or the number before the first space, from 0 to 1."""
    answer = ground_truth(sample).answer
    if answer.number is None:
        return vsi.choice_score(text, answer.choice or "")
    return vsi.number_score(text, answer.number)


def strict_value(sample: Sample, text: str) -> float:
    """Score the letter that a text states, or the only number in it, from 0 to 1."""
    target = ground_truth(sample)
    if target.answer.number is None:
        return float(strict_choice(text, letters=target.extra["letters"]) == target.answer.choice)
    return mean_relative_accuracy(only_number(text, sample.query.text), target.answer.number)


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score as `vsibench_process_results`: the text before the first space is the answer."""
    sample, target, prediction = single_answer(unit, predictions)
    text = answer_text(prediction)
    return {target.extra["type"]: Mean(0.0 if text is None else official_value(sample, text))}


def score_lmms2026(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score as lmms-eval since 2026: a number is found anywhere, in digits or in words."""
    _, target, prediction = single_answer(unit, predictions)
    text, number = answer_text(prediction), target.answer.number
    if text is None or number is None:
        return score_official(unit, predictions)
    return {target.extra["type"]: Mean(mean_relative_accuracy(first_number(text), number))}


def score_strict(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score the letter that the response states, or the only number in it."""
    sample, target, prediction = single_answer(unit, predictions)
    return {target.extra["type"]: Mean(strict_value(sample, answer_text(prediction) or ""))}


def reads_official(sample: Sample, text: str) -> object:
    """Return the number before the first space, or True for a letter there; None without either."""
    letters, asks_number = _question_form(sample)
    if asks_number:
        return vsi.leading_number(text)
    return vsi.first_word(text).upper() in tuple(letters) or None


def reads_lmms2026(sample: Sample, text: str) -> object:
    """Return the first number anywhere in the text, or True for a letter before the first space."""
    return first_number(text) if _question_form(sample)[1] else reads_official(sample, text)


def reads_strict(sample: Sample, text: str) -> object:
    """Return the letter that is stated, or the only number."""
    letters, asks_number = _question_form(sample)
    if asks_number:
        return only_number(text, sample.query.text)
    return strict_choice(text, letters=letters)


def _question_form(sample: Sample) -> tuple[str, bool]:
    """Return (letters of a question's options, True if it asks for a number)."""
    assert sample.target is not None, "the ground truth is public"
    return sample.target.extra["letters"], sample.target.answer.number is not None


def score_numeric_type(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return `score_numeric`, and its MRA under the question's type as well."""
    _, target, _ = single_answer(unit, predictions)
    scores = score_numeric(unit, predictions)
    return {target.extra["type"]: scores["MRA"], **scores}


NUMERIC = Protocol(
    name="vsi/numeric",
    score=score_numeric_type,
    reads=has_number,
    metrics=(
        *(metric for metric in vsi.METRICS if metric.name in vsi.NUMBER_TYPES),
        Metric("MRA", about="mean relative accuracy over questions"),
        Metric("relative accuracy", about="max(0, 1 - |p - y| / |y|)"),
    ),
    headline="MRA",
    ceiling=Ceiling(value=1.0),
    about="ours, after Video-STR's Table 4: the questions for a number, each counting once",
)
OFFICIAL = Protocol(
    name="vsi/official",
    score=score_official,
    reads=read_by(reads_official),
    metrics=vsi.METRICS,
    headline="overall",
    ceiling=Ceiling(value=1.0),
    about="thinking-in-space's vsibench/utils.py: the text before the first space counts",
)
PROTOCOLS = {
    **with_whole_responses(OFFICIAL),
    "vsi/lmms2026": replace(
        OFFICIAL,
        name="vsi/lmms2026",
        score=score_lmms2026,
        reads=read_by(reads_lmms2026),
        about="lmms-eval since 2026: a number is found anywhere in the response",
    ),
    "vsi/strict": replace(
        OFFICIAL,
        name="vsi/strict",
        score=score_strict,
        reads=read_by(reads_strict),
        about="only a letter that the response states, or the only number in it, counts",
    ),
    "vsi/numeric": NUMERIC,
}
