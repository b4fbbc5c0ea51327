"""SPAR-Bench: twenty spatial tasks about one image, or several views of a room.

A row (its options, if it has any, are in its question):

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
from harness.tasks.spar_bench.records import BOX_TASKS, read_questions
from harness.types import AnswerForm, Prediction, Sample

FIX = "`harness list tasks spar_bench` prints the source of the data."
FOLDERS = {"full": "SPAR-Bench", "tiny": "SPAR-Bench-Tiny"}
"""Repositories on the Hugging Face Hub, by split."""

Prompt = Literal["question", "official"]
PROMPT_ENDINGS = {AnswerForm.NUMBER: "number", AnswerForm.TEXT: "view", AnswerForm.CHOICE: "choice"}


def spar_bench(
    data: Path,
    *,
    split: Literal["full", "tiny"] = "full",
    protocol: str = "spar/official",
    prompt: Prompt = "question",
) -> Task:
    """One sample per question; statistics cluster by its first image.

    Args:
        split: `full`, or `tiny` with fifty questions a task.
        protocol: `spar/official` or `spar/strict`.
        prompt: `question`: the question, which holds its options; `official`: all of the
            official text.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    root = folder(data / "spar_bench" / FOLDERS[split], fix=FIX)
    files = tuple(parquet_files(root, "test", fix=FIX))
    question_format = QuestionFormat(
        files=files,
        read=partial(read_questions, files),
        open=open_images,
        problems=image_problems,
        text=partial(_text, prompt),
    )
    return question_task(
        question_format,
        "spar_bench",
        version=3,
        protocol=scoring,
        split=split,
        arguments={"prompt": prompt},
        forms=(AnswerForm.CHOICE, AnswerForm.NUMBER, AnswerForm.TEXT),
    )


def _text(prompt: Prompt, question: Question, media: Media) -> str:
    """Return the text of a question in the chosen prompt, by its task and form of answer."""
    prompts, has_boxes = templates("harness.tasks.spar_bench"), question.extra["task"] in BOX_TASKS
    if prompt == "question":
        name = "question_boxes" if has_boxes else "question"
    else:
        name = f"official_{'boxes' if has_boxes else PROMPT_ENDINGS[form_of(question)]}"
    return prompts[name].format(question=question.text)


def _parts(
    unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> tuple[str, str, str | None]:
    """Return (task, true answer as written in the file, text of the response)."""
    _, target, prediction = single_answer(unit, predictions)
    return target.extra["task"], target.extra["answer"], answer_text(prediction)


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """Return the score of `sparbench_process_results`, under the name of the task.

    It counts an empty response to a question with options as right.
    """
    task, truth, text = _parts(unit, predictions)
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
    """Return the score of what the response states, under the name of the task.

    Errors of numbers are relative to the true number.
    """
    task, truth, text = _parts(unit, predictions)
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
    """Return the name of a sample's task among the twenty."""
    return str(ground_truth(sample).extra["task"])


def _metric_description(name: str) -> str:
    """Return the description of a metric that has none of its own."""
    if name in spar.LEVELS["Low"]:
        return "mean relative accuracy"
    descriptions = {
        spar.VIEW_CHANGE: "mean over five axes of MRA",
        "Middle, as printed": "what the official code prints: without the view change",
    }
    return descriptions.get(name, "accuracy")


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
