"""V-STaR: what happens in a video, when and where, asked in two chains of questions.

There are five questions per item: what, when and where (chain 1), where and when (chain 2). Each
contains the answers to the questions before it in its chain. An item of `V_STaR_test.json` belongs
to the video `videos/<vid>.mp4`, which may also lie in a folder of `videos`:

    {"vid": "abc", "domain": "Sports", "fps": 30.0, "width": 640, "height": 360,
     "frame_count": 900, "question": "What does the man throw?", "answer": "a frisbee",
     "temporal_question": "When does …?", "timestamps": [3.2, 7.9],
     "spatial_question": "Where is …?", "spatial_question_2": "Where is …?",
     "bboxes": [{"timestamp": 4, "frame_index": 120, "xmin": 10, "ymin": 20, "xmax": 90,
                 "ymax": 200}]}

The boxes are in pixels of the video.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.foreign import listed
from harness.frames import seconds
from harness.judging import rubric as find_rubric
from harness.layout import file, folder, path_inside
from harness.media import Media
from harness.task import Problem, Task, choose
from harness.tasks.qa.prompts import templates
from harness.tasks.qa.tables import check_each, sound
from harness.tasks.qa.videos import open_video, video_or_lost
from harness.tasks.v_star.boxes import boxes_response
from harness.tasks.v_star.masks import box_mask
from harness.tasks.v_star.records import Record, read_records
from harness.tasks.v_star.scoring import PROTOCOLS, with_rubric
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id

FIX = "`harness list tasks v_star` prints the source of the data."
EACH_SECOND = partial(seconds, every=1.0, max_frames=1_000_000)
"""One frame per second, as in the official demo: frame k of a track is second k."""

Prompt = Literal["question", "official"]
Where = Literal["track", "text"]
STEPS = ("what", "when", "where", "where2", "when2")  # questions of an item, chain 1 and 2


@dataclass(frozen=True, slots=True)
class Source:
    """Paths of the items and videos, and the form of questions and answers."""

    path: Path
    videos: Path
    prompt: Prompt
    where: Where


def v_star(
    data: Path,
    *,
    split: Literal["test"] = "test",
    protocol: str = "vstar/official",
    prompt: Prompt = "question",
    where: Where = "track",
    rubric: str = "graded",
) -> Task:
    """Five samples per item, which are scored together; statistics cluster by video.

    Args:
        protocol: `vstar/official` or `vstar/strict`.
        prompt: `official`: the official prompts; `question`: their content without instructions
            on the form of the answer.
        where: `track`: one box per second; `text`: the official response, JSON with boxes by
            second, in pixels of the original video.
        rubric: Rubric for the answer to "what": its name, or a TOML file.
    """
    assert find_rubric(rubric).grade_scale(), "grade_scale raises for a rubric without grades"
    scoring = with_rubric(choose("protocol", PROTOCOLS, protocol), rubric)
    root = folder(data / "v_star", fix=FIX)
    path = root / "V_STaR_test.json"
    source = Source(file(path, fix=FIX), root / "videos", prompt, where)
    form = AnswerForm.BOX_TRACK if where == "track" else AnswerForm.TEXT
    return Task(
        name="v_star",
        version=3,
        split=split,
        forms=tuple(dict.fromkeys((AnswerForm.TEXT, AnswerForm.INTERVAL, form))),
        protocol=scoring,
        samples=partial(_samples, source),
        annotations=(path,),
        check=partial(_check, source),
        arguments={
            "split": split,
            "protocol": protocol,
            "prompt": prompt,
            "where": where,
            "rubric": rubric,
        },
    )


def _samples(source: Source) -> Iterator[Sample]:
    """Yield the five samples of each item that can be read."""
    files = Files(source.videos)
    for record in sound(read_records(source.path)):
        media = _media(record, files, source.videos)
        for step in STEPS:
            yield _sample(record, step, media, source)


@dataclass(frozen=True)
class Files:
    """Index of the videos, and of the folders of frames, anywhere below a folder."""

    videos: Path

    def find(self, name: str) -> Path | None:
        """Return the path of a video by its name; None if there is none.

        Folders are searched only if the video is not directly in `videos`.
        """
        path = path_inside(self.videos, f"{name}.mp4")
        return path if path.is_file() else self._all_files.get(name)

    @cached_property
    def _all_files(self) -> Mapping[str, Path]:
        """All videos and folders below `videos`, by name without suffix; the first of a name."""
        by_stem: dict[str, Path] = {}
        for path in listed(self.videos, "**/*") if self.videos.is_dir() else ():
            if path.suffix.lower() == ".mp4":
                by_stem.setdefault(path.stem, path)
            elif path.is_dir():
                by_stem.setdefault(path.name, path)
        return by_stem


def _media(record: Record, files: Files, videos: Path) -> Media:
    """Open an item's video at one frame per second; a stand-in if it is missing or damaged."""
    path = files.find(record.video)
    folder_path = videos if path is None else path.parent
    name = f"{record.video}.mp4" if path is None else path.name
    return video_or_lost(
        (folder_path,), name, EACH_SECOND, size=record.size, frames=max(1, round(record.length))
    )


