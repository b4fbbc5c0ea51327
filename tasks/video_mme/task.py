"""Video-MME: 2,700 questions with four options on 900 videos of 11 seconds to an hour.

A row of the hub's table, and the video `data/<videoID>.mp4`:

    {"video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Geography",
     "videoID": "fFjv93ACGo8", "question_id": "001-1", "task_type": "Counting Problem",
     "question": "How many …?", "options": ["A. 1.", "B. 2.", …], "answer": "C"}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.frames import frame_rate
from harness.layout import folder
from harness.media import Media
from harness.metrics.choices import video_mme_choice
from harness.scores import Metric, Ratio, Scores
from harness.spec import Spec
from harness.task import Ceiling, Problem, Protocol, Task, choose
from harness.tasks.spatial.prompts import templates
from harness.tasks.spatial.videos import Shown
from harness.tasks.video_mme.records import Record, files, read, subtitle_path, video_path
from harness.tasks.video_qa.options import LETTERS, lettered, reply, strictly
from harness.tasks.video_qa.subtitles import at_frames, spoken, srt
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id
from harness.video import video_file, video_or_lost

FIX = "`harness list tasks video_mme` says where the data is had."
NONE = "No subtitles available"

Duration = Literal["all", "short", "medium", "long"]
Subtitles = Literal["none", "shown", "all"]
Prompt = Literal["question", "official"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the questions and the videos lie, and how they are asked."""

    place: Path
    files: tuple[Path, ...]
    duration: Duration
    subtitles: Subtitles
    prompt: Prompt
    shown: Shown


def video_mme(
    data: Path,
    *,
    split: Literal["test"] = "test",
    duration: Duration = "all",
    subtitles: Subtitles = "none",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
    protocol: str = "videomme/official",
) -> Task:
    """One sample a question; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: There is one.
        duration: `all`, or only the short, medium or long videos.
        subtitles: `none`; `shown`: of the frames that `frames` chooses, as officially; `all`.
        prompt: `question`: options apart; `official`: all of the official text, which asks for
            a letter as text.
        frames: A rule for the frames that a video consists of; all, without, of which a model shows
            what its own rule says.
        protocol: `videomme/official` or `videomme/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if subtitles == "shown" and frames is None:
        raise UsageError("video_mme(subtitles=shown)", expected="frames=…, the rule for the frames "
                         "whose subtitles are shown", found="none")  # fmt: skip
    place = folder(data / "video_mme", fix=FIX)
    found = files(place)
    if not found:
        raise DataError(f"folder {place}", expected="videomme/test-*.parquet or videomme.json",
                        found="no such file", fix=FIX)  # fmt: skip
    source = Source(place, found, duration, subtitles, prompt, Shown(frames))
    return Task(
        name="video_mme",
        version=1,
        split=split,
        forms=(AnswerForm.TEXT if prompt == "official" else AnswerForm.CHOICE,),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=found,
        check=partial(_check, source),
        arguments={
            "split": split, "duration": duration, "subtitles": subtitles, "prompt": prompt,
            "frames": str(source.shown), "protocol": protocol,
        },
    )  # fmt: skip


def _samples(source: Source) -> Iterator[Sample]:
    for record in read(source.files):
        if isinstance(record, DataError):
            raise record
        if source.duration in ("all", record.duration):
            yield _sample(record, source)


def _sample(record: Record, source: Source) -> Sample:
    official = source.prompt == "official"
    media = video_or_lost(video_path(source.place, record.video), choose=source.shown.choose)
    letters = LETTERS[: len(record.options)]
    answer = Answer(text=record.answer) if official else Answer(choice=record.answer)
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id), text=_text(record, source, media), media=(media,),
            forms=(AnswerForm.TEXT if official else AnswerForm.CHOICE,),
            options=() if official else record.options,
        ),
        target=Target(answer=answer, extra={"letter": record.answer, "letters": letters}),
        group=record.video,
        categories=record.categories(),
    )  # fmt: skip


def _text(record: Record, source: Source, media: Media) -> str:
    wording = templates("harness.tasks.video_mme")
    text = wording[source.prompt].format(
        question=record.question, options="\n".join(lettered(record.options))
    )
    if source.subtitles == "none":
        return text
    told = _subtitles(record, source, media) or NONE
    return wording["subtitles"].format(subtitles=told) + text


def _subtitles(record: Record, source: Source, media: Media) -> str:
    path = subtitle_path(source.place, record.video)
    if not path.is_file():  # 156 of the 900 videos have none
        return ""
    lines = srt(path)
    if source.subtitles == "shown" and media.fault is None:
        whole = video_file(video_path(source.place, record.video))
        lines = at_frames(lines, media.times(), frame_rate(whole.times()))
    return "\n".join(map(spoken, lines))


def _check(source: Source) -> Iterator[Problem]:
    looked_at: set[str] = set()
    listed = str(source.files[0])
    try:
        for record in read(source.files):
            if isinstance(record, DataError):
                yield Problem(listed, str(record))
            elif record.video not in looked_at and source.duration in ("all", record.duration):
                looked_at.add(record.video)
                yield from _look(record, source)
    except DataError as error:
        yield Problem(listed, str(error))


def _look(record: Record, source: Source) -> Iterator[Problem]:
    path, lines = video_path(source.place, record.video), subtitle_path(source.place, record.video)
    try:
        video_file(path)
        if source.subtitles != "none" and lines.is_file():
            srt(lines)
    except DataError as error:
        yield Problem(str(path), str(error))


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`eval_your_results.py`: an unreadable reply counts nowhere; a missing one is wrong."""
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the truth is public"
    anything, letter = reply(prediction, video_mme_choice)
    counted = float(letter is not None or not anything)
    return {"accuracy": Ratio(float(letter == sample.target.extra["letter"]), counted)}


ACCURACY = "share of questions answered with the right letter"
PROTOCOLS = {
    "videomme/official": Protocol(
        name="videomme/official",
        score=score_official,
        metrics=(Metric("accuracy", about=f"{ACCURACY}, of those with a readable reply"),),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="eval_your_results.py: the first of A to D counts; unreadable replies are left out",
    ),
    "videomme/strict": Protocol(
        name="videomme/strict",
        score=strictly,
        metrics=(Metric("accuracy", about=ACCURACY),),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="only a letter that the reply states counts, and every question",
    ),
}
