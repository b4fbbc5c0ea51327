r"""TempCompass: action, direction, speed, order and change, asked in four formats.

`questions/<format>.json`, and the video `videos/<video>.mp4`:

    {"1034419625": {"action": [{"question": "What is the man doing?\nA. dunking\nB. dribbling",
                                "answer": "A. dunking"}]}}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import folder
from harness.spec import Spec
from harness.task import Problem, Task, choose
from harness.tasks.spatial.prompts import templates
from harness.tasks.spatial.videos import Shown
from harness.tasks.tempcompass.records import FORMATS, Format, Listing, Record, read, video_path
from harness.tasks.tempcompass.scoring import PROTOCOLS, bare, told
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id
from harness.video import video_file, video_or_lost

__all__ = ["PROTOCOLS", "tempcompass"]

FIX = "`harness list tasks tempcompass` says where the data is had."

Split = Literal["multi-choice", "yes_no", "caption_matching", "captioning", "all"]
Prompt = Literal["question", "official"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the questions and the videos lie, and how they are asked."""

    listing: Listing
    prompt: Prompt
    shown: Shown


def tempcompass(
    data: Path,
    *,
    split: Split = "multi-choice",
    prompt: Prompt = "official",
    frames: int | Spec | None = None,
    protocol: str = "tempcompass/rules",
) -> Task:
    """One sample a question; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: One of the four formats, or `all`.
        prompt: `official`: the official text, answered by text; `question`: multiple-choice
            questions with their options apart, answered by a letter.
        frames: A rule for the frames that a video consists of; all, without, of which a model shows
            what its own rule says.
        protocol: `tempcompass/rules` (not for captions), `tempcompass/judged` or
            `tempcompass/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    formats: tuple[Format, ...] = FORMATS if split == "all" else (split,)
    if "captioning" in formats and protocol == "tempcompass/rules":
        raise UsageError(
            f"tempcompass(split={split})", found=protocol,
            expected="protocol=tempcompass/judged with --judge, or tempcompass/strict, for what "
            "no rule can score",
        )  # fmt: skip
    place = folder(data / "tempcompass", fix=FIX)
    listing = Listing(place, formats)
    if missing := [one for one in formats if not listing.of(one)]:
        raise DataError(f"folder {place}", expected=f"questions/{missing[0]}.json or "
                        f"{missing[0]}/test-*.parquet", found="no such file", fix=FIX)  # fmt: skip
    forms = dict.fromkeys(_form(one, prompt) for one in formats)
    return Task(
        name="tempcompass",
        version=1,
        split=split,
        forms=tuple(forms),
        protocol=scoring,
        samples=partial(_samples, Source(listing, prompt, Shown(frames))),
        annotations=listing.files,
        check=partial(_check, listing),
        arguments={
            "split": split, "prompt": prompt, "frames": str(Shown(frames)), "protocol": protocol,
        },
    )  # fmt: skip


def _form(format: Format, prompt: Prompt) -> AnswerForm:
    apart = format == "multi-choice" and prompt == "question"
    return AnswerForm.CHOICE if apart else AnswerForm.TEXT


def _samples(source: Source) -> Iterator[Sample]:
    for record in read(source.listing):
        if isinstance(record, DataError):
            raise record
        yield _sample(record, source)


def _sample(record: Record, source: Source) -> Sample:
    form = _form(record.format, source.prompt)
    if form is AnswerForm.CHOICE:
        text = record.question.split("\n")[0]
        answer = Answer(choice=record.answer.strip()[0])
    else:
        text = record.question + templates("harness.tasks.tempcompass")[record.format]
        answer = Answer(text=told(record) if record.format == "captioning" else record.answer)
    path = video_path(source.listing.place, record.video)
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id), text=text, forms=(form,),
            media=(video_or_lost(path, choose=source.shown.choose),),
            options=tuple(map(bare, record.options)) if form is AnswerForm.CHOICE else (),
        ),
        target=Target(answer=answer, extra={"record": record}),
        group=record.video,
        categories={"format": record.format, "aspect": record.aspect}
        | ({"type": record.kind} if record.kind else {}),
    )  # fmt: skip


def _check(listing: Listing) -> Iterator[Problem]:
    looked_at: set[str] = set()
    told = str(listing.files[0])
    try:
        for record in read(listing):
            if isinstance(record, DataError):
                yield Problem(told, str(record))
            elif record.video not in looked_at:
                looked_at.add(record.video)
                yield from _look(video_path(listing.place, record.video))
    except DataError as error:
        yield Problem(told, str(error))


def _look(path: Path) -> Iterator[Problem]:
    try:
        video_file(path)
    except DataError as error:
        yield Problem(str(path), str(error))
