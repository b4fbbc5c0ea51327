"""SPAR-Bench: twenty spatial tasks, in one image or in several views of a room.

A row; its options, where it has any, are in its question:

    {"id": 12, "img_type": "single_view", "task": "depth_prediction_oc", "source": "scannet",
     "image": [{"bytes": …}], "question": "With the counter (red point) having a depth of 1.6
     meters, determine the depth of towel (blue point) …", "answer": "1.5"}
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.layout import folder
from harness.media import Media
from harness.metrics import spar
from harness.scores import Mean, Scores
from harness.task import Ceiling, Protocol, Task, choose, ground_truth, single_answer
from harness.tasks.qa.answer_text import answer_text, read_by
from harness.tasks.qa.images import image_problems, open_images
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, form_of, question_task
from harness.tasks.refer.copies import parquet_files
from harness.tasks.spar_bench.records import BOXES, read_questions
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks spar_bench` prints the source of the data."
FOLDERS = {"full": "SPAR-Bench", "tiny": "SPAR-Bench-Tiny"}
"""The hub's repositories, by the name that `split=` takes."""

Prompt = Literal["question", "official"]
KINDS = {AnswerForm.NUMBER: "number", AnswerForm.TEXT: "view", AnswerForm.CHOICE: "choice"}


def spar_bench(
    data: Path,
    *,
    split: Literal["full", "tiny"] = "full",
    protocol: str = "spar/official",
    prompt: Prompt = "question",
) -> Task:
    """One sample a question; statistics cluster by its first image.

    Args:
        split: `full`, or `tiny` with fifty questions a task.
        protocol: `spar/official` or `spar/strict`.
        prompt: `question`: the question, which holds its options; `official`: all of the
            official text.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    place = folder(data / "spar_bench" / FOLDERS[split], fix=FIX)
    files = tuple(parquet_files(place, "test", fix=FIX))
    layout = QuestionFormat(
        files=files,
        read=partial(read_questions, files),
        open=open_images,
        problems=image_problems,
        text=partial(_text, prompt),
    )
    return question_task(
        layout,
        "spar_bench",
        version=3,
        protocol=scoring,
        split=split,
        arguments={"prompt": prompt},
        forms=(AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT),
    )


def _text(prompt: Prompt, question: Question, media: Media) -> str:
    words, boxes = templates("harness.tasks.spar_bench"), question.extra["task"] in BOXES
    if prompt == "question":
        return words["question_boxes" if boxes else "question"].format(question=question.text)
    kind = KINDS[form_of(question)]
    return words["official_boxes" if boxes else f"official_{kind}"].format(question=question.text)


def _said(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> tuple[str, str, str | None]:
    """Return the task, the true answer as it is in the file, and the model's answer."""
    _, target, prediction = single_answer(unit, predictions)
    return target.extra["task"], target.extra["answer"], answer_text(prediction)


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`sparbench_process_results`, by which an empty response to a choice is right."""
    task, truth, text = _said(unit, predictions)
    if text is None:
        value = 0.0
    elif task in spar.LEVELS["Low"]:
        value = spar.number_score(text, float(truth), task=task)
    elif task == spar.VIEW_CHANGE:
        value = spar.view_change_score(text, truth)
    else:
        value = spar.choice_score(text, truth)
    return {task: Mean(value)}


def score_strict(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Score only what the response states; errors are relative to the ground truth."""
    task, truth, text = _said(unit, predictions)
    if text is None:
        value = 0.0
    elif task in spar.LEVELS["Low"]:
        value = spar.strict_number_score(text, float(truth), unit[0].query.text)
    elif task == spar.VIEW_CHANGE:
        value = spar.strict_view_change_score(text, truth)
    else:
        value = spar.strict_choice_score(text, truth)
    return {task: Mean(value)}


def _task_of(sample: Sample) -> str:
    return str(ground_truth(sample).extra["task"])


def _metric_description(name: str) -> str:
    """Describe the number of a task."""
    if name in spar.LEVELS["Low"]:
        return "mean relative accuracy"
    others = {
        spar.VIEW_CHANGE: "mean over five axes of MRA",
        "Middle, as printed": "what the official code prints: without the view change",
    }
    return others.get(name, "accuracy")


METRICS = tuple(
    metric if metric.about else replace(metric, about=_metric_description(metric.name))
    for metric in spar.METRICS
)
OFFICIAL = Protocol(
    name="spar/official",
    score=score_official,
    reads=read_by(lambda sample, text: spar.read_official(text, task=_task_of(sample))),
    metrics=METRICS,
    headline="overall",
    ceiling=Ceiling(value=1.0),
    about="sparbench/utils.py with its defects: an empty response to a choice is right",
)
PROTOCOLS = {
    "spar/official": OFFICIAL,
    "spar/strict": replace(
        OFFICIAL,
        name="spar/strict",
        score=score_strict,
        reads=read_by(
            lambda sample, text: spar.read_strict(
                text, task=_task_of(sample), question=sample.query.text
            )
        ),
        about="only a stated letter or the only number counts; errors relative to the ground truth",
    ),
}
