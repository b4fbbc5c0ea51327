"""LongVideoBench: which option fits the moment that a question refers to, with subtitles.

A record of `lvb_val.json`, the video `videos/<video_path>` and its subtitles:

    {"id": "86CxyhFV9MI_0", "video_path": "86CxyhFV9MI.mp4", "subtitle_path":
     "86CxyhFV9MI_en.json", "question": "In the video, which …?", "candidates": ["…", …],
     "correct_choice": 1, "duration": 189.0, "duration_group": 600, "question_category": "TOS",
     "topic_category": "NP-News-Programs", "starting_timestamp_for_subtitles": 0}
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import DataError, UsageError
from harness.layout import folder
from harness.media import Media
from harness.metrics.choices import longvideobench_choice, seeded_choice
from harness.scores import Mean, Metric, Scores
from harness.spec import Spec
from harness.store.atomic import write_json
from harness.task import Ceiling, Problem, Protocol, Task, choose
from harness.tasks.long_video_bench.records import Record, Split, files, read
from harness.tasks.spatial.prompts import templates
from harness.tasks.spatial.said import said
from harness.tasks.spatial.videos import Shown
from harness.tasks.video_qa.options import LETTERS, lettered, reply, strictly
from harness.tasks.video_qa.subtitles import interleaved, listed
from harness.types import Answer, AnswerForm, Prediction, Query, Sample, Target, query_id
from harness.video import video_file, video_or_lost

FIX = "`harness list tasks long_video_bench` says where the data is had."
SUBMISSION = "submission.json"

Subtitles = Literal["none", "interleaved", "all"]
Prompt = Literal["question", "official"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the questions and the videos lie, and how they are asked."""

    place: Path
    files: tuple[Path, ...]
    split: Split
    subtitles: Subtitles
    prompt: Prompt
    shown: Shown


def long_video_bench(
    data: Path,
    *,
    split: Split = "val",
    subtitles: Subtitles = "none",
    prompt: Prompt = "question",
    frames: int | Spec | None = None,
    protocol: str = "lvb/official",
) -> Task:
    """One sample a question; statistics cluster by video.

    Args:
        data: The folder that holds one folder a benchmark.
        split: `test` has no truth: evaluating it writes the file that the organisers take.
        subtitles: `none`; `interleaved`: between the frames that `frames` chooses, as officially;
            `all`: all of them before the question.
        prompt: `question`: options apart; `official`: all of the official text, which asks for a
            letter as text.
        frames: A rule for the frames that a video consists of; all, without, of which a model shows
            what its own rule says. The official one is `long_video_bench`, every so many frames, at
            most 256.
        protocol: `lvb/official` or `lvb/strict`.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if subtitles == "interleaved" and frames is None:
        raise UsageError("long_video_bench(subtitles=interleaved)", found="none", expected="frames="
                         "…, the rule for the frames between which they stand")  # fmt: skip
    place = folder(data / "long_video_bench", fix=FIX)
    found = files(place, split)
    if not found:
        raise DataError(f"folder {place}", expected=f"the questions of the split {split}",
                        found="no such file", fix=FIX)  # fmt: skip
    source = Source(place, found, split, subtitles, prompt, Shown(frames))
    return Task(
        name="long_video_bench",
        version=1,
        split=split,
        forms=(AnswerForm.TEXT if prompt == "official" else AnswerForm.CHOICE,),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=found,
        check=partial(_check, source),
        submission=write_submission if split == "test" else None,
        arguments={
            "split": split, "subtitles": subtitles, "prompt": prompt,
            "frames": str(source.shown), "protocol": protocol,
        },
    )  # fmt: skip


def _samples(source: Source) -> Iterator[Sample]:
    for record in read(source.place, source.files, source.split):
        if isinstance(record, DataError):
            raise record
        yield _sample(record, source)


def _sample(record: Record, source: Source) -> Sample:
    official = source.prompt == "official"
    media = video_or_lost(record.video, choose=source.shown.choose)
    return Sample(
        id=record.id,
        query=Query(
            id=query_id(record.id), text=_text(record, source, media), media=(media,),
            forms=(AnswerForm.TEXT if official else AnswerForm.CHOICE,),
            options=() if official else record.options,
        ),
        target=_target(record, official=official),
        group=record.video.stem,
        categories=record.categories,
    )  # fmt: skip


def _target(record: Record, *, official: bool) -> Target | None:
    letter = record.letter
    if letter is None:
        return None
    return Target(
        answer=Answer(text=letter) if official else Answer(choice=letter),
        extra={"letter": letter, "letters": LETTERS[: len(record.options)], "id": record.id},
    )


def _text(record: Record, source: Source, media: Media) -> str:
    wording = templates("harness.tasks.long_video_bench")
    text = wording[source.prompt].format(
        question=record.question, options="\n".join(lettered(record.options))
    )
    if source.subtitles == "none":
        return text
    lines = listed(record.subtitles, start=record.starts, duration=record.duration)
    if source.subtitles == "all":
        return "\n".join([*(line.text for line in lines), text])
    return "\n".join([*interleaved(media.times() if media.fault is None else (), lines), text])


def _check(source: Source) -> Iterator[Problem]:
    looked_at: set[Path] = set()
    told = str(source.files[0])
    try:
        for record in read(source.place, source.files, source.split):
            if isinstance(record, DataError):
                yield Problem(told, str(record))
            else:
                yield from _look(record, source, looked_at)
    except DataError as error:
        yield Problem(told, str(error))


def _look(record: Record, source: Source, looked_at: set[Path]) -> Iterator[Problem]:
    try:
        if record.video not in looked_at:
            looked_at.add(record.video)
            video_file(record.video)
        if source.subtitles != "none":
            listed(record.subtitles, start=record.starts, duration=record.duration)
    except DataError as error:
        yield Problem(str(record.video), str(error))


def score_official(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
    """`longvideobench_process_results`: an unreadable reply gets an option at random, from its id.

    A prediction without a reply is wrong.
    """
    (sample,), (prediction,) = unit, predictions
    assert sample.target is not None, "the truth is public"
    extra = sample.target.extra
    anything, letter = reply(prediction, longvideobench_choice)
    if anything and letter is None:
        letter = seeded_choice(extra["id"], extra["letters"])
    return {"accuracy": Mean(float(letter == extra["letter"]))}


def write_submission(predicted: Iterable[tuple[Sample, Prediction]], folder: Path) -> Path:
    """The replies by id, as lmms-eval's `longvideobench_test_for_submission.json` has them."""
    replies = {sample.id: said(prediction) or "" for sample, prediction in predicted}
    write_json(folder / SUBMISSION, replies)
    return folder / SUBMISSION


ACCURACY = "share of questions answered with the right letter"
PROTOCOLS = {
    "lvb/official": Protocol(
        name="lvb/official",
        score=score_official,
        metrics=(Metric("accuracy", about=ACCURACY),),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="lmms-eval's reader: the first of A to E counts; none gets an option at random",
    ),
    "lvb/strict": Protocol(
        name="lvb/strict",
        score=strictly,
        metrics=(Metric("accuracy", about=ACCURACY),),
        headline="accuracy",
        ceiling=Ceiling(value=1.0),
        about="only a letter that the reply states counts",
    ),
}
