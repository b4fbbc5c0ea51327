r"""TempCompass: action, direction, speed, order and change, in four formats of questions.

`questions/<format>.json` has the questions by video and aspect, about the video
`videos/<video>.mp4`:

    {"1034419625": {"action": [{"question": "What is the man doing?\nA. dunking\nB. dribbling",
                                "answer": "A. dunking"}]}}
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import folder
from harness.spec import Spec
from harness.task import Task, choose
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.questions import Question
from harness.tasks.qa.task import QuestionFormat, Videos, question_task
from harness.tasks.tempcompass.records import FORMATS, Format, Listing, Record, read_records
from harness.tasks.tempcompass.scoring import PROTOCOLS, option_text, right_caption
from harness.types import Answer, AnswerForm

FIX = "`harness list tasks tempcompass` prints the source of the data."

Split = Literal["multi-choice", "yes_no", "caption_matching", "captioning", "all"]
Prompt = Literal["question", "official"]


def tempcompass(
    data: Path,
    *,
    split: Split = "multi-choice",
    prompt: Prompt = "official",
    frames: int | Spec | None = None,
    protocol: str = "tempcompass/rules",
) -> Task:
    """One sample per question; statistics cluster by video.

    Args:
        split: One of the four formats, or `all`.
        prompt: `official`: the official text, answered by text; `question`: multiple-choice
            questions with their options apart, answered by a letter.
        frames: Rule of `harness.frames` that selects the frames of each video, such as 30 or
            `fps(rate=2,max_frames=64)`. By default all are offered, and the model's own rule
            selects among them.
        protocol: `tempcompass/rules` (not for captions), `tempcompass/judged` or
            `tempcompass/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    formats: tuple[Format, ...] = FORMATS if split == "all" else (split,)
    if "captioning" in formats and protocol == "tempcompass/rules":
        raise UsageError(
            f"tempcompass(split={split})",
            found=protocol,
            expected="protocol=tempcompass/judged with --judge, or tempcompass/strict, for what "
            "no rule can score",
        )
    root = folder(data / "tempcompass", fix=FIX)
    listing = Listing(root, formats)
    if missing := [name for name in formats if not listing.files_of(name)]:
        raise DataError(
            f"folder {root}",
            expected=f"questions/{missing[0]}.json or {missing[0]}/test-*.parquet",
            found="no such file",
            fix=FIX,
        )
    videos = Videos((root / "videos",), frames, ("{}.mp4",))
    question_format = QuestionFormat(
        files=listing.files,
        read=partial(_questions, listing, prompt),
        open=videos.open,
        problems=videos.problems,
    )
    return question_task(
        question_format,
        "tempcompass",
        version=3,
        protocol=scoring,
        split=split,
        forms=tuple(dict.fromkeys(_form(name, prompt) for name in formats)),
        arguments={"prompt": prompt, "frames": str(videos.selection)},
    )


def _form(format: Format, prompt: Prompt) -> AnswerForm:
    """Return the form of answer: a choice for multiple-choice questions with options apart."""
    has_options = format == "multi-choice" and prompt == "question"
    return AnswerForm.CHOICE if has_options else AnswerForm.TEXT


def _questions(listing: Listing, prompt: Prompt) -> Iterator[Question | DataError]:
    for record in read_records(listing):
        yield record if isinstance(record, DataError) else _question(record, prompt)


def _question(record: Record, prompt: Prompt) -> Question:
    """Return a question with its options apart, or else within the official text."""
    has_options = _form(record.format, prompt) is AnswerForm.CHOICE
    if has_options:
        text = record.question.split("\n")[0]
        answer = Answer(choice=record.answer.strip()[0])
    else:
        text = record.question + templates("harness.tasks.tempcompass")[record.format]
        answer = Answer(
            text=right_caption(record) if record.format == "captioning" else record.answer
        )
    return Question(
        id=record.id,
        text=text,
        media=record.video,
        answer=answer,
        group=record.video,
        options=tuple(map(option_text, record.options)) if has_options else (),
        categories={"format": record.format, "aspect": record.aspect, "type": record.aspect_type},
        extra={"record": record},
    )