def _sample(record: Record, step: str, media: Media, source: Source) -> Sample:
    """Return the sample of one of an item's five questions."""
    answer, form = _ground_truth(record, step, media, source.where)
    return Sample(
        id=f"{record.id}/{step}",
        query=Query(
            id=query_id(f"{record.id}/{step}"),
            text=_text(record, step, source),
            media=(media,),
            forms=(form,),
        ),
        target=Target(
            answer=answer,
            extra={
                "step": step,
                "question": record.question,
                "interval": record.interval,
                "boxes": record.boxes,
            },
        ),
        unit=record.id,
        group=record.video,
        categories={"domain": record.domain, "duration": record.duration},
    )


def _ground_truth(
    record: Record, step: str, media: Media, where: Where
) -> tuple[Answer, AnswerForm]:
    """Return the right answer to a question, and the form that a model is asked for."""
    if step == "what":
        return Answer(text=record.answer), AnswerForm.TEXT
    if step in ("when", "when2"):
        return Answer(interval=record.interval), AnswerForm.INTERVAL
    if where == "text":
        return Answer(text=boxes_response(record.boxes)), AnswerForm.TEXT
    track = record.track(len(media))
    masks = tuple(box_mask(box, media.size) for box in track)
    return Answer(box_track=track, masks=masks), AnswerForm.BOX_TRACK


def _text(record: Record, step: str, source: Source) -> str:
    """Return the text of a question; a later one of a chain contains the answers before it."""
    spatial = step in ("where", "where2")
    prompts: Any = templates("harness.tasks.v_star")
    wording = prompts["official" if spatial and source.where == "text" else source.prompt][step]
    questions = {
        "what": record.question,
        "where": record.spatial_question,
        "where2": record.spatial_question_2,
    }
    whole_seconds = list(record.seconds)
    return str(
        wording.format(
            question=questions.get(step, record.temporal_question),
            length=record.length,
            seconds=whole_seconds,
            first=whole_seconds[0] if whole_seconds else 0,
            last=whole_seconds[-1] if whole_seconds else 0,
            count=len(record.boxes),
            width=record.size[0],
            height=record.size[1],
            boxes=[list(box) for _, box in record.boxes],
        )
    )


def _check(source: Source) -> Iterator[Problem]:
    """Yield the errors of items, and the faults of their videos."""
    files = Files(source.videos)

    def look(record: Record) -> Iterator[Problem]:
        if wrong := _fault(record, files, source.videos):
            yield Problem(record.video, wrong)

    return check_each(read_records(source.path), str(source.path), look)


def _fault(record: Record, files: Files, videos: Path) -> str | None:
    """Return the fault of an item's video, if any: missing, damaged, or of another size."""
    path = files.find(record.video)
    if path is None:
        return f"expected {record.video}.mp4 in {videos} or a folder in it, found none"
    try:
        size = open_video(path, None).size
    except DataError as error:
        return str(error)
    if size != record.size:
        width, height = record.size
        return f"expected {width} × {height} pixels, as its item says, found {size[0]} × {size[1]}"
    return None
